// SPDX-License-Identifier: Apache-2.0
/*
 * The queue and its writer. The loop thread appends operations; the writer takes all that wait and
 * commits them together, so a lonely write is committed at once and a crowd shares its fsync. When
 * a commit of several fails they are done one by one, so that each failure meets the one it belongs
 * to. Finished operations go back in order, and their callbacks run on the loop.
 *
 * Locks: queue_lock guards the lists and the flags, db_lock the connection. db_lock is never
 * taken with queue_lock held.
 */
#include "store/store.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/sqlite/db.h"

#define TEXTS_MAX 7u
#define NUMBERS_MAX 6u
#define RETRY_MAX 256u
#define STACK_SIZE (256u * 1024)
#define LOG_EVERY_US (60 * 1000000ll)

enum op_kind {
	OP_PUT_SESSION,
	OP_DROP_SESSION,
	OP_TOUCH,
	OP_SHARE,
	OP_PUT_SNAPSHOT,
	OP_DROP_SNAPSHOT,
	OP_ADD_JOURNAL,
	OP_CLEAR_JOURNAL,
	OP_USAGE
};

struct op {
	enum op_kind kind;
	struct op *next;
	struct op *more; /* owned: what is done with it or not at all */
	store_fn fn;	 /* may be NULL */
	void *data;
	struct err *err;	      /* owned; NULL: done */
	const char *texts[TEXTS_MAX]; /* point into room */
	int64_t numbers[NUMBERS_MAX];
	size_t n; /* texts in a list of ids that begins at texts[0] */
	char room[];
};

struct list {
	struct op *first, *last;
};

struct store {
	uv_loop_t *loop; /* borrowed */
	struct db db;
	uv_mutex_t queue_lock, db_lock;
	uv_cond_t wake;
	uv_thread_t thread;
	uv_async_t async;
	struct list queue, done;
	struct list retry; /* the writer's alone: usage that could not be written */
	size_t n_retry;
	bool running; /* the loop's: there is a thread */
	bool stop, stopped;
	void (*closed)(void *data);
	void *closed_data;
	atomic_uint_fast64_t errors;
	int64_t logged_us; /* the loop's */
};

static void append(struct list *list, struct op *op)
{
	op->next = NULL;
	if (list->last)
		list->last->next = op;
	else
		list->first = op;
	list->last = op;
}

static void append_all(struct list *list, struct list *more)
{
	if (!more->first)
		return;
	if (list->last)
		list->last->next = more->first;
	else
		list->first = more->first;
	list->last = more->last;
	*more = (struct list){ 0 };
}

static void op_free(struct op *op)
{
	for (struct op *next; op; op = next) {
		next = op->more;
		free(op->err);
		free(op);
	}
}

/* ---- The writer ---- */

static int step(struct store *s, sqlite3_stmt *stmt, struct err *err)
{
	int r = db_step(&s->db, stmt, err);

	assert(r <= 0);
	return r;
}

static int put_session(struct store *s, const struct op *op, struct err *err)
{
	int r = step(s,
		     db_bind(&s->db, DB_PUT_SESSION, "ttttiiiiii", op->texts[0], op->texts[1],
			     op->texts[2], op->texts[3], op->numbers[0], op->numbers[1],
			     op->numbers[2], op->numbers[3], op->numbers[4], op->numbers[5]),
		     err);

	if (r < 0)
		return r;
	return step(s, db_bind(&s->db, DB_CLEAR_JOURNAL, "t", op->texts[0]), err);
}

static int drop_session(struct store *s, const struct op *op, struct err *err)
{
	int r = step(s, db_bind(&s->db, DB_DROP_SESSION, "t", op->texts[0]), err);

	if (r < 0)
		return r;
	return step(s, db_bind(&s->db, DB_ADD_JOURNAL, "t", op->texts[0]), err);
}

static int touch(struct store *s, const struct op *op, struct err *err)
{
	return step(s, db_bind(&s->db, DB_TOUCH_SESSION, "ti", op->texts[0], op->numbers[0]), err);
}

static int share(struct store *s, const struct op *op, struct err *err)
{
	return step(s,
		    db_bind(&s->db, DB_SHARE_SESSION, "tii", op->texts[0], op->numbers[0],
			    op->numbers[1]),
		    err);
}

