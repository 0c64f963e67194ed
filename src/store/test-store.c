// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "store/sqlite/db.h"

struct fixture {
	uv_loop_t loop;
	char dir[64];
	char path[96];
	struct store *store;
};

static void must_open(struct fixture *f)
{
	struct err err = { 0 };

	if (store_open(&f->loop, f->path, &f->store, &err) < 0)
		fail_msg("%s", err.text);
}

static void on_closed(void *data)
{
	*(bool *)data = true;
}

static void must_close(struct fixture *f)
{
	bool closed = false;

	store_close(f->store, on_closed, &closed);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_true(closed);
	f->store = NULL;
}

static int setup(void **state)
{
	struct fixture *f = mem_new(1, sizeof(*f));

	uv_loop_init(&f->loop);
	snprintf(f->dir, sizeof(f->dir), "/tmp/airlock-test-store-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/airlock.db", f->dir);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	static const char *const ends[] = { "", "-wal", "-shm", "-journal" };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		_cleanup_free_ char *path = mem_printf("%s%s", f->path, ends[i]);
		unlink(path);
	}
	rmdir(f->dir);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	free(f);
	return 0;
}

static struct store_session row_of(const char *id, int64_t created_us)
{
	return (struct store_session){ .id = id,
				       .tenant = "a",
				       .template_name = "sandbox-base:latest",
				       .egress = "pypi.org *.example.com",
				       .persistent = 1,
				       .quota_bytes = 5,
				       .shared_bytes = 6,
				       .forked_bytes = 7,
				       .created_us = created_us,
				       .accessed_us = created_us + 1 };
}

static void count(void *data, const struct err *err)
{
	assert_null(err);
	++*(unsigned *)data;
}

static void run_until(struct fixture *f, const unsigned *n, unsigned want)
{
	while (*n < want)
		uv_run(&f->loop, UV_RUN_ONCE);
}

struct seen {
	unsigned n;
	char ids[8][32];
	char first[32];
	struct store_session last;
};

static void see_session(void *data, const struct store_session *row)
{
	struct seen *seen = data;

	if (!seen->n)
		snprintf(seen->first, sizeof(seen->first), "%s", row->id);
	snprintf(seen->ids[seen->n++ % 8], 32, "%s", row->id);
	assert_string_equal(row->tenant, "a");
	assert_string_equal(row->template_name, "sandbox-base:latest");
	assert_string_equal(row->egress, "pypi.org *.example.com");
	assert_int_equal(row->persistent, 1);
	assert_int_equal(row->quota_bytes, 5);
	assert_true(row->shared_bytes == 6 || row->shared_bytes == 1ull << 40);
	assert_int_equal(row->forked_bytes, 7);
	seen->last = *row;
}

static void see_id(void *data, const char *id)
{
	struct seen *seen = data;

	snprintf(seen->ids[seen->n++ % 8], 32, "%s", id);
}

static struct seen sessions_of(struct fixture *f)
{
	struct seen seen = { 0 };
	struct err err;

	assert_int_equal(store_load_sessions(f->store, see_session, &seen, &err), 0);
	return seen;
}

static struct seen journal_of(struct fixture *f)
{
	struct seen seen = { 0 };
	struct err err;

	assert_int_equal(store_load_journal(f->store, see_id, &seen, &err), 0);
	return seen;
}

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

static void see_snapshot(void *data, const struct store_snapshot *row)
{
	struct seen *seen = data;

	snprintf(seen->ids[seen->n++ % 8], 32, "%s", row->id);
	assert_string_equal(row->tenant, "a");
	assert_string_equal(row->name, "before \xc3\xbc");
	assert_string_equal(row->path, "out");
	assert_string_equal(row->session, "sbx_000000000001");
	assert_string_equal(row->template_name, "sandbox-base:latest");
	assert_int_equal(row->size_bytes, 1ull << 40);
	assert_int_equal(row->expires_us, row->created_us + 1);
}

static struct seen snapshots_of(struct fixture *f)
{
	struct seen seen = { 0 };
	struct err err;

	assert_int_equal(store_load_snapshots(f->store, see_snapshot, &seen, &err), 0);
	return seen;
}

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

