// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/limits.h"
#include "http/rig.h"

#define H "Host: a\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\n" H "\r\n"
#define CLOSED "\r\nConnection: close\r\n"
#define MALFORMED "{\"detail\":\"Malformed request.\",\"code\":\"malformed_request\"}"

static void an_answer_has_its_head(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, GET("/")));
	assert_true(client_expect(&c, "\r\n\r\nok"));
	assert_true(client_expect(&c,
				  "HTTP/1.1 200 OK\r\nDate: Tue, 14 Nov 2023 22:13:20 GMT\r\n"
				  "Content-Type: text/plain\r\nContent-Length: 2\r\n"
				  "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
				  "X-Request-Id: req_"));
	assert_int_equal(client_count(&c, "Connection:"), 0);
	assert_true(client_is_quiet(&c));
	client_close(&c);
	rig_close(&rig);
}

static void every_request_has_an_id_of_its_own(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, GET("/") GET("/")));
	assert_true(client_expect_n(&c, "\r\n\r\nok", 2));
	const char *one = strstr(c.in.data, "X-Request-Id: req_") + 18;
	const char *two = strstr(one, "X-Request-Id: req_") + 18;
	assert_int_equal(strspn(one, "0123456789abcdef"), 16);
	assert_int_equal(strspn(two, "0123456789abcdef"), 16);
	assert_memory_not_equal(one, two, 16);
	client_close(&c);
	rig_close(&rig);
}

static void each_answer_is_told_of_with_its_id_status_and_time(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, GET("/late")));
	rig_time(&rig, 1500);
	assert_int_equal(rig.answers, 0);
	http_exchange_note(rig.held)->route = 7;
	rig_answer_held(&rig, STR("x"));
	assert_true(client_expect(&c, "\r\n\r\nx"));
	assert_int_equal(rig.answers, 1);
	assert_int_equal(rig.answered.status, 200);
	assert_int_equal(rig.answered.took_us, 1500000);
	assert_int_equal(rig.answered.note.route, 7);
	assert_non_null(strstr(c.in.data, rig.answered_id));
	/* The next one has its own note; what is no request has an answer, too. */
	assert_true(client_say(&c, GET("/204") "BAD\r\n\r\n"));
	assert_true(client_expect(&c, "400 Bad Request"));
	assert_int_equal(rig.answers, 3);
	assert_int_equal(rig.answered.status, 400);
	assert_int_equal(rig.answered.took_us, -1);
	assert_int_equal(rig.answered.note.route, 0);
	client_close(&c);
	rig_close(&rig);
}

