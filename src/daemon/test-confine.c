// SPDX-License-Identifier: Apache-2.0
#include "sandbox/confine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/mem.h"
#include "sandbox/filter.h"
#include "store/store.h"

#define NOBODY 65534

/* ---- Children: exit status 0 is success, else the line that failed ---- */

#define MUST(cond) \
	do { \
		if (!(cond)) \
			_exit(__LINE__ % 250 + 1); \
	} while (0)

static void become_nobody(void)
{
	MUST(setgroups(0, NULL) == 0);
	MUST(setresgid(NOBODY, NOBODY, NOBODY) == 0);
	MUST(setresuid(NOBODY, NOBODY, NOBODY) == 0);
}

static int in_child(void (*body)(const char *dir), const char *dir)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		body(dir);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int confine_state(const char *dir, struct err *err)
{
	const struct confine_dir only = { .path = dir };

	return confine_files(&only, 1, NULL, 0, false, err);
}

static int setup(void **state)
{
	static char dir[] = "/tmp/airlock-test-confine-XXXXXX";

	if (geteuid() != 0)
		return 0;
	memcpy(dir + sizeof(dir) - 7, "XXXXXX", 6);
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chown(dir, NOBODY, NOBODY), 0);
	*state = dir;
	return 0;
}

static int teardown(void **state)
{
	static const char *const names[] = { "airlock.db", "airlock.db-wal", "airlock.db-shm",
					     "egress/sbx_0123456789ab.jsonl" };
	static const char *const folders[] = { "egress", "state" };
	const char *dir = *state;

	for (size_t i = 0; dir && i < ARRAY_SIZE(names); i++) {
		_cleanup_free_ char *path = mem_printf("%s/%s", dir, names[i]);
		unlink(path);
	}
	for (size_t i = 0; dir && i < ARRAY_SIZE(folders); i++) {
		_cleanup_free_ char *path = mem_printf("%s/%s", dir, folders[i]);
		rmdir(path);
	}
	if (dir)
		assert_int_equal(rmdir(dir), 0);
	return 0;
}

static void need_root(void **state)
{
	if (!*state) {
		print_message("skipped: needs root to become nobody\n");
		skip();
	}
}

/* ---- Identity ---- */

static void as_root(const char *dir)
{
	struct err err;

	MUST(confine_identity("airlockd", &err) == -EPERM);
	MUST(strcmp(err.text, "airlockd must not run as root") == 0);
}

static void with_saved_root(const char *dir)
{
	struct err err;

	MUST(setresgid(NOBODY, NOBODY, NOBODY) == 0);
	MUST(setresuid(NOBODY, NOBODY, 0) == 0);
	MUST(confine_identity("airlockd", &err) == -EPERM);
}

static void with_a_capability(const char *dir)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2] = { { .permitted = 1u << CAP_NET_BIND_SERVICE } };
	struct err err;

	MUST(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0);
	become_nobody();
	MUST(syscall(SYS_capset, &head, sets) == 0);
	MUST(confine_identity("airlockd", &err) == -EPERM);
	MUST(strcmp(err.text, "airlockd must not hold a capability") == 0);
}

