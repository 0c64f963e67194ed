// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/answer.h"
#include "api/exec-answer.h"
#include "api/fakes.h"
#include "base/limits.h"
#include "base/mem.h"

#define R "\xef\xbf\xbd"

/* Encodes in parts of at least room bytes and reads the whole as JSON. */
static json_t *encode(struct answer *a, size_t room, struct str before, struct str after)
{
	_cleanup_buf_ struct buf all = BUF(128u * MIB);
	struct err err;
	json_error_t error;
	int more;

	do {
		_cleanup_buf_ struct buf part = BUF(room + ANSWER_CHUNK_ENCODED);
		more = answer_encode(a, &part, room, &err);
		assert_true(more >= 0);
		buf_put_str(&all, buf_str(&part));
	} while (more);
	assert_int_equal(a->raw, 0);
	assert_true(str_starts(buf_str(&all), before));
	assert_true(all.len >= before.len + after.len);
	assert_memory_equal(all.data + all.len - after.len, after.data, after.len);
	json_t *json = json_loadb(all.data + before.len, all.len - before.len - after.len,
				  JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
	if (!json)
		fail_msg("%s", error.text);
	return json;
}

static void assert_text(json_t *json, const char *key, struct str want)
{
	json_t *value = json_object_get(json, key);

	assert_true(json_is_string(value));
	assert_int_equal(json_string_length(value), want.len);
	assert_memory_equal(json_string_value(value), want.data, want.len);
}

static const struct form_case {
	struct str out, err;
	int exit_code;
	bool timed_out, oom_killed;
	const char *warnings[3];
	struct str output;
} form_cases[] = {
	{ STR("ran echo hi\n"), STR(""), 0,
	  .output = STR("[STDOUT]:\nran echo hi\n[EXIT CODE]: 0") },
	{ STR(""), STR(""), 0, .output = STR("[EXIT CODE]: 0") },
	{ STR(" \n\t"), STR("\xc2\xa0\n"), 3, .output = STR("[EXIT CODE]: 3") },
	{ STR("part"), STR("more"), -1, true, .warnings = { "Execution exceeded 3s limit." },
	  .output = STR("[TIMEOUT]: Execution exceeded 3s limit.\n[EXIT CODE]: -1") },
	{ STR(""), STR("Killed\n"), 137, false, true,
	  .warnings = { "Process killed by cgroups (Memory limit exceeded)." },
	  .output = STR("[STDERR]:\nKilled\n[WARNING]: Process killed by cgroups (Memory limit "
			"exceeded).\n[EXIT CODE]: 137") },
	{ STR("a\n"), STR("b\n"), 1, .warnings = { "w1", "w2" },
	  .output = STR("[STDOUT]:\na\n[STDERR]:\nb\n[WARNING]: w1\n[WARNING]: w2\n"
			"[EXIT CODE]: 1") },
	{ STR("\n\n  x \n y\n\n"), STR(""), 0, .output = STR("[STDOUT]:\nx \n y\n[EXIT CODE]: 0") },
	{ STR("\xff\xfe"), STR(""), 0, .output = STR("[STDOUT]:\n" R R "\n[EXIT CODE]: 0") },
	{ STR("\xe3\x80\x80\xe2\x80\x83 \xc3\xbc\"\\ \xe2\x80\xa8\x1f"), STR(""), 0,
	  .output = STR("[STDOUT]:\n\xc3\xbc\"\\\n[EXIT CODE]: 0") },
	/* White space that is only the end of something broken stays broken. */
	{ STR(" \x80x\xe2\x80"), STR("\xf0\x9f\xe3\x80\x80"), 0,
	  .output = STR("[STDOUT]:\n" R "x" R "\n[STDERR]:\n" R "\n[EXIT CODE]: 0") },
	{ STR("a\0b"), STR(""), 0, .output = STR("[STDOUT]:\na\0b\n[EXIT CODE]: 0") },
};

static void make(struct answer *a, const struct form_case *c, struct runtime_exec_result *run,
		 bool event)
{
	struct exec_result result = { .run = run };
	struct err err;

	*run = (struct runtime_exec_result){
		.exit_code = c->exit_code,
		.timed_out = c->timed_out,
		.oom_killed = c->oom_killed,
		.duration_us = 12000,
		.cpu_ms = 7,
		.peak_memory_bytes = -1,
		.streams = { fake_output(c->out, 0, 0), fake_output(c->err, 0, 0) },
	};
	for (; result.n_warnings < 3 && c->warnings[result.n_warnings]; result.n_warnings++)
		snprintf(result.warnings[result.n_warnings], 200, "%s",
			 c->warnings[result.n_warnings]);
	answer_init(a);
	assert_int_equal(exec_answer_make(a, STR("c\"m\xc3\xbc"), &result, event, &err), 0);
}

static void the_text_form_is_exact(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(form_cases); i++) {
		for (size_t room = 1; room < 4096; room = room * 7 + 1) {
			const struct form_case *c = &form_cases[i];
			struct runtime_exec_result run;
			struct answer a;
			make(&a, c, &run, false);
			json_t *json = encode(&a, room, STR(""), STR(""));
			assert_text(json, "output", c->output);
			assert_text(json, "command", STR("c\"m\xc3\xbc"));
			assert_int_equal(json_integer_value(json_object_get(json, "exit_code")),
					 c->exit_code);
			assert_int_equal(json_is_true(json_object_get(json, "timed_out")),
					 c->timed_out);
			assert_int_equal(json_is_true(json_object_get(json, "oom_killed")),
					 c->oom_killed);
			assert_int_equal(json_integer_value(json_object_get(json, "duration_ms")),
					 12);
			assert_int_equal(json_integer_value(json_object_get(json, "cpu_ms")), 7);
			assert_true(json_is_null(json_object_get(json, "peak_memory_bytes")));
			json_decref(json);
			answer_fini(&a);
		}
	}
	assert_int_equal(fake.outputs, 0);
}

