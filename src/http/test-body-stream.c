// SPDX-License-Identifier: Apache-2.0
/* Bodies that go through in pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "http/rig.h"

#define PUT(rest) "PUT /flow HTTP/1.1\r\nHost: a\r\n" rest "\r\n\r\n"

static char *make(size_t len)
{
	char *data = mem_new(len, 1);

	for (size_t i = 0; i < len; i++)
		data[i] = (char)(i * 7 + i / 251);
	return data;
}

static struct http_conn *only_conn(struct rig *rig)
{
	return container_of(list_first(&rig->server->conns), struct http_conn, node);
}

static bool send_head(struct client *c, const char *fmt, size_t n)
{
	char head[128];

	snprintf(head, sizeof(head), "PUT /flow HTTP/1.1\r\nHost: a\r\n%s: %zu\r\n\r\n", fmt, n);
	return client_send(c, str_of(head));
}

static void a_long_body_comes_in_pieces_and_stays_nowhere(void **state)
{
	const size_t len = 8 * MIB;
	_cleanup_free_ char *data = make(len);
	struct rig rig;
	struct client c;

	rig_open(&rig);
	rig.body_max = len;
	client_open(&c, &rig);
	assert_true(send_head(&c, "Content-Length", len));
	assert_true(client_send(&c, (struct str){ data, len }));
	assert_true(client_expect(&c, "\r\n\r\n8388608"));
	assert_int_equal(rig.flow.sum, rig_sum(0, (struct str){ data, len }));
	assert_in_range(rig.flow.largest, 1, READ_SIZE);
	assert_int_equal(rig_info(&rig).bodies_bytes, 0);
	assert_int_equal(client_count(&c, "Connection: close"), 0);
	/* The connection serves on. */
	assert_true(client_say(&c, PUT("Content-Length: 3") "abc"));
	assert_true(client_expect(&c, "\r\n\r\n3"));
	client_close(&c);
	rig_close(&rig);
}

static void chunks_come_as_the_same_bytes(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, PUT("Transfer-Encoding: chunked")));
	assert_true(client_say(&c, "5\r\nhel"));
	assert_true(client_say(&c, "lo\r\n6;x=y\r\n world\r\n"));
	assert_int_equal(rig.bodies, 0);
	assert_true(client_say(&c, "0\r\n\r\n"));
	assert_true(client_expect(&c, "\r\n\r\n11"));
	assert_int_equal(rig.flow.sum, rig_sum(0, STR("hello world")));
	client_close(&c);
	rig_close(&rig);
}

static void an_empty_body_ends_at_once(void **state)
{
	static const struct str requests[] = {
		STR(PUT("X: y")),
		STR(PUT("Content-Length: 0")),
		STR(PUT("Transfer-Encoding: chunked") "0\r\n\r\n"),
	};
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	for (unsigned i = 0; i < ARRAY_SIZE(requests); i++) {
		assert_true(client_send(&c, requests[i]));
		assert_true(client_expect_n(&c, "\r\n\r\n0", i + 1));
		assert_int_equal(rig.flow.pieces, 0);
	}
	client_close(&c);
	rig_close(&rig);
}

/* ---- Back-pressure ---- */

static void a_pause_holds_the_client_back(void **state)
{
	const size_t len = 8 * MIB;
	_cleanup_free_ char *data = make(len);
	struct rig rig;
	struct client c;
	size_t at = 0;

	rig_open(&rig);
	rig.body_max = len;
	rig.flow.pauses = true;
	client_open(&c, &rig);
	assert_true(send_head(&c, "Content-Length", len));
	for (unsigned still = 0; at < len && still < 50;) {
		ssize_t n = send(c.fd, data + at, len - at, MSG_DONTWAIT);
		still = n > 0 ? 0 : still + 1;
		at += n > 0 ? (size_t)n : 0;
		rig_turn(&rig, 2);
	}
	assert_true(at < len);
	assert_int_equal(rig.flow.pieces, 1);
	assert_true(only_conn(&rig)->in.len <= READ_SIZE);
	/* However long it takes, no time-out of the client's. */
	rig_time(&rig, 4 * LIMIT_BODY_PAUSE_MS);
	rig_time(&rig, LIMIT_BODY_SLOW_MS);
	assert_int_equal(rig.bodies + rig.gone, 0);
	while (rig.flow.x) {
		ssize_t n = at < len ? send(c.fd, data + at, len - at, MSG_DONTWAIT) : 0;
		at += n > 0 ? (size_t)n : 0;
		rig_resume(&rig);
		rig_turn(&rig, 1);
		assert_true(only_conn(&rig)->in.len <= READ_SIZE);
	}
	assert_int_equal(rig.flow.sum, rig_sum(0, (struct str){ data, len }));
	assert_true(client_expect(&c, "\r\n\r\n8388608"));
	client_close(&c);
	rig_close(&rig);
}

static void the_end_waits_for_a_pause_too(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	rig.flow.pauses = true;
	client_open(&c, &rig);
	assert_true(client_say(&c, PUT("Content-Length: 5") "hello"));
	shutdown(c.fd, SHUT_WR);
	rig_turn(&rig, 20);
	assert_int_equal(rig.flow.len, 5);
	assert_int_equal(rig.bodies, 0);
	rig_resume(&rig);
	rig_turn(&rig, 5);
	assert_int_equal(rig.bodies, 1);
	assert_true(client_expect(&c, "\r\n\r\n5"));
	client_close(&c);
	rig_close(&rig);
}

