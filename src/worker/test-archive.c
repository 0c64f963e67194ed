// SPDX-License-Identifier: Apache-2.0
/*
 * Archives: what is packed is read back by its bytes and by the machine's tar; what is unpacked is
 * written here header by header, as an attacker would.
 */
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
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "worker/file-usage.h"
#include "worker/file.h"
#include "worker/test-rig.h"
#include "worker/unarchive.h"

/* ---- a tar to be unpacked -------------------------------------------------------------------- */

struct tar {
	unsigned char *data;
	size_t len, cap;
};

static void tar_put(struct tar *t, const void *data, size_t len)
{
	if (t->len + len > t->cap) {
		t->cap = (t->len + len) * 2;
		t->data = realloc(t->data, t->cap);
		assert_non_null(t->data);
	}
	memcpy(t->data + t->len, data, len);
	t->len += len;
}

static void tar_pad(struct tar *t)
{
	static const char zeros[512];

	tar_put(t, zeros, (512 - t->len % 512) % 512);
}

struct head {
	const char *name;
	char type; /* 0: '0' */
	const char *link;
	unsigned mode;
	const char *data; /* of a file */
	uint64_t size;	  /* claimed without data */
};

static void tar_add(struct tar *t, const struct head *m)
{
	char h[512] = { 0 };
	size_t size = m->data ? strlen(m->data) : m->size;
	unsigned sum = 0;

	snprintf(h, 100, "%s", m->name);
	snprintf(h + 100, 8, "%07o", m->mode ? m->mode & 07777 : 0644);
	snprintf(h + 108, 8, "%07o", 1234);
	snprintf(h + 116, 8, "%07o", 1234);
	snprintf(h + 124, 12, "%011zo", size);
	snprintf(h + 136, 12, "%011o", 1000000);
	h[156] = m->type ? m->type : '0';
	snprintf(h + 157, 100, "%s", m->link ? m->link : "");
	memcpy(h + 257,
	       "ustar\0"
	       "00",
	       8);
	memset(h + 148, ' ', 8);
	for (size_t i = 0; i < sizeof(h); i++)
		sum += (unsigned char)h[i];
	snprintf(h + 148, 8, "%06o", sum);
	tar_put(t, h, sizeof(h));
	if (m->data) {
		tar_put(t, m->data, size);
		tar_pad(t);
	}
}

static void tar_end(struct tar *t)
{
	static const char zeros[1024];

	tar_put(t, zeros, sizeof(zeros));
}

static void tar_free(struct tar *t)
{
	free(t->data);
	memset(t, 0, sizeof(*t));
}

/* One gzip member more at the end of fd. */
static void zip_to(int fd, const void *data, size_t len)
{
	z_stream z = { 0 };
	size_t cap = len + len / 100 + 1000;
	unsigned char *out = malloc(cap);

	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 31, 8, 0), Z_OK);
	z.next_in = (Bytef *)(uintptr_t)data;
	z.avail_in = (uInt)len;
	z.next_out = out;
	z.avail_out = (uInt)cap;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(write(fd, out, cap - z.avail_out), cap - z.avail_out);
	deflateEnd(&z);
	free(out);
}

static struct result unpack_fd(int fd, const char *path, uint64_t quota)
{
	const struct di_file ask = { .op = FILE_UNPACK, .quota = quota };

	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return job(&ask, path, fd);
}

/* The whole archive. */
static int zip_of(struct tar *t)
{
	int fd = make_pipe_file();

	tar_end(t);
	zip_to(fd, t->data, t->len);
	tar_free(t);
	return fd;
}

static struct result unpack(struct tar *t, const char *path)
{
	_cleanup_fd_ int fd = zip_of(t);

	return unpack_fd(fd, path, 0);
}

