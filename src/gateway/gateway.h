// SPDX-License-Identifier: Apache-2.0
/*
 * gateway: airlock-gateway's one object, shared by the files of this folder and nobody else.
 *
 *   control   the sockets to the launcher and to airlockd, and what each may say when
 *   sandbox   the listening sockets of one sandbox, and which session it is bound to
 *   session   what a session may reach, and its log
 *   journal   one session's log file: one event per attempt, floods counted
 *   logs      the directory of all of them: room, what each tenant has, what is too old
 *   attempt   one connection, from accept to its last byte: head, decision, dialling, tunnel
 *   relay     moving bytes between two sockets
 *   stub      the name server that faces the sandboxes
 *   resolver  the real one, for names that a rule allows
 *   own       the addresses of this host
 *   fetch     downloads for airlockd: steps by hop, each a transfer, trusting what trust reads
 *
 * Everything runs on the loop thread. The decision itself is egress/decide.h: every way in asks it
 * and none decides by itself.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/list.h"
#include "base/str.h"
#include "egress/decide.h"
#include "gateway/hop.h"
#include "ipc/messages.h"
#include "loop/task.h"
#include "sandbox/layout.h"

#define GATEWAY_HEAD_MAX (16u * 1024)
#define GATEWAY_HEAD_MS 10000
#define GATEWAY_HELLO_MS 5000
#define GATEWAY_DIAL_MS 10000
#define GATEWAY_IDLE_MS 120000
/* For the binding of a sandbox whose connection came first; a gateway that was not told yet which
 * sessions there are waits longer, for that. */
#define GATEWAY_UNBOUND_MS 1000
/* Between two GD_COUNTED. */
#define GATEWAY_COUNTED_MS 1000
/* For the airlockd after one that has ended. */
#define GATEWAY_ALONE_MS 30000
/* For the client to take a refusal and close. */
#define GATEWAY_LINGER_MS 1000
/* Connections of one sandbox that are no tunnels (yet); more wait in the backlog. */
#define GATEWAY_PENDING_MAX 128u
/* DNS questions of one sandbox in a time; more wait in the socket's buffer or are lost there. */
#define GATEWAY_QUESTIONS_MAX 200u
#define GATEWAY_QUESTIONS_MS 100
#define GATEWAY_REASON_MAX 128u

struct gateway_options {
	const char *log_dir; /* absolute; made by the launcher */
	uint64_t log_days;
	const char *dns; /* comma list of addresses */
};

struct peer_link {
	int fd; /* owned; -1: none */
	uv_poll_t *poll;
	uint64_t accepted; /* set of message types */
};

struct gateway {
	uv_loop_t *loop;
	struct task_queue tasks;
	struct gateway_options options;
	int log_dir;	   /* owned */
	struct logs *logs; /* owned */

	struct peer_link launcher, daemon;
	uv_timer_t *alone; /* owned; runs while there is no airlockd after one has ended */
	bool named;	   /* some airlockd has said which sessions there are */
	struct sandbox *sandboxes[LAYOUT_SLOTS]; /* owned; NULL: none */
	struct list sessions;

	struct resolver *resolver; /* owned */
	struct own *own;	   /* owned */
	unsigned n_tunnels;
	uint64_t next_conn;
	struct hop_base import_base; /* what the operator named, if anything */
	struct list fetches;
	unsigned n_fetches;
	uint64_t counted[EGRESS_CODES]; /* attempts */
	uv_timer_t *counted_timer;	/* owned; runs while airlockd is to be told; NULL: never */
	unsigned hurry;			/* tests: times are divided by it; 1 */
};

/* ---- control.c ---- */

/* Takes the launcher's socket and says hello. */
int control_open(struct gateway *g, int launcher_fd, struct err *err);
/* Takes every message that is there: what the launcher and airlockd said before something became
 * possible is known before it is judged. May end sandboxes and attempts. */
void control_drain(struct gateway *g);
void control_close(struct gateway *g);
/* Tells airlockd of a refusal, before the tenant can see it. */
void control_denied(struct gateway *g, const struct gd_denied *body);

/* One attempt ended so; airlockd hears of it within a second. */
void control_count(struct gateway *g, enum egress_code code);

/* ---- session.c ---- */

struct session {
	struct list node;
	uint32_t number;
	unsigned refs;		 /* the list; sandboxes bound to it; attempts */
	bool ended, stale;	 /* stale: airlockd was replaced and has not named it yet */
	const char *id, *tenant; /* into spec */
	struct egress_policy policy;
	char *spec; /* owned */
	unsigned n_tunnels;
	struct journal *journal; /* owned */
	struct list attempts;	 /* that it was judged for */
};

/* Reads a specification memfd. A session of the same id is replaced: what is open goes on under
 * the new number and rules. Returns 0 or -EPROTO. */
int session_add(struct gateway *g, uint32_t number, int fd);
struct session *session_find(struct gateway *g, uint32_t number);
/* Closes what is open in its name. */
void session_end(struct session *s);
void session_ref(struct session *s);
void session_unref(struct session *s);
/* airlockd was replaced, and: it has named all that there are. */
void sessions_mark_stale(struct gateway *g);
void sessions_end_stale(struct gateway *g);

/* ---- sandbox.c ---- */

struct listener {
	uv_poll_t poll;
	int fd; /* owned; -1: closed */
	enum net_fd kind;
	struct sandbox *sandbox;
};

struct sandbox {
	struct gateway *g;
	struct msg_sandbox name;
	struct listener listeners[NET_FDS];
	unsigned n_handles; /* not closed yet */
	bool gone;
	bool paused; /* the listeners are not looked at: too many pending, or no descriptors */
	uv_timer_t resume;
	struct session *session; /* bound; NULL: not yet */
	struct list attempts;
	unsigned n_pending; /* attempts that are no tunnels */
	uint64_t asked_ms;  /* when the time for which questions are counted began */
	unsigned n_asked;
	uint64_t told[20]; /* hashes of the hosts that airlockd was told of since the binding */
	unsigned n_told;
};

/* Takes the descriptors out of fds. Returns 0 or -EPROTO: not listening sockets as they must be. */
int sandbox_add(struct gateway *g, struct msg_sandbox name, int fds[NET_FDS]);
struct sandbox *sandbox_find(struct gateway *g, struct msg_sandbox name);
void sandbox_bind(struct sandbox *sb, struct session *s);
void sandbox_remove(struct sandbox *sb);
/* One question to the name server; false: too many, it is not to be read or answered yet. To
 * ask costs a sandbox far less than to answer costs us. */
bool sandbox_may_ask(struct sandbox *sb);
/* An attempt began. */
void sandbox_pending_more(struct sandbox *sb);
/* One is over, or became a tunnel. */
void sandbox_pending_less(struct sandbox *sb);
/* One refusal of this sandbox. */
void sandbox_denied(struct sandbox *sb, const char *host);

/* ---- judge.c ---- */

/* The decision. Every way in asks this, and none decides by itself. */
enum egress_code gateway_decide(const struct egress_question *q);

/* ---- Small things ---- */

/* Time-outs in milliseconds, shorter in tests. */
static inline uint64_t gateway_ms(const struct gateway *g, uint64_t ms)
{
	return ms / g->hurry ? ms / g->hurry : 1;
}