static int put_snapshot(struct store *s, const struct op *op, struct err *err)
{
	int r = step(s,
		     db_bind(&s->db, DB_PUT_SNAPSHOT, "ttttttiii", op->texts[0], op->texts[1],
			     op->texts[2], op->texts[3], op->texts[4], op->texts[5], op->numbers[0],
			     op->numbers[1], op->numbers[2]),
		     err);

	if (r < 0)
		return r;
	return step(s, db_bind(&s->db, DB_CLEAR_JOURNAL, "t", op->texts[6]), err);
}

static int drop_snapshot(struct store *s, const struct op *op, struct err *err)
{
	int r = step(s, db_bind(&s->db, DB_DROP_SNAPSHOT, "t", op->texts[0]), err);

	if (r < 0)
		return r;
	return step(s, db_bind(&s->db, DB_ADD_JOURNAL, "t", op->texts[1]), err);
}

static int journal(struct store *s, const struct op *op, enum db_statement which, struct err *err)
{
	const char *id = op->texts[0];
	int r = 0;

	for (size_t i = 0; i < op->n && r >= 0; i++, id += strlen(id) + 1)
		r = step(s, db_bind(&s->db, which, "t", id), err);
	return r;
}

static int add_journal(struct store *s, const struct op *op, struct err *err)
{
	return journal(s, op, DB_ADD_JOURNAL, err);
}

static int clear_journal(struct store *s, const struct op *op, struct err *err)
{
	return journal(s, op, DB_CLEAR_JOURNAL, err);
}

static int add_usage(struct store *s, const struct op *op, struct err *err)
{
	return step(s,
		    db_bind(&s->db, DB_ADD_USAGE, "ttiii", op->texts[0], op->texts[1],
			    op->numbers[0], op->numbers[1], op->numbers[2]),
		    err);
}

static int (*const runs[])(struct store *s, const struct op *op, struct err *err) = {
	[OP_PUT_SESSION] = put_session,
	[OP_DROP_SESSION] = drop_session,
	[OP_TOUCH] = touch,
	[OP_SHARE] = share,
	[OP_PUT_SNAPSHOT] = put_snapshot,
	[OP_DROP_SNAPSHOT] = drop_snapshot,
	[OP_ADD_JOURNAL] = add_journal,
	[OP_CLEAR_JOURNAL] = clear_journal,
	[OP_USAGE] = add_usage,
};

/* All operations from first up to and without end, in one transaction. */
static int commit(struct store *s, struct op *first, const struct op *end, struct err *err)
{
	struct err ignored;
	int r = db_run(&s->db, DB_BEGIN, err);

	for (struct op *op = first; op != end && r >= 0; op = op->next) {
		for (struct op *part = op; part && r >= 0; part = part->more)
			r = runs[part->kind](s, part, err);
	}
	if (r >= 0)
		r = db_run(&s->db, DB_COMMIT, err);
	/* Some failures have rolled back by themselves already. */
	if (r < 0 && !sqlite3_get_autocommit(s->db.sqlite))
		db_run(&s->db, DB_ROLLBACK, &ignored);
	return r;
}

static void write_batch(struct store *s, struct list *batch)
{
	struct err err;

	uv_mutex_lock(&s->db_lock);
	if (commit(s, batch->first, NULL, &err) < 0) {
		for (struct op *op = batch->first; op; op = op->next) {
			if (commit(s, op, op->next, &err) < 0) {
				op->err = mem_new(1, sizeof(err));
				*op->err = err;
			}
		}
	}
	uv_mutex_unlock(&s->db_lock);
}

/* Usage that failed waits for the next batch; everything else is for its callback. */
static void sort_out(struct store *s, struct list *batch, struct list *done)
{
	for (struct op *op = batch->first, *next; op; op = next) {
		next = op->next;
		if (op->err)
			atomic_fetch_add(&s->errors, 1);
		if (op->err && op->kind == OP_USAGE && s->n_retry < RETRY_MAX) {
			free(take_ptr(op->err));
			s->n_retry++;
			append(&s->retry, op);
		} else {
			append(done, op);
		}
	}
}

