// SPDX-License-Identifier: Apache-2.0
/*
 * Volumes that nobody will ask for any more: an earlier run left them, or what failed could not
 * take its own away again. The journal holds their names, so that the next start would find them,
 * too. They are deleted one after the other. When the launcher cannot, it is asked again: some
 * times soon, because its sweeper may be starting anew, and then by every sweep.
 *
 * The name of a volume that is gone stays in the journal until the file system has committed that,
 * which it does every 30 s: after a power cut the volume may be there again.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/parts.h"
#include "store/store.h"

#define TRIES 10u
#define TRY_AGAIN_MS 200u
#define COMMITTED_US (60 * 1000000ll)

struct gone_volume {
	char id[SESSION_ID_LEN + 1];
	int64_t at_us;
	struct gone_volume *next;
};

static void put_last(struct core *c, struct found_volume *v)
{
	struct found_volume **at = &c->journal;

	while (*at)
		at = &(*at)->next;
	v->next = NULL;
	*at = v;
}

/* Also of an id whose volume was not listed: an earlier airlockd may have asked for it just before
 * it died, and the launcher takes such calls in order. */
static void on_gone(void *data, const struct err *err)
{
	struct core *c = data;
	struct found_volume *v = c->journal;

	c->clearing = false;
	c->journal = v->next;
	if (!err) {
		store_clear_journal(c->store, v->id, 1);
		free(v);
		c->leftover_tries = 0;
		leftovers_clear(c);
	} else {
		log_event(LOG_ERROR, "leftover_volume_kept", LOG_STR("volume", v->id),
			  LOG_STR("why", err->text));
		put_last(c, v);
		leftovers_later(c);
	}
	core_release(c);
}

void leftovers_clear(struct core *c)
{
	if (c->clearing || c->closed || !c->journal)
		return;
	c->clearing = true;
	core_hold(c);
	runtime_volume_delete(c->runtime, c->journal->id, on_gone, c);
}

static void on_again(uv_timer_t *timer)
{
	struct core *c = timer->data;

	if (c->closed)
		return;
	snapshots_bury(c);
	leftovers_clear(c);
}

void leftovers_later(struct core *c)
{
	uv_timer_t *timer = &c->timers[TIMER_LEFTOVERS];

	if (c->closed || c->leftover_tries == TRIES || uv_is_active((uv_handle_t *)timer))
		return;
	c->leftover_tries++;
	uv_timer_start(timer, on_again, TRY_AGAIN_MS, 0);
}

void leftover_add(struct core *c, const char *volume)
{
	struct found_volume *v = mem_new(1, sizeof(*v));

	snprintf(v->id, sizeof(v->id), "%s", volume);
	put_last(c, v);
	c->leftover_tries = 0;
	leftovers_later(c);
}

void leftover_gone(struct core *c, const char *volume)
{
	struct gone_volume *v = mem_new(1, sizeof(*v));

	snprintf(v->id, sizeof(v->id), "%s", volume);
	v->at_us = clock_monotonic_us();
	*(c->gone_last ? &c->gone_last->next : &c->gone) = v;
	c->gone_last = v;
}

void leftovers_forget(struct core *c, int64_t now_us)
{
	struct gone_volume *v;

	while ((v = c->gone) && now_us - v->at_us >= COMMITTED_US) {
		store_clear_journal(c->store, v->id, 1);
		c->gone = v->next;
		if (!c->gone)
			c->gone_last = NULL;
		free(v);
	}
}

void leftovers_free(struct core *c)
{
	for (struct gone_volume *v = c->gone, *next; v; v = next) {
		next = v->next;
		free(v);
	}
	c->gone = c->gone_last = NULL;
}
