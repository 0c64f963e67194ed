// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/native/slot.h"

#define V1_OOM "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"
#define V2_EVENTS "low 0\nhigh 0\nmax 35\noom 1\noom_kill 4\noom_group_kill 9\n"
#define V2_CPU "usage_usec 1234567\nuser_usec 1\nsystem_usec 2\n"

static const struct {
	const char *text, *key;
	int64_t number;
} parses[] = {
	{ V1_OOM, "oom_kill", 7 },
	{ V2_EVENTS, "oom_kill", 4 }, /* not oom_group_kill, not oom */
	{ V2_CPU, "usage_usec", 1234567 },
	{ "max 3\n", "max", 3 },
	{ "4096\n", "", 4096 },
	{ "0\n", "", 0 },
	{ "oom_kill 9223372036854775807\n", "oom_kill", INT64_MAX },
	{ "oom_kill 9223372036854775808\n", "oom_kill", -1 },
	{ "oom_kill -1\n", "oom_kill", -1 },
	{ "oom_kill\n", "oom_kill", -1 },
	{ "oom_kill \n", "oom_kill", -1 },
	{ "oom_killer 5\n", "oom_kill", -1 },
	{ "", "oom_kill", -1 },
	{ "", "", -1 },
	{ "max\n", "", -1 },
};

static void numbers_are_found_by_their_whole_key(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(parses); i++)
		assert_int_equal(slot_parse(str_of(parses[i].text), str_of(parses[i].key)),
				 parses[i].number);
}

static void use_is_the_difference_of_two_samples(void **state)
{
	const struct slot slot = { .fds = { -1, -1, -1, -1 }, .version = 1 };
	const struct slot_sample before = { 1, 5000, 1000000, 2 }, after = { 3, 9000, 1042999, 2 };
	struct slot_use use;

	slot_use(&slot, &before, &after, &use);
	assert_int_equal(use.oom_kills, 2);
	assert_int_equal(use.cpu_ms, 42);
	assert_int_equal(use.pids_hits, 0);
	assert_int_equal(use.peak_bytes, 9000);
}

static void a_counter_that_went_back_or_was_unreadable_is_unknown(void **state)
{
	const struct slot slot = { .fds = { -1, -1, -1, -1 }, .version = 1 };
	const struct slot_sample before = { -1, -1, 10, 5 }, after = { 3, -1, 5, -1 };
	struct slot_use use;

	slot_use(&slot, &before, &after, &use);
	assert_int_equal(use.oom_kills, -1);
	assert_int_equal(use.cpu_ms, -1);
	assert_int_equal(use.pids_hits, -1);
	assert_int_equal(use.peak_bytes, -1);
}

static void a_peak_on_v2_counts_only_when_it_is_a_new_high(void **state)
{
	const struct slot slot = { .fds = { -1, -1, -1, -1 }, .version = 2 };
	const struct slot_sample before = { .peak_bytes = 5000 };
	struct slot_sample after = { .peak_bytes = 5000 };
	struct slot_use use;

	slot_use(&slot, &before, &after, &use);
	assert_int_equal(use.peak_bytes, -1);
	after.peak_bytes = 5001;
	slot_use(&slot, &before, &after, &use);
	assert_int_equal(use.peak_bytes, 5001);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_found_by_their_whole_key),
		cmocka_unit_test(use_is_the_difference_of_two_samples),
		cmocka_unit_test(a_counter_that_went_back_or_was_unreadable_is_unknown),
		cmocka_unit_test(a_peak_on_v2_counts_only_when_it_is_a_new_high),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
