// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/body.h"
#include "api/json-out.h"
#include "api/json-scan.h"
#include "base/limits.h"
#include "base/mem.h"

static const struct count_case {
	const char *text;
	unsigned depth;
	size_t values;
	bool has_nul;
} count_cases[] = {
	{ "{}", 1, 1 },
	{ "  [ ]  ", 1, 1 },
	{ "1", 0, 1 },
	{ "{\"a\":1}", 1, 2 },
	{ "{\"a\":[1,2,3],\"b\":{\"c\":null}}", 2, 7 },
	{ "[[],[],[[]]]", 3, 5 },
	{ "[ [\n] ,\t{ } ]", 2, 3 },
	{ "{\"[[[{,,,\":\"]}],,\\\",,\\\\\"}", 1, 2 },
	{ "[\"\\u0000\"]", 1, 2, true },
	{ "[\"\\\\u0000\"]", 1, 2, false },
	{ "[\"\\u0001 u0000\"]", 1, 2, false },
	{ "[\"12345678 a text longer than a word, with \\\"quotes\\\" in it\",2]", 1, 3 },
};

static void values_and_depth_are_counted_exactly(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(count_cases); i++) {
		const struct count_case *c = &count_cases[i];
		struct json_scan scan;
		assert_true(json_scan(str_of(c->text), &scan));
		assert_int_equal(scan.depth, c->depth);
		assert_int_equal(scan.values, c->values);
		assert_int_equal(scan.has_nul, c->has_nul);
	}
}

/* n times before, then n times after. */
static struct str nested(struct buf *b, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		buf_put_char(b, '[');
	for (unsigned i = 0; i < n; i++)
		buf_put_char(b, ']');
	return buf_str(b);
}

static void depth_33_is_refused(void **state)
{
	_cleanup_buf_ struct buf fits = BUF(1000), deep = BUF(1000);
	struct json_scan scan;

	assert_true(json_scan(nested(&fits, LIMIT_JSON_DEPTH), &scan));
	assert_false(json_scan(nested(&deep, LIMIT_JSON_DEPTH + 1), &scan));
	assert_string_equal(scan.why, "nested too deeply");
	assert_int_equal(scan.at, LIMIT_JSON_DEPTH);
}

static void more_than_10000_values_are_refused(void **state)
{
	static const char *const items[] = { "[]", "{}", "1", "\"\"" };

	for (size_t i = 0; i < ARRAY_SIZE(items); i++) {
		_cleanup_buf_ struct buf b = BUF(100000);
		struct json_scan scan;
		buf_put_char(&b, '[');
		for (unsigned k = 0; k < LIMIT_JSON_VALUES - 1; k++)
			buf_printf(&b, "%s%s", k ? "," : "", items[i]);
		buf_put_char(&b, ']');
		assert_true(json_scan(buf_str(&b), &scan));
		assert_int_equal(scan.values, LIMIT_JSON_VALUES);
		b.len--;
		buf_printf(&b, ",%s]", items[i]);
		assert_false(json_scan(buf_str(&b), &scan));
		assert_string_equal(scan.why, "too many values");
	}
}

static void text_that_ends_anywhere_is_read_to_its_end(void **state)
{
	static const char text[] = "{\"a\\u0000b\":[\"\\\\\",\"\\\"\",{\"c\":\"\\";

	for (size_t n = 0; n < sizeof(text); n++) {
		_cleanup_free_ char *copy = mem_dup_n(text, n);
		struct json_scan scan;
		assert_true(json_scan((struct str){ copy, n }, &scan));
	}
}

static const struct body_case {
	struct str text;
	const char *why; /* NULL: accepted */
} body_cases[] = {
	{ STR(""), NULL },
	{ STR("{}"), NULL },
	{ STR(" {\"a\": 1} "), NULL },
	{ STR("[1]"), NULL }, /* refused later: not an object */
	{ STR("\"text\""), NULL },
	{ STR("{\"a\":\"\\u0000\"}"), NULL }, /* refused later, by field */
	{ STR("{\"a\":\"\\ud83d\\ude00\"}"), NULL },
	{ STR("   "), "unexpected end of data" },
	{ STR("\xef\xbb\xbf{}"), "a byte order mark is not allowed" },
	{ STR("{\"a\":1,\"a\":2}"), "a name stands twice in one object" },
	{ STR("{\"x\":{\"a\":1,\"a\":2}}"), "a name stands twice in one object" },
	{ STR("{\"a\":1} {}"), "extra data after the value" },
	{ STR("{\"a\":1"), "unexpected end of data" },
	{ STR("{\"a\":}"), "invalid syntax" },
	{ STR("{'a':1}"), "invalid syntax" },
	{ STR("{\"a\":1,}"), "invalid syntax" },
	{ STR("{\"a\":NaN}"), "invalid syntax" },
	{ STR("{\"a\":01}"), "invalid syntax" },
	{ STR("{\"a\":\"\\ud800\"}"), "invalid syntax" },
	{ STR("{\"a\":\"\\udc00\"}"), "invalid syntax" },
	{ STR("{\"a\":\"\\ud800\\u0041\"}"), "invalid syntax" },
	{ STR("{\"a\":\"\xff\"}"), "the text is not UTF-8" },
	{ STR("{\"a\":\"\xed\xa0\x80\"}"), "the text is not UTF-8" },
	{ STR("{\"a\":\"\n\"}"), "invalid syntax" },
	{ STR("{\"a\":\"\0\"}"), "invalid syntax" },
	{ STR("{\"\\u0000\":1}"), "NUL characters are not allowed in a name" },
	{ STR("{\"a\":99999999999999999999}"), "a number is too large" },
	{ STR("{\"a\":1e999}"), "a number is too large" },
};

