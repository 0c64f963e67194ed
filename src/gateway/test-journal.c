// SPDX-License-Identifier: Apache-2.0
#include "gateway/journal.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "gateway/logs.h"

#define SESSION "sbx_0123456789ab"

struct rig {
	uv_loop_t loop;
	struct gateway g;
	char dir[64];
	struct journal *j;
};

/* Of control.c. */
void control_count(struct gateway *g, enum egress_code code)
{
	g->counted[code]++;
}

int __real_fstatvfs64(int fd, struct statvfs *ret);
int __wrap_fstatvfs64(int fd, struct statvfs *ret);
static unsigned long free_of_1000; /* blocks; 0: as it is */
static unsigned looks;

int __wrap_fstatvfs64(int fd, struct statvfs *ret)
{
	int r = __real_fstatvfs64(fd, ret);

	looks++;
	if (free_of_1000) {
		ret->f_blocks = 1000;
		ret->f_bavail = free_of_1000;
	}
	return r;
}

int __real_fstatat64(int dir, const char *name, struct stat *ret, int flags);
int __wrap_fstatat64(int dir, const char *name, struct stat *ret, int flags);
static int64_t look_us; /* how long it takes to look at a file */

int __wrap_fstatat64(int dir, const char *name, struct stat *ret, int flags)
{
	clock_fake_advance(look_us);
	return __real_fstatat64(dir, name, ret, flags);
}

static int setup(void **state)
{
	struct rig *r = mem_new(1, sizeof(*r));

	snprintf(r->dir, sizeof(r->dir), "/tmp/airlock-test-journal-XXXXXX");
	assert_non_null(mkdtemp(r->dir));
	uv_loop_init(&r->loop);
	r->g.loop = &r->loop;
	/* A minute lasts 60 ms. */
	r->g.hurry = 1000;
	r->g.options.log_days = 30;
	list_init(&r->g.sessions);
	task_queue_init(&r->g.tasks, &r->loop);
	r->g.log_dir = open(r->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	r->g.logs = logs_new(&r->g);
	r->j = journal_new(&r->g, SESSION, "acme");
	clock_fake(1000000000, 1700000000000000);
	free_of_1000 = 500;
	looks = 0;
	look_us = 0;
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	struct rig *r = *state;

	if (r->j)
		journal_close(r->j);
	logs_free(r->g.logs);
	task_queue_close(&r->g.tasks, NULL);
	uv_run(&r->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&r->loop), 0);
	_cleanup_free_ char *file = mem_printf("%s/" SESSION ".jsonl", r->dir);
	unlink(file);
	fd_close(&r->g.log_dir);
	assert_int_equal(rmdir(r->dir), 0);
	free(r);
	return 0;
}

/* The file, NUL-terminated. */
static char *text_of(const struct rig *r)
{
	_cleanup_free_ char *path = mem_printf("%s/" SESSION ".jsonl", r->dir);
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st = { 0 };

	if (fd < 0)
		return mem_dup("");
	assert_int_equal(fstat(fd, &st), 0);
	char *text = mem_new(1, (size_t)st.st_size + 1);
	assert_int_equal(read(fd, text, (size_t)st.st_size), st.st_size);
	return text;
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (; (text = strstr(text, what)); text += strlen(what))
		n++;
	return n;
}

/* Sum of all "repeat". */
static unsigned long repeats(const char *text)
{
	unsigned long n = 0;

	for (; (text = strstr(text, "\"repeat\":")); text++)
		n += strtoul(text + 9, NULL, 10);
	return n;
}

static bool deny(struct rig *r, enum egress_via via, const char *host)
{
	struct egress_event e = { .code = EGRESS_NO_RULE,
				  .via = via,
				  .host = host,
				  .port = via == EGRESS_DNS ? -1 : 443,
				  .reason = "host not on allowlist" };

	return journal_write(r->j, &e);
}

static void run_for(struct rig *r)
{
	/* Until the window's timer has fired. */
	uv_run(&r->loop, UV_RUN_DEFAULT);
}

static void nothing_is_made_before_the_first_event(void **state)
{
	struct rig *r = *state;
	_cleanup_free_ char *path = mem_printf("%s/" SESSION ".jsonl", r->dir);
	struct stat st;

	assert_int_equal(stat(path, &st), -1);
	assert_true(deny(r, EGRESS_PROXY, "x.test"));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
}

