// SPDX-License-Identifier: Apache-2.0
/*
 * airlock-init: PID 1 of every sandbox. Static, no heap, one thread, exec'd from a sealed memfd
 * before any tenant code exists, so nothing of the host is ever inside. It forks what it is asked
 * for over a socket that it inherited, reaps, and reports; what it forks is locked down first
 * (init/tenant.c).
 *
 * States, and what is accepted from airlockd in each:
 *
 *   BLANK     nothing is attached: only the hand-over role is listened to. A job may wait in
 *             airlockd's socket meanwhile, so one wake-up is enough for both.
 *   ATTACHED  the workspace is there, no job came yet     DI_EXEC DI_FILE DI_END
 *   COMMAND   at least one command runs or has run        DI_EXEC (kept sandboxes only) DI_KILL
 * DI_END FILES     the tenant process serves file jobs         DI_FILE DI_END
 *
 * From the hand-over role exactly one LI_ATTACH is accepted, in BLANK. Anything else, a malformed
 * message, the end of airlockd's socket or of the lifeline ends init, and with PID 1 the kernel
 * ends everything in the sandbox.
 *
 * What init may still do shrinks on the way: CAP_SYS_ADMIN (to attach the workspace) goes right
 * after the attach, because the flags of a moved mount are not locked; CAP_SETUID, CAP_SETGID,
 * CAP_SETPCAP go when no further command can come.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
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
#include "init/lock.h"
#include "init/tenant.h"
#include "ipc/messages.h"
#include "sandbox/filter.h"
#include "sandbox/knobs.h"
#include "sandbox/layout.h"

#define COMMANDS_MAX 16
#define CAP(name) (UINT64_C(1) << (name))
#define CAPS_SPAWN (CAP(CAP_SETUID) | CAP(CAP_SETGID) | CAP(CAP_SETPCAP))
#define ACCEPT(type) (UINT64_C(1) << (type))

enum state { BLANK, ATTACHED, COMMAND, FILES, STATES };

static const uint64_t accepted[STATES] = {
	[BLANK] = 0,
	[ATTACHED] = ACCEPT(DI_EXEC) | ACCEPT(DI_FILE) | ACCEPT(DI_END),
	[COMMAND] = ACCEPT(DI_EXEC) | ACCEPT(DI_KILL) | ACCEPT(DI_END),
	[FILES] = ACCEPT(DI_FILE) | ACCEPT(DI_END),
};

struct command {
	pid_t pid; /* 0: free */
	int sock;  /* to the process until it has exec'd; owned */
	uint32_t id;
	uint32_t landlock;
	bool ready; /* said that everything but exec is done */
	int64_t started_us;
};

struct init {
	enum state state;
	bool keep;
	int signals;
	struct command spare; /* forked ahead, waiting; in FILES the worker */
	struct command commands[COMMANDS_MAX];
};

static struct init in = { .spare = { .sock = -1 } };

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

static struct command *command_free_slot(void)
{
	for (size_t i = 0; i < COMMANDS_MAX; i++)
		if (!in.commands[i].pid)
			return &in.commands[i];
	return NULL;
}

static void refuse(uint32_t id, enum exec_stage stage, int code)
{
	struct id_refused body = { .stage = stage, .code = (uint32_t)code };

	report(ID_REFUSED, id, &body, sizeof(body));
	if (!in.keep)
		end();
}

/* Hands the order to a waiting process. */
static void start_command(struct wire_msg *msg)
{
	struct command *c = command_free_slot();
	struct di_exec body;
	struct err err;

	memcpy(&body, msg->body, sizeof(body));
	in.state = COMMAND;
	in.keep = body.flags & DI_EXEC_KEEP;
	if (!c) {
		refuse(msg->head.id, EXEC_STAGE_FORK, EAGAIN);
		return;
	}
	if (in.spare.pid) {
		*c = in.spare;
		in.spare = (struct command){ .sock = -1 };
	} else {
		int r = tenant_spawn(&c->pid, &c->sock, &err);
		if (r < 0) {
			c->pid = 0;
			refuse(msg->head.id, EXEC_STAGE_FORK, -r);
			return;
		}
	}
	c->id = msg->head.id;
	c->started_us = clock_monotonic_us();
	if (wire_send(c->sock, DI_EXEC, msg->head.id, msg->body, msg->body_len, msg->fds,
		      msg->n_fds) < 0)
		end();
	if (!in.keep && lock_keep_capabilities(CAP(CAP_KILL), &err) < 0)
		end();
}

static void start_files(struct wire_msg *msg)
{
	struct err err;

	if (wire_send(in.spare.sock, DI_FILE, msg->head.id, msg->body, msg->body_len, msg->fds,
		      msg->n_fds) < 0)
		end();
	if (in.state != FILES && lock_keep_capabilities(CAP(CAP_KILL), &err) < 0)
		end();
	in.state = FILES;
}

static void start_job(struct wire_msg *msg)
{
	if (msg->head.type == DI_EXEC)
		start_command(msg);
	else
		start_files(msg);
}

static void kill_command(uint32_t id)
{
	for (size_t i = 0; i < COMMANDS_MAX; i++)
		if (in.commands[i].pid && in.commands[i].id == id) {
			kill(in.keep ? -in.commands[i].pid : -1, SIGKILL);
			return;
		}
}

