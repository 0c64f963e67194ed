// SPDX-License-Identifier: Apache-2.0
#include "http/conn.h"

#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/limits.h"

/* ---- The end of a connection ---- */

static void on_closed(uv_handle_t *handle)
{
	struct http_conn *conn = handle->data;
	struct http_server *server = conn->server;

	free(conn);
	server_handle_closed(server);
}

void conn_close(struct http_conn *conn)
{
	struct http_server *server = conn->server;

	if (conn->phase == CONN_CLOSED)
		return;
	conn->phase = CONN_CLOSED;
	list_remove(&conn->node);
	list_remove(&conn->idle);
	task_cancel(&conn->task);
	source_release(take_ptr(conn->source));
	buf_fini(&conn->in);
	conn->view = (struct str){ NULL, 0 };
	if (conn->is_refused)
		server->n_refused--;
	else
		server->n_conns--;
	if (conn->x) {
		conn->x->gone = true;
		exchange_detach(take_ptr(conn->x));
	}
	uv_close(&conn->uv.handle, on_closed);
	server_check_closed(server);
}

/* Ends our direction, so that the client sees the end of the answer at once. Closing the socket now
 * would make the kernel answer bytes that are still coming with a reset, which may overtake the
 * answer. */
static void shut(struct http_conn *conn)
{
	int64_t now = clock_monotonic_ms();
	int fd;

	bool is_hurried = conn->server->closing && !conn->is_drain;

	if (conn->eof || !conn->linger_left || is_hurried || uv_fileno(&conn->uv.handle, &fd) < 0 ||
	    shutdown(fd, SHUT_WR) < 0) {
		conn_close(conn);
		return;
	}
	conn->shut = true;
	conn->linger_end_ms = now + LIMIT_DRAIN_MS;
	conn->deadline_ms = conn->is_drain ? conn->linger_end_ms : now + LIMIT_LINGER_MS;
}

void conn_linger(struct http_conn *conn, uint64_t budget, bool is_drain)
{
	if (conn->phase == CONN_CLOSED)
		return;
	list_remove(&conn->idle);
	conn->phase = CONN_LINGER;
	conn->linger_left = budget;
	conn->is_drain = is_drain;
	conn->blocked = false;
	conn->deadline_ms = 0;
	if (!conn_queued(conn))
		shut(conn);
}

/* Throws input away. */
static void linger_take(struct http_conn *conn, size_t n)
{
	if (!n)
		return;
	conn->linger_left -= n < conn->linger_left ? n : conn->linger_left;
	if (!conn->shut)
		return;
	if (!conn->linger_left) {
		conn_close(conn);
		return;
	}
	int64_t pause = clock_monotonic_ms() + LIMIT_LINGER_MS;
	if (!conn->is_drain)
		conn->deadline_ms = pause < conn->linger_end_ms ? pause : conn->linger_end_ms;
}

/* ---- Forward through the input ---- */

/* Names the client and counts its connections. False when it holds too many. */
static bool identify(struct http_conn *conn, struct http_exchange *x)
{
	struct inet_addr client = conn->addr;
	char *peer = arena_alloc(&x->arena, INET6_ADDRSTRLEN);
	bool is_forwarded = conn->is_proxy &&
			    forwarded_find(&conn->server->proxies, &x->info.head, &client);

	x->peer = peer;
	if (!conn->has_addr && !is_forwarded) {
		memcpy(peer, "unix", sizeof("unix"));
		return true;
	}
	inet_addr_format(&client, peer);
	return !conn->is_proxy || accept_attribute(conn, &client);
}

static bool step_head(struct http_conn *conn)
{
	struct http_server *server = conn->server;
	int n = head_scan(&conn->scan, conn->view);

	if (n == 0)
		return false;
	if (n < 0) {
		refuse(conn, -n);
		return true;
	}
	struct http_exchange *x = exchange_new(server);
	struct str head = { conn->view.data, (size_t)n };
	int status = head_parse(&conn->scan, head, &x->arena, &x->info);
	conn->scan = (struct head_scan){ .at = 0 };
	conn->view = str_from(conn->view, (size_t)n);
	conn->in_head = false;
	conn->deadline_ms = 0;
	list_remove(&conn->idle);
	if (!status && !identify(conn, x))
		status = 503;
	if (status) {
		exchange_free(x);
		refuse(conn, status);
		return true;
	}
	exchange_begin(x, conn);
	server->requests++;
	server->config.handler(server->config.data, x);
	return true;
}

