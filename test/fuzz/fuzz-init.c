// SPDX-License-Identifier: Apache-2.0
/*
 * What airlockd sends towards init, byte by byte: a datagram with descriptors goes through the
 * wire's check, and a DI_FILE that passes it is done by the file worker in a small tree that has
 * links outside, a FIFO and nested folders, with a second one to be merged. Whatever the input: one
 * ID_FILE_END answers each job, no descriptor stays open, and the folder beside the workspace keeps
 * its one file as it was.
 *
 * Input: 1 byte number of descriptors, 1 byte length of the datagram, 2 bytes length of the
 * specification, the datagram, the specification, and the bytes in the pipe.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "worker/file-usage.h"
#include "worker/file.h"

#define PIPE_MAX 60000u
#define READING \
	(UINT64_C(1) << FILE_READ | UINT64_C(1) << FILE_LIST | UINT64_C(1) << FILE_PACK | \
	 UINT64_C(1) << FILE_MERGE)
#define CANARY "outside"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char top[] = "/dev/shm/fuzz-init-XXXXXX";
static int top_fd = -1, ws = -1, outside = -1, source = -1;

static void remove_all(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (fchdir(top_fd) == 0)
			execl("/usr/bin/find", "find", ".", "-mindepth", "1", "-delete",
			      (char *)NULL);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
}

static void remove_top(void)
{
	remove_all();
	rmdir(top);
}

static void put(int dir, const char *name, const char *text)
{
	_cleanup_fd_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static void make_tree(void)
{
	fd_close(&ws);
	fd_close(&outside);
	fd_close(&source);
	remove_all();
	assert(mkdirat(top_fd, "ws", 0755) == 0 && mkdirat(top_fd, "out", 0755) == 0 &&
	       mkdirat(top_fd, "source", 0755) == 0);
	ws = openat(top_fd, "ws", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	outside = openat(top_fd, "out", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	source = openat(top_fd, "source", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put(outside, "c", CANARY);
	assert(mkdirat(source, "d", 0755) == 0);
	put(source, "d/n", "new");
	put(source, "f", "new");
	assert(symlinkat("../out", source, "ld") == 0);
	put(ws, "f", "inside");
	assert(mkdirat(ws, "d", 0755) == 0 && mkdirat(ws, "d/e", 0755) == 0);
	put(ws, "d/e/g", "deep");
	assert(mkfifoat(ws, "p", 0644) == 0);
	static const char *const links[][2] = {
		{ "f", "lf" },	      { "d", "ld" },	 { "../out", "lo" },
		{ "../out/c", "lc" }, { "/etc", "la" },	 { "l", "l" },
		{ "../f", "d/up" },   { "d/new", "ln" }, { "../../out/c", "d/uo" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		assert(symlinkat(links[i][0], ws, links[i][1]) == 0);
}

static void check_outside(void)
{
	struct file_usage usage;
	char text[sizeof(CANARY)] = "";
	_cleanup_fd_ int fd = openat(outside, "c", O_RDONLY | O_CLOEXEC);

	assert(file_usage(outside, &usage) == 0 && usage.inodes == 2);
	assert(read(fd, text, sizeof(text)) == sizeof(CANARY) - 1);
	assert(memcmp(text, CANARY, sizeof(CANARY)) == 0);
}

static int full_memfd(const uint8_t *data, size_t size)
{
	int fd = memfd_create("spec", MFD_CLOEXEC);

	assert(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	return fd;
}

static void check_answers(int sock)
{
	struct wire_msg msg;
	int ends = 0;

	while (wire_recv(sock, &wire_id, &msg) == 1) {
		assert(!ends);
		assert(msg.head.type == ID_FILE || msg.head.type == ID_FILE_END);
		ends += msg.head.type == ID_FILE_END;
	}
	assert(ends == 1);
}

static void run_job(const struct wire_msg *msg)
{
	struct err err;
	int socks[2];

	assert(wire_pair_open(socks, &err) == 0);
	file_worker_job(msg, &(struct file_place){ socks[1], ws, source });
	fd_close(&socks[1]);
	check_answers(socks[0]);
	fd_close(&socks[0]);
	check_outside();
}

/* Descriptors as a message carries them: specification, pipe (full for a write), then copies. */
static void make_fds(int fds[WIRE_FDS], unsigned n, int spec, int pipe)
{
	for (unsigned i = 0; i < n; i++)
		fds[i] = i == 1 ? pipe : spec;
}

static void send_and_run(const uint8_t *datagram, size_t len, int spec, int pipe, unsigned n_fds)
{
	struct wire_msg msg;
	struct err err;
	int socks[2], fds[WIRE_FDS];
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(fds))];
	} control = { 0 };
	struct iovec iov = { (void *)(uintptr_t)datagram, len };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };

	make_fds(fds, n_fds, spec, pipe);
	if (n_fds) {
		mh.msg_control = &control;
		mh.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	assert(wire_pair_open(socks, &err) == 0);
	assert(sendmsg(socks[0], &mh, 0) == (ssize_t)len);
	if (wire_recv(socks[1], &wire_di, &msg) == 1) {
		if (msg.head.type == DI_FILE)
			run_job(&msg);
		wire_msg_fini(&msg);
	}
	fd_close(&socks[0]);
	fd_close(&socks[1]);
}

static int next_fd(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static unsigned rounds;
	int pipes[2];

	if (size < 4)
		return 0;
	if (top_fd < 0) {
		assert(mkdtemp(top));
		top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		atexit(remove_top);
		file_pause_ms = 0;
	}
	if (rounds++ % 256 == 0)
		make_tree();
	int before = next_fd();
	unsigned n_fds = data[0] % (WIRE_FDS + 1);
	size_t datagram = data[1], spec_len = data[2] | (size_t)data[3] << 8;
	data += 4;
	size -= 4;
	datagram = datagram < size ? datagram : size;
	if (datagram == 0)
		return 0;
	size_t rest = size - datagram;
	spec_len = spec_len < rest ? spec_len : rest;
	rest -= spec_len;
	_cleanup_fd_ int spec = full_memfd(data + datagram, spec_len);
	assert(pipe2(pipes, O_CLOEXEC) == 0);
	/* A job that reads gets the write end of a pipe that nobody empties. */
	bool reads = datagram > 8 && data[8] < 64 && ((READING >> data[8]) & 1);
	if (!reads) {
		rest = rest < PIPE_MAX ? rest : PIPE_MAX;
		assert(write(pipes[1], data + datagram + spec_len, rest) == (ssize_t)rest);
		fd_close(&pipes[1]);
	}
	send_and_run(data, datagram, spec, reads ? pipes[1] : pipes[0], n_fds);
	/* Little may be left. */
	if (datagram > 8 && (data[8] == FILE_REMOVE || data[8] == FILE_TRIM))
		rounds = 0;
	fd_close(&pipes[0]);
	fd_close(&pipes[1]);
	fd_close(&spec);
	assert(next_fd() == before);
	return 0;
}
