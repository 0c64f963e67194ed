// SPDX-License-Identifier: Apache-2.0
/*
 * tunnel: both ends of what the egress part of the bench measures. The client speaks to the server
 * directly or through an HTTP proxy; first it sends a ClientHello with a server name, as the
 * gateway wants to see, then orders of nine bytes: a letter and a number.
 *
 *   tunnel serve ADDRESS PORT
 *   tunnel client ADDRESS PORT NAME [via PROXY-ADDRESS PROXY-PORT] ORDER...
 *
 *   down:BYTES   the server sends so many              prints nanoseconds
 *   up:BYTES     the client sends so many              prints nanoseconds
 *   ping:N       N times one byte there and back       prints nanoseconds of each
 *   open:N       N new connections, each until its first byte back, one after the other; prints
 *                nanoseconds of each
 *   each:N:S     the same, spread over S seconds
 *   hold:N       N connections at once, kept until the standard input ends; prints "held"
 *   deny:RATE:S  for S seconds at most RATE requests a second for a name that is not allowed, one
 *                after the other; prints how many were answered with 403
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HELLO 512
#define CHUNK (256 * 1024)

static char chunk[CHUNK];
static const char *server, *port, *name, *proxy, *proxy_port;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void write_all(int fd, const void *data, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = send(fd, (const char *)data + at, len - at, MSG_NOSIGNAL);
		if (n <= 0)
			die("send");
		at += (size_t)n;
	}
}

static size_t read_all(int fd, void *data, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = recv(fd, (char *)data + at, len - at, 0);
		if (n <= 0)
			return at;
		at += (size_t)n;
	}
	return len;
}

static int dial(const char *address, const char *to_port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)strtoul(to_port, NULL, 10)) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	inet_pton(AF_INET, address, &sa.sin_addr);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		die("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

/* Exactly HELLO bytes: one record, one ClientHello, a server name, padding (RFC 7685). */
static void make_hello(unsigned char out[HELLO])
{
	size_t n = strlen(name), at = 0;
	size_t pad = HELLO - (5 + 4 + 2 + 32 + 1 + 4 + 2 + 2 + 4 + 2 + 3 + n + 4);
#define BYTE(x) (out[at++] = (unsigned char)(x))
#define WORD(x) (BYTE((x) >> 8), BYTE(x))
	memset(out, 0, HELLO);
	BYTE(22), WORD(0x301), WORD(HELLO - 5);
	BYTE(1), BYTE(0), WORD(HELLO - 9), WORD(0x303);
	at += 32;
	BYTE(0);
	WORD(2), WORD(0x1301), BYTE(1), BYTE(0);
	size_t left = HELLO - at - 2;
	WORD(left);
	WORD(0), WORD(n + 5), WORD(n + 3), BYTE(0), WORD(n);
	memcpy(out + at, name, n);
	at += n;
	WORD(21), WORD(pad);
}

#define REFUSED (-403)

/* Connected, through the proxy if there is one; REFUSED, or -1: another answer. So many bytes of
 * the answer are asked for at a time: one, where what follows its head is somebody else's. */
static int reach(const char *host, size_t piece)
{
	char text[512];
	size_t got = 0;
	int fd = proxy ? dial(proxy, proxy_port) : dial(server, port);

	if (!proxy)
		return fd;
	int n = snprintf(text, sizeof(text), "CONNECT %s:443 HTTP/1.1\r\nHost: %s:443\r\n\r\n",
			 host, host);
	write_all(fd, text, (size_t)n);
	while (got < sizeof(text) - 1) {
		size_t room = sizeof(text) - 1 - got;
		ssize_t r = recv(fd, text + got, piece < room ? piece : room, 0);
		if (r <= 0)
			break;
		got += (size_t)r;
		if (got >= 4 && !memcmp(text + got - 4, "\r\n\r\n", 4))
			break;
	}
	text[got] = '\0';
	if (got > 12 && !strncmp(text + 8, " 200", 4))
		return fd;
	close(fd);
	return got > 12 && !strncmp(text + 8, " 403", 4) ? REFUSED : -1;
}

static int open_one(void)
{
	unsigned char hello[HELLO];
	char byte;
	int fd = reach(name, 1);

	if (fd < 0)
		die("refused");
	make_hello(hello);
	write_all(fd, hello, HELLO);
	if (read_all(fd, &byte, 1) != 1)
		die("first byte");
	return fd;
}

static void order(int fd, char what, uint64_t number)
{
	char text[9] = { what };

	memcpy(text + 1, &number, 8);
	write_all(fd, text, sizeof(text));
}

