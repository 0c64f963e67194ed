// SPDX-License-Identifier: Apache-2.0
/*
 * airlock-init: PID 1 of every sandbox. Static, no heap, one thread, exec'd from a sealed memfd
 * before any tenant code exists, so nothing of the host is ever inside. It forks one process, which
 * is locked down at once (init/tenant.c), gives it the one job that comes over a socket that it
 * inherited, reaps, and reports.
 *
 * States, and what is accepted from airlockd in each:
 *
 *   BLANK     nothing is attached: only the hand-over role is listened to. A job may wait in
 *             airlockd's socket meanwhile, so one wake-up is enough for both.
 *   ATTACHED  the workspace is there, no job came yet     DI_EXEC DI_FILE DI_END
 *   COMMAND   the command runs                            DI_KILL DI_END
 *   FILES     the tenant process serves file jobs         DI_FILE DI_COMMIT DI_END
 *
 * From the hand-over role exactly one LI_ATTACH is accepted, in BLANK; after one with a second
 * mount DI_EXEC is not. Anything else, a malformed message, the end of airlockd's socket or of the
 * lifeline ends init, and with PID 1 the kernel ends everything in the sandbox.
 *
 * What init may still do shrinks on the way: CAP_SETUID, CAP_SETGID and CAP_SETPCAP go when the
 * tenant process has been forked, CAP_SYS_ADMIN (to attach the workspace and what is copied from)
 * right after the attach, because the flags of a moved mount are not locked. CAP_KILL stays.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/signals.h"
#include "init/lock.h"
#include "init/tenant.h"
#include "ipc/messages.h"
#include "sandbox/filter.h"
#include "sandbox/knobs.h"
#include "sandbox/layout.h"

#define CAP(name) (UINT64_C(1) << (name))
#define ACCEPT(type) (UINT64_C(1) << (type))

enum state { BLANK, ATTACHED, COMMAND, FILES, STATES };

static const uint64_t accepted[STATES] = {
	[BLANK] = 0,
	[ATTACHED] = ACCEPT(DI_EXEC) | ACCEPT(DI_FILE) | ACCEPT(DI_END),
	[COMMAND] = ACCEPT(DI_KILL) | ACCEPT(DI_END),
	[FILES] = ACCEPT(DI_FILE) | ACCEPT(DI_COMMIT) | ACCEPT(DI_END),
};

static struct {
	enum state state;
	int signals;
	pid_t pid; /* of the tenant process */
	int sock;  /* to it, until it has exec'd; owned */
	uint32_t id;
	int landlock; /* ABI that it restricts itself with, 0: none */
	bool source;  /* something is attached at LAYOUT_SOURCE: no command may run */
	int64_t started_us;
} in = { .sock = -1 };

static _Noreturn void end(void)
{
	/* As PID 1: the kernel kills everything else in the namespace before we are gone. */
	_exit(0);
}

static _Noreturn void fail(const char *stage, int code)
{
	struct layout_ready ready = { .magic = LAYOUT_READY_MAGIC, .code = code };

	for (size_t i = 0; stage[i] && i < sizeof(ready.stage) - 1; i++)
		ready.stage[i] = stage[i];
	if (write(LAYOUT_FD_READY, &ready, sizeof(ready)) < 0)
		_exit(2);
	_exit(1);
}

static void report(uint8_t type, uint32_t id, const void *body, size_t len)
{
	if (wire_send(LAYOUT_FD_CONTROL, type, id, body, len, NULL, 0) < 0)
		end();
}

/* Hands the job, or what it waits for, to the process. */
static void pass_on(struct wire_msg *msg)
{
	if (msg->head.type == DI_EXEC) {
		in.state = COMMAND;
		in.id = msg->head.id;
		in.started_us = clock_monotonic_us();
	} else {
		in.state = FILES;
	}
	if (wire_send(in.sock, msg->head.type, msg->head.id, msg->body, msg->body_len, msg->fds,
		      msg->n_fds) < 0)
		end();
}

static void on_control(void)
{
	struct wire_msg msg;
	int r = wire_recv(LAYOUT_FD_CONTROL, &wire_di, &msg);

	if (r == -EAGAIN)
		return;
	if (r <= 0 || !wire_allow(accepted[in.state], msg.head.type))
		end();
	if (msg.head.type == DI_END || (msg.head.type == DI_EXEC && in.source))
		end();
	if (msg.head.type == DI_KILL)
		kill(-1, SIGKILL);
	else
		pass_on(&msg);
	wire_msg_fini(&msg);
}