static void streams_are_raw_and_empty_on_timeout(void **state)
{
	struct runtime_exec_result run;
	struct answer a;

	make(&a, &form_cases[6], &run, false);
	json_t *json = encode(&a, 100, STR(""), STR(""));
	assert_text(json, "stdout", form_cases[6].out);
	assert_null(json_object_get(json, "partial_stdout"));
	json_decref(json);
	answer_fini(&a);

	make(&a, &form_cases[3], &run, true);
	json = encode(&a, 100, STR("event: result\ndata: "), STR("\n\n"));
	assert_text(json, "stdout", STR(""));
	assert_text(json, "stderr", STR(""));
	assert_text(json, "partial_stdout", STR("part"));
	assert_text(json, "partial_stderr", STR("more"));
	json_decref(json);
	answer_fini(&a);
}

static void a_missing_stream_is_empty(void **state)
{
	struct runtime_exec_result run = { .exit_code = 0 };
	struct exec_result result = { .run = &run };
	struct answer a;
	struct err err;

	answer_init(&a);
	assert_int_equal(exec_answer_make(&a, STR("x"), &result, false, &err), 0);
	json_t *json = encode(&a, 1, STR(""), STR(""));
	assert_text(json, "stdout", STR(""));
	assert_text(json, "output", STR("[EXIT CODE]: 0"));
	json_decref(json);
	answer_fini(&a);
}

/* A timeout after 100,000 characters of two bytes: the last 64 KiB, from the start of a character. */
static void partial_output_is_the_end_in_whole_characters(void **state)
{
	_cleanup_buf_ struct buf text = BUF(MIB);
	struct answer_source s;
	struct answer_range range;
	struct err err;

	for (unsigned i = 0; i < 100000; i++)
		buf_put_text(&text, "\xc3\xbc");
	buf_put_char(&text, '!');
	answer_source_memory(&s, buf_str(&text));
	assert_int_equal(answer_source_tail(&s, LIMIT_PARTIAL_OUTPUT, &range, &err), 0);
	assert_int_equal(range.to, text.len);
	assert_int_equal(range.to - range.from, LIMIT_PARTIAL_OUTPUT - 1);
	assert_int_equal((unsigned char)text.data[range.from], 0xc3);
	assert_int_equal(answer_source_tail(&s, text.len, &range, &err), 0);
	assert_int_equal(range.from, 0);
}

static const struct gap_case {
	struct str bytes;
	uint64_t head, dropped;
	const char *text;
} gap_cases[] = {
	{ STR("aaabb"), 3, 42, "aaa\n[... 42 bytes dropped ...]\nbb" },
	{ STR("aa\nbb"), 3, 1, "aa\n[... 1 bytes dropped ...]\nbb" },
	{ STR("bb"), 0, 9, "[... 9 bytes dropped ...]\nbb" },
	{ STR("aa\xe2\x82\x82\xac"), 4, 5, "aa" R "\n[... 5 bytes dropped ...]\n" R R },
};

