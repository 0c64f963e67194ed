// SPDX-License-Identifier: Apache-2.0
/* Whole requests about snapshots, restoring and forking against the fakes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/fakes.h"
#include "api/request.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"

#define ID "sbx_0123456789ab"
#define SESSION "/v1/sessions/" ID
#define SNAP "snap_0123456789abcdef"
#define RECORD \
	"{\"id\":\"" SNAP "\",\"name\":\"before\",\"size_bytes\":1234,\"session_id\":\"" ID "\"," \
	"\"created_at\":3.000000,\"expires_at\":5.000000,\"path\":\"out\"," \
	"\"template\":\"sandbox-base:latest\"}"
#define CREATED(snapshot) \
	"{\"session_id\":\"" ID "\",\"tenant_id\":\"a\",\"egress\":[],\"disk_quota_mb\":512," \
	"\"created_at\":1.000000,\"expires_at\":1802.000000,\"persistent\":false," \
	"\"template\":\"sandbox-base:latest\",\"status\":\"ready\",\"snapshot_id\":" snapshot "," \
	"\"secret_names\":[],\"runtime\":\"native\"}"

static uv_loop_t loop;
static struct api *api;

static const char *const as_a[] = { "X-Api-Key: key-a", "Content-Type: application/json", NULL };
static const char *const as_b[] = { "x-api-key: key-b", NULL };

static int start(void **state)
{
	struct api_config config = {
		.loop = &loop, .write_max = 64u * MIB, .snapshots = true, .snapshot_days = 30
	};
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
	return uv_loop_close(&loop);
}

static void send_to_api(struct http_exchange *x, const char *method, const char *target,
			const char *const *headers, const char *body)
{
	fake_request(x, method, target, headers, str_of(body));
	api_handle(api, x);
	if (x->wants_body)
		fake_body(x);
}

static void assert_answer(struct http_exchange *x, int status, const char *body)
{
	assert_int_equal(x->status, status);
	assert_true(x->ended);
	buf_put_char(&x->answer, '\0');
	assert_string_equal(x->answer.data, body);
	fake_exchange_fini(x);
}

static void assert_error(struct http_exchange *x, int status, const char *code, const char *detail)
{
	json_t *json = fake_json(x);

	assert_int_equal(x->status, status);
	assert_string_equal(json_string_value(json_object_get(json, "code")), code);
	if (detail)
		assert_string_equal(json_string_value(json_object_get(json, "detail")), detail);
	json_decref(json);
	fake_exchange_fini(x);
}

static void a_snapshot_answers_with_its_record(void **state)
{
	struct http_exchange x;

	send_to_api(&x, "POST", SESSION "/snapshots", as_a,
		    "{\"name\":\"before\",\"path\":\"out\"}");
	assert_false(x.begun);
	assert_true(fake.named);
	assert_string_equal(fake.name, "before");
	assert_string_equal(fake.path, "out");
	fake.snapshot_done(fake.data, &fake.snapshot, NULL);
	assert_answer(&x, 200, RECORD);
}

static void name_and_path_may_be_left_out(void **state)
{
	static const char *const bodies[] = { NULL, "{}", "{\"name\":null}" };

	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
		struct http_exchange x;
		send_to_api(&x, "POST", SESSION "/snapshots", as_a, bodies[i]);
		assert_false(fake.named);
		assert_string_equal(fake.path, ".");
		fake.snapshot.expires_us = 0;
		fake.snapshot_done(fake.data, &fake.snapshot, NULL);
		json_t *json = fake_json(&x);
		assert_true(json_is_null(json_object_get(json, "expires_at")));
		json_decref(json);
		fake_exchange_fini(&x);
	}
}

static void a_bad_name_or_path_is_422(void **state)
{
	struct http_exchange x;
	char body[160];

	snprintf(body, sizeof(body), "{\"name\":\"%0100d\"}", 1);
	send_to_api(&x, "POST", SESSION "/snapshots", as_a, body);
	assert_true(fake.named); /* 100 characters */
	fake.snapshot_done(fake.data, &fake.snapshot, NULL);
	fake_exchange_fini(&x);
	snprintf(body, sizeof(body), "{\"name\":\"%0101d\"}", 1);
	const char *const bodies[] = { body, "{\"name\":\"a\\n\"}", "{\"name\":1}",
				       "{\"path\":null}", "{\"path\":\"\xff\"}" };
	fake.snapshot_done = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
		send_to_api(&x, "POST", SESSION "/snapshots", as_a, bodies[i]);
		assert_error(&x, 422, "invalid_request", NULL);
	}
	send_to_api(&x, "POST", SESSION "/restore", as_a, "{}");
	assert_error(&x, 422, "invalid_request", NULL);
	assert_null(fake.snapshot_done);
}

