// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/fd.h"
#include "base/mem.h"
#include "ipc/messages.h"
#include "ipc/posture.h"

/* The pair under test: types 1 (8 bytes, no descriptors), 2 (empty, one or two), 3 (as long as can
 * be). */
static const struct wire_type types[] = {
	[1] = { "EIGHT", 8, 0, 0 },
	[2] = { "FDS", 0, 1, 2 },
	[3] = { "LONGEST", WIRE_MAX - sizeof(struct wire_head), 0, WIRE_FDS },
};
static const struct wire_pair pair = { "test", types, ARRAY_SIZE(types) };

static int socks[2] = { -1, -1 };

static int open_socks(void **state)
{
	struct err err;

	return wire_pair_open(socks, &err);
}

static int close_socks(void **state)
{
	fd_close(&socks[0]);
	fd_close(&socks[1]);
	return 0;
}

static unsigned count_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 200; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* A datagram as nobody of ours would send it. */
static void send_raw(const void *data, size_t len, const int *fds, unsigned n_fds)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(2 * WIRE_FDS * sizeof(int))];
	} control = { .space = "" };
	struct iovec iov = { (void *)(uintptr_t)data, len };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n_fds) {
		mh.msg_control = control.space;
		mh.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	assert_int_equal(sendmsg(socks[0], &mh, 0), len);
}

struct datagram {
	struct wire_head head;
	unsigned char body[WIRE_MAX + 64];
};

static const struct {
	const char *rule;
	struct wire_head head;
	size_t body; /* bytes behind the head */
	unsigned n_fds;
	int result;
} datagrams[] = {
	{ "exactly right", { WIRE_VERSION, 1, 0, 7 }, 8, 0, 1 },
	{ "one byte short", { WIRE_VERSION, 1, 0, 7 }, 7, 0, -EPROTO },
	{ "one byte long", { WIRE_VERSION, 1, 0, 7 }, 9, 0, -EPROTO },
	{ "no body", { WIRE_VERSION, 1, 0, 7 }, 0, 0, -EPROTO },
	{ "older version", { WIRE_VERSION - 1, 1, 0, 7 }, 8, 0, -EPROTO },
	{ "newer version", { WIRE_VERSION + 1, 1, 0, 7 }, 8, 0, -EPROTO },
	{ "reserved is not zero", { WIRE_VERSION, 1, 1, 7 }, 8, 0, -EPROTO },
	{ "reserved in the high byte", { WIRE_VERSION, 1, 0x8000, 7 }, 8, 0, -EPROTO },
	{ "type 0 is none", { WIRE_VERSION, 0, 0, 7 }, 0, 0, -EPROTO },
	{ "first type behind the table", { WIRE_VERSION, 4, 0, 7 }, 0, 0, -EPROTO },
	{ "largest type", { WIRE_VERSION, 255, 0, 7 }, 0, 0, -EPROTO },
	{ "no descriptor where one is needed", { WIRE_VERSION, 2, 0, 7 }, 0, 0, -EPROTO },
	{ "the least descriptors", { WIRE_VERSION, 2, 0, 7 }, 0, 1, 1 },
	{ "the most descriptors", { WIRE_VERSION, 2, 0, 7 }, 0, 2, 1 },
	{ "one descriptor too many", { WIRE_VERSION, 2, 0, 7 }, 0, 3, -EPROTO },
	{ "a descriptor where none belongs", { WIRE_VERSION, 1, 0, 7 }, 8, 1, -EPROTO },
	{ "the longest message", { WIRE_VERSION, 3, 0, 7 }, WIRE_MAX - 8, WIRE_FDS, 1 },
	{ "one byte over the longest", { WIRE_VERSION, 3, 0, 7 }, WIRE_MAX - 7, 0, -EPROTO },
	{ "far over the longest", { WIRE_VERSION, 3, 0, 7 }, WIRE_MAX + 64, WIRE_FDS, -EPROTO },
	{ "more descriptors than any message has",
	  { WIRE_VERSION, 3, 0, 7 },
	  WIRE_MAX - 8,
	  WIRE_FDS + 1,
	  -EMFILE },
	{ "twice as many", { WIRE_VERSION, 3, 0, 7 }, WIRE_MAX - 8, 2 * WIRE_FDS, -EMFILE },
};

