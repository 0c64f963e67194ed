// SPDX-License-Identifier: Apache-2.0
/*
 * send: brings r->answer (api/answer.h) to the client. A short one is one answer with its length; a
 * long one goes out in pieces, waits when the client is slow, and lets other requests have their
 * turn. An answer that cannot be finished breaks the connection: no client takes it for whole.
 */
#pragma once

#include <uv.h>

struct request;

/* Up to here an answer is built whole; in bytes before escaping. */
#define SEND_SHORT (128u * 1024)

/* Sends a 200 with r->answer as its JSON object, then frees the request. */
void send_answer(struct request *r);
/* Goes on with r->answer in an answer that has begun, ends it, frees the request. */
void send_rest(struct request *r);
/* The idle handle of the api. */
void send_pump(uv_idle_t *idle);
