// SPDX-License-Identifier: Apache-2.0
/*
 * The table of snapshots: loading, finding, deleting, expiring. snapshot-make.c makes them,
 * restore.c and create.c use them.
 */
#include "core/snapshot.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/disk.h"
#include "core/parts.h"
#include "core/refusal.h"
#include "store/store.h"

/* ---- The table ---- */

void snapshot_free(struct snapshot *snap)
{
	free(snap->name);
	free(snap->path);
	free(snap->template_name);
	free(snap);
}

/* Newest first, wherever a clock that was set back puts it. */
void snapshot_insert(struct snapshot *snap)
{
	struct tenant *t = snap->tenant;
	struct snapshot *before = NULL, *after = t->snapshots;

	while (after && after->created_us > snap->created_us) {
		before = after;
		after = after->next;
	}
	snap->prev = before;
	snap->next = after;
	*(before ? &before->next : &t->snapshots) = snap;
	if (after)
		after->prev = snap;
	t->snapshots_stored++;
	t->snapshot_bytes += snap->size_bytes;
}

static void take_out(struct snapshot *snap)
{
	struct tenant *t = snap->tenant;

	*(snap->prev ? &snap->prev->next : &t->snapshots) = snap->next;
	if (snap->next)
		snap->next->prev = snap->prev;
	snap->prev = snap->next = NULL;
	t->snapshots_stored--;
	t->snapshot_bytes -= snap->size_bytes;
}

void snapshots_free(struct core *c)
{
	for (struct tenant *t = c->tenants; t; t = t->next) {
		while (t->snapshots) {
			struct snapshot *snap = t->snapshots;
			take_out(snap);
			snapshot_free(snap);
		}
	}
	/* The journal has them, for the next start. */
	while (c->dying) {
		struct snapshot *snap = c->dying;
		c->dying = snap->next;
		snapshot_free(snap);
	}
}

static bool is_over(const struct snapshot *snap)
{
	return snap->expires_us && clock_wall_us() >= snap->expires_us;
}

struct snapshot *snapshot_next(struct core *c, const struct tenant *t, const struct snapshot *prev)
{
	struct snapshot *snap = prev ? prev->next : t->snapshots;

	while (snap && is_over(snap))
		snap = snap->next;
	return snap;
}

struct snapshot *snapshot_find(struct core *c, const struct tenant *t, struct str id)
{
	struct snapshot *snap = snapshot_next(c, t, NULL);

	while (snap && !str_eq(str_of(snap->id), id))
		snap = snapshot_next(c, t, snap);
	return snap;
}

static void set_id(struct snapshot *snap, const char *id)
{
	snprintf(snap->id, sizeof(snap->id), "%s", id);
	snprintf(snap->volume, sizeof(snap->volume), "snp_%.12s", id + strlen("snap_"));
}

bool snapshot_volume_is_known(const struct core *c, const char *volume)
{
	for (const struct tenant *t = c->tenants; t; t = t->next) {
		for (const struct snapshot *snap = t->snapshots; snap; snap = snap->next) {
			if (strcmp(snap->volume, volume) == 0)
				return true;
		}
	}
	return false;
}

/* ---- The end of a volume ---- */

/* The session whose files it has, while that one lives. */
static struct session *taken_from(struct core *c, const struct snapshot *snap)
{
	struct session *s = session_find_any(c, str_of(snap->session_id));

	return s && s->tenant == snap->tenant ? s : NULL;
}

struct burial {
	struct core *c;
	struct snapshot *snap;
};

static void on_volume_gone(void *data, const struct err *err)
{
	_cleanup_free_ struct burial *b = data;
	struct core *c = b->c;
	struct snapshot *snap = b->snap;

	snap->asked = false;
	if (err) {
		/* It is tried again soon, by the sweeps, and by the next start. */
		log_event(LOG_ERROR, "snapshot_delete_failed", LOG_STR("snapshot", snap->id),
			  LOG_STR("tenant", snap->tenant->name), LOG_STR("why", err->text));
		leftovers_later(c);
	} else {
		leftover_gone(c, snap->volume);
		c->leftover_tries = 0;
		struct session *s = taken_from(c, snap);
		if (s)
			disk_let_go(s, snap->size_bytes);
		*(snap->prev ? &snap->prev->next : &c->dying) = snap->next;
		if (snap->next)
			snap->next->prev = snap->prev;
		snapshot_free(snap);
	}
	core_release(c);
}

static void bury(struct core *c, struct snapshot *snap)
{
	struct burial *b = mem_new(1, sizeof(*b));

	*b = (struct burial){ c, snap };
	snap->asked = true;
	core_hold(c);
	runtime_volume_delete(c->runtime, snap->volume, on_volume_gone, b);
}

void snapshot_ref(struct snapshot *snap)
{
	snap->refs++;
}

void snapshot_unref(struct core *c, struct snapshot *snap)
{
	assert(snap->refs);
	if (--snap->refs)
		return;
	assert(snap->deleted);
	snap->next = c->dying;
	if (snap->next)
		snap->next->prev = snap;
	c->dying = snap;
	bury(c, snap);
}

