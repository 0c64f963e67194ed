// SPDX-License-Identifier: Apache-2.0
/*
 * exec: one command, from its specification to its result.
 *
 *   QUEUED    waits for its turn: config.running_max run at once, the rest wait per tenant and
 * tenants take turns WAITING   has its turn, the pool is empty STARTING  handed over: DL_HANDOVER
 * to the launcher, DI_EXEC to init, back to back RUNNING   ID_STARTED came; the clock runs DRAINING
 * ID_EXITED came; what is in the pipes is read to the end, EXEC_DRAIN_MS at most DYING     killed,
 * or init is gone: LD_GONE is awaited, EXEC_GONE_MS at most ENDED     the result waits to be told
 * from the loop
 *
 * QUEUED and WAITING together last EXEC_QUEUE_MS at most ("busy"); STARTING has EXEC_START_MS, and
 * EXEC_LATE_MS at least: the contract gives all of them 20 s. A time-out, a runtime_exec_kill, an
 * OOM kill seen while it runs (v1 has no group kill) all kill the whole sandbox. Whatever the way,
 * done comes exactly once.
 *
 * What it means that init went without ID_EXITED: with a risen oom_kill counter it was memory; else
 * somebody killed it, 137.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "core/native/deadline.h"
#include "core/runtime.h"

#define EXEC_QUEUE_MS 18000
#define EXEC_START_MS 10000
#define EXEC_LATE_MS 2000
#define EXEC_DRAIN_MS 250
#define EXEC_GONE_MS 10000
#define EXEC_OOM_POLL_MS 100
/* Another sandbox is tried so often when one proved dead before anything ran. */
#define EXEC_TRIES 3

struct runtime;
struct volume;

TAILQ_HEAD(exec_list, runtime_exec);

/* The queued commands of one tenant. */
struct exec_turn {
	uint32_t tenant;
	struct exec_list list;
	TAILQ_ENTRY(exec_turn) link;
};

struct execs {
	struct exec_list active;       /* WAITING and later */
	struct exec_list ending;       /* ENDED without ever having had their turn */
	TAILQ_HEAD(, exec_turn) turns; /* whose turn is next comes first; none is empty */
	unsigned running;	       /* length of active */
	unsigned queued;
	uint32_t next_job;
	struct deadline oom_poll;
};

void execs_init(struct runtime *rt);
/* Starts what may start. */
void exec_pump(struct runtime *rt);
/* Its commands end: queued ones fail, running ones are killed by the caller through their
 * sandboxes. */
void exec_volume_ends(struct runtime *rt, struct volume *v);
/* Queued ones fail, running ones are killed. */
void execs_end(struct runtime *rt);
/* After execs_end, when there is no more time: done is called for what is left. */
void execs_abandon(struct runtime *rt);
