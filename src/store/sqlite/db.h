// SPDX-License-Identifier: Apache-2.0
/*
 * db: the database file: opening, schema, prepared statements. One connection, which its user
 * locks: the loop thread reads at start, the writer thread does the rest.
 */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define DB_SCHEMA "3"

enum db_statement {
	DB_BEGIN,
	DB_COMMIT,
	DB_ROLLBACK,
	DB_PUT_SESSION,
	DB_DROP_SESSION,
	DB_TOUCH_SESSION,
	DB_SHARE_SESSION,
	DB_PUT_SNAPSHOT,
	DB_DROP_SNAPSHOT,
	DB_ADD_JOURNAL,
	DB_CLEAR_JOURNAL,
	DB_ADD_USAGE,
	DB_PUT_KEY,
	DB_REVOKE_KEY,
	DB_DROP_KEY,
	DB_PUT_AUDIT,
	DB_DROP_AUDIT,
	DB_CLOSE_AUDIT,
	DB_LAST_AUDIT,
	DB_PAGE_AUDIT,
	DB_PRUNE_AUDIT,
	DB_LOAD_SESSIONS,
	DB_LOAD_SNAPSHOTS,
	DB_LOAD_JOURNAL,
	DB_LOAD_USAGE,
	DB_LOAD_KEYS,
	DB_FIND_TENANT,
	DB_ADD_TENANT,
	DB_STATEMENTS,
};

struct db {
	int lock_fd;	 /* owned: holds the lock against a second server; closed after sqlite */
	sqlite3 *sqlite; /* owned */
	sqlite3_stmt *statements[DB_STATEMENTS]; /* owned */
	bool was_emptied; /* it was there without anything in it, and nobody has said yet that
			     this is right; the file remembers it */
};

#define DB_CLOSED ((struct db){ .lock_fd = -1 })

int db_open(struct db *db, const char *path, struct err *err);
/* It is right. */
int db_accept_emptied(struct db *db, struct err *err);
void db_close(struct db *db);

/* Binds by a letter each: t const char * (NULL: no value), i int64_t. */
sqlite3_stmt *db_bind(struct db *db, enum db_statement which, const char *types, ...);
/* Steps a bound statement: 1 a row is there, 0 the end; then (and after failure) it is reset. */
int db_step(struct db *db, sqlite3_stmt *stmt, struct err *err);
/* Binds nothing, steps to the end. */
int db_run(struct db *db, enum db_statement which, struct err *err);
