// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "core/disk.h"
#include "core/parts.h"
#include "core/rig.h"
#include "core/snapshot.h"

#define BASE STR("sandbox-base:latest")
#define NONE ((struct str){ NULL, 0 })
#define DAY (86400 * RIG_SECOND)

struct outcome {
	unsigned n;
	char id[SNAPSHOT_ID_LEN + 1];
	char name[64];
	uint64_t size;
	char slug[64], text[1024];
	struct session *sessions[FORK_MAX];
	size_t n_sessions;
};

static void note(struct outcome *o, const struct err *err)
{
	o->n++;
	snprintf(o->slug, sizeof(o->slug), "%s", err ? err->slug : "");
	snprintf(o->text, sizeof(o->text), "%s", err ? err->text : "");
}

static void on_snapshot(void *data, const struct snapshot *snap, const struct err *err)
{
	struct outcome *o = data;

	note(o, err);
	if (err)
		return;
	snprintf(o->id, sizeof(o->id), "%s", snap->id);
	snprintf(o->name, sizeof(o->name), "%s", snap->name);
	o->size = snap->size_bytes;
}

static void on_session(void *data, struct session *s, const struct err *err)
{
	struct outcome *o = data;

	note(o, err);
	o->sessions[0] = s;
}

static void on_fork(void *data, struct session *const *sessions, size_t n, const struct err *err)
{
	struct outcome *o = data;

	note(o, err);
	o->n_sessions = n;
	for (size_t i = 0; i < n; i++)
		o->sessions[i] = sessions[i];
}

static struct outcome take(struct rig *r, struct session *s, struct str name, struct str path)
{
	struct outcome o = { 0 };

	snapshot_create(r->core, s, name, path, "static key", on_snapshot, &o);
	assert_int_equal(o.n, 0);
	rig_settle(r);
	assert_int_equal(o.n, 1);
	return o;
}

static struct outcome take_one(struct rig *r, struct session *s)
{
	struct outcome o = take(r, s, STR("one"), STR("."));

	assert_string_equal(o.slug, "");
	return o;
}

static struct outcome restore(struct rig *r, struct session *s, const char *id)
{
	struct outcome o = { 0 };

	snapshot_restore(r->core, s, str_of(id), STR("x/y"), "static key", on_snapshot, &o);
	assert_int_equal(o.n, 0);
	rig_settle(r);
	assert_int_equal(o.n, 1);
	return o;
}

static struct outcome create_from(struct rig *r, struct tenant *t, const char *id)
{
	const struct session_params p = { .template_name = BASE, .snapshot_id = str_of(id) };
	struct outcome o = { 0 };

	session_create(r->core, t, &p, on_session, &o);
	assert_int_equal(o.n, 0);
	rig_settle(r);
	assert_int_equal(o.n, 1);
	return o;
}

static struct outcome forked(struct rig *r, struct session *s, unsigned count)
{
	struct outcome o = { 0 };

	session_fork(r->core, s, count, "static key", on_fork, &o);
	assert_int_equal(o.n, 0);
	rig_settle(r);
	assert_int_equal(o.n, 1);
	return o;
}

static struct outcome drop(struct rig *r, struct tenant *t, const char *id)
{
	struct snapshot *snap = snapshot_find(r->core, t, str_of(id));
	struct outcome o = { 0 };

	assert_non_null(snap);
	snapshot_delete(r->core, snap, on_snapshot, &o);
	assert_int_equal(o.n, 0);
	rig_settle(r);
	assert_int_equal(o.n, 1);
	return o;
}

static const char *volume_of(const char *id)
{
	static char volume[SESSION_ID_LEN + 1];

	snprintf(volume, sizeof(volume), "snp_%.12s", id + 5);
	return volume;
}

/* How many volumes there are beside those of sessions. */
static unsigned copies(struct rig *r)
{
	unsigned n = 0;

	for (size_t i = 0; i < r->runtime.disk->n_volumes; i++)
		n += strncmp(r->runtime.disk->volumes[i], "snp_", 4) == 0;
	return n;
}

static unsigned count(struct rig *r, const struct tenant *t)
{
	unsigned n = 0;

	for (struct snapshot *s = snapshot_next(r->core, t, NULL); s;
	     s = snapshot_next(r->core, t, s))
		n++;
	return n;
}

/* ---- Making ---- */

