// SPDX-License-Identifier: Apache-2.0
/*
 * What a restart finds: rows of the store on one side, volumes on the other.
 *
 *   row and volume                 the session goes on, or is deleted when it is over its TTL
 *   row without volume             dropped
 *   volume whose id is journaled   deleted: it was being made or being deleted
 *   any other volume               lost (lost.c)
 *
 * A snapshot is treated like a session, without a TTL (snapshot.c).
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/parts.h"
#include "store/store.h"

/* The rows are copied first: a tenant's number may be a write, which must not happen inside a read.
 */
struct loaded {
	struct session *s;
	char *tenant; /* owned */
	struct loaded *next;
};

struct load {
	struct core *c;
	struct loaded *first, **last;
};

static void split_egress(struct session *s, const char *rules)
{
	struct str rest = str_of(rules), rule;

	while (str_split(&rest, ' ', &rule)) {
		if (rule.len)
			egress_list_add(&s->egress, rule);
	}
}

static void on_row(void *data, const struct store_session *row)
{
	struct load *load = data;
	struct loaded *l = mem_new(1, sizeof(*l));
	struct session *s = mem_new(1, sizeof(*s));

	if (strlen(row->id) != SESSION_ID_LEN) {
		log_event(LOG_ERROR, "bad_session_row", LOG_STR("session", row->id));
		free(l);
		free(s);
		return;
	}
	memcpy(s->id, row->id, sizeof(s->id));
	s->state = SESSION_CREATING;
	s->template_name = mem_dup(row->template_name);
	s->image = session_image(load->c, s->template_name);
	split_egress(s, row->egress);
	s->persistent = row->persistent;
	s->quota_bytes = row->quota_bytes;
	s->disk.shared = row->shared_bytes;
	s->disk.forked = row->forked_bytes;
	s->created_us = row->created_us;
	s->accessed_us = row->accessed_us;
	l->s = s;
	l->tenant = mem_dup(row->tenant);
	*load->last = l;
	load->last = &l->next;
}

static void on_journal(void *data, const char *id)
{
	struct core *c = data;
	struct found_volume *v = mem_new(1, sizeof(*v));

	snprintf(v->id, sizeof(v->id), "%s", id);
	v->next = c->journal;
	c->journal = v;
}

/* The idle clock goes on where it stood; the time without a server counts. */
static void restore_clock(struct session *s)
{
	int64_t idle_us = clock_wall_us() - s->accessed_us;

	s->idle_since_us = clock_monotonic_us() - (idle_us > 0 ? idle_us : 0);
	s->disk.pending = UINT64_MAX; /* unknown */
	s->disk.at_us = clock_monotonic_us();
}

int sessions_load(struct core *c, struct err *err)
{
	struct load load = { .c = c, .last = &load.first };
	int r = store_load_sessions(c->store, on_row, &load, err);

	for (struct loaded *l = load.first, *next; l; l = next) {
		next = l->next;
		if (r >= 0)
			r = tenant_make(c, str_of(l->tenant), &l->s->tenant, err);
		if (r >= 0) {
			char id[SESSION_ID_LEN + 1];
			memcpy(id, l->s->id, sizeof(id));
			l->s->id[0] = '\0';
			session_insert(c, l->s);
			session_name(c, l->s, id);
			restore_clock(l->s);
		} else {
			l->s->refs = 1;
			session_unref(l->s);
		}
		free(l->tenant);
		free(l);
	}
	return r < 0 ? r : store_load_journal(c->store, on_journal, c, err);
}

void core_found_volume(struct core *c, const char *volume, uint32_t tenant)
{
	struct found_volume *v = mem_new(1, sizeof(*v));

	snprintf(v->id, sizeof(v->id), "%s", volume);
	v->tenant = tenant;
	v->next = c->found;
	c->found = v;
}

static bool is_journaled(const struct core *c, const char *id)
{
	for (const struct found_volume *v = c->journal; v; v = v->next) {
		if (strcmp(v->id, id) == 0)
			return true;
	}
	return false;
}

static void free_list(struct found_volume **list)
{
	for (struct found_volume *v = *list, *next; v; v = next) {
		next = v->next;
		free(v);
	}
	*list = NULL;
}

static void explain_volume(struct core *c, const struct found_volume *v)
{
	struct session *s = session_find_any(c, str_of(v->id));

	if (s && s->tenant->number == v->tenant) {
		s->has_volume = true;
		return;
	}
	if (!s && (snapshots_explain(c, v->id, v->tenant) || is_journaled(c, v->id)))
		return;
	lost_add(c, v->id);
	log_event(LOG_WARN, "lost_volume", LOG_STR("volume", v->id), LOG_INT("tenant", v->tenant),
		  LOG_STR("why", s ? "another tenant's" : "no session has it"));
}

static void drop_row(struct core *c, struct session *s)
{
	log_event(LOG_WARN, "session_dropped", LOG_STR("session", s->id),
		  LOG_STR("tenant", s->tenant->name), LOG_STR("why", "its workspace is gone"));
	store_drop_session(c->store, s->id, NULL, NULL);
	store_clear_journal(c->store, s->id, 1);
	session_remove(c, s);
}

int core_start(struct core *c, struct err *err)
{
	for (struct found_volume *v = c->found; v; v = v->next)
		explain_volume(c, v);
	free_list(&c->found);
	int r = lost_settle(c, err);
	if (r < 0)
		return r;
	snapshots_start(c);
	for (struct session *s = c->newest, *next; s; s = next) {
		next = s->next;
		if (!s->has_volume) {
			drop_row(c, s);
			continue;
		}
		s->tenant->sessions_open++;
		s->state = SESSION_READY;
		egress_open(c, s);
		c->n_ready++;
	}
	core_sweep(c, clock_monotonic_us());
	leftovers_clear(c);
	ids_pump(c);
	copy_names_pump(c);
	log_event(LOG_INFO, "sessions_restored", LOG_INT("sessions", c->n_ready),
		  LOG_INT("lost_volumes", c->n_lost));
	return 0;
}

void found_free(struct core *c)
{
	free_list(&c->found);
	free_list(&c->journal);
}
