// SPDX-License-Identifier: Apache-2.0
/*
 * Usage per tenant and month. What was counted is in memory at once and in the store a second
 * later, many increments in one write: every command counts, not every command waits for a disk.
 * With an audit log a command waits for its record anyhow; then what it counts goes before that.
 *
 * What the store could not write is given to it again. All months are kept, because a clock may be
 * set: whichever is the present one, its sums are there.
 */
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/audit.h"
#include "core/parts.h"
#include "store/store.h"

#define FLUSH_MS 1000u

struct tenant_usage {
	struct usage_month month;  /* all that is known of it */
	struct usage_month fresh;  /* the part that the store does not have */
	struct tenant_usage *next; /* another month */
};

static void period_now(char ret[8])
{
	time_t now = (time_t)(clock_wall_us() / 1000000);
	struct tm tm;

	gmtime_r(&now, &tm);
	snprintf(ret, 8, "%04u-%02u", (unsigned)(tm.tm_year + 1900) % 10000,
		 (unsigned)(tm.tm_mon + 1) % 100);
}

static struct tenant_usage *find(const struct tenant *t, const char *period)
{
	struct tenant_usage *u = t->usage;

	while (u && strcmp(u->month.period, period) != 0)
		u = u->next;
	return u;
}

static struct tenant_usage *make(struct tenant *t, const char *period)
{
	struct tenant_usage *u = find(t, period);

	if (u)
		return u;
	u = mem_new(1, sizeof(*u));
	snprintf(u->month.period, sizeof(u->month.period), "%s", period);
	u->next = t->usage;
	t->usage = u;
	return u;
}

void usage_free(struct tenant *t)
{
	for (struct tenant_usage *u = t->usage, *next; u; u = next) {
		next = u->next;
		free(u);
	}
}

static void add(struct usage_month *m, uint64_t sessions, uint64_t commands, uint64_t ms)
{
	m->sessions += sessions;
	m->commands += commands;
	m->command_ms += ms;
}

/* ---- To the store ---- */

static void on_timer(uv_timer_t *timer)
{
	usage_flush(timer->data);
}

static void flush_soon(struct core *c)
{
	if (!uv_is_active((uv_handle_t *)&c->timers[TIMER_USAGE]))
		uv_timer_start(&c->timers[TIMER_USAGE], on_timer, FLUSH_MS, 0);
}

struct given {
	struct core *c;
	struct tenant_usage *to;
	struct usage_month part;
};

static void on_given(void *data, const struct err *err)
{
	_cleanup_free_ struct given *g = data;

	if (err) {
		add(&g->to->fresh, g->part.sessions, g->part.commands, g->part.command_ms);
		flush_soon(g->c);
	}
	core_release(g->c);
}

static void give(struct core *c, const struct tenant *t, struct tenant_usage *u)
{
	struct usage_month *fresh = &u->fresh;

	if (!fresh->sessions && !fresh->commands && !fresh->command_ms)
		return;
	const struct store_usage delta = {
		.tenant = t->name,
		.period = u->month.period,
		.sessions = fresh->sessions,
		.commands = fresh->commands,
		.command_ms = fresh->command_ms,
	};
	struct given *g = NULL;
	if (!c->closed || c->in_flight) {
		g = mem_new(1, sizeof(*g));
		*g = (struct given){ c, u, *fresh };
		core_hold(c);
	}
	store_add_usage(c->store, &delta, g ? on_given : NULL, g);
	*fresh = (struct usage_month){ 0 };
}

void usage_flush(struct core *c)
{
	for (struct tenant *t = c->tenants; t; t = t->next) {
		for (struct tenant_usage *u = t->usage; u; u = u->next)
			give(c, t, u);
	}
}

/* ---- Counting ---- */

void usage_add(struct core *c, struct tenant *t, uint64_t sessions, uint64_t commands, int64_t ms)
{
	uint64_t spent = ms > 0 ? (uint64_t)ms : 0;
	char period[8];

	period_now(period);
	struct tenant_usage *u = make(t, period);
	add(&u->month, sessions, commands, spent);
	add(&u->fresh, sessions, commands, spent);
	if (commands && audit_is_on(c))
		give(c, t, u);
	else
		flush_soon(c);
}

void usage_get(struct core *c, const struct tenant *t, struct usage_month *ret)
{
	char period[8];

	period_now(period);
	const struct tenant_usage *u = find(t, period);
	if (u) {
		*ret = u->month;
		return;
	}
	*ret = (struct usage_month){ 0 };
	memcpy(ret->period, period, sizeof(period));
}

/* ---- Loading ---- */

/* Rows are copied before tenants are made, as for sessions. */
struct row {
	char *tenant; /* owned */
	struct usage_month month;
	struct row *next;
};

static void on_row(void *data, const struct store_usage *u)
{
	struct row **list = data;
	struct row *row = mem_new(1, sizeof(*row));

	row->tenant = mem_dup(u->tenant);
	snprintf(row->month.period, sizeof(row->month.period), "%s", u->period);
	add(&row->month, u->sessions, u->commands, u->command_ms);
	row->next = *list;
	*list = row;
}

int usage_load(struct core *c, struct err *err)
{
	struct row *list = NULL;
	struct tenant *t;
	int r = store_load_usage(c->store, on_row, &list, err);

	for (struct row *row = list, *next; row; row = next) {
		next = row->next;
		if (r >= 0)
			r = tenant_make(c, str_of(row->tenant), &t, err);
		if (r >= 0)
			make(t, row->month.period)->month = row->month;
		free(row->tenant);
		free(row);
	}
	return r;
}
