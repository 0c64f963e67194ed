// SPDX-License-Identifier: Apache-2.0
/*
 * The file worker against a real directory: jobs go in through file_worker_job as init gives them,
 * answers come back over a socket pair. A second directory stands for the world outside.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "worker/file-usage.h"
#include "worker/file.h"
#include "worker/test-rig.h"

/* ---- helpers --------------------------------------------------------------------------------- */

/* Writes text; announced says how many bytes were promised. */
static struct result do_write_full(const char *path, const char *text, uint64_t announced,
				   uint64_t quota, uint32_t mode)
{
	const struct di_file ask = {
		.op = FILE_WRITE, .mode = mode, .size = announced, .quota = quota
	};
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(write(fds[1], text, strlen(text)), strlen(text));
	fd_close(&fds[1]);
	struct result res = job(&ask, path, fds[0]);
	fd_close(&fds[0]);
	return res;
}

static uint32_t do_write(const char *path, const char *text)
{
	return do_write_full(path, text, strlen(text), 0, 0644).end.code;
}

static struct result do_read_max(const char *path, char *ret, size_t cap, uint64_t max)
{
	const struct di_file ask = { .op = FILE_READ, .max = max };
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	struct result res = job(&ask, path, fds[1]);
	fd_close(&fds[1]);
	ssize_t n = read(fds[0], ret, cap - 1);
	assert_true(n >= 0);
	ret[n] = '\0';
	fd_close(&fds[0]);
	return res;
}

