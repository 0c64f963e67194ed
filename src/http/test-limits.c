// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/limits.h"
#include "http/rig.h"

#define H "Host: a\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\n" H "\r\n"
#define FROM(addr) "GET / HTTP/1.1\r\n" H "X-Forwarded-For: " addr "\r\n\r\n"
#define BUSY \
	"{\"detail\":\"Too many connections; try again shortly.\"," \
	"\"code\":\"too_many_connections\"}"

/* ---- Time ---- */

static void a_head_has_ten_seconds(void **state)
{
	static const struct str beginnings[] = { STR(""), STR("G"),
						 STR("GET / HTTP/1.1\r\nHost: a\r\nX: ") };
	struct rig rig;
	struct client c;

	rig_open(&rig);
	for (size_t i = 0; i < ARRAY_SIZE(beginnings); i++) {
		client_open(&c, &rig);
		client_send(&c, beginnings[i]);
		rig_time(&rig, 5000);
		client_send(&c, beginnings[i].len ? STR("X") : STR(""));
		rig_time(&rig, 4999);
		assert_true(client_is_quiet(&c));
		rig_time(&rig, 1);
		assert_true(client_end(&c));
		assert_int_equal(client_count(&c, "HTTP/1.1 408 Request Timeout\r\n"), 1);
		assert_int_equal(client_count(&c, "{\"detail\":\"Request timed out.\","
						  "\"code\":\"request_timeout\"}"),
				 1);
		client_close(&c);
	}
	assert_int_equal(rig.handled, 0);
	rig_close(&rig);
}

static void the_second_head_has_ten_seconds_from_its_first_byte(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, GET("/")));
	rig_time(&rig, 60000);
	assert_true(client_say(&c, "GET"));
	rig_time(&rig, 9999);
	assert_true(client_expect(&c, "ok") && client_is_quiet(&c));
	rig_time(&rig, 1);
	assert_true(client_end(&c));
	assert_int_equal(client_count(&c, "HTTP/1.1 408 "), 1);
	client_close(&c);
	rig_close(&rig);
}

static void an_idle_connection_is_closed_quietly_after_75_seconds(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, GET("/")));
	assert_true(client_expect(&c, "ok"));
	rig_time(&rig, 74999);
	assert_true(client_is_quiet(&c));
	assert_true(client_say(&c, GET("/")));
	assert_true(client_expect_n(&c, "\r\n\r\nok", 2));
	rig_time(&rig, 74999);
	assert_true(client_is_quiet(&c));
	rig_time(&rig, 1);
	assert_true(client_end(&c));
	assert_int_equal(client_count(&c, "HTTP/1.1 "), 2);
	assert_int_equal(rig_info(&rig).connections, 0);
	client_close(&c);
	rig_close(&rig);
}

static void a_body_may_pause_for_thirty_seconds(void **state)
{
	static const struct str heads[] = {
		STR("POST /echo HTTP/1.1\r\n" H "Content-Length: 500\r\n\r\n"),
		STR("POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1f4\r\n"),
	};
	struct rig rig;
	struct client c;

	rig_open(&rig);
	for (unsigned i = 0; i < ARRAY_SIZE(heads); i++) {
		client_open(&c, &rig);
		assert_true(client_send(&c, heads[i]));
		for (int k = 0; k < 5; k++) {
			rig_time(&rig, 29999);
			assert_true(client_is_quiet(&c));
			assert_true(client_say(&c, "x"));
		}
		rig_time(&rig, 30000);
		assert_true(client_end(&c));
		assert_int_equal(client_count(&c, "HTTP/1.1 408 "), 1);
		client_close(&c);
		assert_int_equal(rig.gone, i + 1);
	}
	assert_int_equal(rig.bodies, 0);
	rig_close(&rig);
}

static void a_body_that_drips_is_given_up_in_the_end(void **state)
{
	struct rig rig;
	struct client c;
	int64_t ms = 0;

	rig_open(&rig);
	rig.body_max = 1u << 20;
	client_open(&c, &rig);
	assert_true(client_say(&c, "POST /echo HTTP/1.1\r\n" H "Content-Length: 1000000\r\n\r\n"));
	while (!rig.gone && ms < 3600000) {
		client_say(&c, "x");
		rig_time(&rig, 20000);
		ms += 20000;
	}
	assert_int_equal(ms, LIMIT_BODY_SLOW_MS + 20000);
	client_close(&c);
	rig_close(&rig);
}

