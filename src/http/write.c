// SPDX-License-Identifier: Apache-2.0
#include "http/conn.h"

#include <stdlib.h>

#define MAX_PARTS 4

struct block {
	uv_write_t req;
	struct http_conn *conn;
	size_t len;
	char data[];
};

size_t conn_queued(const struct http_conn *conn)
{
	return conn->uv.stream.write_queue_size;
}

static void on_written(uv_write_t *req, int status)
{
	struct block *block = container_of(req, struct block, req);
	struct http_conn *conn = block->conn;

	free(block);
	if (conn->phase == CONN_CLOSED)
		return;
	if (status < 0)
		conn_close(conn);
	else
		conn_on_written(conn);
}

/* Queues what is left of the parts after the first sent bytes. */
static void queue(struct http_conn *conn, const struct str *parts, size_t n, size_t sent,
		  size_t total)
{
	struct block *block = mem_grow(NULL, 1, sizeof(*block) + (total - sent));

	block->conn = conn;
	block->len = 0;
	for (size_t i = 0; i < n; i++) {
		size_t skip = sent < parts[i].len ? sent : parts[i].len;
		struct str rest = str_from(parts[i], skip);
		sent -= skip;
		if (rest.len)
			memcpy(block->data + block->len, rest.data, rest.len);
		block->len += rest.len;
	}
	uv_buf_t piece = { .base = block->data, .len = block->len };
	if (uv_write(&block->req, &conn->uv.stream, &piece, 1, on_written) < 0) {
		free(block);
		conn_close(conn);
	}
}

void conn_write(struct http_conn *conn, const struct str *parts, size_t n)
{
	uv_buf_t pieces[MAX_PARTS];
	unsigned n_pieces = 0;
	size_t total = 0, sent = 0;

	if (conn->phase == CONN_CLOSED)
		return;
	for (size_t i = 0; i < n; i++) {
		total += parts[i].len;
		if (parts[i].len)
			pieces[n_pieces++] = (uv_buf_t){ .base = (char *)(uintptr_t)parts[i].data,
							 .len = parts[i].len };
	}
	if (!total)
		return;
	conn->out_total += total;
	if (!conn_queued(conn)) {
		int r = uv_try_write(&conn->uv.stream, pieces, n_pieces);
		if (r < 0 && r != UV_EAGAIN) {
			conn_close(conn);
			return;
		}
		sent = r < 0 ? 0 : (size_t)r;
	}
	if (sent < total)
		queue(conn, parts, n, sent, total);
}