static void take(int fd, uint64_t bytes)
{
	while (bytes > 0) {
		ssize_t n = recv(fd, chunk, bytes < CHUNK ? bytes : CHUNK, 0);
		if (n <= 0)
			die("recv");
		bytes -= (uint64_t)n;
	}
}

static void give(int fd, uint64_t bytes)
{
	for (; bytes > 0; bytes -= bytes < CHUNK ? bytes : CHUNK)
		write_all(fd, chunk, bytes < CHUNK ? bytes : CHUNK);
}

/* ---- Server ---- */

static void serve_one(int fd)
{
	unsigned char hello[HELLO];
	char text[9];
	uint64_t number;

	if (read_all(fd, hello, HELLO) != HELLO)
		exit(0);
	write_all(fd, "!", 1);
	while (read_all(fd, text, sizeof(text)) == sizeof(text)) {
		memcpy(&number, text + 1, 8);
		if (text[0] == 'd')
			give(fd, number);
		if (text[0] == 'u') {
			take(fd, number);
			write_all(fd, "!", 1);
		}
		for (; text[0] == 'p' && number > 0; number--)
			if (read_all(fd, chunk, 1) == 1)
				write_all(fd, chunk, 1);
	}
	exit(0);
}

static void serve(void)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)strtoul(port, NULL, 10)) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	inet_pton(AF_INET, server, &sa.sin_addr);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	signal(SIGCHLD, SIG_IGN);
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, 1024) < 0)
		die("listen");
	for (;;) {
		int peer = accept(fd, NULL, NULL);
		setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		if (peer >= 0 && fork() == 0)
			serve_one(peer);
		close(peer);
	}
}

/* ---- Client ---- */

static void hold(int n)
{
	int *fds = calloc((size_t)n, sizeof(*fds));

	for (int i = 0; i < n; i++)
		fds[i] = open_one();
	printf("held\n");
	fflush(stdout);
	while (read(0, chunk, sizeof(chunk)) > 0)
		;
}

static void deny(unsigned rate, unsigned seconds)
{
	uint64_t began = now(), end = began + seconds * 1000000000ull;
	unsigned long refused = 0, sent = 0;

	for (uint64_t t = began; t < end; t = now()) {
		while (sent < (t - began) * rate / 1000000000ull) {
			char host[64];
			snprintf(host, sizeof(host), "denied-%lu.invalid", sent++ % 50);
			refused += reach(host, SIZE_MAX) == REFUSED;
		}
		poll(NULL, 0, 1);
	}
	printf("%lu\n", refused);
}

static void time_one(void)
{
	uint64_t began = now();
	int fd = open_one();

	printf("%lu\n", (unsigned long)(now() - began));
	close(fd);
}

static void spread(uint64_t n, unsigned seconds)
{
	uint64_t began = now(), step = seconds * 1000000000ull / n;

	for (uint64_t i = 0; i < n; i++) {
		for (uint64_t t = now(); t < began + i * step; t = now())
			poll(NULL, 0, (int)((began + i * step - t) / 1000000));
		time_one();
	}
}

static void run(const char *text)
{
	uint64_t number = strtoull(strchr(text, ':') + 1, NULL, 10), began;
	char byte = 'x';

	if (!strncmp(text, "open", 4)) {
		for (; number > 0; number--)
			time_one();
		return;
	}
	if (!strncmp(text, "each", 4)) {
		spread(number, (unsigned)strtoul(strrchr(text, ':') + 1, NULL, 10));
		return;
	}
	if (!strncmp(text, "hold", 4)) {
		hold((int)number);
		return;
	}
	if (!strncmp(text, "deny", 4)) {
		deny((unsigned)number, (unsigned)strtoul(strrchr(text, ':') + 1, NULL, 10));
		return;
	}
	int fd = open_one();
	began = now();
	order(fd, text[0], number);
	if (text[0] == 'd')
		take(fd, number);
	if (text[0] == 'u') {
		give(fd, number);
		take(fd, 1);
	}
	for (; text[0] == 'p' && number > 0; number--) {
		uint64_t at = now();
		write_all(fd, &byte, 1);
		take(fd, 1);
		printf("%lu\n", (unsigned long)(now() - at));
	}
	if (text[0] != 'p')
		printf("%lu\n", (unsigned long)(now() - began));
	close(fd);
}

int main(int argc, char **argv)
{
	int at = 5;

	if (argc < 4)
		return 2;
	server = argv[2];
	port = argv[3];
	if (!strcmp(argv[1], "serve"))
		serve();
	name = argv[4];
	if (argc > at && !strcmp(argv[at], "via")) {
		proxy = argv[at + 1];
		proxy_port = argv[at + 2];
		at += 3;
	}
	for (; at < argc; at++)
		run(argv[at]);
	return 0;
}