static void a_handler_has_all_the_time(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, GET("/late")));
	rig_time(&rig, 3600000);
	rig_answer_held(&rig, STR("late"));
	assert_true(client_expect(&c, "\r\n\r\nlate"));
	client_close(&c);
	rig_close(&rig);
}

/* Reads so many bytes; the kernel's own timers may have to open a closed window, hence poll. */
static size_t read_some(struct client *c, size_t want)
{
	static char some[65536];
	struct pollfd readable = { .fd = c->fd, .events = POLLIN };
	size_t got = 0;

	for (int still = 0; got < want && still < 6000; still++) {
		rig_turn(c->rig, 1);
		if (poll(&readable, 1, 10) != 1)
			continue;
		size_t left = want - got < sizeof(some) ? want - got : sizeof(some);
		ssize_t n = recv(c->fd, some, left, MSG_DONTWAIT);
		if (n <= 0)
			break;
		got += (size_t)n;
		still = 0;
	}
	return got;
}

/* What the client has acknowledged of the answer, whose kernel may do so later. */
static uint64_t acknowledged(const struct rig *rig)
{
	const struct http_conn *conn =
		container_of(list_first(&rig->server->conns), struct http_conn, node);
	uv_os_fd_t fd;
	int held;

	assert_int_equal(uv_fileno(&conn->uv.handle, &fd), 0);
	assert_int_equal(ioctl(fd, SIOCOUTQ, &held), 0);
	return conn->out_total - conn_queued(conn) - (uint64_t)held;
}

static void a_reader_that_stands_still_is_cut_off(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	rig.big = 32u << 20; /* more than the kernel holds */
	client_open(&c, &rig);
	assert_true(client_say(&c, GET("/big")));
	for (size_t got = 0; got < 10u << 20; got += 1u << 20) { /* a slow one is not */
		rig_time(&rig, 1);
		rig_time(&rig, LIMIT_WRITE_STALL_MS - 1);
		uint64_t before = acknowledged(&rig);
		assert_int_equal(read_some(&c, 1u << 20), 1u << 20);
		for (int i = 0; acknowledged(&rig) == before && i < 6000; i++) {
			poll(NULL, 0, 10);
			rig_turn(&rig, 1);
		}
	}
	assert_int_equal(rig_info(&rig).connections, 1);
	/* The kernel moves bytes between its own buffers for a while yet. */
	for (int i = 0; i < 10 && rig_info(&rig).connections; i++)
		rig_time(&rig, LIMIT_WRITE_STALL_MS);
	assert_int_equal(rig_info(&rig).connections, 0);
	client_close(&c);
	rig_close(&rig);
}

static void a_client_that_does_not_close_is_closed(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	assert_true(client_say(&c, GET("/close")));
	assert_true(client_end(&c));
	rig_time(&rig, LIMIT_LINGER_MS - 1);
	assert_int_equal(rig_info(&rig).connections, 1);
	assert_true(client_say(&c, "more"));
	rig_time(&rig, LIMIT_LINGER_MS - 1);
	assert_int_equal(rig_info(&rig).connections, 1);
	rig_time(&rig, 1);
	assert_int_equal(rig_info(&rig).connections, 0);
	client_close(&c);
	rig_close(&rig);
}

/* ---- Connections ---- */

static void the_oldest_idle_connection_makes_room(void **state)
{
	struct rig rig;
	struct client c[65];

	rig_open(&rig);
	for (size_t i = 0; i < 64; i++) {
		client_open(&c[i], &rig);
		/* Spread over addresses, so that no address has too many. */
		char request[100];
		int n = snprintf(request, sizeof(request), FROM("10.0.0.%zu"), i);
		assert_true(client_send(&c[i], (struct str){ request, (size_t)n }));
		assert_true(client_expect(&c[i], "ok"));
	}
	/* The first one is used again, so the second is the oldest. */
	assert_true(client_say(&c[0], FROM("10.0.0.0")));
	assert_true(client_expect_n(&c[0], "\r\n\r\nok", 2));
	client_open(&c[64], &rig);
	assert_true(client_say(&c[64], GET("/")));
	assert_true(client_expect(&c[64], "ok"));
	assert_true(client_end(&c[1]));
	assert_int_equal(rig_info(&rig).connections, 64);
	for (size_t i = 0; i < 65; i++) {
		if (i != 1)
			assert_true(client_is_quiet(&c[i]));
		client_close(&c[i]);
	}
	rig_close(&rig);
}

