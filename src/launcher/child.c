// SPDX-License-Identifier: Apache-2.0
#include "launcher/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "launcher/net.h"
#include "sandbox/knobs.h"
#include "sandbox/layout.h"

/* An empty folder of the template's read-only root. */
#define EMPTY_FOLDER "/run"

static int ready_fd;

static _Noreturn void fail(const char *stage, int code)
{
	struct layout_ready report = { .magic = LAYOUT_READY_MAGIC, .code = code ? code : EIO };

	for (size_t i = 0; stage[i] && i < sizeof(report.stage) - 1; i++)
		report.stage[i] = stage[i];
	if (write(ready_fd, &report, sizeof(report)) < 0)
		_exit(2);
	_exit(1);
}

static void join_cgroup(const struct cgroup_slot *cgroup)
{
	for (unsigned i = 0; i < cgroup->n_join; i++)
		if (write(cgroup->join[i], "0", 1) != 1)
			fail("cgroup", errno);
	/* On v2 the clone has done both. */
	if (cgroup->into < 0 && unshare(CLONE_NEWCGROUP) < 0)
		fail("cgroup namespace", errno);
}

/* The launcher was started in somebody's session; the keys of it are not for sandboxes. */
static void leave_keyring(void)
{
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
		fail("keyring", errno);
}

static void become_inner_root(int go)
{
	char byte;

	if (read(go, &byte, 1) != 1)
		_exit(2);
	if (syscall(SYS_setresgid, LAYOUT_INIT, LAYOUT_INIT, LAYOUT_INIT) < 0 ||
	    syscall(SYS_setresuid, LAYOUT_INIT, LAYOUT_INIT, LAYOUT_INIT) < 0)
		fail("ids", errno);
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		fail("dumpable", errno);
}

