// SPDX-License-Identifier: Apache-2.0
/*
 * pool: blank sandboxes that wait for a command, per tenant, image and egress.
 *
 * How many are kept adapts to demand: the most that were in use at once within the last
 * POOL_WINDOW_MS to twice that, plus one, at most config.pool. A tenant without commands for
 * config.idle_ms keeps none. All tenants together keep at most config.pool_all; when that is
 * reached, a tenant with an empty pool takes a place from the pool that was used least recently and
 * has more than it needs.
 *
 * A command that finds the pool empty waits in order; there are always at least as many builds
 * under way as there are waiters, and a waiter takes whatever comes first. A failed build fails the
 * first waiter; without waiters the next try comes after a delay that doubles from POOL_RETRY_MS.
 *
 * Refilling is asked for POOL_REFILL_MS after the start of a command or its end: the builder would
 * compete for the same processors with a short command, and with whoever puts it on record before
 * its answer goes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/err.h"
#include "core/native/deadline.h"
#include "core/native/sandbox.h"

#define POOL_WINDOW_MS 5000
#define POOL_REFILL_MS 3
#define POOL_RETRY_MS 100
#define POOL_RETRY_MAX_MS 5000
/* Builds that fail one after the other until that is no accident. */
#define POOL_FAILS 3u
/* Then one is built to see whether it is over, when nobody asks for any. */
#define POOL_PROBE_MS 30000

struct pool_wait;

/* s != NULL: it is blank and the caller's. Else *err. Comes from the loop, never from pool_wait. */
typedef void (*pool_wait_fn)(struct pool_wait *w, struct sandbox *s, const struct err *err);

struct pool_wait {
	struct pool *pool; /* NULL: not waiting */
	pool_wait_fn fn;
	TAILQ_ENTRY(pool_wait) link;
};

struct pool {
	struct runtime *rt;
	uint32_t tenant;
	uint32_t egress;
	char image[MSG_IMAGE_NAME];

	struct sandbox_list ready; /* used from the front: the newest, whose pages are warm */
	unsigned n_ready;
	unsigned n_building;
	TAILQ_HEAD(, pool_wait) waits;
	unsigned n_waits;

	unsigned in_use;	  /* given out for commands and not yet released */
	unsigned peak, last_peak; /* of in_use in this window and the one before */
	int64_t window_ms;	  /* when this window began */
	int64_t used_ms;	  /* when a command wanted it last */
	int64_t retry_ms;	  /* delay after the next failed build */
	bool paused;		  /* waiting for the delay to pass */
	uint32_t posture;	  /* of the newest sandbox */
	struct deadline tick;	  /* retry, or trimming */
	struct deadline refill;
	TAILQ_ENTRY(pool) link;
};

struct pools {
	TAILQ_HEAD(pool_list, pool) list; /* most recently used first */
	unsigned n_ready, n_building;	  /* of all */
	unsigned failed_in_row;		  /* builds, of whatever pool */
	int64_t failed_ms;		  /* when the last of them did */
};

/* NULL: not an image name. */
struct pool *pool_get(struct runtime *rt, uint32_t tenant, const char *image, bool egress);
/* A blank, prepared sandbox, or NULL. */
struct sandbox *pool_take(struct pool *p);
/* Puts back what pool_take gave, untouched. */
void pool_return(struct pool *p, struct sandbox *s);
void pool_wait(struct pool *p, struct pool_wait *w, pool_wait_fn fn);
void pool_wait_cancel(struct pool_wait *w);
/* A command begins and ends to count as demand. */
void pool_enter(struct pool *p);
void pool_leave(struct pool *p);
/* Commands are to be expected: counts as use. */
void pool_warm(struct pool *p);
/* Builds or trims towards the target. */
void pool_balance(struct pool *p);
/* The same in a moment, or when it is coming anyway. */
void pool_refill(struct pool *p);
/* A sandbox that was alive before this airlockd: blank ones join their pool, others are killed.
 * control is owned. False: not a sane message. */
bool pool_adopt(struct runtime *rt, const struct ld_sandbox *body, int control);
/* Kills every blank sandbox; nothing is built any more. */
void pools_drain(struct runtime *rt);
void pools_fini(struct runtime *rt);
