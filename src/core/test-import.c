// SPDX-License-Identifier: Apache-2.0
/* Imports: places, the order of the steps, words, letting go, and whatever ends meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "core/parts.h"
#include "core/repository.h"
#include "core/rig.h"

#define MB (1ull << 20)
#define GONE "Session not found or expired"
#define BUSY "The server is busy; try again shortly."

struct outcome {
	struct import *import;
	unsigned n;
	uint64_t files, archive_bytes;
	char ref[REPOSITORY_REF_MAX + 1], slug[64], text[1024];
};

static void on_import(void *data, const struct import_result *result, const struct err *err)
{
	struct outcome *o = data;

	o->n++;
	o->import = NULL;
	snprintf(o->slug, sizeof(o->slug), "%s", err ? err->slug : "");
	snprintf(o->text, sizeof(o->text), "%s", err ? err->text : "");
	if (err)
		return;
	o->files = result->files;
	o->archive_bytes = result->archive_bytes;
	snprintf(o->ref, sizeof(o->ref), "%s", result->repository->ref);
}

static void begin(struct rig *r, struct session *s, struct outcome *o)
{
	const struct import_params p = { STR("o/r"), STR("v1"), STR("a/b"), "static key" };
	struct err err;

	*o = (struct outcome){ .n = 0 };
	assert_int_equal(import_start(r->core, s, &p, on_import, o, &o->import, &err), 0);
	assert_int_equal(o->n, 0);
	rig_settle(r);
}

static void assert_refused(const struct outcome *o, const char *slug, const char *text)
{
	assert_int_equal(o->n, 1);
	assert_string_equal(o->slug, slug);
	assert_string_equal(o->text, text);
}

/* Nothing of it is left anywhere. */
static void assert_settled(struct rig *r, const struct session *s)
{
	struct stat st;

	assert_int_equal(r->a->imports, 0);
	assert_int_equal(r->a->commands_running, 0);
	assert_int_equal(s->running, 0);
	assert_null(r->core->imports_first);
	assert_null(r->core->imports_last);
	assert_int_equal(r->core->imports_placed, 0);
	assert_int_equal(r->core->imports_waiting, 0);
	/* The archive had no name but its descriptor. */
	if (r->runtime.calls[RIG_FETCH] && fstat(r->runtime.fetch_fd, &st) == 0)
		assert_true(st.st_nlink > 0 || !S_ISREG(st.st_mode));
}

static unsigned commands(struct rig *r)
{
	struct usage_month month;

	usage_get(r->core, r->a, &month);
	return (unsigned)month.commands;
}

static void an_archive_goes_through_a_file_without_a_name(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o;

	r->runtime.archive = "archive!";
	r->runtime.fetched.bytes = 8;
	r->runtime.number = 12;
	r->runtime.hold[RIG_UNPACK] = true;
	begin(r, s, &o);
	assert_string_equal(r->runtime.url, "https://github.com/o/r/archive/v1.tar.gz");
	assert_string_equal(r->runtime.hosts,
			    "github.com github.com codeload.github.com api.github.com");
	assert_int_equal(r->runtime.max, 10 * MB);
	assert_string_equal(r->runtime.path, "a/b");
	assert_string_equal(r->runtime.unpacked, "archive!");
	assert_int_equal(r->runtime.unpack.size, 8);
	assert_int_equal(r->runtime.unpack.quota_bytes, s->quota_bytes);
	struct stat st;
	assert_int_equal(fstat(r->runtime.unpack.fd, &st), 0);
	assert_int_equal(st.st_nlink, 0);
	/* It holds a slot and keeps the session. */
	assert_int_equal(r->a->commands_running, 1);
	assert_int_equal(s->running, 1);
	assert_int_equal(commands(r), 0);
	rig_advance(r, 3 * RIG_SECOND);
	rig_answer(r);
	assert_int_equal(o.n, 1);
	assert_string_equal(o.slug, "");
	assert_int_equal(o.files, 12);
	assert_int_equal(o.archive_bytes, 8);
	assert_string_equal(o.ref, "v1");
	assert_int_equal(commands(r), 1);
	assert_settled(r, s);
}

static void bad_texts_are_refused_at_once(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	const struct import_params p = { .repo = STR("nonsense"), .actor = "static key" };
	struct import *im;
	struct err err;

	assert_true(import_start(r->core, s, &p, on_import, NULL, &im, &err) < 0);
	assert_string_equal(err.slug, "bad_repo");
	assert_int_equal(r->runtime.calls[RIG_LOOK], 0);
	assert_settled(r, s);
}

