// SPDX-License-Identifier: Apache-2.0
/* Sums of what was used. */
#include "store/test-rig.h"

static void see_usage(void *data, const struct store_usage *row)
{
	uint64_t *sums = data;

	assert_string_equal(row->tenant, "a");
	if (strcmp(row->period, "2026-07") != 0)
		return;
	sums[0] += row->sessions;
	sums[1] += row->commands;
	sums[2] += row->command_ms;
}

static void usage_adds_up_over_restarts_and_months_stay_apart(void **state)
{
	struct fixture *f = *state;
	const struct store_usage one = { "a", "2026-07", 1, 2, 1500 },
				 other = { "a", "2026-08", 9, 9, 9 };
	uint64_t sums[3] = { 0 };
	struct err err;

	for (unsigned round = 0; round < 2; round++) {
		must_open(f);
		for (unsigned i = 0; i < 25; i++)
			store_add_usage(f->store, &one, NULL, NULL);
		store_add_usage(f->store, &other, NULL, NULL);
		must_close(f);
	}
	must_open(f);
	assert_int_equal(store_load_usage(f->store, see_usage, sums, &err), 0);
	assert_int_equal(sums[0], 50);
	assert_int_equal(sums[1], 100);
	assert_int_equal(sums[2], 75000);
	must_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(usage_adds_up_over_restarts_and_months_stay_apart),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