static void a_snapshot_is_what_the_trimmed_copy_holds(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	r->runtime.used = 5 * MIB;
	struct outcome o = take(r, s, STR("  before the change "), STR("out"));
	assert_string_equal(o.slug, "");
	assert_string_equal(o.name, "before the change");
	assert_int_equal(o.size, 5 * MIB);
	assert_string_equal(r->runtime.source, s->id);
	assert_string_equal(r->runtime.path, "out");
	assert_int_equal(strlen(o.id), SNAPSHOT_ID_LEN);
	assert_memory_equal(o.id, "snap_", 5);
	for (size_t i = 5; i < SNAPSHOT_ID_LEN; i++)
		assert_non_null(strchr("0123456789abcdef", o.id[i]));
	assert_true(rig_has_volume(r, volume_of(o.id)));

	const struct snapshot *snap = snapshot_find(r->core, r->a, str_of(o.id));
	assert_string_equal(snap->path, "out");
	assert_string_equal(snap->session_id, s->id);
	assert_string_equal(snap->template_name, "sandbox-base:latest");
	assert_int_equal(snap->created_us, RIG_START_US);
	assert_int_equal(snap->expires_us, RIG_START_US + 30 * DAY);
	assert_int_equal(r->a->snapshots_stored, 1);
	assert_int_equal(r->a->snapshots_making, 0);
	assert_int_equal(r->a->snapshot_bytes, 5 * MIB);
	assert_int_equal(r->a->files[FILES_QUICK].running, 0);
}

static void without_a_name_it_is_unnamed(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	assert_string_equal(take(r, s, NONE, STR("")).name, "unnamed");
	assert_string_equal(take(r, s, STR(" \t "), STR("")).name, "unnamed");
	assert_string_equal(snapshot_next(r->core, r->a, NULL)->path, ".");
}

static void they_outlive_session_and_server(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	r->runtime.used = 7;
	struct outcome first = take_one(r, s);
	rig_advance(r, RIG_SECOND);
	struct outcome second = take(r, s, STR("zwei \xe2\x82\xac"), STR("a b"));
	session_delete(r->core, s, NULL, NULL);
	rig_settle(r);
	rig_close(r);
	rig_open(r);
	assert_int_equal(count(r, r->a), 2);
	assert_int_equal(count(r, r->b), 0);
	const struct snapshot *snap = snapshot_next(r->core, r->a, NULL); /* newest first */
	assert_string_equal(snap->id, second.id);
	assert_string_equal(snap->name, "zwei \xe2\x82\xac");
	assert_string_equal(snap->path, "a b");
	assert_int_equal(snap->size_bytes, 7);
	assert_int_equal(snap->expires_us, snap->created_us + 30 * DAY);
	assert_string_equal(snapshot_next(r->core, r->a, snap)->id, first.id);
	assert_int_equal(r->a->snapshots_stored, 2);
	assert_int_equal(r->a->snapshot_bytes, 14);
	assert_null(snapshot_find(r->core, r->b, str_of(first.id)));
	assert_int_equal(core_lost_volumes(r->core), 0);
}

static void each_failure_has_its_word_and_leaves_nothing(void **state)
{
	static const struct {
		const char *slug, *said, *text;
	} cases[] = {
		{ "file_not_found", "file_not_found", "Folder 'gone' does not exist." },
		{ "not_folder", "not_folder", "'gone' is not a folder." },
		{ "path_outside", "path_outside",
		  "Access denied: symlink/path traversal outside workspace for 'gone'" },
		{ "no_capacity", "snapshot_space", "Snapshot storage is full; try again later." },
		{ "busy", "busy", "The server is busy; try again shortly." },
		{ "internal", "internal", "Internal Server Error" },
	};
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		r->runtime.fail[RIG_COPY] = cases[i].slug;
		struct outcome o = take(r, s, NONE, STR("gone"));
		assert_string_equal(o.slug, cases[i].said);
		assert_string_equal(o.text, cases[i].text);
		assert_int_equal(copies(r), 0);
		assert_int_equal(r->a->snapshots_making + r->a->snapshots_stored, 0);
		assert_int_equal(r->a->snapshot_bytes, 0);
		assert_int_equal(r->a->files[FILES_QUICK].running, 0);
	}
	r->runtime.fail[RIG_COPY] = NULL;
	take_one(r, s);
}

static void so_many_are_stored_and_no_more(void **state)
{
	struct tenant_limits limits = TENANT_LIMITS_DEFAULT;
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome half = { 0 };

	limits.max_snapshots = 2;
	core_set_limits(r->core, STR("a"), &limits);
	struct outcome first = take_one(r, s);
	/* One that is being made counts. */
	r->runtime.hold[RIG_COPY] = true;
	snapshot_create(r->core, s, NONE, STR("."), "static key", on_snapshot, &half);
	struct outcome third = take(r, s, NONE, STR("."));
	assert_string_equal(third.slug, "snapshot_limit");
	assert_string_equal(third.text, "Snapshot limit reached: 2 of 2 snapshots are stored. "
					"Delete one first.");
	rig_answer(r);
	assert_int_equal(half.n, 1);
	assert_string_equal(take(r, s, NONE, STR(".")).slug, "snapshot_limit");
	drop(r, r->a, first.id);
	take_one(r, s);
}