static void a_full_server_says_503_and_serves_on(void **state)
{
	struct rig rig;
	struct client c[64], more[200];

	rig_open(&rig);
	for (size_t i = 0; i < 64; i++)
		client_open(&c[i], &rig);
	for (size_t i = 0; i < 200; i++) { /* more than are told politely at one time */
		client_open(&more[i], &rig);
		assert_true(client_say(&more[i], GET("/")));
		assert_true(client_end(&more[i]));
		assert_int_equal(client_count(&more[i], "HTTP/1.1 503 Service Unavailable\r\n"), 1);
		assert_int_equal(client_count(&more[i], "\r\nRetry-After: 1\r\n"), 1);
		assert_int_equal(client_count(&more[i], "\r\nConnection: close\r\n"), 1);
		assert_int_equal(client_count(&more[i], BUSY), 1);
		if (i % 2)
			client_close(&more[i]); /* the others linger */
	}
	assert_int_equal(rig.handled, 0);
	assert_int_equal(rig_info(&rig).connections, 64);
	client_close(&c[0]);
	client_open(&c[0], &rig);
	assert_true(client_say(&c[0], GET("/")));
	assert_true(client_expect(&c[0], "\r\n\r\nok"));
	for (size_t i = 0; i < 64; i++)
		client_close(&c[i]);
	for (size_t i = 0; i < 200; i += 2)
		client_close(&more[i]);
	rig_close(&rig);
}

static void one_forwarded_address_holds_a_quarter(void **state)
{
	struct rig rig;
	struct client c[17];

	rig_open(&rig);
	for (size_t i = 0; i < 16; i++) {
		client_open(&c[i], &rig);
		assert_true(client_say(&c[i], "GET /x HTTP/1.1\r\n" H
					      "X-Forwarded-For: 10.0.0.1\r\n\r\n"));
		assert_true(client_expect(&c[i], "ok"));
		/* Busy from now on, so that none of them can make room. */
		assert_true(client_say(&c[i], "G"));
	}
	client_open(&c[16], &rig);
	assert_true(client_say(&c[16], FROM("10.0.0.1")));
	assert_true(client_end(&c[16]));
	assert_int_equal(client_count(&c[16], "HTTP/1.1 503 "), 1);
	assert_int_equal(client_count(&c[16], "\r\nRetry-After: 1\r\n"), 1);
	client_close(&c[16]);
	/* Another address is not affected. */
	client_open(&c[16], &rig);
	assert_true(client_say(&c[16], FROM("10.0.0.2")));
	assert_true(client_expect(&c[16], "ok"));
	client_close(&c[16]);
	/* One less, and the first address has room again. */
	client_close(&c[0]);
	client_open(&c[0], &rig);
	assert_true(client_say(&c[0], FROM("10.0.0.1")));
	assert_true(client_expect(&c[0], "ok"));
	/* An idle one of the same address makes room. */
	client_open(&c[16], &rig);
	assert_true(client_say(&c[16], FROM("10.0.0.1")));
	assert_true(client_expect(&c[16], "ok"));
	assert_true(client_end(&c[0]));
	for (size_t i = 0; i < 17; i++)
		client_close(&c[i]);
	rig_close(&rig);
}

static void one_direct_address_holds_a_quarter(void **state)
{
	static const struct http_config config = { .max_connections = 16, .write_max = 65536 };
	struct rig rig;
	struct client c[100];

	rig_open_with(&rig, &config);
	for (size_t i = 0; i < 100; i++)
		client_open(&c[i], &rig);
	for (size_t i = 4; i < 100; i++) {
		client_end(&c[i]);
		assert_true(c[i].eof);
		assert_int_equal(client_count(&c[i], "HTTP/1.1 503 "), 1);
	}
	/* Being refused takes no place that others could have. */
	assert_int_equal(rig_info(&rig).connections, 4);
	assert_in_range(rig.server->n_refused, 1, MAX_REFUSED);
	for (size_t i = 0; i < 100; i++)
		client_close(&c[i]);
	assert_int_equal(rig_info(&rig).connections, 0);
	assert_int_equal(rig.server->n_refused, 0);
	rig_close(&rig);
}

