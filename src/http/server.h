// SPDX-License-Identifier: Apache-2.0
/*
 * server: a strict HTTP/1.1 server on one listening socket (RFC 9110, RFC 9112). It frames requests
 * and answers; it knows no route. Used by airlockd.
 *
 * For every request whose head is in order the handler is called once with an exchange. The handler
 * owns the exchange until it has answered; it must answer exactly once, at once or later, by
 * http_reply, or by http_begin ... http_end / http_abort. An exchange outlives its connection: when
 * the client hangs up, writes are thrown away and the handler's answer is accepted as usual.
 *
 * States of an exchange: HEAD -> (BODY) -> ANSWERED. Before answering the handler may ask for the
 * body with http_body_read or http_body_stream; when it answers without having read the whole body
 * the server sends the answer with "Connection: close" and drains (base/limits.h LIMIT_DRAIN...),
 * so that a client that is still sending sees the status and not a reset. (A body of known length
 * that has arrived meanwhile is skipped instead.) Answering while a body is being read ends the
 * reading: no callback follows. "Expect: 100-continue" is answered when the body is asked for,
 * never before.
 *
 * Framing errors (400, 408, 414, 431, 505), time-outs, connection limits (503) never reach the
 * handler. Their bodies are {"detail", "code"} as the contract's table says, with the /v1 headers.
 * Pipelined requests are served one after the other. A client that closes its sending direction
 * only still gets its answers. Every answer has Cache-Control: no-store (unless the handler gives
 * another), X-Content-Type-Options: nosniff and X-Request-Id. An open server ignores SIGPIPE in the
 * process. Sizes in bytes, times in milliseconds.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct http_server;
struct http_exchange;

struct http_header {
	struct str name;  /* as sent */
	struct str value; /* without blanks around it */
};

/* The head of a request; lives as long as its exchange. */
struct http_head {
	struct str method;
	struct str target; /* as sent, origin form */
	struct str path;   /* target up to "?", not decoded */
	struct str query;  /* after "?", not decoded; data == NULL when there is no "?" */
	struct http_header *headers;
	size_t n_headers;
	bool has_body; /* a body is declared, possibly of length 0 (see content_length) */
	bool chunked;
	uint64_t content_length; /* 0 when chunked */
	bool keep_alive;
};

/* First header of that name (case-insensitive); data == NULL when there is none. *ret_count, when
 * not NULL, is how many there are. */
struct str http_head_find(const struct http_head *head, const char *name, size_t *ret_count);

typedef void (*http_handler_fn)(void *data, struct http_exchange *x);

/* What the handler knows of an exchange and whoever hears of the answer wants to; zero at first. */
struct http_note {
	unsigned route;	  /* the handler's number for what was asked; 0: nothing that it knows */
	const char *word; /* of a refusal, a literal; NULL: none */
	char tenant[64], session[24];
};

/* An answer, at its end: of the handler, or one of the server's own; or that there was none,
 * because the client had gone. */
struct http_answered {
	const char *id;
	/* The X-Request-Id that a trusted proxy sent along, when it is 1 to 64 letters, digits, "-",
	 * "_", "." and "="; else data == NULL. Valid during the call. */
	struct str outer_id;
	struct http_note note;
	int status;	 /* 0: none, with gone */
	bool gone;	 /* the connection had ended before the answer was whole */
	int64_t took_us; /* since the head was read; -1: it never was */
};

typedef void (*http_answered_fn)(void *data, const struct http_answered *a);

struct http_config {
	int listen_fd; /* owned after success: a listening stream socket */
	unsigned max_connections;
	size_t write_max; /* bytes queued towards one client before http_write says false */
	const char *trusted_proxies; /* comma list of addresses and ranges; copied */
	http_handler_fn handler;
	void *data;
	http_answered_fn answered; /* may be NULL; not for requests that the handler aborts */
	void *answered_data;	   /* outlives the last exchange */
};

int http_server_open(uv_loop_t *loop, const struct http_config *config, struct http_server **ret,
		     struct err *err);