static void so_many_bytes_are_stored_and_no_more(void **state)
{
	struct tenant_limits limits = TENANT_LIMITS_DEFAULT;
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	limits.max_snapshot_mb = 10;
	core_set_limits(r->core, STR("a"), &limits);
	r->runtime.used = 6 * MIB;
	take_one(r, s);
	r->runtime.used = 4 * MIB + 160 * KIB;
	struct outcome o = take(r, s, NONE, STR("."));
	assert_string_equal(o.slug, "snapshot_storage");
	assert_string_equal(o.text, "Snapshots would use 10.2 MB of this account's 10 MB. "
				    "Delete one first.");
	assert_int_equal(copies(r), 1);
	assert_int_equal(r->a->snapshot_bytes, 6 * MIB);
	r->runtime.used = 4 * MIB;
	take_one(r, s);
}

static void what_failed_and_stays_is_deleted_later(void **state)
{
	struct tenant_limits limits = TENANT_LIMITS_DEFAULT;
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	limits.max_snapshot_mb = 1;
	core_set_limits(r->core, STR("a"), &limits);
	r->runtime.used = 2 * MIB;
	r->runtime.fail[RIG_DELETE] = "internal";
	for (int i = 0; i < 2; i++)
		assert_string_equal(take(r, s, NONE, STR(".")).slug, "snapshot_storage");
	assert_int_equal(copies(r), 2);
	/* One that resists does not keep the other. */
	core_sweep(r->core, clock_monotonic_us());
	rig_settle(r);
	assert_int_equal(copies(r), 2);
	r->runtime.fail[RIG_DELETE] = NULL;
	core_sweep(r->core, clock_monotonic_us());
	rig_settle(r);
	assert_int_equal(copies(r), 0);
	unsigned calls = r->runtime.calls[RIG_DELETE];
	core_sweep(r->core, clock_monotonic_us());
	rig_settle(r);
	assert_int_equal(r->runtime.calls[RIG_DELETE], calls);
	/* Or by the next start. */
	r->runtime.fail[RIG_DELETE] = "internal";
	take(r, s, NONE, STR("."));
	assert_int_equal(copies(r), 1);
	r->runtime.fail[RIG_DELETE] = NULL;
	rig_close(r);
	rig_open(r);
	assert_int_equal(copies(r), 0);
	assert_int_equal(core_lost_volumes(r->core), 0);
}

static void the_ninth_file_call_waits_its_turn(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o[9] = { { 0 } };

	r->runtime.hold[RIG_COPY] = true;
	for (unsigned i = 0; i < 9; i++)
		snapshot_create(r->core, s, NONE, STR("."), "static key", on_snapshot, &o[i]);
	rig_settle(r);
	assert_int_equal(r->runtime.calls[RIG_COPY], 8);
	assert_int_equal(r->runtime.queue_ms, 60000);
	files_expire(r->core, clock_monotonic_us() + 61 * RIG_SECOND);
	rig_settle(r);
	assert_int_equal(o[8].n, 1);
	assert_string_equal(o[8].slug, "busy");
	rig_answer(r);
	for (unsigned i = 0; i < 8; i++)
		assert_string_equal(o[i].slug, "");
	assert_int_equal(r->a->snapshots_making, 0);
	assert_int_equal(r->a->snapshots_stored, 8);
}

static void what_waited_for_its_place_waits_the_less_for_the_worker(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome first = take_one(r, s), o[9] = { { 0 } }, restored = { 0 };

	r->runtime.hold[RIG_COPY] = true;
	for (unsigned i = 0; i < 9; i++)
		snapshot_create(r->core, s, NONE, STR("."), "static key", on_snapshot, &o[i]);
	rig_settle(r);
	rig_advance(r, 45 * RIG_SECOND);
	rig_answer(r);
	assert_string_equal(o[8].slug, "");
	assert_int_equal(r->runtime.queue_ms, 15000);

	r->runtime.hold[RIG_COPY] = true;
	for (unsigned i = 0; i < 8; i++)
		snapshot_create(r->core, s, NONE, STR("."), "static key", on_snapshot, &o[i]);
	snapshot_restore(r->core, s, str_of(first.id), STR("."), "static key", on_snapshot,
			 &restored);
	rig_settle(r);
	assert_int_equal(r->runtime.queue_ms, 60000);
	assert_int_equal(r->runtime.calls[RIG_MERGE], 0);
	rig_advance(r, 59500000);
	rig_answer(r);
	assert_string_equal(restored.slug, "");
	assert_int_equal(r->runtime.calls[RIG_MERGE], 1);
	assert_int_equal(r->runtime.queue_ms, 1000);
}