static uint32_t do_read(const char *path, char *ret, size_t cap)
{
	return do_read_max(path, ret, cap, 1 << 20).end.code;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void a_file_is_announced_then_sent_exactly(void **state)
{
	char got[64];

	(void)state;
	put(ws, "a.txt", "hello");
	assert_int_equal(fchmodat(ws, "a.txt", 0640, 0), 0);
	struct result r = do_read_max("a.txt", got, sizeof(got), 5);
	assert_int_equal(r.end.code, FILE_OK);
	assert_true(r.announced);
	assert_int_equal(r.first.size, 5);
	assert_int_equal(r.first.mode, 0640);
	assert_string_equal(got, "hello");
	put(ws, "empty", "");
	assert_int_equal(do_read("empty", got, sizeof(got)), FILE_OK);
	assert_string_equal(got, "");
}

static void reading_refusals_have_their_codes(void **state)
{
	static char deep_name[300];
	char got[64];

	(void)state;
	memset(deep_name, 'x', 256);
	put(ws, "file", "x");
	put(outside, "secret", "canary");
	assert_int_equal(mkdirat(ws, "dir", 0755), 0);
	assert_int_equal(mkfifoat(ws, "fifo", 0644), 0);
	make_link("loop", ws, "loop");
	make_link("../wsx/secret", ws, "out");
	make_link("/etc/passwd", ws, "abs");
	make_link("../wsx", ws, "outdir");
	make_link("/proc/self/fd/0", ws, "magic");
	make_link("nowhere", ws, "dangling");
	_cleanup_fd_ int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	snprintf(un.sun_path, sizeof(un.sun_path), "%s/ws/sock", top);
	assert_int_equal(bind(sock, (struct sockaddr *)&un, sizeof(un)), 0);
	const struct {
		const char *path;
		uint32_t code;
	} rows[] = {
		{ "missing", FILE_ERR_MISSING },
		{ "no/such", FILE_ERR_MISSING },
		{ "dangling", FILE_ERR_MISSING },
		{ "", FILE_ERR_FOLDER },
		{ ".", FILE_ERR_FOLDER },
		{ "dir", FILE_ERR_FOLDER },
		{ "dir/", FILE_ERR_FOLDER },
		{ "dir/..", FILE_ERR_FOLDER },
		{ "fifo", FILE_ERR_NOT_REGULAR },
		{ "sock", FILE_ERR_NOT_REGULAR },
		{ "file/x", FILE_ERR_NOT_IN_FOLDER },
		{ "file/", FILE_ERR_NOT_IN_FOLDER },
		{ "..", FILE_ERR_OUTSIDE },
		{ "../wsx/secret", FILE_ERR_OUTSIDE },
		{ "dir/../../wsx/secret", FILE_ERR_OUTSIDE },
		{ "nope/../../wsx/secret", FILE_ERR_OUTSIDE },
		{ "nope/a/../b/../../../x", FILE_ERR_OUTSIDE },
		{ "/etc/passwd", FILE_ERR_OUTSIDE },
		{ "/workspace/file", FILE_ERR_OUTSIDE },
		{ "//", FILE_ERR_OUTSIDE },
		{ "out", FILE_ERR_OUTSIDE },
		{ "abs", FILE_ERR_OUTSIDE },
		{ "outdir/secret", FILE_ERR_OUTSIDE },
		{ "magic", FILE_ERR_OUTSIDE },
		{ "loop", FILE_ERR_OUTSIDE },
		{ deep_name, FILE_ERR_NAME },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct result r = do_read_max(rows[i].path, got, sizeof(got), 1000);
		if (r.end.code != rows[i].code)
			fail_msg("read '%s': code %u (errno %u), expected %u", rows[i].path,
				 r.end.code, r.end.errno_code, rows[i].code);
		assert_false(r.announced);
		assert_string_equal(got, "");
	}
}

static void links_and_dots_that_stay_inside_are_followed(void **state)
{
	char got[64];

	(void)state;
	assert_int_equal(mkdirat(ws, "d", 0755), 0);
	put(ws, "d/f", "inside");
	put(ws, "b", "top");
	make_link("d/f", ws, "l1");
	make_link("../d/../l1", ws, "d/l2");
	make_link("d", ws, "ld");
	const struct {
		const char *path, *text;
	} rows[] = {
		{ "l1", "inside" },	      { "d/l2", "inside" },
		{ "ld/f", "inside" },	      { "d/../b", "top" },
		{ "nope/../b", "top" },	      { "nope/deeper/.././../b", "top" },
		{ "./d/./f", "inside" },      { "d//f", "inside" },
		{ "x/../y/../b", "top" },     { "d/../q/../d/f", "inside" },
		{ "ld/../nope/../b", "top" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint32_t code = do_read(rows[i].path, got, sizeof(got));
		if (code != FILE_OK || strcmp(got, rows[i].text) != 0)
			fail_msg("read '%s': code %u, '%s'", rows[i].path, code, got);
	}
}

static void a_sparse_giant_is_too_large_at_once(void **state)
{
	char got[8];

	(void)state;
	put(ws, "big", "");
	_cleanup_fd_ int fd = openat(ws, "big", O_WRONLY | O_CLOEXEC);
	assert_int_equal(ftruncate(fd, (off_t)1 << 43), 0);
	struct result r = do_read_max("big", got, sizeof(got), 512u << 20);
	assert_int_equal(r.end.code, FILE_ERR_TOO_LARGE);
	assert_int_equal(r.end.size, (uint64_t)1 << 43);
	assert_false(r.announced);
}

/* The worker in a child, so that the test can act while it is blocked on the pipe. */
static pid_t start_reader(const char *path, int pipe_end, int sock)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	const struct di_file ask = { .op = FILE_READ, .max = UINT64_MAX };
	struct wire_msg msg = { .head = { WIRE_VERSION, DI_FILE, 0, 5 },
				.body_len = sizeof(ask),
				.fds = { spec_of(path, strlen(path) + 1), pipe_end, -1, -1 },
				.n_fds = 2 };
	memcpy(msg.body, &ask, sizeof(ask));
	file_worker_job(&msg, &(struct file_place){ .sock = sock, .workspace = ws, .source = -1 });
	_exit(0);
}

struct changed {
	uint64_t size; /* of the file after it was announced */
	uint64_t bytes;
	struct id_file end;
};

static struct id_file wait_answer(int sock, uint8_t type)
{
	struct id_file f;
	struct wire_msg m;
	int r;

	do {
		r = wire_recv(sock, &wire_id, &m);
	} while (r == -EAGAIN);
	assert_int_equal(r, 1);
	assert_int_equal(m.head.type, type);
	memcpy(&f, m.body, sizeof(f));
	return f;
}

static void read_while_changing(struct changed *c)
{
	static char block[65536];
	int fds[2], socks[2];
	struct err err;

	put(ws, "moving", "");
	_cleanup_fd_ int fd = openat(ws, "moving", O_WRONLY | O_CLOEXEC);
	assert_int_equal(ftruncate(fd, 4 << 20), 0);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(wire_pair_open(socks, &err), 0);
	pid_t pid = start_reader("moving", fds[1], socks[1]);
	fd_close(&fds[1]);
	fd_close(&socks[1]);
	assert_int_equal(wait_answer(socks[0], ID_FILE).size, 4 << 20);
	assert_int_equal(ftruncate(fd, (off_t)c->size), 0);
	c->bytes = 0;
	for (ssize_t n; (n = read(fds[0], block, sizeof(block))) > 0;)
		c->bytes += (uint64_t)n;
	c->end = wait_answer(socks[0], ID_FILE_END);
	waitpid(pid, NULL, 0);
	fd_close(&fds[0]);
	fd_close(&socks[0]);
}

static void growth_is_not_sent_and_shrinking_is_short(void **state)
{
	struct changed grown = { .size = 8 << 20 }, shrunk = { .size = 1 << 20 };

	(void)state;
	read_while_changing(&grown);
	assert_int_equal(grown.end.code, FILE_OK);
	assert_int_equal(grown.bytes, 4 << 20);
	read_while_changing(&shrunk);
	assert_int_equal(shrunk.end.code, FILE_ERR_SHORT);
	assert_true(shrunk.bytes < 4 << 20);
}

static void a_reader_that_leaves_is_an_error_and_no_signal(void **state)
{
	const struct di_file ask = { .op = FILE_READ, .max = 100 };
	int fds[2];

	(void)state;
	put(ws, "f", "bytes");
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	fd_close(&fds[0]);
	struct result r = job(&ask, "f", fds[1]);
	fd_close(&fds[1]);
	assert_int_equal(r.end.code, FILE_ERR_SYSTEM);
	assert_int_equal(r.end.errno_code, EPIPE);
}

static void a_silent_pipe_is_given_up(void **state)
{
	const struct di_file ask = { .op = FILE_WRITE, .size = 5 };
	int fds[2];

	(void)state;
	file_pause_ms = 1;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(write(fds[1], "half", 4), 4);
	struct result r = job(&ask, "f", fds[0]);
	assert_int_equal(r.end.code, FILE_ERR_SYSTEM);
	assert_int_equal(r.end.errno_code, ETIMEDOUT);
	check(ws, "f", NULL);
	fd_close(&fds[0]);
	fd_close(&fds[1]);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void a_new_file_gets_parents_and_mode(void **state)
{
	struct stat st;

	(void)state;
	umask(077);
	struct result r = do_write_full("a/b/c.txt", "text", 4, 0, 0644);
	assert_int_equal(r.end.code, FILE_OK);
	assert_int_equal(r.end.size, 4);
	assert_int_equal(r.end.mode, 0644);
	check(ws, "a/b/c.txt", "text");
	assert_int_equal(fstatat(ws, "a/b/c.txt", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0644);
	assert_int_equal(fstatat(ws, "a/b", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0755);
	assert_int_equal(do_write_full("s", "x", 1, 0, 06755).end.mode, 0755);
}

static void an_old_file_keeps_its_mode_and_loses_set_id(void **state)
{
	struct stat st;

	(void)state;
	put(ws, "old", "before");
	assert_int_equal(fchmodat(ws, "old", 04710, 0), 0);
	assert_int_equal(do_write("old", "after"), FILE_OK);
	check(ws, "old", "after");
	assert_int_equal(fstatat(ws, "old", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0710);
	assert_int_equal(count_entries(ws), 2);
}

static void writing_through_an_inside_link_replaces_its_target(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(mkdirat(ws, "d", 0755), 0);
	put(ws, "d/real", "old");
	make_link("d/real", ws, "l");
	make_link("../l", ws, "d/back");
	make_link("d/new", ws, "dangling");
	assert_int_equal(do_write("d/back", "one"), FILE_OK);
	check(ws, "d/real", "one");
	assert_int_equal(fstatat(ws, "l", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(do_write("dangling", "two"), FILE_OK);
	check(ws, "d/new", "two");
}

static void writing_refusals_have_their_codes_and_change_nothing(void **state)
{
	static char long_name[300], long_dir[300];

	(void)state;
	memset(long_name, 'x', 256);
	memset(long_dir, 'y', 256);
	memcpy(long_dir + 256, "/z", 3);
	put(ws, "file", "x");
	put(ws, "locked", "x");
	assert_int_equal(fchmodat(ws, "locked", 0444, 0), 0);
	put(outside, "secret", "canary");
	assert_int_equal(mkdirat(ws, "dir", 0755), 0);
	assert_int_equal(mkfifoat(ws, "fifo", 0644), 0);
	make_link("loop", ws, "loop");
	make_link("../wsx/secret", ws, "out");
	make_link("../wsx/created", ws, "out-new");
	make_link("../wsx", ws, "outdir");
	make_link("/etc/airlock-test", ws, "abs");
	make_link("missing-dir", ws, "dangling-dir");
	make_link("fifo", ws, "to-fifo");
	int before = count_entries(ws), before_out = count_entries(outside);
	const struct {
		const char *path;
		uint32_t code;
	} rows[] = {
		{ "", FILE_ERR_FOLDER },
		{ ".", FILE_ERR_FOLDER },
		{ "dir", FILE_ERR_FOLDER },
		{ "dir/", FILE_ERR_FOLDER },
		{ "newdir/", FILE_ERR_FOLDER },
		{ "new/.", FILE_ERR_FOLDER },
		{ "dir/..", FILE_ERR_FOLDER },
		{ "fifo", FILE_ERR_NOT_REGULAR },
		{ "to-fifo", FILE_ERR_NOT_REGULAR },
		{ "file/x", FILE_ERR_NOT_IN_FOLDER },
		{ "file/x/y", FILE_ERR_NOT_IN_FOLDER },
		{ "file/", FILE_ERR_NOT_IN_FOLDER },
		{ "dangling-dir/x", FILE_ERR_NOT_IN_FOLDER },
		{ "locked", FILE_ERR_DENIED },
		{ "..", FILE_ERR_OUTSIDE },
		{ "../x", FILE_ERR_OUTSIDE },
		{ "../wsx/x", FILE_ERR_OUTSIDE },
		{ "a/../../x", FILE_ERR_OUTSIDE },
		{ "dir/../../wsx/x", FILE_ERR_OUTSIDE },
		{ "/etc/airlock-test", FILE_ERR_OUTSIDE },
		{ "/workspace/a", FILE_ERR_OUTSIDE },
		{ "out", FILE_ERR_OUTSIDE },
		{ "out-new", FILE_ERR_OUTSIDE },
		{ "outdir/x", FILE_ERR_OUTSIDE },
		{ "outdir/new/x", FILE_ERR_OUTSIDE },
		{ "abs", FILE_ERR_OUTSIDE },
		{ "loop", FILE_ERR_OUTSIDE },
		{ "loop/x", FILE_ERR_OUTSIDE },
		{ long_name, FILE_ERR_NAME },
		{ long_dir, FILE_ERR_NAME },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct result r = do_write_full(rows[i].path, "new", 3, 0, 0644);
		if (r.end.code != rows[i].code)
			fail_msg("write '%s': code %u (errno %u), expected %u", rows[i].path,
				 r.end.code, r.end.errno_code, rows[i].code);
		if (count_entries(ws) != before || count_entries(outside) != before_out)
			fail_msg("write '%s' left something", rows[i].path);
	}
	check(outside, "secret", "canary");
	check(ws, "locked", "x");
}

static void a_missing_folder_before_dots_is_not_made(void **state)
{
	(void)state;
	assert_int_equal(do_write("a/../b", "x"), FILE_OK);
	check(ws, "b", "x");
	assert_int_equal(count_entries(ws), 2);
	assert_int_equal(do_write("new/more/../c", "y"), FILE_OK);
	check(ws, "new/c", "y");
}

static void a_wrong_length_changes_nothing(void **state)
{
	(void)state;
	put(ws, "old", "before");
	int before = count_entries(ws);
	const struct {
		const char *path, *text;
		uint64_t announced;
	} rows[] = {
		{ "old", "abc", 4 },	 { "old", "abc", 2 },
		{ "old", "", 1 },	 { "old", "abc", 0 },
		{ "new", "abc", 9 },	 { "x/y/new", "abc", 9 },
		{ "x/y/new", "abc", 1 }, { "old", "abc", UINT64_MAX - 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct result r =
			do_write_full(rows[i].path, rows[i].text, rows[i].announced, 0, 0644);
		assert_int_equal(r.end.code, FILE_ERR_SHORT);
		check(ws, "old", "before");
		assert_int_equal(count_entries(ws), before);
	}
}

static void made_folders_stay_when_somebody_used_them(void **state)
{
	(void)state;
	assert_int_equal(mkdirat(ws, "kept", 0755), 0);
	assert_int_equal(do_write_full("kept/n1/n2/f", "abc", 9, 0, 0644).end.code, FILE_ERR_SHORT);
	assert_int_equal(count_entries(ws), 2);
	assert_int_equal(faccessat(ws, "kept", F_OK, 0), 0);
}

static void an_empty_file_can_be_written(void **state)
{
	const struct di_file ask = { .op = FILE_WRITE, .mode = 0600 };

	(void)state;
	assert_int_equal(do_write("e", ""), FILE_OK);
	check(ws, "e", "");
	assert_int_equal(job(&ask, "no-pipe", -1).end.code, FILE_OK);
	check(ws, "no-pipe", "");
}

static void a_large_file_arrives_whole(void **state)
{
	static char block[1 << 16];
	const uint64_t size = 20u << 20;
	const struct di_file ask = { .op = FILE_WRITE, .mode = 0644, .size = size };
	struct stat st;
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (pid == 0) {
		close(fds[0]);
		for (uint64_t i = 0; i < size / sizeof(block); i++) {
			memset(block, (int)(i % 251), sizeof(block));
			for (size_t at = 0; at < sizeof(block);) {
				ssize_t n = write(fds[1], block + at, sizeof(block) - at);
				if (n <= 0)
					_exit(1);
				at += (size_t)n;
			}
		}
		_exit(0);
	}
	fd_close(&fds[1]);
	assert_int_equal(job(&ask, "large", fds[0]).end.code, FILE_OK);
	fd_close(&fds[0]);
	waitpid(pid, NULL, 0);
	_cleanup_fd_ int fd = openat(ws, "large", O_RDONLY | O_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, size);
	for (uint64_t i = 0; i < size / sizeof(block); i++) {
		assert_int_equal(read(fd, block, sizeof(block)), sizeof(block));
		assert_int_equal((unsigned char)block[0], i % 251);
		assert_int_equal((unsigned char)block[sizeof(block) - 1], i % 251);
	}
}

static void odd_names_are_bytes(void **state)
{
	static const char *const names[] = {
		"new\nline", "tab\t",	  "\033[31m", "quote\"'", "back\\slash", "\xff\xfe\xff",
		"-rf",	     "trailing ", "+ +",      "%2e%2e",	  "...",	 ".airlock-x",
	};
	char got[16];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_int_equal(do_write(names[i], names[i]), FILE_OK);
		assert_int_equal(do_read(names[i], got, sizeof(got)), FILE_OK);
		assert_string_equal(got, names[i]);
	}
	assert_int_equal(count_entries(ws), 1 + ARRAY_SIZE(names));
}

/* ---- quota ----------------------------------------------------------------------------------- */

static void the_quota_counts_what_is_there_less_what_is_replaced(void **state)
{
	static char text[40001];
	struct file_usage empty, one;

	(void)state;
	memset(text, 'q', 40000);
	assert_int_equal(file_usage(ws, &empty), 0);
	assert_int_equal(do_write("a", text), FILE_OK);
	assert_int_equal(file_usage(ws, &one), 0);
	assert_true(one.bytes >= empty.bytes + 40000);
	uint64_t quota = one.bytes + 1000;
	struct result r = do_write_full("b", text, 40000, quota, 0644);
	assert_int_equal(r.end.code, FILE_ERR_QUOTA);
	assert_int_equal(r.end.used, one.bytes + 40000);
	check(ws, "b", NULL);
	assert_int_equal(do_write_full("a", text, 40000, quota, 0644).end.code, FILE_OK);
	assert_int_equal(do_write_full("a", "small", 5, 1, 0644).end.code, FILE_ERR_QUOTA);
	assert_int_equal(do_write_full("b", text, UINT64_MAX - 1, quota, 0644).end.code,
			 FILE_ERR_QUOTA);
	/* A second name keeps the old blocks alive. */
	assert_int_equal(linkat(ws, "a", ws, "a2", 0), 0);
	assert_int_equal(do_write_full("a", text, 40000, quota, 0644).end.code, FILE_ERR_QUOTA);
}

/* ---- usage ----------------------------------------------------------------------------------- */

static void usage_counts_hard_links_once_and_follows_nothing(void **state)
{
	static char text[100001];
	struct file_usage before, u;
	struct stat st;

	(void)state;
	memset(text, 'u', 100000);
	put(outside, "big", text);
	assert_int_equal(file_usage(ws, &before), 0);
	assert_int_equal(before.inodes, 1);
	put(ws, "f", text);
	fstatat(ws, "f", &st, 0);
	for (int i = 0; i < 6; i++) {
		char name[8];
		snprintf(name, sizeof(name), "h%d", i);
		assert_int_equal(linkat(ws, "f", ws, name, 0), 0);
	}
	make_link("../wsx", ws, "outdir");
	make_link("../wsx/big", ws, "out");
	assert_int_equal(file_usage(ws, &u), 0);
	assert_in_range(u.bytes, before.bytes + (uint64_t)st.st_blocks * 512,
			before.bytes + (uint64_t)st.st_blocks * 512 + 7 + 2 * 4096);
	assert_in_range(u.inodes, 3, 4);
	assert_false(u.partial);
}

static void usage_of_a_sparse_file_is_what_is_allocated(void **state)
{
	struct file_usage u;

	(void)state;
	put(ws, "sparse", "");
	_cleanup_fd_ int fd = openat(ws, "sparse", O_WRONLY | O_CLOEXEC);
	assert_int_equal(ftruncate(fd, (off_t)1 << 43), 0);
	assert_int_equal(file_usage(ws, &u), 0);
	assert_true(u.bytes < 1 << 20);
}

static void usage_walks_trees_deeper_than_any_path(void **state)
{
	struct file_usage u;

	(void)state;
	make_chain(ws, 3000);
	assert_int_equal(file_usage(ws, &u), 0);
	assert_int_equal(u.inodes, 1 + 3 * 3000);
}

static void usage_beyond_its_depth_is_an_error_not_a_wrong_sum(void **state)
{
	const struct di_file ask = { .op = FILE_USAGE };

	(void)state;
	make_chain(ws, TREE_DEPTH + 10);
	assert_int_equal(job(&ask, ".", -1).end.code, FILE_ERR_DEEP);
}

static void usage_counts_many_files_and_bushy_folders(void **state)
{
	struct file_usage u;
	char name[64];

	(void)state;
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "d%d", i);
		assert_int_equal(mkdirat(ws, name, 0755), 0);
		for (int k = 0; k < 1000; k++) {
			snprintf(name, sizeof(name), "d%d/a-rather-long-name-of-a-file-%d", i, k);
			assert_int_equal(mknodat(ws, name, S_IFREG | 0644, 0), 0);
		}
		for (int k = 0; k < 40; k++) {
			snprintf(name, sizeof(name), "d%d/s%d", i, k);
			assert_int_equal(mkdirat(ws, name, 0755), 0);
		}
	}
	assert_int_equal(file_usage(ws, &u), 0);
	assert_int_equal(u.inodes, 1 + 20 * (1 + 1000 + 40));
}

/* ---- the number of names --------------------------------------------------------------------- */

static void folders_made_for_a_file_count_too(void **state)
{
	const uint64_t quota = 1 << 30;

	(void)state;
	assert_int_equal(mkdirat(ws, "d", 0755), 0);
	file_inodes_max = 2 + 3;
	assert_int_equal(do_write_full("d/a/b//c/f", "x", 1, quota, 0644).end.code,
			 FILE_ERR_INODES);
	assert_int_equal(count_entries(ws), 2);
	assert_int_equal(do_write_full("d/a/b/f", "x", 1, quota, 0644).end.code, FILE_OK);
	assert_int_equal(do_write_full("d/a/b/f", "y", 1, quota, 0644).end.code, FILE_OK);
	assert_int_equal(do_write_full("d/g", "x", 1, quota, 0644).end.code, FILE_ERR_INODES);
	assert_int_equal(count_entries(ws), file_inodes_max);
}

/* ---- races ----------------------------------------------------------------------------------- */

/* A folder and a link that leads outside change places all the time. */
static void swapping_a_folder_with_a_link_never_leads_outside(void **state)
{
	char got[64];
	unsigned inside = 0, refused = 0;

	(void)state;
	put(outside, "f", "canary");
	assert_int_equal(mkdirat(ws, "d", 0755), 0);
	put(ws, "d/f", "inside");
	make_link("../wsx", ws, "l");
	pid_t pid = start_swapper(ws, "d", "l");
	/* Who swaps may be held up while the link is there. */
	for (int i = 0; i < 1500 || (!inside && i < 1000000); i++) {
		uint32_t code = do_read("d/f", got, sizeof(got));
		assert_string_not_equal(got, "canary");
		assert_true(code == FILE_OK || code == FILE_ERR_OUTSIDE ||
			    code == FILE_ERR_MISSING);
		inside += code == FILE_OK;
		refused += code != FILE_OK;
		if (i % 4 == 0) {
			code = do_write("d/f", "inside");
			assert_true(code == FILE_OK || code == FILE_ERR_OUTSIDE ||
				    code == FILE_ERR_MISSING || code == FILE_ERR_NOT_IN_FOLDER);
		}
	}
	stop(pid);
	check(outside, "f", "canary");
	assert_int_equal(count_entries(outside), 2);
	print_message("             %u reads went inside, %u were refused\n", inside, refused);
	assert_true(inside > 0);
}

/* The name to be written is a link to the outside half of the time. */
static void swapping_the_last_name_never_writes_outside(void **state)
{
	(void)state;
	put(outside, "target", "canary");
	put(ws, "f", "inside");
	make_link("../wsx/target", ws, "l");
	pid_t pid = start_swapper(ws, "f", "l");
	for (int i = 0; i < 1500; i++) {
		uint32_t code = do_write("f", "inside");
		assert_true(code == FILE_OK || code == FILE_ERR_OUTSIDE);
	}
	stop(pid);
	check(outside, "target", "canary");
	assert_int_equal(count_entries(outside), 2);
}

/* A FIFO takes the place of the file between the look and the open: nothing blocks. */
static void swapping_a_file_with_a_fifo_never_blocks(void **state)
{
	char got[64];

	(void)state;
	put(ws, "f", "inside");
	assert_int_equal(mkfifoat(ws, "p", 0644), 0);
	pid_t pid = start_swapper(ws, "f", "p");
	for (int i = 0; i < 1500; i++) {
		uint32_t code = do_read("f", got, sizeof(got));
		assert_true(code == FILE_OK || code == FILE_ERR_NOT_REGULAR);
	}
	stop(pid);
}

/* Deep folders move away while they are walked: a sum or an error, never something outside. */
static void moving_folders_during_the_walk_ends_it_cleanly(void **state)
{
	struct file_usage u;

	(void)state;
	make_chain(ws, 60);
	assert_int_equal(mkdirat(ws, "x", 0755), 0);
	pid_t pid = start_swapper(ws, "m/m/m/m/m", "x");
	for (int i = 0; i < 60; i++) {
		int r = file_usage(ws, &u);
		assert_true(r == 0 || r == -EAGAIN);
	}
	stop(pid);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void a_bad_job_is_refused(void **state)
{
	static char text[LIMIT_PATH + 2];
	const struct di_file stat_job = { .op = FILE_STAT };

	(void)state;
	const struct di_file bad[] = {
		{ .op = 0 },
		{ .op = 5 },
		{ .op = UINT32_MAX },
		{ .op = FILE_STAT, .flags = 1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct result r = job(&bad[i], "x", -1);
		assert_int_equal(r.end.code, FILE_ERR_SYSTEM);
		assert_int_equal(r.end.errno_code, EINVAL);
	}
	memset(text, 'a', sizeof(text));
	const struct {
		const char *bytes;
		size_t len;
	} specs[] = {
		{ "", 0 }, { "abc", 3 }, { "a\0b", 4 }, { "a\0", 3 }, { text, sizeof(text) },
	};
	for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
		_cleanup_fd_ int spec = spec_of(specs[i].bytes, specs[i].len);
		assert_int_equal(job_raw(&stat_job, spec, -1).end.errno_code, EINVAL);
	}
	int fds[2];
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(job_raw(&stat_job, fds[0], -1).end.code, FILE_ERR_SYSTEM);
	fd_close(&fds[0]);
	fd_close(&fds[1]);
}

static void stat_tells_size_kind_and_mode(void **state)
{
	const struct di_file ask = { .op = FILE_STAT };

	(void)state;
	put(ws, "f", "12345");
	assert_int_equal(mkfifoat(ws, "p", 0600), 0);
	assert_int_equal(job(&ask, "f", -1).end.size, 5);
	assert_int_equal(job(&ask, "f", -1).end.mode, S_IFREG | 0644);
	assert_int_equal(job(&ask, "", -1).end.mode, S_IFDIR | 0755);
	assert_int_equal(job(&ask, "p", -1).end.mode, S_IFIFO | 0600);
	assert_int_equal(job(&ask, "q", -1).end.code, FILE_ERR_MISSING);
	assert_int_equal(job(&ask, "../wsx", -1).end.code, FILE_ERR_OUTSIDE);
}

static void a_look_is_at_the_entry_itself(void **state)
{
	const struct di_file ask = { .op = FILE_STAT, .flags = FILE_NO_FOLLOW };

	(void)state;
	make_link("nowhere", ws, "dangling");
	make_link("../wsx", ws, "out");
	make_dir(ws, "d");
	put(ws, "f", "12345");
	assert_int_equal(job(&ask, "dangling", -1).end.mode & S_IFMT, S_IFLNK);
	assert_int_equal(job(&ask, "out", -1).end.mode & S_IFMT, S_IFLNK);
	assert_int_equal(job(&ask, "d/", -1).end.mode, S_IFDIR | 0755);
	assert_int_equal(job(&ask, "f", -1).end.size, 5);
	assert_int_equal(job(&ask, ".", -1).end.mode, S_IFDIR | 0755);
	assert_int_equal(job(&ask, "q", -1).end.code, FILE_ERR_MISSING);
	assert_int_equal(job(&ask, "q/r/s", -1).end.code, FILE_ERR_MISSING);
	assert_int_equal(job(&ask, "f/x", -1).end.code, FILE_ERR_NOT_IN_FOLDER);
	assert_int_equal(job(&ask, "out/x", -1).end.code, FILE_ERR_OUTSIDE);
}

static void no_descriptor_stays_open(void **state)
{
	char got[64];

	(void)state;
	int before = dup(0);
	close(before);
	put(ws, "f", "x");
	do_read("f", got, sizeof(got));
	do_read("nope/../../x", got, sizeof(got));
	do_write("b/b/c", "x");
	do_write("b/b/c", "y");
	do_write("f/x", "y");
	do_write_full("n/m", "abc", 9, 1 << 20, 0644);
	make_chain(ws, 40);
	count_entries(ws);
	int after = dup(0);
	close(after);
	assert_int_equal(before, after);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_file_is_announced_then_sent_exactly),
		T(reading_refusals_have_their_codes),
		T(links_and_dots_that_stay_inside_are_followed),
		T(a_sparse_giant_is_too_large_at_once),
		T(growth_is_not_sent_and_shrinking_is_short),
		T(a_reader_that_leaves_is_an_error_and_no_signal),
		T(a_silent_pipe_is_given_up),
		T(a_new_file_gets_parents_and_mode),
		T(an_old_file_keeps_its_mode_and_loses_set_id),
		T(writing_through_an_inside_link_replaces_its_target),
		T(writing_refusals_have_their_codes_and_change_nothing),
		T(a_missing_folder_before_dots_is_not_made),
		T(a_wrong_length_changes_nothing),
		T(made_folders_stay_when_somebody_used_them),
		T(an_empty_file_can_be_written),
		T(a_large_file_arrives_whole),
		T(odd_names_are_bytes),
		T(the_quota_counts_what_is_there_less_what_is_replaced),
		T(usage_counts_hard_links_once_and_follows_nothing),
		T(usage_of_a_sparse_file_is_what_is_allocated),
		T(usage_walks_trees_deeper_than_any_path),
		T(usage_beyond_its_depth_is_an_error_not_a_wrong_sum),
		T(usage_counts_many_files_and_bushy_folders),
		T(folders_made_for_a_file_count_too),
		T(swapping_a_folder_with_a_link_never_leads_outside),
		T(swapping_the_last_name_never_writes_outside),
		T(swapping_a_file_with_a_fifo_never_blocks),
		T(moving_folders_during_the_walk_ends_it_cleanly),
		T(a_bad_job_is_refused),
		T(stat_tells_size_kind_and_mode),
		T(a_look_is_at_the_entry_itself),
		T(no_descriptor_stays_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
