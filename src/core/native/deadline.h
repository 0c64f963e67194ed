// SPDX-License-Identifier: Apache-2.0
/*
 * deadline: points in time at which the runtime wants to be called, on one libuv timer.
 *
 * Time is base/clock's monotonic clock; the libuv timer only wakes us and is allowed to be early.
 * That is what lets a test stop the clock: it advances the fake one and calls deadlines_run().
 * Setting and clearing cost no system call and no memory. A deadline is a member of what waits
 * (container_of in fn); whoever frees that clears it first. fn runs on the loop, never from inside
 * deadline_set.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

struct deadline;
typedef void (*deadline_fn)(struct deadline *d);

struct deadline {
	int64_t at_ms;
	bool set;
	deadline_fn fn;
	TAILQ_ENTRY(deadline) link;
};

struct deadlines {
	TAILQ_HEAD(, deadline) list; /* in the order in which they were set */
	uv_timer_t wake;
	int64_t wake_ms; /* when wake fires; 0: it is not armed */
};

void deadlines_init(struct deadlines *ds, uv_loop_t *loop);
/* Nothing fires from now on. The caller closes wake with uv_close. */
void deadlines_stop(struct deadlines *ds);

/* Replaces an earlier setting. A time in the past fires on the next turn of the loop. */
void deadline_set(struct deadlines *ds, struct deadline *d, int64_t at_ms, deadline_fn fn);
void deadline_clear(struct deadlines *ds, struct deadline *d);

/* Calls everything that is due, earliest first, and arms the timer for the rest. */
void deadlines_run(struct deadlines *ds);
