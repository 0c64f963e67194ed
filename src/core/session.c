// SPDX-License-Identifier: Apache-2.0
/*
 * Sessions: making, finding, touching, deleting, sweeping.
 *
 * Make:   refuse or take a slot -> an id from the journal -> volume -> row in the store -> READY.
 * Delete: out of sight -> volume (with every process on it) and row go side by side -> slot free.
 *
 * A crash between any two steps leaves a volume whose id is in the journal (deleted at the next
 * start) or a row whose volume is gone (dropped at the next start). start.c does both.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "core/egress-rule.h"
#include "core/parts.h"
#include "store/store.h"

#define CREATE_MAX_US (60 * 1000000ll)

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
	for (size_t i = 0; i < s->n_egress; i++)
		free(s->egress[i]);
	free(s->egress);
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

void session_disk_used(struct core *c, struct session *s, runtime_stat_fn fn, void *data)
{
	runtime_volume_stat(c->runtime, s->id, fn, data);
}

/* ---- Refusing ---- */

/* Names of images that stand for another one. */
static const struct {
	const char *name, *image;
} aliases[] = {
	{ "python:3.11-slim", "sandbox-base:latest" },
};

const char *session_image(const struct core *c, const char *template_name)
{
	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++) {
		if (strcmp(aliases[i].name, template_name) == 0)
			return aliases[i].image;
	}
	for (size_t i = 0; i < c->config.n_templates; i++) {
		if (strcmp(c->config.templates[i], template_name) == 0)
			return c->config.templates[i];
	}
	return template_name;
}

static int check_template(const struct core *c, const struct session_params *p, struct err *err)
{
	_cleanup_buf_ struct buf list = BUF(LIMIT_TEMPLATE_NAME * 64);

	for (size_t i = 0; i < c->config.n_templates; i++) {
		if (str_eq(str_of(c->config.templates[i]), p->template_name))
			return 0;
		buf_printf(&list, "%s'%s'", i ? ", " : "", c->config.templates[i]);
	}
	return err_slug(err, EINVAL, "template_not_permitted",
			"Template '%.*s' not permitted. Allowed: [%s]", (int)p->template_name.len,
			p->template_name.data ? p->template_name.data : "",
			list.data ? list.data : "");
}

/* No tenant has a policy in this version of the server, so every request is refused. */
static int check_egress(const struct session_params *p, struct err *err)
{
	_cleanup_buf_ struct buf list = BUF(64 * KIB);

	if (!p->n_egress)
		return 0;
	/* The sentence must fit struct err, and whole characters of it. */
	for (size_t chars = 2000; chars; chars -= chars / 4 + 1) {
		buf_clear(&list);
		egress_put_list(&list, p->egress, p->n_egress, chars);
		if (list.len <= sizeof(err->text) - 100)
			break;
	}
	return err_slug(err, EACCES, "egress_not_permitted",
			"Egress not permitted for this tenant: %s. Allowed: []", list.data);
}

static int no_capacity(struct err *err)
{
	return err_slug(err, EAGAIN, "no_capacity",
			"All sandbox workspaces are in use; try again shortly.");
}

/* In the order of the contract, 3.1. */
static int check_create(const struct core *c, const struct tenant *t,
			const struct session_params *p, struct err *err)
{
	int r;

	if (c->stopping)
		return err_slug(err, ESHUTDOWN, "stopping",
				"The server is stopping; try again shortly.");
	r = check_template(c, p, err);
	if (r >= 0)
		r = check_egress(p, err);
	if (r < 0)
		return r;
	if (p->snapshot_id.data)
		return err_slug(err, ENOENT, "snapshot_not_found", "Snapshot not found");
	if (p->persistent)
		return err_slug(err, ENOSYS, "persistent_unavailable",
				"Persistent sandboxes are not available on this server.");
	if (t->sessions_open >= t->limits.max_sessions)
		return err_slug(err, EDQUOT, "session_limit",
				"Session limit reached: %u of %u sessions are open. "
				"Delete one first.",
				t->sessions_open, t->limits.max_sessions);
	if (c->n_sessions >= c->config.max_sessions)
		return no_capacity(err);
	return 0;
}