static void a_session_that_ends_meanwhile_is_the_reason(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o = { 0 };

	r->runtime.fail[RIG_COPY] = "internal";
	r->runtime.hold[RIG_COPY] = true;
	snapshot_create(r->core, s, NONE, STR("."), "static key", on_snapshot, &o);
	rig_settle(r);
	session_delete(r->core, s, NULL, NULL);
	rig_answer(r);
	assert_int_equal(o.n, 1);
	assert_string_equal(o.slug, "session_not_found");
	assert_int_equal(copies(r), 0);
}

/* ---- Deleting and expiring ---- */

static void a_deleted_one_is_gone_for_good(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o = take_one(r, s);

	assert_string_equal(drop(r, r->a, o.id).slug, "");
	assert_null(snapshot_find(r->core, r->a, str_of(o.id)));
	assert_int_equal(copies(r), 0);
	assert_int_equal(r->a->snapshots_stored, 0);
	assert_int_equal(r->a->snapshot_bytes, 0);
	rig_close(r);
	rig_open(r);
	assert_int_equal(count(r, r->a), 0);
}

static void a_volume_that_stays_is_tried_again(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o = take_one(r, s);

	r->runtime.fail[RIG_DELETE] = "internal";
	assert_string_equal(drop(r, r->a, o.id).slug, "");
	assert_int_equal(copies(r), 1);
	r->runtime.fail[RIG_DELETE] = NULL;
	core_sweep(r->core, clock_monotonic_us());
	rig_settle(r);
	assert_int_equal(copies(r), 0);
	/* Or by the next start. */
	o = take_one(r, s);
	r->runtime.fail[RIG_DELETE] = "internal";
	drop(r, r->a, o.id);
	rig_close(r);
	r->runtime.fail[RIG_DELETE] = NULL;
	rig_open(r);
	assert_int_equal(copies(r), 0);
	assert_int_equal(core_lost_volumes(r->core), 0);
}

/* However many needed a second try before, each is tried again soon. */
static void success_brings_back_the_patience(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	uv_timer_t *timer = &r->core->timers[TIMER_LEFTOVERS];

	for (int i = 0; i < 15; i++) {
		struct outcome o = take_one(r, s);
		r->runtime.fail[RIG_DELETE] = "internal";
		drop(r, r->a, o.id);
		assert_true(uv_is_active((uv_handle_t *)timer));
		uv_timer_stop(timer);
		r->runtime.fail[RIG_DELETE] = NULL;
		core_sweep(r->core, clock_monotonic_us());
		rig_settle(r);
		assert_int_equal(copies(r), 0);
	}
}

static void one_over_its_time_is_hidden_at_once_and_swept(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o = take_one(r, s);

	rig_advance(r, 30 * DAY - 1);
	assert_non_null(snapshot_find(r->core, r->a, str_of(o.id)));
	rig_advance(r, 1);
	assert_null(snapshot_find(r->core, r->a, str_of(o.id)));
	assert_int_equal(count(r, r->a), 0);
	assert_string_equal(restore(r, s, o.id).slug, "snapshot_not_found");
	assert_int_equal(copies(r), 1);
	core_sweep(r->core, clock_monotonic_us() - 31 * DAY); /* too early for the session */
	rig_settle(r);
	assert_int_equal(copies(r), 0);
	assert_int_equal(r->a->snapshots_stored, 0);
}

static void kept_for_ever_it_has_no_end(void **state)
{
	struct rig *r = *state;

	rig_close(r);
	r->config.snapshot_keep_us = 0;
	rig_open(r);
	struct outcome o = take_one(r, rig_session(r, r->a));
	rig_advance(r, 10000 * DAY);
	const struct snapshot *snap = snapshot_find(r->core, r->a, str_of(o.id));
	assert_non_null(snap);
	assert_int_equal(snap->expires_us, 0);
}

static void who_reads_from_it_keeps_it_to_the_end(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o = take_one(r, s), merged = { 0 };

	r->runtime.hold[RIG_MERGE] = true;
	snapshot_restore(r->core, s, str_of(o.id), STR("."), "static key", on_snapshot, &merged);
	rig_settle(r);
	assert_string_equal(drop(r, r->a, o.id).slug, "");
	assert_null(snapshot_find(r->core, r->a, str_of(o.id)));
	assert_int_equal(copies(r), 1);
	rig_answer(r);
	assert_int_equal(merged.n, 1);
	assert_string_equal(merged.slug, "");
	assert_string_equal(merged.id, o.id);
	assert_int_equal(copies(r), 0);
}

/* ---- Restoring ---- */