static void a_request_that_ends_without_an_answer_is_told_of(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(
		client_say(&c, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"));
	client_close(&c);
	assert_int_equal(rig.gone, 1);
	assert_int_equal(rig.answers, 1);
	assert_int_equal(rig.answered.status, 0);
	assert_true(rig.answered.gone);
	/* When it is the server that waits no longer, that is an answer. */
	client_open(&c, &rig);
	assert_true(
		client_say(&c, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"));
	rig_time(&rig, LIMIT_BODY_PAUSE_MS + 1000);
	assert_true(client_expect(&c, "408 Request Timeout"));
	assert_int_equal(rig.answers, 2);
	assert_int_equal(rig.answered.status, 408);
	assert_false(rig.answered.gone);
	assert_non_null(strstr(c.in.data, rig.answered_id));
	client_close(&c);
	rig_close(&rig);
}

static void the_id_of_a_proxy_is_told_when_it_can_be_trusted(void **state)
{
	static const char longest[] =
		"0123456789012345678901234567890123456789012345678901234567890123";
	static const struct {
		const char *field, *want;
	} cases[] = {
		{ "X-Request-Id: 7f3c-A_b.=\r\n", "7f3c-A_b.=" },
		{ "x-request-id:\r\n", "" },
		{ "X-Request-Id: a b\r\n", "" },
		{ "X-Request-Id: a\"b\r\n", "" },
		{ "X-Request-Id: a\r\nX-Request-Id: a\r\n", "" },
		{ "X-Request-Id: "
		  "0123456789012345678901234567890123456789012345678901234567890123\r\n",
		  longest },
		{ "X-Request-Id: "
		  "01234567890123456789012345678901234567890123456789012345678901234\r\n",
		  "" },
	};
	static const struct http_config stranger = { .max_connections = 4,
						     .write_max = 65536,
						     .trusted_proxies = "192.0.2.1" };
	struct rig rig;
	struct client c;
	char request[256];

	for (size_t i = 0; i <= ARRAY_SIZE(cases); i++) {
		bool trusted = i < ARRAY_SIZE(cases);
		if (trusted)
			rig_open(&rig);
		else
			rig_open_with(&rig, &stranger);
		client_open(&c, &rig);
		int n = snprintf(request, sizeof(request), "GET / HTTP/1.1\r\nHost: x\r\n%s\r\n",
				 cases[trusted ? i : 0].field);
		assert_true(client_send(&c, (struct str){ request, (size_t)n }));
		assert_true(client_expect(&c, "\r\n\r\nok"));
		assert_string_equal(rig.outer_id, trusted ? cases[i].want : "");
		assert_int_equal(client_count(&c, "X-Request-Id: req_"), 1);
		client_close(&c);
		rig_close(&rig);
	}
}

/* ---- Bodies ---- */

static void a_body_comes_back_however_it_is_cut(void **state)
{
	static const struct {
		struct str request;
		const char *want;
	} table[] = {
		{ STR("POST /echo HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhello"),
		  "\r\n\r\nhello" },
		{ STR("POST /echo HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n"),
		  "Content-Length: 0\r\n" },
		{ STR("POST /echo HTTP/1.1\r\n" H "\r\n"), "Content-Length: 0\r\n" },
		{ STR("POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
		      "3\r\nhel\r\n2;x\r\nlo\r\n0\r\n\r\n"),
		  "\r\n\r\nhello" },
		{ STR("POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
		  "Content-Length: 0\r\n" },
	};
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		for (size_t cut = 0; cut < table[i].request.len; cut++) {
			buf_clear(&c.in);
			assert_true(client_send(&c, (struct str){ table[i].request.data, cut }));
			assert_true(client_send(&c, str_from(table[i].request, cut)));
			assert_true(client_expect(&c, table[i].want));
			assert_int_equal(client_count(&c, "HTTP/1.1 200 OK\r\n"), 1);
			assert_true(client_is_quiet(&c));
		}
	}
	client_close(&c);
	rig_close(&rig);
}

static void a_large_body_comes_back(void **state)
{
	_cleanup_buf_ struct buf request = BUF(10u << 20);
	struct rig rig;
	struct client c;

	rig_open(&rig);
	rig.body_max = 4u << 20;
	client_open(&c, &rig);
	buf_printf(&request, "POST /echo HTTP/1.1\r\n" H "Content-Length: %u\r\n\r\n", 4u << 20);
	size_t head = request.len;
	for (unsigned i = 0; i < 4u << 20; i++)
		buf_put_char(&request, (char)('a' + i % 23));
	buf_put_text(&request, GET("/close"));
	assert_true(client_send(&c, buf_str(&request)));
	assert_true(client_end(&c));
	assert_int_equal(rig_info(&rig).bodies_bytes, 0);
	const char *body = strstr(c.in.data, "\r\n\r\n") + 4;
	assert_memory_equal(body, request.data + head, 4u << 20);
	assert_int_equal(client_count(&c, "HTTP/1.1 200 OK"), 2);
	client_close(&c);
	rig_close(&rig);
}

static void a_body_over_the_maximum_is_told_to_the_handler(void **state)
{
	static const struct str requests[] = {
		STR("POST /echo HTTP/1.1\r\n" H "Content-Length: 1001\r\n\r\n"),
		STR("POST /echo HTTP/1.1\r\n" H "Content-Length: 9223372036854775807\r\n\r\n"),
		STR("POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3e9\r\nx"),
		STR("POST /echo HTTP/1.1\r\n" H
		    "Transfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\nx"),
	};
	struct rig rig;
	struct client c;

	rig_open(&rig);
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		client_open(&c, &rig);
		assert_true(client_send(&c, requests[i]));
		assert_true(client_expect(&c, "HTTP/1.1 413 Content Too Large\r\n"));
		assert_true(client_expect(&c, CLOSED));
		assert_true(client_end(&c));
		client_close(&c);
	}
	assert_int_equal(rig.bodies, ARRAY_SIZE(requests));
	rig_close(&rig);
}

static void bad_chunks_are_refused_and_the_handler_hears_of_it(void **state)
{
	static const struct str bodies[] = {
		STR("5\nhello"),	STR("x"),
		STR("5\r\nhello!\r\n"), STR("0\r\nX: y\r\n\r\n"),
		STR("0\r\n\n"),		STR("5\r\nhello\r\n0\r\nContent-Length: 4\r\n\r\n"),
	};
	struct rig rig;
	struct client c;

	rig_open(&rig);
	for (unsigned i = 0; i < ARRAY_SIZE(bodies); i++) {
		client_open(&c, &rig);
		assert_true(client_say(&c, "POST /echo HTTP/1.1\r\n" H
					   "Transfer-Encoding: chunked\r\n\r\n"));
		assert_true(client_send(&c, bodies[i]));
		assert_true(client_expect(&c, "HTTP/1.1 400 Bad Request\r\n"));
		assert_true(client_expect(&c, MALFORMED));
		assert_true(client_end(&c));
		client_close(&c);
		assert_int_equal(rig.gone, i + 1);
	}
	assert_int_equal(rig.bodies, 0);
	rig_close(&rig);
}

static void continue_is_said_when_the_body_is_asked_for(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, "POST /late HTTP/1.1\r\n" H "Content-Length: 5\r\n"
				   "Expect: 100-continue\r\n\r\n"));
	assert_true(client_is_quiet(&c));
	rig_read_body(&rig);
	assert_true(client_expect(&c, "HTTP/1.1 100 Continue\r\n\r\n"));
	assert_true(client_say(&c, "hello"));
	assert_true(client_expect(&c, "\r\n\r\nhello"));
	client_close(&c);

	/* Not for a body that comes by itself, and not before a refusal. */
	client_open(&c, &rig);
	assert_true(client_say(&c, "POST /echo HTTP/1.1\r\n" H "Content-Length: 5\r\n"
				   "Expect: 100-continue\r\n\r\nhello"));
	assert_true(client_expect(&c, "\r\n\r\nhello"));
	assert_true(client_say(&c, "POST /early HTTP/1.1\r\n" H "Content-Length: 5\r\n"
				   "Expect: 100-continue\r\n\r\n"));
	assert_true(client_end(&c));
	assert_int_equal(client_count(&c, "100 Continue"), 0);
	assert_int_equal(client_count(&c, "HTTP/1.1 401 "), 1);
	client_close(&c);
	rig_close(&rig);
}

/* ---- Early answers ---- */

static void an_early_answer_is_seen_by_a_client_that_sends_on(void **state)
{
	_cleanup_buf_ struct buf body = BUF(8u << 20);
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_non_null(buf_reserve(&body, 7u << 20));
	memset(body.data, 'x', 7u << 20);
	body.len = 7u << 20;
	assert_true(client_say(&c, "POST /early HTTP/1.1\r\n" H "Content-Length: 7340032\r\n\r\n"));
	assert_true(client_send(&c, buf_str(&body)));
	assert_true(client_end(&c));
	assert_int_equal(client_count(&c, "HTTP/1.1 401 Unauthorized\r\n"), 1);
	assert_int_equal(client_count(&c, CLOSED), 1);
	client_close(&c);
	assert_int_equal(rig_info(&rig).connections, 0);
	rig_close(&rig);
}

/* The MiB of 200 that the server takes behind an answer which came early. */
static unsigned drained(const char *path)
{
	_cleanup_buf_ struct buf body = BUF(2u << 20);
	struct rig rig;
	struct client c;
	unsigned sent = 0;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_non_null(buf_reserve(&body, 1u << 20));
	memset(body.data, 'x', 1u << 20);
	body.len = 1u << 20;
	assert_true(client_send(&c, str_of(path)) &&
		    client_say(&c, " HTTP/1.1\r\n" H "Content-Length: 209715200\r\n\r\n"));
	while (sent < 200 && client_send(&c, buf_str(&body)))
		sent++;
	client_close(&c);
	rig_close(&rig);
	return sent;
}

static void draining_has_its_end_which_is_nearer_for_a_refused_key(void **state)
{
	/* Besides what the kernel's buffers hold. */
	assert_in_range(drained("POST /early"), LIMIT_DRAIN_REFUSED / MIB,
			LIMIT_DRAIN_REFUSED / MIB + 8);
	assert_in_range(drained("POST /"), LIMIT_DRAIN / MIB, LIMIT_DRAIN / MIB + 8);
}

static void draining_has_its_time(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, "POST /early HTTP/1.1\r\n" H "Content-Length: 100\r\n\r\n"));
	assert_true(client_end(&c));
	rig_time(&rig, LIMIT_DRAIN_MS - 1000);
	assert_int_equal(rig_info(&rig).connections, 1);
	rig_time(&rig, 1000);
	assert_int_equal(rig_info(&rig).connections, 0);
	client_close(&c);
	rig_close(&rig);
}