/* ---- Making ---- */

struct create {
	struct core *c;
	struct session *s; /* NULL: refused */
	session_fn fn;	   /* NULL: answered */
	void *data;
	struct err err;
	struct later later;
	int64_t started_us;		      /* monotonic */
	struct create *next;		      /* while waiting for an id */
	struct create *open_prev, *open_next; /* while it has a session */
};

static void create_end(struct create *cr)
{
	struct core *c = cr->c;

	if (cr->open_next)
		cr->open_next->open_prev = cr->open_prev;
	if (cr->open_prev)
		cr->open_prev->open_next = cr->open_next;
	else if (c->creates_open == cr)
		c->creates_open = cr->open_next;
	free(cr);
	core_release(c);
}

static void answer_create(struct create *cr, struct session *s, const struct err *err)
{
	session_fn fn = take_ptr(cr->fn);

	if (fn)
		fn(cr->data, s, err);
}

static void on_refused(struct later *l)
{
	struct create *cr = container_of(l, struct create, later);

	answer_create(cr, NULL, &cr->err);
	create_end(cr);
}

static void give_back_done(void *data, const struct err *err)
{
	struct create *cr = data;

	/* When the volume could not be deleted its id stays in the journal for the next start. */
	if (!err)
		store_clear_journal(cr->c->store, cr->s->id, 1);
	session_unref(cr->s);
	create_end(cr);
}

/* What runtime and store say is for the log; the client gets the words of the contract. */
static void say_failed(struct err *said, const struct session *s, const struct err *err)
{
	if (err->slug && strcmp(err->slug, "no_capacity") == 0) {
		no_capacity(said);
		return;
	}
	log_event(LOG_ERROR, "session_create_failed", LOG_STR("session", s->id),
		  LOG_STR("tenant", s->tenant->name), LOG_STR("why", err->text));
	/* The store gives no slug. A disk that is full now may have room again soon. */
	if (!err->slug || strcmp(err->slug, "busy") == 0)
		err_slug(said, EAGAIN, "busy", "The server is busy; try again shortly.");
	else
		err_slug(said, EIO, "internal", "Internal Server Error");
}

static void create_failed(struct create *cr, const struct err *err)
{
	struct core *c = cr->c;
	struct session *s = cr->s;
	struct err said;

	say_failed(&said, s, err);
	session_ref(s);
	s->tenant->sessions_open--;
	session_remove(c, s);
	answer_create(cr, NULL, &said);
	if (s->id[0]) {
		runtime_volume_delete(c->runtime, s->id, give_back_done, cr);
		return;
	}
	session_unref(s);
	create_end(cr);
}

static void on_stored(void *data, const struct err *err)
{
	struct create *cr = data;
	struct core *c = cr->c;
	struct session *s = cr->s;

	if (err) {
		create_failed(cr, err);
		return;
	}
	s->state = SESSION_READY;
	s->idle_since_us = clock_monotonic_us();
	c->n_ready++;
	if (cr->fn) {
		usage_add(c, s->tenant, 1, 0, 0);
		answer_create(cr, s, NULL);
	} else {
		session_delete(c, s, NULL, NULL); /* it came too late */
	}
	create_end(cr);
}

static void on_volume(void *data, const struct err *err)
{
	struct create *cr = data;
	struct session *s = cr->s;

	if (err) {
		create_failed(cr, err);
		return;
	}
	const struct store_session row = {
		.id = s->id,
		.tenant = s->tenant->name,
		.template_name = s->template_name,
		.egress = "",
		.persistent = s->persistent,
		.quota_bytes = s->quota_bytes,
		.created_us = s->created_us,
		.accessed_us = s->accessed_us,
	};
	store_put_session(cr->c->store, &row, on_stored, cr);
}