static void an_archive_is_unpacked_without_its_first_part(void **state)
{
	static const struct head members[] = {
		{ .name = "pax_global_header", .type = 'g', .data = "20 comment=abcdefgh\n" },
		{ .name = "repo-1/", .type = '5', .mode = 0700 },
		{ .name = "repo-1/run", .mode = 06755, .data = "run" },
		{ .name = "repo-1/a", .mode = 0600, .data = "a" },
		{ .name = "repo-1/d/e/f", .data = "f" }, /* its folders have no member */
		{ .name = "./repo-1//d/./g", .data = "g" },
		{ .name = "repo-1/link", .type = '2', .link = "../../etc/passwd" },
		{ .name = "repo-1/hard", .type = '1', .link = "repo-1/a" },
		{ .name = "repo-1/\xff\xfe\xc3\xbc", .data = "bytes" },
		{ .name = "repo-1/a", .mode = 0644, .data = "later" },
		{ .name = "beside", .data = "not taken" },
		{ .name = "repo-1/contiguous", .type = '7', .data = "c" },
	};
	struct tar t = { 0 };
	struct stat st;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		tar_add(&t, &members[i]);
	struct result r = unpack(&t, "x/repo");
	assert_int_equal(r.end.code, FILE_OK);
	assert_int_equal(r.end.size, 7);
	check(ws, "x/repo/run", "run");
	check(ws, "x/repo/a", "later");
	check(ws, "x/repo/hard", "a");
	check(ws, "x/repo/d/e/f", "f");
	check(ws, "x/repo/d/g", "g");
	check(ws, "x/repo/\xff\xfe\xc3\xbc", "bytes");
	assert_int_equal(mode_of(ws, "x/repo/run"), S_IFREG | 0755);
	assert_int_equal(mode_of(ws, "x/repo/a"), S_IFREG | 0644);
	assert_int_equal(mode_of(ws, "x/repo"), S_IFDIR | 0755);
	assert_true(S_ISLNK(mode_of(ws, "x/repo/link")));
	assert_int_equal(fstatat(ws, "x/repo/run", &st, 0), 0);
	assert_int_equal(st.st_mtim.tv_sec, 1000000);
	assert_int_equal(st.st_uid, getuid());
	assert_int_equal(mode_of(ws, "x/repo/beside"), 0);
	assert_int_equal(mode_of(ws, "x/beside"), 0);
	assert_int_equal(count_entries(ws), 1 + 2 + 2 + 8);
}

static void hostile_members_are_refused_and_leave_nothing(void **state)
{
	static const struct {
		struct head first, second;
		uint32_t fault;
	} rows[] = {
		{ { .name = "../x", .data = "x" }, { 0 }, FILE_ARCHIVE_NAME },
		{ { .name = "r/../../x", .data = "x" }, { 0 }, FILE_ARCHIVE_NAME },
		{ { .name = "r/a/..", .type = '5' }, { 0 }, FILE_ARCHIVE_NAME },
		{ { .name = "/etc/cron.d/x", .data = "x" }, { 0 }, FILE_ARCHIVE_NAME },
		{ { .name = "..", .type = '5' }, { 0 }, FILE_ARCHIVE_NAME },
		{ { .name = "r/null", .type = '3' }, { 0 }, FILE_ARCHIVE_KIND },
		{ { .name = "r/disk", .type = '4' }, { 0 }, FILE_ARCHIVE_KIND },
		{ { .name = "r/fifo", .type = '6' }, { 0 }, FILE_ARCHIVE_KIND },
		{ { .name = "r/h", .type = '1', .link = "/etc/passwd" }, { 0 }, FILE_ARCHIVE_LINK },
		{ { .name = "r/h", .type = '1', .link = "r/../../wsx/c" },
		  { 0 },
		  FILE_ARCHIVE_LINK },
		{ { .name = "r/h", .type = '1', .link = "r/none" }, { 0 }, FILE_ARCHIVE_LINK },
		{ { .name = "r/h", .type = '1', .link = "r" }, { 0 }, FILE_ARCHIVE_LINK },
		{ { .name = "r/l", .type = '2', .link = "../../wsx/canary" },
		  { .name = "r/h", .type = '1', .link = "r/l" },
		  FILE_ARCHIVE_LINK },
		{ { .name = "r/d", .type = '5' },
		  { .name = "r/h", .type = '1', .link = "r/d" },
		  FILE_ARCHIVE_LINK },
		{ { .name = "r/l", .type = '2', .link = "../../wsx" },
		  { .name = "r/l/planted", .data = "x" },
		  FILE_ARCHIVE_LINK },
		{ { .name = "r/l", .type = '2', .link = "." },
		  { .name = "r/l/x", .data = "x" },
		  FILE_ARCHIVE_LINK },
		{ { .name = "r/l", .type = '2', .link = "../../wsx" },
		  { .name = "r/l", .type = '5' },
		  FILE_ARCHIVE_NAME },
		{ { .name = "r/f", .data = "x" },
		  { .name = "r/f/x", .data = "x" },
		  FILE_ARCHIVE_NAME },
		{ { .name = "r/d/x", .data = "x" },
		  { .name = "r/d", .data = "x" },
		  FILE_ARCHIVE_NAME },
		{ { .name = "r/short", .size = 100000 }, { 0 }, FILE_ARCHIVE_BROKEN },
		{ { .name = "r/huge", .size = 0777777777 }, { 0 }, FILE_ARCHIVE_BROKEN },
	};

	(void)state;
	put(outside, "canary", "x");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct tar t = { 0 };
		tar_add(&t, &(struct head){ .name = "r/good", .data = "good" });
		tar_add(&t, &rows[i].first);
		if (rows[i].second.name)
			tar_add(&t, &rows[i].second);
		struct result r = unpack(&t, "n1/n2/dest");
		if (r.end.code != FILE_ERR_ARCHIVE || r.end.errno_code != rows[i].fault)
			fail_msg("row %zu '%s': code %u fault %u", i, rows[i].first.name,
				 r.end.code, r.end.errno_code);
		assert_int_equal(count_entries(ws), 1);
		assert_int_equal(count_entries(outside), 2);
	}
}

