// SPDX-License-Identifier: Apache-2.0
#include "api/field.h"

#include <math.h>

#include "base/pct.h"
#include "base/utf8.h"

/* The largest number up to which a double holds every integer. */
#define REAL_EXACT 9007199254740992.0

static const char *const wheres[] = { "body", "query", "path" };
static const char nul_why[] = "NUL characters are not allowed";

/* A field that is being checked, and where inside it. */
struct at {
	const struct field *field;
	struct problems *problems;
	const json_t *input;
	struct str input_text;
	struct str sub;
	int64_t index;
};

static void report(const struct at *at, enum problem_type type, int64_t number, const char *why)
{
	struct problem item = {
		.type = type,
		.where = wheres[at->field->where],
		.name = at->field->name,
		.sub = at->sub,
		.index = at->index,
		.number = number,
		.why = why,
		.input = at->field->hidden ? NULL : at->input,
		.input_text = at->field->hidden ? (struct str){ NULL, 0 } : at->input_text,
	};

	problem_add(at->problems, &item);
}

static bool check_text(const struct at *at, struct str text, field_check_fn check)
{
	uint32_t max = at->field->max_chars;
	const char *why = NULL;

	if (!at->field->nul_ok && text.len && memchr(text.data, '\0', text.len))
		why = nul_why;
	else if (check)
		why = check(text);
	/* A character has at least one byte, so counting is needed for long texts only. */
	if (max && text.len > max && utf8_count(text) > max) {
		report(at, PROBLEM_STRING_LONG, max, NULL);
		return false;
	}
	if (why)
		report(at, PROBLEM_VALUE, 0, why);
	return !why;
}

static bool check_range(const struct at *at, int64_t *number)
{
	const struct field *f = at->field;
	bool low = f->max && *number < f->min, high = f->max && *number > f->max;

	if (!low && !high)
		return true;
	if (f->clamp) {
		*number = low ? f->min : f->max;
		return true;
	}
	report(at, low ? PROBLEM_GE : PROBLEM_LE, low ? f->min : f->max, NULL);
	return false;
}

static bool check_int(const struct at *at, const json_t *json, int64_t *ret)
{
	if (json_is_integer(json)) {
		*ret = json_integer_value(json);
	} else if (json_is_real(json)) {
		double real = json_real_value(json);
		if (trunc(real) != real || fabs(real) > REAL_EXACT) {
			report(at, PROBLEM_INT_FROM_FLOAT, 0, NULL);
			return false;
		}
		*ret = (int64_t)real;
	} else {
		report(at, PROBLEM_INT, 0, NULL);
		return false;
	}
	return check_range(at, ret);
}

static bool is_string(const struct at *at, const json_t *json, struct str *ret)
{
	if (!json_is_string(json)) {
		report(at, PROBLEM_STRING, 0, NULL);
		return false;
	}
	*ret = (struct str){ json_string_value(json), json_string_length(json) };
	return true;
}

static bool check_strings(struct at at, const json_t *list)
{
	size_t n = json_array_size(list);
	bool ok = true;

	if (!json_is_array(list)) {
		report(&at, PROBLEM_LIST, 0, NULL);
		return false;
	}
	if (n > at.field->max_items) {
		problem_add(at.problems, &(struct problem){ .type = PROBLEM_LIST_LONG,
							    .where = wheres[at.field->where],
							    .name = at.field->name,
							    .index = -1,
							    .number = at.field->max_items,
							    .actual = (int64_t)n });
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		struct str text;
		at.index = (int64_t)i;
		at.input = json_array_get(list, i);
		ok &= is_string(&at, at.input, &text) && check_text(&at, text, at.field->check);
	}
	return ok;
}

