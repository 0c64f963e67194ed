// SPDX-License-Identifier: Apache-2.0
/* Whole requests against the fakes: the ladder, and every handler from request to answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/fakes.h"
#include "api/handlers.h"
#include "api/request.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"

#define ID "sbx_0123456789ab"
#define SESSION "/v1/sessions/" ID

static uv_loop_t loop;
static struct api *api;
static char log_dir[] = "/tmp/airlock-test-api-XXXXXX";

static const char *const as_a[] = { "X-Api-Key: key-a", "Content-Type: application/json", NULL };
static const char *const as_b[] = { "x-api-key: key-b", NULL };

static uint64_t count_errors(void *data)
{
	return fake.store_errors;
}

static bool store_fails(void *data)
{
	return fake.store_fails;
}

static int make_log_dir(void **state)
{
	return mkdtemp(log_dir) ? 0 : -1;
}

static int remove_log_dir(void **state)
{
	return rmdir(log_dir);
}

static int start(void **state)
{
	struct api_config config = { .loop = &loop,
				     .store_errors = count_errors,
				     .store_fails = store_fails,
				     .write_max = 64u * MIB,
				     .upload_max = 50u * MIB,
				     .preview_domain = "preview.example.net:8443",
				     .egress_log_dir = log_dir };
	struct err err;

	fake_reset();
	uv_loop_init(&loop);
	return api_open(&config, NULL, &api, &err);
}

static void on_closed(void *data)
{
	*(bool *)data = true;
}

static void stop_api(void)
{
	bool closed = false;

	if (!api)
		return;
	api_close(api, on_closed, &closed);
	api = NULL;
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_true(closed);
}

static int stop(void **state)
{
	stop_api();
	assert_int_equal(fake.outputs, 0);
	return uv_loop_close(&loop);
}

/* Sends a request; the body, when the api asks for it, at once. */
static void send_to_api(struct http_exchange *x, const char *method, const char *target,
			const char *const *headers, const char *body)
{
	fake_request(x, method, target, headers, str_of(body));
	api_handle(api, x);
	if (x->wants_body)
		fake_body(x);
}

static void assert_error(struct http_exchange *x, int status, const char *code, const char *detail)
{
	json_t *json = fake_json(x);

	assert_int_equal(x->status, status);
	assert_true(x->ended);
	assert_string_equal(x->type, "application/json");
	assert_string_equal(json_string_value(json_object_get(json, "code")), code);
	if (detail)
		assert_string_equal(json_string_value(json_object_get(json, "detail")), detail);
	json_decref(json);
}

#define EXEC_BODY "{\"command\":\"echo hi\"}"

static const struct ladder_case {
	const char *method, *target;
	const char *const *headers;
	const char *body;
	int status;
	const char *code, *detail;
	unsigned tokens; /* taken from the caller */
} ladder_cases[] = {
	{ "GET", "/nothing", NULL, NULL, 404, "not_found", "Not Found", 0 },
	{ "GET", "/v1/usage/", as_a, NULL, 404, "not_found", "Not Found", 0 },
	{ "PATCH", "/v1/usage", NULL, NULL, 405, "method_not_allowed", "Method Not Allowed", 0 },
	{ "HEAD", "/v1/usage", as_a, NULL, 405, "method_not_allowed", "Method Not Allowed", 0 },
	{ "GET", "/v1/usage", NULL, NULL, 401, "unauthenticated",
	  "Invalid or missing X-API-Key header", 0 },
	{ "GET", "/v1/usage", (const char *const[]){ "X-API-Key:", NULL }, NULL, 401,
	  "unauthenticated", NULL, 0 },
	{ "GET", "/v1/usage", (const char *const[]){ "X-API-Key: wrong", NULL }, NULL, 401,
	  "unauthenticated", NULL, 0 },
	{ "GET", "/v1/usage", (const char *const[]){ "X-API-Key: key-\xc3\xa4", NULL }, NULL, 401,
	  "unauthenticated", NULL, 0 },
	{ "GET", "/v1/usage", (const char *const[]){ "X-API-Key: key-a", "X-API-Key: key-a", NULL },
	  NULL, 401, "unauthenticated", NULL, 0 },
	/* A wrong key hides everything behind it. */
	{ "POST", SESSION "/exec", NULL, "not json", 401, "unauthenticated", NULL, 0 },
	{ "POST", "/v1/sessions/none/exec", as_a, "not json", 422, "invalid_request", NULL, 1 },
	{ "POST", SESSION "/exec", as_b, "{}", 422, "invalid_request", NULL, 0 },
	{ "POST", SESSION "/exec", as_b, EXEC_BODY, 403, "not_your_session",
	  "Forbidden: Access denied to this session", 0 },
	{ "DELETE", SESSION, as_b, NULL, 403, "not_your_session", "Forbidden", 0 },
	{ "POST", "/v1/sessions/none/exec", as_a, EXEC_BODY, 404, "session_not_found",
	  "Session not found or expired", 1 },
	{ "GET", "/v1/sessions/sbx_%2F/egress", as_a, NULL, 404, "session_not_found", NULL, 1 },
	{ "DELETE", "/v1/sessions/none", as_a, NULL, 404, "session_not_found", "Session not found",
	  1 },
	{ "POST", SESSION "/exec",
	  (const char *const[]){ "X-API-Key: key-a", "Content-Type: text/plain", NULL }, EXEC_BODY,
	  415, "bad_content_type", "Content-Type must be application/json.", 1 },
	{ "GET", SESSION "/read", as_a, NULL, 422, "invalid_request", NULL, 1 },
	{ "GET", "/v1/sessions/none/read?path=%zz", as_a, NULL, 422, "invalid_request", NULL, 1 },
	{ "GET", "/v1/audit?limit=x", as_a, NULL, 422, "invalid_request", NULL, 1 },
	{ "GET", "/v1/audit", as_a, NULL, 501, "audit_off",
	  "The audit log is not enabled on this server (SANDBOX_AUDIT).", 1 },
	{ "GET", "/v1/keys", as_a, NULL, 501, "keystore_off", NULL, 1 },
	{ "POST", "/v1/keys", as_a, "{\"name\":1}", 422, "invalid_request", NULL, 1 },
	{ "POST", "/v1/keys", as_a, NULL, 501, "keystore_off",
	  "Self-service keys are not enabled on this server (SANDBOX_KEYSTORE).", 1 },
	{ "DELETE", "/v1/keys/abc", as_a, NULL, 501, "keystore_off", NULL, 1 },
	{ "GET", "/v1/admin/keys", NULL, NULL, 404, "admin_off",
	  "The admin API is not enabled on this server.", 0 },
	{ "POST", "/v1/admin/keys", as_a, "{", 404, "admin_off", NULL, 0 },
	{ "GET", "/v1/snapshots", as_a, NULL, 501, "snapshots_off", NULL, 1 },
	{ "POST", SESSION "/snapshots", as_a, NULL, 501, "snapshots_off",
	  "Snapshots are not enabled on this server (SANDBOX_SNAPSHOTS).", 1 },
	{ "POST", "/v1/sessions/none/snapshots", as_a, NULL, 404, "session_not_found", NULL, 1 },
	{ "POST", SESSION "/previews", as_a, "{\"port\":0}", 422, "invalid_request", NULL, 1 },
	{ "POST", SESSION "/previews", as_a, "{\"port\":8000}", 501, "previews_off",
	  "Previews are not enabled on this server (SANDBOX_PREVIEW_DOMAIN).", 1 },
	{ "POST", "/v1/sessions", as_a, "{\"snapshot_id\":\"x\"}", 501, "snapshots_off", NULL, 1 },
	{ "POST", "/v1/sessions", as_a, "{\"secrets\":{\"K\":\"v\"}}", 501, "secrets_off", NULL,
	  1 },
	{ "PUT", SESSION "/files?path=x", NULL, "data", 401, "unauthenticated", NULL, 0 },
	{ "PUT", SESSION "/files", as_a, "data", 422, "invalid_request", NULL, 1 },
	{ "PUT", "/v1/sessions/none/files?path=x", as_a, "data", 404, "session_not_found", NULL,
	  1 },
	{ "PUT", SESSION "/files?path=x", as_b, "data", 403, "not_your_session", NULL, 0 },
	{ "GET", SESSION "/files", as_a, NULL, 422, "invalid_request", NULL, 1 },
	{ "POST", SESSION "/files", as_a, NULL, 405, "method_not_allowed", NULL, 0 },
	{ "DELETE", SESSION "/files?path=x&recursive=maybe", as_a, NULL, 422, "invalid_request",
	  NULL, 1 },
	{ "DELETE", SESSION "/files?path=./", as_a, NULL, 400, "is_folder",
	  "'./' is the workspace itself.", 1 },
	{ "GET", "/v1/sessions/none/archive", as_a, NULL, 404, "session_not_found", NULL, 1 },
	{ "GET", SESSION "/list?depth=17", as_a, NULL, 422, "invalid_request", NULL, 1 },
	{ "GET", SESSION "/list?after=abc", as_a, NULL, 422, "invalid_request", NULL, 1 },
	{ "GET", SESSION "/list?after=6100", as_a, NULL, 422, "invalid_request", NULL, 1 },
	{ "POST", SESSION "/move", as_a, "{\"from\":\"a\"}", 422, "invalid_request", NULL, 1 },
	{ "POST", SESSION "/mkdir", as_a, "{}", 422, "invalid_request", NULL, 1 },
};