static void the_pause_of_a_client_still_times_out(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, PUT("Content-Length: 500") "hello"));
	rig_time(&rig, LIMIT_BODY_PAUSE_MS - 1);
	assert_int_equal(rig.gone, 0);
	rig_time(&rig, 1);
	assert_int_equal(rig.gone, 1);
	assert_true(client_expect(&c, "HTTP/1.1 408 "));
	client_close(&c);
	rig_close(&rig);
}

/* ---- Limits and bad framing ---- */

static void too_long_is_told_before_or_while_it_is_read(void **state)
{
	static const struct {
		struct str request;
		size_t taken;
	} table[] = {
		{ STR(PUT("Content-Length: 1001")), 0 },
		{ STR(PUT("Transfer-Encoding: chunked") "3e9\r\nabc"), 0 },
		{ STR(PUT("Transfer-Encoding: chunked") "3\r\nabc\r\n3e8\r\nabc"), 3 },
	};
	struct rig rig;
	struct client c;

	rig_open(&rig);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		client_open(&c, &rig);
		assert_true(client_send(&c, table[i].request));
		assert_true(client_expect(&c, "HTTP/1.1 413 "));
		assert_int_equal(client_count(&c, "\r\nConnection: close\r\n"), 1);
		assert_int_equal(rig.flow.len, table[i].taken);
		/* What is still coming is thrown away, and no reset overtakes the answer. */
		assert_true(client_say(&c, "more and more"));
		shutdown(c.fd, SHUT_WR);
		assert_true(client_end(&c));
		client_close(&c);
	}
	rig_close(&rig);
}

static void bad_chunks_are_400_and_gone(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, PUT("Transfer-Encoding: chunked") "3\r\nabc\r\nzz\r\n"));
	assert_true(client_expect(&c, "HTTP/1.1 400 "));
	assert_int_equal(rig.gone, 1);
	assert_int_equal(rig.flow.len, 3);
	client_close(&c);
	rig_close(&rig);
}

static void an_answer_in_the_middle_ends_the_reading_and_drains(void **state)
{
	const size_t len = 8 * MIB;
	_cleanup_free_ char *data = make(len);
	struct rig rig;
	struct client c;

	rig_open(&rig);
	rig.body_max = len;
	rig.flow.answer_at = 100000;
	client_open(&c, &rig);
	assert_true(send_head(&c, "Content-Length", len));
	assert_true(client_send(&c, (struct str){ data, len }));
	assert_true(client_end(&c));
	assert_int_equal(client_count(&c, "HTTP/1.1 400 "), 1);
	assert_int_equal(client_count(&c, "\r\nConnection: close\r\n"), 1);
	assert_true(rig.flow.len < len);
	client_close(&c);
	/* With the last byte there is nothing to drain, and the connection stays. */
	client_open(&c, &rig);
	rig.flow.answer_at = 5;
	assert_true(client_say(&c, PUT("Content-Length: 5") "hello"));
	assert_true(client_expect(&c, "\r\n\r\n5"));
	assert_int_equal(client_count(&c, "\r\nConnection: close\r\n"), 0);
	assert_int_equal(rig.server->n_exchanges, 0);
	client_close(&c);
	rig_close(&rig);
}

/* ---- Expect, hang-ups ---- */

static void go_on_is_said_when_the_stream_is_asked_for(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, "PUT /late HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
				   "Expect: 100-continue\r\n\r\n"));
	assert_true(client_is_quiet(&c));
	rig_stream_body(&rig);
	assert_true(client_expect(&c, "HTTP/1.1 100 Continue\r\n\r\n"));
	assert_true(client_say(&c, "hello"));
	assert_true(client_expect(&c, "\r\n\r\n5"));
	/* Not when it is too long anyway. */
	assert_true(client_say(&c, "PUT /flow HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n"
				   "Expect: 100-continue\r\n\r\n"));
	assert_true(client_expect(&c, "HTTP/1.1 413 "));
	assert_int_equal(client_count(&c, "100 Continue"), 1);
	client_close(&c);
	rig_close(&rig);
}

static void a_hang_up_is_told_once(void **state)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };
	struct rig rig;
	struct client c;

	rig_open(&rig);
	for (unsigned i = 0; i < 4; i++) {
		rig.flow.pauses = i & 1;
		client_open(&c, &rig);
		assert_true(client_say(&c, PUT("Content-Length: 500") "hello"));
		if (i & 2)
			setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		client_close(&c);
		rig_turn(&rig, 10);
		/* An end that came during a pause is found when it is over. */
		rig_resume(&rig);
		rig_turn(&rig, 10);
		assert_int_equal(rig.gone, i + 1);
		assert_null(rig.flow.x);
		assert_int_equal(rig.server->n_exchanges, 0);
	}
	assert_int_equal(rig.bodies, 0);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_long_body_comes_in_pieces_and_stays_nowhere),
		cmocka_unit_test(chunks_come_as_the_same_bytes),
		cmocka_unit_test(an_empty_body_ends_at_once),
		cmocka_unit_test(a_pause_holds_the_client_back),
		cmocka_unit_test(the_end_waits_for_a_pause_too),
		cmocka_unit_test(the_pause_of_a_client_still_times_out),
		cmocka_unit_test(too_long_is_told_before_or_while_it_is_read),
		cmocka_unit_test(bad_chunks_are_400_and_gone),
		cmocka_unit_test(an_answer_in_the_middle_ends_the_reading_and_drains),
		cmocka_unit_test(go_on_is_said_when_the_stream_is_asked_for),
		cmocka_unit_test(a_hang_up_is_told_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
