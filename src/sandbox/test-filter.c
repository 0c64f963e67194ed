// SPDX-License-Identifier: Apache-2.0
/*
 * filter_tenant in a real kernel: a child loads it and makes calls; what it sees is judged here.
 * Calls that are allowed must reach the kernel, whose own refusals (EBADF, EINVAL ...) show that.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <asm/ioctls.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "sandbox/filter.h"

#define HIGH 0x100000000l

struct probe {
	const char *what;
	long number;
	long args[6];
	int expected; /* errno; 0: success; REACHES: anything but a refusal of the filter */
};

#define REACHES (-1)

static const struct probe probes[] = {
	{ "unshare a user namespace", SYS_unshare, { CLONE_NEWUSER }, EPERM },
	{ "unshare nothing", SYS_unshare, { 0 }, EPERM },
	{ "clone3", SYS_clone3, { 0, 0 }, ENOSYS },
	{ "setns", SYS_setns, { 0, 0 }, EPERM },
	{ "mount", SYS_mount, { 0, 0, 0, 0, 0 }, EPERM },
	{ "umount2", SYS_umount2, { 0, 0 }, EPERM },
	{ "pivot_root", SYS_pivot_root, { 0, 0 }, EPERM },
	{ "chroot", SYS_chroot, { 0 }, EPERM },
	{ "open_tree", SYS_open_tree, { 0, 0, 0 }, EPERM },
	{ "move_mount", SYS_move_mount, { 0 }, EPERM },
	{ "ptrace", SYS_ptrace, { 0 }, EPERM },
	{ "process_vm_readv", SYS_process_vm_readv, { 0 }, EPERM },
	{ "pidfd_getfd", SYS_pidfd_getfd, { 0 }, EPERM },
	{ "kcmp", SYS_kcmp, { 0 }, EPERM },
	{ "bpf", SYS_bpf, { 0 }, EPERM },
	{ "perf_event_open", SYS_perf_event_open, { 0 }, EPERM },
	{ "userfaultfd", SYS_userfaultfd, { 0 }, EPERM },
	{ "keyctl", SYS_keyctl, { 0 }, EPERM },
	{ "add_key", SYS_add_key, { 0 }, EPERM },
	{ "io_uring_setup", SYS_io_uring_setup, { 0 }, ENOSYS },
	{ "io_uring_register", SYS_io_uring_register, { -1 }, ENOSYS },
	{ "io_setup", SYS_io_setup, { 1, 0 }, ENOSYS },
	{ "splice", SYS_splice, { -1, 0, -1, 0, 1, 0 }, EINVAL },
	{ "name_to_handle_at", SYS_name_to_handle_at, { 0 }, EPERM },
	{ "open_by_handle_at", SYS_open_by_handle_at, { 0 }, EPERM },
	{ "fanotify_init", SYS_fanotify_init, { 0 }, EPERM },
	{ "settimeofday", SYS_settimeofday, { 0 }, EPERM },
	{ "setgroups", SYS_setgroups, { 0, 0 }, EPERM },
	{ "setresuid to 0", SYS_setresuid, { 0, 0, 0 }, EPERM },
	{ "capset", SYS_capset, { 0, 0 }, EPERM },
	{ "mbind", SYS_mbind, { 0 }, ENOSYS },
	{ "a number of nobody", 600, { 0 }, ENOSYS },
	{ "number -1", -1, { 0 }, ENOSYS },
	{ "getpid by x32", SYS_getpid | 0x40000000, { 0 }, ENOSYS },
	{ "socket 41 by x32", 41 | 0x40000000, { AF_INET, SOCK_STREAM, 0 }, ENOSYS },
	{ "TIOCSTI", SYS_ioctl, { -1, TIOCSTI, 0 }, EPERM },
	{ "TIOCSTI with a high bit", SYS_ioctl, { -1, TIOCSTI | HIGH, 0 }, EPERM },
	{ "TIOCLINUX", SYS_ioctl, { -1, TIOCLINUX, 0 }, EPERM },
	{ "TIOCSETD", SYS_ioctl, { -1, TIOCSETD, 0 }, EPERM },
	{ "btrfs subvolume", SYS_ioctl, { -1, 0x5000940e, 0 }, EPERM },
	{ "btrfs snapshot with a high bit", SYS_ioctl, { -1, 0x50009417 | HIGH, 0 }, EPERM },
	{ "FIFREEZE", SYS_ioctl, { -1, FIFREEZE, 0 }, EPERM },
	{ "project id", SYS_ioctl, { -1, FS_IOC_FSSETXATTR, 0 }, EPERM },
	{ "NS_GET_USERNS", SYS_ioctl, { -1, 0xb701, 0 }, EPERM },
	{ "FICLONE", SYS_ioctl, { -1, FICLONE, -1 }, EBADF },
	{ "FIONREAD", SYS_ioctl, { -1, FIONREAD, 0 }, EBADF },
	{ "TCGETS", SYS_ioctl, { -1, TCGETS, 0 }, EBADF },
	{ "TIOCGWINSZ", SYS_ioctl, { -1, TIOCGWINSZ, 0 }, EBADF },
	{ "F_SETLEASE", SYS_fcntl, { 0, F_SETLEASE, F_RDLCK }, EPERM },
	{ "F_SETPIPE_SZ with a high bit", SYS_fcntl, { 0, F_SETPIPE_SZ | HIGH, 4096 }, EPERM },
	{ "F_GETFD", SYS_fcntl, { -1, F_GETFD }, EBADF },
	{ "personality ADDR_NO_RANDOMIZE", SYS_personality, { 0x0040000 }, EPERM },
	{ "personality asked", SYS_personality, { 0xffffffff }, REACHES },
	{ "PR_SET_MM", SYS_prctl, { PR_SET_MM, 1, 0 }, EPERM },
	{ "PR_SET_SECUREBITS", SYS_prctl, { PR_SET_SECUREBITS, 0 }, EPERM },
	{ "PR_SET_NAME", SYS_prctl, { PR_SET_NAME, (long)"x" }, 0 },
	{ "an unknown prctl", SYS_prctl, { 9999, 0 }, EINVAL },
	{ "a filter with a listener", SYS_seccomp, { 1, 8, 0 }, EPERM },
	{ "a filter", SYS_seccomp, { 1, 0, 0 }, EFAULT },
	{ "landlock ABI", SYS_landlock_create_ruleset, { 0, 0, 1 }, REACHES },
	{ "a device node", SYS_mknodat, { AT_FDCWD, 0, 0020666, 0x0101 }, EPERM },
	{ "a whiteout", SYS_mknodat, { AT_FDCWD, 0, 0020000, 0 }, EPERM },
	{ "a FIFO", SYS_mknodat, { AT_FDCWD, 0, 0010666, 0 }, EFAULT },
	{ "huge pages",
	  SYS_mmap,
	  { 0, 1 << 21, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0 },
	  ENOMEM },
	{ "raw IP", SYS_socket, { AF_INET, SOCK_RAW, 1 }, EPERM },
	{ "ping", SYS_socket, { AF_INET, SOCK_DGRAM, 1 }, EPROTONOSUPPORT },
	{ "MPTCP", SYS_socket, { AF_INET, SOCK_STREAM, 262 }, EPROTONOSUPPORT },
	{ "SMC over IP", SYS_socket, { AF_INET, SOCK_STREAM, 256 }, EPROTONOSUPPORT },
	{ "SCTP", SYS_socket, { AF_INET, SOCK_STREAM, 132 }, EPROTONOSUPPORT },
	{ "UDP-Lite", SYS_socket, { AF_INET6, SOCK_DGRAM, 136 }, EPROTONOSUPPORT },
	{ "netfilter", SYS_socket, { AF_NETLINK, SOCK_RAW, 12 }, EPROTONOSUPPORT },
	{ "audit", SYS_socket, { AF_NETLINK, SOCK_RAW, 9 }, EPROTONOSUPPORT },
	{ "xfrm", SYS_socket, { AF_NETLINK, SOCK_RAW, 6 }, EPROTONOSUPPORT },
	{ "socket diag", SYS_socket, { AF_NETLINK, SOCK_RAW, 4 }, EPROTONOSUPPORT },
	{ "uevents", SYS_socket, { AF_NETLINK, SOCK_RAW, 15 }, EPROTONOSUPPORT },
	{ "crypto netlink", SYS_socket, { AF_NETLINK, SOCK_RAW, 21 }, EPROTONOSUPPORT },
	{ "route netlink", SYS_socket, { AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0 }, REACHES },
	{ "TCP, close-on-exec", SYS_socket, { AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 6 }, REACHES },
	{ "UDP, non-blocking", SYS_socket, { AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK, 17 }, REACHES },
	{ "packet socket with a high bit",
	  SYS_socket,
	  { AF_PACKET | HIGH, SOCK_RAW, 0 },
	  EAFNOSUPPORT },
	{ "TIPC pair", SYS_socketpair, { 30, SOCK_SEQPACKET, 0, 0 }, EAFNOSUPPORT },
	{ "TCP_ULP", SYS_setsockopt, { -1, IPPROTO_TCP, 31, 0, 0 }, ENOPROTOOPT },
	{ "SO_ATTACH_FILTER", SYS_setsockopt, { -1, SOL_SOCKET, SO_ATTACH_FILTER, 0, 0 }, EPERM },
	{ "IPT_SO_SET_REPLACE", SYS_setsockopt, { -1, IPPROTO_IP, 64, 0, 0 }, EPERM },
	{ "SO_REUSEADDR", SYS_setsockopt, { -1, SOL_SOCKET, SO_REUSEADDR, 0, 0 }, EBADF },
	{ "TCP_NODELAY", SYS_setsockopt, { -1, IPPROTO_TCP, 1, 0, 0 }, EBADF },
	{ "syncfs", SYS_syncfs, { -1 }, EPERM },
	{ "fsync", SYS_fsync, { -1 }, EBADF },
	{ "FIEMAP", SYS_ioctl, { -1, 0xc020660b, 0 }, EOPNOTSUPP },
	{ "inotify", SYS_inotify_init1, { 0 }, REACHES },
	{ "memfd", SYS_memfd_create, { (long)"x", 0 }, REACHES },
	{ "openat2", SYS_openat2, { -1, 0, 0, 0 }, EINVAL },
	{ "close_range", SYS_close_range, { 900, 901, 0 }, 0 },
	{ "copy_file_range", SYS_copy_file_range, { -1, 0, -1, 0, 1, 0 }, EBADF },
	{ "pidfd_open", SYS_pidfd_open, { -1, 0 }, EINVAL },
	{ "setsid", SYS_setsid, { 0 }, 0 },
	{ "sched_setaffinity", SYS_sched_setaffinity, { 0, 0, 0 }, EINVAL },
	{ "statx", SYS_statx, { -1, (long)"x", 0, 0, 0 }, EBADF },
	{ "futex_waitv", SYS_futex_waitv, { 0, 0, 0, 0, 0 }, EINVAL },
};

