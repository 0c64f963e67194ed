// SPDX-License-Identifier: Apache-2.0
#include "http/conn.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"

#define HEAD_OUT_MAX (32u * KIB)
#define CLOSING_SWEEP_MS 50

static void on_timer(uv_timer_t *timer)
{
	server_sweep(timer->data);
}

void server_start_timer(struct http_server *server)
{
	if (!server->finished && !uv_is_active((uv_handle_t *)&server->timer))
		uv_timer_start(&server->timer, on_timer, SWEEP_MS, SWEEP_MS);
}

/* ---- The end ---- */

static void maybe_free(struct http_server *server)
{
	if (!server->finished || server->n_handles)
		return;
	void (*closed)(void *data) = take_ptr(server->closed);
	if (closed) {
		/* It may answer the last exchange, which must not free the server under us. */
		server->n_exchanges++;
		closed(server->closed_data);
		server->n_exchanges--;
	}
	if (server->n_exchanges)
		return;
	free(server->read_buffer);
	free(server->proxies.ranges);
	buf_fini(&server->head_out);
	free(server);
}

void server_handle_closed(struct http_server *server)
{
	server->n_handles--;
	maybe_free(server);
}

static void on_handle_closed(uv_handle_t *handle)
{
	server_handle_closed(handle->data);
}

static void free_spares(struct http_server *server)
{
	struct list *node;

	while ((node = list_first(&server->spares))) {
		struct http_exchange *x = container_of(node, struct http_exchange, node);
		list_remove(node);
		arena_fini(&x->arena);
		free(x);
	}
	server->n_spares = 0;
}

/* Cuts what is left and closes the handles. */
static void finish(struct http_server *server)
{
	struct list *node;

	while ((node = list_first(&server->conns)))
		conn_close(container_of(node, struct http_conn, node));
	server->finished = true;
	task_cancel(&server->close_task);
	free_spares(server);
	uv_close((uv_handle_t *)&server->timer, on_handle_closed);
	task_queue_close(&server->tasks, on_handle_closed);
}

static void on_close_task(struct task *task)
{
	struct http_server *server = container_of(task, struct http_server, close_task);

	if (!server->finished && !server->n_conns && !server->n_refused && !server->n_exchanges)
		finish(server);
}

void server_answered(struct http_server *server, const struct http_answered *a)
{
	if (server->config.answered)
		server->config.answered(server->config.answered_data, a);
}

void server_check_closed(struct http_server *server)
{
	if (server->finished)
		maybe_free(server);
	else if (server->closing && !server->n_conns && !server->n_refused && !server->n_exchanges)
		task_queue_add(&server->tasks, &server->close_task);
}

void http_server_close(struct http_server *server, int64_t grace_ms, void (*closed)(void *data),
		       void *data)
{
	assert(!server->closing);
	server->closing = true;
	server->closed = closed;
	server->closed_data = data;
	server->close_deadline_ms = clock_monotonic_ms() + grace_ms;
	accept_close(server);
	list_each(at, &server->conns)
	{
		struct http_conn *conn = container_of(at, struct http_conn, node);
		bool is_told = conn->phase == CONN_LINGER && conn->shut && !conn->is_drain;
		bool is_unused = conn->phase == CONN_HEAD && !conn->view.len && !conn_queued(conn);
		if (is_told || is_unused)
			conn_close(conn);
	}
	uv_timer_start(&server->timer, on_timer, CLOSING_SWEEP_MS, CLOSING_SWEEP_MS);
	server_check_closed(server);
}

/* ---- Time ---- */

void server_sweep(struct http_server *server)
{
	int64_t now_ms = clock_monotonic_ms();

	accept_sweep(server);
	list_each(at, &server->conns) conn_sweep(container_of(at, struct http_conn, node), now_ms);
	if (server->closing && now_ms >= server->close_deadline_ms) {
		if (!server->finished)
			finish(server);
		return;
	}
	if (list_is_empty(&server->conns) && !server->closing && !server->accept_paused)
		uv_timer_stop(&server->timer);
}

/* ---- The start ---- */

static void init(struct http_server *server, uv_loop_t *loop, const struct http_config *config)
{
	server->loop = loop;
	server->config = *config;
	server->config.trusted_proxies = NULL; /* parsed */
	server->reserve_fd = -1;
	server->head_out = BUF(HEAD_OUT_MAX);
	server->read_buffer = mem_grow(NULL, 1, READ_SIZE);
	list_init(&server->conns);
	list_init(&server->idle);
	list_init(&server->bodies);
	list_init(&server->spares);
	source_table_init(&server->sources);
	task_init(&server->close_task, on_close_task);
	task_queue_init(&server->tasks, loop);
	server->tasks.idle.data = server;
	uv_timer_init(loop, &server->timer);
	server->timer.data = server;
	server->n_handles = 2;
}

int http_server_open(uv_loop_t *loop, const struct http_config *config, struct http_server **ret,
		     struct err *err)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct proxies proxies = { .ranges = NULL };

	assert(config->handler && config->max_connections && config->write_max);
	int r = inet_ranges_parse(str_of(config->trusted_proxies), &proxies.ranges, &proxies.n,
				  err);
	if (r < 0)
		return r;
	/* A client that hung up is an error of that write, not the end of the process. */
	sigaction(SIGPIPE, &ignore, NULL);
	struct http_server *server = mem_new(1, sizeof(*server));
	init(server, loop, config);
	server->proxies = proxies;
	r = accept_open(server, err);
	if (r < 0) {
		server->config.listen_fd = -1;
		server->closing = true;
		finish(server);
		return r;
	}
	*ret = server;
	return 0;
}

void http_server_info_get(const struct http_server *server, struct http_server_info *ret)
{
	*ret = (struct http_server_info){
		.connections = server->n_conns,
		.requests = server->requests,
		.bodies_bytes = server->bodies_bytes,
	};
}
