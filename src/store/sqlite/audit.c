// SPDX-License-Identifier: Apache-2.0
/* The audit log: a row for each record, found by tenant and time. */
#include <assert.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/mem.h"
#include "store/sqlite/queue.h"

#define PRUNE_MAX 1000
#define PAGE_MAX 1000u

/* ---- Writing ---- */

enum { TENANT, SESSION, ACTOR, KIND, COMMAND, DETAIL, TEXTS };
enum { ID, AT, EXIT_CODE, DURATION, FLAGS };
enum { OPEN = 1, TRUNCATED = 2, TIMED_OUT = 4, OOM_KILLED = 8, FAILED = 16 };

/* Places of the values that may be missing, counted from 1. */
enum { BOUND_EXIT_CODE = 9, BOUND_DURATION = 10 };

static int64_t has_flag(const struct op *op, int64_t flag)
{
	return (op->numbers[FLAGS] & flag) != 0;
}

static int put_audit(struct db *db, struct op *op, struct err *err)
{
	const int64_t *n = op->numbers;
	const char *const *t = op->texts;
	sqlite3_stmt *stmt = db_bind(db, DB_PUT_AUDIT, "iitttttiiiiiti", n[ID], n[AT], t[TENANT],
				     t[SESSION], t[ACTOR], t[KIND], t[COMMAND],
				     has_flag(op, TRUNCATED), n[EXIT_CODE], n[DURATION],
				     has_flag(op, TIMED_OUT), has_flag(op, OOM_KILLED), t[DETAIL],
				     has_flag(op, OPEN));

	if (has_flag(op, FAILED))
		sqlite3_bind_null(stmt, BOUND_EXIT_CODE);
	if (n[DURATION] < 0)
		sqlite3_bind_null(stmt, BOUND_DURATION);
	return op_step(db, stmt, err);
}

void store_put_audit(struct store *s, const struct store_audit *row, store_fn fn, void *data)
{
	const char *texts[TEXTS] = {
		[TENANT] = row->tenant, [SESSION] = row->session, [ACTOR] = row->actor,
		[KIND] = row->kind,	[COMMAND] = row->command, [DETAIL] = row->detail,
	};
	struct op *op = op_new(put_audit, texts, TEXTS);

	op->numbers[ID] = (int64_t)row->id;
	op->numbers[AT] = row->at_us;
	op->numbers[EXIT_CODE] = row->exit_code;
	op->numbers[DURATION] = row->duration_ms;
	op->numbers[FLAGS] = (row->open ? OPEN : 0) | (row->truncated ? TRUNCATED : 0) |
			     (row->timed_out ? TIMED_OUT : 0) | (row->oom_killed ? OOM_KILLED : 0) |
			     (row->failed ? FAILED : 0);
	op_submit(s, op, fn, data);
}

static int drop_audit(struct db *db, struct op *op, struct err *err)
{
	return op_step(db, db_bind(db, DB_DROP_AUDIT, "i", op->numbers[ID]), err);
}

void store_drop_audit(struct store *s, uint64_t id)
{
	struct op *op = op_new(drop_audit, NULL, 0);

	op->numbers[ID] = (int64_t)id;
	op_submit(s, op, NULL, NULL);
}

int store_audit_recover(struct store *s, int64_t at_us, const char *detail, uint64_t *ret_last,
			struct err *err)
{
	store_lock(s);
	int r = op_step(&s->db, db_bind(&s->db, DB_CLOSE_AUDIT, "it", at_us, detail), err);
	if (r >= 0)
		r = db_step(&s->db, s->db.statements[DB_LAST_AUDIT], err);
	if (r > 0) {
		*ret_last = (uint64_t)sqlite3_column_int64(s->db.statements[DB_LAST_AUDIT], 0);
		sqlite3_reset(s->db.statements[DB_LAST_AUDIT]);
	}
	store_unlock(s);
	return r < 0 ? r : 0;
}

/* ---- Forgetting ---- */

