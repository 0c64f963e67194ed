// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/env-name.h"
#include "api/field.h"
#include "api/handlers.h"
#include "api/path.h"
#include "api/route.h"
#include "base/limits.h"
#include "base/mem.h"

static const struct route *find(const char *method, const char *pattern)
{
	for (size_t i = 0; i < n_routes; i++) {
		if (strcmp(routes[i].method, method) == 0 &&
		    strcmp(routes[i].pattern, pattern) == 0)
			return &routes[i];
	}
	fail_msg("no route %s %s", method, pattern);
	return NULL;
}

#define CREATE "/v1/sessions"
#define EXEC "/v1/sessions/{session_id}/exec"
#define WRITE "/v1/sessions/{session_id}/write"
#define READ "/v1/sessions/{session_id}/read"
#define EGRESS "/v1/sessions/{session_id}/egress"
#define AUDIT "/v1/audit"
#define PREVIEW "/v1/sessions/{session_id}/previews/{port}"

/* Checks as the ladder does; the items as JSON text, "" when there is none. */
static void check_into(const struct route *route, struct str body_text, const char *query,
		       const char *param, struct buf *out, struct value *values)
{
	_cleanup_arena_ struct arena arena = { NULL };
	struct problems problems;
	struct body body;

	problems_init(&problems, route->secret);
	body_parse(body_text, &body);
	field_check_path(route->fields, route->n_fields, str_of(param), values, &problems);
	field_check_query(route->fields, route->n_fields, str_of(query), &arena, values, &problems);
	if (route->body != BODY_NONE)
		field_check_body(route->fields, route->n_fields, &body, values, &problems);
	buf_put_str(out, buf_str(&problems.buf));
	buf_put_char(out, '\0');
	body_fini(&body);
	problems_fini(&problems);
}

