// SPDX-License-Identifier: Apache-2.0
/*
 * rig: for unit tests of the server: a server on a loopback port and clients of it, in one process
 * and one thread. The clock is a fake and moves only when a test says so; rig_time runs the
 * server's sweep. Every wait is bounded by turns of the loop, so a missing answer is a failed
 * assertion and no hanging test.
 */
#pragma once

#include "http/conn.h"

struct rig {
	uv_loop_t loop;
	struct http_server *server;
	int port;
	bool closed;
};

struct client {
	struct rig *rig;
	int fd;
	bool eof, reset;
	struct buf in;
};

/* config's listen_fd is made here. */
void rig_open(struct rig *rig, const struct http_config *config);
void rig_close(struct rig *rig);
/* Turns of the loop. */
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
/* Reads until the server has closed its direction. False on a reset. */
bool client_end(struct client *c);
/* Looks without waiting for more than a few turns: nothing came and the connection is open. */
bool client_is_quiet(struct client *c);
/* How often text stands in what has come. */
unsigned client_count(const struct client *c, const char *text);
