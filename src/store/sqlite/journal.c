// SPDX-License-Identifier: Apache-2.0
/* The journal of volumes. */
#include <string.h>

#include "store/sqlite/queue.h"

static int journal(struct db *db, const struct op *op, enum db_statement which, struct err *err)
{
	const char *id = op->texts[0];
	int r = 0;

	for (size_t i = 0; i < op->n && r >= 0; i++, id += strlen(id) + 1)
		r = op_step(db, db_bind(db, which, "t", id), err);
	return r;
}

static int add_journal(struct db *db, struct op *op, struct err *err)
{
	return journal(db, op, DB_ADD_JOURNAL, err);
}

static int clear_journal(struct db *db, struct op *op, struct err *err)
{
	return journal(db, op, DB_CLEAR_JOURNAL, err);
}

/* A page is written, and the journal is as before. */
static int probe(struct db *db, struct op *op, struct err *err)
{
	int r = add_journal(db, op, err);

	return r < 0 ? r : clear_journal(db, op, err);
}

void store_probe(struct store *s)
{
	op_submit(s, op_new_list(probe, "probe", 1), NULL, NULL);
}

void store_add_journal(struct store *s, const char *ids, size_t n_ids, store_fn fn, void *data)
{
	op_submit(s, op_new_list(add_journal, ids, n_ids), fn, data);
}

void store_clear_journal(struct store *s, const char *ids, size_t n_ids)
{
	op_submit(s, op_new_list(clear_journal, ids, n_ids), NULL, NULL);
}

int store_load_journal(struct store *s, void (*each)(void *data, const char *id), void *data,
		       struct err *err)
{
	int r;

	store_lock(s);
	sqlite3_stmt *stmt = s->db.statements[DB_LOAD_JOURNAL];
	while ((r = db_step(&s->db, stmt, err)) > 0)
		each(data, column_text(stmt, 0));
	store_unlock(s);
	return r;
}
