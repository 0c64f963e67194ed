// SPDX-License-Identifier: Apache-2.0
/*
 * Forking: count the whole number against the limits and take that many slots -> room for all of
 * them on the volume -> one copy of the workspace, which is the instant (with a single fork its own
 * volume is that copy) -> a volume for each from it -> all rows in one commit -> all READY.
 * Whatever fails, all of it is given back.
 *
 *   COPYING -> MAKING (made + failed == n) -> ENDING
 *
 * The copy is named in the journal from before it exists until it is gone.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/audit.h"
#include "core/create.h"
#include "core/disk.h"
#include "core/refusal.h"
#include "store/store.h"

#define EGRESS_TEXT_MAX (128u * KIB)

struct fork {
	struct core *c;
	struct session *s; /* referenced */
	unsigned n, made, failed;
	bool ending;
	struct create *members[FORK_MAX];   /* NULL: settled */
	struct session *sessions[FORK_MAX]; /* referenced: the READY ones */
	unsigned n_sessions;
	char copy[SESSION_ID_LEN + 1]; /* "": none */
	fork_fn fn;		       /* NULL: answered */
	void *data;
	struct err err; /* the first failure */
	struct later later;
	struct room_wait room;
	struct copy_wait wait;
	struct audit *audit; /* NULL: none, or it has ended */
};

/* ---- The end ---- */

static void fork_free(struct fork *f)
{
	struct core *c = f->c;

	session_unref(f->s);
	free(f);
	core_release(c);
}

static void on_copy_gone(void *data, const struct err *err)
{
	struct fork *f = data;

	if (err)
		leftover_add(f->c, f->copy);
	else
		store_clear_journal(f->c->store, f->copy, 1);
	fork_free(f);
}

static void answer(struct fork *f, const struct err *err)
{
	fork_fn fn = take_ptr(f->fn);

	if (fn)
		fn(f->data, err ? NULL : f->sessions, err ? 0 : f->n_sessions, err);
}

static void tell(void *data)
{
	struct fork *f = data;

	answer(f, f->err.code ? &f->err : NULL);
	for (unsigned i = 0; i < f->n_sessions; i++)
		session_unref(f->sessions[i]);
	if (f->copy[0])
		runtime_volume_delete(f->c->runtime, f->copy, on_copy_gone, f);
	else
		fork_free(f);
}

/* All members have settled: it is put on record, then answered. */
static void finish(struct fork *f)
{
	/* Nobody can fork what is gone; whatever failed first is no matter then. */
	if (f->err.code && f->s->state != SESSION_READY)
		refusal_no_session(&f->err);
	if (!f->audit)
		tell(f);
	else if (f->err.code)
		audit_fail(take_ptr(f->audit), &f->err, tell, f);
	else
		audit_done(take_ptr(f->audit), NULL, tell, f);
}

static void fail_all(struct fork *f, const struct err *err)
{
	const struct err first = f->err.code ? f->err : *err;

	f->ending = true;
	for (unsigned i = 0; i < f->n; i++) {
		if (f->members[i])
			create_failed(f->members[i], &first);
	}
	finish(f);
}

static void on_rows(void *data, const struct err *err)
{
	struct fork *f = data;

	if (err) {
		fail_all(f, err);
		return;
	}
	for (unsigned i = 0; i < f->n; i++)
		create_ready(f->members[i], f->fn != NULL);
	disk_fork(f->c, f->s);
	if (f->s->state == SESSION_READY)
		store_share_session(f->c->store, f->s->id, f->s->disk.shared, f->s->disk.forked);
	finish(f);
}

static void put_rows(struct fork *f)
{
	struct store_session rows[FORK_MAX];
	struct buf egress[FORK_MAX];
	struct err err;
	int r = 0;

	for (unsigned i = 0; i < f->n; i++)
		egress[i] = BUF(EGRESS_TEXT_MAX);
	for (unsigned i = 0; i < f->n && r >= 0; i++)
		r = create_row(f->members[i], &egress[i], &rows[i], &err);
	if (r >= 0)
		store_put_sessions(f->c->store, rows, f->n, on_rows, f);
	for (unsigned i = 0; i < f->n; i++)
		buf_fini(&egress[i]);
	if (r < 0)
		fail_all(f, &err);
}

static void step(struct fork *f)
{
	struct err late;

	if (f->ending || f->made + f->failed < f->n)
		return;
	f->ending = true;
	if (f->failed) {
		fail_all(f, &f->err);
	} else if (!f->fn) {
		refusal_busy(&late);
		fail_all(f, &late);
	} else {
		put_rows(f);
	}
}

/* ---- What the members say ---- */

void fork_made(struct fork *f, struct create *cr)
{
	f->made++;
	step(f);
}

