// SPDX-License-Identifier: Apache-2.0
/* In a network namespace of its own, made with a user namespace: needs no rights, but a host that
 * lets users have both. The catch needs root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "launcher/catch.h"
#include "launcher/net.h"

/* The child's exit status: SKIPPED, or the line of what did not hold. */
#define SKIPPED 255
#define HOLDS(what) \
	do { \
		if (!(what)) \
			_exit(__LINE__ % 250 + 1); \
	} while (0)

static void in_a_namespace(void (*run)(int outside), int flags)
{
	int status, outside = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	pid_t pid = fork();

	if (pid == 0) {
		struct ifreq up = { .ifr_name = "lo", .ifr_flags = IFF_UP };
		if (unshare(flags) < 0)
			_exit(SKIPPED);
		int sock = socket(AF_INET, SOCK_DGRAM, 0);
		HOLDS(ioctl(sock, SIOCSIFFLAGS, &up) == 0);
		run(outside);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(outside);
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
		print_message("skipped: this host does not let us\n");
		skip();
	}
	assert_int_equal(status, 0);
}

/* 0, or the error of the attempt. */
static int dial(const char *host, uint16_t port, int *ret_sock)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	bool is_v4 = inet_pton(AF_INET, host, &v4.sin_addr) == 1;

	HOLDS(is_v4 || inet_pton(AF_INET6, host, &v6.sin6_addr) == 1);
	*ret_sock = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int r = is_v4 ? connect(*ret_sock, (struct sockaddr *)&v4, sizeof(v4))
		      : connect(*ret_sock, (struct sockaddr *)&v6, sizeof(v6));
	return r < 0 ? errno : 0;
}

/* Dials and looks whether that listener gets it, with what was dialled as its own address. */
static bool is_caught(int listener, const char *host, uint16_t port)
{
	struct sockaddr_in6 own;
	socklen_t len = sizeof(own);
	char text[64], wanted[64];
	int client;

	if (dial(host, port, &client) != 0)
		return false;
	/* The listener may hear of it later. */
	struct pollfd heard = { .fd = listener, .events = POLLIN };
	poll(&heard, 1, 60000);
	int server = accept(listener, NULL, NULL);
	if (server < 0 || getsockname(server, (struct sockaddr *)&own, &len) < 0)
		return false;
	inet_ntop(AF_INET6, &own.sin6_addr, text, sizeof(text));
	snprintf(wanted, sizeof(wanted), "%s%s", strchr(host, ':') ? "" : "::ffff:", host);
	close(server);
	close(client);
	return !strcmp(text, wanted) && ntohs(own.sin6_port) == port;
}

static void open_all(int socks[NET_FDS])
{
	const char *stage;

	for (int i = 0; i < NET_FDS; i++)
		socks[i] = -1;
	HOLDS(net_open(socks, &stage) == 0);
}

static void listeners(int outside)
{
	int socks[NET_FDS], client;
	struct err err;

	open_all(socks);
	HOLDS(net_check(socks, outside, &err) == 0);
	HOLDS(is_caught(socks[NET_TLS], "198.51.100.7", 443));
	HOLDS(is_caught(socks[NET_TLS], "2001:db8::5", 443));
	HOLDS(is_caught(socks[NET_HTTP], "10.0.0.1", 80));
	HOLDS(is_caught(socks[NET_DNS_TCP], "8.8.8.8", 53));
	HOLDS(dial("127.0.0.1", 3128, &client) == 0);
	HOLDS(dial("127.0.0.2", 3128, &client) == ECONNREFUSED);
	HOLDS(dial("198.51.100.7", 22, &client) == ECONNREFUSED);
	for (int i = 0; i < NET_FDS; i++)
		HOLDS(fcntl(socks[i], F_GETFL) & O_NONBLOCK &&
		      fcntl(socks[i], F_GETFD) & FD_CLOEXEC);
	/* A second one finds every place taken. */
	int more[NET_FDS];
	const char *stage;
	HOLDS(net_open(more, &stage) == -EEXIST && !strcmp(stage, "routes"));
}