static bool step_body(struct http_conn *conn)
{
	struct http_exchange *x = conn->x;

	switch (x->body_state) {
	case BODY_READING:
		if (x->streams)
			return body_flow(conn);
		if (!body_take(x)) {
			refuse(conn, 400);
			return true;
		}
		return x->body_state != BODY_READING;
	case BODY_FAILED:
	case BODY_READY:
		if (x->paused)
			return false;
		conn->deadline_ms = 0;
		body_deliver(x);
		return true;
	default:
		return false;
	}
}

/* One step. False when there is nothing to do until something happens. */
static bool step(struct http_conn *conn, unsigned *budget)
{
	switch (conn->phase) {
	case CONN_HEAD:
		if (!conn->view.len)
			return false;
		if (conn_queued(conn) > conn->server->config.write_max) {
			conn->blocked = true;
			return false;
		}
		if (!*budget) {
			conn_wake(conn);
			return false;
		}
		--*budget;
		return step_head(conn);
	case CONN_EXCHANGE:
		return step_body(conn);
	case CONN_LINGER:
		linger_take(conn, conn->view.len);
		conn->view.len = 0;
		return false;
	default:
		return false;
	}
}

/* ---- Reading ---- */

void conn_keep_input(struct http_conn *conn)
{
	struct buf *in = &conn->in;

	if (!conn->view.len)
		buf_release(in);
	else if (in->len)
		buf_consume(in, in->len - conn->view.len);
	else
		buf_put_str(in, conn->view);
	conn->view = buf_str(in);
}

/* In HEAD: which deadline counts, and whether it is idle, which it is not while an answer is on its
 * way. */
static void settle_head(struct http_conn *conn)
{
	bool has_work = conn->blocked || !list_is_empty(&conn->task.node);

	if (has_work)
		return;
	if (conn->eof) {
		conn_linger(conn, 0, false);
		return;
	}
	if (conn->view.len && !conn->in_head) {
		list_remove(&conn->idle);
		conn->in_head = true;
		conn->deadline_ms = clock_monotonic_ms() + LIMIT_HEAD_MS;
	} else if (!conn->view.len && conn->served && list_is_empty(&conn->idle) &&
		   !conn_queued(conn)) {
		if (conn->server->closing) {
			conn_linger(conn, LIMIT_DRAIN_REFUSED, false);
			return;
		}
		conn->in_head = false;
		conn->deadline_ms = clock_monotonic_ms() + LIMIT_KEEPALIVE_MS;
		list_append(&conn->server->idle, &conn->idle);
	}
}

/* Whether what comes is used at once. */
static bool is_taking(const struct http_exchange *x)
{
	return x && x->body_state == BODY_READING && !x->paused;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
	struct http_conn *conn = handle->data;
	bool consumes = conn->phase == CONN_LINGER || is_taking(conn->x);
	size_t room = (consumes ? READ_SIZE : INPUT_MAX) - conn->in.len;

	*ret = uv_buf_init(conn->server->read_buffer, (unsigned)room);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *data);

static void update_reading(struct http_conn *conn)
{
	bool want = !conn->eof && conn->in.len < INPUT_MAX &&
		    (conn->phase != CONN_LINGER || conn->linger_left);

	if (want == conn->reading)
		return;
	conn->reading = want;
	if (!want)
		uv_read_stop(&conn->uv.stream);
	else if (uv_read_start(&conn->uv.stream, on_alloc, on_read) < 0)
		conn_close(conn);
}

static void settle(struct http_conn *conn)
{
	if (conn->phase == CONN_CLOSED)
		return;
	conn_keep_input(conn);
	if (conn->phase == CONN_HEAD)
		settle_head(conn);
	else if (conn->eof && is_taking(conn->x))
		conn_close(conn);
	else if (conn->eof && conn->phase == CONN_LINGER && !conn_queued(conn))
		conn_close(conn);
	if (conn->phase != CONN_CLOSED)
		update_reading(conn);
}

static void conn_run(struct http_conn *conn)
{
	unsigned budget = REQUESTS_A_TURN;

	conn->running = true;
	while (step(conn, &budget))
		;
	conn->running = false;
	settle(conn);
}

static void on_task(struct task *task)
{
	conn_run(container_of(task, struct http_conn, task));
}

void conn_wake(struct http_conn *conn)
{
	task_queue_add(&conn->server->tasks, &conn->task);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *data)
{
	struct http_conn *conn = stream->data;

	if (n == 0)
		return;
	if (n == UV_EOF) {
		/* The client may have closed its direction only and still wait for answers. */
		conn->eof = true;
		conn->reading = false;
		if (conn->x)
			exchange_on_eof(conn->x);
	} else if (n < 0) {
		conn_close(conn);
		return;
	} else if (conn->in.len) {
		buf_put(&conn->in, data->base, (size_t)n);
		conn->view = buf_str(&conn->in);
	} else {
		conn->view = (struct str){ data->base, (size_t)n };
	}
	conn_run(conn);
}

