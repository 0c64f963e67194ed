// SPDX-License-Identifier: Apache-2.0
#include "http/conn.h"

#include <assert.h>

#include "base/clock.h"
#include "base/limits.h"

/* Chunked bodies are counted in steps of this. */
#define RESERVE_STEP (64u * KIB)

/* ---- Memory for bodies, all and one account ---- */

static uint64_t reserved_by(const struct http_server *server, uint32_t account)
{
	uint64_t sum = 0;

	list_each(at, &server->bodies)
	{
		const struct http_exchange *x = container_of(at, struct http_exchange, node);
		if (x->want.account == account)
			sum += x->reserved;
	}
	return sum;
}

static bool reserve(struct http_exchange *x, uint64_t total)
{
	struct http_server *server = x->server;
	uint64_t more = total - x->reserved;

	if (more > LIMIT_BODIES_ALL || server->bodies_bytes > LIMIT_BODIES_ALL - more)
		return false;
	/* One account cannot have more than all have, so the sum is rarely needed. */
	if (server->bodies_bytes + more > LIMIT_BODIES_TENANT &&
	    reserved_by(server, x->want.account) + more > LIMIT_BODIES_TENANT)
		return false;
	if (list_is_empty(&x->node))
		list_append(&server->bodies, &x->node);
	x->reserved = total;
	server->bodies_bytes += more;
	return true;
}

void body_release(struct http_exchange *x)
{
	x->server->bodies_bytes -= x->reserved;
	x->reserved = 0;
	list_remove(&x->node);
	buf_fini(&x->body);
	x->small = NULL;
}

/* ---- Taking ---- */

void body_fail(struct http_exchange *x, int status)
{
	x->body_state = BODY_FAILED;
	x->body_status = status;
	body_release(x);
}

static void put(struct http_exchange *x, struct str piece)
{
	if (x->small)
		memcpy(x->small + x->body_len, piece.data, piece.len);
	else
		buf_put_str(&x->body, piece);
	x->body_len += piece.len;
}

static void take_counted(struct http_exchange *x)
{
	struct str *view = &x->conn->view;
	uint64_t left = x->info.head.content_length - x->body_len;
	size_t n = left < view->len ? (size_t)left : view->len;

	put(x, (struct str){ view->data, n });
	*view = str_from(*view, n);
	if (n == left)
		x->body_state = BODY_READY;
}

static void take_piece(struct http_exchange *x, struct str piece)
{
	uint64_t room = x->want.max - x->body_len;
	uint64_t end = x->body_len + piece.len;

	if (piece.len > room || x->chunk.left > room - piece.len) {
		body_fail(x, 413);
		return;
	}
	if (end > SMALL_BODY && end > x->reserved) {
		uint64_t total = (end + RESERVE_STEP - 1) / RESERVE_STEP * RESERVE_STEP;
		if (!reserve(x, total)) {
			body_fail(x, 503);
			return;
		}
	}
	put(x, piece);
}

static bool take_chunked(struct http_exchange *x)
{
	struct str *view = &x->conn->view, piece;

	while (x->body_state == BODY_READING) {
		switch (chunk_take(&x->chunk, view, &piece)) {
		case CHUNK_BAD:
			return false;
		case CHUNK_MORE:
			return true;
		case CHUNK_DATA:
			take_piece(x, piece);
			break;
		case CHUNK_END:
			x->body_state = BODY_READY;
			break;
		}
	}
	return true;
}

bool body_take(struct http_exchange *x)
{
	if (!x->conn->view.len)
		return true;
	x->conn->deadline_ms = clock_monotonic_ms() + LIMIT_BODY_PAUSE_MS;
	if (x->info.head.chunked && !take_chunked(x))
		return false;
	if (!x->info.head.chunked)
		take_counted(x);
	x->whole = x->body_state == BODY_READY;
	return true;
}

void body_deliver(struct http_exchange *x)
{
	bool is_ready = x->body_state == BODY_READY;
	int status = is_ready ? 0 : x->body_status;
	struct str body = STR("");

	if (x->streams) {
		x->body_state = BODY_DONE;
		x->flow.end(x->want.data, status);
		return;
	}
	if (is_ready && x->body_len)
		body = (struct str){ x->small ? x->small : x->body.data, (size_t)x->body_len };
	x->body_state = BODY_DONE;
	x->want.fn(x->want.data, x, status, body);
}

bool body_skip(struct http_exchange *x)
{
	const struct http_head *head = &x->info.head;
	struct str *view = &x->conn->view;

	if (x->whole)
		return true;
	if (x->body_state != BODY_UNREAD || head->chunked || view->len < head->content_length)
		return false;
	*view = str_from(*view, (size_t)head->content_length);
	x->whole = true;
	/* Else the next read would bring the body back, and it would be the next request. */
	if (!x->conn->running)
		conn_keep_input(x->conn);
	return true;
}

/* ---- Asking ---- */

/* Room for the body. Returns 0 or the status. */
static int admit(struct http_exchange *x)
{
	uint64_t length = x->info.head.content_length;

	if (length > x->want.max)
		return 413;
	x->body = BUF(x->want.max ? x->want.max : 1);
	if (x->info.head.chunked)
		return 0;
	if (length <= SMALL_BODY) {
		x->small = arena_alloc(&x->arena, (size_t)length + 1);
		return 0;
	}
	if (!reserve(x, length))
		return 503;
	buf_reserve(&x->body, (size_t)length);
	return 0;
}

void body_begin(struct http_exchange *x)
{
	static const struct str go_on = STR("HTTP/1.1 100 Continue\r\n\r\n");
	struct http_conn *conn = x->conn;

	x->body_state = BODY_READING;
	x->body_start_ms = clock_monotonic_ms();
	conn->deadline_ms = x->body_start_ms + LIMIT_BODY_PAUSE_MS;
	if (x->info.expect_continue && !conn->view.len)
		conn_write(conn, &go_on, 1);
}

void http_body_read(struct http_exchange *x, const struct http_body_want *want)
{
	int status;

	assert(x->body_state == BODY_UNREAD && !x->begun && !x->owes_gone);
	x->want = *want;
	if (!x->conn) {
		x->owes_gone = true;
		task_queue_add(&x->server->tasks, &x->task);
		return;
	}
	if (x->whole)
		x->body_state = BODY_READY;
	else if ((status = admit(x)))
		body_fail(x, status);
	else
		body_begin(x);
	if (x->conn && !x->conn->running)
		conn_wake(x->conn);
}