static void what_was_dropped_is_one_line_between_head_and_tail(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(gap_cases); i++) {
		const struct gap_case *c = &gap_cases[i];
		struct runtime_exec_result run = {
			.streams = { fake_output(c->bytes, c->head, c->dropped), NULL }
		};
		struct exec_result result = { .run = &run };
		struct answer a;
		struct err err;
		answer_init(&a);
		assert_int_equal(exec_answer_make(&a, STR("x"), &result, false, &err), 0);
		json_t *json = encode(&a, 1, STR(""), STR(""));
		assert_text(json, "stdout", str_of(c->text));
		json_decref(json);
		answer_fini(&a);
	}
}

/* Bytes whose characters lie across every border of what is read at once. */
static void long_output_is_whole_wherever_it_is_cut(void **state)
{
	static const char *const units[] = { "\xf0\x9f\x98\x80", "\xe2\x82\xac.", "\xff\n\"",
					     "\x01" };

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		for (unsigned shift = 0; shift < 4; shift++) {
			_cleanup_buf_ struct buf raw = BUF(MIB), want = BUF(4 * MIB);
			struct runtime_exec_result run = { .exit_code = 0 };
			struct exec_result result = { .run = &run };
			struct utf8_fix fix = { .n_held = 0 };
			struct answer a;
			struct err err;
			for (unsigned k = 0; k < shift; k++)
				buf_put_char(&raw, 'x');
			for (unsigned k = 0; k < 20000; k++)
				buf_put_text(&raw, units[i]);
			utf8_fix_put(&fix, buf_str(&raw), &want);
			run.streams[0] = fake_output(buf_str(&raw), 0, 0);
			answer_init(&a);
			assert_int_equal(exec_answer_make(&a, STR("x"), &result, false, &err), 0);
			json_t *json = encode(&a, 10000, STR(""), STR(""));
			assert_text(json, "stdout", buf_str(&want));
			json_decref(json);
			answer_fini(&a);
		}
	}
}

static void white_space_of_any_length_is_stripped(void **state)
{
	static const char *const units[] = { " ", "\xe2\x80\x83", "\xc2\x85\n", "\x1c" };

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		for (unsigned n = 1360; n < 4100; n += 1363) {
			_cleanup_buf_ struct buf text = BUF(MIB);
			struct answer_source s;
			struct answer_range range;
			struct err err;
			size_t start;
			for (unsigned k = 0; k < n; k++)
				buf_put_text(&text, units[i]);
			start = text.len;
			buf_put_text(&text, "x y");
			for (unsigned k = 0; k < n; k++)
				buf_put_text(&text, units[i]);
			answer_source_memory(&s, buf_str(&text));
			assert_int_equal(answer_source_strip(&s, &range, &err), 0);
			assert_int_equal(range.from, start);
			assert_int_equal(range.to, start + 3);
			answer_source_memory(&s, (struct str){ text.data, start });
			assert_int_equal(answer_source_strip(&s, &range, &err), 0);
			assert_int_equal(range.from, range.to);
		}
	}
}

static void output_that_cannot_be_read_is_an_error(void **state)
{
	struct runtime_exec_result run = { .streams = { fake_output(STR("text"), 0, 0), NULL } };
	struct exec_result result = { .run = &run };
	struct answer a;
	struct err err;
	_cleanup_buf_ struct buf out = BUF(MIB);

	answer_init(&a);
	assert_int_equal(exec_answer_make(&a, STR("x"), &result, false, &err), 0);
	a.sources[0].output->broken = true;
	assert_true(answer_encode(&a, &out, SIZE_MAX, &err) < 0);
	answer_fini(&a);
	assert_int_equal(fake.outputs, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_text_form_is_exact),
		cmocka_unit_test(streams_are_raw_and_empty_on_timeout),
		cmocka_unit_test(a_missing_stream_is_empty),
		cmocka_unit_test(partial_output_is_the_end_in_whole_characters),
		cmocka_unit_test(what_was_dropped_is_one_line_between_head_and_tail),
		cmocka_unit_test(long_output_is_whole_wherever_it_is_cut),
		cmocka_unit_test(white_space_of_any_length_is_stripped),
		cmocka_unit_test(output_that_cannot_be_read_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