static void a_restore_merges_from_the_volume(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	r->runtime.used = 3 * MIB;
	struct outcome o = take_one(r, s);
	struct outcome back = restore(r, s, o.id);
	assert_string_equal(back.slug, "");
	assert_string_equal(back.id, o.id);
	assert_string_equal(r->runtime.source, volume_of(o.id));
	assert_string_equal(r->runtime.path, "x/y");
	/* Far from the quota nobody walks. */
	assert_int_equal(r->runtime.quota, 0);
	assert_int_equal(s->disk.shared, 3 * MIB);
	assert_int_equal(r->a->files[FILES_QUICK].running, 0);
}

static void near_the_quota_the_worker_counts(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	r->runtime.used = 300 * MIB;
	struct outcome o = take_one(r, s);
	restore(r, s, o.id);
	r->runtime.fail[RIG_MERGE] = "quota";
	r->runtime.number = 300 * MIB + 100 * KIB;
	r->runtime.used = 600 * MIB;
	struct outcome back = restore(r, s, o.id);
	assert_int_equal(r->runtime.quota, s->quota_bytes);
	assert_string_equal(back.slug, "snapshot_too_large");
	assert_string_equal(back.text,
			    "Restoring 'one' needs 300.1 MB; the workspace has 212.1 MB free.");
}

static void what_is_in_the_way_is_shown_as_text(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o = take_one(r, s);
	char name[400], text[400];

	r->runtime.fail[RIG_MERGE] = "restore_conflict";
	r->runtime.in_the_way = "out/caf\xc3\xa9\xff";
	struct outcome back = restore(r, s, o.id);
	assert_string_equal(back.slug, "restore_conflict");
	assert_string_equal(back.text,
			    "'x/y/out/caf\xc3\xa9\xef\xbf\xbd' is in the way: a folder and "
			    "a file have the same name.");
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	r->runtime.in_the_way = name;
	back = restore(r, s, o.id);
	snprintf(text, sizeof(text),
		 "'x/y/%.196s' is in the way: a folder and a file have the same name.", name);
	assert_string_equal(back.text, text);
}

static void nobody_restores_what_is_not_theirs(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a), *other = rig_session(r, r->b);
	struct outcome o = take_one(r, s);
	static const char *const ids[] = { "", "x", "snap_0123456789abcdef", "snp_0123456789ab" };

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		assert_string_equal(restore(r, s, ids[i]).slug, "snapshot_not_found");
		assert_string_equal(create_from(r, r->a, ids[i]).slug, "snapshot_not_found");
	}
	struct outcome theirs = restore(r, other, o.id);
	assert_string_equal(theirs.slug, "snapshot_not_found");
	assert_string_equal(theirs.text, "Snapshot not found");
	assert_string_equal(create_from(r, r->b, o.id).slug, "snapshot_not_found");
	assert_int_equal(r->runtime.calls[RIG_MERGE], 0);
}

/* ---- Beginning with one ---- */

static void a_session_begins_as_a_copy(void **state)
{
	struct rig *r = *state;

	r->runtime.used = 100 * MIB;
	struct outcome o = take_one(r, rig_session(r, r->a));
	struct outcome made = create_from(r, r->a, o.id);
	assert_string_equal(made.slug, "");
	assert_string_equal(r->runtime.source, volume_of(o.id));
	struct session *s = made.sessions[0];
	char id[SESSION_ID_LEN + 1];
	memcpy(id, s->id, sizeof(id));
	/* Its files count from the first moment, wherever the file system counts them. */
	assert_int_equal(s->disk.known, 100 * MIB);
	assert_int_equal(disk_counted(r->core, s, 5), 100 * MIB + 5);
	r->runtime.counts_shared = true;
	assert_int_equal(disk_counted(r->core, s, 5), 5);
	r->runtime.counts_shared = false;
	rig_close(r);
	rig_open(r);
	s = session_find(r->core, str_of(id));
	assert_int_equal(s->disk.shared, 100 * MIB);
}

static void one_that_does_not_fit_is_refused(void **state)
{
	struct rig *r = *state;
	char text[200];

	r->runtime.used = 512ull * MIB;
	struct outcome fits = take_one(r, rig_session(r, r->a));
	assert_string_equal(create_from(r, r->a, fits.id).slug, "");
	r->runtime.used = 512ull * MIB + 1;
	struct outcome o = take_one(r, rig_session(r, r->a));
	struct outcome made = create_from(r, r->a, o.id);
	assert_string_equal(made.slug, "snapshot_too_large");
	snprintf(text, sizeof(text),
		 "Snapshot '%s' (512.0 MB) doesn't fit in the workspace's 512 MB disk quota.",
		 o.id);
	assert_string_equal(made.text, text);
	assert_int_equal(r->a->sessions_open, 3);
}