static void a_full_account_is_429_without_a_time(void **state)
{
	struct http_exchange x;

	fake.snapshots_full = true;
	send_to_api(&x, "POST", SESSION "/snapshots", as_a, NULL);
	assert_false(fake_has_field(&x, "Retry-After"));
	assert_error(&x, 429, "snapshot_limit", "full");
	assert_null(fake.snapshot_done);
}

static void a_failure_has_the_words_of_the_core(void **state)
{
	static const struct {
		const char *slug, *text;
		int status;
	} cases[] = {
		{ "file_not_found", "Folder 'x' does not exist.", 404 },
		{ "not_folder", "'x' is not a folder.", 400 },
		{ "snapshot_storage", "Snapshots would use 2.0 MB of this account's 1 MB.", 413 },
		{ "snapshot_space", "Snapshot storage is full; try again later.", 503 },
		{ "restore_conflict", "'x' is in the way: a folder and a file have the same name.",
		  409 },
		{ "snapshot_too_large",
		  "Restoring 'x' needs 2.0 MB; the workspace has 1.0 MB free.", 413 },
		{ "snapshot_not_found", "Snapshot not found", 404 },
		{ "busy", "The server is busy; try again shortly.", 503 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct http_exchange x;
		struct err err;
		fake.a.rate.micro_tokens = 0;
		err_slug(&err, 5, cases[i].slug, "%s", cases[i].text);
		send_to_api(&x, "POST", SESSION "/restore", as_a, "{\"snapshot_id\":\"x\"}");
		fake.snapshot_done(fake.data, NULL, &err);
		if (strcmp(cases[i].slug, "snapshot_space") == 0)
			assert_true(fake_has_field(&x, "Retry-After: 30\n"));
		assert_error(&x, cases[i].status, cases[i].slug, cases[i].text);
	}
}

static void a_restore_says_where_the_files_are(void **state)
{
	static const struct {
		const char *body, *path, *shown;
	} cases[] = {
		{ "{\"snapshot_id\":\"" SNAP "\"}", ".", "/workspace" },
		{ "{\"snapshot_id\":\"" SNAP "\",\"path\":\"\"}", "", "/workspace" },
		{ "{\"snapshot_id\":\"" SNAP "\",\"path\":\"x/y\"}", "x/y", "/workspace/x/y" },
		{ "{\"snapshot_id\":\"" SNAP "\",\"path\":\"./x//./y/\"}", "./x//./y/",
		  "/workspace/x/y" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct http_exchange x;
		char body[512];
		send_to_api(&x, "POST", SESSION "/restore", as_a, cases[i].body);
		assert_string_equal(fake.name, SNAP);
		assert_string_equal(fake.path, cases[i].path);
		fake.snapshot_done(fake.data, &fake.snapshot, NULL);
		snprintf(body, sizeof(body), "{\"restored\":" RECORD ",\"path\":\"%s\"}",
			 cases[i].shown);
		assert_answer(&x, 200, body);
	}
}

static void the_list_has_the_callers_own(void **state)
{
	struct http_exchange x;

	send_to_api(&x, "GET", "/v1/snapshots", as_a, NULL);
	assert_answer(&x, 200,
		      "{\"tenant_id\":\"a\",\"snapshots\":[" RECORD "],\"retention_days\":30}");
	send_to_api(&x, "GET", "/v1/snapshots", as_b, NULL);
	assert_answer(&x, 200, "{\"tenant_id\":\"b\",\"snapshots\":[],\"retention_days\":30}");
}

static void delete_is_404_for_whoever_does_not_have_it(void **state)
{
	struct http_exchange x;

	send_to_api(&x, "DELETE", "/v1/snapshots/" SNAP, as_b, NULL);
	assert_error(&x, 404, "snapshot_not_found", "Snapshot not found");
	send_to_api(&x, "DELETE", "/v1/snapshots/%2e%2e%2fx", as_a, NULL);
	assert_error(&x, 404, "snapshot_not_found", "Snapshot not found");
	send_to_api(&x, "DELETE", "/v1/snapshots/" SNAP, as_a, NULL);
	fake.snapshot_done(fake.data, &fake.snapshot, NULL);
	assert_answer(&x, 200, "{\"status\":\"deleted\",\"id\":\"" SNAP "\"}");
	send_to_api(&x, "DELETE", "/v1/snapshots/" SNAP, as_a, NULL);
	assert_error(&x, 404, "snapshot_not_found", NULL);
}

static void a_session_says_what_it_began_with(void **state)
{
	struct http_exchange x;

	send_to_api(&x, "POST", "/v1/sessions", as_a, "{\"snapshot_id\":\"" SNAP "\"}");
	assert_true(str_eq(fake.create.snapshot_id, STR(SNAP)));
	fake.session_done(fake.data, &fake.session, NULL);
	assert_answer(&x, 201, CREATED("\"" SNAP "\""));
	send_to_api(&x, "POST", "/v1/sessions", as_a, "{\"snapshot_id\":null}");
	assert_null(fake.create.snapshot_id.data);
	fake.session_done(fake.data, &fake.session, NULL);
	assert_answer(&x, 201, CREATED("null"));
}

static void a_fork_answers_as_many_creates(void **state)
{
	struct session *const two[] = { &fake.session, &fake.session };
	struct http_exchange x;

	send_to_api(&x, "POST", SESSION "/fork", as_a, "{\"count\":2,\"secrets\":true}");
	assert_int_equal(fake.fork_count, 2);
	fake.fork_done(fake.data, two, 2, NULL);
	assert_answer(&x, 201, "{\"sessions\":[" CREATED("null") "," CREATED("null") "]}");

	send_to_api(&x, "POST", SESSION "/fork", as_a, NULL);
	assert_int_equal(fake.fork_count, 1);
	struct err err;
	err_slug(&err, 5, "session_limit", "Session limit reached");
	fake.fork_done(fake.data, NULL, 0, &err);
	assert_error(&x, 429, "session_limit", "Session limit reached");
}

static void a_fork_has_one_to_sixteen(void **state)
{
	static const char *const bodies[] = { "{\"count\":0}", "{\"count\":17}",
					      "{\"count\":\"1\"}", "{\"count\":true}",
					      "{\"secrets\":1}" };

	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
		struct http_exchange x;
		send_to_api(&x, "POST", SESSION "/fork", as_a, bodies[i]);
		assert_error(&x, 422, "invalid_request", NULL);
	}
	assert_null(fake.fork_done);
}

static void the_sessions_owner_alone_may_do_all_this(void **state)
{
	static const char *const what[] = { "/snapshots", "/restore", "/fork" };

	for (size_t i = 0; i < ARRAY_SIZE(what); i++) {
		struct http_exchange x;
		char target[64];
		snprintf(target, sizeof(target), SESSION "%s", what[i]);
		send_to_api(&x, "POST", target, as_b, "{\"snapshot_id\":\"x\"}");
		assert_error(&x, 403, "not_your_session",
			     "Forbidden: Access denied to this session");
	}
}

static void turned_off_all_of_it_is_501_but_forks(void **state)
{
	struct http_exchange x;

	api->config.snapshots = false;
	send_to_api(&x, "POST", SESSION "/restore", as_a, "{\"snapshot_id\":\"x\"}");
	assert_error(&x, 501, "snapshots_off",
		     "Snapshots are not enabled on this server (SANDBOX_SNAPSHOTS).");
	send_to_api(&x, "DELETE", "/v1/snapshots/" SNAP, as_a, NULL);
	assert_error(&x, 501, "snapshots_off", NULL);
	send_to_api(&x, "POST", "/v1/sessions", as_a, "{\"snapshot_id\":\"x\"}");
	assert_error(&x, 501, "snapshots_off", NULL);
	send_to_api(&x, "POST", SESSION "/fork", as_a, NULL);
	assert_int_equal(fake.fork_count, 1);
	struct session *const one[] = { &fake.session };
	fake.fork_done(fake.data, one, 1, NULL);
	assert_int_equal(x.status, 201);
	fake_exchange_fini(&x);
}

/* The api closes while the core is at work: its answer goes nowhere. */
static void an_answer_after_the_end_is_forgotten(void **state)
{
	struct http_exchange x;

	send_to_api(&x, "POST", SESSION "/snapshots", as_a, NULL);
	stop_api();
	fake.snapshot_done(fake.data, &fake.snapshot, NULL);
	fake_exchange_fini(&x);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, start, stop)
	const struct CMUnitTest tests[] = {
		T(a_snapshot_answers_with_its_record),
		T(name_and_path_may_be_left_out),
		T(a_bad_name_or_path_is_422),
		T(a_full_account_is_429_without_a_time),
		T(a_failure_has_the_words_of_the_core),
		T(a_restore_says_where_the_files_are),
		T(the_list_has_the_callers_own),
		T(delete_is_404_for_whoever_does_not_have_it),
		T(a_session_says_what_it_began_with),
		T(a_fork_answers_as_many_creates),
		T(a_fork_has_one_to_sixteen),
		T(the_sessions_owner_alone_may_do_all_this),
		T(turned_off_all_of_it_is_501_but_forks),
		T(an_answer_after_the_end_is_forgotten),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
