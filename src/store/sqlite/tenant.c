// SPDX-License-Identifier: Apache-2.0
/* Numbers of tenants. */
#include <errno.h>

#include "store/sqlite/queue.h"

static int find_tenant(struct db *db, const char *tenant, uint32_t *ret, struct err *err)
{
	sqlite3_stmt *stmt = db_bind(db, DB_FIND_TENANT, "t", tenant);
	int r = db_step(db, stmt, err);

	if (r <= 0)
		return r;
	*ret = (uint32_t)sqlite3_column_int64(stmt, 0);
	sqlite3_reset(stmt);
	return 1;
}

static int make_tenant(struct db *db, const char *tenant, uint32_t *ret, struct err *err)
{
	int r = find_tenant(db, tenant, ret, err);

	if (r != 0)
		return r < 0 ? r : 0;
	r = op_step(db, db_bind(db, DB_ADD_TENANT, "t", tenant), err);
	if (r >= 0)
		r = find_tenant(db, tenant, ret, err);
	if (r == 0)
		r = err_set(err, EIO, "the tenant was not stored");
	return r < 0 ? r : 0;
}

int store_tenant_number(struct store *s, const char *tenant, uint32_t *ret, struct err *err)
{
	store_lock(s);
	int r = make_tenant(&s->db, tenant, ret, err);
	store_unlock(s);
	return r;
}

static int add_tenant(struct db *db, struct op *op, struct err *err)
{
	uint32_t number;
	int r = make_tenant(db, op->texts[0], &number, err);

	if (r >= 0)
		op->numbers[0] = number;
	return r;
}

static void tell_number(struct op *op, const struct err *err)
{
	op->then.number(op->data, (uint32_t)op->numbers[0], err);
}

void store_add_tenant(struct store *s, const char *tenant, store_number_fn fn, void *data)
{
	struct op *op = op_new(add_tenant, &tenant, 1);

	op->answer = tell_number;
	op->then.number = fn;
	op_submit(s, op, NULL, data);
}
