// SPDX-License-Identifier: Apache-2.0
/* Sessions, and the journal of volumes that they take from and give back to. */
#include "store/test-rig.h"

static void sessions_come_back_oldest_first(void **state)
{
	struct fixture *f = *state;
	struct store_session second = row_of("sbx_000000000002", 20), first;
	unsigned n = 0;

	first = row_of("sbx_000000000001", 10);
	must_open(f);
	store_put_session(f->store, &second, count, &n);
	store_put_session(f->store, &first, count, &n);
	run_until(f, &n, 2);
	store_touch_session(f->store, first.id, 99);
	store_touch_session(f->store, second.id, 98);
	must_close(f);
	must_open(f);
	struct seen seen = sessions_of(f);
	assert_int_equal(seen.n, 2);
	assert_string_equal(seen.ids[0], first.id);
	assert_string_equal(seen.ids[1], second.id);
	assert_int_equal(seen.last.created_us, 20);
	assert_int_equal(seen.last.accessed_us, 98);
	must_close(f);
}

static void note_failure(void *data, const struct err *err)
{
	*(unsigned *)data = err ? 2 : 1;
}

static void several_sessions_are_stored_together_or_not_at_all(void **state)
{
	struct fixture *f = *state;
	static const char ids[] = "sbx_00000000000a\0sbx_00000000000b\0sbx_00000000000c";
	struct store_session rows[3] = { row_of("sbx_00000000000a", 1),
					 row_of("sbx_00000000000b", 2),
					 row_of("sbx_00000000000a", 3) };
	unsigned n = 0, failed = 0;

	must_open(f);
	store_add_journal(f->store, ids, 3, count, &n);
	/* The third has the id of the first. */
	store_put_sessions(f->store, rows, 3, note_failure, &failed);
	run_until(f, &failed, 1);
	assert_int_equal(failed, 2);
	assert_int_equal(sessions_of(f).n, 0);
	assert_int_equal(journal_of(f).n, 3);
	rows[2].id = "sbx_00000000000c";
	store_put_sessions(f->store, rows, 3, count, &n);
	run_until(f, &n, 2);
	assert_int_equal(sessions_of(f).n, 3);
	assert_int_equal(journal_of(f).n, 0);
	store_share_session(f->store, rows[1].id, 1ull << 40, 7);
	must_close(f);
	must_open(f);
	assert_int_equal(sessions_of(f).n, 3);
	must_close(f);
}

static void put_takes_from_the_journal_and_drop_gives_back(void **state)
{
	struct fixture *f = *state;
	static const char ids[] = "sbx_00000000000a\0sbx_00000000000b";
	struct store_session row = row_of("sbx_00000000000a", 1);
	unsigned n = 0;

	must_open(f);
	store_add_journal(f->store, ids, 2, count, &n);
	store_put_session(f->store, &row, count, &n);
	run_until(f, &n, 2);
	struct seen seen = journal_of(f);
	assert_int_equal(seen.n, 1);
	assert_string_equal(seen.ids[0], "sbx_00000000000b");
	store_drop_session(f->store, row.id, count, &n);
	run_until(f, &n, 3);
	assert_int_equal(journal_of(f).n, 2);
	assert_int_equal(sessions_of(f).n, 0);
	store_clear_journal(f->store, ids, 2);
	must_close(f);
	must_open(f);
	assert_int_equal(journal_of(f).n, 0);
	must_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(sessions_come_back_oldest_first),
		T(several_sessions_are_stored_together_or_not_at_all),
		T(put_takes_from_the_journal_and_drop_gives_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
