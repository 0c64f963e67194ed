// SPDX-License-Identifier: Apache-2.0
/* Transfers and the tree in a tenant's line: order, quota, words, letting go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/parts.h"
#include "core/rig.h"

#define MB (1ull << 20)

struct outcome {
	struct files_call *call;
	unsigned n, wanted, begun;
	uint64_t size;
	bool lets_go;
	char slug[64], text[1024], bytes[64];
};

static void note(struct outcome *o, const struct err *err)
{
	o->n++;
	snprintf(o->slug, sizeof(o->slug), "%s", err ? err->slug : "");
	snprintf(o->text, sizeof(o->text), "%s", err ? err->text : "");
}

static void on_wanted(void *data)
{
	((struct outcome *)data)->wanted++;
}

static void on_uploaded(void *data, uint64_t size, const struct err *err)
{
	struct outcome *o = data;

	o->size = size;
	note(o, err);
}

static void on_begun(void *data, uint64_t size)
{
	struct outcome *o = data;

	o->begun++;
	o->size = size;
}

static bool on_bytes(void *data, struct str bytes)
{
	struct outcome *o = data;

	snprintf(o->bytes, sizeof(o->bytes), "%.*s", (int)bytes.len, bytes.data);
	if (o->lets_go)
		files_detach(o->call);
	return true;
}

static void on_downloaded(void *data, const struct err *err)
{
	note(data, err);
}

static void on_list(void *data, const struct runtime_entry *entries, size_t n, bool more,
		    const struct err *err)
{
	struct outcome *o = data;

	o->size = n;
	note(o, err);
	if (n)
		snprintf(o->bytes, sizeof(o->bytes), "%.*s", (int)entries[0].path.len,
			 entries[0].path.data);
}

static void on_change(void *data, uint64_t number, const struct err *err)
{
	struct outcome *o = data;

	o->size = number;
	note(o, err);
}

static const struct files_upload_ops up_ops = { on_wanted, on_uploaded };
static const struct files_download_ops down_ops = { on_begun, on_bytes, on_downloaded };

static void upload(struct rig *r, struct session *s, struct outcome *o, uint64_t size)
{
	*o = (struct outcome){ .n = 0 };
	o->call = files_upload(r->core, s, STR("up.bin"), size, &up_ops, o);
	assert_int_equal(o->n + o->wanted, 0);
}

static void an_upload_is_passed_through(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o;

	r->runtime.hold[RIG_UPLOAD] = true;
	upload(r, s, &o, 7);
	rig_settle(r);
	assert_int_equal(r->runtime.upload.size, 7);
	assert_int_equal(r->runtime.upload.max, 50 * MB);
	r->runtime.up.wanted(r->runtime.up_data);
	assert_int_equal(o.wanted, 1);
	assert_true(files_give(o.call, STR("abc")));
	assert_false(files_give(o.call, STR("defg")));
	files_give_end(o.call);
	assert_string_equal(r->runtime.given, "abcdefg");
	assert_true(r->runtime.given_end);
	r->runtime.number = 7;
	rig_answer(r);
	assert_int_equal(o.n, 1);
	assert_string_equal(o.slug, "");
	assert_int_equal(o.size, 7);
}

static void the_quota_is_looked_at_for_what_may_come(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o;

	/* 512 MB; ten of 50 are below it. */
	for (unsigned i = 0; i < 10; i++) {
		upload(r, s, &o, i % 2 ? RUNTIME_SIZE_UNKNOWN : 50 * MB);
		rig_settle(r);
		assert_int_equal(r->runtime.upload.quota_bytes, 0);
	}
	upload(r, s, &o, 50 * MB);
	rig_settle(r);
	assert_int_equal(r->runtime.upload.quota_bytes, 512 * MB);
	r->runtime.fail[RIG_UPLOAD] = "quota";
	r->runtime.used = 563 * MB;
	upload(r, s, &o, 50 * MB);
	rig_settle(r);
	assert_string_equal(o.slug, "quota");
	assert_string_equal(o.text, "Writing up.bin would use 563.0 MB of the workspace's 512 MB "
				    "disk quota. Delete files first.");
}

static void a_download_is_begun_then_bytes_then_done(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	r->runtime.text = "bytes\xff";
	for (unsigned i = 0; i < 2; i++) {
		struct outcome o = { .n = 0 };
		o.call = i ? files_archive(r->core, s, STR("x"), &down_ops, &o)
			   : files_download(r->core, s, STR("x"), &down_ops, &o);
		assert_int_equal(o.begun, 0);
		rig_settle(r);
		assert_int_equal(o.begun, 1);
		assert_int_equal(o.size, 6);
		assert_string_equal(o.bytes, "bytes\xff");
		assert_int_equal(o.n, 1);
		assert_string_equal(o.slug, "");
		assert_int_equal(r->runtime.max, 512 * MB);
	}
	assert_int_equal(r->a->files[FILES_SLOW].running, 0);
}

