// SPDX-License-Identifier: Apache-2.0
/* Listings that are true and listings that lie; changes without bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/mem.h"
#include "core/native/fake.h"

static const struct runtime_file_spec spec = { FAKE_VOLUME, 1, FAKE_IMAGE, { "dir", 3 } };

struct call {
	struct runtime_file *job;
	unsigned done;
	size_t n;
	bool more;
	char text[256]; /* "path>target," ... */
	struct runtime_entry first;
	struct runtime_file_result result;
	const char *slug;
};

static void on_list(void *data, const struct runtime_entry *entries, size_t n, bool more,
		    const struct err *err)
{
	struct call *c = data;
	_cleanup_buf_ struct buf text = BUF(sizeof(c->text) - 1);

	c->done++;
	c->n = n;
	c->more = more;
	c->slug = err ? err->slug : NULL;
	for (size_t i = 0; i < n; i++) {
		buf_put_str(&text, entries[i].path);
		buf_put_char(&text, '>');
		buf_put_str(&text, entries[i].target);
		buf_put_char(&text, ',');
	}
	if (n)
		c->first = entries[0];
	if (text.len)
		memcpy(c->text, text.data, text.len + 1);
}

static void on_change(void *data, const struct runtime_file_result *result, const struct err *err)
{
	struct call *c = data;

	c->done++;
	c->result = *result;
	c->slug = err ? err->slug : NULL;
}

static struct fake_sandbox *worker(struct fake *f)
{
	struct fake_sandbox *s = fake_busy(f);

	assert_non_null(s);
	assert_int_equal(s->got, DI_FILE);
	return s;
}

static struct di_file asked(const struct fake_sandbox *s)
{
	struct di_file body;

	memcpy(&body, s->body, sizeof(body));
	return body;
}

static void say_end(struct fake *f, struct fake_sandbox *s, struct id_file body)
{
	fake_drop_fds(s);
	fake_say(s, ID_FILE_END, s->job, &body, sizeof(body));
	fake_turn(f);
}

static void assert_spec(const struct fake_sandbox *s, const char *want, size_t len)
{
	char text[64];

	assert_int_equal(pread(s->fds[0], text, sizeof(text), 0), len);
	assert_memory_equal(text, want, len);
}

static void put(struct buf *out, const char *path, size_t path_len, const char *target,
		size_t target_len)
{
	const struct file_entry head = { .path_len = (uint32_t)path_len,
					 .target_len = (uint32_t)target_len,
					 .mode = S_IFREG | 0640,
					 .size = 12345,
					 .mtime = -7 };

	buf_put(out, &head, sizeof(head));
	buf_put(out, path, strlen(path));
	buf_put(out, target, strlen(target));
}

static void add(struct buf *out, const char *path)
{
	put(out, path, strlen(path), "", 0);
}

static struct fake_sandbox *start_list(struct fake *f, struct call *c, const char *after)
{
	*c = (struct call){ .done = 0 };
	c->job = runtime_list(f->rt, &spec, str_of(after), 2, on_list, c);
	assert_int_equal(c->done, 0);
	fake_turn(f);
	return worker(f);
}

static void pour(struct fake_sandbox *s, const struct buf *bytes)
{
	if (bytes->len)
		assert_int_equal(write(s->fds[1], bytes->data, bytes->len), bytes->len);
}

static void a_folder_is_listed(void **state)
{
	_cleanup_buf_ struct buf bytes = BUF(1000);
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	struct fake_sandbox *s = start_list(&f, &c, "a");
	assert_int_equal(asked(s).op, FILE_LIST);
	assert_int_equal(asked(s).max, RUNTIME_LIST_MAX);
	assert_int_equal(asked(s).depth, 2);
	assert_spec(s, "dir\0a", 6);
	add(&bytes, "a/b");
	put(&bytes, "c\xff", 2, "../x", 4);
	pour(s, &bytes);
	say_end(&f, s, (struct id_file){ .size = 2, .used = 1 });
	assert_int_equal(c.done, 1);
	assert_null(c.slug);
	assert_true(c.more);
	assert_string_equal(c.text, "a/b>,c\xff>../x,");
	assert_int_equal(c.first.mode, S_IFREG | 0640);
	assert_int_equal(c.first.size, 12345);
	assert_int_equal(c.first.mtime_s, -7);
	/* Nothing in it. */
	s = start_list(&f, &c, "");
	assert_spec(s, "dir\0", 5);
	say_end(&f, s, (struct id_file){ .size = 0 });
	assert_int_equal(c.done, 1);
	assert_null(c.slug);
	assert_int_equal(c.n, 0);
	assert_false(c.more);
	fake_stop(&f);
}

static void the_end_of_the_pipe_may_come_behind_the_answer(void **state)
{
	_cleanup_buf_ struct buf bytes = BUF(1000);
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	struct fake_sandbox *s = start_list(&f, &c, "");
	const struct id_file end = { .size = 1 };
	fake_say(s, ID_FILE_END, s->job, &end, sizeof(end));
	fake_turn(&f);
	assert_int_equal(c.done, 0);
	add(&bytes, "a");
	pour(s, &bytes);
	fake_turn(&f);
	assert_int_equal(c.done, 0);
	fake_drop_fds(s);
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_string_equal(c.text, "a>,");
	fake_stop(&f);
}