static void a_name_that_is_taken_costs_no_download(void **state)
{
	static const struct {
		const char *slug, *said, *text; /* slug NULL: it is there */
	} rows[] = {
		{ NULL, "destination_exists",
		  "/workspace/a/b already exists. Pick another folder name or delete it first." },
		{ "path_outside", "path_outside",
		  "Access denied: symlink/path traversal outside workspace for 'a/b'" },
		{ "not_in_folder", "not_in_folder", "'a/b' is not inside a folder." },
		{ "internal", "internal", "Internal Server Error" },
	};
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		r->runtime.fail[RIG_LOOK] = rows[i].slug;
		begin(r, s, &o);
		assert_refused(&o, rows[i].said, rows[i].text);
	}
	assert_int_equal(r->runtime.calls[RIG_FETCH], 0);
	/* Nobody had time to look: unpacking will find out. */
	r->runtime.fail[RIG_LOOK] = "busy";
	r->runtime.fail[RIG_UNPACK] = "exists";
	begin(r, s, &o);
	assert_refused(&o, "destination_exists", rows[0].text);
	assert_int_equal(r->runtime.calls[RIG_FETCH], 1);
	assert_settled(r, s);
}

static void a_download_that_fails_says_how(void **state)
{
	static const struct {
		struct runtime_fetch_result result;
		const char *slug, *text;
	} rows[] = {
		{ { RUNTIME_FETCH_STATUS, 404, 0, "", "" },
		  "repo_not_found",
		  "o/r@v1 wasn't found. Only public repositories can be imported." },
		{ { RUNTIME_FETCH_STATUS, 500, 0, "", "" },
		  "github_failed",
		  "GitHub answered 500 for o/r." },
		{ { RUNTIME_FETCH_TOO_LARGE, 200, 0, "", "" },
		  "import_too_large",
		  "o/r is larger than the 10 MB import limit." },
		{ { RUNTIME_FETCH_REDIRECT, 302, 0, "evil.test", "" },
		  "github_failed",
		  "GitHub redirected the download to an unexpected host (evil.test)." },
		{ { RUNTIME_FETCH_FAILED, 0, 0, "", "no answer" },
		  "github_failed",
		  "Couldn't download o/r: no answer" },
		{ { RUNTIME_FETCH_NO_SPACE, 200, 0, "", "" }, "busy", BUSY },
	};
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		r->runtime.fetched = rows[i].result;
		begin(r, s, &o);
		assert_refused(&o, rows[i].slug, rows[i].text);
	}
	assert_int_equal(r->runtime.calls[RIG_UNPACK], 0);
	assert_int_equal(commands(r), 0);
	assert_settled(r, s);
}

static void the_slot_is_taken_after_the_download(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o;

	r->a->commands_running = r->a->limits.max_concurrent_exec;
	r->runtime.hold[RIG_FETCH] = true;
	begin(r, s, &o);
	assert_int_equal(o.n, 0);
	rig_answer(r);
	assert_refused(&o, "exec_limit",
		       "Too many commands running at once: 4 allowed. Wait for one to finish.");
	assert_int_equal(r->runtime.calls[RIG_UNPACK], 0);
	assert_int_equal(r->a->commands_running, 4);
	r->a->commands_running = 0;
	assert_int_equal(commands(r), 0);
	assert_settled(r, s);
}

