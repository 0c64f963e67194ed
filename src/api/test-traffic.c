// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/error.h"
#include "api/route.h"
#include "api/traffic.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"

static struct traffic traffic;
static char line[4096];

static unsigned route_of(const char *method, const char *pattern)
{
	for (size_t i = 0; i < n_routes; i++) {
		if (!strcmp(routes[i].method, method) && !strcmp(routes[i].pattern, pattern))
			return (unsigned)i + 1;
	}
	fail_msg("no route %s %s", method, pattern);
	return 0;
}

/* What is written to the log about this answer. */
static const char *logged(const struct http_answered *a)
{
	_cleanup_fd_ int file = memfd_create("log", MFD_CLOEXEC);
	_cleanup_fd_ int old = dup(STDERR_FILENO);

	dup2(file, STDERR_FILENO);
	traffic_answered(&traffic, a);
	dup2(old, STDERR_FILENO);
	ssize_t n = pread(file, line, sizeof(line) - 1, 0);
	assert_true(n >= 0);
	line[n] = '\0';
	return line;
}

static int setup(void **state)
{
	traffic_init(&traffic);
	log_init("test", LOG_INFO);
	return 0;
}

static void answers_are_counted_by_route_and_status(void **state)
{
	const unsigned list = route_of("GET", "/v1/sessions");
	const unsigned make = route_of("POST", "/v1/sessions");
	_cleanup_buf_ struct buf out = BUF(65536);
	struct http_answered a = { .id = "req_0", .note = { .route = make }, .status = 201 };

	a.took_us = 1000;
	traffic_answered(&traffic, &a);
	a.took_us = 1001;
	traffic_answered(&traffic, &a);
	a.note.route = list;
	a.status = 200;
	a.took_us = 300000000;
	traffic_answered(&traffic, &a);
	a = (struct http_answered){ .id = "req_1", .status = 400, .took_us = -1 };
	traffic_answered(&traffic, &a);
	a.status = 299;
	traffic_answered(&traffic, &a);
	traffic_write(&traffic, &out);
	assert_non_null(strstr(out.data, "{route=\"POST /v1/sessions\",status=\"201\"} 2\n"));
	assert_non_null(strstr(out.data, "{route=\"GET /v1/sessions\",status=\"200\"} 1\n"));
	assert_non_null(strstr(out.data, "{route=\"none\",status=\"400\"} 1\n"));
	assert_non_null(strstr(out.data, "{route=\"none\",status=\"other\"} 1\n"));
	/* What was no request took no time. */
	assert_non_null(strstr(out.data, "_seconds_bucket{le=\"0.001\"} 1\n"));
	assert_non_null(strstr(out.data, "_seconds_bucket{le=\"240\"} 2\n"));
	assert_non_null(strstr(out.data, "_seconds_count 3\n"));
}

static void every_status_of_the_api_has_its_own_count(void **state)
{
	for (size_t i = 0; i < error_n_rows; i++) {
		_cleanup_buf_ struct buf out = BUF(65536);
		traffic_init(&traffic);
		traffic_answered(&traffic,
				 &(struct http_answered){ .id = "req_0",
							  .status = (int)error_rows[i].status });
		traffic_write(&traffic, &out);
		if (strstr(out.data, "status=\"other\""))
			fail_msg("no count of its own for %u", error_rows[i].status);
	}
	for (size_t i = 0; i < n_routes; i++) {
		_cleanup_buf_ struct buf out = BUF(65536);
		traffic_init(&traffic);
		traffic_answered(&traffic, &(struct http_answered){ .id = "req_0",
								    .status = routes[i].status });
		traffic_write(&traffic, &out);
		if (strstr(out.data, "status=\"other\""))
			fail_msg("no count of its own for %d", routes[i].status);
	}
}

static void what_the_server_could_not_do_is_a_warning(void **state)
{
	struct http_answered a = {
		.id = "req_0123456789abcdef",
		.outer_id = STR("edge-7 and what lies behind it"),
		.note = { .route = route_of("POST", "/v1/sessions/{session_id}/exec"),
			  .word = "busy",
			  .tenant = "acme",
			  .session = "sbx_0123456789ab" },
		.status = 503,
		.took_us = 20001999,
	};

	a.outer_id.len = 6;
	const char *rest = strstr(logged(&a), "\"level\":");
	assert_non_null(rest);
	assert_string_equal(rest,
			    "\"level\":\"warn\",\"process\":\"test\",\"event\":\"request\","
			    "\"request\":\"req_0123456789abcdef\","
			    "\"route\":\"POST /v1/sessions/{session_id}/exec\","
			    "\"status\":503,\"ms\":20001,\"word\":\"busy\",\"tenant\":\"acme\","
			    "\"session\":\"sbx_0123456789ab\",\"proxy_request\":\"edge-7\"}\n");
}

static void an_answer_that_nobody_heard_says_so(void **state)
{
	_cleanup_buf_ struct buf out = BUF(65536);
	const unsigned exec = route_of("POST", "/v1/sessions/{session_id}/exec");
	struct http_answered a = {
		.id = "req_0", .note = { .route = exec }, .status = 200, .gone = true
	};

	log_init("test", LOG_DEBUG);
	assert_non_null(strstr(logged(&a), "\"level\":\"debug\""));
	assert_non_null(strstr(line, "\"status\":499"));
	/* None at all. */
	a.status = 0;
	assert_non_null(strstr(logged(&a), "\"status\":499"));
	/* What the server could not do is still its failure. */
	a.status = 503;
	a.note.word = "busy";
	assert_non_null(strstr(logged(&a), "\"level\":\"warn\""));
	assert_non_null(strstr(line, "\"status\":499"));
	assert_non_null(strstr(line, "\"word\":\"busy\""));
	traffic_write(&traffic, &out);
	assert_non_null(strstr(out.data, "exec\",status=\"499\"} 3\n"));
	assert_null(strstr(out.data, "status=\"200\""));
}

static void other_answers_are_for_the_level_debug(void **state)
{
	static const struct {
		int status;
		const char *word;
	} cases[] = {
		{ 200, NULL }, { 404, "not_found" }, { 501, "audit_off" },
		{ 503, NULL }, /* a health probe; a client that the server has no room for */
		{ 505, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct http_answered a = { .id = "req_0",
					   .note = { .word = cases[i].word },
					   .status = cases[i].status };
		log_init("test", LOG_INFO);
		assert_string_equal(logged(&a), "");
		log_init("test", LOG_DEBUG);
		assert_non_null(strstr(logged(&a), "\"level\":\"debug\""));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(answers_are_counted_by_route_and_status, setup),
		cmocka_unit_test_setup(every_status_of_the_api_has_its_own_count, setup),
		cmocka_unit_test_setup(what_the_server_could_not_do_is_a_warning, setup),
		cmocka_unit_test_setup(an_answer_that_nobody_heard_says_so, setup),
		cmocka_unit_test_setup(other_answers_are_for_the_level_debug, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