static void an_early_answer_keeps_the_connection_when_the_body_is_here(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, "POST /early HTTP/1.1\r\n" H
				   "Content-Length: 5\r\n\r\nhello" GET("/")));
	assert_true(client_expect(&c, "\r\n\r\nok"));
	assert_int_equal(client_count(&c, CLOSED), 0);
	client_close(&c);
	rig_close(&rig);
}

/* ---- One after the other ---- */

static void ten_thousand_pipelined_requests_are_served_in_order(void **state)
{
	_cleanup_buf_ struct buf requests = BUF(4u << 20);
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	for (unsigned i = 0; i < 9999; i++) {
		char body[16];
		int n = snprintf(body, sizeof(body), "<%u>", i);
		buf_printf(&requests, "POST /echo HTTP/1.1\r\n" H "Content-Length: %d\r\n\r\n%s", n,
			   body);
	}
	buf_put_text(&requests, GET("/close"));
	/* Sent and read in turns: a client that never reads is another test. */
	struct str rest = buf_str(&requests);
	while (rest.len) {
		size_t n = rest.len < 30000 ? rest.len : 30000;
		assert_true(client_send(&c, (struct str){ rest.data, n }));
		rest = str_from(rest, n);
		client_is_quiet(&c);
	}
	assert_true(client_end(&c));
	assert_int_equal(client_count(&c, "HTTP/1.1 200 OK\r\n"), 10000);
	const char *at = c.in.data;
	for (unsigned i = 0; i < 9999; i++) {
		char body[24];
		snprintf(body, sizeof(body), "\r\n\r\n<%u>", i);
		at = strstr(at, body);
		assert_non_null(at);
	}
	client_close(&c);
	rig_close(&rig);
}

