// SPDX-License-Identifier: Apache-2.0
#include "gateway/relay.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/mem.h"

/* client - near | far - server; the relay holds the two in the middle. */
struct rig {
	uv_loop_t loop;
	int client, near, far, server;
	struct relay *relay;
	unsigned over;
};

static void on_over(void *data)
{
	struct rig *r = data;

	r->over++;
}

static struct rig *rig_open(const char *first_text, unsigned idle_ms)
{
	struct buf first = BUF(64);
	struct rig *r = mem_new(1, sizeof(*r));
	int pair[2];

	uv_loop_init(&r->loop);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
			 0);
	r->client = pair[0];
	r->near = pair[1];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
			 0);
	r->far = pair[0];
	r->server = pair[1];
	buf_put_text(&first, first_text);
	r->relay = relay_start(&r->loop, r->near, r->far, &first, idle_ms, on_over, r);
	assert_int_equal(first.len, 0);
	buf_fini(&first);
	return r;
}

static int setup(void **state)
{
	*state = rig_open("", 60000);
	return 0;
}

static int setup_impatient(void **state)
{
	*state = rig_open("", 50);
	return 0;
}

static int setup_after_hello(void **state)
{
	*state = rig_open("hello", 60000);
	return 0;
}

static int teardown(void **state)
{
	struct rig *r = *state;

	relay_stop(r->relay);
	fd_close(&r->client);
	fd_close(&r->near);
	fd_close(&r->far);
	fd_close(&r->server);
	uv_run(&r->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&r->loop), 0);
	relay_fini();
	free(r);
	return 0;
}

static void turn(struct rig *r)
{
	for (int i = 0; i < 10; i++)
		uv_run(&r->loop, UV_RUN_NOWAIT);
}

static void bytes_go_both_ways_and_are_counted(void **state)
{
	struct rig *r = *state;
	char in[16];

	assert_int_equal(write(r->client, "hello", 5), 5);
	assert_int_equal(write(r->server, "answer", 6), 6);
	turn(r);
	assert_int_equal(read(r->server, in, sizeof(in)), 5);
	assert_memory_equal(in, "hello", 5);
	assert_int_equal(read(r->client, in, sizeof(in)), 6);
	assert_memory_equal(in, "answer", 6);
	assert_int_equal(relay_up(r->relay), 5);
	assert_int_equal(relay_down(r->relay), 6);
	assert_int_equal(r->over, 0);
}

static void what_was_read_before_goes_first(void **state)
{
	struct rig *r = *state;
	char in[16];

	assert_int_equal(write(r->client, " and more", 9), 9);
	turn(r);
	assert_int_equal(read(r->server, in, sizeof(in)), 14);
	assert_memory_equal(in, "hello and more", 14);
	assert_int_equal(relay_up(r->relay), 14);
}

static void the_end_of_one_direction_leaves_the_other(void **state)
{
	struct rig *r = *state;
	char in[16];

	assert_int_equal(write(r->client, "last", 4), 4);
	assert_int_equal(shutdown(r->client, SHUT_WR), 0);
	turn(r);
	assert_int_equal(read(r->server, in, sizeof(in)), 4);
	assert_int_equal(read(r->server, in, sizeof(in)), 0);
	assert_int_equal(r->over, 0);
	assert_int_equal(write(r->server, "still", 5), 5);
	turn(r);
	assert_int_equal(read(r->client, in, sizeof(in)), 5);
	assert_int_equal(shutdown(r->server, SHUT_WR), 0);
	turn(r);
	assert_int_equal(read(r->client, in, sizeof(in)), 0);
	assert_int_equal(r->over, 1);
}

/* A reader that does not read holds up its writer, and loses nothing. */
static void a_full_side_stops_the_other(void **state)
{
	struct rig *r = *state;
	static char out[70000], in[65536];
	size_t sent = 0, got = 0;

	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (char)(i * 7);
	for (int quiet = 0; quiet < 3;) {
		ssize_t n = write(r->client, out + sent % sizeof(out),
				  sizeof(out) - sent % sizeof(out));
		turn(r);
		quiet = n > 0 ? 0 : quiet + 1;
		sent += n > 0 ? (size_t)n : 0;
	}
	assert_in_range(sent, 65536, 8u << 20);
	assert_int_equal(shutdown(r->client, SHUT_WR), 0);
	for (;;) {
		ssize_t n = read(r->server, in, sizeof(in));
		if (n == 0)
			break;
		for (ssize_t i = 0; i < n; i++, got++)
			assert_int_equal(in[i], out[got % sizeof(out)]);
		turn(r);
	}
	assert_int_equal(got, sent);
	assert_int_equal(relay_up(r->relay), sent);
}