struct outcome {
	int code[ARRAY_SIZE(probes)];
	int family[47];
	int clone_flag[7], clone_flag_high[7], plain_clone;
};

static const unsigned long namespaces[] = { CLONE_NEWNS,  CLONE_NEWCGROUP, CLONE_NEWUTS,
					    CLONE_NEWIPC, CLONE_NEWUSER,   CLONE_NEWPID,
					    CLONE_NEWNET };

static int try_call(long number, const long *a)
{
	errno = 0;
	return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]) < 0 ? errno : 0;
}

static int try_clone(unsigned long flags)
{
	long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
	int code = errno;

	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return code;
	waitpid((pid_t)pid, NULL, 0);
	return 0;
}

/* Runs body in a child that has the filter; returns the wait status. */
static int in_child(const struct filter *f, void (*body)(struct outcome *), struct outcome *out)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		struct err err;

		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || filter_load(f, &err) < 0)
			_exit(99);
		body(out);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void probe_all(struct outcome *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(probes); i++)
		out->code[i] = try_call(probes[i].number, probes[i].args);
	for (int family = 0; family < 47; family++)
		for (int type = SOCK_STREAM; type <= SOCK_SEQPACKET; type++) {
			int code = try_call(SYS_socket, (long[6]){ family, type, 0 });

			/* The friendliest answer that any type got. */
			if (type == SOCK_STREAM || code == 0)
				out->family[family] = code;
		}
	for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++) {
		out->clone_flag[i] = try_clone(namespaces[i]);
		out->clone_flag_high[i] = try_clone(namespaces[i] | (unsigned long)HIGH);
	}
	out->plain_clone = try_clone(CLONE_FILES | CLONE_FS);
}