static void an_access_list_is_no_mode(void **state)
{
	static const struct {
		const char *record;
		unsigned mode;
	} rows[] = {
		{ "53 SCHILY.acl.access=user::rwx,group::r-x,other::r-x\n", 0644 },
		{ "53 SCHILY.acl.access=user::rw-,group::r--,other::r--\n", 0755 },
		{ "40 SCHILY.acl.ace=owner@:x::allow,aaaaa\n", 0644 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char dest[8], file[16];
		struct tar t = { 0 };
		snprintf(dest, sizeof(dest), "d%zu", i);
		snprintf(file, sizeof(file), "d%zu/f", i);
		tar_add(&t, &(struct head){ .name = "p", .type = 'x', .data = rows[i].record });
		tar_add(&t, &(struct head){ .name = "r/f", .mode = rows[i].mode, .data = "x" });
		assert_int_equal(unpack(&t, dest).end.code, FILE_OK);
		assert_int_equal(mode_of(ws, file) & 07777, rows[i].mode);
	}
}

static void a_long_name_is_refused(void **state)
{
	static char name[6000];
	struct tar t = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(name) - 1; i++)
		name[i] = i % 50 == 1 ? '/' : 'n';
	tar_add(&t, &(struct head){ .name = "././@LongLink", .type = 'L', .data = name });
	tar_add(&t, &(struct head){ .name = "x", .data = "x" });
	assert_int_equal(unpack(&t, "d").end.errno_code, FILE_ARCHIVE_NAME);
	memset(name, 'n', 300);
	memcpy(name, "r/", 2);
	name[300] = '\0';
	tar_add(&t, &(struct head){ .name = "././@LongLink", .type = 'L', .data = name });
	tar_add(&t, &(struct head){ .name = "x", .data = "x" });
	assert_int_equal(unpack(&t, "d").end.errno_code, FILE_ARCHIVE_NAME);
	/* A header that is no name but a bomb. */
	tar_add(&t, &(struct head){ .name = "././@LongLink", .type = 'L', .size = 0777777777 });
	assert_int_equal(unpack(&t, "d").end.errno_code, FILE_ARCHIVE_BROKEN);
	assert_int_equal(count_entries(ws), 1);
}

static void broken_streams_are_refused(void **state)
{
	unsigned char data[4096];
	struct tar t = { 0 };
	struct stat st;

	(void)state;
	tar_add(&t, &(struct head){ .name = "r/f", .data = "content" });
	tar_end(&t);
	_cleanup_fd_ int whole = make_pipe_file();
	zip_to(whole, t.data, t.len);
	assert_int_equal(fstat(whole, &st), 0);
	ssize_t len = pread(whole, data, sizeof(data), 0);
	assert_int_equal(len, st.st_size);
	/* Cut at every length. */
	for (ssize_t i = 0; i < len; i++) {
		_cleanup_fd_ int fd = make_pipe_file();
		assert_int_equal(write(fd, data, (size_t)i), i);
		struct result r = unpack_fd(fd, "d", 0);
		if (r.end.code != FILE_ERR_ARCHIVE || r.end.errno_code != FILE_ARCHIVE_BROKEN)
			fail_msg("cut at %zd: code %u %u", i, r.end.code, r.end.errno_code);
	}
	/* A wrong checksum, bytes behind the end, a tar that is not compressed. */
	for (int i = 0; i < 3; i++) {
		_cleanup_fd_ int fd = make_pipe_file();
		unsigned char bad[4096];
		memcpy(bad, data, sizeof(bad));
		bad[len - 6] ^= i == 0;
		if (i < 2)
			assert_int_equal(write(fd, bad, (size_t)len), len);
		if (i == 1)
			assert_int_equal(write(fd, "garbage", 7), 7);
		if (i == 2)
			assert_int_equal(write(fd, t.data, t.len), t.len);
		assert_int_equal(unpack_fd(fd, "d", 0).end.errno_code, FILE_ARCHIVE_BROKEN);
	}
	assert_int_equal(count_entries(ws), 1);
	/* The tar in two members of gzip is one stream. */
	_cleanup_fd_ int two = make_pipe_file();
	zip_to(two, t.data, 700);
	zip_to(two, t.data + 700, t.len - 700);
	assert_int_equal(unpack_fd(two, "d", 0).end.code, FILE_OK);
	check(ws, "d/f", "content");
	tar_free(&t);
}