/* Above the quota, so that a write that replaces a file has room for both copies: the quota itself
 * is checked by the file worker, the hard limit only has to hold against tenant code. */
uint64_t session_hard_limit(const struct core *c, uint64_t quota)
{
	return quota + (quota < c->config.write_max ? quota : c->config.write_max);
}

static void create_volume(struct create *cr, const char *id)
{
	struct core *c = cr->c;
	struct session *s = cr->s;

	session_name(c, s, id);
	runtime_volume_create(c->runtime, s->id, s->tenant->number,
			      session_hard_limit(c, s->quota_bytes), on_volume, cr);
	/* The first command comes soon; its sandbox is built while the workspace is made. */
	runtime_warm(c->runtime, s->tenant->number, s->image, s->n_egress > 0);
}

static void on_ids(void *data, const struct err *err);

struct id_batch {
	struct core *c;
	char ids[JOURNAL_BATCH][SESSION_ID_LEN + 1];
};

static void ids_ask(struct core *c)
{
	struct id_batch *batch = mem_new(1, sizeof(*batch));

	batch->c = c;
	for (size_t i = 0; i < JOURNAL_BATCH; i++) {
		memcpy(batch->ids[i], "sbx_", 4);
		random_hex(batch->ids[i] + 4, SESSION_ID_LEN - 4);
	}
	c->ids_asked = true;
	core_hold(c);
	store_add_journal(c->store, batch->ids[0], JOURNAL_BATCH, on_ids, batch);
}

/* Gives ids to those who wait and keeps some in hand. */
void ids_pump(struct core *c)
{
	while (c->creates_first && c->n_ids) {
		struct create *cr = c->creates_first;
		c->creates_first = cr->next;
		if (!cr->next)
			c->creates_last = NULL;
		create_volume(cr, c->ids[--c->n_ids]);
	}
	if (c->n_ids < JOURNAL_BATCH && !c->ids_asked && !c->stopping)
		ids_ask(c);
}

static void on_ids(void *data, const struct err *err)
{
	struct id_batch *batch = data;
	struct core *c = batch->c;

	c->ids_asked = false;
	for (size_t i = 0; !err && i < JOURNAL_BATCH && c->n_ids < ARRAY_SIZE(c->ids); i++) {
		if (!session_find_any(c, str_of(batch->ids[i])))
			memcpy(c->ids[c->n_ids++], batch->ids[i], sizeof(batch->ids[i]));
	}
	free(batch);
	while (err && c->creates_first) {
		struct create *cr = c->creates_first;
		c->creates_first = cr->next;
		create_failed(cr, err);
	}
	if (err)
		c->creates_last = NULL;
	else
		ids_pump(c);
	core_release(c);
}

static struct session *session_new(struct core *c, struct tenant *t, const struct session_params *p)
{
	struct session *s = mem_new(1, sizeof(*s));

	s->state = SESSION_CREATING;
	s->tenant = t;
	s->template_name = mem_dup_n(p->template_name.data, p->template_name.len);
	s->image = session_image(c, s->template_name);
	s->persistent = p->persistent;
	s->quota_bytes = c->config.quota_bytes;
	s->created_us = s->accessed_us = clock_wall_us();
	return s;
}

void session_create(struct core *c, struct tenant *t, const struct session_params *p, session_fn fn,
		    void *data)
{
	struct create *cr = mem_new(1, sizeof(*cr));

	*cr = (struct create){ .c = c, .fn = fn, .data = data };
	core_hold(c);
	if (check_create(c, t, p, &cr->err) < 0) {
		cr->later.fn = on_refused;
		core_later(c, &cr->later);
		return;
	}
	cr->s = session_new(c, t, p);
	cr->started_us = clock_monotonic_us();
	cr->open_next = c->creates_open;
	if (cr->open_next)
		cr->open_next->open_prev = cr;
	c->creates_open = cr;
	t->sessions_open++;
	session_insert(c, cr->s);
	core_wait(c);
	if (c->creates_last)
		c->creates_last->next = cr;
	else
		c->creates_first = cr;
	c->creates_last = cr;
	ids_pump(c);
}

