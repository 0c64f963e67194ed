// SPDX-License-Identifier: Apache-2.0
#include "http/conn.h"

#include <assert.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/limits.h"
#include "http/status.h"
#include "http/token.h"

/* ---- The head ---- */

static const char *date_now(struct http_server *server)
{
	int64_t now_s = clock_wall_us() / 1000000;

	if (now_s != server->date_s || !server->date[0]) {
		time_t t = (time_t)now_s;
		struct tm tm;
		gmtime_r(&t, &tm);
		strftime(server->date, sizeof(server->date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
		server->date_s = now_s;
	}
	return server->date;
}

/* A field can never end early, whatever its value was made of. */
static void put_field(struct buf *out, const struct http_header *field)
{
	for (size_t i = 0; i < field->name.len; i++)
		assert(token_has((unsigned char)field->name.data[i]));
	buf_put_str(out, field->name);
	buf_put(out, ": ", 2);
	for (size_t i = 0; i < field->value.len; i++) {
		unsigned char c = (unsigned char)field->value.data[i];
		buf_put_char(out, c < ' ' || c == 0x7f ? ' ' : (char)c);
	}
	buf_put(out, "\r\n", 2);
}

static bool has_field(const struct http_reply *reply, const char *name)
{
	for (size_t i = 0; i < reply->n_headers; i++) {
		if (str_eq_nocase(reply->headers[i].name, str_of(name)))
			return true;
	}
	return false;
}

static void put_line(struct buf *out, const char *name, const char *value)
{
	buf_put_text(out, name);
	buf_put_text(out, value);
	buf_put(out, "\r\n", 2);
}

void reply_head(struct http_server *server, const struct http_reply *reply, const char *id,
		int64_t length, bool close)
{
	struct buf *out = &server->head_out;
	bool has_length = reply->status != 204 && reply->status != 304;

	buf_clear(out);
	buf_printf(out, "HTTP/1.1 %d %s\r\n", reply->status, http_status_name(reply->status));
	put_line(out, "Date: ", date_now(server));
	if (reply->content_type)
		put_line(out, "Content-Type: ", reply->content_type);
	if (has_length && length >= 0)
		buf_printf(out, "Content-Length: %lld\r\n", (long long)length);
	else if (has_length)
		put_line(out, "Transfer-Encoding: ", "chunked");
	if (!has_field(reply, "Cache-Control"))
		put_line(out, "Cache-Control: ", "no-store");
	put_line(out, "X-Content-Type-Options: ", "nosniff");
	put_line(out, "X-Request-Id: ", id);
	for (size_t i = 0; i < reply->n_headers; i++)
		put_field(out, &reply->headers[i]);
	if (close)
		put_line(out, "Connection: ", "close");
	buf_put(out, "\r\n", 2);
	assert(!buf_is_full(out));
}

/* ---- Answers ---- */

/* Decides what becomes of the connection and forms the head. x->conn is not NULL. */
static void start(struct http_exchange *x, const struct http_reply *reply, int64_t length)
{
	assert(!x->begun && !x->owes_gone);
	x->begun = true;
	if (reply->status == 204 || reply->status == 304)
		x->is_bare = true;
	x->is_chunked = length < 0;
	x->length_left = length < 0 ? 0 : (uint64_t)length;
	x->refused_key = reply->refused_key;
	x->close = reply->close || !x->info.head.keep_alive || x->server->closing || !body_skip(x);
	x->conn->deadline_ms = 0;
	/* Whoever answers no longer wants a body. */
	if (x->body_state != BODY_DONE)
		x->body_state = BODY_UNREAD;
	reply_head(x->server, reply, x->id, length, x->close);
}

void http_reply(struct http_exchange *x, const struct http_reply *reply, struct str body)
{
	x->status = reply->status;
	if (x->conn) {
		start(x, reply, (int64_t)body.len);
		struct str parts[] = { buf_str(&x->server->head_out),
				       x->is_bare ? (struct str){ NULL, 0 } : body };
		x->length_left = 0;
		conn_write(x->conn, parts, ARRAY_SIZE(parts));
	}
	if (x->conn)
		conn_answered(x->conn, x);
	else
		exchange_free(x);
}

void http_begin(struct http_exchange *x, const struct http_reply *reply, int64_t length)
{
	x->status = reply->status;
	if (!x->conn) {
		x->begun = true;
		return;
	}
	/* HTTP/1.0 has no chunks, and an end by closing would hide a broken answer. */
	x->broken = length < 0 && x->info.is_http10;
	start(x, reply, length);
	struct str head = buf_str(&x->server->head_out);
	conn_write(x->conn, &head, 1);
}

static void write_chunk(struct http_exchange *x, struct str bytes)
{
	char size[24];
	int n = snprintf(size, sizeof(size), "%zx\r\n", bytes.len);
	struct str parts[] = { { size, (size_t)n }, bytes, STR("\r\n") };

	conn_write(x->conn, parts, ARRAY_SIZE(parts));
}

bool http_write(struct http_exchange *x, struct str bytes)
{
	assert(x->begun);
	if (!x->conn || !bytes.len || x->broken)
		return true;
	if (!x->is_chunked && bytes.len > x->length_left) {
		x->broken = true;
		return true;
	}
	if (!x->is_chunked)
		x->length_left -= bytes.len;
	if (x->is_bare)
		return true;
	if (x->is_chunked)
		write_chunk(x, bytes);
	else
		conn_write(x->conn, &bytes, 1);
	x->wants_drained = x->conn && conn_queued(x->conn) > x->server->config.write_max;
	return !x->wants_drained;
}

void http_on_drained(struct http_exchange *x, void (*drained)(void *data), void *data)
{
	x->drained = drained;
	x->drained_data = data;
}

void http_end(struct http_exchange *x)
{
	static const struct str last = STR("0\r\n\r\n");

	assert(x->begun);
	if (x->conn && (x->broken || (x->length_left && !x->is_bare))) {
		http_abort(x);
		return;
	}
	if (x->conn && x->is_chunked && !x->is_bare)
		conn_write(x->conn, &last, 1);
	if (x->conn)
		conn_answered(x->conn, x);
	else
		exchange_free(x);
}

void http_abort(struct http_exchange *x)
{
	struct http_conn *conn = x->conn;
	bool gone = x->gone;

	/* Nothing is owed to a handler that gives up. */
	x->wants_drained = false;
	x->body_state = BODY_DONE;
	if (conn)
		conn_close(conn);
	x->gone = gone;
	exchange_free(x);
}
