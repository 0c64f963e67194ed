// SPDX-License-Identifier: Apache-2.0
/*
 * A request's body, query and path parameter against the fields of one route, and any bytes through
 * the JSON writer.
 *
 * Whatever the input: the scan counts exactly what the parser then builds; the list of problems is
 * valid JSON; on a route for secrets it holds no "input"; a value counts as given only when the
 * table allows it; a string that was written reads back as the repaired text, also when it goes out
 * in pieces.
 *
 * Input: 1 byte route, 1 byte length of the parameter, 2 bytes length of the query, these two,
 * body.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "api/answer.h"
#include "api/body.h"
#include "api/field.h"
#include "api/json-scan.h"
#include "api/route.h"
#include "base/limits.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The next n bytes, or what is left of them. */
static struct str take(struct str *rest, size_t n)
{
	struct str part = { rest->data, n < rest->len ? n : rest->len };

	*rest = str_from(*rest, part.len);
	return part;
}

static size_t count(const json_t *json, unsigned depth, unsigned *deepest)
{
	const char *name;
	json_t *part;
	size_t i, n = 1;

	depth += json_is_object(json) || json_is_array(json);
	if (depth > *deepest)
		*deepest = depth;
	json_object_foreach((json_t *)(uintptr_t)json, name, part) n += count(part, depth, deepest);
	json_array_foreach(json, i, part) n += count(part, depth, deepest);
	return n;
}

static void check_scan(struct str text, const struct body *body)
{
	struct json_scan scan;
	unsigned depth = 0;

	if (!body->root || !text.len)
		return;
	assert(json_scan(text, &scan));
	assert(scan.values == count(body->root, 0, &depth));
	assert(scan.depth == depth);
	assert(scan.depth <= LIMIT_JSON_DEPTH && scan.values <= LIMIT_JSON_VALUES);
}

static void check_value(const struct field *f, const struct value *v)
{
	if (!v->set)
		return;
	if (f->type == FIELD_INT && f->max)
		assert(v->number >= f->min && v->number <= f->max);
	if (f->type == FIELD_STRING && f->check)
		assert(!f->check(v->text));
	if (f->type == FIELD_STRINGS)
		assert(json_is_array(v->json) && json_array_size(v->json) <= f->max_items);
	if (f->type == FIELD_MAP)
		assert(json_is_object(v->json));
}

static void check_problems(const struct route *route, const struct problems *p)
{
	_cleanup_buf_ struct buf list = BUF(p->buf.len + 2);
	json_error_t error;
	json_t *item;
	size_t i;

	buf_put_char(&list, '[');
	buf_put_str(&list, buf_str(&p->buf));
	buf_put_char(&list, ']');
	json_t *json =
		json_loadb(list.data, list.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
	assert(json && json_is_array(json));
	assert((json_array_size(json) != 0) == (p->count != 0));
	json_array_foreach(json, i, item)
	{
		assert(json_is_string(json_object_get(item, "type")));
		assert(json_array_size(json_object_get(item, "loc")));
		assert(!route->secret || !json_object_get(item, "input"));
	}
	json_decref(json);
}

static void check_fields(const struct route *route, struct str param, struct str query,
			 struct str text)
{
	_cleanup_arena_ struct arena arena = { NULL };
	struct value values[FIELDS_MAX] = { { 0 } };
	struct problems problems;
	struct body body;

	body_parse(text, &body);
	check_scan(text, &body);
	problems_init(&problems, route->secret);
	field_check_path(route->fields, route->n_fields, param, values, &problems);
	field_check_query(route->fields, route->n_fields, query, &arena, values, &problems);
	if (route->body != BODY_NONE)
		field_check_body(route->fields, route->n_fields, &body, values, &problems);
	check_problems(route, &problems);
	for (size_t i = 0; i < route->n_fields && !problems.count; i++)
		check_value(&route->fields[i], &values[i]);
	problems_fini(&problems);
	body_fini(&body);
}

static void assert_reads_back(struct str json, struct str want)
{
	json_error_t error;
	json_t *list = json_loadb(json.data, json.len, JSON_ALLOW_NUL, &error);
	const json_t *text = json_array_get(list, 0);

	assert(text && json_string_length(text) == want.len);
	assert(!want.len || memcmp(json_string_value(text), want.data, want.len) == 0);
	json_decref(list);
}

static void check_writer(struct str bytes)
{
	_cleanup_buf_ struct buf want = BUF(bytes.len * 3 + 16), whole = BUF(bytes.len * 6 + 16);
	_cleanup_buf_ struct buf pieces = BUF(bytes.len * 6 + ANSWER_CHUNK_ENCODED + 16);
	struct json_out o = JSON_OUT(&whole);
	struct utf8_fix fix = { .n_held = 0 };
	struct answer a;
	struct err err;

	utf8_fix_put(&fix, bytes, &want);
	utf8_fix_end(&fix, &want);
	json_out_list(&o, NULL);
	json_out_str(&o, NULL, bytes);
	json_out_end_list(&o);
	assert_reads_back(buf_str(&whole), buf_str(&want));
	answer_init(&a);
	answer_source_memory(&a.sources[0], bytes);
	buf_put_text(&a.literals, "[\"");
	answer_text(&a, &a.sources[0], (struct answer_range){ 0, bytes.len });
	buf_put_text(&a.literals, "\"]");
	answer_literal(&a);
	while (answer_encode(&a, &pieces, 1, &err) > 0)
		;
	assert(a.raw == 0);
	assert(str_eq(buf_str(&pieces), buf_str(&whole)));
	answer_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = { (const char *)data, size };

	if (size < 4)
		return 0;
	body_start();
	rest = str_from(rest, 4);
	struct str param = take(&rest, data[1]);
	struct str query = take(&rest, (size_t)data[2] << 8 | data[3]);
	check_fields(&routes[data[0] % n_routes], param, query, rest);
	check_writer(rest);
	return 0;
}