static void on_control(void)
{
	struct wire_msg msg;
	int r = wire_recv(LAYOUT_FD_CONTROL, &wire_di, &msg);

	if (r == -EAGAIN)
		return;
	if (r <= 0 || !wire_allow(accepted[in.state], msg.head.type))
		end();
	switch (msg.head.type) {
	case DI_END:
		end();
	case DI_KILL: {
		struct di_kill body;
		memcpy(&body, msg.body, sizeof(body));
		kill_command(body.id);
		break;
	}
	default:
		if (in.state == COMMAND && !in.keep)
			end();
		start_job(&msg);
	}
	wire_msg_fini(&msg);
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
	if (syscall(SYS_move_mount, msg.fds[0], "", AT_FDCWD, LAYOUT_WORKSPACE,
		    MOVE_MOUNT_F_EMPTY_PATH) < 0)
		end();
	wire_msg_fini(&msg);
	if (lock_keep_capabilities(CAPS_SPAWN | CAP(CAP_KILL), &err) < 0)
		end();
	close(LAYOUT_FD_HANDOVER);
	in.state = ATTACHED;
	on_control();
}

/* The socket of a process that is about to exec: says how that went. */
static void on_starting(struct command *c)
{
	struct wire_msg msg;
	int r = wire_recv(c->sock, &wire_id, &msg);

	if (r == -EAGAIN)
		return;
	if (r == 0 && c->ready) {
		struct id_started body = { .landlock = c->landlock };
		fd_close(&c->sock);
		report(ID_STARTED, c->id, &body, sizeof(body));
		return;
	}
	if (r == 1 && msg.head.type == ID_STARTED) {
		struct id_started body;
		memcpy(&body, msg.body, sizeof(body));
		c->landlock = body.landlock;
		c->ready = true;
		return;
	}
	if (r == 1 && msg.head.type == ID_REFUSED) {
		struct id_refused body;
		memcpy(&body, msg.body, sizeof(body));
		fd_close(&c->sock);
		c->pid = 0;
		refuse(c->id, body.stage, (int)body.code);
		return;
	}
	/* It died before it could say anything: killed from outside, or out of memory. The exit
	 * status tells. */
	wire_msg_fini(&msg);
	fd_close(&c->sock);
}

/* The file worker's answers go out as they are; airlockd checks them as hostile. */
static void on_worker(void)
{
	struct wire_msg msg;
	int r = wire_recv(in.spare.sock, &wire_id, &msg);

	if (r == -EAGAIN)
		return;
	if (r <= 0 || in.state != FILES ||
	    (msg.head.type != ID_FILE && msg.head.type != ID_FILE_END))
		end();
	report(msg.head.type, msg.head.id, msg.body, msg.body_len);
}

static void command_ended(struct command *c, int status)
{
	struct id_exited body = { .status = (uint32_t)status,
				  .wall_us = (uint64_t)(clock_monotonic_us() - c->started_us) };

	/* Its last words may still be in the socket: a refusal, or that it got as far as exec. */
	while (c->sock >= 0) {
		struct pollfd p = { .fd = c->sock, .events = POLLIN };
		if (poll(&p, 1, 0) <= 0)
			break;
		on_starting(c);
		if (!c->pid)
			return;
	}
	if (!in.keep && !knob_off(KNOB_PID_KILL))
		kill(-1, SIGKILL);
	report(ID_EXITED, c->id, &body, sizeof(body));
	fd_close(&c->sock);
	*c = (struct command){ .sock = -1 };
	if (!in.keep)
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
		if (pid == in.spare.pid)
			end();
		for (size_t i = 0; i < COMMANDS_MAX; i++)
			if (in.commands[i].pid == pid)
				command_ended(&in.commands[i], status);
	}
}

static _Noreturn void serve(void)
{
	for (;;) {
		struct pollfd p[5 + COMMANDS_MAX] = {
			{ .fd = LAYOUT_FD_CONTROL, .events = in.state == BLANK ? 0 : POLLIN },
			{ .fd = in.state == BLANK ? LAYOUT_FD_HANDOVER : -1, .events = POLLIN },
			{ .fd = LAYOUT_FD_LIFELINE, .events = POLLIN },
			{ .fd = in.signals, .events = POLLIN },
			{ .fd = in.spare.sock, .events = POLLIN },
		};
		for (size_t i = 0; i < COMMANDS_MAX; i++)
			p[5 + i] = (struct pollfd){ .fd = in.commands[i].pid ? in.commands[i].sock
									     : -1,
						    .events = POLLIN };
		if (poll(p, ARRAY_SIZE(p), -1) < 0) {
			if (errno == EINTR)
				continue;
			end();
		}
		if (p[2].revents)
			end();
		for (size_t i = 0; i < COMMANDS_MAX; i++)
			if (p[5 + i].revents && in.commands[i].pid)
				on_starting(&in.commands[i]);
		if (p[4].revents && in.spare.sock >= 0)
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
	for (size_t i = 0; i < COMMANDS_MAX; i++)
		in.commands[i].sock = -1;
	if (!knob_off(KNOB_CAPABILITIES)) {
		r = lock_init_bounding(&err);
		if (r == 0)
			r = lock_keep_capabilities(CAPS_SPAWN | CAP(CAP_KILL) | CAP(CAP_SYS_ADMIN),
						   &err);
		if (r < 0)
			fail("capabilities", -r);
	}
	r = tenant_spawn(&in.spare.pid, &in.spare.sock, &err);
	if (r < 0)
		fail("tenant", -r);
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
