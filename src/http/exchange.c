// SPDX-License-Identifier: Apache-2.0
#include "http/conn.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/random.h"

/* Exchanges kept for the next request. */
#define MAX_SPARES 32u

/* The connection went away. The handler hears of it from the loop, never inside one of its calls. */
static void on_task(struct task *task)
{
	struct http_exchange *x = container_of(task, struct http_exchange, task);

	if (x->owes_gone) {
		if (x->want.gone)
			x->want.gone(x->want.data);
		exchange_free(x);
	} else if (x->hung_up) {
		void (*hung_up)(void *data) = x->hung_up;
		x->hung_up = NULL;
		x->gone = true;
		hung_up(x->hung_up_data);
	} else if (x->wants_drained) {
		x->wants_drained = false;
		if (x->drained)
			x->drained(x->drained_data);
	}
}

struct http_exchange *exchange_new(struct http_server *server)
{
	struct list *spare = list_first(&server->spares);
	struct http_exchange *x;

	if (spare) {
		x = container_of(spare, struct http_exchange, node);
		list_remove(&x->node);
		server->n_spares--;
	} else {
		x = mem_new(1, sizeof(*x));
		list_init(&x->node);
	}
	x->server = server;
	task_init(&x->task, on_task);
	server->n_exchanges++;
	return x;
}

static struct str outer_id(const struct http_head *head)
{
	size_t count;
	struct str id = http_head_find(head, "x-request-id", &count);
	bool good = count == 1 && id.len > 0 && id.len <= LIMIT_OUTER_ID;

	for (size_t i = 0; i < id.len && good; i++) {
		char c = id.data[i];
		good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		       memchr("-_.=", c, 4);
	}
	return good ? id : (struct str){ NULL, 0 };
}

void exchange_begin(struct http_exchange *x, struct http_conn *conn)
{
	const struct http_head *head = &x->info.head;

	memcpy(x->id, "req_", 4);
	random_hex(x->id + 4, 16);
	x->began_us = clock_monotonic_us();
	if (conn->is_proxy)
		x->outer_id = outer_id(head);
	x->whole = !head->chunked && !head->content_length;
	x->is_bare = str_eq(head->method, STR("HEAD"));
	x->conn = conn;
	conn->x = x;
	conn->phase = CONN_EXCHANGE;
}

static void tell(const struct http_exchange *x)
{
	const struct http_answered answered = {
		.id = x->id,
		.outer_id = x->outer_id,
		.note = x->note,
		.status = x->status,
		.gone = x->gone,
		.took_us = clock_monotonic_us() - x->began_us,
	};

	server_answered(x->server, &answered);
}

void exchange_free(struct http_exchange *x)
{
	struct http_server *server = x->server;
	struct arena arena;

	if (x->status || x->gone)
		tell(x);
	task_cancel(&x->task);
	body_release(x);
	arena_reset(&x->arena);
	arena = x->arena;
	*x = (struct http_exchange){ .arena = arena };
	list_init(&x->node);
	if (server->n_spares < MAX_SPARES && !server->finished) {
		list_append(&server->spares, &x->node);
		server->n_spares++;
	} else {
		arena_fini(&x->arena);
		free(x);
	}
	server->n_exchanges--;
	server_check_closed(server);
}

void exchange_detach(struct http_exchange *x)
{
	bool is_waiting = x->body_state == BODY_READING || x->body_state == BODY_FAILED ||
			  x->body_state == BODY_READY;

	x->conn = NULL;
	if (is_waiting) {
		body_release(x);
		x->owes_gone = true;
	}
	if (is_waiting || x->hung_up || x->wants_drained)
		task_queue_add(&x->server->tasks, &x->task);
}

void exchange_on_eof(struct http_exchange *x)
{
	if (x->hung_up)
		task_queue_add(&x->server->tasks, &x->task);
}

void http_on_hangup(struct http_exchange *x, void (*hung_up)(void *data), void *data)
{
	assert(!x->begun);
	x->hung_up = hung_up;
	x->hung_up_data = data;
	if (!x->conn || x->conn->eof)
		exchange_on_eof(x);
}

void exchange_on_written(struct http_exchange *x, size_t queued)
{
	if (!x->wants_drained || queued > x->server->config.write_max / 2)
		return;
	x->wants_drained = false;
	if (x->drained)
		x->drained(x->drained_data);
}

const struct http_head *http_exchange_head(const struct http_exchange *x)
{
	return &x->info.head;
}

const char *http_exchange_id(const struct http_exchange *x)
{
	return x->id;
}

struct http_note *http_exchange_note(struct http_exchange *x)
{
	return &x->note;
}

const char *http_exchange_peer(const struct http_exchange *x)
{
	return x->peer;
}

bool http_exchange_is_gone(const struct http_exchange *x)
{
	return !x->conn;
}
