// SPDX-License-Identifier: Apache-2.0
/* Answers in pieces, clients that hang up, and the end of a server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "http/rig.h"

#define H "Host: a\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\n" H "\r\n"

static const struct http_reply ok = { .status = 200, .content_type = "text/plain" };

static void chunks_end_with_the_last_chunk(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, GET("/late") GET("/")));
	struct http_exchange *x = take_ptr(rig.held);
	http_begin(x, &ok, -1);
	assert_true(http_write(x, STR("hello")));
	assert_true(http_write(x, STR("")));
	assert_true(client_expect(&c, "\r\nTransfer-Encoding: chunked\r\n"));
	assert_true(client_expect(&c, "\r\n\r\n5\r\nhello\r\n"));
	assert_true(client_is_quiet(&c));
	assert_true(http_write(x, STR("0123456789abcdef")));
	http_end(x);
	assert_true(client_expect(
		&c, "5\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n"));
	client_close(&c);
	rig_close(&rig);
}

static void an_answer_keeps_to_its_length_or_is_broken_off(void **state)
{
	static const struct {
		int64_t length;
		struct str body;
		bool whole;
	} table[] = {
		{ 5, STR("hello"), true },
		{ 0, STR(""), true },
		{ 6, STR("hello"), false },
		{ 4, STR("hello"), false },
	};
	struct rig rig;
	struct client c;

	rig_open(&rig);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		client_open(&c, &rig);
		assert_true(client_say(&c, GET("/late")));
		struct http_exchange *x = take_ptr(rig.held);
		http_begin(x, &ok, table[i].length);
		http_write(x, table[i].body);
		http_end(x);
		assert_true(client_expect(&c, "\r\n\r\n"));
		if (table[i].whole) {
			assert_true(client_say(&c, GET("/")));
			assert_true(client_expect(&c, "\r\n\r\nok"));
		} else {
			client_end(&c);
			assert_true(c.eof);
		}
		client_close(&c);
	}
	rig_close(&rig);
}

static void an_aborted_answer_never_ends_properly(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, GET("/late")));
	struct http_exchange *x = take_ptr(rig.held);
	http_begin(x, &ok, -1);
	http_write(x, STR("hello"));
	http_abort(x);
	client_end(&c);
	assert_true(c.eof);
	assert_int_equal(client_count(&c, "\r\n0\r\n\r\n"), 0);
	assert_int_equal(rig_info(&rig).connections, 0);
	client_close(&c);
	/* Also before anything was said. */
	client_open(&c, &rig);
	assert_true(client_say(&c, GET("/late")));
	http_abort(take_ptr(rig.held));
	client_end(&c);
	assert_true(c.eof);
	assert_int_equal(c.in.len, 0);
	client_close(&c);
	rig_close(&rig);
}

static void head_of_an_answer_in_pieces_has_no_body(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	for (int64_t length = -1; length <= 5; length += 6) {
		assert_true(client_say(&c, "HEAD /late HTTP/1.1\r\n" H "\r\n"));
		struct http_exchange *x = take_ptr(rig.held);
		http_begin(x, &ok, length);
		assert_true(http_write(x, STR("hello")));
		http_end(x);
		assert_true(client_expect(&c, "\r\n\r\n"));
		assert_true(client_is_quiet(&c));
		assert_memory_equal(c.in.data + c.in.len - 4, "\r\n\r\n", 4);
		buf_clear(&c.in);
	}
	client_close(&c);
	rig_close(&rig);
}

static void a_health_probe_of_http10_gets_no_chunks(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, "GET /healthz HTTP/1.0\r\n\r\n"));
	assert_true(client_end(&c));
	assert_int_equal(client_count(&c, "HTTP/1.1 200 OK\r\n"), 1);
	assert_int_equal(client_count(&c, "\r\nContent-Length: 2\r\n"), 1);
	assert_int_equal(client_count(&c, "\r\nConnection: close\r\n"), 1);
	client_close(&c);
	rig_close(&rig);
}

static void a_field_value_cannot_end_its_line(void **state)
{
	static const struct http_header fields[] = {
		{ STR("X-Name"), STR("a\r\nSet-Cookie: b\0c\x7f") },
		{ STR("cache-control"), STR("private") },
	};
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, GET("/late")));
	http_reply(take_ptr(rig.held),
		   &(struct http_reply){ .status = 200, .headers = fields, .n_headers = 2 },
		   STR(""));
	assert_true(client_expect(&c, "\r\nX-Name: a  Set-Cookie: b c \r\n"));
	assert_true(client_expect(&c, "\r\ncache-control: private\r\n"));
	assert_int_equal(client_count(&c, "no-store"), 0);
	assert_int_equal(client_count(&c, "Content-Type: "), 0);
	assert_int_equal(client_count(&c, "\r\nContent-Length: 0\r\n"), 1);
	client_close(&c);
	rig_close(&rig);
}