static struct outcome *run_probes(void)
{
	struct outcome *out =
		mmap(NULL, sizeof(*out), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(out, MAP_FAILED);
	assert_int_equal(in_child(&filter_tenant, probe_all, out), 0);
	return out;
}

static void each_probe_gets_its_answer(void **state)
{
	struct outcome *out = run_probes();

	for (size_t i = 0; i < ARRAY_SIZE(probes); i++) {
		int got = out->code[i], expected = probes[i].expected;
		bool good = expected == REACHES ? got == 0 || got == EOPNOTSUPP : got == expected;

		if (!good)
			fail_msg("%s: %s, expected %s", probes[i].what,
				 got ? strerrorname_np(got) : "success",
				 expected > 0 ? strerrorname_np(expected) : "success");
	}
	munmap(out, sizeof(*out));
}

static void only_four_socket_families_exist(void **state)
{
	struct outcome *out = run_probes();

	for (int family = 0; family < 47; family++) {
		bool open = family == AF_UNIX || family == AF_INET || family == AF_INET6 ||
			    family == AF_NETLINK;

		/* Some kernels of containers have no IPv6. */
		if (open && !(family == AF_INET6 && out->family[family] == EAFNOSUPPORT))
			assert_int_equal(out->family[family], 0);
		if (!open)
			assert_int_equal(out->family[family], EAFNOSUPPORT);
	}
	munmap(out, sizeof(*out));
}

static void no_clone_flag_makes_a_namespace(void **state)
{
	struct outcome *out = run_probes();

	for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++) {
		assert_int_equal(out->clone_flag[i], EPERM);
		assert_int_equal(out->clone_flag_high[i], EPERM);
	}
	assert_int_equal(out->plain_clone, 0);
	munmap(out, sizeof(*out));
}

