// SPDX-License-Identifier: Apache-2.0
/* The audit log, against the fakes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/fakes.h"
#include "api/request.h"
#include "base/limits.h"
#include "base/mem.h"

static uv_loop_t loop;
static struct api *api;

static const char *const as_a[] = { "X-Api-Key: key-a", "Content-Type: application/json", NULL };

static int start(void **state)
{
	struct api_config config = {
		.loop = &loop, .write_max = 64u * MIB, .upload_max = 50u * MIB, .audit_days = 90
	};
	struct err err;

	fake_reset();
	fake.has_audit = true;
	uv_loop_init(&loop);
	return api_open(&config, NULL, &api, &err);
}

static void on_closed(void *data)
{
	*(bool *)data = true;
}

static int stop(void **state)
{
	bool closed = false;

	if (api)
		api_close(api, on_closed, &closed);
	uv_run(&loop, UV_RUN_DEFAULT);
	return uv_loop_close(&loop);
}

static void ask(struct http_exchange *x, const char *query)
{
	_cleanup_free_ char *target = mem_printf("/v1/audit%s", query);

	fake_request(x, "GET", target, as_a, STR(""));
	api_handle(api, x);
}

static void a_cursor_is_a_time_and_the_half_of_an_id(void **state)
{
	static const struct {
		const char *query;
		int status; /* 0: the core is asked */
		int64_t us;
		uint32_t id;
		size_t limit;
	} cases[] = {
		{ "", 0, INT64_MAX, 0, 100 },
		{ "?limit=0", 0, INT64_MAX, 0, 1 },
		{ "?limit=9999", 0, INT64_MAX, 0, 500 },
		{ "?limit=x", 422, 0, 0, 0 },
		{ "?before=00000000000000ff-0000000a", 0, 255, 10, 100 },
		{ "?before=7fffffffffffffff-ffffffff&limit=7", 0, INT64_MAX, UINT32_MAX, 7 },
		{ "?before=8000000000000000-00000000", 422, 0, 0, 0 },
		{ "?before=", 422, 0, 0, 0 },
		{ "?before=00000000000000ff", 422, 0, 0, 0 },
		{ "?before=00000000000000ff-0000000", 422, 0, 0, 0 },
		{ "?before=00000000000000ff-0000000a0", 422, 0, 0, 0 },
		{ "?before=00000000000000FF-0000000a", 422, 0, 0, 0 },
		{ "?before=00000000000000ff00000000a", 422, 0, 0, 0 },
		{ "?before=%00", 422, 0, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct http_exchange x;
		fake.audit_done = NULL;
		fake.a.rate.micro_tokens = 0;
		ask(&x, cases[i].query);
		assert_int_equal(x.status, cases[i].status);
		assert_int_equal(fake.audit_done != NULL, cases[i].status == 0);
		if (fake.audit_done) {
			assert_int_equal(fake.audit_before_us, cases[i].us);
			assert_int_equal(fake.audit_before_id, cases[i].id);
			assert_int_equal(fake.audit_limit, cases[i].limit);
			fake.audit_done(fake.data, &(struct store_audit_page){ .n = 0 }, NULL);
			assert_int_equal(x.status, 200);
		}
		fake_exchange_fini(&x);
	}
}

static void entries_have_all_fields_and_the_last_is_the_cursor(void **state)
{
	struct store_audit rows[] = {
		{ .id = 9,
		  .at_us = 1700000000123456,
		  .session = "sbx_1",
		  .actor = "key abc",
		  .kind = "exec",
		  .command = "echo \xc3\xbc",
		  .exit_code = -1,
		  .timed_out = true,
		  .duration_ms = 1500 },
		{ .id = (UINT64_C(1) << 32) + 0xab,
		  .at_us = 255,
		  .session = "sbx_1",
		  .actor = "static key",
		  .kind = "import",
		  .command = "import a/b",
		  .detail = "failed (404): not there",
		  .failed = true,
		  .truncated = true,
		  .duration_ms = -1 },
	};
	struct store_audit_page page = { .rows = rows, .n = 2, .more = true };
	struct http_exchange x;

	ask(&x, "");
	fake.audit_done(fake.data, &page, NULL);
	assert_int_equal(x.status, 200);
	assert_string_equal(
		x.answer.data,
		"{\"tenant_id\":\"a\",\"entries\":[{\"ts\":1700000000.123456,\"session_id\":"
		"\"sbx_1\",\"actor\":\"key abc\",\"kind\":\"exec\",\"command\":\"echo \xc3\xbc\","
		"\"truncated\":false,\"exit_code\":-1,\"duration_s\":1.500,\"timed_out\":true,"
		"\"oom_killed\":false,\"detail\":null},{\"ts\":0.000255,\"session_id\":\"sbx_1\","
		"\"actor\":\"static key\",\"kind\":\"import\",\"command\":\"import a/b\","
		"\"truncated\":true,\"exit_code\":null,\"duration_s\":null,\"timed_out\":false,"
		"\"oom_killed\":false,\"detail\":\"failed (404): not there\"}],"
		"\"next\":\"00000000000000ff-000000ab\",\"retention_days\":90}");
	fake_exchange_fini(&x);
	ask(&x, "");
	page.more = false;
	fake.audit_done(fake.data, &page, NULL);
	assert_non_null(strstr(x.answer.data, "\"next\":null"));
	fake_exchange_fini(&x);
}

static void a_log_that_cannot_be_read_is_an_error(void **state)
{
	struct http_exchange x;
	struct err err;

	ask(&x, "");
	err_set(&err, EIO, "disk I/O error");
	fake.audit_done(fake.data, NULL, &err);
	assert_int_equal(x.status, 500);
	fake_exchange_fini(&x);
}

/* The store's answer comes in any case. */
static void an_api_that_closes_meanwhile_answers_nobody(void **state)
{
	struct http_exchange x;
	bool closed = false;

	ask(&x, "");
	api_close(api, on_closed, &closed);
	api = NULL;
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_true(closed);
	assert_true(x.aborted);
	fake.audit_done(fake.data, &(struct store_audit_page){ .n = 0 }, NULL);
	fake_exchange_fini(&x);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, start, stop)
	const struct CMUnitTest tests[] = {
		T(a_cursor_is_a_time_and_the_half_of_an_id),
		T(entries_have_all_fields_and_the_last_is_the_cursor),
		T(a_log_that_cannot_be_read_is_an_error),
		T(an_api_that_closes_meanwhile_answers_nobody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