static const struct body_case {
	const char *pattern, *body, *items;
} body_cases[] = {
	{ EXEC, "{\"command\":\"x\"}", "" },
	{ EXEC, "{\"command\":\"\",\"timeout_seconds\":15.0,\"new\":[1]}", "" },
	{ EXEC, "{\"command\":\"x\",\"timeout_seconds\":1}", "" },
	{ EXEC, "{\"command\":\"x\",\"timeout_seconds\":60}", "" },
	{ EXEC, "{}",
	  "{\"type\":\"missing\",\"loc\":[\"body\",\"command\"],\"msg\":\"Field required\"}" },
	{ EXEC, "",
	  "{\"type\":\"missing\",\"loc\":[\"body\",\"command\"],\"msg\":\"Field required\"}" },
	{ EXEC, "{\"command\":null}",
	  "{\"type\":\"string_type\",\"loc\":[\"body\",\"command\"],\"msg\":\"Input should be a "
	  "valid string\",\"input\":null}" },
	{ EXEC, "{\"command\":[1,{\"a\":\"b\"}]}",
	  "{\"type\":\"string_type\",\"loc\":[\"body\",\"command\"],\"msg\":\"Input should be a "
	  "valid string\",\"input\":[1,{\"a\":\"b\"}]}" },
	{ EXEC, "{\"command\":\"x\",\"timeout_seconds\":0}",
	  "{\"type\":\"greater_than_equal\",\"loc\":[\"body\",\"timeout_seconds\"],\"msg\":"
	  "\"Input should be greater than or equal to 1\",\"input\":0,\"ctx\":{\"ge\":1}}" },
	{ EXEC, "{\"command\":\"x\",\"timeout_seconds\":61}",
	  "{\"type\":\"less_than_equal\",\"loc\":[\"body\",\"timeout_seconds\"],\"msg\":"
	  "\"Input should be less than or equal to 60\",\"input\":61,\"ctx\":{\"le\":60}}" },
	{ EXEC, "{\"command\":\"x\",\"timeout_seconds\":\"15\"}",
	  "{\"type\":\"int_type\",\"loc\":[\"body\",\"timeout_seconds\"],\"msg\":\"Input should be "
	  "a valid integer\",\"input\":\"15\"}" },
	{ EXEC, "{\"command\":\"x\",\"timeout_seconds\":15.5}",
	  "{\"type\":\"int_from_float\",\"loc\":[\"body\",\"timeout_seconds\"],\"msg\":\"Input "
	  "should be a valid integer, got a number with a fractional part\",\"input\":15.5}" },
	{ EXEC, "{\"command\":\"x\",\"timeout_seconds\":true}",
	  "{\"type\":\"int_type\",\"loc\":[\"body\",\"timeout_seconds\"],\"msg\":\"Input should be "
	  "a valid integer\",\"input\":true}" },
	{ EXEC, "{\"command\":\"x\",\"timeout_seconds\":null}",
	  "{\"type\":\"int_type\",\"loc\":[\"body\",\"timeout_seconds\"],\"msg\":\"Input should be "
	  "a valid integer\",\"input\":null}" },
	{ EXEC, "{\"command\":1,\"timeout_seconds\":1e300}",
	  "{\"type\":\"string_type\",\"loc\":[\"body\",\"command\"],\"msg\":\"Input should be a "
	  "valid string\",\"input\":1},{\"type\":\"int_from_float\",\"loc\":[\"body\","
	  "\"timeout_seconds\"],\"msg\":\"Input should be a valid integer, got a number with a "
	  "fractional part\",\"input\":1e300}" },
	{ EXEC, "{\"command\":\"a\\u0000b\"}",
	  "{\"type\":\"value_error\",\"loc\":[\"body\",\"command\"],\"msg\":\"Value error, NUL "
	  "characters are not allowed\",\"input\":\"a\\u0000b\"}" },
	{ EXEC, "{\"command\":\"x\",\"env\":{\"A\":\"\\u0000\"},\"stdin\":\"\\u0000\"}",
	  "{\"type\":\"value_error\",\"loc\":[\"body\",\"env\",\"A\"],\"msg\":\"Value error, NUL "
	  "characters are not allowed\"},{\"type\":\"value_error\",\"loc\":[\"body\",\"stdin\"],"
	  "\"msg\":\"Value error, NUL characters are not allowed\"}" },
	{ EXEC, "{\"command\":\"x\",\"other\":[{\"deep\":\"\\u0000\"}]}",
	  "{\"type\":\"value_error\",\"loc\":[\"body\",\"other\"],\"msg\":\"Value error, NUL "
	  "characters are not allowed\"}" },
	{ EXEC, "{\"command\":\"x\",\"env\":{\"OK\":\"1\",\"1A\":\"v\",\"B\":7,\"C\":\"\"}}",
	  "{\"type\":\"value_error\",\"loc\":[\"body\",\"env\",\"1A\"],\"msg\":\"Value error, "
	  "environment names are letters, digits and '_' (max 64)\"},{\"type\":\"string_type\","
	  "\"loc\":[\"body\",\"env\",\"B\"],\"msg\":\"Input should be a valid string\"},"
	  "{\"type\":\"value_error\",\"loc\":[\"body\",\"env\",\"C\"],\"msg\":\"Value error, "
	  "environment values have 1 to 8192 bytes\"}" },
	{ EXEC, "{\"command\":\"x\",\"env\":[]}",
	  "{\"type\":\"dict_type\",\"loc\":[\"body\",\"env\"],\"msg\":\"Input should be a valid "
	  "dictionary\"}" },
	{ EXEC, "[]",
	  "{\"type\":\"model_attributes_type\",\"loc\":[\"body\"],\"msg\":\"Input should be a "
	  "valid dictionary or object to extract fields from\"}" },
	{ EXEC, "\"command\"",
	  "{\"type\":\"model_attributes_type\",\"loc\":[\"body\"],\"msg\":\"Input should be a "
	  "valid dictionary or object to extract fields from\"}" },
	{ EXEC, "{\"command\":\"a\",\"command\":\"b\"}",
	  "{\"type\":\"json_invalid\",\"loc\":[\"body\",24],\"msg\":\"JSON decode error\",\"ctx\":"
	  "{\"error\":\"a name stands twice in one object\"}}" },
	{ WRITE, "{\"path\":\"a\",\"content\":\"x\\u0000y\"}", "" },
	{ WRITE, "{\"path\":\"a\\u0000\",\"content\":\"x\\u0000y\"}",
	  "{\"type\":\"value_error\",\"loc\":[\"body\",\"path\"],\"msg\":\"Value error, NUL "
	  "characters are not allowed\",\"input\":\"a\\u0000\"}" },
	{ CREATE, "{\"egress\":[\"a\",\"\\u0000\"],\"metadata\":{\"m\":\"\\u0000\"}}",
	  "{\"type\":\"value_error\",\"loc\":[\"body\",\"egress\",1],\"msg\":\"Value error, NUL "
	  "characters are not allowed\"},{\"type\":\"value_error\",\"loc\":[\"body\",\"metadata\","
	  "\"m\"],\"msg\":\"Value error, NUL characters are not allowed\"}" },
	{ CREATE, "{}", "" },
	{ CREATE, "{\"metadata\":null,\"snapshot_id\":null,\"secrets\":null,\"egress\":[]}", "" },
	{ CREATE, "{\"metadata\":{\"a\":\"b\"},\"persistent\":true}", "" },
	{ CREATE, "{\"metadata\":{\"a\":1}}",
	  "{\"type\":\"string_type\",\"loc\":[\"body\",\"metadata\",\"a\"],\"msg\":\"Input should "
	  "be a valid string\"}" },
	{ CREATE, "{\"persistent\":\"true\"}",
	  "{\"type\":\"bool_type\",\"loc\":[\"body\",\"persistent\"],\"msg\":\"Input should be a "
	  "valid boolean\"}" },
	{ CREATE, "{\"persistent\":1}",
	  "{\"type\":\"bool_type\",\"loc\":[\"body\",\"persistent\"],\"msg\":\"Input should be a "
	  "valid boolean\"}" },
	{ CREATE, "{\"egress\":null}",
	  "{\"type\":\"list_type\",\"loc\":[\"body\",\"egress\"],\"msg\":\"Input should be a valid "
	  "list\"}" },
	{ CREATE, "{\"egress\":[\"a\",1]}",
	  "{\"type\":\"string_type\",\"loc\":[\"body\",\"egress\",1],\"msg\":\"Input should be a "
	  "valid string\"}" },
	{ CREATE, "{\"egress\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}",
	  "{\"type\":\"too_long\",\"loc\":[\"body\",\"egress\"],\"msg\":\"List should have at most "
	  "20 items after validation, not 21\",\"ctx\":{\"max_length\":20}}" },
	{ CREATE, "{\"secrets\":{\"1A\":\"hunter2\"}}",
	  "{\"type\":\"value_error\",\"loc\":[\"body\",\"secrets\",\"1A\"],\"msg\":\"Value error, "
	  "secret names are letters, digits and '_' (max 64)\"}" },
	{ CREATE, "{\"template\":7,\"secrets\":\"hunter2\"}",
	  "{\"type\":\"string_type\",\"loc\":[\"body\",\"template\"],\"msg\":\"Input should be a "
	  "valid string\"},{\"type\":\"dict_type\",\"loc\":[\"body\",\"secrets\"],\"msg\":\"Input "
	  "should be a valid dictionary\"}" },
};

