// SPDX-License-Identifier: Apache-2.0
/*
 * A body that goes through: at most one read (READ_SIZE) of it is here at any time. While the
 * handler pauses, reading goes on until INPUT_MAX bytes wait, so that a reset is noticed; the
 * client is held back by its socket.
 */
#include "http/conn.h"

#include <assert.h>

#include "base/clock.h"
#include "base/limits.h"

/* Takes the next piece from the view. */
static enum chunk_result next_piece(struct http_exchange *x, struct str *ret)
{
	struct str *view = &x->conn->view;
	uint64_t left = x->info.head.content_length - x->body_len;

	if (x->info.head.chunked)
		return chunk_take(&x->chunk, view, ret);
	*ret = (struct str){ view->data, left < view->len ? (size_t)left : view->len };
	*view = str_from(*view, ret->len);
	return CHUNK_DATA;
}

static bool fits(const struct http_exchange *x, struct str piece)
{
	uint64_t room = x->want.max - x->body_len;

	return piece.len <= room && x->chunk.left <= room - piece.len;
}

static void give(struct http_conn *conn, struct http_exchange *x, struct str piece)
{
	const struct http_head *head = &x->info.head;

	x->body_len += piece.len;
	x->whole = !head->chunked && x->body_len == head->content_length;
	bool more = x->flow.piece(x->want.data, piece);
	/* It may have answered, and then x is not ours any more. */
	if (conn->x != x)
		return;
	if (x->whole)
		x->body_state = BODY_READY;
	if (more)
		return;
	x->paused = true;
	x->paused_ms = clock_monotonic_ms();
	conn->deadline_ms = 0;
}

bool body_flow(struct http_conn *conn)
{
	struct http_exchange *x = conn->x;
	struct str piece;

	if (x->paused || !conn->view.len)
		return false;
	conn->deadline_ms = clock_monotonic_ms() + LIMIT_BODY_PAUSE_MS;
	switch (next_piece(x, &piece)) {
	case CHUNK_BAD:
		refuse(conn, 400);
		break;
	case CHUNK_MORE:
		return false;
	case CHUNK_END:
		x->body_state = BODY_READY;
		x->whole = true;
		break;
	case CHUNK_DATA:
		if (fits(x, piece))
			give(conn, x, piece);
		else
			body_fail(x, 413);
		break;
	}
	return true;
}

void http_body_stream(struct http_exchange *x, const struct http_body_flow *flow)
{
	assert(x->body_state == BODY_UNREAD && !x->begun && !x->owes_gone);
	x->want =
		(struct http_body_want){ .max = flow->max, .gone = flow->gone, .data = flow->data };
	x->flow = *flow;
	x->streams = true;
	if (!x->conn) {
		x->owes_gone = true;
		task_queue_add(&x->server->tasks, &x->task);
		return;
	}
	if (x->whole)
		x->body_state = BODY_READY;
	else if (x->info.head.content_length > flow->max)
		body_fail(x, 413);
	else
		body_begin(x);
	if (x->conn && !x->conn->running)
		conn_wake(x->conn);
}

void http_body_resume(struct http_exchange *x)
{
	assert(x->streams);
	if (!x->paused)
		return;
	x->paused = false;
	if (!x->conn)
		return;
	int64_t now = clock_monotonic_ms();
	/* What the handler took counts against nobody. */
	x->body_start_ms += now - x->paused_ms;
	if (x->body_state == BODY_READING)
		x->conn->deadline_ms = now + LIMIT_BODY_PAUSE_MS;
	if (!x->conn->running)
		conn_wake(x->conn);
}
