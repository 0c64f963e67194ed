// SPDX-License-Identifier: Apache-2.0
/*
 * events: the answer of exec as server-sent events (contract, section 4.1; WHATWG HTML,
 * section 9.2): "stdout" and "stderr" with {"text"} as the command writes, a comment every 15 s,
 * "result" at the end.
 *
 * States: wanted -> open (the shell runs, the head is sent) -> finished (the result is being sent,
 * by api/send.h). Before open an error is an ordinary answer.
 *
 * A client that reads slowly never slows the command: up to 256 KiB of events wait for it, what
 * comes beyond that is left out and told in a line; the result has the output as the contract
 * promises.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/utf8.h"
#include "core/runtime.h"

struct request;

struct events {
	bool wanted, open, finished;
	bool blocked; /* the connection's queue is full; drained comes */
	struct utf8_fix fix[2];
	struct buf waiting;  /* finished events, while blocked */
	uint64_t dropped[2]; /* bytes of each stream left out since it was blocked */
	int64_t ping_at_ms;  /* monotonic */
};

/* Whether the client asked for events rather than for an object. */
bool events_accepted(struct str accept);
void events_start(struct request *r);
void events_output(struct request *r, enum runtime_stream stream, struct str bytes);
/* r->answer is the result; frees the request when it is sent. */
void events_finish(struct request *r);
void events_fini(struct events *e);
/* Every second while a stream is open; timer->data is the api. */
void events_ping(uv_timer_t *timer);
