// SPDX-License-Identifier: Apache-2.0
/*
 * drain: from the order to stop to the stop itself. What runs may end; every DRAIN_SAY_MS the log
 * says what is waited for. It is over when nothing is left, when the time is, or when it is cut
 * short.
 *
 *   idle -- drain_start --> waiting -- over (once) --> idle
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define DRAIN_LOOK_MS 50
#define DRAIN_SAY_MS 5000

struct drain_work {
	unsigned commands, imports, transfers;
	unsigned requests; /* all that came whole and wait for an answer, those three included */
	bool any;
};

struct drain {
	uv_timer_t timer;
	int64_t until_ms, say_ms; /* monotonic */
	void (*look)(void *data, struct drain_work *ret);
	void (*over)(void *data); /* may be called by drain_start */
	void *data;
};

/* Before anything else, with look, over and data set. */
void drain_init(struct drain *d, uv_loop_t *loop);
/* Logs "stopping". */
void drain_start(struct drain *d, int64_t max_ms);
/* Nothing when it is idle. */
void drain_cut(struct drain *d);
/* The timer's handle is closing. */
void drain_close(struct drain *d);
