// SPDX-License-Identifier: Apache-2.0
#include "core/native/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/native/state.h"

static void on_tick(struct deadline *d);

struct pool *pool_get(struct runtime *rt, uint32_t tenant, const char *image, bool egress)
{
	size_t len = strlen(image);
	struct pool *p;

	TAILQ_FOREACH(p, &rt->pools.list, link)
	{
		if (p->tenant == tenant && p->egress == egress && strcmp(p->image, image) == 0)
			return p;
	}
	if (!len || len >= MSG_IMAGE_NAME)
		return NULL;
	p = mem_new(1, sizeof(*p));
	p->rt = rt;
	p->tenant = tenant;
	p->egress = egress;
	memcpy(p->image, image, len);
	p->retry_ms = POOL_RETRY_MS;
	p->used_ms = p->window_ms = clock_monotonic_ms();
	TAILQ_INIT(&p->ready);
	TAILQ_INIT(&p->waits);
	TAILQ_INSERT_HEAD(&rt->pools.list, p, link);
	return p;
}

/* ---- Demand ---- */

static void roll_window(struct pool *p)
{
	int64_t now = clock_monotonic_ms(), age = now - p->window_ms;

	if (age < POOL_WINDOW_MS)
		return;
	p->last_peak = age < 2 * POOL_WINDOW_MS ? p->peak : p->in_use;
	p->peak = p->in_use;
	p->window_ms = now;
}

static bool is_idle(const struct pool *p)
{
	return !p->in_use && !p->n_waits &&
	       clock_monotonic_ms() - p->used_ms >= p->rt->config.idle_ms;
}

static unsigned target(struct pool *p)
{
	unsigned want;

	/* A server without a gateway is not asked for what nobody would watch. */
	if (p->rt->closing || is_idle(p) || (p->egress && !p->rt->host.gateway))
		return 0;
	roll_window(p);
	want = (p->peak > p->last_peak ? p->peak : p->last_peak) + 1;
	return want < p->rt->config.pool ? want : p->rt->config.pool;
}

static void touch(struct pool *p)
{
	struct pools *all = &p->rt->pools;

	p->used_ms = clock_monotonic_ms();
	if (TAILQ_FIRST(&all->list) != p) {
		TAILQ_REMOVE(&all->list, p, link);
		TAILQ_INSERT_HEAD(&all->list, p, link);
	}
	if (!p->tick.set)
		deadline_set(&p->rt->deadlines, &p->tick, p->used_ms + POOL_WINDOW_MS, on_tick);
}

void pool_enter(struct pool *p)
{
	roll_window(p);
	if (++p->in_use > p->peak)
		p->peak = p->in_use;
	touch(p);
}

void pool_leave(struct pool *p)
{
	p->in_use--;
	touch(p);
}

/* ---- Ready sandboxes ---- */

static void unready(struct sandbox *s)
{
	struct pool *p = s->pool;

	TAILQ_REMOVE(&p->ready, s, in_pool);
	p->n_ready--;
	p->rt->pools.n_ready--;
	sandbox_set_user(s, NULL, NULL);
}

static void on_blank_message(struct sandbox *s, const struct wire_msg *msg)
{
}

/* A blank sandbox that ended: something is wrong with building, so don't be quick with the next. */
static void on_blank_ended(struct sandbox *s)
{
	struct pool *p = s->pool;

	log_event(LOG_WARN, "blank_sandbox_ended", LOG_INT("slot", s->id.slot),
		  LOG_INT("tenant", p->tenant));
	unready(s);
	sandbox_retire(s);
	if (!p->paused && !p->rt->closing) {
		p->paused = true;
		deadline_set(&p->rt->deadlines, &p->tick, clock_monotonic_ms() + p->retry_ms,
			     on_tick);
	}
}

static void on_blank_handover_failed(struct sandbox *s, uint32_t code)
{
	on_blank_ended(s);
}

static void on_blank_readable(struct sandbox *s, enum runtime_stream i)
{
	/* Nobody but us has the other end. */
	sandbox_pipe_close(s, i);
	s->prepared = false;
}

static const struct sandbox_ops blank_ops = {
	.message = on_blank_message,
	.ended = on_blank_ended,
	.gone = on_blank_ended,
	.handover_failed = on_blank_handover_failed,
	.readable = on_blank_readable,
};

static void make_ready(struct pool *p, struct sandbox *s)
{
	sandbox_set_user(s, &blank_ops, p);
	TAILQ_INSERT_HEAD(&p->ready, s, in_pool);
	p->n_ready++;
	p->rt->pools.n_ready++;
}

struct sandbox *pool_take(struct pool *p)
{
	struct sandbox *s = TAILQ_FIRST(&p->ready);

	if (s)
		unready(s);
	return s;
}