static bool check_map(struct at at, const json_t *map)
{
	const char *name;
	json_t *json;
	bool ok = true;

	if (!json_is_object(map)) {
		report(&at, PROBLEM_DICT, 0, NULL);
		return false;
	}
	/* The iterator takes a plain pointer and changes nothing. */
	json_object_foreach((json_t *)(uintptr_t)map, name, json)
	{
		struct str text;
		const char *why;
		at.sub = str_of(name);
		at.input = json;
		why = at.field->check_name ? at.field->check_name(at.sub) : NULL;
		if (why) {
			report(&at, PROBLEM_VALUE, 0, why);
			ok = false;
			continue;
		}
		ok &= is_string(&at, json, &text) && check_text(&at, text, at.field->check);
	}
	return ok;
}

static bool check_value(const struct at *at, const json_t *json, struct value *v)
{
	switch (at->field->type) {
	case FIELD_STRING:
		return is_string(at, json, &v->text) && check_text(at, v->text, at->field->check);
	case FIELD_INT:
		return check_int(at, json, &v->number);
	case FIELD_BOOL:
		if (!json_is_boolean(json)) {
			report(at, PROBLEM_BOOL, 0, NULL);
			return false;
		}
		v->number = json_is_true(json);
		return true;
	case FIELD_STRINGS:
		v->json = json;
		return check_strings(*at, json);
	case FIELD_MAP:
		v->json = json;
		return check_map(*at, json);
	}
	return false;
}

static void preset(const struct field *f, struct value *v)
{
	*v = (struct value){ .number = f->preset };
	if (f->preset_text)
		v->text = str_of(f->preset_text);
}

static void check_field(const struct field *f, const json_t *root, struct value *v,
			struct problems *p)
{
	const json_t *json = json_object_get(root, f->name);
	struct at at = { .field = f, .problems = p, .input = json, .index = -1 };

	preset(f, v);
	if (!json || (f->nullable && json_is_null(json))) {
		if (f->required) {
			at.input = NULL;
			report(&at, PROBLEM_MISSING, 0, NULL);
		}
		return;
	}
	v->set = check_value(&at, json, v);
}

/* Depth is bounded by the scan. */
static bool has_nul(const json_t *json)
{
	const char *name;
	json_t *part;
	size_t i;

	if (json_is_string(json))
		return memchr(json_string_value(json), '\0', json_string_length(json)) != NULL;
	json_object_foreach((json_t *)(uintptr_t)json, name, part)
	{
		if (has_nul(part))
			return true;
	}
	json_array_foreach(json, i, part)
	{
		if (has_nul(part))
			return true;
	}
	return false;
}

static bool is_known(const struct field *fields, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		if (fields[i].where == IN_BODY && strcmp(fields[i].name, name) == 0)
			return true;
	}
	return false;
}

/* NUL is refused in every string of the body: in those of the table where they are checked, in all
 * others here. */
static void check_unknown(const struct field *fields, size_t n, json_t *root, struct problems *p)
{
	const char *name;
	json_t *json;

	json_object_foreach(root, name, json)
	{
		if (is_known(fields, n, name) || !has_nul(json))
			continue;
		problem_add(p, &(struct problem){ .type = PROBLEM_VALUE,
						  .where = "body",
						  .sub = str_of(name),
						  .index = -1,
						  .why = nul_why });
	}
}

void field_check_body(const struct field *fields, size_t n, const struct body *body,
		      struct value *values, struct problems *p)
{
	if (!body->root) {
		problem_add(p, &(struct problem){ .type = PROBLEM_JSON,
						  .where = "body",
						  .index = (int64_t)body->at,
						  .why = body->why });
		return;
	}
	if (!json_is_object(body->root)) {
		problem_add(p, &(struct problem){
				       .type = PROBLEM_MODEL, .where = "body", .index = -1 });
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (fields[i].where == IN_BODY)
			check_field(&fields[i], body->root, &values[i], p);
	}
	if (body->has_nul)
		check_unknown(fields, n, body->root, p);
}

/* An optional sign and digits; a number too long for us is as good as the largest. */
static bool parse_int(struct str text, int64_t *ret)
{
	bool minus = text.len && text.data[0] == '-';
	int64_t n = 0;

	if (text.len && (minus || text.data[0] == '+'))
		text = str_from(text, 1);
	if (!text.len)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		char c = text.data[i];
		if (c < '0' || c > '9')
			return false;
		n = n > INT64_MAX / 10 - 1 ? INT64_MAX / 10 : n * 10 + (c - '0');
	}
	*ret = minus ? -n : n;
	return true;
}