static void equal_denials_are_counted_beyond_a_hundred(void **state)
{
	struct rig *r = *state;

	for (int i = 0; i < 5000; i++)
		assert_true(deny(r, EGRESS_PROXY, "x.test"));
	for (int i = 0; i < 7; i++)
		assert_true(deny(r, EGRESS_PROXY, "y.test"));
	run_for(r);
	_cleanup_free_ char *text = text_of(r);
	assert_int_equal(count(text, "\"host\":\"x.test\""), JOURNAL_SAME_MAX + 1);
	assert_int_equal(count(text, "\"host\":\"y.test\""), 7);
	assert_int_equal(repeats(text), 5000 - JOURNAL_SAME_MAX);
}

static void the_next_minute_begins_anew(void **state)
{
	struct rig *r = *state;

	for (int i = 0; i < 150; i++)
		deny(r, EGRESS_PROXY, "x.test");
	run_for(r);
	for (int i = 0; i < 50; i++)
		deny(r, EGRESS_PROXY, "x.test");
	_cleanup_free_ char *text = text_of(r);
	assert_int_equal(count(text, "\"host\":\"x.test\""), JOURNAL_SAME_MAX + 1 + 50);
	assert_int_equal(repeats(text), 50);
}

/* Names that are all different: lines are bounded too, and every attempt is in one count. */
static void different_denials_are_bounded_and_counted(void **state)
{
	struct rig *r = *state;
	char host[64];

	for (int i = 0; i < 20000; i++) {
		snprintf(host, sizeof(host), "h%d.test", i);
		assert_true(deny(r, EGRESS_PROXY, host));
	}
	run_for(r);
	_cleanup_free_ char *text = text_of(r);
	unsigned lines = count(text, "\n"), counted = count(text, "\"repeat\"");
	assert_true(lines <= JOURNAL_DENIALS_MAX + JOURNAL_KINDS);
	assert_int_equal(lines - counted + repeats(text), 20000);
}

static void a_refused_name_has_one_line_a_minute(void **state)
{
	struct rig *r = *state;

	for (int i = 0; i < 300; i++)
		assert_true(deny(r, EGRESS_DNS, "x.test"));
	deny(r, EGRESS_DNS, "y.test");
	deny(r, EGRESS_PROXY, "x.test");
	run_for(r);
	deny(r, EGRESS_DNS, "x.test");
	_cleanup_free_ char *text = text_of(r);
	assert_int_equal(count(text, "\"via\":\"dns\""), 3);
	assert_int_equal(count(text, "\"via\":\"proxy\""), 1);
	assert_int_equal(count(text, "\"repeat\""), 0);
}

static void every_attempt_counts_once_whatever_is_written_of_it(void **state)
{
	struct rig *r = *state;
	struct egress_event e = { .via = EGRESS_PROXY, .host = "x.test", .port = 443, .conn = 1 };

	e.open = true;
	assert_true(journal_write(r->j, &e));
	e.open = false;
	e.closed = true;
	assert_true(journal_write(r->j, &e));
	for (int i = 0; i < 300; i++) {
		deny(r, EGRESS_PROXY, "x.test");
		deny(r, EGRESS_DNS, "x.test");
	}
	assert_int_equal(r->g.counted[EGRESS_OK], 1);
	assert_int_equal(r->g.counted[EGRESS_NO_RULE], 600);
}

static void the_end_of_a_session_writes_what_was_counted(void **state)
{
	struct rig *r = *state;

	for (int i = 0; i < 250; i++)
		deny(r, EGRESS_PROXY, "x.test");
	journal_close(take_ptr(r->j));
	_cleanup_free_ char *text = text_of(r);
	assert_int_equal(repeats(text), 150);
}

static struct egress_event allowed(uint64_t conn)
{
	return (struct egress_event){ .via = EGRESS_PROXY,
				      .host = "x.test",
				      .port = 443,
				      .conn = conn,
				      .open = true,
				      .dialled = true };
}