void creates_expire(struct core *c, int64_t now_us)
{
	struct err err;

	for (struct create *cr = c->creates_open, *next; cr; cr = next) {
		next = cr->open_next;
		if (!cr->fn || now_us - cr->started_us < CREATE_MAX_US)
			continue;
		err_slug(&err, EAGAIN, "busy", "The server is busy; try again shortly.");
		answer_create(cr, NULL, &err);
	}
}

/* ---- Deleting ---- */

struct ending {
	struct core *c;
	struct session *s; /* referenced */
	session_fn fn;	   /* may be NULL */
	void *data;
	unsigned steps; /* that are still to come */
	bool volume_gone;
};

static void ending_step(struct ending *e)
{
	struct core *c = e->c;
	struct session *s = e->s;
	struct err err;

	if (--e->steps)
		return;
	if (e->volume_gone) {
		/* Until here the journal held the id, so that a crash would have finished this. */
		store_clear_journal(c->store, s->id, 1);
		s->tenant->sessions_open--;
		session_remove(c, s);
	} else {
		/* Still ENDING: the sweep tries again. */
		s->retry = true;
		err_slug(&err, EIO, "internal", "Internal Server Error");
	}
	if (e->fn)
		e->fn(e->data, s, e->volume_gone ? NULL : &err);
	session_unref(s);
	free(e);
	core_release(c);
}

static void on_volume_gone(void *data, const struct err *err)
{
	struct ending *e = data;

	e->volume_gone = !err;
	if (err)
		log_event(LOG_ERROR, "session_delete_failed", LOG_STR("session", e->s->id),
			  LOG_STR("tenant", e->s->tenant->name), LOG_STR("why", err->text));
	ending_step(e);
}

/* A row that could not be dropped is dropped at the next start, since its volume is gone. */
static void on_dropped(void *data, const struct err *err)
{
	ending_step(data);
}

static void end(struct core *c, struct session *s, session_fn fn, void *data)
{
	struct ending *e = mem_new(1, sizeof(*e));

	*e = (struct ending){ .c = c, .s = s, .fn = fn, .data = data, .steps = 2 };
	session_ref(s);
	core_hold(c);
	s->retry = false;
	runtime_volume_delete(c->runtime, s->id, on_volume_gone, e);
	store_drop_session(c->store, s->id, on_dropped, e);
}

void session_delete(struct core *c, struct session *s, session_fn fn, void *data)
{
	assert(s->state == SESSION_READY);
	s->state = SESSION_ENDING;
	c->n_ready--;
	end(c, s, fn, data);
}

/* ---- Sweeping ---- */

void core_sweep(struct core *c, int64_t now_us)
{
	int64_t ttl_us = c->config.session_ttl_ms * 1000;

	for (struct session *s = c->newest, *next; s; s = next) {
		next = s->next;
		if (s->state == SESSION_ENDING && s->retry) {
			end(c, s, NULL, NULL);
		} else if (s->state == SESSION_READY && !s->running &&
			   now_us - s->idle_since_us >= ttl_us) {
			log_event(LOG_INFO, "session_expired", LOG_STR("session", s->id),
				  LOG_STR("tenant", s->tenant->name));
			session_delete(c, s, NULL, NULL);
		}
	}
}

void core_flush(struct core *c)
{
	for (struct session *s = c->newest; s; s = s->next) {
		if (s->state == SESSION_READY && s->touched) {
			store_touch_session(c->store, s->id, s->accessed_us);
			s->touched = false;
		}
	}
}
