// SPDX-License-Identifier: Apache-2.0
/* Whole requests about imports against the fakes. */
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
#include "core/repository.h"

#define IMPORT "/v1/sessions/sbx_0123456789ab/import"

static uv_loop_t loop;
static struct api *api;

static const char *const as_a[] = { "X-Api-Key: key-a", "Content-Type: application/json", NULL };

static int start(void **state)
{
	struct api_config config = { .loop = &loop, .write_max = 64u * MIB };
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

static void send_import(struct http_exchange *x, const char *body)
{
	fake.a.rate.micro_tokens = 0;
	fake_request(x, "POST", IMPORT, as_a, str_of(body));
	api_handle(api, x);
	if (x->wants_body)
		fake_body(x);
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

static void an_import_answers_with_what_came(void **state)
{
	const struct repository repository = { "owner", "repo", "v1", "src/lib" };
	const struct import_result result = { &repository, 12, 3456 };
	struct http_exchange x;

	send_import(&x, "{\"repo\":\" owner/repo\",\"ref\":\"v1\",\"path\":\"src/lib\"}");
	assert_false(x.begun);
	assert_true(str_eq(fake.import.repo, STR(" owner/repo")));
	assert_true(str_eq(fake.import.ref, STR("v1")));
	assert_true(str_eq(fake.import.path, STR("src/lib")));
	fake.import_done(fake.data, &result, NULL);
	assert_int_equal(x.status, 200);
	buf_put_char(&x.answer, '\0');
	assert_string_equal(x.answer.data,
			    "{\"repo\":\"owner/repo\",\"ref\":\"v1\","
			    "\"path\":\"/workspace/src/lib\",\"dest\":\"src/lib\",\"files\":12,"
			    "\"archive_bytes\":3456}");
	fake_exchange_fini(&x);
}

static void ref_and_path_may_be_null(void **state)
{
	static const char *const bodies[] = { "{\"repo\":\"o/r\"}",
					      "{\"repo\":\"o/r\",\"ref\":null,\"path\":null}" };
	struct err err;

	err_slug(&err, 5, "busy", "The server is busy; try again shortly.");
	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
		struct http_exchange x;
		send_import(&x, bodies[i]);
		assert_int_equal(fake.import.ref.len + fake.import.path.len, 0);
		fake.import_done(fake.data, NULL, &err);
		assert_true(fake_has_field(&x, "Retry-After: 5\n"));
		assert_error(&x, 503, "busy", err.text);
	}
}

static void texts_that_are_too_long_are_422(void **state)
{
	static const struct {
		const char *start;
		int most;
	} fields[] = {
		{ "{\"repo\":\"", 300 },
		{ "{\"repo\":\"o/r\",\"ref\":\"", 200 },
		{ "{\"repo\":\"o/r\",\"path\":\"", 200 },
	};
	static const char *const bodies[] = { "{}", "{\"repo\":null}", "{\"repo\":1}",
					      "{\"repo\":\"a\\u0000b\"}" };
	struct http_exchange x;
	char body[400];

	fake.import_refusal = (struct err){ 22, "bad_repo", "no" };
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		snprintf(body, sizeof(body), "%s%0*d\"}", fields[i].start, fields[i].most, 1);
		send_import(&x, body);
		assert_error(&x, 400, "bad_repo", "no");
		snprintf(body, sizeof(body), "%s%0*d\"}", fields[i].start, fields[i].most + 1, 1);
		send_import(&x, body);
		assert_error(&x, 422, "invalid_request", NULL);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
		send_import(&x, bodies[i]);
		assert_error(&x, 422, "invalid_request", NULL);
	}
}

static void each_word_has_its_status(void **state)
{
	static const struct {
		const char *slug;
		int status;
	} rows[] = {
		{ "repo_not_found", 404 },   { "destination_exists", 409 },
		{ "import_too_large", 413 }, { "import_no_space", 413 },
		{ "unpack_failed", 422 },    { "exec_limit", 429 },
		{ "github_failed", 502 },    { "session_not_found", 404 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct http_exchange x;
		struct err err;
		err_slug(&err, 5, rows[i].slug, "why");
		send_import(&x, "{\"repo\":\"o/r\"}");
		fake.import_done(fake.data, NULL, &err);
		/* A string, also for the 422. */
		assert_false(fake_has_field(&x, "Retry-After"));
		assert_error(&x, rows[i].status, rows[i].slug, "why");
	}
}

static void a_client_that_hangs_up_lets_it_go(void **state)
{
	struct http_exchange x;

	send_import(&x, "{\"repo\":\"o/r\"}");
	assert_non_null(x.hung_up);
	x.hung_up(x.hung_up_data);
	assert_true(fake.import_detached);
	assert_true(x.aborted);
	fake_exchange_fini(&x);
}

static void a_stop_lets_it_go(void **state)
{
	struct http_exchange x;

	send_import(&x, "{\"repo\":\"o/r\"}");
	stop_api();
	assert_true(fake.import_detached);
	assert_true(x.aborted);
	fake_exchange_fini(&x);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, start, stop)
	const struct CMUnitTest tests[] = {
		T(an_import_answers_with_what_came),  T(ref_and_path_may_be_null),
		T(texts_that_are_too_long_are_422),   T(each_word_has_its_status),
		T(a_client_that_hangs_up_lets_it_go), T(a_stop_lets_it_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
