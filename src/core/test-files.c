// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/parts.h"
#include "core/rig.h"

#define MB (1ull << 20)

struct outcome {
	unsigned n;
	bool missing;
	char slug[64], text[1024], bytes[256];
};

static void note(struct outcome *o, const struct err *err)
{
	o->n++;
	snprintf(o->slug, sizeof(o->slug), "%s", err ? err->slug : "");
	snprintf(o->text, sizeof(o->text), "%s", err ? err->text : "");
}

static void on_read(void *data, bool missing, struct str bytes, const struct err *err)
{
	struct outcome *o = data;

	note(o, err);
	o->missing = missing;
	snprintf(o->bytes, sizeof(o->bytes), "%.*s", (int)bytes.len, bytes.data ? bytes.data : "");
}

static void on_written(void *data, const struct err *err)
{
	note(data, err);
}

static struct outcome read_path(struct rig *r, struct session *s, const char *path)
{
	struct outcome o = { 0 };

	files_read(r->core, s, str_of(path), on_read, &o);
	assert_int_equal(o.n, 0);
	rig_settle(r);
	assert_int_equal(o.n, 1);
	return o;
}

static struct outcome write_path(struct rig *r, struct session *s, const char *path, size_t len)
{
	struct outcome o = { 0 };
	_cleanup_free_ char *bytes = mem_new(len, 1);

	files_write(r->core, s, str_of(path), (struct str){ bytes, len }, on_written, &o);
	assert_int_equal(o.n, 0);
	rig_settle(r);
	assert_int_equal(o.n, 1);
	return o;
}

static void text_comes_back_as_it_is(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	r->runtime.text = "h\xc3\xbc\r\n";
	struct outcome o = read_path(r, s, "a");
	assert_string_equal(o.slug, "");
	assert_false(o.missing);
	assert_string_equal(o.bytes, "h\xc3\xbc\r\n");
	assert_int_equal(r->runtime.max, 64 * MB);
}

static void a_missing_file_is_no_error(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	r->runtime.fail[RIG_READ] = "file_not_found";
	struct outcome o = read_path(r, s, "no/such");
	assert_true(o.missing);
	assert_string_equal(o.slug, "");
}

static void each_failure_of_a_read_has_its_words(void **state)
{
	static const struct {
		const char *from, *slug, *text;
	} cases[] = {
		{ "path_outside", "path_outside",
		  "Access denied: symlink/path traversal outside workspace for '../x'" },
		{ "is_folder", "is_folder", "'../x' is a folder." },
		{ "not_regular_file", "not_regular_file", "'../x' is not a regular file." },
		{ "not_in_folder", "not_in_folder", "'../x' is not inside a folder." },
		{ "permission_denied", "permission_denied", "Permission denied for '../x'." },
		{ "file_too_large", "file_too_large",
		  "File '../x' is larger than the 64 MB read limit; use download." },
		{ "too_deep", "too_deep", "The workspace has more than 8,192 levels of folders." },
		{ "changed", "changed",
		  "The workspace was changed while it was being looked at; try again." },
		{ "busy", "busy", "The server is busy; try again shortly." },
		{ "internal", "internal", "Internal Server Error" },
		{ "something else", "internal", "Internal Server Error" },
	};
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		r->runtime.fail[RIG_READ] = cases[i].from;
		struct outcome o = read_path(r, s, "../x");
		assert_string_equal(o.slug, cases[i].slug);
		assert_string_equal(o.text, cases[i].text);
		assert_false(o.missing);
	}
}

static void bytes_that_are_no_text_are_refused(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	r->runtime.text = "a\xff";
	struct outcome o = read_path(r, s, "b.bin");
	assert_string_equal(o.slug, "not_utf8");
	assert_string_equal(o.text, "'b.bin' is not UTF-8 text; use download.");
}

static void a_long_path_is_shown_to_200_characters(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	char path[700] = "", want[700];

	for (unsigned i = 0; i < 201; i++)
		memcpy(path + i * 3, "\xe2\x82\xac", 4);
	snprintf(want, sizeof(want), "'%.600s' is a folder.", path);
	r->runtime.fail[RIG_READ] = "is_folder";
	assert_string_equal(read_path(r, s, path).text, want);
}

static void quota_figures_are_one_decimal_and_none(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	r->runtime.fail[RIG_WRITE] = "quota";
	r->runtime.used = 513 * MB + MB / 4;
	struct outcome o = write_path(r, s, "a/b.txt", 10);
	assert_string_equal(o.slug, "quota");
	assert_string_equal(o.text, "Writing a/b.txt would use 513.2 MB of the workspace's 512 MB "
				    "disk quota. Delete files first.");
	/* The session keeps the quota that it was made with, whatever is configured now. */
	s->quota_bytes = 100 * MB;
	o = write_path(r, s, "a/b.txt", 10);
	assert_string_equal(o.text, "Writing a/b.txt would use 513.2 MB of the workspace's 100 MB "
				    "disk quota. Delete files first.");
	r->runtime.fail[RIG_WRITE] = "too_many_files";
	o = write_path(r, s, "a/b.txt", 10);
	assert_string_equal(o.slug, "too_many_files");
	assert_string_equal(o.text, "The workspace has too many files.");
}