/* ---- Back-pressure ---- */

struct producer {
	struct http_exchange *x;
	unsigned written, wakes;
};

static void produce(void *data)
{
	struct producer *p = data;
	static char piece[10000];

	p->wakes++;
	memset(piece, 'p', sizeof(piece));
	while (p->written < 2000) {
		p->written++;
		if (!http_write(p->x, (struct str){ piece, sizeof(piece) }))
			return;
	}
	http_end(p->x);
}

static void a_slow_reader_holds_the_producer_back(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, GET("/late")));
	struct producer p = { .written = 0 };
	p.x = take_ptr(rig.held);
	http_on_drained(p.x, produce, &p);
	http_begin(p.x, &ok, -1);
	produce(&p);
	rig_turn(&rig, 50);
	struct http_conn *conn =
		container_of(list_first(&rig.server->conns), struct http_conn, node);
	assert_true(p.written < 2000);
	assert_in_range(conn_queued(conn), 65537, 65536 + 10100);
	assert_true(client_expect(&c, "\r\n0\r\n\r\n"));
	assert_true(c.in.len > 2000u * 10000u);
	assert_int_equal(p.written, 2000);
	assert_true(p.wakes > 10);
	client_close(&c);
	rig_close(&rig);
}

static void on_drained(void *data)
{
	unsigned *n = data;

	++*n;
}

static void a_producer_is_woken_when_its_client_hangs_up(void **state)
{
	static char piece[10000];
	struct rig rig;
	struct client c;
	unsigned woken = 0, i = 0;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, GET("/late")));
	struct http_exchange *x = take_ptr(rig.held);
	http_on_drained(x, on_drained, &woken);
	http_begin(x, &ok, -1);
	while (i < 10000 && http_write(x, (struct str){ piece, sizeof(piece) }))
		i++;
	assert_in_range(i, 1, 9999);
	assert_false(http_exchange_is_gone(x));
	client_close(&c);
	rig_turn(&rig, 20);
	assert_int_equal(woken, 1);
	assert_true(http_exchange_is_gone(x));
	/* The rest is accepted and thrown away. */
	assert_true(http_write(x, (struct str){ piece, sizeof(piece) }));
	http_end(x);
	assert_int_equal(rig.server->n_exchanges, 0);
	assert_true(rig.answered.gone);
	rig_close(&rig);
}

/* ---- Clients that hang up ---- */

static void reset(struct client *c)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };

	setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	client_close(c);
}

static void an_answer_to_nobody_is_accepted(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, GET("/late")));
	assert_false(http_exchange_is_gone(rig.held));
	reset(&c);
	assert_true(http_exchange_is_gone(rig.held));
	assert_string_equal(http_exchange_peer(rig.held), "127.0.0.1");
	assert_true(str_eq(http_exchange_head(rig.held)->path, STR("/late")));
	rig_answer_held(&rig, STR("late"));
	assert_int_equal(rig.server->n_exchanges, 0);
	assert_int_equal(rig.answers, 1);
	assert_int_equal(rig.answered.status, 200);
	assert_true(rig.answered.gone);
	rig_close(&rig);
}

static void whoever_waits_for_a_body_hears_of_the_hang_up(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	for (unsigned i = 0; i < 4; i++) {
		client_open(&c, &rig);
		assert_true(client_say(&c, "POST /late HTTP/1.1\r\n" H
					   "Content-Length: 900\r\n\r\nhello"));
		if (i % 2)
			reset(&c); /* before it is asked for */
		rig_read_body(&rig);
		assert_int_equal(rig.gone, i);
		if (i % 2 == 0 && i)
			reset(&c);
		else if (i % 2 == 0)
			client_close(&c);
		rig_turn(&rig, 10);
		assert_int_equal(rig.gone, i + 1);
		assert_int_equal(rig.server->n_exchanges, 0);
	}
	assert_int_equal(rig.bodies, 0);
	assert_int_equal(rig_info(&rig).connections, 0);
	rig_close(&rig);
}

