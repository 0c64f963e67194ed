// SPDX-License-Identifier: Apache-2.0
#include "api/openapi.h"

#include "api/error.h"
#include "api/json-out.h"
#include "api/route.h"
#include "base/num.h"
#include "http/status.h"

#define ERROR_REF "#/components/schemas/Error"

static void put_ref(struct json_out *o, const char *key, const char *to)
{
	json_out_object(o, key);
	json_out_text(o, "$ref", to);
	json_out_end_object(o);
}

/* "number|null" as a type or a list of types. */
static void put_type(struct json_out *o, const char *types)
{
	struct str rest = str_of(types), part;

	if (!strchr(types, '|')) {
		json_out_text(o, "type", types);
		return;
	}
	json_out_list(o, "type");
	while (str_split(&rest, '|', &part))
		json_out_str(o, NULL, part);
	json_out_end_list(o);
}

static void put_strings(struct json_out *o, const char *key, uint32_t max_chars)
{
	json_out_object(o, key);
	json_out_text(o, "type", "string");
	if (max_chars)
		json_out_int(o, "maxLength", max_chars);
	json_out_end_object(o);
}

static void put_schema(struct json_out *o, const char *key, const struct field *f)
{
	static const struct {
		const char *plain, *nullable;
	} types[] = {
		[FIELD_STRING] = { "string", "string|null" },
		[FIELD_INT] = { "integer", "integer|null" },
		[FIELD_BOOL] = { "boolean", "boolean|null" },
		[FIELD_STRINGS] = { "array", "array|null" },
		[FIELD_MAP] = { "object", "object|null" },
	};

	json_out_object(o, key);
	put_type(o, f->nullable ? types[f->type].nullable : types[f->type].plain);
	json_out_text(o, "description", f->about);
	if (f->type == FIELD_STRING && f->max_chars)
		json_out_int(o, "maxLength", f->max_chars);
	if (f->type == FIELD_STRINGS) {
		put_strings(o, "items", f->max_chars);
		json_out_int(o, "maxItems", f->max_items);
	}
	if (f->type == FIELD_MAP)
		put_strings(o, "additionalProperties", 0);
	if (f->type == FIELD_INT && !f->clamp) {
		json_out_int(o, "minimum", f->min);
		json_out_int(o, "maximum", f->max);
	}
	if (f->type == FIELD_INT && !f->required)
		json_out_int(o, "default", f->preset);
	if (f->type == FIELD_BOOL)
		json_out_bool(o, "default", f->preset != 0);
	if (f->preset_text)
		json_out_text(o, "default", f->preset_text);
	json_out_end_object(o);
}

static void put_parameter(struct json_out *o, const char *in, struct str name,
			  const struct field *f)
{
	json_out_object(o, NULL);
	json_out_str(o, "name", name);
	json_out_text(o, "in", in);
	json_out_bool(o, "required", !f || f->required);
	if (f)
		put_schema(o, "schema", f);
	else
		put_strings(o, "schema", 0);
	json_out_end_object(o);
}

static const struct field *path_field(const struct route *route, struct str name)
{
	for (size_t i = 0; i < route->n_fields; i++) {
		const struct field *f = &route->fields[i];
		if (f->where == IN_PATH && str_eq(name, str_of(f->name)))
			return f;
	}
	return NULL;
}

static void put_parameters(struct json_out *o, const struct route *route)
{
	struct str rest = str_of(route->pattern), part;

	json_out_list(o, "parameters");
	while (str_split(&rest, '/', &part)) {
		if (part.len < 3 || part.data[0] != '{')
			continue;
		struct str name = { part.data + 1, part.len - 2 };
		put_parameter(o, "path", name, path_field(route, name));
	}
	for (size_t i = 0; i < route->n_fields; i++) {
		const struct field *f = &route->fields[i];
		if (f->where == IN_QUERY)
			put_parameter(o, "query", str_of(f->name), f);
	}
	json_out_end_list(o);
}

/* "type": { "schema": bytes } */
static void put_bytes(struct json_out *o, const char *type)
{
	json_out_object(o, type);
	json_out_object(o, "schema");
	json_out_text(o, "type", "string");
	json_out_text(o, "format", "binary");
	json_out_end_object(o);
	json_out_end_object(o);
}

static void put_body(struct json_out *o, const struct route *route)
{
	if (route->body == BODY_NONE)
		return;
	if (route->body == BODY_BYTES) {
		json_out_object(o, "requestBody");
		json_out_object(o, "content");
		put_bytes(o, "application/octet-stream");
		json_out_end_object(o);
		json_out_end_object(o);
		return;
	}
	json_out_object(o, "requestBody");
	json_out_object(o, "content");
	json_out_object(o, "application/json");
	json_out_object(o, "schema");
	json_out_text(o, "type", "object");
	json_out_object(o, "properties");
	for (size_t i = 0; i < route->n_fields; i++) {
		if (route->fields[i].where == IN_BODY)
			put_schema(o, route->fields[i].name, &route->fields[i]);
	}
	json_out_end_object(o);
	json_out_list(o, "required");
	for (size_t i = 0; i < route->n_fields; i++) {
		if (route->fields[i].where == IN_BODY && route->fields[i].required)
			json_out_text(o, NULL, route->fields[i].name);
	}
	json_out_end_list(o);
	for (int i = 0; i < 4; i++)
		json_out_end_object(o);
}