/* Binds source over target. A target that this kernel does not have is no loss. */
static void bind_over(const char *source, const char *target, uint64_t flags)
{
	struct mount_attr attr = { .attr_set = flags };
	_cleanup_fd_ int at = open(target, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_fd_ int mount = -1;

	if (at < 0) {
		if (errno == ENOENT)
			return;
		fail(target, errno);
	}
	mount = open_tree(AT_FDCWD, source,
			  OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
	if (mount < 0)
		fail(target, errno);
	if (flags && mount_setattr(mount, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		fail(target, errno);
	if (move_mount(mount, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		fail(target, errno);
}

static void write_text(const char *path, const char *text)
{
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fail(path, errno);
}

static void loopback_up(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	_cleanup_fd_ int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (knob_off(KNOB_NET))
		return;
	if (sock < 0 || ioctl(sock, SIOCSIFFLAGS, &request) < 0)
		fail("loopback", errno);
}

/* The builder has them before this process says that it is ready: they wait in the socket. */

static void listen_inside(int handover)
{
	int socks[NET_FDS] = { -1, -1, -1, -1, -1 };
	struct msg_sandbox unnamed = { 0 };
	const char *stage;
	int r = net_open(socks, &stage);

	if (r < 0)
		fail(stage, -r);
	r = wire_send(handover, BL_NET, 0, &unnamed, sizeof(unnamed), socks, NET_FDS);
	if (r < 0)
		fail("sending sockets", -r);
	for (int i = 0; i < NET_FDS; i++)
		fd_close(&socks[i]);
}

static void limit(const struct plan_step *s)
{
	struct rlimit limit = { s->soft, s->hard };

	if (prlimit(0, (__rlimit_resource_t)s->number, &limit, NULL) < 0)
		fail("rlimit", errno);
}

static void mount_new(const char *type, const struct plan_step *s, unsigned long flags)
{
	if (mount(type, s->path, type, flags, s->text) < 0)
		fail(s->path, errno);
}

static void take_step(const struct child_spec *spec, const struct plan_step *s)
{
	switch (s->op) {
	case PLAN_PROC:
		mount_new("proc", s, MS_NOSUID | MS_NODEV | MS_NOEXEC);
		break;
	case PLAN_TMPFS:
		mount_new("tmpfs", s, MS_NOSUID | MS_NODEV | (s->number ? 0 : MS_NOEXEC));
		break;
	case PLAN_DEVPTS:
		mount_new("devpts", s, MS_NOSUID | MS_NOEXEC);
		break;
	case PLAN_WRITE:
		write_text(s->path, s->text);
		break;
	case PLAN_MASK_FILE:
		bind_over("/dev/null", s->path, 0);
		break;
	case PLAN_MASK_FOLDER:
		bind_over(EMPTY_FOLDER, s->path, MOUNT_ATTR_RDONLY);
		break;
	case PLAN_READ_ONLY:
		bind_over(s->path, s->path, MOUNT_ATTR_RDONLY);
		break;
	case PLAN_HOSTNAME:
		if (sethostname(s->text, strlen(s->text)) < 0 || setdomainname("", 0) < 0)
			fail("hostname", errno);
		break;
	case PLAN_LOOPBACK:
		loopback_up();
		break;
	case PLAN_LISTEN:
		listen_inside(spec->handover);
		break;
	case PLAN_RLIMIT:
		limit(s);
		break;
	}
}

static int above(int fd)
{
	int moved = fcntl(fd, F_DUPFD_CLOEXEC, 64);

	if (moved < 0)
		fail("descriptors", errno);
	return moved;
}

/* 0, 1, 2 are /dev/null, then what init inherits, then nothing. Every descriptor is first moved out
 * of the way, so that no order of numbers can overwrite one that is still needed. */
static void place_descriptors(const struct child_spec *spec, int *ret_init)
{
	int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int out = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (in < 0 || out < 0)
		fail("/dev/null", errno);
	int from[] = { above(in),
		       above(out),
		       above(out),
		       above(spec->control),
		       above(spec->handover),
		       above(spec->lifeline),
		       above(spec->ready),
		       above(spec->init) };

	for (int i = 0; i < (int)(sizeof(from) / sizeof(from[0])); i++)
		if (dup3(from[i], i, i == LAYOUT_FD_END ? O_CLOEXEC : 0) < 0 && from[i] != i)
			fail("descriptors", errno);
	ready_fd = LAYOUT_FD_READY;
	if (syscall(SYS_close_range, LAYOUT_FD_END + 1, ~0u, 0) < 0)
		fail("descriptors", errno);
	*ret_init = LAYOUT_FD_END;
}

_Noreturn void child_main(const struct child_spec *spec)
{
	static char name[] = "airlock-init";
	static char *envp[] = { NULL };
	char bits[24] = "";
	char *argv[] = { name, NULL, NULL };
	int init;

	ready_fd = spec->ready;
	join_cgroup(spec->cgroup);
	leave_keyring();
	become_inner_root(spec->go);
	if (chdir("/") < 0)
		fail("chdir", errno);
	for (size_t i = 0; i < spec->plan->n_steps; i++)
		if (spec->plan->steps[i].op != PLAN_RLIMIT)
			take_step(spec, &spec->plan->steps[i]);
	place_descriptors(spec, &init);
	/* Limits last: a busy builder has more descriptors than a sandbox may have, and until here
	 * this process has them all. */
	for (size_t i = 0; i < spec->plan->n_steps; i++)
		if (spec->plan->steps[i].op == PLAN_RLIMIT)
			take_step(spec, &spec->plan->steps[i]);
#ifdef AIRLOCK_TEST_KNOBS
	snprintf(bits, sizeof(bits), "%llu", (unsigned long long)knob_bits);
	argv[1] = bits;
#else
	(void)bits;
#endif
	if (setsid() < 0)
		fail("setsid", errno);
	syscall(SYS_execveat, init, "", argv, envp, AT_EMPTY_PATH);
	fail("exec of init", errno);
}