static void expect_failure(void *data, const struct err *err)
{
	assert_non_null(err);
	++*(unsigned *)data;
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

static void tenant_numbers_never_change(void **state)
{
	struct fixture *f = *state;
	uint32_t a, b, again;
	struct err err;

	must_open(f);
	assert_int_equal(store_tenant_number(f->store, "a", &a, &err), 0);
	assert_int_equal(store_tenant_number(f->store, "b", &b, &err), 0);
	assert_int_not_equal(a, b);
	assert_int_not_equal(a, 0);
	must_close(f);
	must_open(f);
	assert_int_equal(store_tenant_number(f->store, "b", &again, &err), 0);
	assert_int_equal(b, again);
	must_close(f);
}

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

static void change(struct fixture *f, const char *sql)
{
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
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

/* ---- Keys ---- */

struct keys_seen {
	unsigned n;
	char ids[4][16];
	int64_t revoked_us[4];
};

static void see_key(void *data, const struct store_key *row)
{
	struct keys_seen *seen = data;

	assert_string_equal(row->tenant, "a");
	assert_string_equal(row->name, "for \"tests\"");
	assert_string_equal(row->hash, "00ff");
	snprintf(seen->ids[seen->n % 4], 16, "%s", row->key_id);
	seen->revoked_us[seen->n++ % 4] = row->revoked_us;
}

static void keys_come_back_oldest_first_and_are_revoked_once(void **state)
{
	struct fixture *f = *state;
	struct store_key row = { "bbbbbbbbbb", "a", "for \"tests\"", "00ff", 1, 0 };
	struct keys_seen seen = { 0 };
	struct err err;
	unsigned n = 0;

	must_open(f);
	store_put_key(f->store, &row, count, &n);
	row.key_id = "aaaaaaaaaa";
	row.created_us = 2;
	store_put_key(f->store, &row, count, &n);
	store_revoke_key(f->store, "bbbbbbbbbb", 7, count, &n);
	store_revoke_key(f->store, "bbbbbbbbbb", 9, count, &n);
	run_until(f, &n, 4);
	must_close(f);
	must_open(f);
	assert_int_equal(store_load_keys(f->store, see_key, &seen, &err), 0);
	assert_int_equal(seen.n, 2);
	assert_string_equal(seen.ids[0], "bbbbbbbbbb");
	assert_int_equal(seen.revoked_us[0], 7);
	assert_int_equal(seen.revoked_us[1], 0);
	must_close(f);
}

struct number {
	unsigned n;
	uint32_t value;
};

static void on_number(void *data, uint32_t value, const struct err *err)
{
	struct number *number = data;

	assert_null(err);
	number->n++;
	number->value = value;
}

static void a_tenant_that_comes_later_keeps_its_number(void **state)
{
	struct fixture *f = *state;
	struct number first = { 0 }, again = { 0 };
	struct err err;
	uint32_t at_start;

	must_open(f);
	store_add_tenant(f->store, "late", on_number, &first);
	store_add_tenant(f->store, "late", on_number, &again);
	run_until(f, &again.n, 1);
	assert_true(first.value > 0);
	assert_int_equal(first.value, again.value);
	must_close(f);
	must_open(f);
	assert_int_equal(store_tenant_number(f->store, "late", &at_start, &err), 0);
	assert_int_equal(at_start, first.value);
	must_close(f);
}

/* ---- Audit ---- */

static struct store_audit record(uint64_t id, int64_t at_us)
{
	return (struct store_audit){ .id = id,
				     .at_us = at_us,
				     .tenant = "a",
				     .session = "sbx_000000000001",
				     .actor = "static key",
				     .kind = "exec",
				     .command = "echo \xc3\xbc",
				     .exit_code = 3,
				     .duration_ms = 1500 };
}

struct pages {
	unsigned n;	 /* answers */
	uint64_t ids[8]; /* of the last page */
	size_t rows;
	bool more;
	struct store_audit last; /* its texts are gone */
	char detail[64];
};

static void on_page(void *data, const struct store_audit_page *page, const struct err *err)
{
	struct pages *pages = data;

	assert_null(err);
	pages->n++;
	pages->rows = page->n;
	pages->more = page->more;
	for (size_t i = 0; i < page->n; i++) {
		pages->ids[i % 8] = page->rows[i].id;
		pages->last = page->rows[i];
		assert_string_equal(page->rows[i].command, "echo \xc3\xbc");
		assert_string_equal(page->rows[i].session, "sbx_000000000001");
		snprintf(pages->detail, sizeof(pages->detail), "%s",
			 page->rows[i].detail ? page->rows[i].detail : "none");
	}
}

static void page(struct fixture *f, struct store_audit_query query, struct pages *pages)
{
	unsigned want = pages->n + 1;

	store_page_audit(f->store, &query, on_page, pages);
	run_until(f, &pages->n, want);
}

static void a_page_follows_the_one_before(void **state)
{
	struct fixture *f = *state;
	static const int64_t times[] = { 10, 20, 20, 20, 30 };
	struct store_audit_query query = { "a", 0, INT64_MAX, 0, 2 };
	struct pages pages = { 0 };
	uint64_t want = 5;

	must_open(f);
	for (uint64_t id = 1; id <= 5; id++) {
		struct store_audit row = record(id, times[id - 1]);
		store_put_audit(f->store, &row, NULL, NULL);
	}
	struct store_audit other = record(6, 40);
	other.tenant = "b";
	store_put_audit(f->store, &other, NULL, NULL);
	do {
		page(f, query, &pages);
		for (size_t i = 0; i < pages.rows; i++)
			assert_int_equal(pages.ids[i], want--);
		query.before_us = pages.last.at_us;
		query.before_id = (uint32_t)pages.last.id;
	} while (pages.more);
	assert_int_equal(want, 0);
	assert_int_equal(pages.n, 3);
	assert_false(pages.last.failed);
	assert_int_equal(pages.last.exit_code, 3);
	assert_int_equal(pages.last.duration_ms, 1500);
	assert_string_equal(pages.detail, "none");
	/* What is past its time is not shown, whether it is still there or not. */
	query = (struct store_audit_query){ "a", 20, INT64_MAX, 0, 100 };
	page(f, query, &pages);
	assert_int_equal(pages.rows, 4);
	must_close(f);
}

static void an_open_record_is_not_shown_and_becomes_a_failed_one(void **state)
{
	struct fixture *f = *state;
	struct store_audit_query query = { "a", 0, INT64_MAX, 0, 10 };
	struct store_audit first = record(1, 10), second = record(2, 11);
	struct pages pages = { 0 };
	struct err err;
	uint64_t last;

	must_open(f);
	assert_int_equal(store_audit_recover(f->store, 1, "x", &last, &err), 0);
	assert_int_equal(last, 0);
	first.open = second.open = true;
	first.failed = second.failed = true;
	store_put_audit(f->store, &first, NULL, NULL);
	store_put_audit(f->store, &second, NULL, NULL);
	second = record(2, 15);
	store_put_audit(f->store, &second, NULL, NULL);
	page(f, query, &pages);
	assert_int_equal(pages.rows, 1);
	assert_int_equal(pages.ids[0], 2);
	must_close(f);
	must_open(f);
	assert_int_equal(store_audit_recover(f->store, 99, "killed", &last, &err), 0);
	assert_int_equal(last, 2);
	page(f, query, &pages);
	assert_int_equal(pages.rows, 2);
	assert_int_equal(pages.ids[0], 1);
	query.limit = 1;
	page(f, query, &pages);
	assert_true(pages.last.failed);
	assert_int_equal(pages.last.at_us, 99);
	assert_string_equal(pages.detail, "killed");
	must_close(f);
}

static void old_records_are_forgotten_a_part_at_a_time(void **state)
{
	struct fixture *f = *state;
	struct store_audit_query query = { "a", 0, INT64_MAX, 0, 10 };
	struct number number = { 0 };
	struct pages pages = { 0 };

	must_open(f);
	for (uint64_t id = 1; id <= 1003; id++) {
		struct store_audit row = record(id, (int64_t)id);
		store_put_audit(f->store, &row, NULL, NULL);
	}
	store_prune_audit(f->store, 1002, on_number, &number);
	run_until(f, &number.n, 1);
	assert_int_equal(number.value, 1000);
	store_prune_audit(f->store, 1002, on_number, &number);
	run_until(f, &number.n, 2);
	assert_int_equal(number.value, 1);
	page(f, query, &pages);
	assert_int_equal(pages.rows, 2);
	must_close(f);
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
	/* A second each: for what the writer took at once, and for what came meanwhile. */
	assert_in_range(clock_monotonic_us() - before_us, 0, 5000000);
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
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(sessions_come_back_oldest_first),
		T(snapshots_and_the_journal_change_places),
		T(several_sessions_are_stored_together_or_not_at_all),
		T(callbacks_come_in_order_and_never_before_the_call_returned),
		T(put_takes_from_the_journal_and_drop_gives_back),
		T(one_bad_write_in_a_batch_fails_alone),
		T(usage_adds_up_over_restarts_and_months_stay_apart),
		T(tenant_numbers_never_change),
		T(the_file_is_private),
		T(one_that_was_emptied_is_known_until_that_is_accepted),
		T(a_second_server_is_refused),
		T(a_file_that_is_no_database_is_refused_and_kept),
		T(a_damaged_page_is_refused),
		T(a_newer_schema_is_refused),
		T(an_older_schema_is_brought_up_to_date),
		T(keys_come_back_oldest_first_and_are_revoked_once),
		T(a_tenant_that_comes_later_keeps_its_number),
		T(a_page_follows_the_one_before),
		T(an_open_record_is_not_shown_and_becomes_a_failed_one),
		T(old_records_are_forgotten_a_part_at_a_time),
		T(another_programs_database_is_refused),
		T(a_link_in_the_place_of_the_file_is_refused),
		T(a_full_disk_fails_what_it_meets_alone),
		T(a_database_that_another_program_holds_is_waited_for_once),
		T(what_was_reported_survives_a_kill),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