static void as_nobody(const char *dir)
{
	struct rlimit core;
	struct err err;

	become_nobody();
	MUST(confine_identity("airlockd", &err) == 0);
	MUST(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	MUST(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0);
	MUST(getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_max == 0);
}

static void root_and_capabilities_are_refused(void **state)
{
	need_root(state);
	assert_int_equal(in_child(as_root, NULL), 0);
	assert_int_equal(in_child(with_saved_root, NULL), 0);
	assert_int_equal(in_child(with_a_capability, NULL), 0);
	assert_int_equal(in_child(as_nobody, NULL), 0);
}

/* ---- Files and system calls ---- */

static bool may_open(const char *path, int flags)
{
	_cleanup_fd_ int fd = open(path, flags | O_CLOEXEC, 0600);

	return fd >= 0;
}

static bool may_connect(void)
{
	const struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons(9),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	_cleanup_fd_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd >= 0 && (connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0 ||
			   errno == ECONNREFUSED);
}

static void only_the_state_directory(const char *dir)
{
	_cleanup_free_ char *inside = mem_printf("%s/airlock.db", dir);
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
	struct err err;

	become_nobody();
	MUST(confine_identity("airlockd", &err) == 0);
	MUST(may_open("/etc/passwd", O_RDONLY) && may_connect());
	MUST(confine_state(dir, &err) == 0);
	MUST(may_open(inside, O_RDWR | O_CREAT));
	MUST(may_open(dir, O_RDWR | O_TMPFILE));
	MUST(may_open("/dev/null", O_RDONLY));
	MUST(!may_open("/dev/null", O_WRONLY));
	MUST(!may_open("/etc/passwd", O_RDONLY));
	MUST(!may_open("/proc/self/environ", O_RDONLY));
	MUST(!may_open("/tmp/airlock-test-outside", O_RDWR | O_CREAT));
	MUST(mkdir("/tmp/airlock-test-outside", 0700) < 0);
	MUST(symlink("/etc/passwd", inside) < 0);
	MUST(unlink(inside) == 0);
	if (abi >= 4)
		MUST(!may_connect());
}

/* The gateway writes there as another user; here the rights of the file would allow it. */
static void the_log_is_read_only(const char *dir)
{
	_cleanup_free_ char *log = mem_printf("%s/egress", dir);
	_cleanup_free_ char *file = mem_printf("%s/egress/sbx_0123456789ab.jsonl", dir);
	_cleanup_free_ char *state = mem_printf("%s/state", dir);
	struct err err;

	become_nobody();
	MUST(mkdir(log, 0700) == 0 && mkdir(state, 0700) == 0);
	MUST(may_open(file, O_RDWR | O_CREAT));
	const struct confine_dir dirs[] = {
		{ .path = state },
		{ .path = log, .read_only = true },
		{ .path = "/nowhere", .read_only = true },
	};
	MUST(confine_identity("airlockd", &err) == 0);
	MUST(confine_files(dirs, ARRAY_SIZE(dirs), NULL, 0, false, &err) == 0);
	MUST(may_open(file, O_RDONLY));
	MUST(!may_open(file, O_WRONLY));
	MUST(!may_open(file, O_WRONLY | O_APPEND));
	MUST(unlink(file) < 0);
	MUST(!may_open(dir, O_RDWR | O_TMPFILE));
}

static void committed(void *data, const struct err *err)
{
	*(bool *)data = !err;
}

/* The store's own thread begins after both fences, as in airlockd. */
static void the_store_works(const char *dir)
{
	static const struct store_session row = { "sbx_0123456789ab", "a", "t", "", 0, 1, 2, 3 };
	_cleanup_free_ char *path = mem_printf("%s/airlock.db", dir);
	bool done = false;
	struct store *s;
	uv_loop_t loop;
	struct err err;

	become_nobody();
	MUST(confine_identity("airlockd", &err) == 0);
	MUST(confine_state(dir, &err) == 0);
	MUST(uv_loop_init(&loop) == 0);
	MUST(store_open(&loop, path, &s, &err) == 0);
	MUST(filter_load(&filter_daemon, &err) == 0);
	for (unsigned i = 0; i < 500; i++) {
		done = false;
		if (i)
			store_touch_session(s, row.id, i);
		store_add_journal(s, "sbx_000000000000", 1, committed, &done);
		if (!i)
			store_put_session(s, &row, committed, &done);
		while (!done)
			uv_run(&loop, UV_RUN_ONCE);
	}
	MUST(socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EPERM);
	MUST(fork() < 0 && errno == EPERM);
	MUST(kill(getppid(), 0) < 0 && errno == EPERM);
}

static void nothing_but_the_state_directory_can_be_opened(void **state)
{
	need_root(state);
	assert_int_equal(in_child(only_the_state_directory, *state), 0);
}

static void the_egress_log_can_only_be_read(void **state)
{
	need_root(state);
	assert_int_equal(in_child(the_log_is_read_only, *state), 0);
}

static void the_store_works_behind_both_fences(void **state)
{
	need_root(state);
	assert_int_equal(in_child(the_store_works, *state), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(root_and_capabilities_are_refused),
		T(nothing_but_the_state_directory_can_be_opened),
		T(the_egress_log_can_only_be_read),
		T(the_store_works_behind_both_fences),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