static void the_first_step_that_refuses_answers(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(ladder_cases); i++) {
		const struct ladder_case *c = &ladder_cases[i];
		struct http_exchange x;
		fake.a.rate.micro_tokens = 0;
		send_to_api(&x, c->method, c->target, c->headers, c->body);
		assert_error(&x, c->status, c->code, c->detail);
		assert_int_equal(fake.a.rate.micro_tokens, c->tokens);
		assert_int_equal(x.refused_key, c->status == 401);
		assert_false(fake_has_field(&x, "WWW-Authenticate"));
		fake_exchange_fini(&x);
	}
	assert_int_equal(fake.execs, 0);
	assert_null(api->requests);
}

static void a_refused_method_names_the_allowed_ones(void **state)
{
	struct http_exchange x;

	send_to_api(&x, "PUT", "/v1/sessions", NULL, "body");
	assert_error(&x, 405, "method_not_allowed", NULL);
	assert_true(fake_has_field(&x, "Allow: POST, GET\n"));
	fake_exchange_fini(&x);
}

static void an_empty_bucket_is_429_before_the_body_is_looked_at(void **state)
{
	struct http_exchange x;

	fake.a.rate.micro_tokens = 10;
	send_to_api(&x, "POST", "/v1/sessions/none/exec", as_a, "not json");
	assert_error(&x, 429, "rate_limited",
		     "Rate limit of 10 requests per minute exceeded; retry in 6 s.");
	assert_true(fake_has_field(&x, "Retry-After: 6\n"));
	assert_int_equal(fake.lookups, 0);
	fake_exchange_fini(&x);
}

static void a_declared_length_over_the_limit_is_413_unread(void **state)
{
	struct http_exchange x;

	fake_request(&x, "POST", SESSION "/exec", as_a, STR(EXEC_BODY));
	x.head.content_length = LIMIT_JSON_BODY + 1;
	api_handle(api, &x);
	assert_false(x.wants_body);
	assert_error(&x, 413, "body_too_large", "Request body is larger than the 1 MB limit.");
	fake_exchange_fini(&x);

	fake_request(&x, "POST", SESSION "/write", as_a, STR("{}"));
	x.head.content_length = 64u * MIB + 1;
	api_handle(api, &x);
	assert_error(&x, 413, "body_too_large", "Request body is larger than the 64 MB limit.");
	fake_exchange_fini(&x);
}

static void a_chunked_body_is_measured_while_it_is_read(void **state)
{
	struct http_exchange x;
	_cleanup_free_ char *large = mem_new(LIMIT_JSON_BODY + 1, 1);

	fake_request(&x, "POST", SESSION "/exec", as_a, (struct str){ large, LIMIT_JSON_BODY + 1 });
	x.head.content_length = 0;
	x.head.chunked = true;
	api_handle(api, &x);
	fake_body(&x);
	assert_error(&x, 413, "body_too_large", NULL);
	fake_exchange_fini(&x);

	static const char *const text[] = { "X-API-Key: key-a", "Content-Type: text/plain", NULL };
	fake_request(&x, "POST", SESSION "/exec", text, STR("x"));
	x.head.content_length = 0;
	x.head.chunked = true;
	api_handle(api, &x);
	fake_body(&x);
	assert_error(&x, 415, "bad_content_type", NULL);
	fake_exchange_fini(&x);
}

static void a_body_that_finds_no_room_is_503_busy(void **state)
{
	struct http_exchange x;

	fake_request(&x, "POST", SESSION "/exec", as_a, STR(EXEC_BODY));
	api_handle(api, &x);
	assert_int_equal(x.want.account, 1);
	x.want.fn(x.want.data, &x, 503, STR(""));
	assert_error(&x, 503, "busy", NULL);
	assert_true(fake_has_field(&x, "Retry-After: 5\n"));
	fake_exchange_fini(&x);
}

static void a_connection_lost_in_the_body_leaves_nothing(void **state)
{
	struct http_exchange x;

	fake_request(&x, "POST", SESSION "/exec", as_a, STR(EXEC_BODY));
	api_handle(api, &x);
	x.want.gone(x.want.data);
	assert_null(api->requests);
	assert_false(x.begun);
	fake_exchange_fini(&x);
}

