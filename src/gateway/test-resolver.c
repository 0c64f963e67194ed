// SPDX-License-Identifier: Apache-2.0
#include "gateway/resolver.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/mem.h"

/* A name server that only listens. */
struct rig {
	uv_loop_t loop;
	struct resolver *resolver;
	int server;
	bool bound;
	unsigned answers;
};

static int setup(void **state)
{
	struct rig *r = mem_new(1, sizeof(*r));
	/* Others who run this ask others. */
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(53),
				  .sin_addr.s_addr = htonl(0x7f350000 | (getpid() & 0xffff)) };
	char text[INET_ADDRSTRLEN];
	struct err err;

	inet_ntop(AF_INET, &at.sin_addr, text, sizeof(text));
	r->server = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	r->bound = bind(r->server, (struct sockaddr *)&at, sizeof(at)) == 0;
	uv_loop_init(&r->loop);
	assert_int_equal(resolver_open(&r->loop, text, 5000, &r->resolver, &err), 0);
	*state = r;
	return 0;
}

static void turn(struct rig *r)
{
	for (int i = 0; i < 10; i++)
		uv_run(&r->loop, UV_RUN_NOWAIT);
}

static int teardown(void **state)
{
	struct rig *r = *state;

	if (r->resolver)
		resolver_close(r->resolver);
	uv_run(&r->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&r->loop), 0);
	fd_close(&r->server);
	free(r);
	return 0;
}

/* Waits for so many; what is more is counted, too. */
static unsigned questions(const struct rig *r, unsigned wanted)
{
	struct pollfd more = { .fd = r->server, .events = POLLIN };
	unsigned n = 0;
	char in[512];

	for (; n < wanted && poll(&more, 1, 60000) == 1; n++)
		assert_true(recv(r->server, in, sizeof(in), 0) > 0);
	while (recv(r->server, in, sizeof(in), 0) > 0)
		n++;
	return n;
}

static void on_answer(void *data, const struct inet_addr *addrs, size_t n)
{
	struct rig *r = data;

	(void)addrs;
	assert_int_equal(n, 0);
	r->answers++;
}

/* A and AAAA, once each. */
static void one_name_is_asked_for_once_at_a_time(void **state)
{
	struct rig *r = *state;

	if (!r->bound) {
		print_message("skipped: needs the right to listen on port 53\n");
		skip();
	}
	for (int i = 0; i < 20; i++)
		resolver_start(r->resolver, "x.test", on_answer, r);
	turn(r);
	assert_int_equal(questions(r, 2), 2);
	resolver_start(r->resolver, "y.test", on_answer, r);
	turn(r);
	assert_int_equal(questions(r, 2), 2);
	resolver_close(take_ptr(r->resolver));
	assert_int_equal(r->answers, 21);
}

static void a_dropped_lookup_hears_nothing(void **state)
{
	struct rig *r = *state;
	struct lookup *first = resolver_start(r->resolver, "x.test", on_answer, r);
	struct lookup *second = resolver_start(r->resolver, "x.test", on_answer, r);

	resolver_start(r->resolver, "x.test", on_answer, r);
	lookup_drop(first);
	lookup_drop(second);
	turn(r);
	resolver_close(take_ptr(r->resolver));
	assert_int_equal(r->answers, 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(one_name_is_asked_for_once_at_a_time),
		T(a_dropped_lookup_hears_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