static void sockets_of_every_address_answer(void **state)
{
	(void)state;
	in_a_namespace(listeners, CLONE_NEWUSER | CLONE_NEWNET);
}

static void wrong_sockets(int outside)
{
	int socks[NET_FDS], other[NET_FDS];
	struct err err;

	open_all(socks);
	/* Ours is of the same namespace as theirs. */
	HOLDS(net_check(socks, socks[0], &err) < 0);
	for (int i = 0; i < NET_FDS; i++) {
		int wrong[NET_FDS];
		memcpy(wrong, socks, sizeof(wrong));
		wrong[i] = outside;
		HOLDS(net_check(wrong, outside, &err) < 0);
		/* Not listening, or of the other type. */
		wrong[i] = socket(AF_INET6, SOCK_STREAM, 0);
		HOLDS(net_check(wrong, outside, &err) < 0);
	}
	struct ifreq up = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	HOLDS(unshare(CLONE_NEWNET) == 0);
	HOLDS(ioctl(socket(AF_INET, SOCK_DGRAM, 0), SIOCSIFFLAGS, &up) == 0);
	open_all(other);
	other[NET_TLS] = socks[NET_TLS];
	HOLDS(net_check(other, outside, &err) < 0);
}

static void sockets_of_the_wrong_kind_or_place_are_seen(void **state)
{
	(void)state;
	in_a_namespace(wrong_sockets, CLONE_NEWUSER | CLONE_NEWNET);
}

static void every_port(int outside)
{
	struct catch c = CATCH_NONE;
	int socks[NET_FDS], link, again, client, own;
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(8080) };
	struct err err;

	(void)outside;
	if (!catch_works())
		_exit(SKIPPED);
	open_all(socks);
	int network = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	HOLDS(catch_attach(&c, network, socks[NET_TLS], &link, &err) == 0);
	HOLDS(is_caught(socks[NET_TLS], "198.51.100.7", 22));
	HOLDS(is_caught(socks[NET_TLS], "2001:db8::5", 65535));
	HOLDS(is_caught(socks[NET_TLS], "::2", 1));
	HOLDS(is_caught(socks[NET_TLS], "128.0.0.1", 3128));
	HOLDS(is_caught(socks[NET_TLS], "198.51.100.7", 443));
	HOLDS(is_caught(socks[NET_HTTP], "198.51.100.7", 80));
	HOLDS(is_caught(socks[NET_DNS_TCP], "2001:db8::5", 53));
	/* Loopback is left alone, in every form of its address. */
	HOLDS(dial("127.0.0.1", 22, &client) == ECONNREFUSED);
	HOLDS(dial("127.255.255.254", 8080, &client) == ECONNREFUSED);
	HOLDS(dial("::1", 8443, &client) == ECONNREFUSED);
	HOLDS(dial("::ffff:127.0.0.1", 99, &client) == ECONNREFUSED);
	/* Servers of its own are found there, and only there. */
	own = socket(AF_INET, SOCK_STREAM, 0);
	HOLDS(bind(own, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(own, 1) == 0);
	HOLDS(dial("127.0.0.1", 8080, &client) == 0);
	HOLDS(is_caught(socks[NET_TLS], "198.51.100.7", 8080));
	/* The link is the catch; map and program serve the next sandbox. */
	close(link);
	HOLDS(dial("198.51.100.7", 22, &client) == ECONNREFUSED);
	HOLDS(catch_attach(&c, network, socks[NET_TLS], &again, &err) == 0);
	HOLDS(is_caught(socks[NET_TLS], "198.51.100.7", 22));
	close(socks[NET_TLS]);
	HOLDS(dial("198.51.100.7", 22, &client) == ECONNREFUSED);
}

static void the_catch_takes_every_port_but_loopback(void **state)
{
	(void)state;
	in_a_namespace(every_port, CLONE_NEWNET);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sockets_of_every_address_answer),
		cmocka_unit_test(sockets_of_the_wrong_kind_or_place_are_seen),
		cmocka_unit_test(the_catch_takes_every_port_but_loopback),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
