// SPDX-License-Identifier: Apache-2.0
/*
 * exec-state: one command as the three files see that share it. exec.c begins and ends it,
 * exec-queue.c lets it wait for its turn and its sandbox, exec-run.c has it in a sandbox. States:
 * exec.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "core/native/state.h"

enum exec_state {
	EXEC_QUEUED,
	EXEC_WAITING,
	EXEC_STARTING,
	EXEC_RUNNING,
	EXEC_DRAINING,
	EXEC_DYING,
	EXEC_ENDED,
};

struct runtime_exec {
	struct runtime *rt;
	enum exec_state state;
	struct volume *volume; /* NULL once it may be gone */
	struct pool *pool;
	struct runtime_egress *egress; /* a reference; NULL: none */
	struct runtime_exec_ops ops;
	void *data;
	int64_t timeout_ms;

	struct exec_list *in;	/* which list it is linked into */
	struct exec_turn *turn; /* while QUEUED */
	TAILQ_ENTRY(runtime_exec) link;
	struct pool_wait wait;
	struct deadline deadline; /* of the present state */
	int64_t queue_until_ms;	  /* QUEUED and WAITING end here */
	unsigned tries;

	char *spec; /* owned until ID_STARTED: what goes into the memfd */
	size_t spec_len;
	int stdin_fd; /* owned; -1: /dev/null */
	struct sandbox *sandbox;
	struct runtime_output *streams[2]; /* owned */

	struct buf denied; /* names, each with its NUL */
	size_t n_denied;

	bool started;	    /* ID_STARTED came */
	int64_t started_us; /* clock of this process */
	int64_t wall_us;    /* init's measurement; -1: none */
	int status;	    /* as of waitpid; -1: none */
	bool timed_out, killed, oom;
	bool may_retry;
	struct err err; /* code 0: there is a result */
};

static inline struct runtime_exec *exec_of_deadline(struct deadline *d)
{
	return container_of(d, struct runtime_exec, deadline);
}

/* The deadline of the present state. */
static inline void exec_wait_until(struct runtime_exec *e, int64_t ms, deadline_fn fn)
{
	deadline_set(&e->rt->deadlines, &e->deadline, clock_monotonic_ms() + ms, fn);
}

/* ---- exec.c ---- */

/* Tells the result and frees the command. */
void exec_finish(struct runtime_exec *e);
/* The same from the loop, for callers that must not call back. */
void exec_finish_soon(struct runtime_exec *e);
void exec_fail_soon(struct runtime_exec *e, int code, const char *slug, const char *why);
/* How long the shell ran, until now or until init said that it had ended. */
int64_t exec_duration_us(const struct runtime_exec *e);

/* ---- exec-queue.c ---- */

void exec_link(struct runtime_exec *e, struct exec_list *in);
void exec_unlink(struct runtime_exec *e);
void exec_enqueue(struct runtime_exec *e);
void exec_requeue_first(struct runtime_exec *e);
/* QUEUED and WAITING end at queue_until_ms. */
void exec_limit_wait(struct runtime_exec *e);
/* A sandbox now, or as soon as there is one. */
void exec_obtain(struct runtime_exec *e);

/* ---- exec-run.c ---- */

/* Hands the command over to a blank sandbox. */
void exec_run(struct runtime_exec *e, struct sandbox *s);
/* Kills its sandbox; the result follows when that is gone. */
void exec_die(struct runtime_exec *e);