static void a_listing_that_lies_is_hostile(void **state)
{
	static const struct {
		const char *paths[3];
		size_t path_len, target_len; /* of an entry behind them; 0: none */
		struct id_file end;
	} table[] = {
		{ { "b" }, 0, 0, { .size = 2 } },	    /* fewer than said */
		{ { "b", "c" }, 0, 0, { .size = 1 } },	    /* more than said */
		{ { "c", "b" }, 0, 0, { .size = 2 } },	    /* not sorted */
		{ { "b", "b" }, 0, 0, { .size = 2 } },	    /* twice */
		{ { "a" }, 0, 0, { .size = 1 } },	    /* the cursor itself */
		{ { "" }, 0, 0, { .size = 1 } },	    /* before it, and no name */
		{ { NULL }, 2, 0, { .size = 1 } },	    /* longer than the rest */
		{ { NULL }, 1, 1, { .size = 1 } },	    /* the same of a target */
		{ { NULL }, 0xffffffff, 1, { .size = 1 } }, /* the sum wraps */
		{ { NULL }, LIMIT_PATH + 1, 0, { .size = 1 } },
		{ { "b" }, 0, 0, { .size = RUNTIME_LIST_MAX + 1 } },
		{ { NULL }, 0, 0, { .size = UINT64_MAX } },
		{ { NULL }, 0, 0, { .size = 0, .used = 1 } }, /* more behind nothing */
		{ { "b" }, 0, 0, { .size = 1, .used = 2 } },
	};
	struct fake f;
	struct call c;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_buf_ struct buf bytes = BUF(1000);
		fake_start(&f, &fake_config);
		struct fake_sandbox *s = start_list(&f, &c, "a");
		for (size_t k = 0; k < 3 && table[i].paths[k]; k++)
			add(&bytes, table[i].paths[k]);
		if (table[i].path_len)
			put(&bytes, "b", table[i].path_len, "", table[i].target_len);
		pour(s, &bytes);
		say_end(&f, s, table[i].end);
		assert_int_equal(c.done, 1);
		assert_string_equal(c.slug, "internal");
		assert_int_equal(c.n, 0);
		assert_true(s->killed);
		fake_stop(&f);
	}
}

static void a_path_with_nul_is_hostile(void **state)
{
	_cleanup_buf_ struct buf bytes = BUF(1000);
	const struct file_entry head = { .path_len = 3 };
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	struct fake_sandbox *s = start_list(&f, &c, "");
	buf_put(&bytes, &head, sizeof(head));
	buf_put(&bytes, "b\0c", 3);
	pour(s, &bytes);
	say_end(&f, s, (struct id_file){ .size = 1 });
	assert_string_equal(c.slug, "internal");
	assert_true(s->killed);
	fake_stop(&f);
}

static void a_missing_folder_is_a_refusal(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	struct fake_sandbox *s = start_list(&f, &c, "");
	say_end(&f, s, (struct id_file){ .code = FILE_ERR_MISSING });
	assert_string_equal(c.slug, "file_not_found");
	assert_false(s->killed);
	fake_stop(&f);
}

static void changes_are_asked_for_and_counted(void **state)
{
	static const char *const names[] = { "dir", "dir\0to/x", "dir" };
	static const size_t lens[] = { 4, 9, 4 };
	static const enum file_op ops[] = { FILE_REMOVE, FILE_MOVE, FILE_MKDIR };
	static const uint32_t flags[] = { FILE_RECURSIVE, FILE_REPLACE, 0 };
	struct fake f;
	struct call c = { .done = 0 };

	fake_start(&f, &fake_config);
	for (unsigned i = 0; i < 6; i++) {
		unsigned what = i % 3;
		bool flag = i < 3;
		c = (struct call){ .done = 0 };
		if (what == 0)
			runtime_remove(f.rt, &spec, flag, on_change, &c);
		else if (what == 1)
			runtime_move(f.rt, &spec, STR("to/x"), flag, on_change, &c);
		else
			runtime_mkdir(f.rt, &spec, on_change, &c);
		assert_int_equal(c.done, 0);
		fake_turn(&f);
		struct fake_sandbox *s = worker(&f);
		assert_int_equal(s->n_fds, 1);
		assert_int_equal(asked(s).op, ops[what]);
		assert_int_equal(asked(s).flags, flag ? flags[what] : 0);
		assert_spec(s, names[what], lens[what]);
		say_end(&f, s, (struct id_file){ .size = 3 });
		assert_int_equal(c.done, 1);
		assert_null(c.slug);
		assert_int_equal(c.result.size, 3);
	}
	fake_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_folder_is_listed),
		cmocka_unit_test(the_end_of_the_pipe_may_come_behind_the_answer),
		cmocka_unit_test(a_listing_that_lies_is_hostile),
		cmocka_unit_test(a_path_with_nul_is_hostile),
		cmocka_unit_test(a_missing_folder_is_a_refusal),
		cmocka_unit_test(changes_are_asked_for_and_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