static void what_cannot_be_written_is_said(void **state)
{
	struct rig *r = *state;

	if (geteuid() != 0) {
		print_message("skipped: needs root to mount a small file system\n");
		skip();
	}
	if (mount("tmpfs", r->dir, "tmpfs", 0, "size=4k,nr_inodes=8") < 0)
		skip();
	fd_close(&r->g.log_dir);
	r->g.log_dir = open(r->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	unsigned written = 0;
	for (uint64_t i = 1; i < 100; i++) {
		struct egress_event e = allowed(i);
		written += journal_write(r->j, &e);
	}
	_cleanup_free_ char *text = text_of(r);
	/* Whole lines alone: what did not fit was taken back. */
	assert_in_range(written, 1, 98);
	assert_int_equal(count(text, "\n"), written);
	assert_int_equal(text[strlen(text) - 1], '\n');
	journal_close(take_ptr(r->j));
	fd_close(&r->g.log_dir);
	assert_int_equal(umount2(r->dir, MNT_DETACH), 0);
}

static void make_file(struct rig *r, const char *text, off_t size)
{
	_cleanup_free_ char *path = mem_printf("%s/" SESSION ".jsonl", r->dir);
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0640);

	assert_int_equal(ftruncate(fd, size), 0);
	assert_int_equal(pwrite(fd, text, strlen(text), size), strlen(text));
}

static void a_full_file_takes_no_new_connection(void **state)
{
	struct rig *r = *state;
	_cleanup_free_ char *path = mem_printf("%s/" SESSION ".jsonl", r->dir);
	struct egress_event e = allowed(1);
	struct stat before, after;

	make_file(r, "\n", JOURNAL_FULL);
	assert_int_equal(stat(path, &before), 0);
	assert_false(journal_write(r->j, &e));
	for (int i = 0; i < 1000; i++) {
		_cleanup_free_ char *host = mem_printf("n%d.test", i);
		assert_true(deny(r, EGRESS_PROXY, host));
	}
	e.open = false;
	e.closed = true;
	assert_true(journal_write(r->j, &e));
	run_for(r);
	assert_int_equal(stat(path, &after), 0);
	/* The end of a connection, and one count. */
	assert_in_range(after.st_size - before.st_size, 100, 1000);
}

static void with_little_room_denials_are_counted_only(void **state)
{
	struct rig *r = *state;

	free_of_1000 = 49;
	for (int i = 0; i < 300; i++) {
		_cleanup_free_ char *host = mem_printf("n%d.test", i);
		assert_true(deny(r, EGRESS_PROXY, host));
	}
	for (int i = 0; i < 200; i++)
		assert_true(deny(r, EGRESS_DNS, "x.test"));
	for (uint64_t i = 1; i <= 5; i++) {
		struct egress_event e = allowed(i);
		assert_true(journal_write(r->j, &e));
	}
	assert_int_equal(r->g.counted[EGRESS_NO_RULE], 500);
	journal_close(take_ptr(r->j));
	_cleanup_free_ char *text = text_of(r);
	assert_int_equal(count(text, "\"decision\":\"allow\""), 5);
	assert_int_equal(count(text, "\"decision\":\"deny\""), 2);
	assert_int_equal(count(text, "\"repeat\":300"), 1);
	assert_int_equal(count(text, "\"repeat\":200"), 1);
	assert_int_equal(count(text, "n1.test"), 0);
}

static void one_in_twenty_is_room(void **state)
{
	struct rig *r = *state;

	free_of_1000 = 50;
	assert_true(deny(r, EGRESS_PROXY, "x.test"));
	_cleanup_free_ char *text = text_of(r);
	assert_int_equal(count(text, "x.test"), 1);
}

static void room_is_looked_at_once_a_second(void **state)
{
	struct rig *r = *state;

	assert_true(deny(r, EGRESS_PROXY, "a.test"));
	free_of_1000 = 1;
	clock_fake_advance(INT64_C(999) * 1000);
	for (int i = 0; i < 50; i++)
		assert_true(deny(r, EGRESS_PROXY, "b.test"));
	assert_int_equal(looks, 1);
	clock_fake_advance(1000);
	for (int i = 0; i < 50; i++)
		assert_true(deny(r, EGRESS_PROXY, "c.test"));
	assert_int_equal(looks, 2);
	free_of_1000 = 500;
	clock_fake_advance(INT64_C(1000) * 1000);
	assert_true(deny(r, EGRESS_PROXY, "d.test"));
	journal_close(take_ptr(r->j));
	_cleanup_free_ char *text = text_of(r);
	assert_int_equal(count(text, "a.test"), 1);
	assert_int_equal(count(text, "b.test"), 50);
	assert_int_equal(count(text, "c.test"), 0);
	assert_int_equal(count(text, "d.test"), 1);
	assert_int_equal(repeats(text), 50);
}

static void half_a_line_does_not_take_the_next_with_it(void **state)
{
	struct rig *r = *state;

	make_file(r, "{\"ts\":1", 0);
	assert_true(deny(r, EGRESS_PROXY, "x.test"));
	_cleanup_free_ char *text = text_of(r);
	assert_non_null(strstr(text, "{\"ts\":1\n{\"ts\":"));
}