static int prune(struct db *db, struct op *op, struct err *err)
{
	int r = op_step(db, db_bind(db, DB_PRUNE_AUDIT, "ii", op->numbers[0], (int64_t)PRUNE_MAX),
			err);

	op->numbers[1] = r < 0 ? 0 : sqlite3_changes(db->sqlite);
	return r;
}

static void tell_pruned(struct op *op, const struct err *err)
{
	op->then.number(op->data, (uint32_t)op->numbers[1], err);
}

void store_prune_audit(struct store *s, int64_t before_us, store_number_fn fn, void *data)
{
	struct op *op = op_new(prune, NULL, 0);

	op->numbers[0] = before_us;
	op->answer = tell_pruned;
	op->then.number = fn;
	op_submit(s, op, NULL, data);
}

/* ---- Reading ---- */

struct page {
	struct store_audit_page page;
	struct arena arena;
	struct store_audit rows[];
};

static void page_free(void *found)
{
	struct page *p = found;

	if (!p)
		return;
	arena_fini(&p->arena);
	free(p);
}

static const char *page_text(struct page *p, const char *text)
{
	return arena_str(&p->arena, str_of(text)).data;
}

static void read_row(struct page *p, struct store_audit *row, sqlite3_stmt *stmt)
{
	*row = (struct store_audit){
		.id = (uint64_t)sqlite3_column_int64(stmt, 0),
		.at_us = sqlite3_column_int64(stmt, 1),
		.session = page_text(p, column_text(stmt, 2)),
		.actor = page_text(p, column_text(stmt, 3)),
		.kind = page_text(p, column_text(stmt, 4)),
		.command = page_text(p, column_text(stmt, 5)),
		.truncated = sqlite3_column_int(stmt, 6),
		.failed = sqlite3_column_type(stmt, 7) == SQLITE_NULL,
		.exit_code = sqlite3_column_int(stmt, 7),
		.duration_ms = sqlite3_column_type(stmt, 8) == SQLITE_NULL
				       ? -1
				       : sqlite3_column_int64(stmt, 8),
		.timed_out = sqlite3_column_int(stmt, 9),
		.oom_killed = sqlite3_column_int(stmt, 10),
		.detail = sqlite3_column_type(stmt, 11) == SQLITE_NULL
				  ? NULL
				  : page_text(p, column_text(stmt, 11)),
	};
}

enum { FROM, BEFORE, BEFORE_ID, LIMIT };

static int read_page(struct db *db, struct op *op, struct err *err)
{
	const int64_t *n = op->numbers;
	size_t limit = (size_t)n[LIMIT];
	struct page *p = mem_new(1, sizeof(*p) + limit * sizeof(p->rows[0]));
	sqlite3_stmt *stmt = db_bind(db, DB_PAGE_AUDIT, "tiiii", op->texts[0], n[FROM], n[BEFORE],
				     n[BEFORE_ID], n[LIMIT] + 1);
	int r;

	page_free(op->found);
	op->found = p;
	p->page.rows = p->rows;
	while ((r = db_step(db, stmt, err)) > 0) {
		p->page.more = p->page.n == limit;
		if (!p->page.more)
			read_row(p, &p->rows[p->page.n++], stmt);
	}
	return r;
}

static void tell_page(struct op *op, const struct err *err)
{
	const struct page *p = op->found;

	op->then.page(op->data, err ? NULL : &p->page, err);
}

void store_page_audit(struct store *s, const struct store_audit_query *query,
		      store_audit_page_fn fn, void *data)
{
	struct op *op = op_new(read_page, &query->tenant, 1);

	assert(query->limit && query->limit <= PAGE_MAX);
	op->numbers[FROM] = query->from_us;
	op->numbers[BEFORE] = query->before_us;
	op->numbers[BEFORE_ID] = query->before_id;
	op->numbers[LIMIT] = (int64_t)query->limit;
	op->forget = page_free;
	op->answer = tell_page;
	op->then.page = fn;
	op_submit(s, op, NULL, data);
}
