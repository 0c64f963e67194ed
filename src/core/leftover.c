// SPDX-License-Identifier: Apache-2.0
/*
 * Volumes that nobody will ask for any more: an earlier run left them, or what failed could not
 * take its own away again. The journal holds their names, so that the next start would find them,
 * too. They are deleted one after the other. When the launcher cannot, it is asked again: some
 * times soon, because its sweeper may be starting anew, and then by every sweep.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "core/parts.h"
#include "store/store.h"

#define TRIES 10u
#define TRY_AGAIN_MS 200u

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