static void each_failure_has_its_words(void **state)
{
	static const struct {
		enum rig_kind kind;
		const char *from, *slug, *text;
	} cases[] = {
		{ RIG_DOWNLOAD, "file_not_found", "file_not_found", "File 'x' does not exist." },
		{ RIG_DOWNLOAD, "is_folder", "is_folder", "'x' is a folder." },
		{ RIG_DOWNLOAD, "not_regular_file", "not_regular_file",
		  "'x' is not a regular file." },
		{ RIG_DOWNLOAD, "file_too_large", "file_too_large",
		  "File 'x' is larger than the 512 MB download limit." },
		{ RIG_PACK, "file_not_found", "file_not_found", "Folder 'x' does not exist." },
		{ RIG_PACK, "not_folder", "not_folder", "'x' is not a folder." },
		{ RIG_PACK, "path_outside", "path_outside",
		  "Access denied: symlink/path traversal outside workspace for 'x'" },
		{ RIG_LIST, "file_not_found", "file_not_found", "Folder 'x' does not exist." },
		{ RIG_LIST, "internal", "internal", "Internal Server Error" },
	};
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct outcome o = { .n = 0 };
		r->runtime.fail[cases[i].kind] = cases[i].from;
		if (cases[i].kind == RIG_DOWNLOAD)
			files_download(r->core, s, STR("x"), &down_ops, &o);
		else if (cases[i].kind == RIG_PACK)
			files_archive(r->core, s, STR("x"), &down_ops, &o);
		else
			files_list(r->core, s, STR("x"), STR(""), 1, on_list, &o);
		rig_settle(r);
		assert_int_equal(o.n, 1);
		assert_int_equal(o.begun, 0);
		assert_string_equal(o.slug, cases[i].slug);
		assert_string_equal(o.text, cases[i].text);
	}
}

static void a_change_blames_the_path_that_is_meant(void **state)
{
	static const struct {
		const char *from;
		uint64_t used;
		const char *slug, *text;
	} cases[] = {
		{ "file_not_found", 0, "file_not_found", "File 'a' does not exist." },
		{ "exists", 0, "exists", "'b' already exists." },
		{ "not_in_folder", 1, "not_in_folder", "'b' is not inside a folder." },
		{ "not_in_folder", 0, "not_in_folder", "'a' is not inside a folder." },
	};
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o = { .n = 0 };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		r->runtime.fail[RIG_CHANGE] = cases[i].from;
		r->runtime.used = cases[i].used;
		files_move(r->core, s, STR("a"), STR("b"), false, on_change, &o);
		rig_settle(r);
		assert_string_equal(o.slug, cases[i].slug);
		assert_string_equal(o.text, cases[i].text);
	}
	r->runtime.fail[RIG_CHANGE] = "not_empty";
	files_remove(r->core, s, STR("d"), false, on_change, &o);
	rig_settle(r);
	assert_string_equal(o.text, "'d' is not empty.");
	r->runtime.fail[RIG_CHANGE] = "is_folder";
	files_remove(r->core, s, STR("d/.."), true, on_change, &o);
	assert_true(r->runtime.flag);
	rig_settle(r);
	assert_string_equal(o.text, "'d/..' is the workspace itself.");
}

static void changes_and_listings_say_what_was_done(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o = { .n = 0 };

	r->runtime.number = 3;
	files_remove(r->core, s, STR("d"), true, on_change, &o);
	rig_settle(r);
	assert_int_equal(o.size, 3);
	r->runtime.number = 1;
	files_mkdir(r->core, s, STR("d"), on_change, &o);
	rig_settle(r);
	assert_int_equal(o.size, 1);
	files_move(r->core, s, STR("a"), STR("b"), true, on_change, &o);
	rig_settle(r);
	assert_string_equal(r->runtime.second, "b");
	assert_true(r->runtime.flag);
	r->runtime.text = "d/e";
	files_list(r->core, s, STR("."), STR("d"), 5, on_list, &o);
	rig_settle(r);
	assert_string_equal(r->runtime.second, "d");
	assert_int_equal(r->runtime.depth, 5);
	assert_int_equal(o.size, 1);
	assert_string_equal(o.bytes, "d/e");
	assert_int_equal(o.n, 4);
	assert_string_equal(o.slug, "");
}

