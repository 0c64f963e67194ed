// SPDX-License-Identifier: Apache-2.0
/*
 * bare: what a transfer costs without Airlock. Takes the same requests as the server, looks at
 * nothing but the method and Content-Length, and writes bodies into files of one folder, or sends a
 * file of it: a read, a write, sendfile.
 *
 *   bare FOLDER      prints its port on 127.0.0.1; a connection after the other has its thread
 *
 * PUT writes an unnamed file, which then takes the place of "f"; GET sends "f".
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE (256u * 1024)
#define HEAD_MAX 16384

static int folder;
static _Atomic unsigned next_number;

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "bare: %s: %s\n", what, strerrordesc_np(errno));
	exit(1);
}

static void write_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);
		if (n <= 0)
			fail("write");
		data += n;
		len -= (size_t)n;
	}
}

static void put(int s, char *piece, size_t have, uint64_t size)
{
	static const char done[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
	char self[64], name[64];
	int fd = openat(folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

	if (fd < 0)
		fail("open");
	write_all(fd, piece, have);
	for (uint64_t got = have; got < size;) {
		uint64_t left = size - got;
		ssize_t n = recv(s, piece, left < PIECE ? (size_t)left : PIECE, 0);
		if (n <= 0)
			fail("receive");
		write_all(fd, piece, (size_t)n);
		got += (uint64_t)n;
	}
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	snprintf(name, sizeof(name), "f-%u", next_number++);
	if (linkat(AT_FDCWD, self, folder, name, AT_SYMLINK_FOLLOW) < 0 ||
	    renameat(folder, name, folder, "f") < 0)
		fail("rename");
	close(fd);
	write_all(s, done, sizeof(done) - 1);
}

static void get(int s)
{
	struct stat st;
	char head[128];
	int fd = openat(folder, "f", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		fail("open");
	int n = snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %lld\r\n\r\n",
			 (long long)st.st_size);
	write_all(s, head, (size_t)n);
	for (off_t at = 0; at < st.st_size;)
		if (sendfile(s, fd, &at, (size_t)(st.st_size - at)) <= 0)
			fail("sendfile");
	close(fd);
}

static void *serve(void *data)
{
	int s = (int)(intptr_t)data;
	char *piece = malloc(PIECE + 1);
	size_t have = 0;

	if (!piece)
		fail("memory");
	for (;;) {
		ssize_t n = recv(s, piece + have, HEAD_MAX - have, 0);
		if (n <= 0)
			break;
		have += (size_t)n;
		piece[have] = '\0';
		const char *end = strstr(piece, "\r\n\r\n");
		if (!end)
			continue;
		size_t head = (size_t)(end - piece) + 4;
		const char *length = strcasestr(piece, "\r\ncontent-length:");
		uint64_t size = length && length < end ? strtoull(length + 17, NULL, 10) : 0;
		if (strncmp(piece, "GET ", 4) == 0) {
			get(s);
		} else {
			memmove(piece, piece + head, have - head);
			put(s, piece, have - head, size);
		}
		have = 0;
	}
	free(piece);
	close(s);
	return NULL;
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	signal(SIGPIPE, SIG_IGN);
	folder = argc == 2 ? open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (folder < 0)
		fail("the folder");
	if (listener < 0 || bind(listener, (struct sockaddr *)&at, len) < 0 ||
	    listen(listener, 64) < 0 || getsockname(listener, (struct sockaddr *)&at, &len) < 0)
		fail("listen");
	printf("%u\n", ntohs(at.sin_port));
	fflush(stdout);
	for (;;) {
		pthread_t thread;
		int s = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (s < 0 || pthread_create(&thread, NULL, serve, (void *)(intptr_t)s) != 0)
			fail("accept");
		pthread_detach(thread);
	}
}
