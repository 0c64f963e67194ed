// SPDX-License-Identifier: Apache-2.0
/* Stored keys. */
#include "base/mem.h"
#include "store/sqlite/queue.h"

static int put_key(struct db *db, struct op *op, struct err *err)
{
	return op_step(db,
		       db_bind(db, DB_PUT_KEY, "ttttii", op->texts[0], op->texts[1], op->texts[2],
			       op->texts[3], op->numbers[0], op->numbers[1]),
		       err);
}

void store_put_key(struct store *s, const struct store_key *row, store_fn fn, void *data)
{
	const char *texts[] = { row->key_id, row->tenant, row->name, row->hash };
	struct op *op = op_new(put_key, texts, ARRAY_SIZE(texts));

	op->numbers[0] = row->created_us;
	op->numbers[1] = row->revoked_us;
	op_submit(s, op, fn, data);
}

static int revoke_key(struct db *db, struct op *op, struct err *err)
{
	return op_step(db, db_bind(db, DB_REVOKE_KEY, "ti", op->texts[0], op->numbers[0]), err);
}

void store_revoke_key(struct store *s, const char *key_id, int64_t revoked_us, store_fn fn,
		      void *data)
{
	struct op *op = op_new(revoke_key, &key_id, 1);

	op->numbers[0] = revoked_us;
	op_submit(s, op, fn, data);
}

static int drop_key(struct db *db, struct op *op, struct err *err)
{
	return op_step(db, db_bind(db, DB_DROP_KEY, "t", op->texts[0]), err);
}

void store_drop_key(struct store *s, const char *key_id)
{
	op_submit(s, op_new(drop_key, &key_id, 1), NULL, NULL);
}

int store_load_keys(struct store *s, void (*each)(void *data, const struct store_key *row),
		    void *data, struct err *err)
{
	int r;

	store_lock(s);
	sqlite3_stmt *stmt = s->db.statements[DB_LOAD_KEYS];
	while ((r = db_step(&s->db, stmt, err)) > 0) {
		const struct store_key row = {
			.key_id = column_text(stmt, 0),
			.tenant = column_text(stmt, 1),
			.name = column_text(stmt, 2),
			.hash = column_text(stmt, 3),
			.created_us = sqlite3_column_int64(stmt, 4),
			.revoked_us = sqlite3_column_int64(stmt, 5),
		};
		each(data, &row);
	}
	store_unlock(s);
	return r;
}