static void addresses_of_one_ipv6_network_are_one(void **state)
{
	struct rig rig;
	struct client c[17];

	rig_open(&rig);
	for (size_t i = 0; i < 17; i++) {
		char request[100];
		int n = snprintf(request, sizeof(request), FROM("2001:db8::%zx"), i + 1);
		client_open(&c[i], &rig);
		assert_true(client_send(&c[i], (struct str){ request, (size_t)n }));
		assert_true(client_expect(&c[i], i < 16 ? "ok" : "HTTP/1.1 503 "));
		client_say(&c[i], "G");
	}
	client_close(&c[16]);
	client_open(&c[16], &rig);
	assert_true(client_say(&c[16], FROM("2001:db8:0:1::1")));
	assert_true(client_expect(&c[16], "ok"));
	for (size_t i = 0; i < 17; i++)
		client_close(&c[i]);
	rig_close(&rig);
}

static void one_connection_may_change_its_forwarded_address(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig);
	client_open(&c, &rig);
	for (unsigned i = 0; i < 100; i++) {
		char request[100];
		int n = snprintf(request, sizeof(request), FROM("10.0.0.%u"), i % 7);
		assert_true(client_send(&c, (struct str){ request, (size_t)n }));
		assert_true(client_expect_n(&c, "\r\n\r\nok", i + 1));
	}
	unsigned n = 0;
	for (size_t i = 0; i < SOURCE_BUCKETS; i++)
		n += !list_is_empty(&rig.server->sources.buckets[i]);
	assert_int_equal(n, 1);
	client_close(&c);
	rig_close(&rig);
}

static void without_descriptors_clients_are_told(void **state)
{
	struct rlimit old, low;
	struct rig rig;
	struct client c[3], kept;
	int fds[3];

	rig_open(&rig);
	client_open(&kept, &rig);
	/* Sockets first: they are ours, and only accepting is to fail. */
	for (size_t i = 0; i < 3; i++)
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int top = dup(fds[2]);
	close(top);
	getrlimit(RLIMIT_NOFILE, &old);
	low = old;
	low.rlim_cur = (rlim_t)top;
	setrlimit(RLIMIT_NOFILE, &low);
	for (size_t i = 0; i < 3; i++) {
		close(fds[i]); /* client_open takes this number again, so none is left to accept
				  with */
		client_open(&c[i], &rig);
		assert_true(client_say(&c[i], GET("/")));
		assert_true(client_end(&c[i]));
		assert_int_equal(client_count(&c[i], "HTTP/1.1 503 Service Unavailable\r\n"), 1);
		assert_int_equal(client_count(&c[i], "\r\nRetry-After: 1\r\n"), 1);
	}
	assert_int_equal(rig.handled, 0);
	/* An idle connection makes room. */
	assert_true(client_say(&kept, GET("/")));
	assert_true(client_expect(&kept, "\r\n\r\nok"));
	client_close(&c[0]);
	int taken = open("/dev/null", O_RDONLY | O_CLOEXEC); /* c[0]'s number */
	close(taken);
	client_open(&c[0], &rig);
	assert_true(client_say(&c[0], GET("/")));
	assert_true(client_expect(&c[0], "\r\n\r\nok"));
	assert_true(client_end(&kept));
	setrlimit(RLIMIT_NOFILE, &old);
	for (size_t i = 0; i < 3; i++)
		client_close(&c[i]);
	client_close(&kept);
	rig_close(&rig);
}

static void without_even_the_reserve_the_listener_rests(void **state)
{
	struct rlimit old, low;
	struct rig rig;
	struct client c;
	int keep, top;

	rig_open(&rig);
	keep = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	top = dup(keep);
	close(top);
	/* The reserve is lost, as when another part of the process takes its number meanwhile. */
	close(rig.server->reserve_fd);
	rig.server->reserve_fd = -1;
	int hole = open("/dev/null", O_RDONLY | O_CLOEXEC);
	getrlimit(RLIMIT_NOFILE, &old);
	low = old;
	low.rlim_cur = (rlim_t)top;
	setrlimit(RLIMIT_NOFILE, &low);
	close(keep);
	client_open(&c, &rig);
	assert_true(client_is_quiet(&c));
	assert_true(rig.server->accept_paused);
	assert_false(uv_is_active((uv_handle_t *)&rig.server->listener));
	setrlimit(RLIMIT_NOFILE, &old);
	rig_time(&rig, SWEEP_MS);
	assert_true(client_say(&c, GET("/")));
	assert_true(client_expect(&c, "\r\n\r\nok"));
	close(hole);
	client_close(&c);
	rig_close(&rig);
}