static void a_bomb_is_stopped_by_its_ratio_or_the_quota(void **state)
{
	static char zeros[1 << 20];
	struct file_usage u;
	struct tar t = { 0 };

	(void)state;
	tar_add(&t, &(struct head){ .name = "r/bomb", .size = 64u << 20 });
	for (int i = 0; i < 64; i++)
		tar_put(&t, zeros, sizeof(zeros));
	assert_int_equal(unpack(&t, "d").end.errno_code, FILE_ARCHIVE_LIMIT);
	tar_add(&t, &(struct head){ .name = "r/f", .size = 2u << 20 });
	tar_put(&t, zeros, sizeof(zeros));
	tar_put(&t, zeros, sizeof(zeros));
	tar_end(&t);
	_cleanup_fd_ int fd = make_pipe_file();
	zip_to(fd, t.data, t.len);
	tar_free(&t);
	assert_int_equal(file_usage(ws, &u), 0);
	struct result r = unpack_fd(fd, "d", u.bytes + (1 << 20));
	assert_int_equal(r.end.code, FILE_ERR_QUOTA);
	assert_int_equal(r.end.used, u.bytes);
	assert_int_equal(count_entries(ws), 1);
	r = unpack_fd(fd, "d", u.bytes + (4 << 20));
	assert_int_equal(r.end.code, FILE_OK);
	assert_true(r.end.used >= 2u << 20);
}

/* A file below folders that no member makes, for which its name has to be a member of its own. */
static void tar_add_deep(struct tar *t, unsigned n, unsigned depth)
{
	static char name[LIMIT_PATH + 1];
	int at = snprintf(name, sizeof(name), "r/%05u/", n);

	for (unsigned i = 1; i < depth; i++)
		at += snprintf(name + at, sizeof(name) - (size_t)at, "d/");
	snprintf(name + at, sizeof(name) - (size_t)at, "f");
	tar_add(t, &(struct head){ .name = "././@LongLink", .type = 'L', .data = name });
	tar_add(t, &(struct head){ .name = "f" });
}

static void folders_without_a_member_are_entries_too(void **state)
{
	enum { FILES = 10, DEPTH = 50, NAMES = FILES * (DEPTH + 1) };
	struct tar t = { 0 };

	(void)state;
	for (unsigned i = 0; i < FILES; i++)
		tar_add_deep(&t, i, DEPTH);
	_cleanup_fd_ int fd = zip_of(&t);
	file_inodes_max = 1 + 2 + NAMES - 1;
	assert_int_equal(unpack_fd(fd, "x/d", 1 << 30).end.code, FILE_ERR_INODES);
	assert_int_equal(count_entries(ws), 1);
	file_inodes_max++;
	struct result r = unpack_fd(fd, "x/d", 1 << 30);
	assert_int_equal(r.end.code, FILE_OK);
	assert_int_equal(r.end.size, FILES);
	assert_int_equal(r.end.used, (2 + NAMES) * UNARCHIVE_BLOCK);
	assert_int_equal(count_entries(ws), file_inodes_max);
	file_inodes_max++;
	assert_int_equal(unpack_fd(fd, "y/d", 1 << 30).end.code, FILE_ERR_INODES);
	/* Those that are there already are not made again. */
	tar_add_deep(&t, 0, DEPTH);
	tar_add_deep(&t, 0, DEPTH);
	_cleanup_fd_ int twice = zip_of(&t);
	assert_int_equal(unpack_fd(twice, "e", 0).end.used, (DEPTH + 3) * UNARCHIVE_BLOCK);
}

static void folders_without_a_member_end_at_the_number_of_entries(void **state)
{
	enum { DEPTH = 1900 };
	struct tar t = { 0 };

	(void)state;
	for (unsigned i = 0; i <= UNARCHIVE_ENTRIES / (DEPTH + 1); i++)
		tar_add_deep(&t, i, DEPTH);
	struct result r = unpack(&t, "d");
	assert_int_equal(r.end.code, FILE_ERR_ARCHIVE);
	assert_int_equal(r.end.errno_code, FILE_ARCHIVE_LIMIT);
	assert_int_equal(count_entries(ws), 1);
}

static void an_archive_must_fit_beside_what_is_there(void **state)
{
	struct di_file ask = { .op = FILE_UNPACK };
	_cleanup_fd_ int fd = make_pipe_file();
	struct file_usage u;

	(void)state;
	put(ws, "f", "x");
	assert_int_equal(file_usage(ws, &u), 0);
	ask.size = 5000;
	ask.quota = u.bytes + 4999;
	/* It is said before a byte is read: there are none. */
	struct result r = job(&ask, "d", fd);
	assert_int_equal(r.end.code, FILE_ERR_QUOTA);
	assert_int_equal(r.end.used, u.bytes);
	ask.quota++;
	assert_int_equal(job(&ask, "d", fd).end.code, FILE_ERR_ARCHIVE);
}

