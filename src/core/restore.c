// SPDX-License-Identifier: Apache-2.0
/*
 * Restoring: find the snapshot and hold on to it -> a place among the tenant's file calls -> is the
 * quota near? -> the file worker looks at everything, then merges -> answered. A snapshot that is
 * deleted meanwhile is invisible, but stays until the end.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "core/audit.h"
#include "core/disk.h"
#include "core/files.h"
#include "core/parts.h"
#include "core/refusal.h"
#include "core/snapshot.h"
#include "store/store.h"

#define SHOWN_CHARS 200u

struct restore {
	struct core *c;
	struct session *s; /* referenced */
	struct origin origin;
	struct snapshot *snap; /* referenced; NULL: there is none */
	char *path;	       /* owned */
	snapshot_fn fn;
	void *data;
	int64_t since_us; /* monotonic */
	struct err err;
	struct later later;
	struct files_call *turn; /* NULL: it has no place */
	struct audit *audit;	 /* NULL: none, or it has ended */
};

static void tell(void *data)
{
	struct restore *r = data;
	struct core *c = r->c;
	const struct err *err = r->err.code ? &r->err : NULL;

	r->fn(r->data, err ? NULL : r->snap, err);
	if (r->snap)
		snapshot_unref(c, r->snap);
	session_unref(r->s);
	free(r->path);
	free(r);
	core_release(c);
}

/* The place goes to the next, then it is put on record, then answered. */
static void finish(struct restore *r, const struct err *err)
{
	if (r->turn)
		files_turn_end(take_ptr(r->turn));
	if (err)
		r->err = *err;
	if (!r->audit)
		tell(r);
	else if (err)
		audit_fail(take_ptr(r->audit), &r->err, tell, r);
	else
		audit_done(take_ptr(r->audit), NULL, tell, r);
}

/* ---- Words ---- */

/* The worker's path is relative to the folder. */
static void put_folder(struct buf *out, struct str path)
{
	struct str part;

	while (str_split(&path, '/', &part)) {
		if (!part.len || str_eq(part, STR(".")))
			continue;
		buf_put_str(out, part);
		buf_put_char(out, '/');
	}
}

static void say_conflict(struct err *ret, struct str folder, struct str path_raw)
{
	_cleanup_buf_ struct buf path = BUF(5 * LIMIT_PATH);
	struct utf8_fix fix = { .n_held = 0 };

	put_folder(&path, folder);
	utf8_fix_put(&fix, path_raw, &path);
	utf8_fix_end(&fix, &path);
	struct str shown = utf8_cut(buf_str(&path), SHOWN_CHARS);
	err_slug(ret, EEXIST, "restore_conflict",
		 "'%.*s' is in the way: a folder and a file have the same name.", (int)shown.len,
		 shown.len ? shown.data : "");
}

static void say_quota(struct err *ret, const struct restore *r,
		      const struct runtime_file_result *result)
{
	uint64_t quota = r->s->quota_bytes;
	uint64_t before = result->used_bytes > result->size ? result->used_bytes - result->size : 0;

	err_slug(ret, EDQUOT, "snapshot_too_large",
		 "Restoring '%s' needs %.1f MB; the workspace has %.1f MB free.", r->snap->name,
		 (double)result->size / MIB, before < quota ? (double)(quota - before) / MIB : 0.0);
}

static void say(struct err *ret, const struct restore *r, const struct err *err,
		const struct runtime_file_result *result, struct str path_raw)
{
	struct err gone = { .slug = "session_not_found" };
	const struct files_matter matter = { r->s, FILES_FOLDER, str_of(r->path), 0 };

	if (r->s->state != SESSION_READY)
		files_say(ret, r->c, &gone, &matter);
	else if (err->slug && strcmp(err->slug, "restore_conflict") == 0)
		say_conflict(ret, str_of(r->path), path_raw);
	else if (err->slug && strcmp(err->slug, "quota") == 0)
		say_quota(ret, r, result);
	else
		files_say(ret, r->c, err, &matter);
	if (strcmp(ret->slug, "internal") == 0)
		log_event(LOG_ERROR, "restore_failed", LOG_STR("request", r->origin.request),
			  LOG_STR("session", r->s->id), LOG_STR("tenant", r->s->tenant->name),
			  LOG_STR("snapshot", r->snap->id), LOG_STR("why", err->text));
}

/* ---- The steps, the last first ---- */

static void on_merged(void *data, const struct runtime_file_result *result, struct str path_raw,
		      const struct err *err)
{
	struct restore *r = data;
	struct err said;

	if (err)
		say(&said, r, err, result, path_raw);
	finish(r, err ? &said : NULL);
}

static void on_disk(void *data, bool walk)
{
	struct restore *r = data;
	struct session *s = r->s;
	const struct runtime_file_spec spec = {
		.volume = s->id,
		.tenant = s->tenant->number,
		.image = s->image,
		.path = str_of(r->path),
		.queue_ms = files_queue_ms(r->since_us, SNAPSHOT_WAIT_MS),
	};

	/* What it brings may be shared with the snapshot, which the counter does not see. */
	disk_add(s, r->snap->size_bytes);
	disk_share(r->c, s, r->snap->size_bytes);
	if (s->state == SESSION_READY)
		store_share_session(r->c->store, s->id, s->disk.shared, s->disk.forked);
	runtime_file_merge(r->c->runtime, &spec, r->snap->volume, walk ? s->quota_bytes : 0,
			   on_merged, r);
}

static void on_turn(void *data, const struct err *err)
{
	struct restore *r = data;

	if (err) {
		r->turn = NULL;
		finish(r, err);
		return;
	}
	disk_ask(r->c, r->s, r->snap->size_bytes, on_disk, r);
}

static void begin(struct restore *r)
{
	if (r->err.code)
		finish(r, &r->err);
	else
		r->turn = files_turn(r->c, r->s, on_turn, r);
}

static void on_begin(struct later *l)
{
	begin(container_of(l, struct restore, later));
}

static void on_begun(void *data, bool on_disk)
{
	struct restore *r = data;

	if (!on_disk)
		refusal_busy(&r->err);
	begin(r);
}

static struct audit *record(struct restore *r, struct str id, const char *actor)
{
	_cleanup_free_ char *command = mem_printf("restore %.*s into %s", (int)id.len, id.data,
						  r->path[0] ? r->path : ".");
	const struct audit_start start = {
		.tenant = r->s->tenant,
		.session = r->s->id,
		.actor = actor,
		.kind = "restore",
		.command = str_of(command),
	};

	return audit_begin(r->c, &start, audit_is_strict(r->c) ? on_begun : NULL, r);
}

void snapshot_restore(struct core *c, struct session *s, struct str id, struct str path,
		      const char *actor, snapshot_fn fn, void *data)
{
	struct restore *r = mem_new(1, sizeof(*r));

	*r = (struct restore){ .c = c, .s = s, .origin = c->origin, .fn = fn, .data = data };
	r->since_us = clock_monotonic_us();
	r->later.fn = on_begin;
	r->path = mem_dup_n(path.data, path.len);
	r->snap = snapshot_find(c, s->tenant, id);
	session_ref(s);
	core_hold(c);
	if (r->snap)
		snapshot_ref(r->snap);
	else
		err_slug(&r->err, ENOENT, "snapshot_not_found", "Snapshot not found");
	r->audit = record(r, id, actor);
	if (!audit_is_strict(c))
		core_later(c, &r->later);
}
