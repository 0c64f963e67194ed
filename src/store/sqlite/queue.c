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
#include "store/sqlite/queue.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define STACK_SIZE (256u * 1024)
#define LOG_EVERY_US (60 * 1000000ll)

static void append(struct op_list *list, struct op *op)
{
	op->next = NULL;
	if (list->last)
		list->last->next = op;
	else
		list->first = op;
	list->last = op;
}

static void append_all(struct op_list *list, struct op_list *more)
{
	if (!more->first)
		return;
	if (list->last)
		list->last->next = more->first;
	else
		list->first = more->first;
	list->last = more->last;
	*more = (struct op_list){ 0 };
}

static void op_free(struct op *op)
{
	for (struct op *next; op; op = next) {
		next = op->more;
		free(op->err);
		if (op->forget)
			op->forget(op->found);
		free(op);
	}
}

/* ---- The writer ---- */

/* All operations from first up to and without end, in one transaction. */
static int commit(struct store *s, struct op *first, const struct op *end, bool *ret_begun,
		  struct err *err)
{
	const int changes = sqlite3_total_changes(s->db.sqlite);
	struct err ignored;
	int r = db_run(&s->db, DB_BEGIN, err);

	*ret_begun = r >= 0;
	for (struct op *op = first; op != end && r >= 0; op = op->next) {
		for (struct op *part = op; part && r >= 0; part = part->more)
			r = part->run(&s->db, part, err);
	}
	if (r >= 0)
		r = db_run(&s->db, DB_COMMIT, err);
	/* Some failures have rolled back by themselves already. */
	if (r < 0 && !sqlite3_get_autocommit(s->db.sqlite))
		db_run(&s->db, DB_ROLLBACK, &ignored);
	/* Where nothing was to be written nothing was proved. */
	if (r >= 0 && sqlite3_total_changes(s->db.sqlite) != changes)
		atomic_store(&s->failing, false);
	return r;
}

static void write_batch(struct store *s, struct op_list *batch)
{
	struct err err;
	bool begun;

	uv_mutex_lock(&s->db_lock);
	int r = commit(s, batch->first, NULL, &begun, &err);
	for (struct op *op = batch->first; op && r < 0; op = op->next) {
		/* Where none can begin, because another program holds the database, each would wait
		 * as long as the first did. */
		if (begun && commit(s, op, op->next, &begun, &err) >= 0)
			continue;
		atomic_store(&s->failing, true);
		op->err = mem_new(1, sizeof(err));
		*op->err = err;
		atomic_fetch_add(&s->errors, 1);
	}
	uv_mutex_unlock(&s->db_lock);
}

static bool take_batch(struct store *s, struct op_list *batch)
{
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
		struct op_list batch = { 0 };
		more = take_batch(s, &batch);
		if (batch.first)
			write_batch(s, &batch);
		uv_mutex_lock(&s->queue_lock);
		append_all(&s->done, &batch);
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
	struct op_list done = { 0 };

	uv_mutex_lock(&s->queue_lock);
	append_all(&done, &s->done);
	bool stopped = s->stopped;
	uv_mutex_unlock(&s->queue_lock);
	for (struct op *op = done.first, *next; op; op = next) {
		next = op->next;
		if (op->err)
			log_failure(s, op);
		if (op->answer)
			op->answer(op, op->err);
		else if (op->then.done)
			op->then.done(op->data, op->err);
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

bool store_was_emptied(const struct store *s)
{
	return s->db.was_emptied;
}

int store_accept_emptied(struct store *s, struct err *err)
{
	store_lock(s);
	int r = db_accept_emptied(&s->db, err);
	store_unlock(s);
	return r;
}

uint64_t store_errors(const struct store *s)
{
	return atomic_load(&s->errors);
}

bool store_is_failing(const struct store *s)
{
	return atomic_load(&s->failing);
}

void store_lock(struct store *s)
{
	uv_mutex_lock(&s->db_lock);
}

void store_unlock(struct store *s)
{
	uv_mutex_unlock(&s->db_lock);
}

/* ---- Operations ---- */

struct op *op_new(int (*run)(struct db *db, struct op *op, struct err *err),
		  const char *const *texts, size_t n)
{
	size_t room = 0;

	assert(n <= OP_TEXTS_MAX);
	for (size_t i = 0; i < n; i++)
		room += texts[i] ? strlen(texts[i]) + 1 : 0;
	struct op *op = mem_new(1, sizeof(*op) + room);
	char *at = op->room;
	op->run = run;
	for (size_t i = 0; i < n; i++) {
		if (!texts[i])
			continue;
		size_t len = strlen(texts[i]) + 1;
		memcpy(at, texts[i], len);
		op->texts[i] = at;
		at += len;
	}
	return op;
}

struct op *op_new_list(int (*run)(struct db *db, struct op *op, struct err *err), const char *list,
		       size_t n)
{
	const char *end = list;

	for (size_t i = 0; i < n; i++)
		end += strlen(end) + 1;
	size_t room = (size_t)(end - list);
	struct op *op = mem_new(1, sizeof(*op) + room);
	memcpy(op->room, list, room);
	op->run = run;
	op->texts[0] = op->room;
	op->n = n;
	return op;
}

void op_submit(struct store *s, struct op *op, store_fn done, void *data)
{
	if (!op->answer)
		op->then.done = done;
	op->data = data;
	start_writer(s);
	uv_mutex_lock(&s->queue_lock);
	assert(!s->stop);
	append(&s->queue, op);
	uv_cond_signal(&s->wake);
	uv_mutex_unlock(&s->queue_lock);
}

int op_step(struct db *db, sqlite3_stmt *stmt, struct err *err)
{
	int r = db_step(db, stmt, err);

	assert(r <= 0);
	return r;
}

const char *column_text(sqlite3_stmt *stmt, int column)
{
	const unsigned char *text = sqlite3_column_text(stmt, column);

	return text ? (const char *)text : "";
}
