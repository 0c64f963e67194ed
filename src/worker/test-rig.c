// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "worker/file-usage.h"
#include "worker/file.h"
#include "worker/test-rig.h"

char top[64];
int top_fd = -1, ws = -1, outside = -1, source = -1;

static int make_and_open(const char *name)
{
	assert_int_equal(mkdirat(top_fd, name, 0755), 0);
	return openat(top_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int rig_setup(void **state)
{
	const char *tmp = getenv("TMPDIR");

	(void)state;
	snprintf(top, sizeof(top), "%.40s/test-file-XXXXXX", tmp ? tmp : "/dev/shm");
	assert_non_null(mkdtemp(top));
	top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ws = make_and_open("ws");
	outside = make_and_open("wsx");
	source = make_and_open("source");
	file_pause_ms = 60000;
	file_inodes_max = FILE_INODES_MAX;
	return 0;
}

int run_in(int dir, const char *command)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		if (fchdir(dir) == 0)
			execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void clear_dir(int dir)
{
	run_in(dir, "exec find . -mindepth 1 -delete");
}

int rig_teardown(void **state)
{
	(void)state;
	clear_dir(top_fd);
	rmdir(top);
	fd_close(&top_fd);
	fd_close(&ws);
	fd_close(&outside);
	fd_close(&source);
	return 0;
}

void put(int dir, const char *name, const char *text)
{
	_cleanup_fd_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

void make_dir(int dir, const char *name)
{
	assert_int_equal(mkdirat(dir, name, 0755), 0);
}

void make_link(const char *target, int dir, const char *name)
{
	assert_int_equal(symlinkat(target, dir, name), 0);
}

void check(int dir, const char *name, const char *text)
{
	char got[256] = { 0 };
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);

	if (!text) {
		assert_int_equal(fd, -1);
		return;
	}
	assert_true(fd >= 0);
	assert_true(read(fd, got, sizeof(got) - 1) >= 0);
	assert_string_equal(got, text);
}

mode_t mode_of(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : st.st_mode;
}

int count_entries(int dir)
{
	struct file_usage usage;

	assert_int_equal(file_usage(dir, &usage), 0);
	return (int)usage.inodes;
}

void make_chain(int at, unsigned depth)
{
	_cleanup_fd_ int dir = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (unsigned i = 0; i < depth; i++) {
		make_dir(dir, "m");
		put(dir, "a", "1");
		put(dir, "z", "2");
		int next = openat(dir, "m", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		fd_close(&dir);
		dir = next;
	}
}

/* ---- jobs ------------------------------------------------------------------------------------ */

int spec_of(const void *text, size_t len)
{
	int fd = memfd_create("spec", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
	return fd;
}

static struct result read_answers(int sock)
{
	struct result res = { 0 };
	struct wire_msg got;

	for (;;) {
		assert_int_equal(wire_recv(sock, &wire_id, &got), 1);
		assert_int_equal(got.head.id, RIG_ID);
		if (got.head.type == ID_FILE_END)
			break;
		assert_int_equal(got.head.type, ID_FILE);
		assert_false(res.announced);
		res.announced = true;
		memcpy(&res.first, got.body, sizeof(res.first));
	}
	memcpy(&res.end, got.body, sizeof(res.end));
	return res;
}

static void send_says(int sock, const struct say *says, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct di_commit commit = { says[i].size };
		bool is_commit = says[i].type == DI_COMMIT;
		assert_int_equal(wire_send(sock, says[i].type, says[i].id, &commit,
					   is_commit ? sizeof(commit) : 0, NULL, 0),
				 0);
	}
}

struct result job_with(const struct di_file *ask, int spec, int pipe, const struct say *says,
		       size_t n, size_t *ret_left)
{
	struct wire_msg msg = { .head = { WIRE_VERSION, DI_FILE, 0, RIG_ID },
				.body_len = sizeof(*ask),
				.fds = { spec, pipe, -1, -1, -1, -1 },
				.n_fds = pipe >= 0 ? 2 : 1 };
	struct wire_msg rest;
	struct err err;
	int socks[2];

	assert_int_equal(wire_pair_open(socks, &err), 0);
	memcpy(msg.body, ask, sizeof(*ask));
	send_says(socks[0], says, n);
	file_worker_job(&msg, &(struct file_place){ socks[1], ws, source });
	for (*ret_left = 0; wire_recv(socks[1], &wire_di, &rest) == 1;)
		++*ret_left;
	fd_close(&socks[1]);
	struct result res = read_answers(socks[0]);
	assert_int_equal(wire_recv(socks[0], &wire_id, &rest), 0);
	fd_close(&socks[0]);
	return res;
}

struct result job_raw(const struct di_file *ask, int spec, int pipe)
{
	size_t left;

	return job_with(ask, spec, pipe, NULL, 0, &left);
}

struct result job(const struct di_file *ask, const char *path, int pipe)
{
	_cleanup_fd_ int spec = spec_of(path, strlen(path) + 1);

	return job_raw(ask, spec, pipe);
}

struct result job_two(const struct di_file *ask, const char *path, const char *second, int pipe)
{
	_cleanup_fd_ int spec = spec_of(path, strlen(path) + 1);

	assert_int_equal(write(spec, second, strlen(second) + 1), strlen(second) + 1);
	return job_raw(ask, spec, pipe);
}

int make_pipe_file(void)
{
	int fd = memfd_create("pipe", MFD_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

/* ---- races ----------------------------------------------------------------------------------- */

pid_t start_swapper(int dir, const char *a, const char *b)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	/* A test that fails doesn't come to stop it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		syscall(SYS_renameat2, dir, a, dir, b, RENAME_EXCHANGE);
}

void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}