static void the_template_is_refused_before_and_the_limit_after(void **state)
{
	struct tenant_limits limits = TENANT_LIMITS_DEFAULT;
	struct rig *r = *state;
	struct session_params p = { .template_name = STR("evil"), .snapshot_id = STR("x") };
	struct outcome o = { 0 };

	limits.max_sessions = 1;
	core_set_limits(r->core, STR("a"), &limits);
	rig_session(r, r->a);
	session_create(r->core, r->a, &p, on_session, &o);
	rig_settle(r);
	assert_string_equal(o.slug, "template_not_permitted");
	p.template_name = BASE;
	session_create(r->core, r->a, &p, on_session, &o);
	rig_settle(r);
	assert_string_equal(o.slug, "snapshot_not_found");
}

/* ---- Forking ---- */

static void forks_are_copies_of_one_instant(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct usage_month month;

	s->disk.known = 9 * MIB;
	struct outcome o = forked(r, s, 3);
	assert_string_equal(o.slug, "");
	assert_int_equal(o.n_sessions, 3);
	assert_int_equal(r->runtime.calls[RIG_COPY], 1);
	assert_string_equal(r->runtime.path, "*");
	assert_int_equal(copies(r), 0); /* the instant is gone */
	for (unsigned i = 0; i < 3; i++) {
		struct session *f = o.sessions[i];
		assert_ptr_equal(session_find(r->core, str_of(f->id)), f);
		assert_true(rig_has_volume(r, f->id));
		assert_string_equal(f->template_name, s->template_name);
		assert_int_equal(f->quota_bytes, s->quota_bytes);
		assert_int_equal(f->disk.known, 9 * MIB);
		assert_int_equal(f->disk.shared, 9 * MIB);
	}
	assert_int_equal(r->a->sessions_open, 4);
	usage_get(r->core, r->a, &month);
	assert_int_equal(month.sessions, 4);
	rig_close(r);
	rig_open(r);
	assert_int_equal(session_count(r->core), 4);
	assert_int_equal(core_lost_volumes(r->core), 0);
}

static void a_single_fork_is_its_own_instant(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o = forked(r, s, 1);

	assert_int_equal(o.n_sessions, 1);
	assert_int_equal(r->runtime.calls[RIG_COPY], 0);
	assert_string_equal(r->runtime.source, s->id);
}

static void forks_keep_the_rules_of_egress(void **state)
{
	const struct str egress[] = { STR("pypi") };
	_cleanup_egress_list_ struct egress_list rules = EGRESS_LIST;
	const struct core_egress entry = { NULL, &rules };
	struct rig *r = *state;

	egress_list_add(&rules, STR("pypi"));
	core_set_egress(r->core, &entry, 1);
	struct session *s = rig_session_egress(r, r->a, egress, 1);
	struct outcome o = forked(r, s, 2);
	assert_string_equal(rig_egress(r, o.sessions[1]->id), "pypi.org files.pythonhosted.org");
}

static void forks_are_counted_before_anything_is_made(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o = forked(r, s, 10);

	assert_string_equal(o.slug, "session_limit");
	assert_string_equal(o.text, "Session limit reached: 1 of 10 sessions are open. "
				    "Delete one first.");
	assert_int_equal(o.n_sessions, 0);
	assert_int_equal(r->runtime.calls[RIG_CREATE], 1);
	assert_int_equal(r->a->sessions_open, 1);
	rig_session(r, r->b);
	rig_close(r);
	r->config.max_sessions = 5;
	rig_open(r);
	s = session_next(r->core, r->a, NULL);
	assert_string_equal(forked(r, s, 4).slug, "no_capacity");
	assert_int_equal(forked(r, s, 3).n_sessions, 3);
}

static void all_forks_or_none(void **state)
{
	static const enum rig_kind kinds[] = { RIG_COPY, RIG_CREATE };
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		r->runtime.fail[kinds[i]] = "no_capacity";
		struct outcome o = forked(r, s, 4);
		assert_string_equal(o.slug, "no_capacity");
		r->runtime.fail[kinds[i]] = NULL;
		assert_int_equal(r->a->sessions_open, 1);
		assert_int_equal(r->runtime.disk->n_volumes, 1);
	}
	/* The second of three fails. */
	r->runtime.fail_at[RIG_CREATE] = r->runtime.calls[RIG_CREATE] + 2;
	struct outcome o = forked(r, s, 3);
	assert_string_equal(o.slug, "no_capacity");
	assert_int_equal(r->a->sessions_open, 1);
	assert_int_equal(r->runtime.disk->n_volumes, 1);
	rig_close(r);
	rig_open(r);
	assert_int_equal(session_count(r->core), 1);
}