void fork_settled(struct fork *f, struct create *cr, const struct err *err)
{
	unsigned i = 0;

	while (f->members[i] != cr)
		i++;
	f->members[i] = NULL;
	if (err && !f->err.code)
		f->err = *err;
	if (!err) {
		session_ref(cr->s);
		f->sessions[f->n_sessions++] = cr->s;
	}
	if (f->ending)
		return;
	f->failed++;
	step(f);
}

void fork_late(struct fork *f)
{
	struct err err;

	refusal_busy(&err);
	answer(f, &err);
}

/* ---- The start ---- */

static void make_volumes(struct fork *f, const char *source)
{
	struct create *members[FORK_MAX];

	/* A member that fails at once leaves the list of the fork, not this one. */
	memcpy(members, f->members, sizeof(members));
	for (unsigned i = 0; i < f->n; i++) {
		snprintf(members[i]->source, sizeof(members[i]->source), "%s", source);
		create_go(members[i]);
	}
}

static void on_copied(void *data, const struct runtime_file_result *result, const struct err *err)
{
	struct fork *f = data;

	if (err)
		fail_all(f, err);
	else
		make_volumes(f, f->copy);
}

static void on_name(struct copy_wait *w, const char *name, const struct err *err)
{
	struct fork *f = container_of(w, struct fork, wait);

	if (err) {
		fail_all(f, err);
		return;
	}
	memcpy(f->copy, name, sizeof(f->copy));
	const struct runtime_snapshot_spec spec = {
		.volume = f->s->id,
		.snapshot = f->copy,
		.tenant = f->s->tenant->number,
		.image = f->s->image,
	};
	runtime_snapshot_create(f->c->runtime, &spec, on_copied, f);
}

static void on_room(struct room_wait *w, const struct err *err)
{
	struct fork *f = container_of(w, struct fork, room);

	if (err) {
		fail_all(f, err);
		return;
	}
	for (unsigned i = 0; i < f->n; i++)
		f->members[i]->taken = create_room(f->members[i]);
	if (f->n == 1) {
		make_volumes(f, f->s->id);
		return;
	}
	f->wait.fn = on_name;
	copy_name_get(f->c, &f->wait);
}

static void begin(struct fork *f)
{
	/* Refused: it has no members. */
	if (!f->n) {
		finish(f);
		return;
	}
	f->room.fn = on_room;
	room_take(f->c, &f->room, f->n * create_room(f->members[0]));
}

static void on_begin(struct later *l)
{
	begin(container_of(l, struct fork, later));
}

static void on_begun(void *data, bool on_disk)
{
	struct fork *f = data;
	struct err busy;

	if (on_disk || !f->n) {
		begin(f);
		return;
	}
	refusal_busy(&busy);
	fail_all(f, &busy);
}

static struct audit *record(struct fork *f, unsigned count, const char *actor)
{
	char command[32];
	const struct audit_start start = {
		.tenant = f->s->tenant,
		.session = f->s->id,
		.actor = actor,
		.kind = "fork",
		.command = { command,
			     (size_t)snprintf(command, sizeof(command), "fork %u", count) },
	};

	return audit_begin(f->c, &start, audit_is_strict(f->c) ? on_begun : NULL, f);
}

static struct session *session_like(const struct session *s)
{
	struct session *made = mem_new(1, sizeof(*made));

	made->state = SESSION_CREATING;
	made->tenant = s->tenant;
	made->template_name = mem_dup(s->template_name);
	made->image = s->image;
	for (size_t i = 0; i < s->egress.n; i++)
		egress_list_add(&made->egress, str_of(s->egress.rules[i]));
	made->persistent = s->persistent;
	made->quota_bytes = s->quota_bytes;
	made->created_us = made->accessed_us = clock_wall_us();
	made->disk = (struct disk){ .known = s->disk.known,
				    .pending = s->disk.pending,
				    .at_us = s->disk.at_us,
				    .shared = s->disk.shared };
	return made;
}

static void open_members(struct fork *f)
{
	for (unsigned i = 0; i < f->n; i++) {
		struct create *cr = mem_new(1, sizeof(*cr));
		*cr = (struct create){ .c = f->c, .fork = f, .s = session_like(f->s) };
		disk_share_all(f->c, cr->s);
		core_hold(f->c);
		create_open(cr);
		f->members[i] = cr;
	}
}

void session_fork(struct core *c, struct session *s, unsigned count, const char *actor, fork_fn fn,
		  void *data)
{
	struct fork *f = mem_new(1, sizeof(*f));

	*f = (struct fork){ .c = c, .s = s, .n = count, .fn = fn, .data = data };
	session_ref(s);
	core_hold(c);
	f->later.fn = on_begin;
	if (create_check_room(c, s->tenant, count, &f->err) < 0)
		f->n = 0;
	else
		open_members(f);
	f->audit = record(f, count, actor);
	if (!audit_is_strict(c))
		core_later(c, &f->later);
}