/* ---- Deleting ---- */

struct deletion {
	struct core *c;
	struct snapshot *snap;
	snapshot_fn fn; /* may be NULL */
	void *data;
};

static void on_dropped(void *data, const struct err *err)
{
	_cleanup_free_ struct deletion *d = data;
	struct core *c = d->c;
	struct err busy;

	if (err) {
		/* It is as if nobody had asked. */
		snapshot_insert(d->snap);
		refusal_busy(&busy);
	} else {
		d->snap->deleted = true;
	}
	if (d->fn)
		d->fn(d->data, d->snap, err ? &busy : NULL);
	if (!err)
		snapshot_unref(c, d->snap);
	core_release(c);
}

void snapshot_delete(struct core *c, struct snapshot *snap, snapshot_fn fn, void *data)
{
	struct deletion *d = mem_new(1, sizeof(*d));

	*d = (struct deletion){ c, snap, fn, data };
	core_hold(c);
	take_out(snap);
	store_drop_snapshot(c->store, snap->id, snap->volume, on_dropped, d);
}

void snapshots_expire(struct core *c, struct tenant *t)
{
	for (struct snapshot *snap = t->snapshots, *next; snap; snap = next) {
		next = snap->next;
		if (!is_over(snap))
			continue;
		log_event(LOG_INFO, "snapshot_expired", LOG_STR("snapshot", snap->id),
			  LOG_STR("tenant", t->name));
		snapshot_delete(c, snap, NULL, NULL);
	}
}

void snapshots_sweep(struct core *c)
{
	for (struct tenant *t = c->tenants; t; t = t->next)
		snapshots_expire(c, t);
	snapshots_bury(c);
}

void snapshots_bury(struct core *c)
{
	for (struct snapshot *snap = c->dying; snap; snap = snap->next) {
		if (!snap->asked)
			bury(c, snap);
	}
}

/* ---- Start ---- */

/* The rows are copied first, as those of sessions. */
struct loaded {
	struct snapshot *snap;
	char *tenant; /* owned */
	struct loaded *next;
};

static void on_row(void *data, const struct store_snapshot *row)
{
	struct loaded **list = data, *l;
	struct snapshot *snap;

	if (strlen(row->id) != SNAPSHOT_ID_LEN || strlen(row->session) != SESSION_ID_LEN) {
		log_event(LOG_ERROR, "bad_snapshot_row", LOG_STR("snapshot", row->id));
		return;
	}
	l = mem_new(1, sizeof(*l));
	snap = l->snap = mem_new(1, sizeof(*snap));
	set_id(snap, row->id);
	memcpy(snap->session_id, row->session, sizeof(snap->session_id));
	snap->name = mem_dup(row->name);
	snap->path = mem_dup(row->path);
	snap->template_name = mem_dup(row->template_name);
	snap->size_bytes = row->size_bytes;
	snap->created_us = row->created_us;
	snap->expires_us = row->expires_us;
	snap->refs = 1;
	l->tenant = mem_dup(row->tenant);
	l->next = *list;
	*list = l;
}

int snapshots_load(struct core *c, struct err *err)
{
	struct loaded *list = NULL;
	int r = store_load_snapshots(c->store, on_row, &list, err);

	for (struct loaded *l = list, *next; l; l = next) {
		next = l->next;
		if (r >= 0)
			r = tenant_make(c, str_of(l->tenant), &l->snap->tenant, err);
		struct session *s = r >= 0 ? taken_from(c, l->snap) : NULL;
		if (s)
			s->disk.held += l->snap->size_bytes;
		if (r >= 0)
			snapshot_insert(l->snap);
		else
			snapshot_free(l->snap);
		free(l->tenant);
		free(l);
	}
	return r;
}

bool snapshots_explain(struct core *c, const char *volume, uint32_t tenant)
{
	for (struct tenant *t = c->tenants; t; t = t->next) {
		for (struct snapshot *snap = t->snapshots; snap && t->number == tenant;
		     snap = snap->next) {
			if (strcmp(snap->volume, volume) != 0)
				continue;
			snap->has_volume = true;
			return true;
		}
	}
	return false;
}

void snapshots_start(struct core *c)
{
	for (struct tenant *t = c->tenants; t; t = t->next) {
		for (struct snapshot *snap = t->snapshots, *next; snap; snap = next) {
			next = snap->next;
			if (snap->has_volume)
				continue;
			log_event(LOG_WARN, "snapshot_dropped", LOG_STR("snapshot", snap->id),
				  LOG_STR("tenant", t->name), LOG_STR("why", "its files are gone"));
			store_drop_snapshot(c->store, snap->id, snap->volume, NULL, NULL);
			store_clear_journal(c->store, snap->volume, 1);
			struct session *s = taken_from(c, snap);
			if (s)
				disk_let_go(s, snap->size_bytes);
			take_out(snap);
			snapshot_free(snap);
		}
	}
}