static void bodies_are_checked_field_by_field(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(body_cases); i++) {
		const struct body_case *c = &body_cases[i];
		_cleanup_buf_ struct buf out = BUF(100000);
		struct value values[FIELDS_MAX] = { { 0 } };
		check_into(find("POST", c->pattern), str_of(c->body), NULL, NULL, &out, values);
		assert_string_equal(out.data, c->items);
	}
}

static const struct query_case {
	const char *method, *pattern, *query, *param, *items;
	const char *text;
	int64_t number;
} query_cases[] = {
	{ "GET", READ, "path=a+b%2Bc%C3%BC", NULL, "", "a b+c\xc3\xbc" },
	{ "GET", READ, "path=x&path=y&other=%41", NULL, "", "y" },
	{ "GET", READ, "path", NULL, "", "" },
	{ "GET", READ, "path=", NULL, "", "" },
	{ "GET", READ, "path=a=b&&", NULL, "", "a=b" },
	{ "GET", READ, NULL, NULL,
	  "{\"type\":\"missing\",\"loc\":[\"query\",\"path\"],\"msg\":\"Field required\"}" },
	{ "GET", READ, "Path=x", NULL,
	  "{\"type\":\"missing\",\"loc\":[\"query\",\"path\"],\"msg\":\"Field required\"}" },
	{ "GET", READ, "path=x&y=%zz", NULL,
	  "{\"type\":\"value_error\",\"loc\":[\"query\"],\"msg\":\"Value error, invalid "
	  "percent-encoding\"}",
	  "x" },
	{ "GET", READ, "path=x&y=%ff", NULL,
	  "{\"type\":\"value_error\",\"loc\":[\"query\"],\"msg\":\"Value error, invalid "
	  "percent-encoding\"}",
	  "x" },
	{ "GET", READ, "path=%ff", NULL,
	  "{\"type\":\"value_error\",\"loc\":[\"query\"],\"msg\":\"Value error, invalid "
	  "percent-encoding\"}" },
	{ "GET", READ, "path=%zz", NULL,
	  "{\"type\":\"value_error\",\"loc\":[\"query\"],\"msg\":\"Value error, invalid "
	  "percent-encoding\"}" },
	{ "GET", READ, "p%61th=%", NULL,
	  "{\"type\":\"value_error\",\"loc\":[\"query\"],\"msg\":\"Value error, invalid "
	  "percent-encoding\"}" },
	{ "GET", READ, "other=%zz", NULL,
	  "{\"type\":\"value_error\",\"loc\":[\"query\"],\"msg\":\"Value error, invalid "
	  "percent-encoding\"},{\"type\":\"missing\",\"loc\":[\"query\",\"path\"],\"msg\":"
	  "\"Field required\"}" },
	{ "GET", READ, "path=a%00b", NULL,
	  "{\"type\":\"value_error\",\"loc\":[\"query\",\"path\"],\"msg\":\"Value error, NUL "
	  "characters are not allowed\",\"input\":\"a\\u0000b\"}" },
	{ "GET", EGRESS, NULL, NULL, "", NULL, 200 },
	{ "GET", EGRESS, "limit=7", NULL, "", NULL, 7 },
	{ "GET", EGRESS, "limit=0", NULL, "", NULL, 1 },
	{ "GET", EGRESS, "limit=-5", NULL, "", NULL, 1 },
	{ "GET", EGRESS, "limit=5000", NULL, "", NULL, 1000 },
	{ "GET", EGRESS, "limit=99999999999999999999999999", NULL, "", NULL, 1000 },
	{ "GET", EGRESS, "limit=x", NULL,
	  "{\"type\":\"int_parsing\",\"loc\":[\"query\",\"limit\"],\"msg\":\"Input should be a "
	  "valid integer, unable to parse string as an integer\",\"input\":\"x\"}",
	  NULL, 200 },
	{ "GET", EGRESS, "limit=", NULL,
	  "{\"type\":\"int_parsing\",\"loc\":[\"query\",\"limit\"],\"msg\":\"Input should be a "
	  "valid integer, unable to parse string as an integer\",\"input\":\"\"}",
	  NULL, 200 },
	{ "GET", AUDIT, "before=0123456789abcdef-01234567&limit=2", NULL, "", NULL, 2 },
	{ "GET", AUDIT, "before=UPPER", NULL,
	  "{\"type\":\"value_error\",\"loc\":[\"query\",\"before\"],\"msg\":\"Value error, "
	  "malformed cursor\",\"input\":\"UPPER\"}",
	  NULL, 100 },
	{ "DELETE", PREVIEW, NULL, "8000", "", NULL, 8000 },
	{ "DELETE", PREVIEW, NULL, "70000",
	  "{\"type\":\"less_than_equal\",\"loc\":[\"path\",\"port\"],\"msg\":\"Input should be "
	  "less than or equal to 65535\",\"input\":\"70000\",\"ctx\":{\"le\":65535}}",
	  NULL, 70000 },
	{ "DELETE", PREVIEW, NULL, "http",
	  "{\"type\":\"int_parsing\",\"loc\":[\"path\",\"port\"],\"msg\":\"Input should be a valid "
	  "integer, unable to parse string as an integer\",\"input\":\"http\"}" },
};

