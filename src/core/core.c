// SPDX-License-Identifier: Apache-2.0
#include "core/core.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/parts.h"
#include "store/store.h"

#define MINUTE_MS 60000u
#define TICK_MS 1000u

/* ---- Timers ---- */

static void on_later(uv_timer_t *timer)
{
	struct core *c = timer->data;
	struct later *l = c->later_first;

	/* What an answer asks for comes in the next round. */
	c->later_first = c->later_last = NULL;
	for (struct later *next; l; l = next) {
		next = l->next;
		l->fn(l);
	}
}

void core_later(struct core *c, struct later *l)
{
	l->next = NULL;
	if (c->later_last)
		c->later_last->next = l;
	else
		c->later_first = l;
	c->later_last = l;
	uv_timer_start(&c->timers[TIMER_LATER], on_later, 0, 0);
}

static void on_sweep(uv_timer_t *timer)
{
	core_sweep(timer->data, clock_monotonic_us());
}

static void on_flush(uv_timer_t *timer)
{
	core_flush(timer->data);
}

static void on_tick(uv_timer_t *timer)
{
	struct core *c = timer->data;

	files_expire(c, clock_monotonic_us());
	creates_expire(c, clock_monotonic_us());
	imports_expire(c, clock_monotonic_us());
	execs_expire(c, clock_monotonic_us());
	if (!c->n_waiting && !c->creates_open && !c->imports_waiting && !c->measuring)
		uv_timer_stop(timer);
}

void core_wait(struct core *c)
{
	if (!uv_is_active((uv_handle_t *)&c->timers[TIMER_TICK]))
		uv_timer_start(&c->timers[TIMER_TICK], on_tick, TICK_MS, TICK_MS);
}

static void timers_open(struct core *c)
{
	int64_t sweep_ms = c->config.session_ttl_ms;

	for (size_t i = 0; i < CORE_TIMERS; i++) {
		uv_timer_init(c->loop, &c->timers[i]);
		c->timers[i].data = c;
	}
	c->open_timers = CORE_TIMERS;
	if (sweep_ms > MINUTE_MS)
		sweep_ms = MINUTE_MS;
	uv_timer_start(&c->timers[TIMER_SWEEP], on_sweep, (uint64_t)sweep_ms, (uint64_t)sweep_ms);
	uv_timer_start(&c->timers[TIMER_FLUSH], on_flush, MINUTE_MS, MINUTE_MS);
	audit_start_pruning(c);
}

/* ---- Life ---- */

static void core_free(struct core *c)
{
	while (c->newest)
		session_remove(c, c->newest);
	snapshots_free(c);
	tenants_free(c);
	keys_free(c);
	egress_free(c);
	found_free(c);
	lost_free(c);
	leftovers_free(c);
	free(c->hash);
	free(c);
}

int core_open(uv_loop_t *loop, const struct core_config *config, struct store *store,
	      struct runtime *runtime, struct core **ret, struct err *err)
{
	struct core *c = mem_new(1, sizeof(*c));

	c->loop = loop;
	c->config = *config;
	c->store = store;
	c->runtime = runtime;
	c->limits_all = TENANT_LIMITS_DEFAULT;
	exec_counts_init(c);
	int r = keys_load(c, err);
	if (r >= 0)
		r = audit_load(c, err);
	if (r >= 0)
		r = sessions_load(c, err);
	if (r >= 0)
		r = snapshots_load(c, err);
	if (r >= 0)
		r = usage_load(c, err);
	if (r < 0) {
		core_free(c);
		return r;
	}
	timers_open(c);
	*ret = c;
	return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct core *c = handle->data;
	void (*closed)(void *data) = c->closed;
	void *data = c->closed_data;

	if (--c->open_timers)
		return;
	core_free(c);
	closed(data);
}

static void finish_close(struct core *c)
{
	usage_flush(c);
	for (size_t i = 0; i < CORE_TIMERS; i++)
		uv_close((uv_handle_t *)&c->timers[i], on_timer_closed);
}

void core_hold(struct core *c)
{
	c->in_flight++;
}

void core_release(struct core *c)
{
	assert(c->in_flight);
	if (--c->in_flight == 0 && c->closed)
		finish_close(c);
}

static void end_all(struct core *c)
{
	for (struct session *s = c->newest, *next; s; s = next) {
		next = s->next;
		if (s->state == SESSION_READY)
			session_delete(c, s, NULL, NULL);
	}
}

void core_close(struct core *c, void (*closed)(void *data), void *data)
{
	assert(!c->closed);
	core_stop(c);
	core_hold(c);
	c->closed = closed;
	c->closed_data = data;
	uv_timer_stop(&c->timers[TIMER_SWEEP]);
	core_end_work(c);
	endings_hurry(c);
	if (c->config.ephemeral)
		end_all(c);
	core_flush(c);
	core_release(c);
}

void core_on_behalf(struct core *c, const char *request)
{
	snprintf(c->origin.request, sizeof(c->origin.request), "%s", request);
}

const struct core_config *core_config_get(const struct core *c)
{
	return &c->config;
}

struct runtime *core_runtime(const struct core *c)
{
	return c->runtime;
}

void core_stop(struct core *c)
{
	c->stopping = true;
	room_again(c);
}

bool core_is_stopping(const struct core *c)
{
	return c->stopping;
}

void core_work_get(const struct core *c, struct core_work *ret)
{
	*ret = (struct core_work){ .commands = execs_count(c),
				   .imports = imports_count(c),
				   .any = c->in_flight > 0 };
	for (const struct tenant *t = c->tenants; t; t = t->next)
		ret->transfers += t->files[FILES_SLOW].running;
}

void core_end_work(struct core *c)
{
	execs_kill(c);
	imports_end(c, NULL);
	files_expire(c, INT64_MAX);
}