static void unpacking_that_fails_says_why(void **state)
{
	static const struct {
		const char *fail;
		enum runtime_archive_fault fault;
		uint64_t bytes, used;
		const char *slug, *text;
		unsigned counted;
	} rows[] = {
		{ "unpack_failed", RUNTIME_ARCHIVE_BROKEN, 8, 0, "unpack_failed",
		  "Unpacking o/r failed: the archive is damaged or cut short.", 1 },
		{ "unpack_failed", RUNTIME_ARCHIVE_TIME, 8, 0, "unpack_failed",
		  "Unpacking o/r failed: it took longer than 120 s.", 1 },
		{ "unpack_failed", RUNTIME_ARCHIVE_MEMORY, 8, 0, "unpack_failed",
		  "Unpacking o/r failed: it took more memory than a sandbox has.", 1 },
		{ "unpack_failed", RUNTIME_ARCHIVE_KILLED, 8, 0, "unpack_failed",
		  "Unpacking o/r failed: what unpacked it was killed.", 1 },
		{ "unpack_failed", RUNTIME_ARCHIVE_CRASHED, 8, 0, "unpack_failed",
		  "Unpacking o/r failed: what unpacked it crashed.", 1 },
		{ "quota", 0, 4 * MB, 510 * MB, "import_no_space",
		  "The archive (4.0 MB) doesn't fit in the workspace's free disk space (2.0 MB).",
		  1 },
		{ "quota", 0, 4 * MB, 513 * MB, "import_no_space",
		  "The archive (4.0 MB) doesn't fit in the workspace's free disk space (0.0 MB).",
		  1 },
		{ "quota", 0, 1 * MB, 510 * MB, "import_no_space",
		  "The files of o/r don't fit in the workspace's free disk space (2.0 MB).", 1 },
		{ "too_many_files", 0, 8, 0, "too_many_files", "The workspace has too many files.",
		  1 },
		{ "busy", 0, 8, 0, "busy", BUSY, 0 },
		{ "no_capacity", 0, 8, 0, "no_capacity",
		  "All sandbox workspaces are in use; try again shortly.", 0 },
		{ "internal", 0, 8, 0, "internal", "Internal Server Error", 1 },
	};
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned before = commands(r);
		r->runtime.fail[RIG_UNPACK] = rows[i].fail;
		r->runtime.fault = rows[i].fault;
		r->runtime.fetched.bytes = rows[i].bytes;
		r->runtime.used = rows[i].used;
		begin(r, s, &o);
		assert_refused(&o, rows[i].slug, rows[i].text);
		assert_int_equal(commands(r) - before, rows[i].counted);
	}
	/* After the last one nobody knows what is left: the next write is measured. */
	assert_true(s->disk.pending >= s->quota_bytes);
	assert_settled(r, s);
}

static void whoever_was_ended_may_have_left_something(void **state)
{
	static const struct {
		enum runtime_archive_fault fault;
		bool left;
	} rows[] = {
		{ RUNTIME_ARCHIVE_BROKEN, false },
		{ RUNTIME_ARCHIVE_LIMIT, false },
		{ RUNTIME_ARCHIVE_TIME, true },
		{ RUNTIME_ARCHIVE_KILLED, true },
	};
	struct rig *r = *state;
	struct outcome o;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct session *s = rig_session(r, r->a);
		r->runtime.fail[RIG_UNPACK] = "unpack_failed";
		r->runtime.fault = rows[i].fault;
		begin(r, s, &o);
		assert_string_equal(o.slug, "unpack_failed");
		assert_int_equal(s->disk.pending >= s->quota_bytes, rows[i].left);
	}
}

static void two_of_a_tenant_and_eight_in_all_have_a_place(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a), *other = rig_session(r, r->b);
	struct outcome o[4], of_b;

	r->runtime.hold[RIG_UNPACK] = true;
	for (size_t i = 0; i < ARRAY_SIZE(o); i++)
		begin(r, s, &o[i]);
	assert_int_equal(r->runtime.calls[RIG_LOOK], 2);
	/* Another tenant does not wait for them. */
	begin(r, other, &of_b);
	assert_int_equal(r->runtime.calls[RIG_UNPACK], 3);
	/* One that leaves the line takes nobody's turn. */
	import_detach(o[2].import);
	rig_answer(r);
	assert_int_equal(o[0].n + o[1].n + o[3].n + of_b.n, 4);
	assert_int_equal(o[2].n, 0);
	assert_int_equal(r->runtime.calls[RIG_FETCH], 4);
	assert_settled(r, s);

	/* As if six others had one. */
	r->core->imports_placed = 7;
	r->runtime.hold[RIG_LOOK] = true;
	begin(r, s, &o[0]);
	begin(r, s, &o[1]);
	assert_int_equal(r->core->imports_placed, 8);
	assert_int_equal(r->core->imports_waiting, 1);
	rig_answer(r);
	assert_int_equal(o[0].n + o[1].n, 2);
	assert_int_equal(r->core->imports_placed, 7);
	r->core->imports_placed = 0;
}

static void nobody_waits_for_ever(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o[3];

	r->runtime.hold[RIG_FETCH] = true;
	for (size_t i = 0; i < ARRAY_SIZE(o); i++)
		begin(r, s, &o[i]);
	rig_advance(r, 20 * RIG_SECOND - 1);
	imports_expire(r->core, (RIG_START_US / 2) + 20 * RIG_SECOND - 1);
	rig_settle(r);
	assert_int_equal(o[2].n, 0);
	rig_advance(r, 1);
	imports_expire(r->core, (RIG_START_US / 2) + 20 * RIG_SECOND);
	rig_settle(r);
	assert_refused(&o[2], "busy", BUSY);
	assert_int_equal(o[0].n + o[1].n, 0);
	rig_answer(r);
	/* Late, but with what is left of the time. */
	assert_int_equal(r->runtime.queue_ms, 40000);
	assert_int_equal(o[0].n + o[1].n, 2);
	assert_settled(r, s);
}