static void a_fork_that_takes_too_long_leaves_nothing(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o = { 0 };

	r->runtime.hold[RIG_CREATE] = true;
	session_fork(r->core, s, 2, "static key", on_fork, &o);
	rig_settle(r);
	creates_expire(r->core, clock_monotonic_us() + 61 * RIG_SECOND);
	assert_int_equal(o.n, 1);
	assert_string_equal(o.slug, "busy");
	rig_answer(r);
	assert_int_equal(o.n, 1);
	assert_int_equal(r->a->sessions_open, 1);
	assert_int_equal(r->runtime.disk->n_volumes, 1);
}

static void a_fork_of_one_that_ends_is_not_found(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o = { 0 };

	r->runtime.fail[RIG_COPY] = "internal";
	r->runtime.hold[RIG_COPY] = true;
	session_fork(r->core, s, 2, "static key", on_fork, &o);
	rig_settle(r);
	session_delete(r->core, s, NULL, NULL);
	rig_answer(r);
	assert_string_equal(o.slug, "session_not_found");
	assert_int_equal(r->runtime.disk->n_volumes, 0);
}

/* ---- The hard limit ---- */

static void a_session_that_stays_charged_may_use_more(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	const uint64_t own = 576ull * MIB;

	assert_int_equal(r->runtime.tenant_limit, 11 * own + 10240ull * MIB);
	r->runtime.used = 100 * MIB;
	take_one(r, s);
	assert_int_equal(r->runtime.calls[RIG_LIMIT], 0); /* there is no limit to raise */
	r->runtime.hard_quota = true;
	struct outcome o = take_one(r, s);
	assert_int_equal(r->runtime.limit, own + 200 * MIB);
	s->disk.known = 7 * MIB;
	struct outcome forks = forked(r, s, 2);
	assert_int_equal(forks.n_sessions, 2);
	assert_int_equal(forks.sessions[0]->disk.held + forks.sessions[0]->disk.forked, 0);
	assert_int_equal(r->runtime.limit, own + 207 * MIB);

	/* It falls when the file system has had time to notice. */
	drop(r, r->a, o.id);
	assert_int_equal(r->runtime.limit, own + 207 * MIB);
	core_sweep(r->core, clock_monotonic_us());
	rig_settle(r);
	assert_int_equal(r->runtime.limit, own + 107 * MIB);

	char id[SESSION_ID_LEN + 1];
	memcpy(id, s->id, sizeof(id));
	rig_close(r);
	rig_open(r);
	s = session_find(r->core, str_of(id));
	assert_int_equal(s->disk.held, 100 * MIB);
	assert_int_equal(s->disk.forked, 7 * MIB);
	r->runtime.counts_shared = true;
	unsigned before = r->runtime.calls[RIG_LIMIT];
	take_one(r, s);
	assert_int_equal(r->runtime.calls[RIG_LIMIT], before);
}

static void forks_that_are_gone_raise_no_limit(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	const uint64_t own = 576ull * MIB;
	char id[SESSION_ID_LEN + 1];

	memcpy(id, s->id, sizeof(id));
	r->runtime.hard_quota = true;
	s->disk.known = 7 * MIB;
	for (unsigned i = 0; i < 5; i++) {
		struct outcome o = forked(r, s, 1);
		assert_int_equal(o.n_sessions, 1);
		assert_int_equal(r->runtime.limit, own + 7 * MIB);
		session_delete(r->core, o.sessions[0], NULL, NULL);
		rig_settle(r);
	}
	core_sweep(r->core, clock_monotonic_us());
	rig_settle(r);
	assert_int_equal(r->runtime.limit, own);
	rig_close(r);
	rig_open(r);
	assert_int_equal(session_find(r->core, str_of(id))->disk.forked, 0);
}

/* ---- Crashes ---- */

static struct session *only(struct rig *r)
{
	return session_next(r->core, r->a, NULL);
}

static void ignore_snapshot(void *data, const struct snapshot *snap, const struct err *err)
{
}

static void ignore_fork(void *data, struct session *const *sessions, size_t n,
			const struct err *err)
{
}

static void dies_with_a_copy(struct rig *r)
{
	r->runtime.hold[RIG_COPY] = true;
	snapshot_create(r->core, only(r), NONE, STR("."), "static key", ignore_snapshot, NULL);
	rig_settle(r);
	/* It is there, and nobody has been told. */
	rig_add_volume(&r->runtime, r->runtime.copied, r->a->number);
}

static void dies_after_the_answer(struct rig *r)
{
	take_one(r, only(r));
}

static void dies_before_the_volume_is_gone(struct rig *r)
{
	struct outcome o = take_one(r, only(r));

	r->runtime.hold[RIG_DELETE] = true;
	drop(r, r->a, o.id);
}

static void dies_between_forks(struct rig *r)
{
	r->runtime.hold[RIG_CREATE] = true;
	session_fork(r->core, only(r), 3, "static key", ignore_fork, NULL);
	rig_settle(r);
}

