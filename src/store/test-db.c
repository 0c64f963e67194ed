// SPDX-License-Identifier: Apache-2.0
/* The file: what is opened and what is refused. */
#include "store/test-rig.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

static void the_file_is_private(void **state)
{
	struct fixture *f = *state;
	_cleanup_fd_ int fd = open(f->path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	struct store_session row = row_of("sbx_00000000000a", 1);
	unsigned n = 0;
	struct stat st;

	fd_close(&fd);
	must_open(f);
	store_put_session(f->store, &row, count, &n);
	run_until(f, &n, 1);
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	_cleanup_free_ char *wal = mem_printf("%s-wal", f->path);
	assert_int_equal(stat(wal, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	must_close(f);
}

static void refused(struct fixture *f, int code, const char *words)
{
	struct store *store = NULL;
	struct err err;

	assert_int_equal(store_open(&f->loop, f->path, &store, &err), -code);
	assert_null(store);
	if (!strstr(err.text, words) || !strstr(err.text, f->path))
		fail_msg("%s", err.text);
	assert_null(strchr(err.text, '\n'));
}

static void one_that_was_emptied_is_known_until_that_is_accepted(void **state)
{
	struct fixture *f = *state;
	struct err err;

	/* What is missing is made, and nobody emptied it. */
	must_open(f);
	assert_false(store_was_emptied(f->store));
	must_close(f);
	assert_int_equal(truncate(f->path, 0), 0);
	for (unsigned i = 0; i < 2; i++) {
		must_open(f);
		assert_true(store_was_emptied(f->store));
		if (i && store_accept_emptied(f->store, &err) < 0)
			fail_msg("%s", err.text);
		must_close(f);
	}
	must_open(f);
	assert_false(store_was_emptied(f->store));
	must_close(f);
}

void __real_wal_lengthen(const char *database);
void __wrap_wal_lengthen(const char *database);
static int other_writes;

/* Another program's commit would be where the zeros go. */
void __wrap_wal_lengthen(const char *database)
{
	sqlite3 *other = NULL;

	assert_int_equal(sqlite3_open(database, &other), SQLITE_OK);
	other_writes = sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL);
	assert_int_equal(sqlite3_close(other), SQLITE_OK);
	__real_wal_lengthen(database);
}

static void nobody_writes_while_the_log_gets_its_length(void **state)
{
	struct fixture *f = *state;

	other_writes = -1;
	must_open(f);
	assert_int_equal(other_writes, SQLITE_BUSY);
	must_close(f);
}

static void a_second_server_is_refused(void **state)
{
	struct fixture *f = *state;

	must_open(f);
	refused(f, EBUSY, "another server");
	must_close(f);
}

static void write_at(const char *path, off_t at, const char *text)
{
	_cleanup_fd_ int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	assert_int_equal(pwrite(fd, text, strlen(text), at), strlen(text));
}

static void a_log_without_its_database_is_refused_and_nothing_made(void **state)
{
	struct fixture *f = *state;
	_cleanup_free_ char *log = mem_printf("%s-wal", f->path);

	write_at(log, 0, "what a server that was killed has left here");
	for (unsigned i = 0; i < 2; i++) {
		refused(f, EUCLEAN, "its log");
		assert_int_equal(access(f->path, F_OK), -1);
	}
	/* As it says: when the log is away, too, one begins anew. */
	assert_int_equal(unlink(log), 0);
	must_open(f);
	assert_false(store_was_emptied(f->store));
	must_close(f);
}

static void a_file_that_is_no_database_is_refused_and_kept(void **state)
{
	struct fixture *f = *state;
	char text[64] = "";

	write_at(f->path, 0, "this is somebody's letter and no database at all");
	refused(f, EUCLEAN, "damaged");
	_cleanup_fd_ int fd = open(f->path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, text, sizeof(text) - 1), 48);
	assert_string_equal(text, "this is somebody's letter and no database at all");
}

static void a_damaged_page_is_refused(void **state)
{
	struct fixture *f = *state;
	unsigned n = 0;

	must_open(f);
	for (unsigned i = 0; i < 300; i++) {
		char id[32];
		snprintf(id, sizeof(id), "sbx_%012u", i);
		struct store_session row = row_of(id, i);
		store_put_session(f->store, &row, count, &n);
	}
	run_until(f, &n, 300);
	must_close(f);
	for (off_t page = 1; page < 8; page++)
		write_at(f->path, page * 4096 + 1, "\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7");
	refused(f, EUCLEAN, "damaged");
}

static void a_newer_schema_is_refused(void **state)
{
	struct fixture *f = *state;

	must_open(f);
	must_close(f);
	change(f, "UPDATE schema SET version=4");
	refused(f, EPROTO, "version 3");
}

static void an_older_schema_is_brought_up_to_date(void **state)
{
	struct fixture *f = *state;
	struct store_session row = row_of("sbx_000000000001", 1);
	unsigned n = 0;

	must_open(f);
	store_put_session(f->store, &row, count, &n);
	run_until(f, &n, 1);
	must_close(f);
	change(f, "DROP TABLE key; DROP TABLE audit; DROP TABLE snapshot; ALTER TABLE session DROP "
		  "COLUMN shared_bytes;"
		  "ALTER TABLE session DROP COLUMN forked_bytes;"
		  "UPDATE schema SET version=1");
	must_open(f);
	store_share_session(f->store, row.id, 6, 7);
	must_close(f);
	must_open(f);
	assert_int_equal(sessions_of(f).n, 1);
	assert_int_equal(snapshots_of(f).n, 0);
	must_close(f);
	change(f, "UPDATE schema SET version=0");
	refused(f, EPROTO, "version 0");
}

static void another_programs_database_is_refused(void **state)
{
	struct fixture *f = *state;

	change(f, "CREATE TABLE letters(text)");
	refused(f, EUCLEAN, "not a state database");
}

static void a_link_in_the_place_of_the_file_is_refused(void **state)
{
	struct fixture *f = *state;
	_cleanup_free_ char *target = mem_printf("%s/other", f->dir);

	assert_int_equal(symlink(target, f->path), 0);
	refused(f, ELOOP, "opening");
	assert_int_equal(access(target, F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(the_file_is_private),
		T(one_that_was_emptied_is_known_until_that_is_accepted),
		T(nobody_writes_while_the_log_gets_its_length),
		T(a_second_server_is_refused),
		T(a_log_without_its_database_is_refused_and_nothing_made),
		T(a_file_that_is_no_database_is_refused_and_kept),
		T(a_damaged_page_is_refused),
		T(a_newer_schema_is_refused),
		T(an_older_schema_is_brought_up_to_date),
		T(another_programs_database_is_refused),
		T(a_link_in_the_place_of_the_file_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
