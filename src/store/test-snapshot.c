// SPDX-License-Identifier: Apache-2.0
/* Snapshots, and the journal of their volumes. */
#include "store/test-rig.h"

static struct store_snapshot snapshot_row(const char *id, int64_t created_us)
{
	return (struct store_snapshot){ .id = id,
					.tenant = "a",
					.name = "before \xc3\xbc",
					.path = "out",
					.session = "sbx_000000000001",
					.template_name = "sandbox-base:latest",
					.size_bytes = 1ull << 40,
					.created_us = created_us,
					.expires_us = created_us + 1 };
}

static void snapshots_and_the_journal_change_places(void **state)
{
	struct fixture *f = *state;
	struct store_snapshot second = snapshot_row("snap_2", 20),
			      first = snapshot_row("snap_1", 10);
	unsigned n = 0;

	must_open(f);
	store_add_journal(f->store, "snp_1\0snp_2", 2, count, &n);
	store_put_snapshot(f->store, &second, "snp_2", count, &n);
	store_put_snapshot(f->store, &first, "snp_1", count, &n);
	run_until(f, &n, 3);
	must_close(f);
	must_open(f);
	struct seen seen = snapshots_of(f);
	assert_int_equal(seen.n, 2);
	assert_string_equal(seen.ids[0], "snap_1");
	assert_string_equal(seen.ids[1], "snap_2");
	assert_int_equal(journal_of(f).n, 0);
	store_drop_snapshot(f->store, "snap_1", "snp_1", count, &n);
	run_until(f, &n, 4);
	assert_int_equal(snapshots_of(f).n, 1);
	seen = journal_of(f);
	assert_int_equal(seen.n, 1);
	assert_string_equal(seen.ids[0], "snp_1");
	must_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(snapshots_and_the_journal_change_places),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
