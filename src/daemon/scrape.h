// SPDX-License-Identifier: Apache-2.0
/*
 * scrape: GET /metrics on the socket of SANDBOX_METRICS_LISTEN, and nothing else there: what the
 * parts of airlockd have counted, in the words of the contract, 14.4. No key is asked for and no
 * tenant is named. The answer is made at once from what is known; nobody is asked.
 */
#pragma once

#include <uv.h>

#include "base/err.h"

struct core;
struct runtime;
struct scrape;
struct stores;
struct traffic;

struct scrape_sources { /* all borrowed, live longer */
	const struct core *core;
	struct runtime *runtime;
	const struct stores *stores;
	const struct traffic *traffic;
};

/* listen_fd: owned after success. */
int scrape_open(uv_loop_t *loop, int listen_fd, const struct scrape_sources *sources,
		struct scrape **ret, struct err *err);
void scrape_close(struct scrape *s, void (*closed)(void *data), void *data);
