// SPDX-License-Identifier: Apache-2.0
/*
 * Usage per tenant and month. What was counted is in memory at once and in the store a second
 * later, many increments in one write: every command counts, not every command waits for a disk.
 */
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/parts.h"
#include "store/store.h"

#define FLUSH_MS 1000u

struct tenant_usage {
	struct usage_month month; /* all that is known of it */
	struct usage_month fresh; /* the part that the store has not been given */
};

static void period_now(char ret[8])
{
	time_t now = (time_t)(clock_wall_us() / 1000000);
	struct tm tm;

	gmtime_r(&now, &tm);
	snprintf(ret, 8, "%04u-%02u", (unsigned)(tm.tm_year + 1900) % 10000,
		 (unsigned)(tm.tm_mon + 1) % 100);
}

static void give(struct core *c, const struct tenant *t)
{
	struct usage_month *fresh = &t->usage->fresh;

	if (!fresh->sessions && !fresh->commands && !fresh->command_ms)
		return;
	const struct store_usage delta = {
		.tenant = t->name,
		.period = t->usage->month.period,
		.sessions = fresh->sessions,
		.commands = fresh->commands,
		.command_ms = fresh->command_ms,
	};
	store_add_usage(c->store, &delta);
	*fresh = (struct usage_month){ 0 };
}

/* The counters of this month; those of a month that is over go to the store first. */
static struct tenant_usage *current(struct core *c, struct tenant *t)
{
	char period[8];

	period_now(period);
	if (!t->usage)
		t->usage = mem_new(1, sizeof(*t->usage));
	if (strcmp(t->usage->month.period, period) != 0) {
		give(c, t);
		t->usage->month = (struct usage_month){ 0 };
		memcpy(t->usage->month.period, period, sizeof(period));
	}
	return t->usage;
}

static void on_timer(uv_timer_t *timer)
{
	usage_flush(timer->data);
}

void usage_flush(struct core *c)
{
	for (struct tenant *t = c->tenants; t; t = t->next) {
		if (t->usage)
			give(c, t);
	}
}

static void add(struct usage_month *m, uint64_t sessions, uint64_t commands, uint64_t ms)
{
	m->sessions += sessions;
	m->commands += commands;
	m->command_ms += ms;
}

void usage_add(struct core *c, struct tenant *t, uint64_t sessions, uint64_t commands, int64_t ms)
{
	struct tenant_usage *u = current(c, t);
	uint64_t spent = ms > 0 ? (uint64_t)ms : 0;

	add(&u->month, sessions, commands, spent);
	add(&u->fresh, sessions, commands, spent);
	if (!uv_is_active((uv_handle_t *)&c->timers[TIMER_USAGE]))
		uv_timer_start(&c->timers[TIMER_USAGE], on_timer, FLUSH_MS, 0);
}

void usage_get(struct core *c, const struct tenant *t, struct usage_month *ret)
{
	*ret = (struct usage_month){ 0 };
	period_now(ret->period);
	if (t->usage && strcmp(t->usage->month.period, ret->period) == 0)
		*ret = t->usage->month;
}

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
	add(&row->month, u->sessions, u->commands, u->command_ms);
	row->next = *list;
	*list = row;
}

int usage_load(struct core *c, struct err *err)
{
	struct row *list = NULL;
	struct tenant *t;
	char period[8];

	period_now(period);
	int r = store_load_usage(c->store, period, on_row, &list, err);
	for (struct row *row = list, *next; row; row = next) {
		next = row->next;
		if (r >= 0)
			r = tenant_make(c, str_of(row->tenant), &t, err);
		if (r >= 0)
			add(&current(c, t)->month, row->month.sessions, row->month.commands,
			    row->month.command_ms);
		free(row->tenant);
		free(row);
	}
	return r;
}