static void what_breaks_after_its_beginning_has_no_words(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o = { .n = 0 };

	r->runtime.text = "half";
	r->runtime.breaks = "internal";
	files_download(r->core, s, STR("x"), &down_ops, &o);
	rig_settle(r);
	assert_int_equal(o.begun, 1);
	assert_int_equal(o.n, 1);
	assert_string_equal(o.slug, "internal");
	assert_string_equal(o.text, "");
}

static void a_session_has_one_place_for_all_its_transfers(void **state)
{
	struct rig *r = *state;
	struct session *greedy = rig_session(r, r->a), *other = rig_session(r, r->a);
	struct outcome all[10], second, o = { .n = 0 };

	r->runtime.hold[RIG_UPLOAD] = true;
	for (unsigned i = 0; i < 10; i++)
		upload(r, greedy, &all[i], 5);
	rig_settle(r);
	assert_int_equal(r->a->files[FILES_SLOW].running, 1);
	/* Its turn is now, and behind it nobody's is lost. */
	upload(r, other, &second, 5);
	rig_settle(r);
	assert_int_equal(r->runtime.calls[RIG_UPLOAD], 2);
	assert_true(greedy->transferring && other->transferring);
	/* A download is a transfer, too. */
	r->runtime.text = "abc";
	files_download(r->core, other, STR("x"), &down_ops, &o);
	rig_settle(r);
	assert_int_equal(o.begun, 0);
	files_detach(second.call);
	rig_settle(r);
	assert_int_equal(o.n, 1);
	/* In order, one after the other. */
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(r->runtime.calls[RIG_UPLOAD], 2 + i);
		assert_int_equal(all[i].n, 0);
		files_detach(all[i].call);
		rig_settle(r);
	}
	assert_int_equal(r->a->files[FILES_SLOW].running, 0);
	assert_null(r->a->files[FILES_SLOW].first);
	assert_null(r->a->files[FILES_SLOW].last);
	/* The next one needs no place to be given away. */
	r->runtime.hold[RIG_UPLOAD] = false;
	upload(r, greedy, &second, 5);
	rig_settle(r);
	assert_int_equal(second.n, 1);
}

static void letting_go_gives_the_place_away(void **state)
{
	struct rig *r = *state;
	struct session *s = NULL;
	struct outcome all[10];

	r->runtime.hold[RIG_UPLOAD] = true;
	for (unsigned i = 0; i < 10; i++) {
		s = rig_session(r, r->a);
		upload(r, s, &all[i], 5);
	}
	rig_settle(r);
	assert_int_equal(r->a->files[FILES_SLOW].running, 8);
	assert_int_equal(r->runtime.calls[RIG_UPLOAD], 8);
	/* What is over soon has a line of its own. */
	struct outcome quick = { .n = 0 };
	files_mkdir(r->core, s, STR("d"), on_change, &quick);
	rig_settle(r);
	assert_int_equal(quick.n, 1);
	files_detach(all[0].call);
	rig_settle(r);
	assert_int_equal(r->runtime.calls[RIG_UPLOAD], 9);
	/* One that waits. */
	files_detach(all[9].call);
	rig_answer(r);
	assert_int_equal(all[0].n + all[9].n, 0);
	for (unsigned i = 1; i < 9; i++)
		assert_int_equal(all[i].n, 1);
	assert_int_equal(r->a->files[FILES_SLOW].running, 0);
	/* Inside of a piece. */
	struct outcome o = { .lets_go = true };
	r->runtime.text = "abc";
	o.call = files_download(r->core, s, STR("x"), &down_ops, &o);
	rig_settle(r);
	assert_int_equal(o.begun, 1);
	assert_int_equal(o.n, 0);
	assert_int_equal(r->a->files[FILES_SLOW].running, 0);
}

static void a_transfer_of_a_session_that_ended_says_so(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o;

	r->runtime.hold[RIG_UPLOAD] = true;
	upload(r, s, &o, 5);
	rig_settle(r);
	session_delete(r->core, s, NULL, NULL);
	r->runtime.fail[RIG_UPLOAD] = "internal";
	rig_answer(r);
	assert_int_equal(o.n, 1);
	assert_string_equal(o.slug, "session_not_found");
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(an_upload_is_passed_through),
		T(the_quota_is_looked_at_for_what_may_come),
		T(a_download_is_begun_then_bytes_then_done),
		T(each_failure_has_its_words),
		T(a_change_blames_the_path_that_is_meant),
		T(changes_and_listings_say_what_was_done),
		T(what_breaks_after_its_beginning_has_no_words),
		T(a_session_has_one_place_for_all_its_transfers),
		T(letting_go_gives_the_place_away),
		T(a_transfer_of_a_session_that_ended_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