static void a_client_that_never_reads_costs_a_bounded_amount(void **state)
{
	_cleanup_buf_ struct buf requests = BUF(4u << 20);
	struct rig rig;
	struct client c;

	rig_open(&rig);
	rig.big = 20000;
	client_open(&c, &rig);
	for (unsigned i = 0; i < 10000; i++)
		buf_put_text(&requests, GET("/big"));
	client_send(&c, buf_str(&requests));
	assert_true(rig.handled < 2000);
	struct http_conn *conn =
		container_of(list_first(&rig.server->conns), struct http_conn, node);
	assert_in_range(conn_queued(conn), 1, 65536 + 21000);
	assert_true(conn->in.len <= READ_SIZE);
	/* Reading lets it go on. */
	unsigned before = rig.handled;
	assert_true(client_expect_n(&c, "HTTP/1.1 200 OK", before + 1));
	assert_true(rig.handled > before);
	client_close(&c);
	assert_int_equal(rig_info(&rig).connections, 0);
	rig_close(&rig);
}

static void a_late_answer_goes_on_with_what_waits(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, GET("/late") GET("/") GET("/late")));
	assert_true(client_is_quiet(&c));
	assert_int_equal(rig.handled, 1);
	rig_answer_held(&rig, STR("late"));
	assert_true(client_expect(&c, "\r\n\r\nlate"));
	assert_true(client_expect(&c, "\r\n\r\nok"));
	assert_int_equal(rig.handled, 3);
	rig_answer_held(&rig, STR("later"));
	assert_true(client_expect(&c, "\r\n\r\nlater"));
	client_close(&c);
	rig_close(&rig);
}

