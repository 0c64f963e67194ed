// SPDX-License-Identifier: Apache-2.0
/*
 * link: airlockd's socket to the launcher.
 *
 * States and what is accepted in each (LD_ types):
 *
 *   HELLO  nothing but LD_HELLO                                   -> LIST
 *   LIST   LD_SLOT, LD_SANDBOX, LD_GONE, LD_READY                 -> READY by LD_READY
 *   READY  everything but LD_HELLO, LD_READY
 *   DEAD   nothing: end of file, a malformed message, or one that the state does not accept
 *
 * A request carries an id that its answer repeats; the request says which types answer it. An
 * answer without a request, or of the wrong type, is a fault. A full socket (EAGAIN) makes messages
 * wait here in order, at most LINK_QUEUE_MAX; more means that the launcher has stopped, which is
 * DEAD too.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "base/err.h"
#include "core/native/deadline.h"
#include "ipc/messages.h"

#define LINK_QUEUE_MAX 65536u

struct runtime;
struct link_request;

enum link_state { LINK_HELLO, LINK_LIST, LINK_READY, LINK_DEAD };

/* msg is NULL when the launcher was lost. Descriptors in msg are taken by whoever wants them. */
typedef void (*link_answer_fn)(struct runtime *rt, void *data, struct wire_msg *msg);

struct link_request {
	uint32_t id;
	uint64_t answers; /* bit set of LD_ types */
	link_answer_fn fn;
	void *data;
	TAILQ_ENTRY(link_request) link;
};

struct link_queued;

struct link {
	int fd; /* owned; -1 when dead */
	enum link_state state;
	uv_poll_t poll;
	uint32_t next_id;
	TAILQ_HEAD(, link_request) requests;
	STAILQ_HEAD(, link_queued) queue; /* messages that the socket had no room for */
	unsigned n_queued;
	bool full; /* link_try found no room */
	struct deadline greeting;
	struct deadline orphans; /* answers what was asked of a dead launcher */
};

/* Says hello when the loop runs. fd is owned after success. */
int link_open(struct runtime *rt, int fd, struct err *err);
/* Closes the socket and answers every request with nothing. The poll handle closes on the loop. */
void link_close(struct runtime *rt);

/* Sends a request; fn is called exactly once, later. */
void link_ask(struct runtime *rt, uint8_t type, const void *body, size_t len, uint64_t answers,
	      link_answer_fn fn, void *data);
/* Sends something that has no answer of its own. */
void link_tell(struct runtime *rt, uint8_t type, const void *body, size_t len);
/* Sends now or not at all: -EAGAIN when the socket has no room, -EPIPE when it is dead. */
int link_try(struct runtime *rt, uint8_t type, const void *body, size_t len);
/* There is no room: new work waits until exec_pump and boxes_pump are called. */
static inline bool link_is_congested(const struct link *l)
{
	return l->n_queued > 0 || l->full;
}

/* An errno that came in a message and is not 0, as one that can be one. */
static inline int link_errno(uint32_t code)
{
	return code && code < 4096 ? (int)code : EIO;
}

#define LINK_BIT(type) (UINT64_C(1) << (type))