static void expect_is_answered_finally_when_the_session_is_not_there(void **state)
{
	static const char *const expect[] = { "X-API-Key: key-a", "Expect: 100-continue", NULL };
	struct http_exchange x;

	fake_request(&x, "POST", "/v1/sessions/none/write", expect, STR("{}"));
	api_handle(api, &x);
	assert_false(x.wants_body);
	assert_error(&x, 404, "session_not_found", NULL);
	fake_exchange_fini(&x);

	fake_request(&x, "POST", SESSION "/write", expect, STR("{}"));
	api_handle(api, &x);
	assert_true(x.wants_body);
	assert_int_equal(fake.touches, 0);
	fake_body(&x);
	assert_error(&x, 422, "invalid_request", NULL);
	assert_int_equal(fake.touches, 0);
	fake_exchange_fini(&x);
}

static void content_type_is_looked_at_with_a_body_only(void **state)
{
	static const struct {
		const char *type;
		bool ok;
	} cases[] = {
		{ "Content-Type: application/json", true },
		{ "Content-Type: Application/JSON; charset=utf-8", true },
		{ "Content-Type: application/vnd.api+json", true },
		{ "Content-Type:", true },
		{ "X-Nothing: 1", true },
		{ "Content-Type: application/octet-stream", false },
		{ "Content-Type: application/+json", false },
		{ "Content-Type: application/jsonx", false },
		{ "Content-Type: text/json", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *const headers[] = { "X-API-Key: key-a", cases[i].type, NULL };
		struct http_exchange x;
		fake.a.rate.micro_tokens = 0;
		send_to_api(&x, "POST", SESSION "/exec", headers, "{}");
		assert_int_equal(x.status, cases[i].ok ? 422 : 415);
		fake_exchange_fini(&x);
		/* Old clients send a type with bodyless calls. */
		send_to_api(&x, "GET", "/v1/egress/policy", headers, NULL);
		assert_int_equal(x.status, 200);
		fake_exchange_fini(&x);
	}
}

static void the_clock_of_a_session_restarts_on_use_not_on_a_look(void **state)
{
	struct http_exchange x;

	send_to_api(&x, "GET", SESSION "/egress", as_a, NULL);
	assert_int_equal(fake.touches, 1);
	fake_exchange_fini(&x);
	send_to_api(&x, "GET", "/v1/sessions", as_a, NULL);
	fake_exchange_fini(&x);
	send_to_api(&x, "GET", SESSION, as_a, NULL);
	fake.stat_done(fake.data, 0, NULL);
	fake_exchange_fini(&x);
	assert_int_equal(fake.touches, 1);
}

static void hosts_of_the_preview_domain_see_no_api(void **state)
{
	static const struct {
		const char *host;
		bool preview;
	} cases[] = {
		{ "Host: preview.example.net", true },
		{ "Host: 80-abc.Preview.Example.NET:8443", true },
		{ "Host: a.b.preview.example.net", true },
		{ "Host: notpreview.example.net", false },
		{ "Host: example.net", false },
		{ "Host: 127.0.0.1:8000", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *const headers[] = { cases[i].host, "X-API-Key: key-a", NULL };
		struct http_exchange x;
		send_to_api(&x, "GET", "/v1/usage", headers, NULL);
		assert_int_equal(x.status, cases[i].preview ? 404 : 200);
		if (cases[i].preview)
			assert_string_equal(x.answer.data, "This preview is not open.\n");
		fake_exchange_fini(&x);
	}
}

static void what_the_log_says_of_a_request_is_noted(void **state)
{
	struct http_exchange x;

	send_to_api(&x, "GET", "/v1/nothing", as_a, NULL);
	assert_int_equal(x.note.route, 0);
	assert_string_equal(x.note.word, "not_found");
	assert_string_equal(x.note.tenant, "");
	fake_exchange_fini(&x);
	/* The core knows for whom it works, as long as it is asked. */
	send_to_api(&x, "POST", SESSION "/exec", as_a, EXEC_BODY);
	assert_string_equal(fake.exec_request, "req_0000000000000000");
	assert_string_equal(fake.request, "");
	fake.exec_ops.done(fake.data, NULL, &(struct err){ .slug = "busy" });
	fake_exchange_fini(&x);
	fake.stopping = true;
	send_to_api(&x, "POST", SESSION "/exec", as_a, EXEC_BODY);
	assert_string_equal(routes[x.note.route - 1].pattern, "/v1/sessions/{session_id}/exec");
	assert_string_equal(x.note.word, "stopping");
	assert_string_equal(x.note.tenant, "a");
	assert_string_equal(x.note.session, "sbx_0123456789ab");
	fake_exchange_fini(&x);
	/* Somebody else's session is not named. */
	send_to_api(&x, "POST", SESSION "/exec", as_b, EXEC_BODY);
	assert_string_equal(x.note.tenant, "b");
	assert_string_equal(x.note.session, "");
	fake_exchange_fini(&x);
	send_to_api(&x, "GET", "/healthz", NULL, NULL);
	assert_int_equal(x.status, 503);
	assert_null(x.note.word);
	fake_exchange_fini(&x);
}

static void a_stopping_server_starts_nothing(void **state)
{
	struct http_exchange x;

	fake.stopping = true;
	send_to_api(&x, "POST", SESSION "/exec", as_a, EXEC_BODY);
	assert_error(&x, 503, "stopping", NULL);
	assert_true(fake_has_field(&x, "Retry-After: 1\n"));
	assert_true(x.close);
	assert_int_equal(fake.execs, 0);
	fake_exchange_fini(&x);
}

static void a_stop_waits_for_no_body_but_refuses_it(void **state)
{
	struct http_exchange running, coming;

	send_to_api(&running, "POST", SESSION "/exec", as_a, EXEC_BODY);
	fake_request(&coming, "POST", SESSION "/exec", as_a, STR(EXEC_BODY));
	api_handle(api, &coming);
	assert_true(coming.wants_body);
	assert_int_equal(api_requests(api), 1);
	api_refuse_incomplete(api);
	assert_error(&coming, 503, "stopping", NULL);
	assert_false(running.ended);
	fake.exec_ops.done(fake.data, NULL, &(struct err){ .slug = "busy" });
	assert_int_equal(api_requests(api), 0);
	fake_exchange_fini(&coming);
	fake_exchange_fini(&running);
}

/* ---- Health, account ---- */

static void assert_body(struct http_exchange *x, int status, const char *want)
{
	assert_int_equal(x->status, status);
	assert_string_equal(x->answer.data, want);
	fake_exchange_fini(x);
}

static void health_needs_no_key(void **state)
{
	struct http_exchange x;

	send_to_api(&x, "GET", "/healthz", NULL, NULL);
	assert_body(&x, 200, "{\"status\":\"healthy\",\"active_sessions\":1}");
	send_to_api(&x, "HEAD", "/healthz", NULL, NULL);
	assert_body(&x, 200, "{\"status\":\"healthy\",\"active_sessions\":1}");
	/* What only wants an eye is no problem. */
	fake.gateway_restarts = 3;
	fake.lost_volumes = 2;
	fake.store_errors = 7;
	send_to_api(&x, "GET", "/healthz", NULL, NULL);
	assert_body(&x, 200,
		    "{\"status\":\"healthy\",\"active_sessions\":1,\"lost_volumes\":2,"
		    "\"store_errors\":7,\"gateway_restarts\":3}");
	fake.starting = true;
	fake.gateway_restarts = fake.lost_volumes = 0;
	fake.store_errors = 0;
	send_to_api(&x, "GET", "/healthz", NULL, NULL);
	assert_body(&x, 503, "{\"status\":\"starting\",\"active_sessions\":1}");
	fake.stopping = true;
	send_to_api(&x, "GET", "/healthz", NULL, NULL);
	assert_body(&x, 503, "{\"status\":\"stopping\",\"active_sessions\":1}");
}

/* The server serves as well as it can, and says what it cannot. */
static void health_names_each_problem(void **state)
{
	static const struct {
		bool *is;
		const char *problem, *figures;
	} cases[] = {
		{ &fake.silent, "the launcher does not answer: no session can be made or deleted",
		  "" },
		{ &fake.builds_fail, "sandboxes cannot be made: commands fail", "" },
		{ &fake.gateway_missing, "the gateway is down: sandboxes reach nothing",
		  ",\"gateway\":false" },
		{ &fake.store_fails, "a database cannot be written", "" },
	};
	static const struct {
		enum core_room room;
		const char *problem, *word;
	} rooms[] = {
		{ CORE_ROOM_FULL, "the volume is full: no session can be made", "full" },
		{ CORE_ROOM_PROMISED, "the volume is promised away: no session can be made",
		  "promised" },
	};
	static const char form[] = "{\"status\":\"degraded\",\"active_sessions\":1,"
				   "\"problems\":[\"%s\"]%s}";
	struct http_exchange x;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *want = mem_printf(form, cases[i].problem, cases[i].figures);
		*cases[i].is = true;
		send_to_api(&x, "GET", "/healthz", NULL, NULL);
		assert_body(&x, 200, want);
		*cases[i].is = false;
	}
	for (size_t i = 0; i < ARRAY_SIZE(rooms); i++) {
		_cleanup_free_ char *figures = mem_printf(",\"volume\":\"%s\"", rooms[i].word);
		_cleanup_free_ char *want = mem_printf(form, rooms[i].problem, figures);
		fake.room = rooms[i].room;
		send_to_api(&x, "GET", "/healthz", NULL, NULL);
		assert_body(&x, 200, want);
	}
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		*cases[i].is = true;
	send_to_api(&x, "GET", "/healthz", NULL, NULL);
	json_t *json = fake_json(&x);
	assert_int_equal(json_array_size(json_object_get(json, "problems")), 5);
	json_decref(json);
	fake_exchange_fini(&x);
	/* A server that stops says so and nothing else. */
	fake.stopping = true;
	send_to_api(&x, "GET", "/healthz", NULL, NULL);
	assert_body(&x, 503, "{\"status\":\"stopping\",\"active_sessions\":1}");
}

static void the_description_needs_no_key(void **state)
{
	struct http_exchange x;

	send_to_api(&x, "GET", "/openapi.json", NULL, NULL);
	assert_int_equal(x.status, 200);
	json_decref(fake_json(&x));
	fake_exchange_fini(&x);
}

static void usage_tells_limits_and_what_is_left(void **state)
{
	struct http_exchange x;

	fake.a.sessions_open = 2;
	fake.a.commands_running = 1;
	send_to_api(&x, "GET", "/v1/usage", as_a, NULL);
	assert_body(
		&x, 200,
		"{\"tenant_id\":\"a\",\"limits\":{\"max_sessions\":10,\"requests_per_minute\":10},"
		"\"sessions_open\":2,\"commands_running\":1,\"requests_available\":9,"
		"\"persistent_open\":0,\"snapshots_stored\":0,\"snapshot_bytes\":0,"
		"\"month\":{\"period\":\"2023-11\",\"sessions\":3,\"commands\":4,"
		"\"command_seconds\":5.006}}");
}

static void the_policy_is_the_tenants(void **state)
{
	struct http_exchange x;

	egress_list_add(&fake.policy, STR("pypi"));
	send_to_api(&x, "GET", "/v1/egress/policy", as_a, NULL);
	assert_body(&x, 200,
		    "{\"tenant_id\":\"a\",\"allowed\":[\"pypi.org\",\"files.pythonhosted.org\"]}");
	egress_list_fini(&fake.policy);
	send_to_api(&x, "GET", "/v1/egress/policy", as_b, NULL);
	assert_body(&x, 200, "{\"tenant_id\":\"b\",\"allowed\":[]}");
}

static void without_egress_there_are_no_events(void **state)
{
	struct http_exchange x;

	send_to_api(&x, "GET", SESSION "/egress?limit=5000", as_a, NULL);
	assert_body(&x, 200, "{\"session_id\":\"" ID "\",\"events\":[]}");
}

static char log_path[64];

static void write_log(const char *text)
{
	snprintf(log_path, sizeof(log_path), "%s/" ID ".jsonl", log_dir);
	FILE *f = fopen(log_path, "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

#define EVENT "\"session\":\"" ID "\",\"tenant\":\"a\",\"host\":\"x.org\""

static void events_are_read_beside_the_loop(void **state)
{
	static const struct runtime_live live = { .conn = 3, .bytes_up = 10, .bytes_down = 20 };
	struct http_exchange x;

	write_log("no event\n"
		  "{\"ts\":2,\"decision\":\"deny\"," EVENT ",\"reason\":\"r\",\"code\":\"c\"}\n"
		  "{\"ts\":1,\"decision\":\"allow\"," EVENT ",\"open\":true,\"conn\":3}\n");
	egress_list_add(&fake.session.egress, STR("x.org"));
	send_to_api(&x, "GET", SESSION "/egress?limit=0", as_a, NULL);
	assert_false(x.begun);
	fake.live_done(fake.data, &live, 1);
	assert_false(x.begun);
	uv_run(&loop, UV_RUN_ONCE);
	assert_body(&x, 200,
		    "{\"session_id\":\"" ID
		    "\",\"events\":[{\"ts\":1.000,\"decision\":\"allow\"," EVENT
		    ",\"bytes_up\":10,\"bytes_down\":20,\"open\":true}]}");
	/* Nobody knows what is open. */
	send_to_api(&x, "GET", SESSION "/egress?limit=5000", as_a, NULL);
	fake.live_done(fake.data, NULL, 0);
	uv_run(&loop, UV_RUN_ONCE);
	assert_non_null(strstr(x.answer.data, "\"bytes_up\":0,\"bytes_down\":0,\"open\":true}"));
	fake_exchange_fini(&x);
	unlink(log_path);
	send_to_api(&x, "GET", SESSION "/egress", as_a, NULL);
	fake.live_done(fake.data, NULL, 0);
	uv_run(&loop, UV_RUN_ONCE);
	assert_body(&x, 200, "{\"session_id\":\"" ID "\",\"events\":[]}");
	/* A file that is none is our fault, not the client's. */
	assert_int_equal(mkdir(log_path, 0700), 0);
	send_to_api(&x, "GET", SESSION "/egress", as_a, NULL);
	fake.live_done(fake.data, NULL, 0);
	uv_run(&loop, UV_RUN_ONCE);
	assert_error(&x, 500, "internal", "Internal Server Error");
	fake_exchange_fini(&x);
	rmdir(log_path);
	send_to_api(&x, "GET", SESSION "/egress", as_b, NULL);
	assert_error(&x, 403, "not_your_session", "Forbidden: Access denied to this session");
	fake_exchange_fini(&x);
	egress_list_fini(&fake.session.egress);
}

/* In both of its waits. */
static void closing_gives_a_reader_of_events_up(void **state)
{
	struct http_exchange x, y;

	egress_list_add(&fake.session.egress, STR("x.org"));
	send_to_api(&x, "GET", SESSION "/egress", as_a, NULL);
	fake.live_done(fake.data, NULL, 0);
	send_to_api(&y, "GET", SESSION "/egress", as_a, NULL);
	stop_api();
	assert_true(x.aborted || x.ended); /* the thread may have been quick */
	assert_true(y.aborted);
	fake.live_done(fake.data, NULL, 0);
	fake_exchange_fini(&x);
	fake_exchange_fini(&y);
	egress_list_fini(&fake.session.egress);
}

/* ---- Sessions ---- */

static void create_answers_with_the_whole_session(void **state)
{
	struct http_exchange x;

	send_to_api(&x, "POST", "/v1/sessions", as_a,
		    "{\"template\":\"t\",\"egress\":[\"pypi\",\"x.org\"],\"persistent\":true,"
		    "\"metadata\":{\"k\":\"v\"},\"secrets\":{},\"unknown\":1}");
	assert_false(x.begun);
	assert_string_equal(fake.create_template, "t");
	assert_int_equal(fake.create.n_egress, 2);
	assert_true(fake.create.persistent);
	assert_null(fake.create.snapshot_id.data);
	fake.session_done(fake.data, &fake.session, NULL);
	assert_body(
		&x, 201,
		"{\"session_id\":\"" ID "\",\"tenant_id\":\"a\",\"egress\":[],"
		"\"disk_quota_mb\":512,\"created_at\":1.000000,\"expires_at\":1802.000000,"
		"\"persistent\":false,\"template\":\"sandbox-base:latest\",\"status\":\"ready\","
		"\"snapshot_id\":null,\"secret_names\":[],\"runtime\":\"native\"}");
}

/* An error of the core holds less than the contract wants said. */
static void a_refused_egress_is_told_in_full(void **state)
{
	const struct err cut = { 1, "egress_not_permitted", "Egress not permitted" };
	struct http_exchange x;

	send_to_api(&x, "POST", "/v1/sessions", as_a, "{\"egress\":[\"a.org\",\"b.org\"]}");
	fake.session_done(fake.data, NULL, &cut);
	assert_error(&x, 403, "egress_not_permitted", "2 refused");
	fake_exchange_fini(&x);
}

static void a_session_tells_its_rules(void **state)
{
	struct http_exchange x;

	egress_list_add(&fake.session.egress, STR("pypi"));
	send_to_api(&x, "GET", "/v1/sessions", as_a, NULL);
	assert_non_null(
		strstr(x.answer.data, "\"egress\":[\"pypi.org\",\"files.pythonhosted.org\"]"));
	fake_exchange_fini(&x);
	egress_list_fini(&fake.session.egress);
}

static const struct refusal_case {
	struct err err;
	int status;
	const char *code, *detail, *retry;
} refusal_cases[] = {
	{ { 1, "template_not_permitted", "" },
	  400,
	  "template_not_permitted",
	  "sandbox-base:latest refused",
	  NULL },
	{ { 1, "session_limit",
	    "Session limit reached: 2 of 2 sessions are open. Delete one first." },
	  429,
	  "session_limit",
	  "Session limit reached: 2 of 2 sessions are open. Delete one first.",
	  NULL },
	{ { 1, "no_capacity", "" },
	  503,
	  "no_capacity",
	  "All sandbox workspaces are in use; try again shortly.",
	  "Retry-After: 5\n" },
	{ { 1, "persistent_unavailable", "" },
	  409,
	  "persistent_unavailable",
	  "Persistent sandboxes are not available on this server.",
	  NULL },
	{ { 5, NULL, "disk /dev/loop7 failed with EIO" },
	  500,
	  "internal",
	  "Internal Server Error",
	  NULL },
	{ { 5, "internal", "secret details" }, 500, "internal", "Internal Server Error", NULL },
};

static void refusals_of_the_core_have_their_status_and_text(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(refusal_cases); i++) {
		const struct refusal_case *c = &refusal_cases[i];
		struct http_exchange x;
		fake.a.rate.micro_tokens = 0;
		send_to_api(&x, "POST", "/v1/sessions", as_a, NULL);
		fake.session_done(fake.data, NULL, &c->err);
		assert_error(&x, c->status, c->code, c->detail);
		if (c->retry)
			assert_true(fake_has_field(&x, c->retry));
		else
			assert_false(fake_has_field(&x, "Retry-After"));
		fake_exchange_fini(&x);
	}
}

static void list_shows_the_callers_sessions_only(void **state)
{
	struct http_exchange x;

	send_to_api(&x, "GET", "/v1/sessions", as_a, NULL);
	assert_body(&x, 200,
		    "{\"tenant_id\":\"a\",\"sessions\":[{\"session_id\":\"" ID
		    "\",\"tenant_id\":\"a\",\"egress\":[],\"disk_quota_mb\":512,"
		    "\"created_at\":1.000000,\"expires_at\":1802.000000,\"persistent\":false,"
		    "\"template\":\"sandbox-base:latest\",\"last_accessed_at\":2.000000}]}");
	send_to_api(&x, "GET", "/v1/sessions", as_b, NULL);
	assert_body(&x, 200, "{\"tenant_id\":\"b\",\"sessions\":[]}");
}

static void show_tells_disk_and_posture(void **state)
{
	struct http_exchange x;
	unsigned set = 0;
	const char *name;
	json_t *value;

	fake.posture = 1u << 0 | 1u << 20;
	send_to_api(&x, "GET", SESSION, as_a, NULL);
	fake.stat_done(fake.data, 4096, NULL);
	json_t *json = fake_json(&x);
	json_object_foreach(json_object_get(json, "posture"), name, value)
		set += json_is_true(value);
	assert_int_equal(set, 2);
	assert_int_equal(json_object_size(json_object_get(json, "posture")), 21);
	assert_int_equal(json_integer_value(json_object_get(json, "disk_used_bytes")), 4096);
	assert_true(json_is_array(json_object_get(json, "previews")));
	json_decref(json);
	fake_exchange_fini(&x);
}

static void a_session_that_ends_while_it_is_measured_is_404(void **state)
{
	struct http_exchange x;

	send_to_api(&x, "GET", SESSION, as_a, NULL);
	fake.has_session = false;
	fake.stat_done(fake.data, 0, NULL);
	assert_error(&x, 404, "session_not_found", NULL);
	fake_exchange_fini(&x);
}

static void delete_answers_when_it_is_done(void **state)
{
	struct http_exchange x;

	send_to_api(&x, "DELETE", SESSION, as_a, NULL);
	assert_false(x.begun);
	fake.session_done(fake.data, NULL, NULL);
	assert_body(&x, 200, "{\"status\":\"terminated\",\"session_id\":\"" ID "\"}");
}

/* ---- Commands ---- */

static void finish(struct str out, struct str err_text)
{
	struct runtime_exec_result run = { .streams = { fake_output(out, 0, 0),
							fake_output(err_text, 0, 0) },
					   .pids_limit_hit = true,
					   .duration_us = 2999,
					   .cpu_ms = 1,
					   .peak_memory_bytes = 4096 };
	struct exec_result result = { .run = &run };

	fake.exec_ops.done(fake.data, &result, NULL);
	/* What the answer did not take is the core's. */
	runtime_output_free(run.streams[0]);
	runtime_output_free(run.streams[1]);
}

static void exec_answers_with_every_field(void **state)
{
	struct http_exchange x;

	send_to_api(&x, "POST", SESSION "/exec", as_a, EXEC_BODY);
	assert_string_equal(fake.command, "echo hi");
	assert_int_equal(fake.exec.timeout_s, 15);
	assert_null(fake.exec.cwd.data);
	assert_null(fake.exec.stdin_data.data);
	assert_null(fake.exec_ops.output);
	finish(STR("hi\n"), STR(""));
	assert_int_equal(x.length, x.answer.len);
	assert_body(&x, 200,
		    "{\"command\":\"echo hi\",\"output\":\"[STDOUT]:\\nhi\\n[EXIT CODE]: 0\","
		    "\"stdout\":\"hi\\n\",\"stderr\":\"\",\"exit_code\":0,\"timed_out\":false,"
		    "\"oom_killed\":false,\"pids_limit_hit\":true,\"warnings\":[],\"duration_ms\":"
		    "2,\"cpu_ms\":1,"
		    "\"peak_memory_bytes\":4096}");
}

static void exec_tells_what_egress_refused(void **state)
{
	static const struct {
		size_t n;
		const char *want;
	} cases[] = {
		{ 0, "\"peak_memory_bytes\":0,\"egress_denied\":[]}" },
		{ 2, "\"peak_memory_bytes\":0,\"egress_denied\":[\"b.org\",\"\\\"a\\\"\"]}" },
	};
	static char denied[] = "b.org\0\"a\"";

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct runtime_exec_result run = { .denied = denied, .n_denied = cases[i].n };
		struct exec_result result = { .run = &run, .egress = true };
		struct http_exchange x;
		send_to_api(&x, "POST", SESSION "/exec", as_a, EXEC_BODY);
		fake.exec_ops.done(fake.data, &result, NULL);
		size_t len = strlen(cases[i].want);
		assert_true(x.answer.len > len);
		assert_string_equal(x.answer.data + x.answer.len - len, cases[i].want);
		fake_exchange_fini(&x);
	}
}

static void exec_passes_cwd_env_and_stdin_on(void **state)
{
	struct http_exchange x;

	fake_request(&x, "POST", SESSION "/exec", as_a,
		     STR("{\"command\":\"x\",\"cwd\":\"a/b\",\"env\":{\"A\":\"1\",\"B\":\"2\"},"
			 "\"stdin\":\"\",\"timeout_seconds\":60.0}"));
	api_handle(api, &x);
	fake_body(&x);
	assert_int_equal(fake.exec.timeout_s, 60);
	assert_true(str_eq(fake.exec.cwd, STR("a/b")));
	assert_non_null(fake.exec.stdin_data.data);
	assert_int_equal(fake.exec.n_env, 2);
	assert_true(str_eq(fake.exec.env_names[1], STR("B")));
	assert_true(str_eq(fake.exec.env_values[1], STR("2")));
	finish(STR(""), STR(""));
	assert_int_equal(x.status, 200);
	fake_exchange_fini(&x);
}

static void the_command_limit_is_checked_before_anything_starts(void **state)
{
	struct http_exchange x;

	fake.a.limits.max_concurrent_exec = fake.a.commands_running = 1;
	send_to_api(&x, "POST", SESSION "/exec", as_a, "{\"command\":\"x\",\"cwd\":\"/abs\"}");
	assert_error(&x, 429, "exec_limit",
		     "Too many commands running at once: 1 allowed. Wait for one to finish.");
	assert_false(fake_has_field(&x, "Retry-After"));
	assert_int_equal(fake.execs, 0);
	fake_exchange_fini(&x);
}

static void a_command_that_cannot_start_is_an_ordinary_error(void **state)
{
	struct err missing = { 2, "file_not_found", "Folder 'x' does not exist." };
	struct http_exchange x;

	fake.exec_fails = true;
	send_to_api(&x, "POST", SESSION "/exec", as_a, EXEC_BODY);
	assert_error(&x, 400, "secret_name_reserved", "'PATH' is reserved.");
	fake_exchange_fini(&x);
	fake.exec_fails = false;
	send_to_api(&x, "POST", SESSION "/exec", as_a, EXEC_BODY);
	fake.exec_ops.done(fake.data, NULL, &missing);
	assert_error(&x, 404, "file_not_found", "Folder 'x' does not exist.");
	fake_exchange_fini(&x);
}

static void a_long_answer_waits_for_a_slow_client(void **state)
{
	_cleanup_free_ char *text = mem_new(1, MIB);
	struct http_exchange x;
	unsigned turns = 0;

	memset(text, 'y', MIB);
	send_to_api(&x, "POST", SESSION "/exec", as_a, EXEC_BODY);
	x.queue_room.max = 100000;
	finish((struct str){ text, MIB }, STR(""));
	assert_int_equal(x.length, -1);
	for (; !x.ended; turns++) {
		assert_true(x.unread < 400000);
		fake_drain(&x);
	}
	assert_true(turns > 10);
	json_t *json = fake_json(&x);
	assert_int_equal(json_string_length(json_object_get(json, "stdout")), MIB);
	assert_int_equal(json_string_length(json_object_get(json, "output")),
			 MIB + strlen("[STDOUT]:\n\n[EXIT CODE]: 0"));
	json_decref(json);
	fake_exchange_fini(&x);
	assert_null(api->requests);
}

static void a_long_answer_takes_turns_with_others(void **state)
{
	_cleanup_free_ char *text = mem_new(1, 4 * MIB);
	struct http_exchange x;

	memset(text, 'y', 4 * MIB);
	send_to_api(&x, "POST", SESSION "/exec", as_a, EXEC_BODY);
	finish((struct str){ text, 4 * MIB }, STR(""));
	assert_false(x.ended);
	assert_true(x.answer.len <= MIB);
	for (unsigned i = 0; i < 100 && !x.ended; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
	assert_true(x.ended);
	json_decref(fake_json(&x));
	fake_exchange_fini(&x);
	assert_false(uv_is_active((uv_handle_t *)&api->pump));
}

static void an_answer_to_nobody_is_given_up(void **state)
{
	_cleanup_free_ char *text = mem_new(1, MIB);
	struct http_exchange x;

	send_to_api(&x, "POST", SESSION "/exec", as_a, EXEC_BODY);
	x.gone = true;
	finish((struct str){ text, MIB }, STR(""));
	assert_true(x.aborted);
	assert_null(api->requests);
	fake_exchange_fini(&x);
}

/* ---- Events ---- */

static const char *const live_a[] = { "X-API-Key: key-a", "Accept: text/event-stream", NULL };

static void events_are_chosen_by_accept(void **state)
{
	assert_true(events_accepted(STR("text/event-stream")));
	assert_true(events_accepted(STR("Text/Event-Stream; q=1, */*")));
	assert_false(events_accepted(STR("application/json, text/event-stream")));
	assert_false(events_accepted(STR("*/*")));
	assert_false(events_accepted(STR("")));
	assert_false(events_accepted((struct str){ NULL, 0 }));
}

static void events_carry_whole_characters_as_they_come(void **state)
{
	struct http_exchange x;

	send_to_api(&x, "POST", SESSION "/exec", live_a, EXEC_BODY);
	assert_false(x.begun);
	fake.exec_ops.started(fake.data);
	assert_string_equal(x.type, "text/event-stream");
	assert_true(fake_has_field(&x, "X-Accel-Buffering: no\n"));
	fake.exec_ops.output(fake.data, RUNTIME_STDOUT, STR("a\n\xe2"));
	fake.exec_ops.output(fake.data, RUNTIME_STDOUT, STR("\x82"));
	fake.exec_ops.output(fake.data, RUNTIME_STDERR, STR("e\xff"));
	fake.exec_ops.output(fake.data, RUNTIME_STDOUT, STR("\xac\xf0\x9f"));
	finish(STR("a\n\xe2\x82\xac\xf0\x9f"), STR("e\xff"));
	assert_true(x.ended);
	static const char want[] = "event: stdout\ndata: {\"text\":\"a\\n\"}\n\n"
				   "event: stderr\ndata: {\"text\":\"e\xef\xbf\xbd\"}\n\n"
				   "event: stdout\ndata: {\"text\":\"\xe2\x82\xac\"}\n\n"
				   "event: stdout\ndata: {\"text\":\"\xef\xbf\xbd\"}\n\n"
				   "event: result\ndata: {\"command\":\"echo hi\",";
	assert_true(str_starts(buf_str(&x.answer), str_of(want)));
	assert_string_equal(x.answer.data + x.answer.len - 3, "}\n\n");
	fake_exchange_fini(&x);
}

static void an_error_before_the_start_is_an_ordinary_answer(void **state)
{
	struct err busy = { 11, "busy", "" };
	struct http_exchange x;

	send_to_api(&x, "POST", SESSION "/exec", live_a, EXEC_BODY);
	fake.exec_ops.done(fake.data, NULL, &busy);
	assert_error(&x, 503, "busy", NULL);
	fake_exchange_fini(&x);
}

static void an_error_after_the_start_breaks_the_stream(void **state)
{
	struct err err = { 5, "internal", "x" };
	struct http_exchange x;

	send_to_api(&x, "POST", SESSION "/exec", live_a, EXEC_BODY);
	fake.exec_ops.started(fake.data);
	fake.exec_ops.done(fake.data, NULL, &err);
	assert_true(x.aborted);
	fake_exchange_fini(&x);
}

static void a_silent_stream_is_pinged_every_15_s(void **state)
{
	struct http_exchange x;

	send_to_api(&x, "POST", SESSION "/exec", live_a, EXEC_BODY);
	fake.exec_ops.started(fake.data);
	clock_fake_advance(14999000);
	events_ping(&api->ping);
	assert_int_equal(x.answer.len, 0);
	clock_fake_advance(1000);
	events_ping(&api->ping);
	events_ping(&api->ping);
	assert_string_equal(x.answer.data, ": ping\n\n");
	finish(STR(""), STR(""));
	events_ping(&api->ping);
	assert_false(uv_is_active((uv_handle_t *)&api->ping));
	fake_exchange_fini(&x);
}

static void a_slow_reader_of_events_costs_a_bounded_amount(void **state)
{
	_cleanup_free_ char *text = mem_new(1, 16384);
	struct http_exchange x;

	memset(text, 'z', 16384);
	send_to_api(&x, "POST", SESSION "/exec", live_a, EXEC_BODY);
	fake.exec_ops.started(fake.data);
	x.queue_room.max = 1000;
	for (unsigned i = 0; i < 1000; i++)
		fake.exec_ops.output(fake.data, RUNTIME_STDOUT, (struct str){ text, 16384 });
	assert_true(x.answer.len < 20000);
	fake_drain(&x);
	assert_true(x.answer.len < 300000);
	assert_non_null(strstr(x.answer.data, "bytes dropped ...]\\n\"}\n\n"));
	finish(STR("whole"), STR(""));
	fake_drain(&x);
	assert_true(x.ended);
	assert_non_null(strstr(x.answer.data, "\"stdout\":\"whole\""));
	fake_exchange_fini(&x);
}

/* ---- Files ---- */

static void write_counts_characters(void **state)
{
	struct http_exchange x;

	send_to_api(&x, "POST", SESSION "/write", as_a,
		    "{\"path\":\"a/b.txt\",\"content\":\"\\u00fc\\ud83d\\ude00\\u0000x\"}");
	assert_string_equal(fake.path, "a/b.txt");
	assert_true(str_eq(fake.content, STR("\xc3\xbc\xf0\x9f\x98\x80\0x")));
	fake.write_done(fake.data, NULL);
	assert_body(&x, 200,
		    "{\"status\":\"success\",\"message\":\"Successfully wrote 4 characters to "
		    "a/b.txt\"}");
}

static void a_missing_file_is_a_sentence(void **state)
{
	struct http_exchange x;

	send_to_api(&x, "GET", SESSION "/read?path=no%2Fs%27u+c%2Bh%C3%BC", as_a, NULL);
	assert_string_equal(fake.path, "no/s'u c+h\xc3\xbc");
	fake.read_done(fake.data, true, STR(""), NULL);
	assert_body(
		&x, 200,
		"{\"path\":\"no/s'u c+h\xc3\xbc\",\"content\":\"Error: File 'no/s'u c+h\xc3\xbc' "
		"does not exist.\"}");
}

static void read_gives_the_text_unchanged(void **state)
{
	struct http_exchange x;
	struct err outside = {
		13, "path_outside",
		"Access denied: symlink/path traversal outside workspace for '../x'"
	};

	send_to_api(&x, "GET", SESSION "/read?path=f", as_a, NULL);
	fake.read_done(fake.data, false, STR("a\r\n\"\0"), NULL);
	assert_body(&x, 200, "{\"path\":\"f\",\"content\":\"a\\r\\n\\\"\\u0000\"}");
	send_to_api(&x, "GET", SESSION "/read?path=../x", as_a, NULL);
	fake.read_done(fake.data, false, STR(""), &outside);
	assert_error(&x, 403, "path_outside", outside.text);
	fake_exchange_fini(&x);
}

static void a_long_file_is_kept_until_it_is_sent(void **state)
{
	char *text = mem_new(1, MIB);
	struct http_exchange x;

	memset(text, 'f', MIB);
	send_to_api(&x, "GET", SESSION "/read?path=f", as_a, NULL);
	x.queue_room.max = 1000;
	fake.read_done(fake.data, false, (struct str){ text, MIB }, NULL);
	free(text);
	while (!x.ended)
		fake_drain(&x);
	json_t *json = fake_json(&x);
	assert_int_equal(json_string_length(json_object_get(json, "content")), MIB);
	json_decref(json);
	fake_exchange_fini(&x);
}

static void a_large_body_is_parsed_beside_the_loop(void **state)
{
	_cleanup_buf_ struct buf body = BUF(2 * MIB);
	struct http_exchange x;

	buf_put_text(&body, "{\"path\":\"f\",\"content\":\"");
	for (unsigned i = 0; i < MIB; i++)
		buf_put_char(&body, 'c');
	buf_put_text(&body, "\"}");
	send_to_api(&x, "POST", SESSION "/write", as_a, body.data);
	assert_null(fake.write_done);
	for (unsigned i = 0; i < 1000 && !fake.write_done; i++)
		uv_run(&loop, UV_RUN_ONCE);
	assert_int_equal(fake.content.len, MIB);
	fake.write_done(fake.data, NULL);
	assert_int_equal(x.status, 200);
	fake_exchange_fini(&x);
}

/* ---- The end of the api ---- */

static void closing_gives_up_whatever_waits(void **state)
{
	struct http_exchange exec, live, file, create, body;

	send_to_api(&exec, "POST", SESSION "/exec", as_a, EXEC_BODY);
	send_to_api(&live, "POST", SESSION "/exec", live_a, EXEC_BODY);
	fake.exec_ops.started(fake.data);
	send_to_api(&file, "GET", SESSION "/read?path=f", as_a, NULL);
	send_to_api(&create, "POST", "/v1/sessions", as_a, NULL);
	void *created = fake.data;
	fake_request(&body, "POST", SESSION "/exec", as_a, STR(EXEC_BODY));
	api_handle(api, &body);
	stop_api();
	assert_true(fake.exec_detached && fake.file_detached);
	assert_true(exec.aborted && live.aborted && file.aborted && create.aborted && body.aborted);
	/* The core cannot be told to forget this one. */
	fake.session_done(created, &fake.session, NULL);
	fake_exchange_fini(&exec);
	fake_exchange_fini(&live);
	fake_exchange_fini(&file);
	fake_exchange_fini(&create);
	fake_exchange_fini(&body);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_first_step_that_refuses_answers),
		TEST(a_refused_method_names_the_allowed_ones),
		TEST(an_empty_bucket_is_429_before_the_body_is_looked_at),
		TEST(a_declared_length_over_the_limit_is_413_unread),
		TEST(a_chunked_body_is_measured_while_it_is_read),
		TEST(a_body_that_finds_no_room_is_503_busy),
		TEST(a_connection_lost_in_the_body_leaves_nothing),
		TEST(expect_is_answered_finally_when_the_session_is_not_there),
		TEST(content_type_is_looked_at_with_a_body_only),
		TEST(the_clock_of_a_session_restarts_on_use_not_on_a_look),
		TEST(hosts_of_the_preview_domain_see_no_api),
		TEST(what_the_log_says_of_a_request_is_noted),
		TEST(a_stopping_server_starts_nothing),
		TEST(a_stop_waits_for_no_body_but_refuses_it),
		TEST(health_needs_no_key),
		TEST(health_names_each_problem),
		TEST(the_description_needs_no_key),
		TEST(usage_tells_limits_and_what_is_left),
		TEST(the_policy_is_the_tenants),
		TEST(without_egress_there_are_no_events),
		TEST(events_are_read_beside_the_loop),
		TEST(closing_gives_a_reader_of_events_up),
		TEST(a_refused_egress_is_told_in_full),
		TEST(a_session_tells_its_rules),
		TEST(exec_tells_what_egress_refused),
		TEST(create_answers_with_the_whole_session),
		TEST(refusals_of_the_core_have_their_status_and_text),
		TEST(list_shows_the_callers_sessions_only),
		TEST(show_tells_disk_and_posture),
		TEST(a_session_that_ends_while_it_is_measured_is_404),
		TEST(delete_answers_when_it_is_done),
		TEST(exec_answers_with_every_field),
		TEST(exec_passes_cwd_env_and_stdin_on),
		TEST(the_command_limit_is_checked_before_anything_starts),
		TEST(a_command_that_cannot_start_is_an_ordinary_error),
		TEST(a_long_answer_waits_for_a_slow_client),
		TEST(a_long_answer_takes_turns_with_others),
		TEST(an_answer_to_nobody_is_given_up),
		TEST(events_are_chosen_by_accept),
		TEST(events_carry_whole_characters_as_they_come),
		TEST(an_error_before_the_start_is_an_ordinary_answer),
		TEST(an_error_after_the_start_breaks_the_stream),
		TEST(a_silent_stream_is_pinged_every_15_s),
		TEST(a_slow_reader_of_events_costs_a_bounded_amount),
		TEST(write_counts_characters),
		TEST(a_missing_file_is_a_sentence),
		TEST(read_gives_the_text_unchanged),
		TEST(a_long_file_is_kept_until_it_is_sent),
		TEST(a_large_body_is_parsed_beside_the_loop),
		TEST(closing_gives_up_whatever_waits),
	};
	return cmocka_run_group_tests(tests, make_log_dir, remove_log_dir);
}