/* ---- what becomes of one that is ended ------------------------------------------------------- */

/* Sends a signal to the child of ours that unpacks, when it waits for more. */
static pid_t start_killer(int signal)
{
	char path[64];
	int found;
	pid_t parent = getpid(), child = 0, self = fork();

	assert_true(self >= 0);
	if (self > 0)
		return self;
	self = getpid();
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
	while (child == 0) {
		FILE *file = fopen(path, "re");
		while (file && fscanf(file, "%d", &found) == 1)
			child = found != self ? found : child;
		if (file)
			fclose(file);
	}
	kill(child, signal);
	_exit(0);
}

static void one_that_is_ended_is_not_called_damaged(void **state)
{
	static const struct {
		int signal;
		uint32_t fault;
	} rows[] = {
		{ SIGKILL, FILE_ARCHIVE_KILLED },
		{ SIGXCPU, FILE_ARCHIVE_TIME },
		{ SIGABRT, FILE_ARCHIVE_CRASHED },
	};
	const struct di_file ask = { .op = FILE_UNPACK };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int pipes[2];
		assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
		pid_t killer = start_killer(rows[i].signal);
		struct result r = job(&ask, "d", pipes[0]);
		assert_int_equal(waitpid(killer, NULL, 0), killer);
		close(pipes[0]);
		close(pipes[1]);
		assert_int_equal(r.end.code, FILE_ERR_ARCHIVE);
		assert_int_equal(r.end.errno_code, rows[i].fault);
		assert_int_equal(count_entries(ws), 1);
	}
}

/* ---- what an unpacking that was killed leaves ------------------------------------------------ */

#define LEFT ".airlock-0123456789abcdef"

static void make_leftover(const char *name)
{
	char path[64];

	make_dir(ws, name);
	snprintf(path, sizeof(path), "%s/d", name);
	make_dir(ws, path);
	snprintf(path, sizeof(path), "%s/d/f", name);
	put(ws, path, "left");
}

static void what_a_killed_unpacking_left_goes_with_the_next_look(void **state)
{
	const struct di_file usage = { .op = FILE_USAGE };
	const struct di_file write = { .op = FILE_WRITE, .mode = 0644, .quota = 1 << 20 };
	_cleanup_fd_ int empty = make_pipe_file();
	struct tar t = { 0 };

	(void)state;
	make_leftover(LEFT);
	assert_int_equal(job(&usage, "", -1).end.used, 1);
	make_leftover(LEFT);
	assert_int_equal(job(&write, "new", empty).end.code, FILE_OK);
	assert_int_equal(count_entries(ws), 2);
	make_leftover(LEFT);
	tar_add(&t, &(struct head){ .name = "r/f", .data = "x" });
	assert_int_equal(unpack(&t, "d").end.code, FILE_OK);
	assert_int_equal(count_entries(ws), 4);
}

static void what_is_held_or_is_no_leftover_stays(void **state)
{
	static const char *const others[] = { ".airlock-0123456789abcde",
					      ".airlock-0123456789abcdeF",
					      ".airlock-0123456789abcdef0", ".airlock", "d" };
	const struct di_file usage = { .op = FILE_USAGE };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		make_dir(ws, others[i]);
	make_leftover("d/" LEFT);
	make_link("d", ws, ".airlock-fedcba9876543210");
	make_leftover(".airlock-1111111111111111");
	_cleanup_fd_ int held = openat(ws, ".airlock-1111111111111111", O_RDONLY | O_CLOEXEC);
	assert_int_equal(flock(held, LOCK_EX), 0);
	put(ws, ".airlock-2222222222222222", "a file");
	_cleanup_fd_ int file = openat(ws, ".airlock-2222222222222222", O_RDONLY | O_CLOEXEC);
	assert_int_equal(flock(file, LOCK_EX), 0);
	assert_int_equal(mkfifoat(ws, ".airlock-3333333333333333", 0600), 0);
	int before = count_entries(ws);
	assert_int_equal(job(&usage, "", -1).end.used, before);
	fd_close(&held);
	assert_int_equal(job(&usage, "", -1).end.used, before - 3);
	fd_close(&file);
	assert_int_equal(job(&usage, "", -1).end.used, before - 4);
}