static void a_link_in_its_place_is_not_followed(void **state)
{
	struct rig *r = *state;
	_cleanup_free_ char *path = mem_printf("%s/" SESSION ".jsonl", r->dir);
	struct egress_event e = allowed(1);

	assert_int_equal(symlink("/tmp/airlock-test-elsewhere", path), 0);
	assert_false(journal_write(r->j, &e));
	assert_int_equal(access("/tmp/airlock-test-elsewhere", F_OK), -1);
}

static void make_in(const struct rig *r, const char *name, bool old)
{
	static const struct timespec long_ago[2] = { { .tv_sec = 1000000 }, { .tv_sec = 1000000 } };
	_cleanup_free_ char *path = mem_printf("%s/%s", r->dir, name);
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0640);

	assert_true(fd >= 0);
	if (old)
		assert_int_equal(futimens(fd, long_ago), 0);
}

static bool is_there(const struct rig *r, const char *name)
{
	_cleanup_free_ char *path = mem_printf("%s/%s", r->dir, name);

	return access(path, F_OK) == 0;
}

static void take_away(const struct rig *r, const char *name)
{
	_cleanup_free_ char *path = mem_printf("%s/%s", r->dir, name);

	assert_int_equal(unlink(path), 0);
}

static void old_files_go_and_others_stay(void **state)
{
	struct rig *r = *state;
	struct session live = { .id = "sbx_live" };

	list_append(&r->g.sessions, &live.node);
	make_in(r, "sbx_old.jsonl", true);
	make_in(r, "sbx_live.jsonl", true);
	make_in(r, "sbx_new.jsonl", false);
	make_in(r, "other.txt", true);
	logs_sweep(r->g.logs);
	uv_run(&r->loop, UV_RUN_DEFAULT);
	assert_false(is_there(r, "sbx_old.jsonl"));
	take_away(r, "sbx_live.jsonl");
	take_away(r, "sbx_new.jsonl");
	take_away(r, "other.txt");
}

static unsigned old_ones(const struct rig *r, unsigned n)
{
	unsigned there = 0;

	for (unsigned i = 0; i < n; i++) {
		_cleanup_free_ char *name = mem_printf("sbx_%u.jsonl", i);
		there += is_there(r, name);
	}
	return there;
}

static void make_old_ones(const struct rig *r, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		_cleanup_free_ char *name = mem_printf("sbx_%u.jsonl", i);
		make_in(r, name, true);
	}
}

/* Sockets are looked at between them. */
static void each_turn_of_the_loop_sweeps_some(void **state)
{
	struct rig *r = *state;
	unsigned n = 2 * LOGS_STEP + 500, there = n, turns = 0;

	make_old_ones(r, n);
	logs_sweep(r->g.logs);
	logs_sweep(r->g.logs);
	assert_int_equal(old_ones(r, n), n);
	for (; there && turns < 10; turns++) {
		uv_run(&r->loop, UV_RUN_NOWAIT);
		unsigned left = old_ones(r, n);
		assert_true(there - left <= LOGS_STEP);
		there = left;
	}
	assert_int_equal(there, 0);
	assert_in_range(turns, 3, 4);
	/* The next one begins at the beginning. */
	uv_run(&r->loop, UV_RUN_DEFAULT);
	make_old_ones(r, 1);
	logs_sweep(r->g.logs);
	uv_run(&r->loop, UV_RUN_DEFAULT);
	assert_int_equal(old_ones(r, 1), 0);
}

static void a_slow_disk_makes_shorter_steps(void **state)
{
	struct rig *r = *state;
	unsigned n = 20;

	make_old_ones(r, n);
	look_us = 1000;
	logs_sweep(r->g.logs);
	uv_run(&r->loop, UV_RUN_NOWAIT);
	assert_int_equal(old_ones(r, n), n - LOGS_STEP_MS);
	uv_run(&r->loop, UV_RUN_DEFAULT);
	assert_int_equal(old_ones(r, n), 0);
}

static void a_sweep_ends_with_the_gateway(void **state)
{
	struct rig *r = *state;
	unsigned n = LOGS_STEP + 1;

	make_old_ones(r, n);
	logs_sweep(r->g.logs);
	uv_run(&r->loop, UV_RUN_NOWAIT);
	journal_close(take_ptr(r->j));
	logs_free(take_ptr(r->g.logs));
	uv_run(&r->loop, UV_RUN_DEFAULT);
	assert_true(old_ones(r, n) > 0);
	for (unsigned i = 0; i < n; i++) {
		_cleanup_free_ char *name = mem_printf("sbx_%u.jsonl", i);
		if (is_there(r, name))
			take_away(r, name);
	}
}

