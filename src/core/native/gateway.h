// SPDX-License-Identifier: Apache-2.0
/*
 * gateway: airlockd's socket to the gateway, and what the gateway must know: the sessions with
 * egress, and which sandbox works for which of them.
 *
 * States and what is accepted in each (GD_ types):
 *
 *   NONE   no socket: none has come yet, or the one of before has ended
 *   HELLO  nothing but GD_HELLO                                  -> READY
 *   READY  GD_DENIED, GD_LIVE, GD_FETCHED, GD_COUNTED
 *
 * The socket comes from the launcher (LD_GATEWAY), a new one for each life of the gateway. With it
 * everything is said again: DG_HELLO, each session, each sandbox in use, DG_READY. Whatever breaks
 * the rules loses its socket, and no more: sessions, sandboxes and commands stay, and the next
 * gateway hears of them. Until then nothing of them passes, which is the gateway's default.
 * Downloads (fetch.h) end with the gateway that does them.
 *
 * What a full socket has no room for waits in order. It is not a copy of a message but a mark in
 * the session, sandbox or download that it is about, so that memory is bounded by what there is;
 * only the ends of sessions and downloads could heap up, and at GATEWAY_QUEUE_MAX the gateway
 * counts as stopped.
 *
 * Nothing here calls back but through a deadline, so that a socket may be read anywhere.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "core/native/deadline.h"
#include "core/native/fetch.h"
#include "core/runtime.h"
#include "ipc/messages.h"

#define GATEWAY_QUEUE_MAX 65536u
#define GATEWAY_LIVE_MS 1000
/* What could not be sent, for want of descriptors or memory, is tried again after. */
#define GATEWAY_RETRY_MS 100

struct runtime;
struct sandbox;
struct gateway_socket;

enum gateway_state { GATEWAY_NONE, GATEWAY_HELLO, GATEWAY_READY };

/* Something to be said, a member of what it is about. */
struct gateway_word {
	uint8_t type; /* DG_; 0: nothing waits */
	TAILQ_ENTRY(gateway_word) link;
};

struct runtime_egress {
	struct runtime *rt; /* borrowed */
	uint32_t number;
	unsigned refs; /* the caller, each command and sandbox that names it, its end to be said */
	bool closed;
	char *spec; /* owned: what goes into the memfd; NULL when closed */
	size_t spec_len;
	struct gateway_word word;	  /* DG_SESSION or DG_SESSION_END */
	TAILQ_ENTRY(runtime_egress) link; /* gateway.sessions, until it is closed */
};

struct gateway_live; /* a question and its answer */

struct gateway {
	enum gateway_state state;
	struct gateway_socket *socket; /* owned; NULL in NONE */
	TAILQ_HEAD(, gateway_word) queue;
	unsigned n_queued;
	struct gateway_word hello, ready;
	TAILQ_HEAD(, runtime_egress) sessions;
	TAILQ_HEAD(, gateway_live) live;
	struct fetch_list fetches;
	uint32_t next_session, next_live, next_fetch;
	struct deadline retry;
	uint64_t counted_before[GD_CODES_MAX]; /* by gateways that have ended */
	uint64_t counted[GD_CODES_MAX];	       /* by this one */
};

void gateway_init(struct runtime *rt);
/* Puts a word behind those that wait. The ends keep what they are about until they are said. */
void gateway_say(struct runtime *rt, struct gateway_word *w, uint8_t type);
/* Takes it back; nothing happens when it does not wait. */
void gateway_unsay(struct runtime *rt, struct gateway_word *w);
/* The socket to a gateway that has just begun; fd is taken. -1: there is none. */
void gateway_set(struct runtime *rt, int fd);
/* Reads what the gateway has said until now, see struct gd_denied. */
void gateway_drain(struct runtime *rt);
/* Before its init gets a command: from now on this sandbox works for that session. */
void gateway_bind(struct sandbox *s, struct runtime_egress *e);
/* The sandbox is gone. */
void gateway_unbind(struct sandbox *s);
/* No end of a session is said: those that are open go on. */
void gateway_close(struct runtime *rt);

struct runtime_egress *egress_ref(struct runtime_egress *e);
/* NULL is allowed. */
void egress_unref(struct runtime_egress *e);