static void the_quota_is_checked_when_it_may_be_near(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	for (unsigned i = 0; i < 7; i++) {
		write_path(r, s, "a", 64 * MB);
		assert_int_equal(r->runtime.quota, 0);
	}
	write_path(r, s, "a", 64 * MB);
	assert_int_equal(r->runtime.quota, 512 * MB);
	assert_int_equal(r->runtime.calls[RIG_STAT], 0);
	/* Long after the last write the counter has caught up and is believed. */
	rig_advance(r, 41 * RIG_SECOND);
	r->runtime.counter = 64 * MB;
	write_path(r, s, "a", 1);
	assert_int_equal(r->runtime.calls[RIG_STAT], 1);
	assert_int_equal(r->runtime.quota, 0);
	rig_advance(r, 41 * RIG_SECOND);
	write_path(r, s, "a", 1);
	assert_int_equal(r->runtime.calls[RIG_STAT], 1);
}

static void after_a_restart_nothing_is_assumed_about_the_disk(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	rig_close(r);
	rig_open(r);
	s = session_next(r->core, r->a, NULL);
	write_path(r, s, "a", 1);
	assert_int_equal(r->runtime.quota, 512 * MB);
}

static void the_ninth_call_of_a_tenant_waits_in_order(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a), *other = rig_session(r, r->b);
	struct outcome o[12] = { 0 }, theirs = { 0 };

	r->runtime.hold[RIG_READ] = true;
	for (size_t i = 0; i < 12; i++)
		files_read(r->core, s, STR("x"), on_read, &o[i]);
	files_read(r->core, other, STR("x"), on_read, &theirs);
	assert_int_equal(r->runtime.calls[RIG_READ], 9);
	assert_int_equal(r->a->files[FILES_QUICK].running, 8);
	rig_answer(r);
	for (size_t i = 0; i < 12; i++)
		assert_int_equal(o[i].n, 1);
	assert_int_equal(theirs.n, 1);
	assert_int_equal(r->runtime.calls[RIG_READ], 13);
	assert_int_equal(r->a->files[FILES_QUICK].running, 0);
}

static void who_waits_a_minute_is_told_that_the_server_is_busy(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o[10] = { 0 };

	r->runtime.hold[RIG_READ] = true;
	for (size_t i = 0; i < 9; i++)
		files_read(r->core, s, STR("x"), on_read, &o[i]);
	rig_advance(r, 30 * RIG_SECOND);
	files_read(r->core, s, STR("x"), on_read, &o[9]);
	rig_advance(r, 30 * RIG_SECOND - 1);
	files_expire(r->core, clock_monotonic_us());
	assert_int_equal(o[8].n, 0);
	rig_advance(r, 1);
	files_expire(r->core, clock_monotonic_us());
	assert_int_equal(o[8].n, 1);
	assert_string_equal(o[8].slug, "busy");
	assert_int_equal(o[9].n, 0);
	rig_answer(r);
	assert_int_equal(o[9].n, 1);
	assert_string_equal(o[9].slug, "");
	assert_int_equal(o[8].n, 1);
	/* And no longer in the workspace's own line. */
	assert_int_equal(r->runtime.queue_ms, 30000);
}

static void who_gets_its_place_late_has_a_second_in_the_workspace(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o[9] = { 0 };

	r->runtime.hold[RIG_READ] = true;
	for (size_t i = 0; i < 9; i++)
		files_read(r->core, s, STR("x"), on_read, &o[i]);
	assert_int_equal(r->runtime.queue_ms, 60000);
	rig_advance(r, 60 * RIG_SECOND - 1);
	rig_answer(r);
	assert_string_equal(o[8].slug, "");
	assert_int_equal(r->runtime.queue_ms, 1000);
}

static void a_deleted_session_answers_those_who_wait(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o[9] = { 0 };

	r->runtime.hold[RIG_READ] = true;
	for (size_t i = 0; i < 9; i++)
		files_read(r->core, s, STR("x"), on_read, &o[i]);
	session_delete(r->core, s, NULL, NULL);
	rig_settle(r);
	r->runtime.fail[RIG_READ] = "internal";
	rig_answer(r);
	for (size_t i = 0; i < 9; i++) {
		assert_int_equal(o[i].n, 1);
		assert_string_equal(o[i].slug, "session_not_found");
	}
}

static void a_detached_call_is_silent_in_every_state(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct files_call *calls[10];
	struct outcome o[10] = { 0 };

	r->runtime.hold[RIG_READ] = r->runtime.hold[RIG_WRITE] = true;
	for (size_t i = 0; i < 4; i++)
		calls[i] = files_read(r->core, s, STR("x"), on_read, &o[i]);
	for (size_t i = 4; i < 10; i++)
		calls[i] = files_write(r->core, s, STR("x"), STR("y"), on_written, &o[i]);
	/* 8 and 9 wait; 4 to 7 write, 0 to 3 read. */
	files_detach(calls[9]);
	files_detach(calls[4]);
	files_detach(calls[0]);
	rig_answer(r);
	for (size_t i = 0; i < 10; i++)
		assert_int_equal(o[i].n, i != 0 && i != 4 && i != 9);
	assert_int_equal(r->a->files[FILES_QUICK].running, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(text_comes_back_as_it_is),
		T(a_missing_file_is_no_error),
		T(each_failure_of_a_read_has_its_words),
		T(bytes_that_are_no_text_are_refused),
		T(a_long_path_is_shown_to_200_characters),
		T(quota_figures_are_one_decimal_and_none),
		T(the_quota_is_checked_when_it_may_be_near),
		T(after_a_restart_nothing_is_assumed_about_the_disk),
		T(the_ninth_call_of_a_tenant_waits_in_order),
		T(who_waits_a_minute_is_told_that_the_server_is_busy),
		T(who_gets_its_place_late_has_a_second_in_the_workspace),
		T(a_deleted_session_answers_those_who_wait),
		T(a_detached_call_is_silent_in_every_state),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
