// SPDX-License-Identifier: Apache-2.0
/*
 * Making a session: refuse or take a slot -> room on the volume -> an id from the journal -> volume
 * -> row in the store -> READY. What fails on the way gives all of it back. A crash leaves a volume
 * whose id is in the journal, which start.c deletes.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "core/create.h"
#include "core/disk.h"
#include "core/refusal.h"
#include "store/store.h"

/* More than 20 items can become, were each a preset. */
#define EGRESS_TEXT_MAX (128u * KIB)
#define REFUSAL_MAX (16u * KIB)
#define CREATE_MAX_US (60 * 1000000ll)

/* ---- Refusing ---- */

/* Names that stand for another image, unless one of that name was imported. */
static const struct {
	const char *name, *image;
} aliases[] = {
	{ "python:3.11-slim", "sandbox-base:latest" },
};

static bool is_imported(const struct core *c, const char *name)
{
	struct str rest = str_of(c->config.imported), imported;

	while (str_split(&rest, ',', &imported)) {
		if (str_eq(imported, str_of(name)))
			return true;
	}
	return false;
}

const char *session_image(const struct core *c, const char *template_name)
{
	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++) {
		if (strcmp(aliases[i].name, template_name) == 0 && !is_imported(c, template_name))
			return aliases[i].image;
	}
	for (size_t i = 0; i < c->config.n_templates; i++) {
		if (strcmp(c->config.templates[i], template_name) == 0)
			return c->config.templates[i];
	}
	return template_name;
}

static void put_template_refusal(const struct core *c, const struct session_params *p,
				 struct buf *out)
{
	buf_put_text(out, "Template '");
	buf_put_str(out, p->template_name);
	buf_put_text(out, "' not permitted. Allowed: [");
	for (size_t i = 0; i < c->config.n_templates; i++)
		buf_printf(out, "%s'%s'", i ? ", " : "", c->config.templates[i]);
	buf_put_char(out, ']');
}

static int check_template(const struct core *c, const struct session_params *p, struct err *err)
{
	_cleanup_buf_ struct buf text = BUF(REFUSAL_MAX);

	for (size_t i = 0; i < c->config.n_templates; i++) {
		if (str_eq(str_of(c->config.templates[i]), p->template_name))
			return 0;
	}
	put_template_refusal(c, p, &text);
	return err_slug(err, EINVAL, "template_not_permitted", "%.*s", (int)text.len, text.data);
}

void session_refusal(const struct core *c, const struct tenant *t, const struct session_params *p,
		     const char *slug, struct buf *out)
{
	if (slug && strcmp(slug, "template_not_permitted") == 0)
		put_template_refusal(c, p, out);
	else if (slug && strcmp(slug, "egress_not_permitted") == 0)
		egress_put_refusal(c, t, p, out);
}

int create_check_room(const struct core *c, const struct tenant *t, unsigned n, struct err *err)
{
	if (c->stopping)
		return refusal_stopping(err);
	if (t->sessions_open + n > t->limits.max_sessions)
		return err_slug(err, EDQUOT, "session_limit",
				"Session limit reached: %u of %u sessions are open. "
				"Delete one first.",
				t->sessions_open, t->limits.max_sessions);
	if (c->n_sessions + n > c->config.max_sessions)
		return refusal_no_capacity(err);
	return 0;
}

static int check_snapshot(const struct core *c, const struct snapshot *from, struct err *err)
{
	if (!from)
		return err_slug(err, ENOENT, "snapshot_not_found", "Snapshot not found");
	if (from->size_bytes > c->config.quota_bytes)
		return err_slug(err, EDQUOT, "snapshot_too_large",
				"Snapshot '%s' (%.1f MB) doesn't fit in the workspace's %llu MB "
				"disk quota.",
				from->id, (double)from->size_bytes / MIB,
				(unsigned long long)(c->config.quota_bytes / MIB));
	return 0;
}

/* In the order of the contract, 3.1. */
static int check_create(const struct core *c, const struct tenant *t,
			const struct session_params *p, const struct snapshot *from,
			struct err *err)
{
	int r;

