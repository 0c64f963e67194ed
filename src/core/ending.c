// SPDX-License-Identifier: Apache-2.0
/*
 * Ending a session: out of sight -> volume (with every process on it) and row go side by side ->
 * slot free. The row's commit puts the id into the journal, so after a crash between the two
 * start.c finishes it.
 *
 * A volume that could not be deleted is tried again a few times at once (a role of the launcher may
 * be restarting), then by every sweep; until it is gone the session keeps its slot.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "core/disk.h"
#include "core/parts.h"
#include "store/store.h"

/* Two seconds: the launcher starts a role that ended at most once in one. */
#define TRIES 10u
#define TRY_AGAIN_MS 200u

struct ending {
	struct core *c;
	struct session *s; /* referenced */
	session_fn fn;	   /* may be NULL */
	void *data;
	unsigned steps; /* that are still to come */
	unsigned tries;
	bool volume_gone;
	struct origin origin;
	struct ending *next; /* waiting for another try */
};

static void finish(struct ending *e)
{
	struct core *c = e->c;
	struct session *s = e->s;
	struct err err;

	if (e->volume_gone) {
		leftover_gone(c, s->id);
		s->tenant->sessions_open--;
		session_remove(c, s);
		disk_gone(c, s);
	} else {
		s->retry = true;
		err_slug(&err, EIO, "internal", "Internal Server Error");
	}
	if (e->fn)
		e->fn(e->data, s, e->volume_gone ? NULL : &err);
	session_unref(s);
	free(e);
	core_release(c);
}

static void step(struct ending *e)
{
	if (--e->steps == 0)
		finish(e);
}

static void on_volume_gone(void *data, const struct err *err);

static void try_volume(struct ending *e)
{
	e->tries++;
	runtime_volume_delete(e->c->runtime, e->s->id, on_volume_gone, e);
}

static void on_again(uv_timer_t *timer)
{
	struct core *c = timer->data;
	struct ending *e = take_ptr(c->endings_again);

	for (struct ending *next; e; e = next) {
		next = e->next;
		try_volume(e);
	}
}

/* What waits for another try when the core closes: it gets it at once, and it is the last one. */
void endings_hurry(struct core *c)
{
	uv_timer_stop(&c->timers[TIMER_AGAIN]);
	on_again(&c->timers[TIMER_AGAIN]);
}

static void on_volume_gone(void *data, const struct err *err)
{
	struct ending *e = data;
	struct core *c = e->c;

	e->volume_gone = !err;
	if (err && e->tries < TRIES && !c->closed) {
		e->next = c->endings_again;
		c->endings_again = e;
		if (!uv_is_active((uv_handle_t *)&c->timers[TIMER_AGAIN]))
			uv_timer_start(&c->timers[TIMER_AGAIN], on_again, TRY_AGAIN_MS, 0);
		return;
	}
	if (err)
		log_event(LOG_ERROR, "session_delete_failed", LOG_STR("request", e->origin.request),
			  LOG_STR("session", e->s->id), LOG_STR("tenant", e->s->tenant->name),
			  LOG_STR("why", err->text));
	step(e);
}

/* A row that could not be dropped is dropped at the next start, since its volume is gone. */
static void on_dropped(void *data, const struct err *err)
{
	step(data);
}

void session_end(struct core *c, struct session *s, session_fn fn, void *data)
{
	struct ending *e = mem_new(1, sizeof(*e));

	*e = (struct ending){
		.c = c, .s = s, .fn = fn, .data = data, .steps = 2, .origin = c->origin
	};
	session_ref(s);
	core_hold(c);
	s->retry = false;
	try_volume(e);
	store_drop_session(c->store, s->id, on_dropped, e);
}

void session_delete(struct core *c, struct session *s, session_fn fn, void *data)
{
	assert(s->state == SESSION_READY);
	s->state = SESSION_ENDING;
	c->n_ready--;
	egress_close(c, s);
	imports_end(c, s);
	session_end(c, s, fn, data);
}
