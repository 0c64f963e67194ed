// SPDX-License-Identifier: Apache-2.0
/*
 * conn: one client connection and the exchange on it. Private to http/.
 *
 * Phases of a connection:
 *
 *   HEAD ----------> EXCHANGE ------> HEAD            (kept alive)
 *    |  refused          |  last answer
 *    +----------------> LINGER <-----+                (answer on its way out, input is thrown away)
 *                        |  sent and (client closed, budget or time used up)
 *                      CLOSED
 *
 * conn_run is the only place that goes forward through the input, and it never runs inside itself:
 * whatever happens in a handler only changes the phase, and the loop in conn_run looks again. An
 * answer given later queues conn_run as a task when input is waiting. So 10,000 pipelined requests
 * are a loop, not a recursion, and other connections get their turn every few requests.
 *
 * Input: a read lands in the server's one read buffer and is used from there (view). What cannot be
 * used yet is copied to conn->in, which has no memory while a connection is idle. While a handler
 * works, reading goes on until INPUT_MAX bytes wait, so that a reset is noticed.
 *
 * Deadlines are looked at by one sweep every SWEEP_MS (server.c); deadline_ms is 0 while the
 * handler has the turn.
 *
 * Invariants
 *  1. x != NULL exactly in EXCHANGE.
 *  2. A connection in server->idle is in HEAD, has been answered before and has no input.
 *  3. After conn_close the handle is closing, x is detached, and no callback but the close one
 * comes.
 *  4. view points into the read buffer while running, else it is buf_str(&in).
 */
#pragma once

#include "base/arena.h"
#include "base/list.h"
#include "http/chunk.h"
#include "http/forwarded.h"
#include "http/head.h"
#include "http/source.h"
#include "loop/task.h"

#define READ_SIZE (64u * 1024)
/* More than the longest head. */
#define INPUT_MAX (LIMIT_METHOD + LIMIT_TARGET + LIMIT_HEAD + 64)
#define SWEEP_MS 500
/* Requests of one connection served before others get a turn. */
#define REQUESTS_A_TURN 32
/* Refused connections that may be told so at one time, beyond max_connections. */
#define MAX_REFUSED 64u
/* Bodies up to this size lie in the exchange's arena and are not counted. */
#define SMALL_BODY 2048u

enum conn_phase { CONN_HEAD, CONN_EXCHANGE, CONN_LINGER, CONN_CLOSED };

struct http_conn {
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_tcp_t tcp;
		uv_pipe_t pipe;
	} uv;
	struct http_server *server; /* borrowed, lives longer */
	struct list node;	    /* in server->conns */
	struct list idle;	    /* in server->idle or nowhere */
	struct task task;	    /* conn_run */
	struct http_exchange *x;
	enum conn_phase phase;
	struct head_scan scan;
	struct buf in;
	struct str view;
	int64_t deadline_ms;
	uint64_t linger_left; /* bytes still thrown away before the connection is cut */
	int64_t linger_end_ms;
	uint64_t out_total;    /* bytes ever written or queued */
	uint64_t taken_seen;   /* of those, acknowledged by the client at the last sweep */
	int64_t stalled_ms;    /* since when it took none while some were queued; 0: it did */
	struct source *source; /* counted with; may be NULL */
	struct inet_addr addr;
	bool has_addr;	 /* false: a Unix socket */
	bool is_proxy;	 /* X-Forwarded-For counts */
	bool is_refused; /* not in n_conns, told 503 at once */
	bool running, reading, eof;
	bool served;   /* has answered a request */
	bool shut;     /* our direction is closed */
	bool blocked;  /* waits for the write queue before the next request */
	bool in_head;  /* deadline_ms is that of a head */
	bool is_drain; /* lingers because a body was left unread */
};

enum body_state {
	BODY_UNREAD, /* nobody asked */
	BODY_READING,
	BODY_FAILED, /* body_status goes to the handler */
	BODY_READY,  /* whole, goes to the handler */
	BODY_DONE,   /* the handler was told */
};

struct http_exchange {
	struct http_server *server;
	struct http_conn *conn; /* borrowed; NULL when the client is gone */
	struct list node;	/* in server->bodies, server->spares or nowhere */
	struct task task;	/* what a hang-up owes the handler */
	struct arena arena;
	struct head_info info;
	char id[4 + 16 + 1];
	struct str outer_id; /* into the head */
	const char *peer;
	struct http_note note;
	int64_t began_us;
	int status; /* of the answer; 0: none yet */
	bool gone;  /* the connection ended before the answer was whole */

	enum body_state body_state;
	int body_status;
	struct http_body_want want;
	struct http_body_flow flow; /* with streams; gone and data stand in want */
	bool streams, paused;
	int64_t paused_ms; /* since when */
	struct chunk chunk;
	char *small; /* in the arena, instead of body */
	struct buf body;
	uint64_t body_len; /* received */
	uint64_t reserved; /* counted in server->bodies_bytes */
	int64_t body_start_ms;
	bool whole; /* the input holds nothing more of this request */

