// SPDX-License-Identifier: Apache-2.0
/* The log of a database that was not closed, changed in every way: whatever sqlite would forget
 * without a word must be noticed, unless it may be the torn end of the last write. */
#include "store/sqlite/wal.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/mem.h"

#define COMMITS 6
#define FRAME (24 + 4096)

struct fixture {
	char dir[64], path[96], wal[112];
	char *database, *log; /* as they were while a server had them open */
	size_t database_len, log_len;
	unsigned last_frames; /* of the last commit */
};

static char *slurp(const char *path, size_t *ret_len)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	*ret_len = (size_t)st.st_size;
	char *data = mem_new(1, *ret_len + 1);
	assert_int_equal(read(fd, data, *ret_len), *ret_len);
	return data;
}

static void spill(const char *path, const char *data, size_t len)
{
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_int_equal(write(fd, data, len), len);
}

static void exec(sqlite3 *db, const char *sql)
{
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

static int setup(void **state)
{
	struct fixture *f = mem_new(1, sizeof(*f));
	sqlite3 *db = NULL;
	size_t before = 0;

	snprintf(f->dir, sizeof(f->dir), "/tmp/airlock-test-wal-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/db", f->dir);
	snprintf(f->wal, sizeof(f->wal), "%s-wal", f->path);
	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	exec(db, "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;"
		 "CREATE TABLE made(n INTEGER PRIMARY KEY, text BLOB);"
		 "INSERT INTO made VALUES(0, randomblob(9000));"
		 "PRAGMA wal_checkpoint(TRUNCATE)");
	for (unsigned n = 1; n <= COMMITS; n++) {
		free(f->log);
		exec(db,
		     "INSERT INTO made VALUES((SELECT max(n) + 1 FROM made), randomblob(3000))");
		f->log = slurp(f->wal, &f->log_len);
		f->last_frames = (unsigned)((f->log_len - (before ? before : 32)) / FRAME);
		before = f->log_len;
	}
	f->database = slurp(f->path, &f->database_len);
	sqlite3_close(db);
	*state = f;
	return 0;
}

static void remove_all(struct fixture *f)
{
	static const char *const ends[] = { "", "-wal", "-shm" };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		_cleanup_free_ char *path = mem_printf("%s%s", f->path, ends[i]);
		unlink(path);
	}
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	remove_all(f);
	assert_int_equal(rmdir(f->dir), 0);
	free(f->database);
	free(f->log);
	free(f);
	return 0;
}

static bool is_damaged(struct fixture *f, const char *log, size_t len)
{
	struct err err;

	remove_all(f);
	spill(f->path, f->database, f->database_len);
	spill(f->wal, log, len);
	int r = wal_check(f->path, &err);
	if (r < 0 && (r != -EUCLEAN || !strstr(err.text, f->wal)))
		fail_msg("%s", err.text);
	return r < 0;
}

/* How many commits sqlite finds. */
static int found_by_sqlite(const struct fixture *f)
{
	sqlite3_stmt *stmt = NULL;
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	exec(db, "PRAGMA synchronous=OFF");
	assert_int_equal(sqlite3_prepare_v2(db, "SELECT max(n) FROM made", -1, &stmt, NULL), 0);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	int n = sqlite3_column_int(stmt, 0);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return n;
}

static void a_log_as_a_kill_leaves_it_is_sound(void **state)
{
	struct fixture *f = *state;

	assert_false(is_damaged(f, f->log, f->log_len));
	assert_int_equal(found_by_sqlite(f), COMMITS);
	for (size_t len = 0; len < f->log_len; len += 7)
		assert_false(is_damaged(f, f->log, len));
	unlink(f->wal);
	assert_int_equal(wal_check(f->path, &(struct err){ 0 }), 0);
}

