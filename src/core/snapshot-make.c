// SPDX-License-Identifier: Apache-2.0
/*
 * Making a snapshot: refuse or count it -> a place among the tenant's file calls -> a name from the
 * journal (copy-name.c) -> the runtime copies, trims, measures and seals -> does it fit into what
 * the tenant may store? -> its row takes the place of the journal's entry -> stored.
 *
 * What fails on the way gives all of it back; a crash leaves a volume whose name is in the journal,
 * which start.c deletes.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/utf8.h"
#include "core/audit.h"
#include "core/disk.h"
#include "core/files.h"
#include "core/parts.h"
#include "core/refusal.h"
#include "core/snapshot.h"
#include "store/store.h"

struct make {
	struct core *c;
	struct session *s; /* referenced */
	struct origin origin;
	struct snapshot *snap; /* owned until it is stored */
	snapshot_fn fn;
	void *data;
	int64_t since_us; /* monotonic */
	struct err err;
	struct later later;
	struct copy_wait wait;
	struct files_call *turn; /* NULL: it has no place */
	bool charged;		 /* its size counts */
	bool began;		 /* there may be a volume */
	struct audit *audit;	 /* NULL: none, or it has ended */
	struct snapshot *stored; /* referenced; what to answer with */
};

/* ---- The end ---- */

static void make_free(struct make *m)
{
	struct core *c = m->c;

	if (m->snap)
		snapshot_free(m->snap);
	session_unref(m->s);
	free(m);
	core_release(c);
}

/* What it held is the next one's before the answer. */
static void give_back(struct make *m)
{
	struct tenant *t = m->s->tenant;

	t->snapshots_making--;
	if (m->charged)
		t->snapshot_bytes -= m->snap->size_bytes;
	m->charged = false;
	if (m->turn)
		files_turn_end(take_ptr(m->turn));
}

static void on_leftover_gone(void *data, const struct err *err)
{
	struct make *m = data;

	if (err)
		leftover_add(m->c, m->snap->volume);
	else
		store_clear_journal(m->c->store, m->snap->volume, 1);
	make_free(m);
}

static void tell_failure(void *data)
{
	struct make *m = data;

	m->fn(m->data, NULL, &m->err);
	if (m->began)
		runtime_volume_delete(m->c->runtime, m->snap->volume, on_leftover_gone, m);
	else
		make_free(m);
}

/* It is put on record, then answered. */
static void answer_failure(struct make *m)
{
	if (m->audit)
		audit_fail(take_ptr(m->audit), &m->err, tell_failure, m);
	else
		tell_failure(m);
}

/* began: there may be a volume. */
static void fail(struct make *m, const struct err *said, bool began)
{
	give_back(m);
	m->err = *said;
	m->began = began;
	answer_failure(m);
}

static void tell(void *data)
{
	struct make *m = data;
	struct core *c = m->c;
	struct snapshot *snap = m->stored;

	m->fn(m->data, snap, NULL);
	snapshot_unref(c, snap);
	make_free(m);
}

/* What the runtime said, in the words of the contract. */
static void say(struct make *m, const struct err *err, struct err *ret)
{
	struct err gone = { .slug = "session_not_found" };
	const struct files_matter matter = { m->s, FILES_FOLDER, str_of(m->snap->path), 0 };
	const char *slug = err->slug ? err->slug : "internal";

	if (strcmp(slug, "no_capacity") == 0 || strcmp(slug, "quota") == 0) {
		err_slug(ret, ENOSPC, "snapshot_space",
			 "Snapshot storage is full; try again later.");
		return;
	}
	/* What broke one whose session was deleted meanwhile is no matter. */
	bool over = strcmp(slug, "internal") == 0 && m->s->state != SESSION_READY;
	files_say(ret, m->c, over ? &gone : err, &matter);
	if (strcmp(ret->slug, "internal") == 0)
		log_event(LOG_ERROR, "snapshot_failed", LOG_STR("request", m->origin.request),
			  LOG_STR("session", m->s->id), LOG_STR("tenant", m->s->tenant->name),
			  LOG_STR("why", err->text));
}

/* ---- The steps, the last first ---- */

static void on_stored(void *data, const struct err *err)
{
	struct make *m = data;
	struct err busy;

	if (err) {
		refusal_busy(&busy);
		fail(m, &busy, true);
		return;
	}
	struct snapshot *snap = take_ptr(m->snap);
	snap->tenant->snapshots_making--;
	snap->tenant->snapshot_bytes -= snap->size_bytes;
	snapshot_insert(snap);
	files_turn_end(take_ptr(m->turn));
	disk_hold(m->c, m->s, snap->size_bytes);
	m->stored = snap;
	snapshot_ref(snap);
	if (m->audit)
		audit_done(take_ptr(m->audit), NULL, tell, m);
	else
		tell(m);
}

static int charge(struct make *m, struct err *err)
{
	struct tenant *t = m->s->tenant;
	uint64_t limit = (uint64_t)t->limits.max_snapshot_mb * MIB;
	uint64_t sum = t->snapshot_bytes + m->snap->size_bytes;

	if (sum > limit)
		return err_slug(err, EDQUOT, "snapshot_storage",
				"Snapshots would use %.1f MB of this account's %u MB. "
				"Delete one first.",
				(double)sum / MIB, t->limits.max_snapshot_mb);
	t->snapshot_bytes = sum;
	m->charged = true;
	return 0;
}