/* ---- Bodies in flight ---- */

static void bodies_in_flight_are_limited_by_account_and_in_all(void **state)
{
	struct rig rig;
	struct client c[8];
	size_t n = 0;

	rig_open(&rig);
	rig.body_max = 64u << 20;
	/* Account 1: 64 + 32 MiB is all it gets. */
	rig.account = 1;
	static const struct {
		uint32_t account;
		const char *request;
		bool refused;
	} steps[] = {
		{ 1, "POST /echo HTTP/1.1\r\n" H "Content-Length: 67108864\r\n\r\nx", false },
		{ 1, "POST /echo HTTP/1.1\r\n" H "Content-Length: 33554433\r\n\r\nx", true },
		{ 1, "POST /echo HTTP/1.1\r\n" H "Content-Length: 33554432\r\n\r\nx", false },
		{ 1, "POST /echo HTTP/1.1\r\n" H "Content-Length: 2049\r\n\r\nx", true },
		{ 2, "POST /echo HTTP/1.1\r\n" H "Content-Length: 67108864\r\n\r\nx", false },
		{ 3, "POST /echo HTTP/1.1\r\n" H "Content-Length: 67108864\r\n\r\nx", false },
		{ 4, "POST /echo HTTP/1.1\r\n" H "Content-Length: 67108864\r\n\r\nx", true },
		{ 5, "POST /echo HTTP/1.1\r\n" H "Content-Length: 33554432\r\n\r\nx", false },
	};
	for (; n < ARRAY_SIZE(steps); n++) {
		rig.account = steps[n].account;
		client_open(&c[n], &rig);
		assert_true(client_send(&c[n], str_of(steps[n].request)));
		if (steps[n].refused)
			assert_true(client_expect(&c[n], "HTTP/1.1 503 "));
		else
			assert_true(client_is_quiet(&c[n]));
	}
	assert_int_equal(rig_info(&rig).bodies_bytes, LIMIT_BODIES_ALL);
	/* Chunked bodies are counted as they grow; small ones always pass. */
	struct client chunked;
	client_open(&chunked, &rig);
	assert_true(
		client_say(&chunked, "POST /echo HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhello"));
	assert_true(client_expect(&chunked, "\r\n\r\nhello"));
	assert_true(client_say(&chunked, "POST /echo HTTP/1.1\r\n" H
					 "Transfer-Encoding: chunked\r\n\r\nfff\r\n"));
	assert_true(client_is_quiet(&chunked));
	char some[4095] = { 'x' };
	assert_true(client_send(&chunked, (struct str){ some, sizeof(some) }));
	assert_true(client_expect(&chunked, "HTTP/1.1 503 "));
	client_close(&chunked);
	while (n)
		client_close(&c[--n]);
	assert_int_equal(rig_info(&rig).bodies_bytes, 0);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_head_has_ten_seconds),
		cmocka_unit_test(the_second_head_has_ten_seconds_from_its_first_byte),
		cmocka_unit_test(an_idle_connection_is_closed_quietly_after_75_seconds),
		cmocka_unit_test(a_body_may_pause_for_thirty_seconds),
		cmocka_unit_test(a_body_that_drips_is_given_up_in_the_end),
		cmocka_unit_test(a_handler_has_all_the_time),
		cmocka_unit_test(a_reader_that_stands_still_is_cut_off),
		cmocka_unit_test(a_client_that_does_not_close_is_closed),
		cmocka_unit_test(the_oldest_idle_connection_makes_room),
		cmocka_unit_test(a_full_server_says_503_and_serves_on),
		cmocka_unit_test(one_forwarded_address_holds_a_quarter),
		cmocka_unit_test(one_direct_address_holds_a_quarter),
		cmocka_unit_test(addresses_of_one_ipv6_network_are_one),
		cmocka_unit_test(one_connection_may_change_its_forwarded_address),
		cmocka_unit_test(without_descriptors_clients_are_told),
		cmocka_unit_test(without_even_the_reserve_the_listener_rests),
		cmocka_unit_test(bodies_in_flight_are_limited_by_account_and_in_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