static size_t write_all(struct rig *r, size_t total)
{
	static const char out[5000];
	size_t sent = 0;

	while (sent < total) {
		ssize_t n = write(r->client, out, sizeof(out));
		assert_true(n > 0);
		sent += (size_t)n;
	}
	return sent;
}

static size_t read_all(struct rig *r)
{
	static char in[65536];
	size_t got = 0;

	for (int quiet = 0; quiet < 3;) {
		ssize_t n = read(r->server, in, sizeof(in));
		got += n > 0 ? (size_t)n : 0;
		quiet = n > 0 ? 0 : quiet + 1;
		if (n <= 0)
			turn(r);
	}
	return got;
}

/* Where a turn ends with a part of the last bytes to come in the pipe: for some of these
 * sizes, which depend on how the kernel counts (socket(7), SO_SNDBUFFORCE). */
static void what_a_turn_leaves_in_the_pipe_goes_out(void **state)
{
	struct rig *r = *state;
	int most = 8 << 20;

	setsockopt(r->client, SOL_SOCKET, SO_SNDBUFFORCE, &most, sizeof(most));
	for (int room = 1060000; room <= 1160000; room += 20000) {
		setsockopt(r->far, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room));
		for (size_t total = 2100000; total < 2300000; total += 5000) {
			size_t sent = write_all(r, total);
			turn(r);
			assert_int_equal(read_all(r), sent);
		}
	}
}

static void a_side_that_fails_is_the_end(void **state)
{
	struct rig *r = *state;

	fd_close(&r->server);
	assert_int_equal(write(r->client, "x", 1), 1);
	turn(r);
	assert_int_equal(r->over, 1);
}

static void tcp_pair(int ret[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	_cleanup_fd_ int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	ret[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(ret[0], (struct sockaddr *)&at, sizeof(at)), 0);
	ret[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	assert_true(ret[1] >= 0);
}

/* The socket would be readable, and nothing could be read. */
static void urgent_data_is_the_end(void **state)
{
	struct rig *r = *state;
	struct buf none = BUF(1);
	int pair[2];

	relay_stop(r->relay);
	fd_close(&r->far);
	fd_close(&r->server);
	tcp_pair(pair);
	r->server = pair[0];
	r->far = pair[1];
	r->relay = relay_start(&r->loop, r->near, r->far, &none, 60000, on_over, r);
	assert_int_equal(send(r->server, "abc", 3, 0), 3);
	assert_int_equal(send(r->server, "!", 1, MSG_OOB), 1);
	assert_int_equal(send(r->server, "def", 3, 0), 3);
	struct pollfd urgent = { .fd = r->far, .events = POLLPRI };
	assert_int_equal(poll(&urgent, 1, 60000), 1);
	turn(r);
	assert_int_equal(r->over, 1);
}

static void silence_is_the_end(void **state)
{
	struct rig *r = *state;

	/* The loop sleeps for it. */
	for (int i = 0; i < 20 && !r->over; i++)
		uv_run(&r->loop, UV_RUN_ONCE);
	assert_int_equal(r->over, 1);
}

static void pipes_are_held_only_while_they_hold_bytes(void **state)
{
	struct rig *r = *state;
	char in[16];
	int before = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(before);
	assert_int_equal(write(r->client, "hello", 5), 5);
	turn(r);
	assert_int_equal(read(r->server, in, sizeof(in)), 5);
	relay_fini();
	int after = open("/dev/null", O_RDONLY | O_CLOEXEC);
	close(after);
	assert_int_equal(after, before);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(bytes_go_both_ways_and_are_counted),
		cmocka_unit_test_setup_teardown(what_was_read_before_goes_first, setup_after_hello,
						teardown),
		T(the_end_of_one_direction_leaves_the_other),
		T(a_full_side_stops_the_other),
		T(what_a_turn_leaves_in_the_pipe_goes_out),
		T(a_side_that_fails_is_the_end),
		T(urgent_data_is_the_end),
		cmocka_unit_test_setup_teardown(silence_is_the_end, setup_impatient, teardown),
		T(pipes_are_held_only_while_they_hold_bytes),
	};
	/* As the gateway does. */
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