static bool parse_bool(struct str text, int64_t *ret)
{
	static const struct {
		struct str text;
		bool value;
	} words[] = {
		{ STR("1"), true },  { STR("true"), true },   { STR("yes"), true },
		{ STR("0"), false }, { STR("false"), false }, { STR("no"), false },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!str_eq_nocase(text, words[i].text))
			continue;
		*ret = words[i].value;
		return true;
	}
	return false;
}

static void check_param(const struct field *f, struct str text, struct value *v, struct problems *p)
{
	struct at at = { .field = f, .problems = p, .input_text = text, .index = -1 };

	preset(f, v);
	v->text = text;
	if (f->type == FIELD_STRING)
		v->set = check_text(&at, text, f->check);
	else if (f->type == FIELD_BOOL && !parse_bool(text, &v->number))
		report(&at, PROBLEM_BOOL, 0, NULL);
	else if (f->type == FIELD_BOOL)
		v->set = true;
	else if (!parse_int(text, &v->number))
		report(&at, PROBLEM_INT_PARSING, 0, NULL);
	else
		v->set = check_range(&at, &v->number);
}

/* What the query has of one field. */
struct param {
	struct str text; /* the last value; data == NULL: none */
	bool malformed;	 /* it is there and cannot be decoded */
};

static struct param *find_param(const struct field *fields, size_t n, struct str name,
				struct param *params)
{
	for (size_t i = 0; i < n; i++) {
		if (fields[i].where == IN_QUERY && str_eq(name, str_of(fields[i].name)))
			return &params[i];
	}
	return NULL;
}

/* Notes the last value of each known parameter. */
static void read_query(const struct field *fields, size_t n, struct str query, struct arena *arena,
		       struct param *params, struct problems *p)
{
	char *room = query.data ? arena_alloc(arena, query.len * 2 + 2) : NULL;
	struct str pair;

	while (str_split(&query, '&', &pair)) {
		struct str raw = pair, name, value;
		struct str name_raw = { NULL, 0 };
		struct param *param = NULL;
		if (!str_split(&raw, '=', &name_raw))
			continue;
		char *value_room = room + name_raw.len + 1;
		bool named = pct_decode_query(name_raw, room, &name);
		if (named)
			param = find_param(fields, n, name, params);
		if (!named || !pct_decode_query(raw, value_room, &value)) {
			problem_add(p, &(struct problem){ .type = PROBLEM_VALUE,
							  .where = "query",
							  .index = -1,
							  .why = "invalid percent-encoding" });
			if (param)
				param->malformed = true;
			continue;
		}
		if (!param)
			continue;
		value_room[value.len] = '\0';
		param->text = (struct str){ value_room, value.len };
		room = value_room + value.len + 1;
	}
}

void field_check_query(const struct field *fields, size_t n, struct str query, struct arena *arena,
		       struct value *values, struct problems *p)
{
	struct param params[FIELDS_MAX] = { { .malformed = false } };

	read_query(fields, n, query, arena, params, p);
	for (size_t i = 0; i < n; i++) {
		const struct field *f = &fields[i];
		struct at at = { .field = f, .problems = p, .index = -1 };
		if (f->where != IN_QUERY)
			continue;
		preset(f, &values[i]);
		if (params[i].text.data)
			check_param(f, params[i].text, &values[i], p);
		else if (f->required && !params[i].malformed)
			report(&at, PROBLEM_MISSING, 0, NULL);
	}
}

void field_check_path(const struct field *fields, size_t n, struct str param, struct value *values,
		      struct problems *p)
{
	for (size_t i = 0; i < n; i++) {
		if (fields[i].where == IN_PATH)
			check_param(&fields[i], param, &values[i], p);
	}
}