static void on_made(void *data, const struct runtime_file_result *result, const struct err *err)
{
	struct make *m = data;
	struct snapshot *snap = m->snap;
	struct err said;

	if (err) {
		say(m, err, &said);
		fail(m, &said, true);
		return;
	}
	snap->size_bytes = result->used_bytes;
	if (charge(m, &said) < 0) {
		fail(m, &said, true);
		return;
	}
	const struct store_snapshot row = {
		.id = snap->id,
		.tenant = snap->tenant->name,
		.name = snap->name,
		.path = snap->path,
		.session = snap->session_id,
		.template_name = snap->template_name,
		.size_bytes = snap->size_bytes,
		.created_us = snap->created_us,
		.expires_us = snap->expires_us,
	};
	store_put_snapshot(m->c->store, &row, snap->volume, on_stored, m);
}

/* The volume's name is a part of the id, so that each tells the other. */
static void name_it(struct snapshot *snap, const char *name)
{
	memcpy(snap->volume, name, sizeof(snap->volume));
	snprintf(snap->id, sizeof(snap->id), "snap_%s", name + strlen("snp_"));
	random_hex(snap->id + strlen(snap->id), SNAPSHOT_ID_LEN - strlen(snap->id));
}

static void on_name(struct copy_wait *w, const char *name, const struct err *err)
{
	struct make *m = container_of(w, struct make, wait);
	struct err busy;

	if (err) {
		refusal_busy(&busy);
		fail(m, &busy, false);
		return;
	}
	name_it(m->snap, name);
	const struct runtime_snapshot_spec spec = {
		.volume = m->s->id,
		.snapshot = m->snap->volume,
		.tenant = m->s->tenant->number,
		.image = m->s->image,
		.path = str_of(m->snap->path),
		.queue_ms = files_queue_ms(m->since_us, SNAPSHOT_WAIT_MS),
	};
	/* The instant that it holds. */
	m->snap->created_us = clock_wall_us();
	if (m->c->config.snapshot_keep_us)
		m->snap->expires_us = m->snap->created_us + m->c->config.snapshot_keep_us;
	runtime_snapshot_create(m->c->runtime, &spec, on_made, m);
}

static void on_turn(void *data, const struct err *err)
{
	struct make *m = data;

	if (err) {
		m->turn = NULL;
		fail(m, err, false);
		return;
	}
	m->wait.fn = on_name;
	copy_name_get(m->c, &m->wait);
}

static void begin(struct make *m)
{
	struct err gone;

	if (m->s->state != SESSION_READY) {
		refusal_no_session(&gone);
		fail(m, &gone, false);
		return;
	}
	m->turn = files_turn(m->c, m->s, on_turn, m);
}

static void on_begin(struct later *l)
{
	begin(container_of(l, struct make, later));
}

static void on_refused(struct later *l)
{
	answer_failure(container_of(l, struct make, later));
}

static void on_begun(void *data, bool on_disk)
{
	struct make *m = data;
	struct err busy;

	if (!m->snap) {
		answer_failure(m);
	} else if (on_disk) {
		begin(m);
	} else {
		refusal_busy(&busy);
		fail(m, &busy, false);
	}
}

static struct audit *record(struct make *m, struct str name, struct str path, const char *actor)
{
	struct str shown = utf8_strip(name), folder = path.len ? path : STR(".");
	_cleanup_free_ char *command = NULL;

	if (!shown.len)
		shown = STR("unnamed");
	command = mem_printf("snapshot %.*s as %.*s", (int)folder.len, folder.data, (int)shown.len,
			     shown.data);
	const struct audit_start start = {
		.tenant = m->s->tenant,
		.session = m->s->id,
		.actor = actor,
		.kind = "snapshot",
		.command = str_of(command),
	};
	return audit_begin(m->c, &start, audit_is_strict(m->c) ? on_begun : NULL, m);
}

/* ---- The call ---- */

int snapshot_check_limit(struct core *c, struct tenant *t, struct err *err)
{
	snapshots_expire(c, t);
	uint32_t n = t->snapshots_stored + t->snapshots_making;

	if (n < t->limits.max_snapshots)
		return 0;
	return err_slug(err, EDQUOT, "snapshot_limit",
			"Snapshot limit reached: %u of %u snapshots are stored. Delete one first.",
			n, t->limits.max_snapshots);
}

static struct snapshot *snapshot_new(const struct session *s, struct str name, struct str path)
{
	struct snapshot *snap = mem_new(1, sizeof(*snap));

	name = utf8_strip(name);
	memcpy(snap->session_id, s->id, sizeof(snap->session_id));
	snap->tenant = s->tenant;
	snap->name = name.len ? mem_dup_n(name.data, name.len) : mem_dup("unnamed");
	snap->path = path.len ? mem_dup_n(path.data, path.len) : mem_dup(".");
	snap->template_name = mem_dup(s->template_name);
	snap->refs = 1;
	return snap;
}

void snapshot_create(struct core *c, struct session *s, struct str name, struct str path,
		     const char *actor, snapshot_fn fn, void *data)
{
	struct make *m = mem_new(1, sizeof(*m));

	*m = (struct make){ .c = c, .s = s, .origin = c->origin, .fn = fn, .data = data };
	m->since_us = clock_monotonic_us();
	session_ref(s);
	core_hold(c);
	if (c->stopping)
		refusal_stopping(&m->err);
	if (c->stopping || snapshot_check_limit(c, s->tenant, &m->err) < 0) {
		m->later.fn = on_refused;
	} else {
		m->snap = snapshot_new(s, name, path);
		s->tenant->snapshots_making++;
		m->later.fn = on_begin;
	}
	m->audit = record(m, name, path, actor);
	if (!audit_is_strict(c))
		core_later(c, &m->later);
}