	if (c->stopping)
		return refusal_stopping(err);
	r = check_template(c, p, err);
	if (r >= 0)
		r = egress_check(c, t, p, err);
	if (r < 0)
		return r;
	if (p->snapshot_id.data && check_snapshot(c, from, err) < 0)
		return -err->code;
	if (p->persistent)
		return err_slug(err, ENOSYS, "persistent_unavailable",
				"Persistent sandboxes are not available on this server.");
	return create_check_room(c, t, 1, err);
}

/* ---- Making ---- */

static void create_end(struct create *cr)
{
	struct core *c = cr->c;

	if (cr->open_next)
		cr->open_next->open_prev = cr->open_prev;
	if (cr->open_prev)
		cr->open_prev->open_next = cr->open_next;
	else if (c->creates_open == cr)
		c->creates_open = cr->open_next;
	if (cr->from)
		snapshot_unref(c, cr->from);
	free(cr);
	core_release(c);
}

static void answer_create(struct create *cr, struct session *s, const struct err *err)
{
	session_fn fn = take_ptr(cr->fn);

	if (cr->fork)
		fork_settled(take_ptr(cr->fork), cr, err);
	else if (fn)
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

	if (err)
		leftover_add(cr->c, cr->s->id);
	else
		store_clear_journal(cr->c->store, cr->s->id, 1);
	session_unref(cr->s);
	create_end(cr);
}

/* What runtime and store say is for the log; the client gets the words of the contract. */
static void say_failed(struct err *said, const struct create *cr, const struct err *err)
{
	const struct session *s = cr->s;
	bool is_full = err->slug && strcmp(err->slug, "no_capacity") == 0;

	if (is_full && !cr->taken) {
		refusal_no_capacity(said); /* room.c has said why */
		return;
	}
	log_event(LOG_ERROR, "session_create_failed", LOG_STR("request", cr->origin.request),
		  LOG_STR("session", s->id), LOG_STR("tenant", s->tenant->name),
		  LOG_STR("why", err->text));
	/* The store gives no slug: a disk that is full now may have room again soon. */
	if (is_full)
		refusal_no_capacity(said);
	else if (!err->slug || strcmp(err->slug, "busy") == 0)
		refusal_busy(said);
	else
		err_slug(said, EIO, "internal", "Internal Server Error");
}