static const enum rig_kind steps[] = { RIG_LOOK, RIG_FETCH, RIG_UNPACK };

static void whoever_lets_go_ends_it_until_it_unpacks(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o;

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		r->runtime.hold[steps[i]] = true;
		begin(r, s, &o);
		import_detach(o.import);
		if (steps[i] != RIG_UNPACK)
			assert_settled(r, s);
		rig_answer(r);
		assert_int_equal(o.n, 0);
		assert_settled(r, s);
	}
	assert_int_equal(r->runtime.cancelled, 1);
	assert_int_equal(commands(r), 1);
}

static void a_session_that_is_deleted_ends_it(void **state)
{
	struct rig *r = *state;

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct session *s = rig_session(r, r->a);
		struct outcome o;
		r->runtime.hold[steps[i]] = true;
		begin(r, s, &o);
		session_ref(s);
		session_delete(r->core, s, NULL, NULL);
		assert_int_equal(o.n, 0);
		rig_settle(r);
		if (steps[i] != RIG_UNPACK)
			assert_refused(&o, "session_not_found", GONE);
		/* The worker ended with the workspace. */
		r->runtime.fail[RIG_UNPACK] = "internal";
		rig_answer(r);
		r->runtime.fail[RIG_UNPACK] = NULL;
		assert_refused(&o, "session_not_found", GONE);
		assert_settled(r, s);
		session_unref(s);
	}
}

static void a_stop_ends_all(void **state)
{
	for (size_t i = 0; i <= ARRAY_SIZE(steps); i++) {
		struct rig *r = *state;
		struct session *s = rig_session(r, r->a);
		struct outcome o[3];
		bool late = i == ARRAY_SIZE(steps);
		r->runtime.hold[steps[late ? 0 : i]] = true;
		for (size_t k = 0; k < ARRAY_SIZE(o); k++)
			begin(r, s, &o[k]);
		if (late)
			import_detach(o[0].import);
		rig_close(r);
		for (size_t k = late; k < ARRAY_SIZE(o); k++)
			assert_refused(&o[k], "stopping",
				       "The server is stopping; try again shortly.");
		memset(r->runtime.hold, 0, sizeof(r->runtime.hold));
		rig_open(r);
	}
}

static void an_import_keeps_its_session(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o;
	int64_t ttl_us = r->config.session_ttl_ms * 1000;

	r->runtime.hold[RIG_FETCH] = true;
	begin(r, s, &o);
	rig_advance(r, ttl_us);
	core_sweep(r->core, (RIG_START_US / 2) + ttl_us);
	assert_int_equal(s->state, SESSION_READY);
	rig_answer(r);
	assert_int_equal(o.n, 1);
	/* And its end was a use. */
	core_sweep(r->core, (RIG_START_US / 2) + ttl_us);
	assert_int_equal(s->state, SESSION_READY);
}

static void a_disk_without_room_is_not_filled(void **state)
{
	struct rig *r = *state;
	struct outcome o;

	rig_close(r);
	r->config.import_max = UINT64_MAX / 4;
	rig_open(r);
	struct session *s = rig_session(r, r->a);
	begin(r, s, &o);
	assert_refused(&o, "busy", BUSY);
	assert_int_equal(r->runtime.calls[RIG_FETCH], 0);
	rig_close(r);
	r->config.import_max = 10 * MB;
	r->config.tmp_dir = "/nowhere";
	rig_open(r);
	s = session_next(r->core, r->a, NULL);
	begin(r, s, &o);
	assert_refused(&o, "busy", BUSY);
	assert_settled(r, s);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(an_archive_goes_through_a_file_without_a_name),
		T(bad_texts_are_refused_at_once),
		T(a_name_that_is_taken_costs_no_download),
		T(a_download_that_fails_says_how),
		T(the_slot_is_taken_after_the_download),
		T(unpacking_that_fails_says_why),
		T(whoever_was_ended_may_have_left_something),
		T(two_of_a_tenant_and_eight_in_all_have_a_place),
		T(nobody_waits_for_ever),
		T(whoever_lets_go_ends_it_until_it_unpacks),
		T(a_session_that_is_deleted_ends_it),
		T(a_stop_ends_all),
		T(an_import_keeps_its_session),
		T(a_disk_without_room_is_not_filled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