static void a_body_that_is_here_is_delivered_in_the_next_turn(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, "POST /late HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhello"));
	rig_read_body(&rig);
	assert_int_equal(rig.bodies, 0);
	rig_turn(&rig, 5);
	assert_int_equal(rig.bodies, 1);
	assert_true(client_expect(&c, "\r\n\r\nhello"));
	/* One that is not there. */
	assert_true(client_say(&c, GET("/late")));
	rig_read_body(&rig);
	assert_int_equal(rig.bodies, 1);
	rig_turn(&rig, 5);
	assert_int_equal(rig.bodies, 2);
	client_close(&c);
	rig_close(&rig);
}

/* ---- The end of a server ---- */

static void on_closed(void *data)
{
	bool *closed = data;

	*closed = true;
}

static void a_closing_server_answers_what_it_has(void **state)
{
	struct rig rig;
	struct client idle, busy, fresh;
	bool closed = false;

	rig_open(&rig);
	client_open(&idle, &rig);
	client_open(&busy, &rig);
	client_open(&fresh, &rig);
	assert_true(client_say(&idle, GET("/")));
	assert_true(client_expect(&idle, "\r\n\r\nok"));
	assert_true(client_say(&busy, GET("/late")));
	rig.ending = true;
	http_server_close(rig.server, 10000, on_closed, &closed);
	assert_true(client_end(&idle));
	assert_true(client_end(&fresh));
	assert_false(closed);
	rig_answer_held(&rig, STR("late"));
	assert_true(client_end(&busy));
	assert_int_equal(client_count(&busy, "\r\n\r\nlate"), 1);
	assert_int_equal(client_count(&busy, "\r\nConnection: close\r\n"), 1);
	client_close(&busy);
	rig_turn(&rig, 20);
	assert_true(closed);
	client_close(&idle);
	client_close(&fresh);
	assert_int_equal(uv_loop_close(&rig.loop), 0);
}

static void a_closing_server_waits_for_its_grace_only(void **state)
{
	struct rig rig;
	struct client c;
	bool closed = false;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, GET("/late")));
	rig.ending = true;
	http_server_close(rig.server, 1000, on_closed, &closed);
	rig_turn(&rig, 20);
	clock_fake_advance(999000);
	server_sweep(rig.server);
	rig_turn(&rig, 20);
	assert_false(closed);
	clock_fake_advance(1000);
	server_sweep(rig.server);
	rig_turn(&rig, 20);
	assert_true(closed);
	client_end(&c);
	assert_true(c.eof);
	/* The handler may still answer. */
	assert_true(http_exchange_is_gone(rig.held));
	rig_answer_held(&rig, STR("late"));
	client_close(&c);
	assert_int_equal(uv_loop_close(&rig.loop), 0);
}

/* ---- Unix sockets ---- */

static void a_unix_socket_serves_too(void **state)
{
	struct rig rig;
	struct client c;

	rig_open_unix(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, GET("/peer")));
	assert_true(client_expect(&c, "\r\n\r\nunix"));
	assert_true(
		client_say(&c, "GET /peer HTTP/1.1\r\n" H "X-Forwarded-For: 203.0.113.9\r\n\r\n"));
	assert_true(client_expect(&c, "\r\n\r\n203.0.113.9"));
	assert_true(client_say(&c, GET("/close")));
	assert_true(client_end(&c));
	client_close(&c);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunks_end_with_the_last_chunk),
		cmocka_unit_test(an_answer_keeps_to_its_length_or_is_broken_off),
		cmocka_unit_test(an_aborted_answer_never_ends_properly),
		cmocka_unit_test(head_of_an_answer_in_pieces_has_no_body),
		cmocka_unit_test(a_health_probe_of_http10_gets_no_chunks),
		cmocka_unit_test(a_field_value_cannot_end_its_line),
		cmocka_unit_test(a_slow_reader_holds_the_producer_back),
		cmocka_unit_test(a_producer_is_woken_when_its_client_hangs_up),
		cmocka_unit_test(an_answer_to_nobody_is_accepted),
		cmocka_unit_test(whoever_waits_for_a_body_hears_of_the_hang_up),
		cmocka_unit_test(a_body_that_is_here_is_delivered_in_the_next_turn),
		cmocka_unit_test(a_closing_server_answers_what_it_has),
		cmocka_unit_test(a_closing_server_waits_for_its_grace_only),
		cmocka_unit_test(a_unix_socket_serves_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