static void the_end_may_be_torn(void **state)
{
	struct fixture *f = *state;
	char *end = f->log + f->log_len - f->last_frames * FRAME;

	/* Its pages come to the disk in any order, its last one among them. */
	for (unsigned i = 0; i < f->last_frames; i++) {
		memset(end + i * FRAME, 0, FRAME);
		assert_false(is_damaged(f, f->log, f->log_len));
		assert_int_equal(found_by_sqlite(f), COMMITS - 1);
	}
	/* A log that was given its length and nothing else. */
	memset(f->log, 0, f->log_len);
	assert_false(is_damaged(f, f->log, f->log_len));
}

static void a_bit_that_turned_is_noticed_before_it_costs_a_commit(void **state)
{
	struct fixture *f = *state;
	unsigned noticed = 0;

	for (size_t at = 0; at < f->log_len; at += at % FRAME < 64 ? 1 : 61) {
		f->log[at] ^= 0x10;
		bool damaged = is_damaged(f, f->log, f->log_len);
		noticed += damaged;
		if (!damaged && found_by_sqlite(f) < COMMITS - 1)
			fail_msg("byte %zu: lost without a word", at);
		f->log[at] ^= 0x10;
	}
	assert_true(noticed > 100);
	assert_false(is_damaged(f, f->log, f->log_len));
}

/* sqlite begins anew at the front of the file; behind that is what it wrote before. */
static void an_earlier_round_behind_this_one_is_no_damage(void **state)
{
	struct fixture *f = *state;
	sqlite3 *db = NULL;
	size_t len;

	remove_all(f);
	spill(f->path, f->database, f->database_len);
	spill(f->wal, f->log, f->log_len);
	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	exec(db, "PRAGMA wal_checkpoint(RESTART);"
		 "INSERT INTO made VALUES((SELECT max(n) + 1 FROM made), 'x')");
	_cleanup_free_ char *log = slurp(f->wal, &len);
	_cleanup_free_ char *database = slurp(f->path, &f->database_len);
	sqlite3_close(db);
	assert_int_equal(len, f->log_len);
	assert_memory_not_equal(log, f->log, 64);
	free(f->database);
	f->database = take_ptr(database);
	assert_false(is_damaged(f, log, len));
	assert_int_equal(found_by_sqlite(f), COMMITS + 1);
}

static void it_gets_its_length_once_and_keeps_its_commits(void **state)
{
	struct fixture *f = *state;
	sqlite3 *db = NULL;
	size_t before, after;

	remove_all(f);
	spill(f->path, f->database, f->database_len);
	spill(f->wal, f->log, f->log_len);
	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	exec(db, "BEGIN IMMEDIATE");
	wal_lengthen(f->path);
	free(slurp(f->wal, &before));
	assert_true(before > f->log_len && before < 4u << 20);
	wal_lengthen(f->path);
	exec(db, "ROLLBACK");
	exec(db, "INSERT INTO made VALUES((SELECT max(n) + 1 FROM made), 'x')");
	_cleanup_free_ char *log = slurp(f->wal, &after);
	assert_int_equal(after, before);
	sqlite3_close(db);
	assert_false(is_damaged(f, log, after));
	assert_int_equal(found_by_sqlite(f), COMMITS + 1);
	/* Damage before the zeros is noticed as ever. */
	log[32 + 24 + 100] ^= 0x10;
	assert_true(is_damaged(f, log, after));
	/* No log, no place for one: nothing to do. */
	unlink(f->wal);
	wal_lengthen(f->path);
}

/* sqlite would take it for a new one and remove its log. */
static void an_empty_database_beside_a_log_is_noticed(void **state)
{
	struct fixture *f = *state;

	f->database_len = 0;
	assert_true(is_damaged(f, f->log, f->log_len));
	assert_false(is_damaged(f, f->log, 0));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_log_as_a_kill_leaves_it_is_sound),
		T(the_end_may_be_torn),
		T(a_bit_that_turned_is_noticed_before_it_costs_a_commit),
		T(an_earlier_round_behind_this_one_is_no_damage),
		T(it_gets_its_length_once_and_keeps_its_commits),
		T(an_empty_database_beside_a_log_is_noticed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