static void queries_and_paths_are_checked(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(query_cases); i++) {
		const struct query_case *c = &query_cases[i];
		const struct route *route = find(c->method, c->pattern);
		_cleanup_arena_ struct arena arena = { NULL };
		_cleanup_buf_ struct buf out = BUF(10000);
		struct value values[FIELDS_MAX] = { { 0 } };
		struct problems p;
		check_into(route, STR(""), c->query, c->param, &out, values);
		assert_string_equal(out.data, c->items);
		assert_int_equal(values[0].number, c->number);
		problems_init(&p, false);
		field_check_query(route->fields, route->n_fields, str_of(c->query), &arena, values,
				  &p);
		if (c->text) {
			assert_int_equal(values[0].text.len, strlen(c->text));
			assert_memory_equal(values[0].text.data, c->text, values[0].text.len);
		}
		problems_fini(&p);
	}
}

static void a_command_has_at_most_131071_bytes(void **state)
{
	const struct route *route = find("POST", EXEC);

	for (unsigned extra = 0; extra < 2; extra++) {
		_cleanup_buf_ struct buf body = BUF(200000), out = BUF(10000);
		struct value values[FIELDS_MAX] = { { 0 } };
		buf_put_text(&body, "{\"command\":\"");
		for (unsigned i = 0; i < LIMIT_COMMAND + extra; i++)
			buf_put_char(&body, 'x');
		buf_put_text(&body, "\"}");
		check_into(route, buf_str(&body), NULL, NULL, &out, values);
		assert_int_equal(strstr(out.data, "at most 131071 bytes") != NULL, extra);
		/* The echo of the value is cut. */
		assert_true(out.len < 600);
	}
}

