// SPDX-License-Identifier: Apache-2.0
/*
 * queue: a database and its one writer. What is to be written, or read behind everything that was
 * asked for before, is an operation: texts, numbers, and a function that runs on the writer's
 * thread, with the connection locked, inside a transaction. Its callback comes on the loop after
 * the commit.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/sqlite/db.h"
#include "store/store.h"

#define OP_TEXTS_MAX 8u
#define OP_NUMBERS_MAX 8u

struct op {
	/* Writer. Runs again when the transaction of a batch was rolled back. */
	int (*run)(struct db *db, struct op *op, struct err *err);
	/* Loop, after the commit or the failure. NULL: then.done, unless that is NULL, too. */
	void (*answer)(struct op *op, const struct err *err);
	union {
		store_fn done;
		store_number_fn number;
		store_audit_page_fn page;
	} then;
	void *data;
	struct op *more;		 /* owned: what is done with it or not at all */
	const char *texts[OP_TEXTS_MAX]; /* point into room */
	int64_t numbers[OP_NUMBERS_MAX];
	size_t n;    /* texts in a list that begins at texts[0] */
	void *found; /* what run has read; owned with forget */
	void (*forget)(void *found);

	/* The queue's own. */
	struct op *next;
	struct err *err; /* owned; NULL: done */
	char room[];
};

struct op_list {
	struct op *first, *last;
};

struct store {
	uv_loop_t *loop; /* borrowed */
	struct db db;
	uv_mutex_t queue_lock, db_lock;
	uv_cond_t wake;
	uv_thread_t thread;
	uv_async_t async;
	struct op_list queue, done;
	bool running; /* the loop's: there is a thread */
	bool stop, stopped;
	void (*closed)(void *data);
	void *closed_data;
	atomic_uint_fast64_t errors;
	atomic_bool failing; /* the last write did */
	int64_t logged_us;   /* the loop's */
};

/* One piece of memory for an operation and its texts, each with a NUL; NULL stays NULL. */
struct op *op_new(int (*run)(struct db *db, struct op *op, struct err *err),
		  const char *const *texts, size_t n);
/* One with a list of n texts, one after the other, each with its NUL. */
struct op *op_new_list(int (*run)(struct db *db, struct op *op, struct err *err), const char *list,
		       size_t n);
/* From the loop. */
void op_submit(struct store *s, struct op *op, store_fn done, void *data);

/* Steps a bound statement that has no rows. */
int op_step(struct db *db, sqlite3_stmt *stmt, struct err *err);
/* Text of a column, "" for NULL; valid until the next step. */
const char *column_text(sqlite3_stmt *stmt, int column);

/* Reading at start, on the calling thread: the connection is this thread's in between. */
void store_lock(struct store *s);
void store_unlock(struct store *s);