static void a_crash_leaves_the_snapshot_or_nothing(void **state)
{
	static const struct {
		void (*scene)(struct rig *r);
		unsigned stored;
	} cases[] = {
		{ dies_with_a_copy, 0 },
		{ dies_after_the_answer, 1 },
		{ dies_before_the_volume_is_gone, 1 },
		{ dies_between_forks, 1 },
	};
	struct rig *r = *state;

	rig_session(r, r->a);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		rig_crash(r, cases[i].scene);
		assert_int_equal(count(r, r->a), cases[i].stored);
		assert_int_equal(copies(r), cases[i].stored);
		assert_int_equal(session_count(r->core), 1);
		assert_int_equal(r->runtime.disk->n_volumes, 1 + cases[i].stored);
		assert_int_equal(core_lost_volumes(r->core), 0);
	}
}

static void rows_without_files_go_and_strange_volumes_stay(void **state)
{
	struct rig *r = *state;
	struct outcome o = take_one(r, rig_session(r, r->a));

	rig_close(r);
	snprintf(r->runtime.disk->volumes[1], SESSION_ID_LEN + 1, "snp_ffffffffffff");
	rig_open(r);
	assert_null(snapshot_find(r->core, r->a, str_of(o.id)));
	assert_int_equal(core_lost_volumes(r->core), 1);
	assert_true(rig_has_volume(r, "snp_ffffffffffff"));
	rig_close(r);
	rig_open(r);
	assert_int_equal(count(r, r->a), 0);
}

static void another_tenants_volume_explains_nothing(void **state)
{
	struct rig *r = *state;
	struct outcome o = take_one(r, rig_session(r, r->a));

	rig_close(r);
	r->runtime.disk->owners[1] = r->runtime.disk->owners[0] + 1;
	rig_open(r);
	assert_null(snapshot_find(r->core, r->a, str_of(o.id)));
	assert_int_equal(core_lost_volumes(r->core), 1);
}

static void a_store_that_fails_changes_nothing_for_anybody(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o = take_one(r, s);

	rig_break_store(r, true);
	assert_string_equal(drop(r, r->a, o.id).slug, "busy");
	assert_non_null(snapshot_find(r->core, r->a, str_of(o.id)));
	assert_string_equal(take(r, s, NONE, STR(".")).slug, "busy");
	assert_string_equal(forked(r, s, 2).slug, "busy");
	rig_break_store(r, false);
	assert_int_equal(r->a->sessions_open, 1);
	assert_int_equal(r->a->snapshots_stored, 1);
	assert_int_equal(copies(r), 1);
	assert_string_equal(drop(r, r->a, o.id).slug, "");
	assert_int_equal(forked(r, s, 2).n_sessions, 2);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(a_snapshot_is_what_the_trimmed_copy_holds),
		T(without_a_name_it_is_unnamed),
		T(they_outlive_session_and_server),
		T(each_failure_has_its_word_and_leaves_nothing),
		T(so_many_are_stored_and_no_more),
		T(so_many_bytes_are_stored_and_no_more),
		T(what_failed_and_stays_is_deleted_later),
		T(the_ninth_file_call_waits_its_turn),
		T(what_waited_for_its_place_waits_the_less_for_the_worker),
		T(a_session_that_ends_meanwhile_is_the_reason),
		T(a_deleted_one_is_gone_for_good),
		T(a_volume_that_stays_is_tried_again),
		T(success_brings_back_the_patience),
		T(one_over_its_time_is_hidden_at_once_and_swept),
		T(kept_for_ever_it_has_no_end),
		T(who_reads_from_it_keeps_it_to_the_end),
		T(a_restore_merges_from_the_volume),
		T(near_the_quota_the_worker_counts),
		T(what_is_in_the_way_is_shown_as_text),
		T(nobody_restores_what_is_not_theirs),
		T(a_session_begins_as_a_copy),
		T(one_that_does_not_fit_is_refused),
		T(the_template_is_refused_before_and_the_limit_after),
		T(forks_are_copies_of_one_instant),
		T(a_single_fork_is_its_own_instant),
		T(forks_keep_the_rules_of_egress),
		T(forks_are_counted_before_anything_is_made),
		T(all_forks_or_none),
		T(a_fork_that_takes_too_long_leaves_nothing),
		T(a_fork_of_one_that_ends_is_not_found),
		T(a_session_that_stays_charged_may_use_more),
		T(forks_that_are_gone_raise_no_limit),
		T(a_crash_leaves_the_snapshot_or_nothing),
		T(rows_without_files_go_and_strange_volumes_stay),
		T(another_tenants_volume_explains_nothing),
		T(a_store_that_fails_changes_nothing_for_anybody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