#define LINE(tenant) \
	"{\"ts\":1.000,\"decision\":\"deny\",\"session\":\"sbx_other\",\"tenant\":\"" tenant \
	"\",\"host\":\"x.test\"}\n"
#define OTHER "sbx_other.jsonl"

/* A file of so many bytes that begins so. */
static void make_large(const struct rig *r, const char *name, const char *text, uint64_t size)
{
	_cleanup_free_ char *path = mem_printf("%s/%s", r->dir, name);
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0640);

	assert_int_equal(pwrite(fd, text, strlen(text), 0), strlen(text));
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
}

static void sweep(struct rig *r)
{
	logs_sweep(r->g.logs);
	uv_run(&r->loop, UV_RUN_DEFAULT);
}

static bool may_connect(struct rig *r)
{
	struct egress_event e = allowed(1);

	return journal_write(r->j, &e);
}

static void of_a_tenant_with_much_denials_are_counted_only(void **state)
{
	struct rig *r = *state;

	make_large(r, OTHER, LINE("acme"), JOURNAL_TENANT_MAX);
	sweep(r);
	for (int i = 0; i < 300; i++) {
		_cleanup_free_ char *host = mem_printf("n%d.test", i);
		assert_true(deny(r, EGRESS_PROXY, host));
	}
	assert_true(may_connect(r));
	journal_close(take_ptr(r->j));
	_cleanup_free_ char *text = text_of(r);
	assert_int_equal(count(text, "\n"), 2);
	assert_int_equal(repeats(text), 300);
	take_away(r, OTHER);
}

static void a_tenant_with_too_much_has_no_new_connection(void **state)
{
	struct rig *r = *state;
	struct egress_event e = allowed(1);

	make_large(r, OTHER, LINE("acme"), JOURNAL_TENANT_SHUT - LOGS_PAGE);
	sweep(r);
	assert_true(journal_write(r->j, &e));
	e = allowed(2);
	assert_false(journal_write(r->j, &e));
	for (int i = 0; i < 300; i++) {
		_cleanup_free_ char *host = mem_printf("n%d.test", i);
		assert_true(deny(r, EGRESS_PROXY, host));
	}
	e = allowed(1);
	e.open = false;
	e.closed = true;
	assert_true(journal_write(r->j, &e));
	journal_close(take_ptr(r->j));
	_cleanup_free_ char *text = text_of(r);
	assert_int_equal(count(text, "\n"), 3);
	assert_int_equal(repeats(text), 300);
	take_away(r, OTHER);
}

static void what_one_tenant_has_is_nothing_to_another(void **state)
{
	struct rig *r = *state;

	make_large(r, OTHER, LINE("acm"), JOURNAL_TENANT_FULL);
	make_large(r, "sbx_more.jsonl", LINE("acmee"), JOURNAL_TENANT_FULL);
	sweep(r);
	assert_true(may_connect(r));
	assert_true(deny(r, EGRESS_PROXY, "y.test"));
	_cleanup_free_ char *text = text_of(r);
	assert_int_equal(count(text, "\n"), 2);
	take_away(r, OTHER);
	take_away(r, "sbx_more.jsonl");
}

static void all_files_of_a_tenant_count(void **state)
{
	struct rig *r = *state;

	make_large(r, OTHER, LINE("acme"), JOURNAL_TENANT_SHUT / 2);
	make_large(r, "sbx_more.jsonl", LINE("acme"), JOURNAL_TENANT_SHUT / 2 - LOGS_PAGE);
	/* Half a line at its beginning; a page for one byte. */
	make_large(r, "sbx_torn.jsonl", "{\"ts\":1\n" LINE("acme"), 200);
	sweep(r);
	assert_false(may_connect(r));
	take_away(r, OTHER);
	take_away(r, "sbx_more.jsonl");
	take_away(r, "sbx_torn.jsonl");
}