void conn_on_written(struct http_conn *conn)
{
	size_t queued = conn_queued(conn);

	if (conn->phase == CONN_LINGER && !queued && !conn->shut)
		shut(conn);
	else if (conn->phase == CONN_HEAD && !queued)
		settle_head(conn);
	if (conn->blocked && queued <= conn->server->config.write_max / 2) {
		conn->blocked = false;
		conn_wake(conn);
	}
	if (conn->x)
		exchange_on_written(conn->x, queued);
}

void conn_answered(struct http_conn *conn, struct http_exchange *x)
{
	bool close = x->close, whole = x->whole;
	uint64_t budget = x->refused_key ? LIMIT_DRAIN_REFUSED : LIMIT_DRAIN;

	conn->x = NULL;
	conn->phase = CONN_HEAD;
	conn->served = true;
	exchange_free(x);
	if (close || !whole)
		conn_linger(conn, budget, !whole);
	if (conn->running || conn->phase == CONN_CLOSED)
		return;
	if (conn->view.len)
		conn_wake(conn);
	else
		settle(conn);
}

/* ---- Time ---- */

static void time_out(struct http_conn *conn)
{
	bool is_idle = conn->phase == CONN_HEAD && !conn->in_head;

	if (conn->phase == CONN_LINGER || is_idle) {
		conn_close(conn);
		return;
	}
	refuse(conn, 408);
	if (conn->phase != CONN_CLOSED)
		conn_wake(conn);
}

/* Whether the client takes nothing of what waits for it. What the kernel holds counts as not taken:
 * it lets us write again only when a third of its buffer is free, which a slow but honest reader
 * may need minutes for (tcp(7), SIOCOUTQ: bytes not acknowledged). */
static bool is_stalled(struct http_conn *conn, int64_t now_ms)
{
	size_t queued = conn_queued(conn);
	int fd, held = 0;

	if (!queued) {
		conn->stalled_ms = 0;
		return false;
	}
	if (uv_fileno(&conn->uv.handle, &fd) == 0)
		ioctl(fd, SIOCOUTQ, &held);
	uint64_t taken = conn->out_total - queued - (uint64_t)held;
	if (!conn->stalled_ms || taken != conn->taken_seen) {
		conn->taken_seen = taken;
		conn->stalled_ms = now_ms;
	}
	return now_ms - conn->stalled_ms >= LIMIT_WRITE_STALL_MS;
}

/* Whether a body drips in below the rate that a connection is worth. */
static bool is_dripping(const struct http_conn *conn, int64_t now_ms)
{
	const struct http_exchange *x = conn->x;

	if (!is_taking(x))
		return false;
	int64_t slow_ms = now_ms - x->body_start_ms - LIMIT_BODY_SLOW_MS;
	return slow_ms > 0 && x->body_len < (uint64_t)slow_ms * LIMIT_BODY_BYTES_PER_S / 1000;
}

void conn_sweep(struct http_conn *conn, int64_t now_ms)
{
	if (is_stalled(conn, now_ms))
		conn_close(conn);
	else if ((conn->deadline_ms && now_ms >= conn->deadline_ms) || is_dripping(conn, now_ms))
		time_out(conn);
}

/* ---- The start ---- */

void conn_start(struct http_server *server, int fd, const struct inet_addr *addr, bool refused)
{
	struct http_conn *conn = mem_new(1, sizeof(*conn));

	conn->server = server;
	conn->in = BUF(READ_SIZE);
	list_init(&conn->idle);
	task_init(&conn->task, on_task);
	list_append(&server->conns, &conn->node);
	server->n_conns++;
	server->n_handles++;
	conn->is_proxy = !addr || proxies_have(&server->proxies, addr);
	if (addr) {
		conn->addr = *addr;
		conn->has_addr = true;
		uv_tcp_init(server->loop, &conn->uv.tcp);
	} else {
		uv_pipe_init(server->loop, &conn->uv.pipe, 0);
	}
	conn->uv.handle.data = conn;
	int r = addr ? uv_tcp_open(&conn->uv.tcp, fd) : uv_pipe_open(&conn->uv.pipe, fd);
	if (r < 0) {
		close(fd);
		conn_close(conn);
		return;
	}
	server_start_timer(server);
	conn->in_head = true;
	conn->deadline_ms = clock_monotonic_ms() + LIMIT_HEAD_MS;
	if (refused || (!conn->is_proxy && !accept_attribute(conn, addr)))
		refuse(conn, 503);
	if (conn->phase != CONN_CLOSED)
		update_reading(conn);
}
