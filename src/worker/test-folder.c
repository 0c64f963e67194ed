// SPDX-License-Identifier: Apache-2.0
/*
 * Jobs for folders and names: list, remove, move, mkdir, trim, merge, and writes of unknown size.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "worker/file-usage.h"
#include "worker/file.h"
#include "worker/test-rig.h"

/* A job of a tenant that is not root: rights count. The function leaves by _exit(0). */
#define REQUIRE(x) \
	do { \
		if (!(x)) \
			_exit(__LINE__ % 250 + 1); \
	} while (0)
#define TENANT 65534

static void as_tenant(void (*fn)(void))
{
	bool root = getuid() == 0;
	int status;

	if (root)
		assert_int_equal(fchown(ws, TENANT, TENANT), 0);
	pid_t pid = fork();
	if (pid == 0) {
		REQUIRE(!root || setresgid(TENANT, TENANT, TENANT) == 0);
		REQUIRE(!root || setresuid(TENANT, TENANT, TENANT) == 0);
		fn();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (status != 0)
		fail_msg("the tenant's part ended with %#x", (unsigned)status);
}

static struct result simple(enum file_op op, uint32_t flags, const char *path)
{
	const struct di_file ask = { .op = op, .flags = flags };

	return job(&ask, path, -1);
}

/* ---- list ------------------------------------------------------------------------------------ */

struct page {
	struct result r;
	size_t n;
	char *data;
	size_t len;
	const char *paths[1000];
	struct file_entry entries[1000];
	const char *targets[1000];
};

static void page_free(struct page *p)
{
	free(p->data);
	for (size_t i = 0; i < p->n; i++) {
		free((void *)(uintptr_t)p->paths[i]);
		free((void *)(uintptr_t)p->targets[i]);
	}
	memset(p, 0, sizeof(*p));
}

static void list_into(struct page *p, const char *path, const char *after, uint32_t depth,
		      uint64_t max)
{
	const struct di_file ask = { .op = FILE_LIST, .depth = depth, .max = max };
	_cleanup_fd_ int pipe = make_pipe_file();
	struct stat st;
	size_t at = 0;

	memset(p, 0, sizeof(*p));
	p->r = job_two(&ask, path, after, pipe);
	assert_int_equal(fstat(pipe, &st), 0);
	p->len = (size_t)st.st_size;
	p->data = malloc(p->len + 1);
	assert_int_equal(pread(pipe, p->data, p->len, 0), p->len);
	while (at < p->len) {
		struct file_entry *e = &p->entries[p->n];
		assert_true(at + sizeof(*e) <= p->len && p->n < 1000);
		memcpy(e, p->data + at, sizeof(*e));
		at += sizeof(*e);
		assert_true(at + e->path_len + e->target_len <= p->len);
		p->paths[p->n] = strndup(p->data + at, e->path_len);
		at += e->path_len;
		p->targets[p->n] = strndup(p->data + at, e->target_len);
		at += e->target_len;
		p->n++;
	}
	if (p->r.end.code == FILE_OK)
		assert_int_equal(p->r.end.size, p->n);
}

static void check_list(const char *path, const char *after, uint32_t depth, const char *expected)
{
	static struct page p;
	char got[4096] = "";
	size_t at = 0;

	list_into(&p, path, after, depth, 1000);
	assert_int_equal(p.r.end.code, FILE_OK);
	assert_int_equal(p.r.end.used, 0);
	for (size_t i = 0; i < p.n; i++)
		at += (size_t)snprintf(got + at, sizeof(got) - at, "%s|", p.paths[i]);
	page_free(&p);
	assert_string_equal(got, expected);
}

static void make_small_tree(void)
{
	make_dir(ws, "t");
	make_dir(ws, "t/a");
	make_dir(ws, "t/a/d");
	put(ws, "t/a/d/f", "1");
	put(ws, "t/a/x", "2");
	put(ws, "t/a-b", "3");
	put(ws, "t/a.c", "4");
	put(ws, "t/a0", "5");
	make_dir(ws, "t/b");
	put(ws, "t/\xff", "6");
}

static void a_listing_is_in_the_byte_order_of_paths(void **state)
{
	(void)state;
	make_small_tree();
	check_list("t", "", 16, "a|a-b|a.c|a/d|a/d/f|a/x|a0|b|\xff|");
	check_list("t", "", 1, "a|a-b|a.c|a0|b|\xff|");
	check_list("t", "", 2, "a|a-b|a.c|a/d|a/x|a0|b|\xff|");
	check_list("t/", "a.c", 16, "a/d|a/d/f|a/x|a0|b|\xff|");
	check_list("./t", "a/d", 16, "a/d/f|a/x|a0|b|\xff|");
	check_list("t", "a/d", 2, "a/x|a0|b|\xff|");
	check_list("t", "a/d/f", 16, "a/x|a0|b|\xff|");
	check_list("t", "a/d/f", 1, "a0|b|\xff|");
	check_list("t", "a/gone/x", 16, "a/x|a0|b|\xff|");
	check_list("t", "gone/y", 16, "\xff|");
	check_list("t", "a.c/y", 16, "a/d|a/d/f|a/x|a0|b|\xff|");
	check_list("t", "\xff", 16, "");
	check_list("t/b", "", 16, "");
}

static void a_listing_tells_kind_size_time_and_target(void **state)
{
	static struct page p;
	const struct timespec times[2] = { { .tv_sec = 5 }, { .tv_sec = -7, .tv_nsec = 5 } };

	(void)state;
	make_dir(ws, "t");
	put(ws, "t/file", "12345");
	assert_int_equal(fchmodat(ws, "t/file", 04751, 0), 0);
	assert_int_equal(utimensat(ws, "t/file", times, 0), 0);
	assert_int_equal(mkfifoat(ws, "t/fifo", 0600), 0);
	make_link("/etc/passwd", ws, "t/link");
	list_into(&p, "t", "", 1, 10);
	assert_int_equal(p.n, 3);
	assert_int_equal(p.entries[0].mode, S_IFIFO | 0600);
	assert_int_equal(p.entries[1].mode, S_IFREG | 04751);
	assert_int_equal(p.entries[1].size, 5);
	assert_int_equal(p.entries[1].mtime, -7);
	assert_true(S_ISLNK(p.entries[2].mode));
	assert_string_equal(p.targets[2], "/etc/passwd");
	assert_string_equal(p.targets[1], "");
	page_free(&p);
}

static void names_of_ours_are_hidden_at_the_top_alone(void **state)
{
	(void)state;
	put(ws, ".airlock-x", "1");
	make_dir(ws, ".airlock-d");
	put(ws, ".airlock-d/f", "1");
	put(ws, ".airlock", "1");
	make_dir(ws, "d");
	put(ws, "d/.airlock-x", "1");
	check_list(".", "", 16, ".airlock|d|d/.airlock-x|");
	check_list("d/..", "", 16, ".airlock|d|d/.airlock-x|");
	check_list("d", "", 16, ".airlock-x|");
}

static void long_and_odd_names_are_listed_whole(void **state)
{
	static char name[256], expected[600];

	(void)state;
	memset(name, 0xff, 255);
	make_dir(ws, "t");
	make_dir(ws, "t/new\nline");
	_cleanup_fd_ int dir = openat(ws, "t/new\nline", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put(dir, name, "x");
	snprintf(expected, sizeof(expected), "new\nline|new\nline/%s|", name);
	check_list("t", "", 16, expected);
	snprintf(expected, sizeof(expected), "new\nline/%s", name);
	check_list("t", expected, 16, "");
}

static void listing_refusals_have_their_codes(void **state)
{
	static struct page p;

	(void)state;
	put(ws, "file", "x");
	make_link("../wsx", ws, "out");
	assert_int_equal(mkfifoat(ws, "fifo", 0600), 0);
	const struct {
		const char *path;
		uint32_t depth, code;
	} rows[] = {
		{ "gone", 1, FILE_ERR_MISSING },
		{ "file", 1, FILE_ERR_NOT_FOLDER },
		{ "fifo", 1, FILE_ERR_NOT_FOLDER },
		{ "out", 1, FILE_ERR_OUTSIDE },
		{ "..", 1, FILE_ERR_OUTSIDE },
		{ "/", 1, FILE_ERR_OUTSIDE },
		{ "file/x", 1, FILE_ERR_NOT_IN_FOLDER },
		{ ".", 0, FILE_ERR_SYSTEM },
		{ ".", 17, FILE_ERR_SYSTEM },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		list_into(&p, rows[i].path, "", rows[i].depth, 10);
		if (p.r.end.code != rows[i].code || p.n)
			fail_msg("list '%s': code %u", rows[i].path, p.r.end.code);
		page_free(&p);
	}
	const struct di_file ask = { .op = FILE_LIST, .depth = 1, .max = 10 };
	assert_int_equal(job_two(&ask, ".", "", -1).end.errno_code, EINVAL);
}

/* Pages of a folder with more names than a batch holds, and of folders beneath. */
static void pages_join_to_the_whole(void **state)
{
	static struct page p;
	char name[128], after[512] = "";
	size_t n = 0, pages = 0;

	(void)state;
	make_dir(ws, "t");
	make_dir(ws, "t/many");
	for (int i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "t/many/%d-name", i * 7919 % 20011);
		assert_int_equal(mknodat(ws, name, S_IFREG | 0644, 0), 0);
	}
	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "t/many/d%d", i);
		make_dir(ws, name);
		snprintf(name, sizeof(name), "t/many/d%d/f", i);
		put(ws, name, "x");
	}
	do {
		list_into(&p, "t", after, 16, 1000);
		assert_int_equal(p.r.end.code, FILE_OK);
		for (size_t i = 0; i < p.n; i++) {
			assert_true(strcmp(after, p.paths[i]) < 0);
			snprintf(after, sizeof(after), "%s", p.paths[i]);
		}
		n += p.n;
		pages++;
		if (!p.r.end.used)
			break;
		page_free(&p);
	} while (pages < 100);
	page_free(&p);
	assert_int_equal(n, 1 + 20000 + 80);
	assert_int_equal(pages, 21);
}