#if defined(__x86_64__)
static void call_by_int80(struct outcome *out)
{
	long ret;

	/* getpid of the 32-bit table */
	__asm__ volatile("int $0x80" : "=a"(ret) : "a"(20l) : "memory");
	out->code[0] = (int)ret;
}

static void the_32_bit_entry_kills(void **state)
{
	struct outcome out;
	int status = in_child(&filter_tenant, call_by_int80, &out);

	/* SIGSEGV: a kernel without the 32-bit entry */
	assert_true(WIFSIGNALED(status));
	assert_true(WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV);
}
#else
static void the_32_bit_entry_kills(void **state)
{
	skip();
}
#endif

static void run_daemon(struct outcome *out)
{
	static const struct probe calls[] = {
		{ "execve", SYS_execve, { 0, 0, 0 }, EPERM },
		{ "socket", SYS_socket, { AF_UNIX, SOCK_STREAM, 0 }, EPERM },
		{ "connect", SYS_connect, { -1, 0, 0 }, EPERM },
		{ "kill", SYS_kill, { 1, 0 }, EPERM },
		{ "executable memory",
		  SYS_mmap,
		  { 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0 },
		  EPERM },
		{ "accept4", SYS_accept4, { -1, 0, 0, 0 }, EBADF },
		{ "memfd", SYS_memfd_create, { (long)"x", MFD_ALLOW_SEALING }, 0 },
		{ "sendmsg", SYS_sendmsg, { -1, 0, 0 }, EBADF },
		{ "epoll", SYS_epoll_create1, { 0 }, 0 },
		{ "fdatasync", SYS_fdatasync, { -1 }, EBADF },
	};

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (try_call(calls[i].number, calls[i].args) != calls[i].expected)
			_exit((int)i + 1);
	if (try_clone(0) != EPERM)
		_exit(50);
}

static void the_daemon_serves_and_starts_nothing(void **state)
{
	assert_int_equal(in_child(&filter_daemon, run_daemon, NULL), 0);
}

static void run_init(struct outcome *out)
{
	if (try_call(SYS_capset, (long[6]){ 0 }) != EFAULT)
		_exit(1);
	if (try_call(SYS_openat, (long[6]){ 0 }) != EPERM)
		_exit(2);
	if (try_call(SYS_socket, (long[6]){ 0 }) != EPERM)
		_exit(3);
	if (try_call(SYS_setresuid, (long[6]){ 0, 0, 0 }) != EPERM)
		_exit(4);
	if (try_call(SYS_execve, (long[6]){ 0 }) != EPERM)
		_exit(5);
}

/* Leaving a function that does not return asks the kernel for the signal stack in a sanitized
 * build; init's filter has no such call. */
#ifdef __SANITIZE_ADDRESS__
#define SANITIZED true
#else
#define SANITIZED false
#endif

static void init_starts_and_opens_nothing(void **state)
{
	if (SANITIZED)
		skip();
	assert_int_equal(in_child(&filter_init, run_init, NULL), 0);
}

static void an_empty_filter_is_refused(void **state)
{
	struct filter empty = { .name = "empty", .code = filter_tenant.code, .len = 0 };
	struct err err;

	assert_int_equal(filter_load(&empty, &err), -EINVAL);
	empty.len = 1;
	empty.code = NULL;
	assert_int_equal(filter_load(&empty, &err), -EINVAL);
}

static void it_is_refused_without_no_new_privs(void **state)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct err err;

		_exit(filter_load(&filter_tenant, &err) == -EPERM ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_probe_gets_its_answer),
		cmocka_unit_test(only_four_socket_families_exist),
		cmocka_unit_test(no_clone_flag_makes_a_namespace),
		cmocka_unit_test(the_32_bit_entry_kills),
		cmocka_unit_test(the_daemon_serves_and_starts_nothing),
		cmocka_unit_test(init_starts_and_opens_nothing),
		cmocka_unit_test(an_empty_filter_is_refused),
		cmocka_unit_test(it_is_refused_without_no_new_privs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
