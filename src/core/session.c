// SPDX-License-Identifier: Apache-2.0
/*
 * The table of sessions: finding, listing, touching, sweeping. create.c makes them, ending.c ends
 * them, start.c takes them back after a restart.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/disk.h"
#include "core/parts.h"
#include "store/store.h"

#define CLOCK_SET_US (10 * 1000000ll)
#define PROBE_US (10 * 1000000ll)

/* ---- The table ---- */

static size_t hash_of(const struct core *c, struct str id)
{
	/* Ids are random: FNV-1a only folds them; an outsider cannot choose one that exists. */
	uint64_t h = 14695981039346656037u;

	for (size_t i = 0; i < id.len; i++)
		h = (h ^ (unsigned char)id.data[i]) * 1099511628211u;
	return (size_t)h & (c->hash_size - 1);
}

static void hash_put(struct core *c, struct session *s)
{
	size_t at = hash_of(c, str_of(s->id));

	s->hash_next = c->hash[at];
	c->hash[at] = s;
}

static void hash_grow(struct core *c)
{
	c->hash_size = c->hash_size ? c->hash_size * 2 : 64;
	free(c->hash);
	c->hash = mem_new(c->hash_size, sizeof(struct session *));
	for (struct session *s = c->newest; s; s = s->next) {
		if (s->id[0])
			hash_put(c, s);
	}
}

struct session *session_find_any(struct core *c, struct str id)
{
	if (id.len != SESSION_ID_LEN || !c->hash_size)
		return NULL;
	struct session *s = c->hash[hash_of(c, id)];
	while (s && !str_eq(str_of(s->id), id))
		s = s->hash_next;
	return s;
}

void session_name(struct core *c, struct session *s, const char *id)
{
	memcpy(s->id, id, sizeof(s->id));
	hash_put(c, s);
}

void session_insert(struct core *c, struct session *s)
{
	if (c->n_sessions >= c->hash_size)
		hash_grow(c);
	s->refs = 1;
	s->next = c->newest;
	if (c->newest)
		c->newest->prev = s;
	else
		c->oldest = s;
	c->newest = s;
	c->n_sessions++;
}

/* Out of list and hash; the slot is the caller's business. */
void session_remove(struct core *c, struct session *s)
{
	if (s->id[0]) {
		struct session **at = &c->hash[hash_of(c, str_of(s->id))];
		while (*at != s)
			at = &(*at)->hash_next;
		*at = s->hash_next;
	}
	if (s->prev)
		s->prev->next = s->next;
	else
		c->newest = s->next;
	if (s->next)
		s->next->prev = s->prev;
	else
		c->oldest = s->prev;
	s->prev = s->next = s->hash_next = NULL;
	c->n_sessions--;
	session_unref(s);
}

void session_ref(struct session *s)
{
	s->refs++;
}

void session_unref(struct session *s)
{
	assert(s->refs);
	if (--s->refs)
		return;
	egress_list_fini(&s->egress);
	free(s->template_name);
	free(s);
}

/* ---- Looking ---- */

struct session *session_find(struct core *c, struct str id)
{
	struct session *s = session_find_any(c, id);

	return s && s->state == SESSION_READY ? s : NULL;
}

struct session *session_next(struct core *c, const struct tenant *t, const struct session *prev)
{
	struct session *s = prev ? prev->next : c->newest;

	while (s && (s->tenant != t || s->state != SESSION_READY))
		s = s->next;
	return s;
}

uint32_t session_count(const struct core *c)
{
	return c->n_ready;
}

void session_touch(struct core *c, struct session *s)
{
	s->accessed_us = clock_wall_us();
	s->idle_since_us = clock_monotonic_us();
	s->touched = true;
}

int64_t session_expires_us(const struct core *c, const struct session *s)
{
	return s->accessed_us + c->config.session_ttl_ms * 1000;
}

struct used_call {
	struct core *c;
	struct session *s; /* referenced */
	runtime_stat_fn fn;
	void *data;
};

static void on_used(void *data, uint64_t used_bytes, const struct err *err)
{
	_cleanup_free_ struct used_call *u = data;

	u->fn(u->data, disk_counted(u->c, u->s, used_bytes), err);
	session_unref(u->s);
}

void session_disk_used(struct core *c, struct session *s, runtime_stat_fn fn, void *data)
{
	struct used_call *u = mem_new(1, sizeof(*u));

	*u = (struct used_call){ c, s, fn, data };
	session_ref(s);
	runtime_volume_stat(c->runtime, s->id, on_used, u);
}

/* ---- Sweeping ---- */

/* One that nobody writes to would be said to fail for ever. */
static void probe_stores(struct core *c, int64_t now_us)
{
	struct store *const stores[] = { c->store, c->config.key_store, c->config.audit_store };

	if (now_us - c->probed_us < PROBE_US)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(stores); i++) {
		bool is_first = stores[i] != NULL;
		for (size_t k = 0; k < i; k++)
			is_first &= stores[k] != stores[i];
		if (!is_first || !store_is_failing(stores[i]))
			continue;
		store_probe(stores[i]);
		c->probed_us = now_us;
	}
}

void core_sweep(struct core *c, int64_t now_us)
{
	int64_t ttl_us = c->config.session_ttl_ms * 1000;

	for (struct session *s = c->newest, *next; s; s = next) {
		next = s->next;
		if (s->state == SESSION_ENDING && s->retry) {
			session_end(c, s, NULL, NULL);
		} else if (s->state == SESSION_READY && !s->running &&
			   now_us - s->idle_since_us >= ttl_us) {
			log_event(LOG_INFO, "session_expired", LOG_STR("session", s->id),
				  LOG_STR("tenant", s->tenant->name));
			session_delete(c, s, NULL, NULL);
		} else if (s->state == SESSION_READY) {
			disk_settle(c, s);
		}
	}
	probe_stores(c, now_us);
	snapshots_sweep(c);
	lost_tick(c, now_us);
	leftovers_forget(c, now_us);
	leftovers_clear(c);
}

/* Since the clock was set, a time of before is none of this clock; the next start would take the
 * difference for idleness. */
static void follow_clock(struct session *s)
{
	int64_t at_us = clock_wall_us() - (clock_monotonic_us() - s->idle_since_us);

	if (llabs(s->accessed_us - at_us) < CLOCK_SET_US)
		return;
	s->accessed_us = at_us;
	s->touched = true;
}

void core_flush(struct core *c)
{
	for (struct session *s = c->newest; s; s = s->next) {
		if (s->state == SESSION_READY)
			follow_clock(s);
		if (s->state == SESSION_READY && s->touched) {
			store_touch_session(c->store, s->id, s->accessed_us);
			s->touched = false;
		}
	}
}