static void only_what_the_table_says_is_a_message(void **state)
{
	const int fds[2 * WIRE_FDS] = { 0 };

	/* EMFILE is as final as EPROTO: the descriptors are gone. */
	for (size_t i = 0; i < ARRAY_SIZE(datagrams); i++) {
		struct datagram d = { .head = datagrams[i].head };
		unsigned before = count_descriptors();
		struct wire_msg msg;
		memset(d.body, 0xa5, sizeof(d.body));
		send_raw(&d, sizeof(d.head) + datagrams[i].body, fds, datagrams[i].n_fds);
		int r = wire_recv(socks[1], &pair, &msg);
		if (r != datagrams[i].result)
			fail_msg("%s: %d", datagrams[i].rule, r);
		if (r == 1) {
			assert_int_equal(msg.head.id, 7);
			assert_int_equal(msg.body_len, datagrams[i].body);
			assert_memory_equal(msg.body, d.body, msg.body_len);
			assert_int_equal(msg.n_fds, datagrams[i].n_fds);
			assert_int_equal(count_descriptors(), before + msg.n_fds);
			wire_msg_fini(&msg);
		}
		/* Refused or finished: not one descriptor is left behind. */
		if (count_descriptors() != before)
			fail_msg("%s: descriptors", datagrams[i].rule);
		/* And the next message is read as if nothing had been. */
		assert_int_equal(wire_send(socks[0], 1, 9, "12345678", 8, NULL, 0), 0);
		assert_int_equal(wire_recv(socks[1], &pair, &msg), 1);
		assert_int_equal(msg.head.id, 9);
	}
}

static void a_datagram_shorter_than_a_head_is_refused(void **state)
{
	struct datagram d = { .head = { WIRE_VERSION, 1, 0, 7 } };
	struct wire_msg msg;

	for (size_t len = 1; len < sizeof(d.head); len++) {
		send_raw(&d, len, NULL, 0);
		assert_int_equal(wire_recv(socks[1], &pair, &msg), -EPROTO);
	}
}

static void an_empty_datagram_with_a_descriptor_is_not_the_end(void **state)
{
	unsigned before = count_descriptors();
	struct wire_msg msg;
	const int fd = 0;

	send_raw("", 0, &fd, 1);
	assert_int_equal(wire_recv(socks[1], &pair, &msg), -EPROTO);
	assert_int_equal(count_descriptors(), before);
}

static void descriptors_arrive_close_on_exec_and_are_the_same_files(void **state)
{
	struct stat a, b;
	struct wire_msg msg;
	const int fds[2] = { socks[0], 0 };

	assert_int_equal(wire_send(socks[0], 2, 1, NULL, 0, fds, 2), 0);
	assert_int_equal(wire_recv(socks[1], &pair, &msg), 1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fcntl(msg.fds[i], F_GETFD), FD_CLOEXEC);
		assert_int_equal(fstat(msg.fds[i], &a), 0);
		assert_int_equal(fstat(fds[i], &b), 0);
		assert_int_equal(a.st_ino, b.st_ino);
	}
	assert_int_equal(msg.fds[2], -1);
	assert_int_equal(msg.fds[3], -1);
	wire_msg_fini(&msg);
	assert_int_equal(msg.fds[0], -1);
}

/* unix(7): ECONNRESET stands before them. */
static void last_words_are_heard_though_ours_were_not(void **state)
{
	struct wire_msg msg;

	assert_int_equal(wire_send(socks[1], 1, 5, "unheard!", 8, NULL, 0), 0);
	assert_int_equal(wire_send(socks[0], 1, 6, "the last", 8, NULL, 0), 0);
	fd_close(&socks[0]);
	assert_int_equal(wire_recv(socks[1], &pair, &msg), 1);
	assert_int_equal(msg.head.id, 6);
	assert_int_equal(wire_recv(socks[1], &pair, &msg), 0);
}

static void nothing_there_is_not_the_end(void **state)
{
	struct wire_msg msg;

	assert_int_equal(wire_recv(socks[1], &pair, &msg), -EAGAIN);
	fd_close(&socks[0]);
	assert_int_equal(wire_recv(socks[1], &pair, &msg), 0);
	assert_int_equal(wire_send(socks[1], 1, 0, "12345678", 8, NULL, 0), -EPIPE);
}

static void what_was_sent_before_the_end_is_read_first(void **state)
{
	struct wire_msg msg;

	assert_int_equal(wire_send(socks[0], 1, 3, "12345678", 8, NULL, 0), 0);
	fd_close(&socks[0]);
	assert_int_equal(wire_recv(socks[1], &pair, &msg), 1);
	assert_int_equal(msg.head.id, 3);
	assert_int_equal(wire_recv(socks[1], &pair, &msg), 0);
}

