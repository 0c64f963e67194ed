// SPDX-License-Identifier: Apache-2.0
/*
 * rig: for tests of the server: a server on loopback and clients of it, in one process
 * and one thread. The clock is a fake and moves only when a test says so; rig_time runs the
 * server's sweep. Every wait is bounded by turns of the loop, so a missing answer is a failed
 * assertion and no hanging test.
 */
#pragma once

#include "http/conn.h"

/* What the handler does, by path:
 *   /echo    reads the body (at most body_max, for account) and sends it back; 413 and 503 as told
 *   /flow    takes the body as a stream (see flow) and answers with how many bytes came
 *   /early   answers 401 without reading, as for a refused key
 *   /late    keeps the exchange in held; when there is one already, answers 200 "ok"
 *   /peer    answers with the client's address
 *   /204     answers 204
 *   /close   answers and ends the connection
 *   /big     answers with big bytes of "x"
 *   others   answer 200 "ok" */
struct rig {
	uv_loop_t loop;
	struct http_server *server;
	struct sockaddr_storage addr; /* where it listens */
	socklen_t addr_len;
	int loopback; /* -1: on a Unix socket */
	bool closed;
	bool ending; /* http_server_close was called; server may be gone */
	uint64_t body_max;
	uint32_t account;
	size_t big;
	struct http_exchange *held;
	unsigned handled;
	unsigned asked;	 /* for a body */
	unsigned bodies; /* delivered, whole or not */
	unsigned gone;
	struct http_answered answered; /* the last */
	char answered_id[32], outer_id[80];
	unsigned answers;
	struct rig_flow {
		struct http_exchange *x; /* whose body is under way */
		bool pauses;		 /* after each piece */
		bool paused;
		size_t answer_at; /* answers inside a piece when so many bytes came; 0: never */
		size_t len, largest;
		unsigned pieces;
		uint32_t sum; /* of the bytes, by place */
	} flow;
};

struct client {
	struct rig *rig;
	int fd;
	bool eof, reset;
	struct buf in;
};

/* Small limits: 64 connections, 64 KiB queued; 127.0.0.1 is a trusted proxy. */
void rig_open(struct rig *rig);
/* With other limits; listen_fd, handler and data are the rig's. */
void rig_open_with(struct rig *rig, const struct http_config *config);
/* On a Unix socket. */
void rig_open_unix(struct rig *rig);
/* Asks for the body of the held exchange. */
void rig_read_body(struct rig *rig);
/* The same as a stream. */
void rig_stream_body(struct rig *rig);
void rig_resume(struct rig *rig);
/* What flow.sum is for these bytes. */
uint32_t rig_sum(uint32_t sum, struct str bytes);
void rig_answer_held(struct rig *rig, struct str body);
void rig_close(struct rig *rig);
/* Turns of the loop; before each, what was sent arrives. */
void rig_turn(struct rig *rig, unsigned turns);
/* Time passes; the sweep looks. */
void rig_time(struct rig *rig, int64_t ms);
struct http_server_info rig_info(const struct rig *rig);

void client_open(struct client *c, struct rig *rig);
void client_close(struct client *c);
/* All of it, with turns of the loop while the socket is full. False when the server reset us. */
bool client_send(struct client *c, struct str data);
#define client_say(c, text) client_send((c), STR(text))
/* Reads until what has come contains text, or the end. */
bool client_expect(struct client *c, const char *text);
/* The same until text stands there n times. */
bool client_expect_n(struct client *c, const char *text, unsigned n);
/* Reads until the server has closed its direction. False on a reset. */
bool client_end(struct client *c);
/* Looks without waiting for more than a few turns: nothing came and the connection is open. */
bool client_is_quiet(struct client *c);
/* How often text stands in what has come. */
unsigned client_count(const struct client *c, const char *text);
