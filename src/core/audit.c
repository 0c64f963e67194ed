// SPDX-License-Identifier: Apache-2.0
#include "core/audit.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "core/parts.h"

#define TOO_MANY 429u
#define PRUNE_FIRST_MS 60000u
#define PRUNE_EVERY_MS 3600000u

struct audit {
	struct core *c;
	struct store_audit row;
	char *session, *tenant, *actor, *command; /* owned; what row points to */
	int64_t since_us;			  /* monotonic */
	bool begins;				  /* the store has not answered for the beginning */
	bool is_over;
	audit_begun_fn begun;
	void *begun_data;
	audit_ended_fn ended;
	void *ended_data;
};

bool audit_is_on(const struct core *c)
{
	return c->config.audit_store;
}

bool audit_is_strict(const struct core *c)
{
	return c->config.audit_store && c->config.audit_strict;
}

/* ---- A record ---- */

static void audit_free(struct audit *a)
{
	struct core *c = a->c;

	free(a->session);
	free(a->tenant);
	free(a->actor);
	free(a->command);
	free(a);
	core_release(c);
}

static void on_begun(void *data, const struct err *err)
{
	struct audit *a = data;

	a->begins = false;
	if (a->begun)
		a->begun(a->begun_data, !err);
	if (a->is_over)
		audit_free(a);
}

struct audit *audit_begin(struct core *c, const struct audit_start *start, audit_begun_fn begun,
			  void *data)
{
	struct str shown = utf8_cut(start->command, AUDIT_COMMAND_MAX);
	struct audit *a;

	if (!audit_is_on(c))
		return NULL;
	a = mem_new(1, sizeof(*a));
	a->c = c;
	a->session = mem_dup(start->session);
	a->tenant = mem_dup(start->tenant->name);
	a->actor = mem_dup(start->actor);
	a->command = mem_dup_n(shown.data, shown.len);
	a->row = (struct store_audit){
		.id = ++c->audit_last,
		.at_us = clock_wall_us(),
		.tenant = a->tenant,
		.session = a->session,
		.actor = a->actor,
		.kind = start->kind,
		.command = a->command,
		.truncated = shown.len < start->command.len,
		.open = true,
		.failed = true,
		.duration_ms = -1,
	};
	a->since_us = clock_monotonic_us();
	a->begun = begun;
	a->begun_data = data;
	a->begins = true;
	core_hold(c);
	store_put_audit(c->config.audit_store, &a->row, on_begun, a);
	return a;
}

static void on_ended(void *data, const struct err *err)
{
	struct audit *a = data;

	(void)err; /* counted and logged by the store */
	a->is_over = true;
	if (a->ended)
		a->ended(a->ended_data);
	if (!a->begins)
		audit_free(a);
}

void audit_end(struct audit *a, const struct audit_outcome *outcome, audit_ended_fn ended,
	       void *data)
{
	struct store_audit *row = &a->row;

	a->ended = ended;
	a->ended_data = data;
	row->at_us = clock_wall_us();
	row->open = false;
	row->failed = outcome->failed;
	row->exit_code = outcome->exit_code;
	row->duration_ms = outcome->duration_ms;
	row->timed_out = outcome->timed_out;
	row->oom_killed = outcome->oom_killed;
	row->detail = outcome->detail;
	store_put_audit(a->c->config.audit_store, row, on_ended, a);
	row->detail = NULL;
}

static int64_t since_ms(const struct audit *a)
{
	return (clock_monotonic_us() - a->since_us) / 1000;
}

void audit_done(struct audit *a, const char *detail, audit_ended_fn ended, void *data)
{
	const struct audit_outcome done = { .duration_ms = since_ms(a), .detail = detail };

	audit_end(a, &done, ended, data);
}

/* Nobody is kept waiting for it. */
static void forget(struct audit *a, audit_ended_fn ended, void *data)
{
	store_drop_audit(a->c->config.audit_store, a->row.id);
	a->is_over = true;
	if (ended)
		ended(data);
	if (!a->begins)
		audit_free(a);
}

void audit_fail(struct audit *a, const struct err *err, audit_ended_fn ended, void *data)
{
	char detail[4 * AUDIT_DETAIL_MAX + 1];
	const char *text = err->text;
	unsigned status = a->c->config.error_words(err, &text);
	_cleanup_free_ char *whole = mem_printf("failed (%u): %s", status, text);
	struct str shown = utf8_cut(str_of(whole), AUDIT_DETAIL_MAX);

	if (status == TOO_MANY) {
		forget(a, ended, data);
		return;
	}
	snprintf(detail, sizeof(detail), "%.*s", (int)shown.len, shown.data);
	const struct audit_outcome failed = { .failed = true,
					      .duration_ms = since_ms(a),
					      .detail = detail };
	audit_end(a, &failed, ended, data);
}

/* ---- Reading ---- */

static int64_t oldest_us(const struct core *c)
{
	return clock_wall_us() - c->config.audit_keep_us;
}

void audit_page(struct core *c, const struct tenant *t, int64_t before_us, uint32_t before_id,
		size_t limit, store_audit_page_fn fn, void *data)
{
	const struct store_audit_query query = {
		.tenant = t->name,
		.from_us = oldest_us(c),
		.before_us = before_us,
		.before_id = before_id,
		.limit = limit,
	};

	store_page_audit(c->config.audit_store, &query, fn, data);
}

/* ---- The start, and what is too old ---- */

static void prune(struct core *c);

/* A part at a time, so that records that are written meanwhile wait for little. */
static void on_pruned(void *data, uint32_t n, const struct err *err)
{
	struct core *c = data;

	if (!err && n && !c->stopping)
		prune(c);
	core_release(c);
}

static void prune(struct core *c)
{
	core_hold(c);
	store_prune_audit(c->config.audit_store, oldest_us(c), on_pruned, c);
}

static void on_timer(uv_timer_t *timer)
{
	prune(timer->data);
}

int audit_load(struct core *c, struct err *err)
{
	static const char cut_off[] = "failed: the server was restarted while it ran";

	if (!audit_is_on(c))
		return 0;
	return store_audit_recover(c->config.audit_store, clock_wall_us(), cut_off, &c->audit_last,
				   err);
}

void audit_start_pruning(struct core *c)
{
	if (audit_is_on(c))
		uv_timer_start(&c->timers[TIMER_AUDIT], on_timer, PRUNE_FIRST_MS, PRUNE_EVERY_MS);
}