/* Two workers of one workspace: the second one must not take the first one's folder for dead. */
static void an_unpacking_is_not_swept_by_another_worker(void **state)
{
	const struct di_file usage = { .op = FILE_USAGE }, ask = { .op = FILE_UNPACK };
	struct tar t = { 0 };
	int pipes[2];

	(void)state;
	tar_add(&t, &(struct head){ .name = "r/f", .data = "x" });
	tar_end(&t);
	_cleanup_fd_ int fd = make_pipe_file();
	zip_to(fd, t.data, t.len);
	tar_free(&t);
	char bytes[4096];
	ssize_t len = pread(fd, bytes, sizeof(bytes), 0);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (pid == 0) {
		close(pipes[1]);
		_exit(job(&ask, "d", pipes[0]).end.code != FILE_OK);
	}
	fd_close(&pipes[0]);
	/* Who has read has a folder and holds it; before that another one may take it away. */
	int unread = 1;
	assert_int_equal(write(pipes[1], bytes, 1), 1);
	while (unread)
		assert_int_equal(ioctl(pipes[1], FIONREAD, &unread), 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(job(&usage, "", -1).end.used, 2);
	assert_int_equal(write(pipes[1], bytes + 1, (size_t)len - 1), len - 1);
	fd_close(&pipes[1]);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	check(ws, "d/f", "x");
}

static void an_existing_place_is_refused(void **state)
{
	const struct {
		const char *path;
		uint32_t code;
	} rows[] = {
		{ "file", FILE_ERR_EXISTS },	  { "dir", FILE_ERR_EXISTS },
		{ "dir/", FILE_ERR_EXISTS },	  { "dangling", FILE_ERR_EXISTS },
		{ "out", FILE_ERR_EXISTS },	  { ".", FILE_ERR_EXISTS },
		{ "dir/..", FILE_ERR_EXISTS },	  { "out/x", FILE_ERR_OUTSIDE },
		{ "../wsx/x", FILE_ERR_OUTSIDE }, { "file/x", FILE_ERR_NOT_IN_FOLDER },
	};

	(void)state;
	put(ws, "file", "x");
	make_dir(ws, "dir");
	make_link("nowhere", ws, "dangling");
	make_link("../wsx", ws, "out");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct tar t = { 0 };
		tar_add(&t, &(struct head){ .name = "r/f", .data = "x" });
		struct result r = unpack(&t, rows[i].path);
		if (r.end.code != rows[i].code)
			fail_msg("unpack to '%s': code %u", rows[i].path, r.end.code);
		assert_int_equal(count_entries(ws), 5);
	}
	assert_int_equal(count_entries(outside), 1);
	const struct di_file ask = { .op = FILE_UNPACK };
	assert_int_equal(job(&ask, "new", -1).end.errno_code, EINVAL);
}

/* ---- packing --------------------------------------------------------------------------------- */

static struct result pack(const char *path, int pipe, uint64_t max)
{
	const struct di_file ask = { .op = FILE_PACK, .max = max };

	return job(&ask, path, pipe);
}

static size_t unzip(int fd, unsigned char *out, size_t cap)
{
	struct stat st;
	z_stream z = { 0 };

	assert_int_equal(fstat(fd, &st), 0);
	unsigned char *in = malloc((size_t)st.st_size);
	assert_int_equal(pread(fd, in, (size_t)st.st_size, 0), st.st_size);
	assert_int_equal(inflateInit2(&z, 31), Z_OK);
	z.next_in = in;
	z.avail_in = (uInt)st.st_size;
	z.next_out = out;
	z.avail_out = (uInt)cap;
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(z.avail_in, 0);
	inflateEnd(&z);
	free(in);
	return cap - z.avail_out;
}

static uint64_t octal(const unsigned char *field, size_t size)
{
	char text[16] = { 0 };

	memcpy(text, field, size - 1);
	return strtoull(text, NULL, 8);
}