static void files_that_are_no_logs_do_not_count(void **state)
{
	struct rig *r = *state;
	_cleanup_free_ char *link = mem_printf("%s/sbx_link.jsonl", r->dir);
	_cleanup_free_ char *fifo = mem_printf("%s/sbx_fifo.jsonl", r->dir);

	make_large(r, "notes.txt", LINE("acme"), JOURNAL_TENANT_SHUT);
	make_large(r, OTHER, "nothing", JOURNAL_TENANT_SHUT);
	assert_int_equal(symlink("notes.txt", link), 0);
	assert_int_equal(mkfifo(fifo, 0640), 0);
	sweep(r);
	assert_true(may_connect(r));
	take_away(r, "notes.txt");
	take_away(r, OTHER);
	unlink(link);
	unlink(fifo);
}

static void a_tenant_with_far_too_much_has_not_even_counts(void **state)
{
	struct rig *r = *state;

	make_large(r, OTHER, LINE("acme"), JOURNAL_TENANT_FULL);
	sweep(r);
	for (int i = 0; i < 300; i++)
		assert_true(deny(r, EGRESS_PROXY, "x.test"));
	assert_false(may_connect(r));
	assert_int_equal(r->g.counted[EGRESS_NO_RULE], 300);
	journal_close(take_ptr(r->j));
	assert_false(is_there(r, SESSION ".jsonl"));
	take_away(r, OTHER);
}

static void what_is_swept_counts_no_more(void **state)
{
	static const struct timespec long_ago[2] = { { .tv_sec = 1000000 }, { .tv_sec = 1000000 } };
	struct rig *r = *state;
	_cleanup_free_ char *path = mem_printf("%s/" OTHER, r->dir);

	make_large(r, OTHER, LINE("acme"), JOURNAL_TENANT_SHUT);
	sweep(r);
	assert_false(may_connect(r));
	assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
	sweep(r);
	assert_false(is_there(r, OTHER));
	assert_true(may_connect(r));
	/* And is not there for a gateway that comes afterwards. */
	make_large(r, OTHER, LINE("acme"), JOURNAL_TENANT_SHUT);
	assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
	journal_close(take_ptr(r->j));
	logs_free(r->g.logs);
	r->g.logs = logs_new(&r->g);
	r->j = journal_new(&r->g, SESSION, "acme");
	sweep(r);
	assert_true(may_connect(r));
}

static void what_others_took_away_is_found_out(void **state)
{
	struct rig *r = *state;

	make_large(r, OTHER, LINE("acme"), JOURNAL_TENANT_SHUT);
	sweep(r);
	take_away(r, OTHER);
	for (unsigned i = 1; i < LOGS_COUNT_EVERY; i++)
		sweep(r);
	assert_false(may_connect(r));
	sweep(r);
	assert_true(may_connect(r));
}

static void what_is_written_while_it_is_counted_counts(void **state)
{
	struct rig *r = *state;

	make_old_ones(r, LOGS_STEP + 100);
	make_large(r, OTHER, LINE("acme"), JOURNAL_TENANT_SHUT - LOGS_PAGE);
	logs_sweep(r->g.logs);
	uv_run(&r->loop, UV_RUN_NOWAIT);
	assert_true(may_connect(r));
	uv_run(&r->loop, UV_RUN_DEFAULT);
	assert_false(may_connect(r));
	take_away(r, OTHER);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(nothing_is_made_before_the_first_event),
		T(equal_denials_are_counted_beyond_a_hundred),
		T(the_next_minute_begins_anew),
		T(different_denials_are_bounded_and_counted),
		T(a_refused_name_has_one_line_a_minute),
		T(every_attempt_counts_once_whatever_is_written_of_it),
		T(the_end_of_a_session_writes_what_was_counted),
		T(what_cannot_be_written_is_said),
		T(a_full_file_takes_no_new_connection),
		T(with_little_room_denials_are_counted_only),
		T(one_in_twenty_is_room),
		T(room_is_looked_at_once_a_second),
		T(half_a_line_does_not_take_the_next_with_it),
		T(a_link_in_its_place_is_not_followed),
		T(old_files_go_and_others_stay),
		T(each_turn_of_the_loop_sweeps_some),
		T(a_slow_disk_makes_shorter_steps),
		T(a_sweep_ends_with_the_gateway),
		T(of_a_tenant_with_much_denials_are_counted_only),
		T(a_tenant_with_too_much_has_no_new_connection),
		T(what_one_tenant_has_is_nothing_to_another),
		T(all_files_of_a_tenant_count),
		T(files_that_are_no_logs_do_not_count),
		T(a_tenant_with_far_too_much_has_not_even_counts),
		T(what_is_swept_counts_no_more),
		T(what_others_took_away_is_found_out),
		T(what_is_written_while_it_is_counted_counts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
