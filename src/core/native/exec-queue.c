// SPDX-License-Identifier: Apache-2.0
#include "core/native/exec-state.h"

#include <errno.h>
#include <stdlib.h>

void execs_init(struct runtime *rt)
{
	TAILQ_INIT(&rt->execs.active);
	TAILQ_INIT(&rt->execs.ending);
	TAILQ_INIT(&rt->execs.turns);
}

/* ---- Lists ---- */

void exec_unlink(struct runtime_exec *e)
{
	struct execs *all = &e->rt->execs;

	TAILQ_REMOVE(e->in, e, link);
	if (e->in == &all->active) {
		all->running--;
		pool_leave(e->pool);
	} else if (e->turn) {
		all->queued--;
		if (TAILQ_EMPTY(&e->turn->list)) {
			TAILQ_REMOVE(&all->turns, e->turn, link);
			free(e->turn);
		}
		e->turn = NULL;
	}
	e->in = NULL;
}

void exec_link(struct runtime_exec *e, struct exec_list *in)
{
	e->in = in;
	TAILQ_INSERT_TAIL(in, e, link);
}

static struct exec_turn *turn_get(struct runtime *rt, uint32_t tenant)
{
	struct exec_turn *t;

	TAILQ_FOREACH(t, &rt->execs.turns, link)
	{
		if (t->tenant == tenant)
			return t;
	}
	t = mem_new(1, sizeof(*t));
	t->tenant = tenant;
	TAILQ_INIT(&t->list);
	TAILQ_INSERT_TAIL(&rt->execs.turns, t, link);
	return t;
}

void exec_enqueue(struct runtime_exec *e)
{
	e->state = EXEC_QUEUED;
	e->turn = turn_get(e->rt, e->pool->tenant);
	e->rt->execs.queued++;
	exec_link(e, &e->turn->list);
}

/* It had its turn, but the launcher's socket has no room: first in the line again. */
void exec_requeue_first(struct runtime_exec *e)
{
	exec_unlink(e);
	exec_enqueue(e);
	TAILQ_REMOVE(&e->turn->list, e, link);
	TAILQ_INSERT_HEAD(&e->turn->list, e, link);
	TAILQ_REMOVE(&e->rt->execs.turns, e->turn, link);
	TAILQ_INSERT_HEAD(&e->rt->execs.turns, e->turn, link);
}

static void on_queue_late(struct deadline *d)
{
	struct runtime_exec *e = exec_of_deadline(d);

	err_slug(&e->err, EAGAIN, "busy", "no sandbox came free in time");
	exec_finish(e);
}

void exec_limit_wait(struct runtime_exec *e)
{
	deadline_set(&e->rt->deadlines, &e->deadline, e->queue_until_ms, on_queue_late);
}

static void on_sandbox(struct pool_wait *w, struct sandbox *s, const struct err *err)
{
	struct runtime_exec *e = container_of(w, struct runtime_exec, wait);

	if (s) {
		exec_run(e, s);
		return;
	}
	e->err = *err;
	exec_finish_soon(e);
}

/* A sandbox now, or as soon as there is one. */
void exec_obtain(struct runtime_exec *e)
{
	struct sandbox *s = pool_take(e->pool);

	e->state = EXEC_WAITING;
	if (s)
		exec_run(e, s);
	else
		pool_wait(e->pool, &e->wait, on_sandbox);
}

void exec_pump(struct runtime *rt)
{
	struct execs *all = &rt->execs;
	struct exec_turn *t;

	while ((t = TAILQ_FIRST(&all->turns)) && all->running < rt->config.running_max &&
	       rt->link.state == LINK_READY && !link_is_congested(&rt->link)) {
		struct runtime_exec *e = TAILQ_FIRST(&t->list);
		TAILQ_REMOVE(&all->turns, t, link);
		TAILQ_INSERT_TAIL(&all->turns, t, link);
		exec_unlink(e);
		exec_link(e, &all->active);
		all->running++;
		pool_enter(e->pool);
		exec_obtain(e);
	}
}

/* ---- Ending many ---- */

static void fail_queued(struct runtime *rt, const struct volume *v, const char *slug,
			const char *why)
{
	struct exec_turn *t, *next_t;
	struct runtime_exec *e, *next;

	for (t = TAILQ_FIRST(&rt->execs.turns); t; t = next_t) {
		next_t = TAILQ_NEXT(t, link);
		for (e = TAILQ_FIRST(&t->list); e; e = next) {
			next = TAILQ_NEXT(e, link);
			if (!v || e->volume == v)
				exec_fail_soon(e, ECANCELED, slug, why);
		}
	}
	TAILQ_FOREACH(e, &rt->execs.active, link)
	{
		if (e->state == EXEC_WAITING && (!v || e->volume == v))
			exec_fail_soon(e, ECANCELED, slug, why);
	}
}

void exec_volume_ends(struct runtime *rt, struct volume *v)
{
	struct runtime_exec *e;

	fail_queued(rt, v, "internal", "the workspace was deleted");
	TAILQ_FOREACH(e, &rt->execs.active, link)
	{
		if (e->volume == v)
			runtime_exec_kill(e);
	}
}

void execs_end(struct runtime *rt)
{
	struct runtime_exec *e;

	fail_queued(rt, NULL, "busy", "the server is stopping");
	TAILQ_FOREACH(e, &rt->execs.active, link)
	runtime_exec_kill(e);
}

void execs_abandon(struct runtime *rt)
{
	struct runtime_exec *e;

	while ((e = TAILQ_FIRST(&rt->execs.active)) || (e = TAILQ_FIRST(&rt->execs.ending)))
		exec_finish(e);
}