static void the_format_is_what_was_promised(void **state)
{
	static unsigned char tar[1 << 20];
	static const char *const expected[] = {
		"out/|5|755|",
		"out/a/|5|1777|",
		"out/a-b|0|755|b",
		"out/a/x|0|644|x",
		"out/hard|0|640|h",
		"out/hard2|0|640|h",
		"out/l|2|777|../../etc/passwd",
		"out/\xff|0|644|",
	};
	const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 99, .tv_nsec = 7 } };
	size_t n = 0;

	(void)state;
	make_dir(ws, "out");
	make_dir(ws, "out/a");
	assert_int_equal(fchmodat(ws, "out/a", 01777, 0), 0);
	put(ws, "out/a/x", "x");
	put(ws, "out/a-b", "b");
	assert_int_equal(fchmodat(ws, "out/a-b", 06755, 0), 0);
	put(ws, "out/hard", "h");
	assert_int_equal(fchmodat(ws, "out/hard", 0640, 0), 0);
	assert_int_equal(utimensat(ws, "out/hard", times, 0), 0);
	assert_int_equal(linkat(ws, "out/hard", ws, "out/hard2", 0), 0);
	make_link("../../etc/passwd", ws, "out/l");
	put(ws, "out/\xff", "");
	assert_int_equal(mkfifoat(ws, "out/fifo", 0600), 0);
	_cleanup_fd_ int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	snprintf(un.sun_path, sizeof(un.sun_path), "%s/ws/out/sock", top);
	assert_int_equal(bind(sock, (struct sockaddr *)&un, sizeof(un)), 0);
	_cleanup_fd_ int pipe = make_pipe_file(), again = make_pipe_file();
	struct result r = pack("out", pipe, 1 << 20);
	assert_int_equal(r.end.code, FILE_OK);
	assert_true(r.announced);
	assert_int_equal(lseek(pipe, 0, SEEK_CUR), r.end.size);
	size_t len = unzip(pipe, tar, sizeof(tar));
	for (size_t at = 0; tar[at]; n++) {
		char got[300];
		const unsigned char *h = tar + at;
		uint64_t size = octal(h + 124, 12);
		snprintf(got, sizeof(got), "%.100s|%c|%o|%.*s%.100s", (const char *)h, h[156],
			 (unsigned)octal(h + 100, 8), (int)size, (const char *)h + 512,
			 (const char *)h + 157);
		assert_true(n < ARRAY_SIZE(expected));
		assert_string_equal(got, expected[n]);
		assert_int_equal(octal(h + 108, 8) | octal(h + 116, 8), 0);
		assert_string_equal((const char *)h + 265, "");
		if (strstr(got, "hard"))
			assert_int_equal(octal(h + 136, 12), 99);
		at += 512 + (size + 511) / 512 * 512;
		assert_true(at + 1024 <= len);
	}
	assert_int_equal(n, ARRAY_SIZE(expected));
	/* The same tree, the same bytes. */
	assert_int_equal(pack("./out/", again, 1 << 20).end.size, r.end.size);
	assert_int_equal(run_in(ws, "test -d ."), 0);
	unsigned char *a = malloc(r.end.size), *b = malloc(r.end.size);
	assert_int_equal(pread(pipe, a, r.end.size, 0), r.end.size);
	assert_int_equal(pread(again, b, r.end.size, 0), r.end.size);
	assert_memory_equal(a, b, r.end.size);
	free(a);
	free(b);
}

