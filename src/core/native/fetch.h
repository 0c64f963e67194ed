// SPDX-License-Identifier: Apache-2.0
/*
 * fetch: downloads that the gateway does for airlockd, airlockd's side (runtime_fetch_*).
 *
 *   ASKED      DG_FETCH is said, or waits to be
 *   ANSWERED   GD_FETCHED came, or nobody is left to say it; told from the loop
 *
 * A gateway that ends, is replaced, or is silent for FETCH_GRACE_MS beyond the time that the fetch
 * was given, ends it as RUNTIME_FETCH_FAILED. Whoever cancels hears nothing more; the gateway is
 * told so with DG_FETCH_END, which may cross the answer.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "core/native/deadline.h"
#include "core/runtime.h"
#include "ipc/messages.h"

#define FETCH_GRACE_MS 5000

struct runtime;
struct gateway_word;

TAILQ_HEAD(fetch_list, runtime_fetch);

/* For gateway.c: the two words, and the end of the last one. */
int fetch_send(int fd, struct gateway_word *w);
int fetch_send_end(int fd, struct gateway_word *w);
void fetch_ref(struct gateway_word *w);
void fetch_unref(struct gateway_word *w);
/* False: the answer breaks the rules. */
bool fetch_answered(struct runtime *rt, uint32_t id, const struct gd_fetched *answer);
/* The gateway of before is gone, and what it was asked with it. */
void fetches_lost(struct runtime *rt);
/* Calls back for all that are left. */
void fetches_close(struct runtime *rt);