/* A body that is a request, which nobody may take it for. */
#define INNER GET("/close")
#define WITH_INNER "GET /late HTTP/1.1\r\n" H "Content-Length: 32\r\n\r\n" INNER

static void answer_now(uv_prepare_t *handle)
{
	struct rig *rig = handle->data;
	struct http_reply reply = { .status = 200, .content_type = "text/plain" };

	http_reply(take_ptr(rig->held), &reply, STR("late"));
	uv_close((uv_handle_t *)handle, NULL);
}

/* Between the answer and the next look at what waits, more comes (uv_prepare_t: before the poll). */
static void a_body_that_was_skipped_never_comes_back(void **state)
{
	struct rig rig;
	struct client c;
	uv_prepare_t prepare = { .data = &rig };
	const char *rest = "ET / HTTP/1.1\r\n" H "\r\n";

	assert_int_equal(strlen(INNER), 32);
	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, WITH_INNER "G"));
	assert_true(client_is_quiet(&c));
	assert_int_equal(send(c.fd, rest, strlen(rest), 0), strlen(rest));
	uv_prepare_init(&rig.loop, &prepare);
	uv_prepare_start(&prepare, answer_now);
	assert_true(client_expect(&c, "\r\n\r\nlate"));
	assert_true(client_expect(&c, "\r\n\r\nok"));
	assert_int_equal(rig.handled, 2);
	client_close(&c);
	rig_close(&rig);
}

/* Nor while the answer is under way, by whichever way more comes. */
static void a_body_that_was_skipped_is_none_of_the_next_request(void **state)
{
	struct http_reply reply = { .status = 200, .content_type = "text/plain" };
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, WITH_INNER));
	assert_true(client_is_quiet(&c));
	http_begin(rig.held, &reply, 5);
	http_write(rig.held, STR("bytes"));
	assert_true(client_expect(&c, "\r\n\r\nbytes"));
	assert_true(client_say(&c, GET("/") GET("/peer")));
	rig_turn(&rig, 5);
	http_end(take_ptr(rig.held));
	assert_true(client_expect(&c, "\r\n\r\nok"));
	assert_true(client_expect(&c, "\r\n\r\n127.0.0.1"));
	assert_int_equal(rig.handled, 3);
	client_close(&c);
	rig_close(&rig);
}

static void input_that_waits_is_bounded(void **state)
{
	_cleanup_buf_ struct buf rest = BUF(32u << 20);
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, GET("/late")));
	for (unsigned i = 0; i < 500000; i++)
		buf_put_text(&rest, GET("/"));
	assert_false(client_send(&c, buf_str(&rest)));
	struct http_conn *conn =
		container_of(list_first(&rig.server->conns), struct http_conn, node);
	assert_in_range(conn->in.len, INPUT_MAX, READ_SIZE);
	rig_answer_held(&rig, STR("x"));
	assert_true(client_expect(&c, "\r\n\r\nok"));
	client_close(&c);
	rig_close(&rig);
}

static void nothing_is_served_after_the_last_answer(void **state)
{
	static const struct str requests[] = {
		STR(GET("/close") GET("/")),
		STR("GET / HTTP/1.1\r\n" H "Connection: close\r\n\r\n" GET("/")),
		STR("GET /healthz HTTP/1.0\r\n\r\n" GET("/")),
		STR("POST /early HTTP/1.1\r\n" H
		    "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" GET("/")),
	};
	struct rig rig;
	struct client c;

	rig_open(&rig);
	for (unsigned i = 0; i < ARRAY_SIZE(requests); i++) {
		client_open(&c, &rig);
		assert_true(client_send(&c, requests[i]));
		assert_true(client_end(&c));
		assert_int_equal(client_count(&c, "HTTP/1.1 "), 1);
		assert_int_equal(client_count(&c, CLOSED), 1);
		client_close(&c);
		assert_int_equal(rig.handled, i + 1);
	}
	assert_int_equal(rig_info(&rig).connections, 0);
	rig_close(&rig);
}

