// SPDX-License-Identifier: Apache-2.0
/*
 * Names for copies of workspaces: of snapshots, and of the instants that forks begin with. As with
 * the ids of sessions, a name is used only when its place in the journal is committed, and some are
 * kept in hand, so that nobody waits for a disk.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "base/random.h"
#include "core/parts.h"
#include "store/store.h"

struct name_batch {
	struct core *c;
	char names[COPY_NAMES][SESSION_ID_LEN + 1];
};

static struct copy_wait *take_wait(struct core *c)
{
	struct copy_wait *w = c->copy_waits_first;

	c->copy_waits_first = w->next;
	if (!w->next)
		c->copy_waits_last = NULL;
	return w;
}

static void on_names(void *data, const struct err *err)
{
	_cleanup_free_ struct name_batch *batch = data;
	struct core *c = batch->c;

	c->copy_names_asked = false;
	for (size_t i = 0; !err && i < COPY_NAMES; i++) {
		if (!snapshot_volume_is_known(c, batch->names[i]))
			memcpy(c->copy_names[c->n_copy_names++], batch->names[i],
			       sizeof(batch->names[i]));
	}
	while (err && c->copy_waits_first) {
		struct copy_wait *w = take_wait(c);
		w->fn(w, NULL, err);
	}
	if (!err)
		copy_names_pump(c);
	core_release(c);
}

static void ask(struct core *c)
{
	struct name_batch *batch = mem_new(1, sizeof(*batch));

	batch->c = c;
	for (size_t i = 0; i < COPY_NAMES; i++) {
		memcpy(batch->names[i], "snp_", 4);
		random_hex(batch->names[i] + 4, SESSION_ID_LEN - 4);
	}
	c->copy_names_asked = true;
	core_hold(c);
	store_add_journal(c->store, batch->names[0], COPY_NAMES, on_names, batch);
}

void copy_names_pump(struct core *c)
{
	while (c->copy_waits_first && c->n_copy_names) {
		struct copy_wait *w = take_wait(c);
		w->fn(w, c->copy_names[--c->n_copy_names], NULL); /* copies it at once */
	}
	bool wanted = c->copy_waits_first || !c->stopping;
	if (wanted && !c->copy_names_asked && c->n_copy_names + COPY_NAMES <= 2 * COPY_NAMES)
		ask(c);
}

void copy_name_get(struct core *c, struct copy_wait *w)
{
	w->next = NULL;
	if (c->copy_waits_last)
		c->copy_waits_last->next = w;
	else
		c->copy_waits_first = w;
	c->copy_waits_last = w;
	copy_names_pump(c);
}
