// SPDX-License-Identifier: Apache-2.0
#include "store/test-rig.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/sqlite/db.h"

void must_open(struct fixture *f)
{
	struct err err = { 0 };

	if (store_open(&f->loop, f->path, &f->store, &err) < 0)
		fail_msg("%s", err.text);
}

static void on_closed(void *data)
{
	*(bool *)data = true;
}

void must_close(struct fixture *f)
{
	bool closed = false;

	store_close(f->store, on_closed, &closed);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_true(closed);
	f->store = NULL;
}

int setup(void **state)
{
	struct fixture *f = mem_new(1, sizeof(*f));

	uv_loop_init(&f->loop);
	snprintf(f->dir, sizeof(f->dir), "/tmp/airlock-test-store-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/airlock.db", f->dir);
	*state = f;
	return 0;
}

int teardown(void **state)
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

struct store_session row_of(const char *id, int64_t created_us)
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

void count(void *data, const struct err *err)
{
	assert_null(err);
	++*(unsigned *)data;
}

void run_until(struct fixture *f, const unsigned *n, unsigned want)
{
	while (*n < want)
		uv_run(&f->loop, UV_RUN_ONCE);
}

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

struct seen sessions_of(struct fixture *f)
{
	struct seen seen = { 0 };
	struct err err;

	assert_int_equal(store_load_sessions(f->store, see_session, &seen, &err), 0);
	return seen;
}

struct seen journal_of(struct fixture *f)
{
	struct seen seen = { 0 };
	struct err err;

	assert_int_equal(store_load_journal(f->store, see_id, &seen, &err), 0);
	return seen;
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

struct seen snapshots_of(struct fixture *f)
{
	struct seen seen = { 0 };
	struct err err;

	assert_int_equal(store_load_snapshots(f->store, see_snapshot, &seen, &err), 0);
	return seen;
}

void expect_failure(void *data, const struct err *err)
{
	assert_non_null(err);
	++*(unsigned *)data;
}

void change(struct fixture *f, const char *sql)
{
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

void on_number(void *data, uint32_t value, const struct err *err)
{
	struct number *number = data;

	assert_null(err);
	number->n++;
	number->value = value;
}
