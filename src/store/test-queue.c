// SPDX-License-Identifier: Apache-2.0
/* Writes: their order, and what fails or survives. */
#include "store/test-rig.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "store/sqlite/db.h"

static void callbacks_come_in_order_and_never_before_the_call_returned(void **state)
{
	struct fixture *f = *state;
	unsigned n = 0;

	must_open(f);
	for (unsigned i = 0; i < 100; i++) {
		char id[32];
		snprintf(id, sizeof(id), "sbx_%012u", i);
		struct store_session row = row_of(id, i);
		store_put_session(f->store, &row, count, &n);
	}
	assert_int_equal(n, 0);
	run_until(f, &n, 100);
	assert_int_equal(sessions_of(f).n, 100);
	must_close(f);
}

static void one_bad_write_in_a_batch_fails_alone(void **state)
{
	struct fixture *f = *state;
	struct store_session row = row_of("sbx_00000000000a", 1), other = row_of("sbx_b", 2);
	unsigned good = 0, bad = 0;

	must_open(f);
	store_put_session(f->store, &row, count, &good);
	store_put_session(f->store, &row, expect_failure, &bad); /* the id is taken */
	store_put_session(f->store, &other, count, &good);
	run_until(f, &good, 2);
	run_until(f, &bad, 1);
	assert_int_equal(sessions_of(f).n, 2);
	assert_int_equal(store_errors(f->store), 1);
	must_close(f);
}

static void limit_files(rlim_t bytes)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* No file may grow: what a full disk does to the write-ahead log. */
static void a_full_disk_fails_what_it_meets_alone(void **state)
{
	struct fixture *f = *state;
	struct store_session row = row_of("sbx_00000000000a", 1), more = row_of("sbx_b", 2);
	unsigned good = 0, bad = 0;

	signal(SIGXFSZ, SIG_IGN);
	must_open(f);
	store_put_session(f->store, &row, count, &good);
	run_until(f, &good, 1);
	limit_files(1);
	store_put_session(f->store, &more, expect_failure, &bad);
	run_until(f, &bad, 1);
	assert_int_equal(store_errors(f->store), 1);
	assert_true(store_is_failing(f->store));
	limit_files(RLIM_INFINITY);
	/* What only reads proves nothing. */
	store_add_journal(f->store, "", 0, count, &good);
	run_until(f, &good, 2);
	assert_true(store_is_failing(f->store));
	store_put_session(f->store, &more, count, &good);
	run_until(f, &good, 3);
	assert_false(store_is_failing(f->store));
	assert_int_equal(sessions_of(f).n, 2);
	must_close(f);
}

/* A batch of many does not wait for the holder many times. */
static void a_database_that_another_program_holds_is_waited_for_once(void **state)
{
	struct fixture *f = *state;
	struct store_session row = row_of("sbx_00000000000a", 1), more = row_of("sbx_b", 2);
	sqlite3 *other = NULL;
	unsigned good = 0, bad = 0;

	must_open(f);
	store_put_session(f->store, &row, count, &good);
	run_until(f, &good, 1);
	assert_int_equal(sqlite3_open(f->path, &other), SQLITE_OK);
	assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	int64_t before_us = clock_monotonic_us();
	for (unsigned i = 0; i < 20; i++)
		store_put_session(f->store, &more, expect_failure, &bad);
	run_until(f, &bad, 20);
	/* A second each: for what the writer took at once, and for what came meanwhile. The rest is
	 * for a machine that stands still; many times would be 20 s. */
	assert_in_range(clock_monotonic_us() - before_us, 0, 15000000);
	assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(other), SQLITE_OK);
	store_put_session(f->store, &more, count, &good);
	run_until(f, &good, 2);
	must_close(f);
}

/* The child says by a byte that the commit was reported to it, then is killed in the middle of
 * more. */
static void what_was_reported_survives_a_kill(void **state)
{
	struct fixture *f = *state;
	struct store_session row = row_of("sbx_00000000000a", 1);
	unsigned n = 0;
	int said[2];
	char byte;

	assert_int_equal(pipe2(said, O_CLOEXEC), 0);
	pid_t child = fork();
	if (child == 0) {
		uv_loop_init(&f->loop);
		must_open(f);
		store_put_session(f->store, &row, count, &n);
		run_until(f, &n, 1);
		if (write(said[1], "R", 1) != 1)
			_exit(1);
		for (unsigned i = 0;; i++) {
			char id[32];
			snprintf(id, sizeof(id), "sbx_x%011u", i);
			struct store_session more = row_of(id, 2);
			store_put_session(f->store, &more, count, &n);
			run_until(f, &n, i + 2);
		}
	}
	close(said[1]);
	assert_int_equal(read(said[0], &byte, 1), 1);
	close(said[0]);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	must_open(f);
	struct seen seen = sessions_of(f);
	assert_true(seen.n >= 1);
	assert_string_equal(seen.first, row.id);
	must_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(callbacks_come_in_order_and_never_before_the_call_returned),
		T(one_bad_write_in_a_batch_fails_alone),
		T(a_full_disk_fails_what_it_meets_alone),
		T(a_database_that_another_program_holds_is_waited_for_once),
		T(what_was_reported_survives_a_kill),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