static bool take_batch(struct store *s, struct list *batch)
{
	append_all(batch, &s->retry);
	s->n_retry = 0;
	uv_mutex_lock(&s->queue_lock);
	while (!s->queue.first && !s->stop)
		uv_cond_wait(&s->wake, &s->queue_lock);
	append_all(batch, &s->queue);
	bool last = s->stop;
	uv_mutex_unlock(&s->queue_lock);
	return !last;
}

static void writer(void *arg)
{
	struct store *s = arg;
	bool more = true;

	while (more) {
		struct list batch = { 0 }, done = { 0 };
		more = take_batch(s, &batch);
		if (batch.first)
			write_batch(s, &batch);
		sort_out(s, &batch, &done);
		uv_mutex_lock(&s->queue_lock);
		append_all(&s->done, &done);
		s->stopped = !more;
		uv_mutex_unlock(&s->queue_lock);
		uv_async_send(&s->async);
	}
}

/* ---- The loop's side ---- */

static void log_failure(struct store *s, const struct op *op)
{
	int64_t now = clock_monotonic_us();

	if (s->logged_us && now - s->logged_us < LOG_EVERY_US)
		return;
	s->logged_us = now;
	log_event(LOG_ERROR, "store_write_failed", LOG_STR("why", op->err->text),
		  LOG_INT("failed_so_far", store_errors(s)));
}

static void on_closed(uv_handle_t *handle)
{
	struct store *s = handle->data;
	void (*closed)(void *data) = s->closed;
	void *data = s->closed_data;

	for (struct op *op = s->retry.first, *next; op; op = next) {
		next = op->next;
		op_free(op);
	}
	db_close(&s->db);
	uv_cond_destroy(&s->wake);
	uv_mutex_destroy(&s->queue_lock);
	uv_mutex_destroy(&s->db_lock);
	free(s);
	closed(data);
}

static void on_async(uv_async_t *async)
{
	struct store *s = async->data;
	struct list done = { 0 };

	uv_mutex_lock(&s->queue_lock);
	append_all(&done, &s->done);
	bool stopped = s->stopped;
	uv_mutex_unlock(&s->queue_lock);
	for (struct op *op = done.first, *next; op; op = next) {
		next = op->next;
		if (op->err)
			log_failure(s, op);
		if (op->fn)
			op->fn(op->data, op->err);
		op_free(op);
	}
	if (stopped) {
		if (s->running)
			uv_thread_join(&s->thread);
		uv_close((uv_handle_t *)async, on_closed);
	}
}

/* With the first write, so that what the process gives up before that (rights, system calls) is
 * given up by this thread, too. */
static void start_writer(struct store *s)
{
	const uv_thread_options_t options = {
		.flags = UV_THREAD_HAS_STACK_SIZE,
		.stack_size = STACK_SIZE,
	};

	if (s->running)
		return;
	if (uv_thread_create_ex(&s->thread, &options, writer, s) < 0)
		abort(); /* no thread is no memory */
	s->running = true;
}

int store_open(uv_loop_t *loop, const char *path, struct store **ret, struct err *err)
{
	struct store *s = mem_new(1, sizeof(*s));
	int r = db_open(&s->db, path, err);

	if (r < 0) {
		free(s);
		return r;
	}
	s->loop = loop;
	uv_mutex_init(&s->queue_lock);
	uv_mutex_init(&s->db_lock);
	uv_cond_init(&s->wake);
	uv_async_init(loop, &s->async, on_async);
	s->async.data = s;
	*ret = s;
	return 0;
}

void store_close(struct store *s, void (*closed)(void *data), void *data)
{
	s->closed = closed;
	s->closed_data = data;
	uv_mutex_lock(&s->queue_lock);
	s->stop = true;
	s->stopped = !s->running;
	uv_cond_signal(&s->wake);
	uv_mutex_unlock(&s->queue_lock);
	if (!s->running)
		uv_async_send(&s->async);
}

uint64_t store_errors(const struct store *s)
{
	return atomic_load(&s->errors);
}

/* ---- Asking ---- */

/* One piece of memory for an operation and its texts, each with a NUL. */
static struct op *op_new(enum op_kind kind, const char *const *texts, size_t n)
{
	size_t room = 0;