static void nothing_is_served_after_a_framing_error(void **state)
{
	static const struct {
		struct str request;
		const char *status, *code;
	} table[] = {
		{ STR("GET / HTTP/1.1\n" H "\r\n"), "400 Bad Request", "malformed_request" },
		{ STR("GET / HTTP/1.1\r\n" H H "\r\n"), "400 Bad Request", "malformed_request" },
		{ STR("GET / HTTP/1.0\r\n" H "\r\n"), "505 HTTP Version Not Supported",
		  "http_version" },
	};
	struct rig rig;
	struct client c;

	rig_open(&rig);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		char status[100], code[100];
		snprintf(status, sizeof(status), "HTTP/1.1 %s\r\n", table[i].status);
		snprintf(code, sizeof(code), "\"code\":\"%s\"}", table[i].code);
		client_open(&c, &rig);
		assert_true(client_say(&c, GET("/")));
		assert_true(client_send(&c, table[i].request));
		assert_true(client_say(&c, GET("/")));
		assert_true(client_end(&c));
		assert_int_equal(client_count(&c, "HTTP/1.1 "), 2);
		assert_int_equal(client_count(&c, status), 1);
		assert_int_equal(client_count(&c, code), 1);
		assert_int_equal(client_count(&c, CLOSED), 1);
		assert_int_equal(client_count(&c, "X-Request-Id: req_"), 2);
		client_close(&c);
	}
	assert_int_equal(rig.handled, ARRAY_SIZE(table));
	rig_close(&rig);
}

/* ---- Answers without a body ---- */

static void head_gets_the_length_and_no_body(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, "HEAD / HTTP/1.1\r\n" H "\r\n"));
	assert_true(client_expect(&c, "\r\nContent-Length: 2\r\n"));
	assert_true(client_expect(&c, "\r\n\r\n"));
	assert_true(client_is_quiet(&c));
	assert_memory_equal(c.in.data + c.in.len - 4, "\r\n\r\n", 4);
	assert_true(client_say(&c, GET("/")));
	assert_true(client_expect(&c, "\r\n\r\nok"));
	client_close(&c);
	rig_close(&rig);
}

static void no_content_has_no_length(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, GET("/204") GET("/close")));
	assert_true(client_end(&c));
	assert_int_equal(client_count(&c, "HTTP/1.1 204 No Content\r\n"), 1);
	assert_int_equal(client_count(&c, "Content-Length:"), 1);
	assert_int_equal(client_count(&c, "Content-Type:"), 1);
	client_close(&c);
	rig_close(&rig);
}

static void a_half_closed_client_gets_its_answers(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, GET("/late") GET("/")));
	shutdown(c.fd, SHUT_WR);
	rig_turn(&rig, 10);
	rig_answer_held(&rig, STR("late"));
	assert_true(client_end(&c));
	assert_int_equal(client_count(&c, "\r\n\r\nlate"), 1);
	assert_int_equal(client_count(&c, "\r\n\r\nok"), 1);
	assert_int_equal(rig_info(&rig).connections, 0);
	client_close(&c);
	rig_close(&rig);
}

static void count_hangup(void *data)
{
	++*(unsigned *)data;
}

static void whoever_wants_to_hears_that_the_client_is_gone(void **state)
{
	for (unsigned how = 0; how < 4; how++) {
		const struct linger now = { 1, 0 };
		struct rig rig;
		struct client c;
		unsigned hung_up = 0;
		rig_open(&rig);
		client_open(&c, &rig);
		assert_true(client_say(&c, GET("/late")));
		/* It may have happened before anybody asks. */
		if (how == 2)
			shutdown(c.fd, SHUT_WR);
		rig_turn(&rig, 10);
		http_on_hangup(rig.held, count_hangup, &hung_up);
		assert_int_equal(hung_up, 0);
		if (how == 0)
			setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		if (how == 0)
			client_close(&c);
		else if (how == 1)
			shutdown(c.fd, SHUT_WR);
		rig_turn(&rig, 10);
		assert_int_equal(hung_up, how < 3);
		assert_int_equal(http_exchange_is_gone(rig.held), how == 0);
		/* After the answer nobody is told. */
		rig_answer_held(&rig, STR("late"));
		assert_int_equal(rig.answered.gone, how < 3);
		if (how > 0)
			client_close(&c);
		rig_turn(&rig, 10);
		assert_int_equal(hung_up, how < 3);
		rig_close(&rig);
	}
}