/* Packs into a file beside the workspace, which the machine's tar reads. */
static struct result pack_to_file(const char *path)
{
	_cleanup_fd_ int fd = openat(top_fd, "t.tgz", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	return pack(path, fd, UINT64_MAX);
}

static void long_names_and_large_trees_survive_tar_and_back(void **state)
{
	static char part[251];
	char name[64];

	(void)state;
	memset(part, 'p', 250);
	memcpy(part + 100, "\xc3\xbc", 2);
	make_dir(ws, "t");
	_cleanup_fd_ int dir = openat(ws, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 5; i++) {
		make_dir(dir, part);
		put(dir, "-rf", "dash");
		make_link(part, dir, "link");
		put(dir, "\xff\xfe new\nline", "odd");
		int next = openat(dir, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		fd_close(&dir);
		dir = next;
	}
	part[0] = (char)0xff;
	put(dir, part, "no UTF-8");
	make_dir(ws, "t/many");
	for (int i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "t/many/name-%d", i);
		if (i % 100 == 0)
			put(ws, name, name);
		else
			assert_int_equal(mknodat(ws, name, S_IFREG | 0644, 0), 0);
	}
	assert_int_equal(pack_to_file("t").end.code, FILE_OK);
	assert_int_equal(run_in(outside, "tar -xzf ../t.tgz"), 0);
	assert_int_equal(run_in(top_fd, "diff -r --no-dereference ws/t wsx/t"), 0);
	/* And by our own way back. */
	_cleanup_fd_ int fd = openat(top_fd, "t.tgz", O_RDONLY | O_CLOEXEC);
	struct result r = unpack_fd(fd, "copy", 1 << 30);
	assert_int_equal(r.end.code, FILE_OK);
	assert_int_equal(run_in(ws, "diff -r --no-dereference t copy"), 0);
}

static void the_top_has_no_prefix_and_hides_names_of_ours(void **state)
{
	(void)state;
	put(ws, "f", "x");
	make_dir(ws, "d");
	put(ws, "d/.airlock-x", "x");
	put(ws, ".airlock-x", "x");
	assert_int_equal(pack_to_file(".").end.code, FILE_OK);
	assert_int_equal(run_in(top_fd, "test \"$(tar -tzf t.tgz | tr '\\n' ' ')\" = "
					"'d/ d/.airlock-x f '"),
			 0);
	assert_int_equal(pack_to_file("d/..").end.code, FILE_OK);
	assert_int_equal(run_in(top_fd, "test \"$(tar -tzf t.tgz | wc -l)\" = 3"), 0);
	make_dir(ws, "d/e");
	assert_int_equal(pack_to_file("d/e/..").end.code, FILE_OK);
	assert_int_equal(run_in(top_fd, "test \"$(tar -tzf t.tgz | head -1)\" = d/"), 0);
}

static void a_tree_deeper_than_any_path_is_packed(void **state)
{
	(void)state;
	make_dir(ws, "t");
	_cleanup_fd_ int dir = openat(ws, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	make_chain(dir, 3000);
	assert_int_equal(pack_to_file("t").end.code, FILE_OK);
	assert_int_equal(run_in(top_fd, "test \"$(tar -tzf t.tgz | wc -l)\" = 9001"), 0);
}

static void packing_refusals_have_their_codes(void **state)
{
	static char noise[1 << 16];

	(void)state;
	put(ws, "f", "x");
	make_link("../wsx", ws, "out");
	for (size_t i = 0; i < sizeof(noise) - 1; i++)
		noise[i] = (char)(1 + rand() % 255);
	make_dir(ws, "d");
	put(ws, "d/noise", noise);
	_cleanup_fd_ int pipe = make_pipe_file();
	assert_int_equal(pack("gone", pipe, 100).end.code, FILE_ERR_MISSING);
	assert_int_equal(pack("f", pipe, 100).end.code, FILE_ERR_NOT_FOLDER);
	assert_int_equal(pack("out", pipe, 100).end.code, FILE_ERR_OUTSIDE);
	assert_int_equal(lseek(pipe, 0, SEEK_CUR), 0);
	assert_int_equal(pack("d", pipe, 10000).end.code, FILE_ERR_TOO_LARGE);
	assert_true(lseek(pipe, 0, SEEK_CUR) <= 10000);
	assert_int_equal(pack("d", -1, 100).end.errno_code, EINVAL);
}

static void what_cannot_be_packed_ends_the_archive(void **state)
{
	(void)state;
	make_dir(ws, "t");
	_cleanup_fd_ int dir = openat(ws, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	make_chain(dir, TREE_DEPTH + 10);
	assert_int_equal(pack_to_file("t").end.code, FILE_ERR_DEEP);
}

static void swapping_while_packing_never_leads_outside(void **state)
{
	(void)state;
	put(outside, "canary", "x");
	make_dir(ws, "t");
	make_dir(ws, "t/d");
	put(ws, "t/d/f", "x");
	make_link("../../wsx", ws, "t/l");
	put(ws, "t/file", "x");
	assert_int_equal(mkfifoat(ws, "t/fifo", 0600), 0);
	_cleanup_fd_ int dir = openat(ws, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid_t one = start_swapper(dir, "d", "l"), two = start_swapper(dir, "file", "fifo");
	for (int i = 0; i < 200; i++) {
		uint32_t code = pack_to_file("t").end.code;
		if (code == FILE_OK)
			assert_int_not_equal(run_in(top_fd, "tar -tzf t.tgz | grep -q canary"), 0);
	}
	stop(one);
	stop(two);
}

static void no_descriptor_stays_open(void **state)
{
	struct tar t = { 0 };

	(void)state;
	int before = dup(0);
	close(before);
	make_dir(ws, "d");
	put(ws, "d/f", "x");
	pack_to_file("d");
	pack_to_file("gone");
	tar_add(&t, &(struct head){ .name = "r/f", .data = "x" });
	unpack(&t, "a/b");
	tar_add(&t, &(struct head){ .name = "r/../f", .data = "x" });
	unpack(&t, "a/c");
	int after = dup(0);
	close(after);
	assert_int_equal(before, after);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(an_archive_is_unpacked_without_its_first_part),
		T(hostile_members_are_refused_and_leave_nothing),
		T(an_access_list_is_no_mode),
		T(a_long_name_is_refused),
		T(broken_streams_are_refused),
		T(a_bomb_is_stopped_by_its_ratio_or_the_quota),
		T(folders_without_a_member_are_entries_too),
		T(folders_without_a_member_end_at_the_number_of_entries),
		T(an_archive_must_fit_beside_what_is_there),
		T(one_that_is_ended_is_not_called_damaged),
		T(what_a_killed_unpacking_left_goes_with_the_next_look),
		T(what_is_held_or_is_no_leftover_stays),
		T(an_unpacking_is_not_swept_by_another_worker),
		T(an_existing_place_is_refused),
		T(the_format_is_what_was_promised),
		T(long_names_and_large_trees_survive_tar_and_back),
		T(the_top_has_no_prefix_and_hides_names_of_ours),
		T(a_tree_deeper_than_any_path_is_packed),
		T(packing_refusals_have_their_codes),
		T(what_cannot_be_packed_ends_the_archive),
		T(swapping_while_packing_never_leads_outside),
		T(no_descriptor_stays_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