void pool_return(struct pool *p, struct sandbox *s)
{
	make_ready(p, s);
}

/* The oldest one goes. */
static void kill_one(struct pool *p)
{
	struct sandbox *s = TAILQ_LAST(&p->ready, sandbox_list);

	unready(s);
	sandbox_kill(s);
	sandbox_retire(s);
}

/* ---- Waiting ---- */

void pool_wait(struct pool *p, struct pool_wait *w, pool_wait_fn fn)
{
	w->pool = p;
	w->fn = fn;
	TAILQ_INSERT_TAIL(&p->waits, w, link);
	p->n_waits++;
	touch(p);
	pool_balance(p);
}

void pool_wait_cancel(struct pool_wait *w)
{
	if (!w->pool)
		return;
	TAILQ_REMOVE(&w->pool->waits, w, link);
	w->pool->n_waits--;
	w->pool = NULL;
}

static bool serve_one(struct pool *p, struct sandbox *s, const struct err *err)
{
	struct pool_wait *w = TAILQ_FIRST(&p->waits);

	if (!w)
		return false;
	pool_wait_cancel(w);
	w->fn(w, s, err);
	return true;
}

/* ---- Building ---- */

/* A sandbox that waits for init's hello before it is anybody's. */
static void on_new_message(struct sandbox *s, const struct wire_msg *msg)
{
	struct pool *p = s->pool;

	p->n_building--;
	p->rt->pools.n_building--;
	p->posture = s->posture;
	p->retry_ms = POOL_RETRY_MS;
	p->rt->pools.failed_in_row = 0;
	sandbox_set_user(s, NULL, NULL);
	if (!serve_one(p, s, NULL)) {
		/* Off the path. When there are no descriptors for it now, the command tries again. */
		sandbox_prepare(s);
		make_ready(p, s);
	}
	pool_balance(p);
}

static void build_failed(struct pool *p, const char *why)
{
	struct err err;

	p->n_building--;
	p->rt->pools.n_building--;
	p->rt->pools.failed_in_row++;
	p->rt->pools.failed_ms = clock_monotonic_ms();
	log_event(LOG_ERROR, "build_failed", LOG_INT("tenant", p->tenant),
		  LOG_STR("image", p->image), LOG_STR("why", why));
	p->paused = true;
	deadline_set(&p->rt->deadlines, &p->tick, clock_monotonic_ms() + p->retry_ms, on_tick);
	p->retry_ms = p->retry_ms * 2 < POOL_RETRY_MAX_MS ? p->retry_ms * 2 : POOL_RETRY_MAX_MS;
	err_slug(&err, EAGAIN, "no_capacity", "no sandbox could be built");
	serve_one(p, NULL, &err);
	pool_balance(p);
}

static void on_new_ended(struct sandbox *s)
{
	struct pool *p = s->pool;

	sandbox_retire(s);
	build_failed(p, "init ended before it was ready");
}

static void on_new_handover_failed(struct sandbox *s, uint32_t code)
{
	on_new_ended(s);
}

static const struct sandbox_ops new_ops = {
	.message = on_new_message,
	.ended = on_new_ended,
	.gone = on_new_ended,
	.handover_failed = on_new_handover_failed,
	.readable = on_blank_readable,
};

/* What a tenant gets is what was asked for it. */
static bool is_mine(const struct pool *p, const struct ld_sandbox *body)
{
	return body->tenant == p->tenant && body->egress == p->egress && !body->used &&
	       memcmp(body->image, p->image, sizeof(p->image)) == 0;
}

static void on_built(struct runtime *rt, void *data, struct wire_msg *msg)
{
	struct pool *p = data;
	struct ld_sandbox body;
	struct msg_done failed;
	struct sandbox *s;

	if (!msg) {
		build_failed(p, "the launcher is gone");
		return;
	}
	if (msg->head.type == LD_BUILD_FAILED) {
		memcpy(&failed, msg->body, sizeof(failed));
		failed.text[sizeof(failed.text) - 1] = '\0';
		build_failed(p, failed.text);
		return;
	}
	memcpy(&body, msg->body, sizeof(body));
	s = is_mine(p, &body) ? sandbox_new(rt, &body, take_fd(&msg->fds[0]), p, false) : NULL;
	if (!s) {
		build_failed(p, "the launcher reported a sandbox that was not asked for");
		link_tell(rt, DL_KILL, &body.sandbox, sizeof(body.sandbox));
		return;
	}
	sandbox_set_user(s, &new_ops, p);
	if (s->control < 0) {
		sandbox_kill(s);
		sandbox_retire(s);
		build_failed(p, "its socket cannot be watched");
		return;
	}
	/* Mostly init has said hello by now; that saves a turn of the loop when somebody waits. */
	sandbox_receive(s);
}

