// SPDX-License-Identifier: Apache-2.0
/* What tenants used, by month. */
#include "base/mem.h"
#include "store/sqlite/queue.h"

static int add_usage(struct db *db, struct op *op, struct err *err)
{
	return op_step(db,
		       db_bind(db, DB_ADD_USAGE, "ttiii", op->texts[0], op->texts[1],
			       op->numbers[0], op->numbers[1], op->numbers[2]),
		       err);
}

void store_add_usage(struct store *s, const struct store_usage *delta, store_fn fn, void *data)
{
	const char *texts[] = { delta->tenant, delta->period };
	struct op *op = op_new(add_usage, texts, ARRAY_SIZE(texts));

	op->numbers[0] = (int64_t)delta->sessions;
	op->numbers[1] = (int64_t)delta->commands;
	op->numbers[2] = (int64_t)delta->command_ms;
	op_submit(s, op, fn, data);
}

int store_load_usage(struct store *s, void (*each)(void *data, const struct store_usage *row),
		     void *data, struct err *err)
{
	int r;

	store_lock(s);
	sqlite3_stmt *stmt = s->db.statements[DB_LOAD_USAGE];
	while ((r = db_step(&s->db, stmt, err)) > 0) {
		const struct store_usage row = {
			.tenant = column_text(stmt, 0),
			.period = column_text(stmt, 1),
			.sessions = (uint64_t)sqlite3_column_int64(stmt, 2),
			.commands = (uint64_t)sqlite3_column_int64(stmt, 3),
			.command_ms = (uint64_t)sqlite3_column_int64(stmt, 4),
		};
		each(data, &row);
	}
	store_unlock(s);
	return r;
}
