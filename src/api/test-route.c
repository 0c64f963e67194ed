// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/error.h"
#include "api/openapi.h"
#include "api/route.h"
#include "base/mem.h"
#include "http/status.h"

#include <jansson.h>

static const struct find_case {
	const char *method, *path;
	const char *pattern; /* NULL: no route */
	bool path_known;
	struct str params[2];
} find_cases[] = {
	{ "POST", "/v1/sessions", "/v1/sessions", true },
	{ "GET", "/v1/sessions", "/v1/sessions", true },
	{ "GET", "/v1/sessions/", NULL },
	{ "GET", "//v1/sessions", NULL },
	{ "GET", "/v1//sessions", NULL },
	{ "GET", "/V1/sessions", NULL },
	{ "GET", "v1/sessions", NULL },
	{ "GET", "", NULL },
	{ "GET", "/", NULL },
	{ "OPTIONS", "*", NULL },
	{ "GET", "/v1/%73essions", "/v1/sessions", true },
	{ "GET", "/v1%2Fsessions", NULL },
	{ "GET", "/v1/sessions/sbx_1", "/v1/sessions/{session_id}", true, { STR("sbx_1") } },
	{ "GET", "/v1/sessions/a%2Fexec", "/v1/sessions/{session_id}", true, { STR("a/exec") } },
	{ "GET",
	  "/v1/sessions/%00%C3%BC",
	  "/v1/sessions/{session_id}",
	  true,
	  { STR("\0\xc3\xbc") } },
	{ "GET", "/v1/sessions/%ff", NULL },
	{ "GET", "/v1/sessions/%4", NULL },
	{ "GET", "/v1/sessions/%zz", NULL },
	{ "GET", "/v1/sessions/../usage", NULL },
	{ "POST", "/v1/sessions//exec", NULL },
	{ "POST", "/v1/sessions/x/exec", "/v1/sessions/{session_id}/exec", true, { STR("x") } },
	{ "POST", "/v1/sessions/x/exec/", NULL },
	{ "post", "/v1/sessions/x/exec", NULL, true },
	{ "GET", "/v1/sessions/x/exec", NULL, true },
	{ "DELETE",
	  "/v1/sessions/x/previews/80",
	  "/v1/sessions/{session_id}/previews/{port}",
	  true,
	  { STR("x"), STR("80") } },
	{ "HEAD", "/healthz", "/healthz", true },
	{ "HEAD", "/v1/usage", NULL, true },
	{ "PUT", "/v1/sessions/x/files", "/v1/sessions/{session_id}/files", true, { STR("x") } },
	{ "PUT", "/v1/sessions/x/nothing", NULL },
	{ "GET", "/docs", NULL },
	{ "GET", "/v1/sessions/a/b/c/d/e/f/g/h/i/j/k", NULL },
};

static void paths_find_their_route_and_nothing_else(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(find_cases); i++) {
		const struct find_case *c = &find_cases[i];
		_cleanup_arena_ struct arena arena = { NULL };
		struct route_match match;
		route_find(str_of(c->method), str_of(c->path), &arena, &match);
		assert_int_equal(match.route != NULL, c->pattern != NULL);
		assert_int_equal(match.path_known, c->path_known);
		if (!c->pattern)
			continue;
		assert_string_equal(match.route->pattern, c->pattern);
		assert_string_equal(match.route->method, c->method);
		for (unsigned k = 0; k < 2; k++)
			assert_true(str_eq(match.params[k], c->params[k]));
	}
}