static void put_status(struct json_out *o, int status)
{
	json_out_name(o, (struct str){ (char[]){ (char)('0' + status / 100),
						 (char)('0' + status / 10 % 10),
						 (char)('0' + status % 10) },
				       3 });
}

static void put_success(struct json_out *o, const struct route *route)
{
	put_status(o, route->status);
	json_out_object(o, NULL);
	json_out_text(o, "description", http_status_name(route->status));
	json_out_object(o, "content");
	if (route->type) {
		put_bytes(o, route->type);
		json_out_end_object(o);
		json_out_end_object(o);
		return;
	}
	json_out_object(o, "application/json");
	json_out_object(o, "schema");
	json_out_text(o, "type", "object");
	json_out_object(o, "properties");
	for (const struct route_answer *a = route->answers; a->name; a++) {
		json_out_object(o, a->name);
		put_type(o, a->type);
		json_out_end_object(o);
	}
	for (int i = 0; i < 3; i++)
		json_out_end_object(o);
	if (route->events) {
		json_out_object(o, "text/event-stream");
		put_strings(o, "schema", 0);
		json_out_end_object(o);
	}
	json_out_end_object(o);
	json_out_end_object(o);
}

static void put_failure(struct json_out *o, int status)
{
	put_status(o, status);
	json_out_object(o, NULL);
	json_out_text(o, "description", http_status_name(status));
	json_out_object(o, "content");
	json_out_object(o, "application/json");
	put_ref(o, "schema", ERROR_REF);
	for (int i = 0; i < 3; i++)
		json_out_end_object(o);
}

/* What the ladder can say on this route, and what the row adds; ascending, each once. */
static bool can_answer(const struct route *route, int status)
{
	struct str rest = str_of(route->also), part;
	uint64_t number;

	while (str_split(&rest, ' ', &part)) {
		if (num_parse(part, 100, 599, &number) && (int)number == status)
			return true;
	}
	switch (status) {
	case 401:
		return route->caller != CALLER_ANYONE;
	case 403:
	case 404:
		return route->target != TARGET_NONE;
	case 413:
		return route->body != BODY_NONE;
	case 415:
		return route->body == BODY_JSON || route->body == BODY_WRITE;
	case 422:
		return route->n_fields > 0;
	case 429:
		return route->caller == CALLER_TENANT;
	case 500:
		return true;
	default:
		return false;
	}
}

static void put_operation(struct json_out *o, const struct route *route)
{
	static const char *const methods[][2] = {
		{ "GET", "get" },
		{ "POST", "post" },
		{ "PUT", "put" },
		{ "DELETE", "delete" },
	};
	const char *method = NULL;

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (strcmp(methods[i][0], route->method) == 0)
			method = methods[i][1];
	}
	json_out_object(o, method);
	json_out_text(o, "operationId", route->id);
	json_out_text(o, "summary", route->summary);
	if (route->caller == CALLER_ANYONE) {
		json_out_list(o, "security");
		json_out_end_list(o);
	}
	put_parameters(o, route);
	put_body(o, route);
	json_out_object(o, "responses");
	put_success(o, route);
	for (int status = 400; status < 600; status++) {
		if (can_answer(route, status))
			put_failure(o, status);
	}
	json_out_end_object(o);
	json_out_end_object(o);
}

/* The first row of each pattern opens the path and takes the others with it. */
static void put_paths(struct json_out *o)
{
	json_out_object(o, "paths");
	for (size_t i = 0; i < n_routes; i++) {
		bool seen = !routes[i].id;
		for (size_t k = 0; k < i; k++)
			seen |= strcmp(routes[k].pattern, routes[i].pattern) == 0;
		if (seen)
			continue;
		json_out_object(o, routes[i].pattern);
		for (size_t k = i; k < n_routes; k++) {
			if (routes[k].id && strcmp(routes[k].pattern, routes[i].pattern) == 0)
				put_operation(o, &routes[k]);
		}
		json_out_end_object(o);
	}
	json_out_end_object(o);
}

static void put_components(struct json_out *o)
{
	json_out_object(o, "components");
	json_out_object(o, "securitySchemes");
	json_out_object(o, "key");
	json_out_text(o, "type", "apiKey");
	json_out_text(o, "in", "header");
	json_out_text(o, "name", "X-API-Key");
	json_out_end_object(o);
	json_out_end_object(o);
	json_out_object(o, "schemas");
	json_out_object(o, "Error");
	json_out_text(o, "type", "object");
	json_out_object(o, "properties");
	json_out_object(o, "detail");
	put_type(o, "string|array");
	json_out_end_object(o);
	put_strings(o, "code", 0);
	json_out_end_object(o);
	json_out_list(o, "required");
	json_out_text(o, NULL, "detail");
	json_out_text(o, NULL, "code");
	json_out_end_list(o);
	for (int i = 0; i < 3; i++)
		json_out_end_object(o);
}

void openapi_write(struct buf *out)
{
	struct json_out o = JSON_OUT(out);

	json_out_object(&o, NULL);
	json_out_text(&o, "openapi", "3.1.0");
	json_out_object(&o, "info");
	json_out_text(&o, "title", "Agent Sandbox Execution API");
	json_out_text(&o, "version", "1.0.0");
	json_out_end_object(&o);
	json_out_list(&o, "security");
	json_out_object(&o, NULL);
	json_out_list(&o, "key");
	json_out_end_list(&o);
	json_out_end_object(&o);
	json_out_end_list(&o);
	put_paths(&o);
	put_components(&o);
	json_out_end_object(&o);
}
