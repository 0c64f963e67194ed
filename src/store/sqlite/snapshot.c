// SPDX-License-Identifier: Apache-2.0
/* Snapshots. */
#include "base/mem.h"
#include "store/sqlite/queue.h"

static int put_snapshot(struct db *db, struct op *op, struct err *err)
{
	int r = op_step(db,
			db_bind(db, DB_PUT_SNAPSHOT, "ttttttiii", op->texts[0], op->texts[1],
				op->texts[2], op->texts[3], op->texts[4], op->texts[5],
				op->numbers[0], op->numbers[1], op->numbers[2]),
			err);

	if (r < 0)
		return r;
	return op_step(db, db_bind(db, DB_CLEAR_JOURNAL, "t", op->texts[6]), err);
}

static int drop_snapshot(struct db *db, struct op *op, struct err *err)
{
	int r = op_step(db, db_bind(db, DB_DROP_SNAPSHOT, "t", op->texts[0]), err);

	if (r < 0)
		return r;
	return op_step(db, db_bind(db, DB_ADD_JOURNAL, "t", op->texts[1]), err);
}

void store_put_snapshot(struct store *s, const struct store_snapshot *row, const char *volume,
			store_fn fn, void *data)
{
	const char *texts[] = { row->id,      row->tenant,	  row->name, row->path,
				row->session, row->template_name, volume };
	struct op *op = op_new(put_snapshot, texts, ARRAY_SIZE(texts));

	op->numbers[0] = (int64_t)row->size_bytes;
	op->numbers[1] = row->created_us;
	op->numbers[2] = row->expires_us;
	op_submit(s, op, fn, data);
}

void store_drop_snapshot(struct store *s, const char *id, const char *volume, store_fn fn,
			 void *data)
{
	const char *texts[] = { id, volume };

	op_submit(s, op_new(drop_snapshot, texts, ARRAY_SIZE(texts)), fn, data);
}

int store_load_snapshots(struct store *s,
			 void (*each)(void *data, const struct store_snapshot *row), void *data,
			 struct err *err)
{
	int r;

	store_lock(s);
	sqlite3_stmt *stmt = s->db.statements[DB_LOAD_SNAPSHOTS];
	while ((r = db_step(&s->db, stmt, err)) > 0) {
		const struct store_snapshot row = {
			.id = column_text(stmt, 0),
			.tenant = column_text(stmt, 1),
			.name = column_text(stmt, 2),
			.path = column_text(stmt, 3),
			.session = column_text(stmt, 4),
			.template_name = column_text(stmt, 5),
			.size_bytes = (uint64_t)sqlite3_column_int64(stmt, 6),
			.created_us = sqlite3_column_int64(stmt, 7),
			.expires_us = sqlite3_column_int64(stmt, 8),
		};
		each(data, &row);
	}
	store_unlock(s);
	return r;
}