	assert(n <= TEXTS_MAX);
	for (size_t i = 0; i < n; i++)
		room += strlen(texts[i]) + 1;
	struct op *op = mem_new(1, sizeof(*op) + room);
	char *at = op->room;
	op->kind = kind;
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(texts[i]) + 1;
		memcpy(at, texts[i], len);
		op->texts[i] = at;
		at += len;
	}
	return op;
}

static void submit(struct store *s, struct op *op, store_fn fn, void *data)
{
	op->fn = fn;
	op->data = data;
	start_writer(s);
	uv_mutex_lock(&s->queue_lock);
	assert(!s->stop);
	append(&s->queue, op);
	uv_cond_signal(&s->wake);
	uv_mutex_unlock(&s->queue_lock);
}

static struct op *put_session_op(const struct store_session *row)
{
	const char *texts[] = { row->id, row->tenant, row->template_name, row->egress };
	struct op *op = op_new(OP_PUT_SESSION, texts, ARRAY_SIZE(texts));

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
	submit(s, put_session_op(row), fn, data);
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
	submit(s, first, fn, data);
}

void store_drop_session(struct store *s, const char *id, store_fn fn, void *data)
{
	submit(s, op_new(OP_DROP_SESSION, &id, 1), fn, data);
}

void store_touch_session(struct store *s, const char *id, int64_t accessed_us)
{
	struct op *op = op_new(OP_TOUCH, &id, 1);

	op->numbers[0] = accessed_us;
	submit(s, op, NULL, NULL);
}

void store_share_session(struct store *s, const char *id, uint64_t shared_bytes,
			 uint64_t forked_bytes)
{
	struct op *op = op_new(OP_SHARE, &id, 1);

	op->numbers[0] = (int64_t)shared_bytes;
	op->numbers[1] = (int64_t)forked_bytes;
	submit(s, op, NULL, NULL);
}

void store_put_snapshot(struct store *s, const struct store_snapshot *row, const char *volume,
			store_fn fn, void *data)
{
	const char *texts[] = { row->id,      row->tenant,	  row->name, row->path,
				row->session, row->template_name, volume };
	struct op *op = op_new(OP_PUT_SNAPSHOT, texts, ARRAY_SIZE(texts));

	op->numbers[0] = (int64_t)row->size_bytes;
	op->numbers[1] = row->created_us;
	op->numbers[2] = row->expires_us;
	submit(s, op, fn, data);
}

void store_drop_snapshot(struct store *s, const char *id, const char *volume, store_fn fn,
			 void *data)
{
	const char *texts[] = { id, volume };

	submit(s, op_new(OP_DROP_SNAPSHOT, texts, ARRAY_SIZE(texts)), fn, data);
}

static struct op *ids_op(enum op_kind kind, const char *ids, size_t n_ids)
{
	const char *end = ids;

	for (size_t i = 0; i < n_ids; i++)
		end += strlen(end) + 1;
	size_t room = (size_t)(end - ids);
	struct op *op = mem_new(1, sizeof(*op) + room);
	memcpy(op->room, ids, room);
	op->kind = kind;
	op->texts[0] = op->room;
	op->n = n_ids;
	return op;
}

void store_add_journal(struct store *s, const char *ids, size_t n_ids, store_fn fn, void *data)
{
	submit(s, ids_op(OP_ADD_JOURNAL, ids, n_ids), fn, data);
}

void store_clear_journal(struct store *s, const char *ids, size_t n_ids)
{
	submit(s, ids_op(OP_CLEAR_JOURNAL, ids, n_ids), NULL, NULL);
}

void store_add_usage(struct store *s, const struct store_usage *delta)
{
	const char *texts[] = { delta->tenant, delta->period };
	struct op *op = op_new(OP_USAGE, texts, ARRAY_SIZE(texts));

	op->numbers[0] = (int64_t)delta->sessions;
	op->numbers[1] = (int64_t)delta->commands;
	op->numbers[2] = (int64_t)delta->command_ms;
	submit(s, op, NULL, NULL);
}

/* ---- Reading, at start ---- */

static const char *text_at(sqlite3_stmt *stmt, int column)
{
	const unsigned char *text = sqlite3_column_text(stmt, column);

	return text ? (const char *)text : "";
}