/* Stops accepting, closes idle connections; closed is called when the last exchange is answered and
 * sent, or after grace_ms. */
void http_server_close(struct http_server *server, int64_t grace_ms, void (*closed)(void *data),
		       void *data);

struct http_server_info {
	unsigned connections;
	uint64_t requests;
	uint64_t bodies_bytes; /* request bodies in memory */
};

void http_server_info_get(const struct http_server *server, struct http_server_info *ret);

const struct http_head *http_exchange_head(const struct http_exchange *x);
/* "req_" + 16 hex, unique; sent back as X-Request-Id. */
const char *http_exchange_id(const struct http_exchange *x);
/* For the handler to fill in before it answers. */
struct http_note *http_exchange_note(struct http_exchange *x);
/* The client's address without port, X-Forwarded-For honoured from trusted proxies. */
const char *http_exchange_peer(const struct http_exchange *x);
/* Whether the client hung up. */
bool http_exchange_is_gone(const struct http_exchange *x);
/* For an exchange whose body was read, or has none, and that is not answered yet: hung_up(data) is
 * called once, from the loop, when the client hangs up or ends its sending direction, also when it
 * had done so before. It cannot be told which; whoever asks takes the second for the first. Not
 * after the answer. */
void http_on_hangup(struct http_exchange *x, void (*hung_up)(void *data), void *data);

/* ---- Request body ---- */

/* status 0: body is whole and valid during the callback and until the answer; else the server has
 * not answered and the handler must: 413 when max was passed, 503 when the memory for bodies is
 * used up (account: bytes in flight per tenant are summed by that number). When the connection
 * broke or timed out meanwhile the callback is not called at all and the exchange is released:
 * gone(data), if not NULL, is called instead. */
typedef void (*http_body_fn)(void *data, struct http_exchange *x, int status, struct str body);

struct http_body_want {
	uint64_t max;
	uint32_t account; /* tenant number */
	http_body_fn fn;
	void (*gone)(void *data);
	void *data;
};

void http_body_read(struct http_exchange *x, const struct http_body_want *want);

/* A body of any length that the server does not keep. It comes in pieces of at most 64 KiB, each
 * valid during the call; piece returns false to pause, and then nothing comes, not even the end,
 * until http_body_resume. While paused nothing is read beyond one piece and no time-out counts.
 *
 * end is called once: status 0, the body was whole; 413, it is longer than max, and the handler
 * must answer. gone as above, instead of end. The handler may answer at any time, also inside
 * piece; nothing follows then. Nothing is called before http_body_stream has returned. */
struct http_body_flow {
	uint64_t max;
	bool (*piece)(void *data, struct str bytes);
	void (*end)(void *data, int status);
	void (*gone)(void *data); /* may be NULL */
	void *data;
};

void http_body_stream(struct http_exchange *x, const struct http_body_flow *flow);
void http_body_resume(struct http_exchange *x);

/* ---- Answer ---- */

struct http_reply {
	int status;
	const char *content_type;	   /* NULL: no body headers */
	const struct http_header *headers; /* extra ones; Connection, Date, Content-Length,
					      Content-Type, X-Request-Id are the server's */
	size_t n_headers;
	bool close;	  /* end the connection after this answer */
	bool refused_key; /* drain at most LIMIT_DRAIN_REFUSED */
};

/* A complete answer; body is copied. Ends the exchange. */
void http_reply(struct http_exchange *x, const struct http_reply *reply, struct str body);

/* An answer in pieces. length < 0: chunked. */
void http_begin(struct http_exchange *x, const struct http_reply *reply, int64_t length);
/* Copies. Returns false when more than write_max bytes are queued: go on when drained is called. */
bool http_write(struct http_exchange *x, struct str bytes);
/* drained(data) is called (once per false of http_write) when the queue is below half; also when
 * the client hung up. */
void http_on_drained(struct http_exchange *x, void (*drained)(void *data), void *data);
/* Ends the exchange properly (last chunk). */
void http_end(struct http_exchange *x);
/* Ends the exchange by breaking the connection, so that no client takes the answer for whole. */
void http_abort(struct http_exchange *x);