/* ---- Who is asking ---- */

static void the_forwarded_address_counts_from_trusted_proxies_only(void **state)
{
	static const struct http_config strict = { .max_connections = 8,
						   .write_max = 65536,
						   .trusted_proxies = "10.0.0.1" };
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, GET("/peer")));
	assert_true(client_expect(&c, "\r\n\r\n127.0.0.1"));
	assert_true(
		client_say(&c, "GET /peer HTTP/1.1\r\n" H "X-Forwarded-For: 203.0.113.9\r\n\r\n"));
	assert_true(client_expect(&c, "\r\n\r\n203.0.113.9"));
	client_close(&c);
	rig_close(&rig);
	rig_open_with(&rig, &strict);
	client_open(&c, &rig);
	assert_true(
		client_say(&c, "GET /peer HTTP/1.1\r\n" H "X-Forwarded-For: 203.0.113.9\r\n\r\n"));
	assert_true(client_expect(&c, "\r\n\r\n127.0.0.1"));
	client_close(&c);
	rig_close(&rig);
}

static void a_bad_list_of_proxies_is_an_error(void **state)
{
	struct http_server *server = NULL;
	struct http_config config = { .listen_fd = -1,
				      .max_connections = 1,
				      .write_max = 1,
				      .trusted_proxies = "127.0.0.1,x",
				      .handler = (http_handler_fn)abort };
	uv_loop_t loop;
	struct err err;

	uv_loop_init(&loop);
	assert_true(http_server_open(&loop, &config, &server, &err) < 0);
	assert_string_equal(err.text, "'x' is not an address or range");
	config.trusted_proxies = NULL;
	assert_true(http_server_open(&loop, &config, &server, &err) < 0);
	assert_int_equal(err.code, EBADF);
	assert_null(server);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_has_its_head),
		cmocka_unit_test(every_request_has_an_id_of_its_own),
		cmocka_unit_test(each_answer_is_told_of_with_its_id_status_and_time),
		cmocka_unit_test(a_request_that_ends_without_an_answer_is_told_of),
		cmocka_unit_test(the_id_of_a_proxy_is_told_when_it_can_be_trusted),
		cmocka_unit_test(a_body_comes_back_however_it_is_cut),
		cmocka_unit_test(a_large_body_comes_back),
		cmocka_unit_test(a_body_over_the_maximum_is_told_to_the_handler),
		cmocka_unit_test(bad_chunks_are_refused_and_the_handler_hears_of_it),
		cmocka_unit_test(continue_is_said_when_the_body_is_asked_for),
		cmocka_unit_test(an_early_answer_is_seen_by_a_client_that_sends_on),
		cmocka_unit_test(draining_has_its_end_which_is_nearer_for_a_refused_key),
		cmocka_unit_test(draining_has_its_time),
		cmocka_unit_test(an_early_answer_keeps_the_connection_when_the_body_is_here),
		cmocka_unit_test(ten_thousand_pipelined_requests_are_served_in_order),
		cmocka_unit_test(a_client_that_never_reads_costs_a_bounded_amount),
		cmocka_unit_test(a_late_answer_goes_on_with_what_waits),
		cmocka_unit_test(a_body_that_was_skipped_never_comes_back),
		cmocka_unit_test(a_body_that_was_skipped_is_none_of_the_next_request),
		cmocka_unit_test(input_that_waits_is_bounded),
		cmocka_unit_test(nothing_is_served_after_the_last_answer),
		cmocka_unit_test(nothing_is_served_after_a_framing_error),
		cmocka_unit_test(head_gets_the_length_and_no_body),
		cmocka_unit_test(no_content_has_no_length),
		cmocka_unit_test(a_half_closed_client_gets_its_answers),
		cmocka_unit_test(whoever_wants_to_hears_that_the_client_is_gone),
		cmocka_unit_test(the_forwarded_address_counts_from_trusted_proxies_only),
		cmocka_unit_test(a_bad_list_of_proxies_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