static void build(struct pool *p)
{
	struct dl_build body = { .tenant = p->tenant, .egress = p->egress };

	memcpy(body.image, p->image, sizeof(body.image));
	p->n_building++;
	p->rt->pools.n_building++;
	link_ask(p->rt, DL_BUILD, &body, sizeof(body),
		 LINK_BIT(LD_SANDBOX) | LINK_BIT(LD_BUILD_FAILED), on_built, p);
}

/* The pool that has waited longest for use gives one up, when it has more than it needs or has not
 * been used in this window. */
static bool take_place(struct pool *for_pool)
{
	struct pool *p;

	TAILQ_FOREACH_REVERSE(p, &for_pool->rt->pools.list, pool_list, link)
	{
		if (p == for_pool || !p->n_ready)
			continue;
		if (p->n_ready > target(p) || p->n_ready > 1 ||
		    clock_monotonic_ms() - p->used_ms >= POOL_WINDOW_MS) {
			kill_one(p);
			return true;
		}
	}
	return false;
}

static bool may_build(struct pool *p)
{
	struct pools *all = &p->rt->pools;

	if (all->n_ready + all->n_building < p->rt->config.pool_all)
		return true;
	return !p->n_ready && !p->n_building && take_place(p);
}

void pool_balance(struct pool *p)
{
	unsigned want = target(p);

	if (p->rt->link.state != LINK_READY)
		return;
	/* Who waits is served whatever the bounds of the pool say: commands have bounds of their
	 * own. */
	while (p->n_building < p->n_waits)
		build(p);
	if (p->paused)
		return;
	while (p->n_ready + p->n_building - p->n_waits < want && may_build(p))
		build(p);
	while (p->n_ready > want)
		kill_one(p);
}

static void on_refill(struct deadline *d)
{
	pool_balance(container_of(d, struct pool, refill));
}

void pool_refill(struct pool *p)
{
	if (!p->refill.set)
		deadline_set(&p->rt->deadlines, &p->refill, clock_monotonic_ms() + POOL_REFILL_MS,
			     on_refill);
}

void pool_warm(struct pool *p)
{
	touch(p);
	pool_balance(p);
}

/* Until one is built the server is said to be without sandboxes, which a pool that nobody uses
 * would never build. */
static bool is_failing(const struct pool *p)
{
	return p->retry_ms > POOL_RETRY_MS && p->rt->pools.failed_in_row >= POOL_FAILS;
}

static void probe(struct pool *p)
{
	const struct pools *all = &p->rt->pools;

	if (is_failing(p) && !p->rt->closing && p->rt->link.state == LINK_READY &&
	    !all->n_building && (!p->egress || p->rt->host.gateway) &&
	    clock_monotonic_ms() - all->failed_ms >= POOL_PROBE_MS)
		build(p);
}

/* Comes every window while the pool holds something or was used, and after a failed build. */
static void on_tick(struct deadline *d)
{
	struct pool *p = container_of(d, struct pool, tick);

	p->paused = false;
	pool_balance(p);
	probe(p);
	if (!p->tick.set &&
	    (p->n_ready || p->n_building || p->in_use || !is_idle(p) || is_failing(p)))
		deadline_set(&p->rt->deadlines, &p->tick, clock_monotonic_ms() + POOL_WINDOW_MS,
			     on_tick);
}

/* ---- After a restart of airlockd ---- */

bool pool_adopt(struct runtime *rt, const struct ld_sandbox *body, int control)
{
	_cleanup_fd_ int fd = control;
	struct pool *p = NULL;
	struct sandbox *s;

	if (memchr(body->image, 0, sizeof(body->image)))
		p = pool_get(rt, body->tenant, body->image, body->egress);
	if (!p)
		return false;
	s = sandbox_new(rt, body, take_fd(&fd), p, true);
	if (!s)
		return false;
	if (body->used || s->control < 0) {
		s->stray = true;
		rt->strays++;
		sandbox_kill(s);
		sandbox_retire(s);
		return true;
	}
	p->posture = s->posture;
	sandbox_prepare(s);
	make_ready(p, s);
	touch(p);
	return true;
}

void pools_drain(struct runtime *rt)
{
	struct pool *p;

	TAILQ_FOREACH(p, &rt->pools.list, link)
	{
		while (p->n_ready)
			kill_one(p);
	}
}

void pools_fini(struct runtime *rt)
{
	struct pool *p;

	while ((p = TAILQ_FIRST(&rt->pools.list))) {
		TAILQ_REMOVE(&rt->pools.list, p, link);
		deadline_clear(&rt->deadlines, &p->tick);
		deadline_clear(&rt->deadlines, &p->refill);
		free(p);
	}
}