static void bodies_are_read_strictly(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(body_cases); i++) {
		const struct body_case *c = &body_cases[i];
		struct body body;
		body_parse(c->text, &body);
		assert_int_equal(body.root != NULL, !c->why);
		if (c->why)
			assert_string_equal(body.why, c->why);
		body_fini(&body);
	}
}

static void a_secret_in_a_bad_body_is_not_quoted(void **state)
{
	struct body body;

	body_parse(STR("{\"secrets\":{\"K\":\"hunter2\"},\"secrets\":1}"), &body);
	assert_null(body.root);
	assert_null(strstr(body.why, "hunter2"));
	assert_null(strstr(body.why, "secrets"));
}

static const struct text_case {
	struct str in;
	const char *out;
} text_cases[] = {
	{ STR(""), "\"\"" },
	{ STR("plain"), "\"plain\"" },
	{ STR("a\"b\\c/d"), "\"a\\\"b\\\\c/d\"" },
	{ STR("\b\f\n\r\t"), "\"\\b\\f\\n\\r\\t\"" },
	{ STR("\0\1\x1f\x7f"), "\"\\u0000\\u0001\\u001f\x7f\"" },
	{ STR("\xc3\xbc\xf0\x9f\x98\x80"), "\"\xc3\xbc\xf0\x9f\x98\x80\"" },
	{ STR("\xff\xfe"), "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
	{ STR("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
	{ STR("a\xe2\x82"), "\"a\xef\xbf\xbd\"" },
	{ STR("\n\n\n\"\"\"end"), "\"\\n\\n\\n\\\"\\\"\\\"end\"" },
};

static void strings_come_out_escaped_and_valid(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(text_cases); i++) {
		_cleanup_buf_ struct buf b = BUF(1000);
		struct json_out o = JSON_OUT(&b);
		json_out_str(&o, NULL, text_cases[i].in);
		assert_string_equal(b.data, text_cases[i].out);
	}
}

static void objects_and_lists_get_their_commas(void **state)
{
	_cleanup_buf_ struct buf b = BUF(1000);
	struct json_out o = JSON_OUT(&b);

	json_out_object(&o, NULL);
	json_out_list(&o, "empty");
	json_out_end_list(&o);
	json_out_list(&o, "list");
	json_out_int(&o, NULL, INT64_MIN);
	json_out_bool(&o, NULL, true);
	json_out_null(&o, NULL);
	json_out_object(&o, NULL);
	json_out_end_object(&o);
	json_out_end_list(&o);
	json_out_name(&o, STR("a\"b"));
	json_out_object(&o, NULL);
	json_out_time(&o, "t", 1700000000000001);
	json_out_seconds(&o, "s", 1005);
	json_out_end_object(&o);
	json_out_text(&o, "last", "x");
	json_out_end_object(&o);
	assert_string_equal(b.data, "{\"empty\":[],\"list\":[-9223372036854775808,true,null,{}],"
				    "\"a\\\"b\":{\"t\":1700000000.000001,\"s\":1.005},"
				    "\"last\":\"x\"}");
}

static int start(void **state)
{
	body_start();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_and_depth_are_counted_exactly),
		cmocka_unit_test(depth_33_is_refused),
		cmocka_unit_test(more_than_10000_values_are_refused),
		cmocka_unit_test(text_that_ends_anywhere_is_read_to_its_end),
		cmocka_unit_test(bodies_are_read_strictly),
		cmocka_unit_test(a_secret_in_a_bad_body_is_not_quoted),
		cmocka_unit_test(strings_come_out_escaped_and_valid),
		cmocka_unit_test(objects_and_lists_get_their_commas),
	};
	return cmocka_run_group_tests(tests, start, NULL);
}