static void an_end_with_unread_messages_behind_it_is_an_end(void **state)
{
	struct wire_msg msg;

	assert_int_equal(wire_send(socks[1], 1, 3, "12345678", 8, NULL, 0), 0);
	fd_close(&socks[0]);
	assert_int_equal(wire_recv(socks[1], &pair, &msg), 0);
}

static void a_full_socket_says_so_and_loses_nothing(void **state)
{
	struct wire_msg msg;
	uint32_t sent = 0, got = 0;
	int r;

	while ((r = wire_send(socks[0], 1, sent, "12345678", 8, NULL, 0)) == 0)
		sent++;
	assert_int_equal(r, -EAGAIN);
	assert_true(sent > 100);
	while (wire_recv(socks[1], &pair, &msg) == 1)
		assert_int_equal(msg.head.id, got++);
	assert_int_equal(got, sent);
	assert_int_equal(wire_send(socks[0], 1, 0, "12345678", 8, NULL, 0), 0);
}

static void what_does_not_fit_is_not_sent(void **state)
{
	const int fds[WIRE_FDS + 1] = { 0 };
	char body[WIRE_MAX] = "";
	struct wire_msg msg;

	assert_int_equal(wire_send(socks[0], 3, 0, body, WIRE_MAX - 7, NULL, 0), -EMSGSIZE);
	assert_int_equal(wire_send(socks[0], 2, 0, NULL, 0, fds, WIRE_FDS + 1), -EMSGSIZE);
	assert_int_equal(wire_recv(socks[1], &pair, &msg), -EAGAIN);
}

static void a_set_of_accepted_types_is_exact(void **state)
{
	assert_true(wire_allow(1u << 3, 3));
	assert_false(wire_allow(1u << 3, 2));
	assert_false(wire_allow(UINT64_MAX, 64));
	assert_false(wire_allow(UINT64_MAX, 255));
	assert_true(wire_allow(UINT64_MAX, 63));
}

static void every_table_of_ours_fits_the_wire(void **state)
{
	const struct wire_pair *const pairs[] = { &wire_dl, &wire_ld, &wire_lb, &wire_bl, &wire_ls,
						  &wire_sl, &wire_li, &wire_di, &wire_id, &wire_lg,
						  &wire_gl, &wire_dg, &wire_gd };

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		assert_true(pairs[i]->n_types <= 64); /* wire_allow */
		assert_null(pairs[i]->types[0].name);
		for (size_t t = 1; t < pairs[i]->n_types; t++) {
			const struct wire_type *type = &pairs[i]->types[t];
			assert_non_null(type->name);
			assert_true(type->body + sizeof(struct wire_head) <= WIRE_MAX);
			assert_true(type->fds_min <= type->fds_max && type->fds_max <= WIRE_FDS);
		}
	}
}

static void every_posture_bit_has_a_name_of_its_own(void **state)
{
	for (unsigned i = 0; i < POSTURE_BITS; i++) {
		assert_non_null(posture_name(i));
		for (unsigned j = 0; j < i; j++)
			assert_string_not_equal(posture_name(i), posture_name(j));
	}
}

#define SOCKS_TEST(name) cmocka_unit_test_setup_teardown(name, open_socks, close_socks)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SOCKS_TEST(only_what_the_table_says_is_a_message),
		SOCKS_TEST(a_datagram_shorter_than_a_head_is_refused),
		SOCKS_TEST(an_empty_datagram_with_a_descriptor_is_not_the_end),
		SOCKS_TEST(descriptors_arrive_close_on_exec_and_are_the_same_files),
		SOCKS_TEST(last_words_are_heard_though_ours_were_not),
		SOCKS_TEST(nothing_there_is_not_the_end),
		SOCKS_TEST(what_was_sent_before_the_end_is_read_first),
		SOCKS_TEST(an_end_with_unread_messages_behind_it_is_an_end),
		SOCKS_TEST(a_full_socket_says_so_and_loses_nothing),
		SOCKS_TEST(what_does_not_fit_is_not_sent),
		cmocka_unit_test(a_set_of_accepted_types_is_exact),
		cmocka_unit_test(every_table_of_ours_fits_the_wire),
		cmocka_unit_test(every_posture_bit_has_a_name_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