static void input_is_cut_after_200_characters(void **state)
{
	_cleanup_buf_ struct buf body = BUF(10000), out = BUF(10000), want = BUF(10000);
	struct value values[FIELDS_MAX] = { { 0 } };

	buf_put_text(&body, "{\"command\":\"x\",\"cwd\":\"");
	for (unsigned i = 0; i < 300; i++)
		buf_put_text(&body, "\xc3\xbc");
	buf_put_text(&body, "\"}");
	check_into(find("POST", EXEC), buf_str(&body), NULL, NULL, &out, values);
	buf_put_text(&want, "\"input\":\"");
	for (unsigned i = 0; i < 200; i++)
		buf_put_text(&want, "\xc3\xbc");
	buf_put_text(&want, "\"}");
	assert_non_null(strstr(out.data, want.data));
}

static void template_length_is_counted_in_characters(void **state)
{
	for (unsigned n = 200; n < 202; n++) {
		_cleanup_buf_ struct buf body = BUF(10000), out = BUF(10000);
		struct value values[FIELDS_MAX] = { { 0 } };
		buf_put_text(&body, "{\"template\":\"");
		for (unsigned i = 0; i < n; i++)
			buf_put_text(&body, "\xc3\xbc");
		buf_put_text(&body, "\"}");
		check_into(find("POST", CREATE), buf_str(&body), NULL, NULL, &out, values);
		assert_string_equal(out.data,
				    n == 200 ? ""
					     : "{\"type\":\"string_too_long\",\"loc\":[\"body\","
					       "\"template\"],\"msg\":\"String should have at most "
					       "200 characters\",\"ctx\":{\"max_length\":200}}");
	}
}

