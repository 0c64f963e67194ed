// SPDX-License-Identifier: Apache-2.0
/* Sessions. */
#include <assert.h>

#include "base/mem.h"
#include "store/sqlite/queue.h"

static int put_session(struct db *db, struct op *op, struct err *err)
{
	int r = op_step(db,
			db_bind(db, DB_PUT_SESSION, "ttttiiiiii", op->texts[0], op->texts[1],
				op->texts[2], op->texts[3], op->numbers[0], op->numbers[1],
				op->numbers[2], op->numbers[3], op->numbers[4], op->numbers[5]),
			err);

	if (r < 0)
		return r;
	return op_step(db, db_bind(db, DB_CLEAR_JOURNAL, "t", op->texts[0]), err);
}

static int drop_session(struct db *db, struct op *op, struct err *err)
{
	int r = op_step(db, db_bind(db, DB_DROP_SESSION, "t", op->texts[0]), err);

	if (r < 0)
		return r;
	return op_step(db, db_bind(db, DB_ADD_JOURNAL, "t", op->texts[0]), err);
}

static int touch(struct db *db, struct op *op, struct err *err)
{
	return op_step(db, db_bind(db, DB_TOUCH_SESSION, "ti", op->texts[0], op->numbers[0]), err);
}

static int share(struct db *db, struct op *op, struct err *err)
{
	return op_step(db,
		       db_bind(db, DB_SHARE_SESSION, "tii", op->texts[0], op->numbers[0],
			       op->numbers[1]),
		       err);
}

static struct op *put_session_op(const struct store_session *row)
{
	const char *texts[] = { row->id, row->tenant, row->template_name, row->egress };
	struct op *op = op_new(put_session, texts, ARRAY_SIZE(texts));

	op->numbers[0] = row->persistent;
	op->numbers[1] = (int64_t)row->quota_bytes;
	op->numbers[2] = row->created_us;
	op->numbers[3] = row->accessed_us;
	op->numbers[4] = (int64_t)row->shared_bytes;
	op->numbers[5] = (int64_t)row->forked_bytes;
	return op;
}

void store_put_session(struct store *s, const struct store_session *row, store_fn fn, void *data)
{
	op_submit(s, put_session_op(row), fn, data);
}

void store_put_sessions(struct store *s, const struct store_session *rows, size_t n, store_fn fn,
			void *data)
{
	struct op *first = NULL, **last = &first;

	assert(n > 0);
	for (size_t i = 0; i < n; i++) {
		*last = put_session_op(&rows[i]);
		last = &(*last)->more;
	}
	op_submit(s, first, fn, data);
}

void store_drop_session(struct store *s, const char *id, store_fn fn, void *data)
{
	op_submit(s, op_new(drop_session, &id, 1), fn, data);
}

void store_touch_session(struct store *s, const char *id, int64_t accessed_us)
{
	struct op *op = op_new(touch, &id, 1);

	op->numbers[0] = accessed_us;
	op_submit(s, op, NULL, NULL);
}

void store_share_session(struct store *s, const char *id, uint64_t shared_bytes,
			 uint64_t forked_bytes)
{
	struct op *op = op_new(share, &id, 1);

	op->numbers[0] = (int64_t)shared_bytes;
	op->numbers[1] = (int64_t)forked_bytes;
	op_submit(s, op, NULL, NULL);
}

int store_load_sessions(struct store *s, void (*each)(void *data, const struct store_session *row),
			void *data, struct err *err)
{
	int r;

	store_lock(s);
	sqlite3_stmt *stmt = s->db.statements[DB_LOAD_SESSIONS];
	while ((r = db_step(&s->db, stmt, err)) > 0) {
		const struct store_session row = {
			.id = column_text(stmt, 0),
			.tenant = column_text(stmt, 1),
			.template_name = column_text(stmt, 2),
			.egress = column_text(stmt, 3),
			.persistent = sqlite3_column_int(stmt, 4),
			.quota_bytes = (uint64_t)sqlite3_column_int64(stmt, 5),
			.created_us = sqlite3_column_int64(stmt, 6),
			.accessed_us = sqlite3_column_int64(stmt, 7),
			.shared_bytes = (uint64_t)sqlite3_column_int64(stmt, 8),
			.forked_bytes = (uint64_t)sqlite3_column_int64(stmt, 9),
		};
		each(data, &row);
	}
	store_unlock(s);
	return r;
}
