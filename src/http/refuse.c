// SPDX-License-Identifier: Apache-2.0
#include "http/conn.h"

#include <assert.h>

#include "base/limits.h"
#include "base/random.h"

/* The framing rows of the contract's error table. */
static const struct refusal {
	int status;
	struct str body;
	bool retry;
} refusals[] = {
	{ 400, STR("{\"detail\":\"Malformed request.\",\"code\":\"malformed_request\"}"), false },
	{ 408, STR("{\"detail\":\"Request timed out.\",\"code\":\"request_timeout\"}"), false },
	{ 414, STR("{\"detail\":\"Request target too long.\",\"code\":\"target_too_long\"}"),
	  false },
	{ 431, STR("{\"detail\":\"Request headers too large.\",\"code\":\"headers_too_large\"}"),
	  false },
	{ 503,
	  STR("{\"detail\":\"Too many connections; try again shortly.\","
	      "\"code\":\"too_many_connections\"}"),
	  true },
	{ 505, STR("{\"detail\":\"Use HTTP/1.1.\",\"code\":\"http_version\"}"), false },
};

static const struct refusal *refusal_get(int status)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(refusals) && refusals[i].status != status)
		i++;
	assert(i < ARRAY_SIZE(refusals));
	return &refusals[i];
}

/* Leaves the head in server->head_out and returns the body. x: whose request it was, if the head
 * was read. */
static struct str format(struct http_server *server, struct http_exchange *x, int status)
{
	static const struct http_header retry = { STR("Retry-After"), STR("1") };
	const struct refusal *refusal = refusal_get(status);
	struct http_reply reply = {
		.status = status,
		.content_type = "application/json",
		.headers = &retry,
		.n_headers = refusal->retry ? 1 : 0,
	};
	char id[4 + 16 + 1] = "req_";

	if (x) {
		memcpy(id, x->id, sizeof(id));
		x->status = status;
	} else {
		random_hex(id + 4, 16);
		server_answered(server, &(struct http_answered){
						.id = id, .status = status, .took_us = -1 });
	}
	reply_head(server, &reply, id, (int64_t)refusal->body.len, true);
	return refusal->body;
}

void refuse(struct http_conn *conn, int status)
{
	struct http_exchange *x = conn->x;

	/* In the middle of an answer nothing can be said any more. */
	if (x && x->begun) {
		conn_close(conn);
		return;
	}
	struct str body = format(conn->server, x, status);
	conn->x = NULL;
	if (x)
		exchange_detach(x);
	struct str parts[] = { buf_str(&conn->server->head_out), body };
	conn->phase = CONN_LINGER;
	if (status == 503)
		accept_discount(conn);
	conn_write(conn, parts, ARRAY_SIZE(parts));
	/* Only so many may take their time to read that there is no room. */
	if (conn->is_refused && conn->server->n_refused > MAX_REFUSED)
		conn_close(conn);
	else
		conn_linger(conn, LIMIT_DRAIN_REFUSED, false);
}

size_t refuse_text(struct http_server *server, int status, char *out, size_t size)
{
	struct str body = format(server, NULL, status);
	struct str head = buf_str(&server->head_out);

	assert(head.len + body.len <= size);
	memcpy(out, head.data, head.len);
	memcpy(out + head.len, body.data, body.len);
	return head.len + body.len;
}