static void a_flood_of_problems_is_bounded(void **state)
{
	_cleanup_buf_ struct buf body = BUF(200000), out = BUF(400000);
	struct value values[FIELDS_MAX] = { { 0 } };
	unsigned items = 0;

	buf_put_text(&body, "{\"metadata\":{\"k\":1");
	for (unsigned i = 0; i < 9000; i++)
		buf_printf(&body, ",\"%u\":1", i);
	buf_put_text(&body, "}}");
	check_into(find("POST", CREATE), buf_str(&body), NULL, NULL, &out, values);
	for (const char *at = out.data; (at = strstr(at, "string_type")); at++)
		items++;
	assert_int_equal(items, 100);
}

static void values_not_sent_have_their_presets(void **state)
{
	_cleanup_buf_ struct buf out = BUF(10000);
	struct value values[FIELDS_MAX] = { { 0 } };

	check_into(find("POST", EXEC), STR("{\"command\":\"x\"}"), NULL, NULL, &out, values);
	assert_int_equal(values[EXEC_TIMEOUT].number, 15);
	assert_null(values[EXEC_CWD].text.data);
	assert_null(values[EXEC_STDIN].text.data);
	assert_null(values[EXEC_ENV].json);
	check_into(find("POST", CREATE), STR("{}"), NULL, NULL, &out, values);
	assert_string_equal(values[CREATE_TEMPLATE].text.data, "sandbox-base:latest");
	assert_int_equal(values[CREATE_PERSISTENT].number, 0);
}

static void every_table_of_fields_fits(void **state)
{
	for (size_t i = 0; i < n_routes; i++)
		assert_true(routes[i].n_fields <= FIELDS_MAX);
}

static void paths_are_judged_by_their_form_alone(void **state)
{
	_cleanup_buf_ struct buf longest = BUF(10000), part = BUF(1000);
	static const char *const fine[] = { "",	 ".",  "a/b",	 "../x",
					    "/", "//", "a/../b", "-rf \n\t'\"" };

	for (size_t i = 0; i < ARRAY_SIZE(fine); i++)
		assert_null(path_check(str_of(fine[i])));
	for (unsigned i = 0; i < 255; i++)
		buf_put_char(&part, 'p');
	assert_null(path_check(buf_str(&part)));
	for (unsigned i = 0; i < 16; i++)
		buf_printf(&longest, "%s/", part.data);
	assert_int_equal(longest.len, LIMIT_PATH);
	assert_null(path_check(buf_str(&longest)));
	buf_put_char(&longest, 'x');
	assert_non_null(path_check(buf_str(&longest)));
	buf_put_char(&part, 'p');
	assert_non_null(path_check(buf_str(&part)));
	assert_non_null(path_check(STR("a\xff")));
}

static void environment_names_and_values_have_a_form(void **state)
{
	static const char *const good[] = { "A", "_", "a1_B" };
	static const char *const bad[] = { "", "1A", "A-B", "A=B", "A B", "\xc3\xbc" };
	char name[66] = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_null(env_name_check(str_of(good[i])));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_non_null(secret_name_check(str_of(bad[i])));
	memset(name, 'N', 65);
	assert_null(env_name_check((struct str){ name, 64 }));
	assert_non_null(env_name_check((struct str){ name, 65 }));
	_cleanup_free_ char *value = mem_new(1, LIMIT_ENV_VALUE + 1);
	assert_non_null(env_value_check(STR("")));
	assert_null(env_value_check((struct str){ value, LIMIT_ENV_VALUE }));
	assert_non_null(secret_value_check((struct str){ value, LIMIT_ENV_VALUE + 1 }));
}

static int start(void **state)
{
	body_start();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bodies_are_checked_field_by_field),
		cmocka_unit_test(queries_and_paths_are_checked),
		cmocka_unit_test(a_command_has_at_most_131071_bytes),
		cmocka_unit_test(input_is_cut_after_200_characters),
		cmocka_unit_test(template_length_is_counted_in_characters),
		cmocka_unit_test(a_flood_of_problems_is_bounded),
		cmocka_unit_test(values_not_sent_have_their_presets),
		cmocka_unit_test(every_table_of_fields_fits),
		cmocka_unit_test(paths_are_judged_by_their_form_alone),
		cmocka_unit_test(environment_names_and_values_have_a_form),
	};
	return cmocka_run_group_tests(tests, start, NULL);
}