static void allow_lists_the_methods_of_the_path(void **state)
{
	static const char *const cases[][2] = {
		{ "/v1/sessions", "POST, GET" },   { "/v1/sessions/x", "GET, DELETE" },
		{ "/v1/sessions/x/exec", "POST" }, { "/healthz", "GET, HEAD" },
		{ "/openapi.json", "GET" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_arena_ struct arena arena = { NULL };
		_cleanup_buf_ struct buf allow = BUF(100);
		route_methods(str_of(cases[i][0]), &arena, &allow);
		assert_string_equal(allow.data, cases[i][1]);
	}
}

/* Section 20 of the contract, and the one word of ours. RA as in its last column. */
static const struct error_case {
	int status;
	const char *slugs;
	unsigned retry_after;
	bool close;
} error_cases[] = {
	{ 400, "malformed_request", 0, true },
	{ 400, "template_not_permitted is_folder not_regular_file not_in_folder not_utf8 "
	       "not_folder secret_name_reserved too_many_secrets bad_repo bad_ref bad_destination "
	       "bad_tenant" },
	{ 401, "unauthenticated bad_admin_key" },
	{ 403, "not_your_session egress_not_permitted path_outside permission_denied" },
	{ 404, "not_found session_not_found file_not_found snapshot_not_found key_not_found "
	       "repo_not_found admin_off" },
	{ 405, "method_not_allowed" },
	{ 408, "request_timeout", 0, true },
	{ 409, "last_key too_many_keys destination_exists restore_conflict not_persistent "
	       "persistent_unavailable not_empty exists changed" },
	{ 413, "body_too_large upload_too_large file_too_large quota too_many_files too_deep "
	       "snapshot_too_large snapshot_storage import_too_large import_no_space" },
	{ 414, "target_too_long", 0, true },
	{ 431, "headers_too_large", 0, true },
	{ 415, "bad_content_type" },
	{ 422, "invalid_request unpack_failed" },
	{ 426, "upgrade_required" },
	{ 429, "rate_limited session_limit persistent_limit exec_limit snapshot_limit "
	       "preview_limit" },
	{ 500, "internal" },
	{ 501, "keystore_off audit_off snapshots_off previews_off secrets_off" },
	{ 502, "github_failed" },
	{ 503, "no_capacity busy", 5 },
	{ 503, "snapshot_space", 30 },
	{ 503, "too_many_connections stopping", 1, true },
	{ 505, "http_version", 0, true },
};

static void every_word_of_the_contract_has_its_status(void **state)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(error_cases); i++) {
		const struct error_case *c = &error_cases[i];
		struct str rest = str_of(c->slugs), slug;
		for (; str_split(&rest, ' ', &slug); n++) {
			_cleanup_free_ char *text = mem_dup_n(slug.data, slug.len);
			const struct error_row *row = error_find(text);
			assert_string_equal(row->slug, text);
			assert_int_equal(row->status, c->status);
			assert_int_equal(row->retry_after, c->retry_after);
			assert_int_equal(row->close, c->close);
		}
	}
	assert_int_equal(n, error_n_rows);
}

static void unknown_words_are_internal(void **state)
{
	assert_string_equal(error_find(NULL)->slug, "internal");
	assert_string_equal(error_find("new_word")->slug, "internal");
	assert_string_equal(error_find("internal")->text, "Internal Server Error");
}

static void every_status_has_a_name(void **state)
{
	for (size_t i = 0; i < error_n_rows; i++)
		assert_string_not_equal(http_status_name(error_rows[i].status), "Status");
}

static json_t *get(json_t *json, const char *a, const char *b, const char *c)
{
	const char *const keys[] = { a, b, c };

	for (unsigned i = 0; i < 3 && keys[i]; i++) {
		json = json_object_get(json, keys[i]);
		if (!json)
			fail_msg("no %s", keys[i]);
	}
	return json;
}

static void the_description_has_every_route(void **state)
{
	_cleanup_buf_ struct buf out = BUF(1u << 20);
	json_error_t error;
	size_t paths = 0;

	openapi_write(&out);
	json_t *json = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES, &error);
	if (!json)
		fail_msg("%s at %d", error.text, error.position);
	assert_string_equal(json_string_value(get(json, "openapi", NULL, NULL)), "3.1.0");
	assert_string_equal(json_string_value(get(json, "info", "title", NULL)),
			    "Agent Sandbox Execution API");
	assert_string_equal(json_string_value(get(json, "info", "version", NULL)), "1.0.0");
	for (size_t i = 0; i < n_routes; i++) {
		char method[8] = { 0 };
		if (!routes[i].id)
			continue;
		for (unsigned k = 0; routes[i].method[k]; k++)
			method[k] = (char)(routes[i].method[k] | 0x20);
		json_t *operation = get(json, "paths", routes[i].pattern, method);
		assert_string_equal(json_string_value(get(operation, "operationId", NULL, NULL)),
				    routes[i].id);
		assert_non_null(get(operation, "responses", "500", NULL));
		paths++;
	}
	assert_true(paths > 20);
	json_t *exec = get(get(json, "paths", "/v1/sessions/{session_id}/exec", "post"),
			   "requestBody", "content", "application/json");
	assert_int_equal(json_integer_value(
				 get(get(exec, "schema", "properties", "timeout_seconds"),
				     "maximum", NULL, NULL)),
			 60);
	json_decref(json);
}

static void every_route_can_be_served_or_is_off(void **state)
{
	for (size_t i = 0; i < n_routes; i++)
		assert_true(routes[i].handle || routes[i].feature_off);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_find_their_route_and_nothing_else),
		cmocka_unit_test(allow_lists_the_methods_of_the_path),
		cmocka_unit_test(every_word_of_the_contract_has_its_status),
		cmocka_unit_test(unknown_words_are_internal),
		cmocka_unit_test(every_status_has_a_name),
		cmocka_unit_test(the_description_has_every_route),
		cmocka_unit_test(every_route_can_be_served_or_is_off),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