void create_failed(struct create *cr, const struct err *err)
{
	struct core *c = cr->c;
	struct session *s = cr->s;
	struct err said;

	say_failed(&said, cr, err);
	room_give_back(c, cr->taken);
	cr->taken = 0;
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

void create_ready(struct create *cr, bool wanted)
{
	struct core *c = cr->c;
	struct session *s = cr->s;

	s->state = SESSION_READY;
	egress_open(c, s);
	s->idle_since_us = clock_monotonic_us();
	c->n_ready++;
	bool late = !wanted || (c->closed && c->config.ephemeral);
	if (wanted)
		usage_add(c, s->tenant, 1, 0, 0);
	session_ref(s);
	answer_create(cr, s, NULL);
	if (late && s->state == SESSION_READY)
		session_delete(c, s, NULL, NULL);
	session_unref(s);
	create_end(cr);
}

static void on_stored(void *data, const struct err *err)
{
	struct create *cr = data;

	if (err)
		create_failed(cr, err);
	else
		create_ready(cr, cr->fn != NULL);
}

int create_row(const struct create *cr, struct buf *egress, struct store_session *ret,
	       struct err *err)
{
	const struct session *s = cr->s;

	for (size_t i = 0; i < s->egress.n; i++)
		buf_printf(egress, "%s%s", i ? " " : "", s->egress.rules[i]);
	if (buf_is_full(egress))
		return err_set(err, EOVERFLOW, "its egress rules are too long");
	*ret = (struct store_session){
		.id = s->id,
		.tenant = s->tenant->name,
		.template_name = s->template_name,
		.egress = egress->data ? egress->data : "",
		.persistent = s->persistent,
		.quota_bytes = s->quota_bytes,
		.shared_bytes = s->disk.shared,
		.forked_bytes = s->disk.forked,
		.created_us = s->created_us,
		.accessed_us = s->accessed_us,
	};
	return 0;
}

static void on_volume(void *data, const struct err *err)
{
	_cleanup_buf_ struct buf egress = BUF(EGRESS_TEXT_MAX);
	struct create *cr = data;
	struct store_session row;
	struct err full;

	if (err) {
		create_failed(cr, err);
		return;
	}
	room_made(cr->c, cr->taken);
	cr->taken = 0;
	if (cr->fork)
		fork_made(cr->fork, cr);
	else if (create_row(cr, &egress, &row, &full) < 0)
		create_failed(cr, &full);
	else
		store_put_session(cr->c->store, &row, on_stored, cr);
}

static void create_volume(struct create *cr, const char *id)
{
	struct core *c = cr->c;
	struct session *s = cr->s;

	session_name(c, s, id);
	const struct runtime_volume_spec spec = {
		.volume = s->id,
		.tenant = s->tenant->number,
		.limit_bytes = disk_hard_limit(c, s->quota_bytes),
		.tenant_bytes = disk_tenant_limit(c, s->tenant),
		.source = cr->source[0] ? cr->source : NULL,
		.image = s->image,
	};
	runtime_volume_create(c->runtime, &spec, on_volume, cr);
	/* The first command comes soon; its sandbox is built while the workspace is made. */
	runtime_warm(c->runtime, s->tenant->number, s->image, s->egress.n > 0);
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
	bool wanted = c->creates_first || !c->stopping;
	if (wanted && !c->ids_asked && c->n_ids + JOURNAL_BATCH <= ARRAY_SIZE(c->ids))
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
	egress_expand(p, &s->egress);
	s->persistent = p->persistent;
	s->quota_bytes = c->config.quota_bytes;
	s->created_us = s->accessed_us = clock_wall_us();
	return s;
}

static void on_room(struct room_wait *w, const struct err *err)
{
	struct create *cr = container_of(w, struct create, room);

	if (err) {
		create_failed(cr, err);
		return;
	}
	cr->taken = w->bytes;
	create_go(cr);
}

void session_create(struct core *c, struct tenant *t, const struct session_params *p, session_fn fn,
		    void *data)
{
	struct create *cr = mem_new(1, sizeof(*cr));
	struct snapshot *from = NULL;

	*cr = (struct create){ .c = c, .fn = fn, .data = data };
	core_hold(c);
	if (p->snapshot_id.data)
		from = snapshot_find(c, t, p->snapshot_id);
	if (check_create(c, t, p, from, &cr->err) < 0) {
		cr->later.fn = on_refused;
		core_later(c, &cr->later);
		return;
	}
	cr->s = session_new(c, t, p);
	if (from) {
		snapshot_ref(from);
		cr->from = from;
		memcpy(cr->source, from->volume, sizeof(cr->source));
		cr->s->disk.known = from->size_bytes;
		disk_share(c, cr->s, from->size_bytes);
	}
	create_open(cr);
	cr->room.fn = on_room;
	room_take(c, &cr->room, create_room(cr));
}

void create_open(struct create *cr)
{
	struct core *c = cr->c;

	cr->origin = c->origin;
	cr->started_us = clock_monotonic_us();
	cr->open_next = c->creates_open;
	if (cr->open_next)
		cr->open_next->open_prev = cr;
	c->creates_open = cr;
	cr->s->tenant->sessions_open++;
	session_insert(c, cr->s);
	core_wait(c);
}

uint64_t create_room(const struct create *cr)
{
	return disk_hard_limit(cr->c, cr->s->quota_bytes);
}

void create_go(struct create *cr)
{
	struct core *c = cr->c;

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
		if ((!cr->fn && !cr->fork) || now_us - cr->started_us < CREATE_MAX_US)
			continue;
		if (cr->fork) {
			fork_late(cr->fork);
			continue;
		}
		refusal_busy(&err);
		answer_create(cr, NULL, &err);
	}
}