	bool begun;	 /* the answer's head is out */
	bool is_bare;	 /* the answer has no body: HEAD, 204, 304 */
	bool is_chunked; /* the answer */
	bool close;	 /* after the answer */
	bool refused_key;
	bool broken;	      /* the answer did not keep to its length */
	uint64_t length_left; /* of an answer with a length */
	void (*drained)(void *data);
	void *drained_data;
	bool wants_drained;	     /* http_write said false */
	void (*hung_up)(void *data); /* NULL: nobody wants to know */
	void *hung_up_data;
	bool owes_gone; /* the task tells the handler and frees */
};

struct http_server {
	uv_loop_t *loop;
	struct http_config config;
	struct proxies proxies;
	uv_poll_t listener;
	uv_timer_t timer;
	struct task_queue tasks;
	struct list conns, idle, bodies;
	struct source_table sources;
	unsigned n_conns, n_refused, n_exchanges, n_handles;
	uint64_t requests, bodies_bytes;
	char *read_buffer;   /* owned, READ_SIZE */
	struct buf head_out; /* scratch for one answer's head */
	struct list spares;  /* owned exchanges, by node */
	struct task close_task;
	unsigned n_spares;
	char date[40];
	int64_t date_s;
	int64_t complained_ms;
	int reserve_fd; /* owned; given up to answer when descriptors run out */
	bool is_listening, accept_paused;
	bool closing;  /* http_server_close was called */
	bool finished; /* every connection is closed, the handles are closing */
	int64_t close_deadline_ms;
	void (*closed)(void *data);
	void *closed_data;
};

/* conn.c */
void conn_start(struct http_server *server, int fd, const struct inet_addr *addr, bool refused);
void conn_close(struct http_conn *conn);
/* Goes on with the input, in the next turn of the loop. */
void conn_wake(struct http_conn *conn);
/* The answer is complete: on to the next request, or to LINGER. */
void conn_answered(struct http_conn *conn, struct http_exchange *x);
/* To LINGER. is_drain: a body may still be coming, so wait for it the whole time. */
void conn_linger(struct http_conn *conn, uint64_t budget, bool is_drain);
/* Copies what is left of the input to where it may stay, after a step outside conn_run. */
void conn_keep_input(struct http_conn *conn);
void conn_sweep(struct http_conn *conn, int64_t now_ms);
/* The write queue got shorter. */
void conn_on_written(struct http_conn *conn);

/* accept.c */
/* Takes a connection that is told 503 out of the count, so that refusals fill no places. */
void accept_discount(struct http_conn *conn);
int accept_open(struct http_server *server, struct err *err);
void accept_close(struct http_server *server);
void accept_sweep(struct http_server *server);
/* Counts the connection with addr. False when that address holds its share already and no idle
 * connection of it could be closed. */
bool accept_attribute(struct http_conn *conn, const struct inet_addr *addr);

/* refuse.c */
/* An answer that the server gives itself, then LINGER. */
void refuse(struct http_conn *conn, int status);
/* The same as one ready text for a descriptor that gets no connection. */
size_t refuse_text(struct http_server *server, int status, char *out, size_t size);

/* exchange.c */
struct http_exchange *exchange_new(struct http_server *server);
/* Its head is in order: to EXCHANGE. */
void exchange_begin(struct http_exchange *x, struct http_conn *conn);
void exchange_free(struct http_exchange *x);
/* The connection is gone; the handler still has the exchange. */
void exchange_detach(struct http_exchange *x);
void exchange_on_written(struct http_exchange *x, size_t queued);
/* Nothing more comes from the client. */
void exchange_on_eof(struct http_exchange *x);

/* body.c */
/* Takes what the body can use from conn->view. Changes body_state. Returns false on bad framing. */
bool body_take(struct http_exchange *x);
/* The body is longer than it may be, or finds no room. */
void body_fail(struct http_exchange *x, int status);
/* Reading begins now, if conn is still there. */
void body_begin(struct http_exchange *x);
/* Tells the handler what came of it. */
void body_deliver(struct http_exchange *x);
void body_release(struct http_exchange *x);
/* Whether the rest of an unread body lies in the input already; then it is skipped. */
bool body_skip(struct http_exchange *x);

/* body-stream.c */
/* Gives the handler one piece of a streamed body, or changes body_state. False when nothing can be
 * done until more comes. The handler may have answered. */
bool body_flow(struct http_conn *conn);

/* write.c */
/* Sends or queues; copies. A failure closes the connection. */
void conn_write(struct http_conn *conn, const struct str *parts, size_t n);
size_t conn_queued(const struct http_conn *conn);

/* reply.c */
/* Puts a whole head into server->head_out. length < 0: chunked. */
void reply_head(struct http_server *server, const struct http_reply *reply, const char *id,
		int64_t length, bool close);

/* server.c */
void server_sweep(struct http_server *server);
/* Says to whoever wants to know what the server answered by itself. */
void server_answered(struct http_server *server, const struct http_answered *a);
/* After a connection or exchange has ended. */
void server_check_closed(struct http_server *server);
void server_handle_closed(struct http_server *server);
void server_start_timer(struct http_server *server);