static void attach(int mount, const char *where)
{
	if (syscall(SYS_move_mount, mount, "", AT_FDCWD, where, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		end();
}

static void on_handover(void)
{
	struct wire_msg msg;
	struct err err;
	int r = wire_recv(LAYOUT_FD_HANDOVER, &wire_li, &msg);

	if (r == -EAGAIN)
		return;
	if (r <= 0)
		end();
	attach(msg.fds[0], LAYOUT_WORKSPACE);
	in.source = msg.n_fds > 1;
	if (in.source)
		attach(msg.fds[1], LAYOUT_SOURCE);
	wire_msg_fini(&msg);
	if (lock_keep_capabilities(CAP(CAP_KILL), &err) < 0)
		end();
	close(LAYOUT_FD_HANDOVER);
	in.state = ATTACHED;
	on_control();
}

/* The process is about to exec. Its socket closes when it has, landlock and all; what it can not do
 * it says first. */
static void on_starting(void)
{
	struct wire_msg msg;
	int r = wire_recv(in.sock, &wire_id, &msg);

	if (r == -EAGAIN)
		return;
	if (r == 1 && msg.head.type == ID_REFUSED) {
		report(ID_REFUSED, in.id, msg.body, msg.body_len);
		end();
	}
	if (r != 0)
		end();
	struct id_started body = { .landlock = (uint32_t)in.landlock };
	report(ID_STARTED, in.id, &body, sizeof(body));
	fd_close(&in.sock);
}

/* The file worker's answers go out as they are; airlockd checks them as hostile. */
static void on_worker(void)
{
	struct wire_msg msg;
	int r = wire_recv(in.sock, &wire_id, &msg);

	if (r == -EAGAIN)
		return;
	if (r <= 0 || in.state != FILES ||
	    (msg.head.type != ID_FILE && msg.head.type != ID_FILE_END))
		end();
	report(msg.head.type, msg.head.id, msg.body, msg.body_len);
}

static _Noreturn void command_ended(int status)
{
	struct id_exited body = { .status = (uint32_t)status,
				  .wall_us = (uint64_t)(clock_monotonic_us() - in.started_us) };

	/* Its last word may still be in the socket: a refusal, or the end that means exec. */
	while (in.sock >= 0) {
		struct pollfd p = { .fd = in.sock, .events = POLLIN };
		if (poll(&p, 1, 0) <= 0)
			break;
		on_starting();
	}
	if (!knob_off(KNOB_PID_KILL))
		kill(-1, SIGKILL);
	report(ID_EXITED, in.id, &body, sizeof(body));
	end();
}

static void reap(void)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	while (read(in.signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != in.pid)
			continue;
		if (in.state != COMMAND)
			end();
		command_ended(status);
	}
}

static _Noreturn void serve(void)
{
	for (;;) {
		struct pollfd p[] = {
			{ .fd = LAYOUT_FD_CONTROL, .events = in.state == BLANK ? 0 : POLLIN },
			{ .fd = in.state == BLANK ? LAYOUT_FD_HANDOVER : -1, .events = POLLIN },
			{ .fd = LAYOUT_FD_LIFELINE, .events = POLLIN },
			{ .fd = in.signals, .events = POLLIN },
			{ .fd = in.sock, .events = POLLIN },
		};
		if (poll(p, ARRAY_SIZE(p), -1) < 0) {
			if (errno == EINTR)
				continue;
			end();
		}
		if (p[2].revents)
			end();
		if (p[4].revents && in.state == COMMAND)
			on_starting();
		else if (p[4].revents)
			on_worker();
		if (p[3].revents)
			reap();
		if (p[1].revents)
			on_handover();
		else if (p[0].revents)
			on_control();
	}
}

static void block_signals(void)
{
	sigset_t all, child;

	/* Tenants begin with what they are used to. */
	signals_heed();
	sigfillset(&all);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	if (sigprocmask(SIG_SETMASK, &all, NULL) < 0)
		fail("signals", errno);
	in.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (in.signals < 0)
		fail("signals", errno);
}

int main(int argc, char **argv)
{
	struct layout_ready ready = { .magic = LAYOUT_READY_MAGIC };
	struct msg_hello hello = { .build = "" };
	struct err err;
	int r;

#ifdef AIRLOCK_TEST_KNOBS
	if (argc > 1)
		num_parse(str_of(argv[1]), 0, UINT64_MAX, &knob_bits);
#else
	(void)argc;
	(void)argv;
#endif
	for (int fd = LAYOUT_FD_CONTROL; fd < LAYOUT_FD_END; fd++)
		if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
			_exit(2);
	/* Set by us, after the exec: an earlier one would have been cleared with the ids. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		fail("prctl", errno);
	block_signals();
	/* The builder works as a batch task; what waits for a command must start at once. */
	if (sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 }) < 0)
		fail("scheduler", errno);
	r = tenant_spawn(&in.pid, &in.sock, &in.landlock, &err);
	if (r < 0)
		fail("tenant", -r);
	if (!knob_off(KNOB_CAPABILITIES)) {
		r = lock_bounding(&err);
		if (r == 0)
			r = lock_keep_capabilities(CAP(CAP_KILL) | CAP(CAP_SYS_ADMIN), &err);
		if (r < 0)
			fail("capabilities", -r);
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		fail("no_new_privs", errno);
	r = filter_load(&filter_init, &err);
	if (r < 0)
		fail("seccomp", -r);
	snprintf(hello.build, sizeof(hello.build), "%s", ipc_build_id);
	report(ID_HELLO, 0, &hello, sizeof(hello));
	if (write(LAYOUT_FD_READY, &ready, sizeof(ready)) != sizeof(ready))
		_exit(2);
	close(LAYOUT_FD_READY);
	serve();
}