int store_load_sessions(struct store *s, void (*each)(void *data, const struct store_session *row),
			void *data, struct err *err)
{
	int r;

	uv_mutex_lock(&s->db_lock);
	sqlite3_stmt *stmt = s->db.statements[DB_LOAD_SESSIONS];
	while ((r = db_step(&s->db, stmt, err)) > 0) {
		const struct store_session row = {
			.id = text_at(stmt, 0),
			.tenant = text_at(stmt, 1),
			.template_name = text_at(stmt, 2),
			.egress = text_at(stmt, 3),
			.persistent = sqlite3_column_int(stmt, 4),
			.quota_bytes = (uint64_t)sqlite3_column_int64(stmt, 5),
			.created_us = sqlite3_column_int64(stmt, 6),
			.accessed_us = sqlite3_column_int64(stmt, 7),
			.shared_bytes = (uint64_t)sqlite3_column_int64(stmt, 8),
			.forked_bytes = (uint64_t)sqlite3_column_int64(stmt, 9),
		};
		each(data, &row);
	}
	uv_mutex_unlock(&s->db_lock);
	return r;
}

int store_load_snapshots(struct store *s,
			 void (*each)(void *data, const struct store_snapshot *row), void *data,
			 struct err *err)
{
	int r;

	uv_mutex_lock(&s->db_lock);
	sqlite3_stmt *stmt = s->db.statements[DB_LOAD_SNAPSHOTS];
	while ((r = db_step(&s->db, stmt, err)) > 0) {
		const struct store_snapshot row = {
			.id = text_at(stmt, 0),
			.tenant = text_at(stmt, 1),
			.name = text_at(stmt, 2),
			.path = text_at(stmt, 3),
			.session = text_at(stmt, 4),
			.template_name = text_at(stmt, 5),
			.size_bytes = (uint64_t)sqlite3_column_int64(stmt, 6),
			.created_us = sqlite3_column_int64(stmt, 7),
			.expires_us = sqlite3_column_int64(stmt, 8),
		};
		each(data, &row);
	}
	uv_mutex_unlock(&s->db_lock);
	return r;
}

int store_load_journal(struct store *s, void (*each)(void *data, const char *id), void *data,
		       struct err *err)
{
	int r;

	uv_mutex_lock(&s->db_lock);
	sqlite3_stmt *stmt = s->db.statements[DB_LOAD_JOURNAL];
	while ((r = db_step(&s->db, stmt, err)) > 0)
		each(data, text_at(stmt, 0));
	uv_mutex_unlock(&s->db_lock);
	return r;
}

int store_load_usage(struct store *s, const char *period,
		     void (*each)(void *data, const struct store_usage *row), void *data,
		     struct err *err)
{
	int r;

	uv_mutex_lock(&s->db_lock);
	sqlite3_stmt *stmt = db_bind(&s->db, DB_LOAD_USAGE, "t", period);
	while ((r = db_step(&s->db, stmt, err)) > 0) {
		const struct store_usage row = {
			.tenant = text_at(stmt, 0),
			.period = period,
			.sessions = (uint64_t)sqlite3_column_int64(stmt, 1),
			.commands = (uint64_t)sqlite3_column_int64(stmt, 2),
			.command_ms = (uint64_t)sqlite3_column_int64(stmt, 3),
		};
		each(data, &row);
	}
	uv_mutex_unlock(&s->db_lock);
	return r;
}

static int find_tenant(struct store *s, const char *tenant, uint32_t *ret, struct err *err)
{
	sqlite3_stmt *stmt = db_bind(&s->db, DB_FIND_TENANT, "t", tenant);
	int r = db_step(&s->db, stmt, err);

	if (r <= 0)
		return r;
	*ret = (uint32_t)sqlite3_column_int64(stmt, 0);
	sqlite3_reset(stmt);
	return 1;
}

int store_tenant_number(struct store *s, const char *tenant, uint32_t *ret, struct err *err)
{
	uv_mutex_lock(&s->db_lock);
	int r = find_tenant(s, tenant, ret, err);
	if (r == 0) {
		r = db_step(&s->db, db_bind(&s->db, DB_ADD_TENANT, "t", tenant), err);
		if (r >= 0)
			r = find_tenant(s, tenant, ret, err);
		if (r == 0)
			r = err_set(err, EIO, "the tenant was not stored");
	}
	uv_mutex_unlock(&s->db_lock);
	return r < 0 ? r : 0;
}