static void swapping_during_a_listing_never_leads_outside(void **state)
{
	static struct page p;

	(void)state;
	put(outside, "canary", "x");
	make_dir(ws, "t");
	make_dir(ws, "t/d");
	put(ws, "t/d/f", "x");
	make_link("../../wsx", ws, "t/l");
	_cleanup_fd_ int dir = openat(ws, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid_t pid = start_swapper(dir, "d", "l");
	for (int i = 0; i < 500; i++) {
		list_into(&p, "t", "", 16, 100);
		for (size_t k = 0; k < p.n; k++)
			assert_null(strstr(p.paths[k], "canary"));
		page_free(&p);
	}
	stop(pid);
}

/* ---- remove ---------------------------------------------------------------------------------- */

static void removing_has_its_codes_and_counts(void **state)
{
	(void)state;
	put(outside, "secret", "canary");
	make_small_tree();
	put(ws, "file", "x");
	make_dir(ws, "empty");
	make_link("../wsx", ws, "out");
	make_link("t", ws, "lt");
	make_link("../../wsx/secret", ws, "t/ls");
	assert_int_equal(mkfifoat(ws, "t/fifo", 0600), 0);
	const struct {
		const char *path;
		uint32_t flags, code;
		uint64_t count;
	} rows[] = {
		{ "gone", 0, FILE_OK, 0 },
		{ "gone", FILE_RECURSIVE, FILE_OK, 0 },
		{ "gone/x", 0, FILE_OK, 0 },
		{ "file/x", 0, FILE_ERR_NOT_IN_FOLDER, 0 },
		{ ".", FILE_RECURSIVE, FILE_ERR_FOLDER, 0 },
		{ "", FILE_RECURSIVE, FILE_ERR_FOLDER, 0 },
		{ "./.", FILE_RECURSIVE, FILE_ERR_FOLDER, 0 },
		{ "t/..", FILE_RECURSIVE, FILE_ERR_FOLDER, 0 },
		{ "..", FILE_RECURSIVE, FILE_ERR_OUTSIDE, 0 },
		{ "../wsx", FILE_RECURSIVE, FILE_ERR_OUTSIDE, 0 },
		{ "out/secret", FILE_RECURSIVE, FILE_ERR_OUTSIDE, 0 },
		{ "/workspace", FILE_RECURSIVE, FILE_ERR_OUTSIDE, 0 },
		{ "t", 0, FILE_ERR_NOT_EMPTY, 0 },
		{ "out", FILE_RECURSIVE, FILE_OK, 1 },
		{ "lt/", FILE_RECURSIVE, FILE_OK, 1 },
		{ "empty/", 0, FILE_OK, 1 },
		{ "file", 0, FILE_OK, 1 },
		{ "file", 0, FILE_OK, 0 },
		{ "t/a/d/f", FILE_RECURSIVE, FILE_OK, 1 },
		{ "t", FILE_RECURSIVE, FILE_OK, 11 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct result r = simple(FILE_REMOVE, rows[i].flags, rows[i].path);
		if (r.end.code != rows[i].code || r.end.size != rows[i].count)
			fail_msg("row %zu '%s': code %u, %llu", i, rows[i].path, r.end.code,
				 (unsigned long long)r.end.size);
	}
	check(outside, "secret", "canary");
	assert_int_equal(count_entries(ws), 1);
}

static void a_tree_deeper_than_any_path_is_removed(void **state)
{
	(void)state;
	make_dir(ws, "deep");
	_cleanup_fd_ int dir = openat(ws, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	make_chain(dir, 3000);
	struct result r = simple(FILE_REMOVE, FILE_RECURSIVE, "deep");
	assert_int_equal(r.end.code, FILE_OK);
	assert_int_equal(r.end.size, 1 + 3 * 3000);
	assert_int_equal(count_entries(ws), 1);
}

static void a_tree_deeper_than_a_walk_is_removed(void **state)
{
	const int depth = 2 * TREE_DEPTH + 100;

	(void)state;
	make_dir(ws, "deep");
	_cleanup_fd_ int dir = openat(ws, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	make_chain(dir, depth);
	struct result r = simple(FILE_REMOVE, FILE_RECURSIVE, "deep");
	assert_int_equal(r.end.code, FILE_OK);
	assert_int_equal(r.end.size, 1 + 3 * depth);
	assert_int_equal(count_entries(ws), 1);
}

static void many_files_are_removed(void **state)
{
	char name[64];

	(void)state;
	make_dir(ws, "t");
	for (int i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "t/name-%d", i);
		assert_int_equal(mknodat(ws, name, S_IFREG | 0644, 0), 0);
	}
	assert_int_equal(simple(FILE_REMOVE, FILE_RECURSIVE, "t").end.size, 20001);
}

static void remove_locked(void)
{
	make_small_tree();
	REQUIRE(fchmodat(ws, "t/a/d", 0, 0) == 0);
	REQUIRE(fchmodat(ws, "t/a", 0555, 0) == 0);
	make_dir(ws, "kept");
	put(ws, "kept/f", "x");
	REQUIRE(fchmodat(ws, "kept", 0555, 0) == 0);
	REQUIRE(simple(FILE_REMOVE, FILE_RECURSIVE, "t").end.code == FILE_OK);
	/* The folder that a name is removed from isn't given any right. */
	REQUIRE(simple(FILE_REMOVE, FILE_RECURSIVE, "kept/f").end.code == FILE_ERR_DENIED);
	REQUIRE(mode_of(ws, "kept") == (S_IFDIR | 0555));
}

static void folders_of_ones_own_without_rights_are_removed(void **state)
{
	(void)state;
	as_tenant(remove_locked);
	assert_int_equal(mode_of(ws, "t"), 0);
}

static void swapping_during_a_removal_never_removes_outside(void **state)
{
	(void)state;
	make_dir(outside, "d");
	put(outside, "d/canary", "x");
	int before = count_entries(outside);
	make_dir(ws, "t");
	_cleanup_fd_ int dir = openat(ws, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	make_link("../wsx/d", ws, "l");
	for (int i = 0; i < 300; i++) {
		if (mkdirat(ws, "d", 0755) == 0)
			put(ws, "d/f", "x");
		if (mode_of(ws, "l") == 0)
			make_link("../wsx/d", ws, "l");
		pid_t pid = start_swapper(ws, "d", "l");
		struct result r = simple(FILE_REMOVE, FILE_RECURSIVE, "d");
		stop(pid);
		assert_true(r.end.code == FILE_OK || r.end.code == FILE_ERR_NOT_EMPTY ||
			    r.end.code == FILE_ERR_CHANGED);
		assert_int_equal(count_entries(outside), before);
	}
}

/* ---- move and mkdir -------------------------------------------------------------------------- */

static struct result move(uint32_t flags, const char *from, const char *to)
{
	const struct di_file ask = { .op = FILE_MOVE, .flags = flags };

	return job_two(&ask, from, to, -1);
}

static void moving_has_its_codes(void **state)
{
	(void)state;
	put(outside, "secret", "canary");
	put(ws, "f", "f");
	put(ws, "g", "g");
	make_dir(ws, "d");
	put(ws, "d/x", "x");
	make_dir(ws, "e");
	make_dir(ws, "full");
	put(ws, "full/y", "y");
	make_link("../wsx", ws, "out");
	make_link("g", ws, "l");
	const struct {
		const char *from, *to;
		uint32_t flags, code;
	} rows[] = {
		{ "gone", "x", 0, FILE_ERR_MISSING },
		{ "f", "g", 0, FILE_ERR_EXISTS },
		{ "f", "d", 0, FILE_ERR_EXISTS },
		{ "f", "l", 0, FILE_ERR_EXISTS },
		{ "f", "d", FILE_REPLACE, FILE_ERR_EXISTS },
		{ "d", "f", FILE_REPLACE, FILE_ERR_EXISTS },
		{ "d", "full", FILE_REPLACE, FILE_ERR_EXISTS },
		{ "f", "../wsx/f", 0, FILE_ERR_OUTSIDE },
		{ "f", "out/f", 0, FILE_ERR_OUTSIDE },
		{ "out/secret", "s", 0, FILE_ERR_OUTSIDE },
		{ "../wsx/secret", "s", 0, FILE_ERR_OUTSIDE },
		{ "/workspace/f", "s", 0, FILE_ERR_OUTSIDE },
		{ "f", "/tmp/f", 0, FILE_ERR_OUTSIDE },
		{ "f", "g/x", 0, FILE_ERR_NOT_IN_FOLDER },
		{ ".", "s", 0, FILE_ERR_FOLDER },
		{ "f", ".", 0, FILE_ERR_FOLDER },
		{ "d", "d/in", 0, FILE_ERR_NOT_IN_FOLDER },
		{ "d", "d/n3/in", FILE_REPLACE, FILE_ERR_NOT_IN_FOLDER },
		{ "d", "e/", FILE_REPLACE, FILE_OK },
		{ "f", "n1/n2/f", 0, FILE_OK },
		{ "g", "l", FILE_REPLACE, FILE_OK },
		{ "out", "moved", 0, FILE_OK },
		{ "gone", "m1/m2/f", 0, FILE_ERR_MISSING },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct result r = move(rows[i].flags, rows[i].from, rows[i].to);
		if (r.end.code != rows[i].code)
			fail_msg("row %zu '%s' to '%s': code %u errno %u", i, rows[i].from,
				 rows[i].to, r.end.code, r.end.errno_code);
	}
	check(ws, "e/x", "x");
	check(ws, "n1/n2/f", "f");
	check(ws, "l", "g");
	assert_true(S_ISREG(mode_of(ws, "l")));
	assert_true(S_ISLNK(mode_of(ws, "moved")));
	assert_int_equal(mode_of(ws, "d"), 0);
	assert_int_equal(mode_of(ws, "m1"), 0);
	check(outside, "secret", "canary");
	assert_int_equal(count_entries(outside), 2);
}

static void move_locked(void)
{
	make_dir(ws, "from");
	make_dir(ws, "from/d");
	make_dir(ws, "to");
	REQUIRE(fchmodat(ws, "from/d", 0555, 0) == 0);
	REQUIRE(move(0, "from/d", "to/d").end.code == FILE_OK);
	REQUIRE(mode_of(ws, "to/d") == (S_IFDIR | 0555));
}

static void a_read_only_folder_can_be_moved_and_keeps_its_mode(void **state)
{
	(void)state;
	as_tenant(move_locked);
}

static void making_folders_has_its_codes(void **state)
{
	(void)state;
	put(ws, "f", "x");
	make_dir(ws, "d");
	make_link("d", ws, "ld");
	make_link("d/new", ws, "dangling");
	make_link("../wsx/new", ws, "out");
	make_link("f", ws, "lf");
	const struct {
		const char *path;
		uint32_t code;
		uint64_t made;
	} rows[] = {
		{ "a/b/c/", FILE_OK, 1 },
		{ "a/b/c", FILE_OK, 0 },
		{ ".", FILE_OK, 0 },
		{ "", FILE_OK, 0 },
		{ "d", FILE_OK, 0 },
		{ "ld", FILE_OK, 0 },
		{ "ld/x", FILE_OK, 1 },
		{ "dangling", FILE_OK, 1 },
		{ "f", FILE_ERR_EXISTS, 0 },
		{ "lf", FILE_ERR_EXISTS, 0 },
		{ "f/x", FILE_ERR_NOT_IN_FOLDER, 0 },
		{ "f/x/y", FILE_ERR_NOT_IN_FOLDER, 0 },
		{ "out", FILE_ERR_OUTSIDE, 0 },
		{ "out/x", FILE_ERR_OUTSIDE, 0 },
		{ "../wsx/y", FILE_ERR_OUTSIDE, 0 },
		{ "/tmp/airlock-test", FILE_ERR_OUTSIDE, 0 },
		{ "no/../../x", FILE_ERR_OUTSIDE, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct result r = simple(FILE_MKDIR, 0, rows[i].path);
		if (r.end.code != rows[i].code || r.end.size != rows[i].made)
			fail_msg("row %zu '%s': code %u errno %u", i, rows[i].path, r.end.code,
				 r.end.errno_code);
	}
	assert_int_equal(mode_of(ws, "a/b/c"), S_IFDIR | 0755);
	assert_int_equal(mode_of(ws, "d/new"), S_IFDIR | 0755);
	assert_int_equal(count_entries(outside), 1);
}

/* ---- trim ------------------------------------------------------------------------------------ */

static void trimming_to_a_folder_leaves_its_contents_at_the_top(void **state)
{
	struct file_usage u;

	(void)state;
	make_small_tree();
	make_dir(ws, "t/t");
	put(ws, "t/t/deep", "deep");
	put(ws, "other", "x");
	put(ws, ".airlock-x", "x");
	make_link("../../wsx", ws, "t/link");
	make_link("t", ws, "lt");
	struct result r = simple(FILE_TRIM, 0, "lt");
	assert_int_equal(r.end.code, FILE_OK);
	check(ws, "t/deep", "deep");
	check(ws, "a/d/f", "1");
	assert_true(S_ISLNK(mode_of(ws, "link")));
	assert_int_equal(mode_of(ws, "other"), 0);
	assert_int_equal(mode_of(ws, ".airlock-x"), 0);
	assert_int_equal(file_usage(ws, &u), 0);
	assert_int_equal(r.end.size, u.bytes);
	assert_int_equal(r.end.used, u.inodes);
	assert_int_equal(u.inodes, 1 + 9 + 3);
}

static void trimming_to_the_top_removes_names_of_ours_alone(void **state)
{
	(void)state;
	make_small_tree();
	make_dir(ws, ".airlock-a");
	put(ws, ".airlock-a/f", "x");
	put(ws, ".airlock-b", "x");
	put(ws, "t/.airlock-c", "x");
	int before = count_entries(ws);
	assert_int_equal(simple(FILE_TRIM, 0, ".").end.used, before - 3);
	check(ws, "t/.airlock-c", "x");
	assert_int_equal(simple(FILE_TRIM, 0, "gone").end.code, FILE_ERR_MISSING);
	assert_int_equal(simple(FILE_TRIM, 0, "t/a0").end.code, FILE_ERR_NOT_FOLDER);
	assert_int_equal(simple(FILE_TRIM, 0, "..").end.code, FILE_ERR_OUTSIDE);
	assert_int_equal(count_entries(ws), before - 3);
}

static void trim_locked(void)
{
	make_small_tree();
	REQUIRE(fchmodat(ws, "t/a/d", 0555, 0) == 0);
	REQUIRE(fchmodat(ws, "t/a", 0555, 0) == 0);
	REQUIRE(fchmodat(ws, "t", 0555, 0) == 0);
	REQUIRE(simple(FILE_TRIM, 0, "t").end.code == FILE_OK);
	REQUIRE(mode_of(ws, "a") == (S_IFDIR | 0555));
	REQUIRE(mode_of(ws, "a/d/f") != 0);
	REQUIRE(mode_of(ws, "t") == 0);
}

static void trimming_moves_read_only_folders_as_they_are(void **state)
{
	(void)state;
	as_tenant(trim_locked);
}

static void trimming_moves_many_names(void **state)
{
	char name[64];

	(void)state;
	make_dir(ws, "t");
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "t/name-%d", i);
		assert_int_equal(mknodat(ws, name, S_IFREG | 0644, 0), 0);
	}
	assert_int_equal(simple(FILE_TRIM, 0, "t").end.used, 5001);
}

/* ---- merge ----------------------------------------------------------------------------------- */

static struct result merge(const char *path, uint64_t quota, char ret_conflict[256])
{
	const struct di_file ask = { .op = FILE_MERGE, .quota = quota };
	_cleanup_fd_ int pipe = make_pipe_file();
	struct result r = job(&ask, path, pipe);
	ssize_t n = pread(pipe, ret_conflict, 255, 0);

	ret_conflict[n] = '\0';
	return r;
}

static void make_source(void)
{
	const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1000, .tv_nsec = 5 } };

	make_dir(source, "d");
	make_dir(source, "d/e");
	put(source, "d/e/f", "new");
	put(source, "d/g", "new");
	put(source, ".airlock-x", "x");
	make_link("/etc/passwd", source, "l");
	assert_int_equal(mkfifoat(source, "fifo", 0600), 0);
	assert_int_equal(fchmodat(source, "d/g", 0741, 0), 0);
	assert_int_equal(utimensat(source, "d/g", times, 0), 0);
	assert_int_equal(utimensat(source, "l", times, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(fchmodat(source, "d/e", 0555, 0), 0);
	assert_int_equal(utimensat(source, "d/e", times, 0), 0);
}

static void merging_replaces_files_and_joins_folders(void **state)
{
	char conflict[256];
	struct stat st;

	(void)state;
	make_source();
	put(outside, "secret", "canary");
	make_dir(ws, "to");
	make_dir(ws, "to/d");
	assert_int_equal(fchmodat(ws, "to/d", 0700, 0), 0);
	put(ws, "to/d/kept", "kept");
	make_link("../../../wsx/secret", ws, "to/d/g");
	put(ws, "to/l", "old");
	struct result r = merge("to", 1 << 30, conflict);
	assert_int_equal(r.end.code, FILE_OK);
	assert_true(r.end.size >= 8);
	check(ws, "to/d/kept", "kept");
	check(ws, "to/d/g", "new");
	check(ws, "to/d/e/f", "new");
	check(outside, "secret", "canary");
	assert_int_equal(fstatat(ws, "to/d/g", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0741);
	assert_int_equal(st.st_mtim.tv_sec, 1000);
	assert_int_equal(fstatat(ws, "to/l", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(st.st_mtim.tv_sec, 1000);
	assert_int_equal(fstatat(ws, "to/d/e", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0555);
	assert_int_equal(st.st_mtim.tv_sec, 1000);
	assert_int_equal(mode_of(ws, "to/d"), S_IFDIR | 0700);
	assert_int_equal(mode_of(ws, "to/fifo"), 0);
	assert_int_equal(mode_of(ws, "to/.airlock-x"), 0);
	assert_int_equal(count_entries(ws), 1 + 7);
	assert_int_equal(merge("new/folder/", 0, conflict).end.code, FILE_OK);
	check(ws, "new/folder/d/g", "new");
	assert_int_equal(merge(".", 0, conflict).end.code, FILE_OK);
	check(ws, "d/g", "new");
}

/* How many names appeared in a folder since it is watched, and vanished again, and the last one. */
static unsigned names_seen(int watch, uint32_t event, char ret_last[NAME_MAX + 1])
{
	_Alignas(struct inotify_event) char events[4096];
	ssize_t len = read(watch, events, sizeof(events));
	unsigned n = 0;

	for (ssize_t at = 0; at < len;) {
		const struct inotify_event *e = (const void *)(events + at);

		at += (ssize_t)(sizeof(*e) + e->len);
		if (!(e->mask & event))
			continue;
		snprintf(ret_last, NAME_MAX + 1, "%s", e->name);
		n++;
	}
	return n;
}

static int watch_names(const char *path, uint32_t events)
{
	char full[200];
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

	snprintf(full, sizeof(full), "/proc/self/fd/%d/%s", ws, path);
	assert_true(inotify_add_watch(fd, full, events) >= 0);
	return fd;
}

/* So that what a worker leaves that dies then lies where nobody else's names are. */
static void what_replaces_has_its_name_at_the_top_first(void **state)
{
	char conflict[256], name[NAME_MAX + 1];

	(void)state;
	make_source();
	make_dir(ws, "d");
	put(ws, "d/g", "old");
	make_link("old", ws, "l");
	_cleanup_fd_ int at_top = watch_names(".", IN_MOVED_FROM);
	_cleanup_fd_ int in_d = watch_names("d", IN_MOVED_FROM | IN_MOVED_TO);
	assert_int_equal(merge(".", 0, conflict).end.code, FILE_OK);
	check(ws, "d/g", "new");
	assert_int_equal(names_seen(at_top, IN_MOVED_FROM, name), 2);
	assert_int_equal(strncmp(name, ".airlock-", 9), 0);
	assert_int_equal(names_seen(in_d, IN_MOVED_FROM | IN_MOVED_TO, name), 1);
	assert_string_equal(name, "g");
}

static void merge_below_a_closed_top(void)
{
	char conflict[256];
	struct stat st;

	REQUIRE(fchmodat(ws, ".", 0555, 0) == 0);
	REQUIRE(merge("d", 0, conflict).end.code == FILE_OK);
	REQUIRE(fstatat(ws, "d/d/g", &st, 0) == 0 && st.st_size == 3);
	REQUIRE(fstatat(ws, "d/l", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode));
}

static void a_closed_top_is_no_hindrance(void **state)
{
	(void)state;
	make_source();
	make_dir(ws, "d");
	make_dir(ws, "d/d");
	put(ws, "d/d/g", "older");
	put(ws, "d/l", "old");
	if (getuid() == 0) {
		assert_int_equal(fchownat(ws, "d", TENANT, TENANT, 0), 0);
		assert_int_equal(fchownat(ws, "d/d", TENANT, TENANT, 0), 0);
		assert_int_equal(fchownat(ws, "d/d/g", TENANT, TENANT, 0), 0);
		assert_int_equal(fchownat(ws, "d/l", TENANT, TENANT, 0), 0);
		assert_int_equal(fchownat(source, "d/g", TENANT, TENANT, 0), 0);
	}
	as_tenant(merge_below_a_closed_top);
	assert_int_equal(fchmodat(ws, ".", 0755, 0), 0);
	assert_int_equal(count_entries(ws), 1 + 6);
}

static void a_conflict_changes_nothing_and_is_named(void **state)
{
	char conflict[256];

	(void)state;
	make_source();
	put(outside, "secret", "canary");
	const struct {
		const char *folder, *file, *link, *expected;
	} rows[] = {
		{ "d/g", NULL, NULL, "d/g" }, { NULL, "d", NULL, "d" }, { NULL, NULL, "d", "d" },
		{ NULL, "d/e", NULL, "d/e" }, { "l", NULL, NULL, "l" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		clear_dir(ws);
		if (rows[i].expected[1])
			make_dir(ws, "d");
		if (rows[i].folder)
			make_dir(ws, rows[i].folder);
		if (rows[i].file)
			put(ws, rows[i].file, "x");
		if (rows[i].link)
			make_link("../wsx", ws, rows[i].link);
		int before = count_entries(ws);
		struct result r = merge(".", 0, conflict);
		assert_int_equal(r.end.code, FILE_ERR_CONFLICT);
		assert_string_equal(conflict, rows[i].expected);
		assert_int_equal(count_entries(ws), before);
	}
	assert_int_equal(count_entries(outside), 2);
}

/* A folder where the source has a file, so deep that no path leads there. */
static void make_deep_conflict(unsigned depth, const char *part)
{
	const int sides[] = { source, ws };

	for (size_t i = 0; i < ARRAY_SIZE(sides); i++) {
		_cleanup_fd_ int dir = openat(sides[i], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		for (unsigned k = 0; k < depth; k++) {
			make_dir(dir, part);
			int next = openat(dir, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			assert_true(next >= 0);
			fd_close(&dir);
			dir = next;
		}
		if (sides[i] == ws)
			make_dir(dir, "conflict");
		else
			put(dir, "conflict", "x");
	}
}

static void of_a_long_path_in_the_way_the_beginning_is_named(void **state)
{
	const struct di_file ask = { .op = FILE_MERGE };
	static char part[NAME_MAX + 1], got[2 * LIMIT_PATH];
	const struct {
		unsigned depth, len;
	} rows[] = {
		{ 15, 15 * 256 + 8 },
		/* Of the name, and of a folder; and more than a walk remembers. */
		{ 16, LIMIT_PATH },
		{ 17, LIMIT_PATH },
		{ TREE_PATH / 256 + 1, LIMIT_PATH },
	};

	(void)state;
	memset(part, 'p', NAME_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_fd_ int pipe = make_pipe_file();
		clear_dir(source);
		clear_dir(ws);
		make_deep_conflict(rows[i].depth, part);
		assert_int_equal(job(&ask, ".", pipe).end.code, FILE_ERR_CONFLICT);
		ssize_t n = pread(pipe, got, sizeof(got), 0);
		assert_int_equal(n, rows[i].len);
		for (ssize_t k = 0; k < n && k < rows[i].depth * 256; k++)
			assert_int_equal(got[k], k % 256 == NAME_MAX ? '/' : 'p');
	}
}

static void merging_holds_the_quota(void **state)
{
	static char text[40001];
	struct file_usage u;
	char conflict[256];

	(void)state;
	memset(text, 'q', 40000);
	put(source, "big", text);
	put(ws, "other", text);
	assert_int_equal(file_usage(ws, &u), 0);
	struct result r = merge(".", u.bytes + 40000, conflict);
	assert_int_equal(r.end.code, FILE_ERR_QUOTA);
	assert_true(r.end.size >= 40000);
	assert_int_equal(r.end.used, u.bytes + r.end.size);
	assert_int_equal(mode_of(ws, "big"), 0);
	uint64_t need = r.end.size;
	assert_int_equal(merge(".", u.bytes + need, conflict).end.code, FILE_OK);
	/* Again: what is replaced makes room. */
	assert_int_equal(merge(".", u.bytes + need, conflict).end.code, FILE_OK);
}

static void merging_holds_the_number_of_names(void **state)
{
	char conflict[256];

	(void)state;
	make_source();
	make_dir(ws, "to");
	make_dir(ws, "to/d");
	put(ws, "to/l", "x");
	file_inodes_max = 4 + 3;
	assert_int_equal(merge("to", 1 << 30, conflict).end.code, FILE_OK);
	assert_int_equal(count_entries(ws), file_inodes_max);
	/* The folders of its own path too. */
	file_inodes_max += 5 + 1;
	assert_int_equal(merge("to/new/folder/", 1 << 30, conflict).end.code, FILE_ERR_INODES);
	assert_int_equal(mode_of(ws, "to/new"), 0);
	file_inodes_max++;
	assert_int_equal(merge("to/new/folder/", 1 << 30, conflict).end.code, FILE_OK);
	assert_int_equal(count_entries(ws), file_inodes_max);
}

static void merging_refusals_have_their_codes(void **state)
{
	char conflict[256];

	(void)state;
	make_source();
	put(ws, "f", "x");
	make_link("../wsx", ws, "out");
	assert_int_equal(merge("f", 0, conflict).end.code, FILE_ERR_NOT_FOLDER);
	assert_int_equal(merge("f/x", 0, conflict).end.code, FILE_ERR_NOT_IN_FOLDER);
	assert_int_equal(merge("out", 0, conflict).end.code, FILE_ERR_OUTSIDE);
	assert_int_equal(merge("out/x", 0, conflict).end.code, FILE_ERR_OUTSIDE);
	assert_int_equal(merge("../wsx", 0, conflict).end.code, FILE_ERR_OUTSIDE);
	int kept = source;
	source = -1;
	assert_int_equal(merge(".", 0, conflict).end.errno_code, EINVAL);
	source = kept;
	assert_int_equal(count_entries(ws), 3);
	assert_int_equal(count_entries(outside), 1);
}

static void a_deep_source_is_merged(void **state)
{
	char conflict[256];

	(void)state;
	make_chain(source, 600);
	assert_int_equal(merge("x", 0, conflict).end.code, FILE_OK);
	assert_int_equal(merge("x", 0, conflict).end.code, FILE_OK);
	assert_int_equal(count_entries(ws), 2 + 3 * 600);
}

static void a_sparse_file_stays_sparse(void **state)
{
	char conflict[256];
	struct stat st;

	(void)state;
	put(source, "s", "begin");
	_cleanup_fd_ int fd = openat(source, "s", O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "middle", 6, 1 << 20), 6);
	assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
	assert_int_equal(merge(".", 0, conflict).end.code, FILE_OK);
	assert_int_equal(fstatat(ws, "s", &st, 0), 0);
	assert_int_equal(st.st_size, (off_t)1 << 40);
	assert_true(st.st_blocks < 1000);
	check(ws, "s", "begin");
}

static void merge_into_locked(void)
{
	char conflict[256];

	make_dir(ws, "d");
	put(ws, "d/old", "x");
	REQUIRE(fchmodat(ws, "d", 0555, 0) == 0);
	REQUIRE(merge(".", 0, conflict).end.code == FILE_OK);
	REQUIRE(mode_of(ws, "d") == (S_IFDIR | 0555));
	REQUIRE(mode_of(ws, "d/g") == (S_IFREG | 0745));
	REQUIRE(mode_of(ws, "d/e") == (S_IFDIR | 0555));
	REQUIRE(mode_of(ws, "d/e/f") != 0);
}

static void merging_into_read_only_folders_keeps_their_mode(void **state)
{
	(void)state;
	make_source();
	assert_int_equal(fchmodat(source, "d/g", 0745, 0), 0);
	as_tenant(merge_into_locked);
}

static void swapping_during_a_merge_never_writes_outside(void **state)
{
	char conflict[256];

	(void)state;
	make_source();
	make_dir(outside, "d");
	int before = count_entries(outside);
	make_dir(ws, "d");
	make_link("../wsx/d", ws, "other");
	pid_t pid = start_swapper(ws, "d", "other");
	for (int i = 0; i < 300; i++) {
		merge(".", 0, conflict);
		assert_int_equal(count_entries(outside), before);
	}
	stop(pid);
}

/* ---- writes of unknown size ------------------------------------------------------------------ */

static struct result write_unknown(const char *text, uint64_t max, uint64_t quota,
				   const struct say *says, size_t n, size_t *ret_left)
{
	const struct di_file ask = { .op = FILE_WRITE,
				     .mode = 0644,
				     .size = FILE_SIZE_UNKNOWN,
				     .max = max,
				     .quota = quota };
	_cleanup_fd_ int spec = spec_of("f", 2), pipe = make_pipe_file();

	assert_int_equal(pwrite(pipe, text, strlen(text), 0), strlen(text));
	return job_with(&ask, spec, pipe, says, n, ret_left);
}

static void a_commit_with_the_right_size_makes_the_file(void **state)
{
	const struct say says[] = {
		{ DI_COMMIT, RIG_ID - 1, 7 }, /* of an earlier job */
		{ DI_COMMIT, RIG_ID, 5 },
	};
	size_t left;

	(void)state;
	struct result r = write_unknown("hello", 100, 0, says, 2, &left);
	assert_int_equal(r.end.code, FILE_OK);
	assert_int_equal(r.end.size, 5);
	assert_int_equal(r.end.mode, 0644);
	assert_int_equal(left, 0);
	check(ws, "f", "hello");
}

static void without_its_commit_nothing_changes(void **state)
{
	const struct {
		struct say say;
		size_t n, left;
	} rows[] = {
		{ { DI_COMMIT, RIG_ID, 4 }, 1, 0 },
		{ { DI_COMMIT, RIG_ID, FILE_SIZE_UNKNOWN }, 1, 0 },
		{ { DI_COMMIT, RIG_ID + 1, 5 }, 1, 0 },
		{ { DI_END, 0, 0 }, 1, 1 },
		{ { 0, 0, 0 }, 0, 0 },
	};
	size_t left;

	(void)state;
	file_pause_ms = 20;
	put(ws, "f", "before");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct result r = write_unknown("hello", 100, 0, &rows[i].say, rows[i].n, &left);
		assert_int_equal(r.end.code, FILE_ERR_SHORT);
		assert_int_equal(left, rows[i].left);
		check(ws, "f", "before");
		assert_int_equal(count_entries(ws), 2);
	}
}

static void an_unknown_size_is_held_to_max_and_quota(void **state)
{
	const struct say commit = { DI_COMMIT, RIG_ID, 5 };
	struct file_usage u;
	size_t left;

	(void)state;
	struct result r = write_unknown("hello", 4, 0, &commit, 1, &left);
	assert_int_equal(r.end.code, FILE_ERR_TOO_LARGE);
	assert_int_equal(file_usage(ws, &u), 0);
	r = write_unknown("hello", 100, u.bytes + 4, &commit, 1, &left);
	assert_int_equal(r.end.code, FILE_ERR_QUOTA);
	assert_int_equal(r.end.used, u.bytes + 5);
	assert_int_equal(count_entries(ws), 1);
	r = write_unknown("hello", 5, u.bytes + 5, &commit, 1, &left);
	assert_int_equal(r.end.code, FILE_OK);
}

static void no_descriptor_stays_open(void **state)
{
	static struct page p;
	char conflict[256];
	size_t left;

	(void)state;
	int before = dup(0);
	close(before);
	make_source();
	make_small_tree();
	make_chain(ws, 40);
	list_into(&p, "t", "a/d", 16, 3);
	page_free(&p);
	list_into(&p, ".", "", 16, 1000);
	page_free(&p);
	merge(".", 0, conflict);
	merge("t/a0", 0, conflict);
	put(ws, "q", "x");
	make_dir(ws, "full");
	put(ws, "full/l", "x");
	make_dir(ws, "full/d");
	put(ws, "full/d/e", "x");
	merge("full", 0, conflict);
	merge("new/one", 1, conflict);
	move(0, "q", "x/y");
	move(0, "q", "x/y");
	move(0, "t/a0", "t");
	simple(FILE_MKDIR, 0, "t/a0/x");
	simple(FILE_MKDIR, 0, "1/2/3");
	simple(FILE_REMOVE, 0, "t");
	simple(FILE_REMOVE, FILE_RECURSIVE, "t/a");
	simple(FILE_TRIM, 0, "full");
	simple(FILE_TRIM, 0, ".");
	file_pause_ms = 20;
	write_unknown("x", 9, 0, NULL, 0, &left);
	int after = dup(0);
	close(after);
	assert_int_equal(before, after);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_listing_is_in_the_byte_order_of_paths),
		T(a_listing_tells_kind_size_time_and_target),
		T(names_of_ours_are_hidden_at_the_top_alone),
		T(long_and_odd_names_are_listed_whole),
		T(listing_refusals_have_their_codes),
		T(pages_join_to_the_whole),
		T(swapping_during_a_listing_never_leads_outside),
		T(removing_has_its_codes_and_counts),
		T(a_tree_deeper_than_any_path_is_removed),
		T(a_tree_deeper_than_a_walk_is_removed),
		T(many_files_are_removed),
		T(folders_of_ones_own_without_rights_are_removed),
		T(swapping_during_a_removal_never_removes_outside),
		T(moving_has_its_codes),
		T(a_read_only_folder_can_be_moved_and_keeps_its_mode),
		T(making_folders_has_its_codes),
		T(trimming_to_a_folder_leaves_its_contents_at_the_top),
		T(trimming_to_the_top_removes_names_of_ours_alone),
		T(trimming_moves_read_only_folders_as_they_are),
		T(trimming_moves_many_names),
		T(merging_replaces_files_and_joins_folders),
		T(what_replaces_has_its_name_at_the_top_first),
		T(a_closed_top_is_no_hindrance),
		T(a_conflict_changes_nothing_and_is_named),
		T(of_a_long_path_in_the_way_the_beginning_is_named),
		T(merging_holds_the_quota),
		T(merging_holds_the_number_of_names),
		T(merging_refusals_have_their_codes),
		T(a_deep_source_is_merged),
		T(a_sparse_file_stays_sparse),
		T(merging_into_read_only_folders_keeps_their_mode),
		T(swapping_during_a_merge_never_writes_outside),
		T(a_commit_with_the_right_size_makes_the_file),
		T(without_its_commit_nothing_changes),
		T(an_unknown_size_is_held_to_max_and_quota),
		T(no_descriptor_stays_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
