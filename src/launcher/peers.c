// SPDX-License-Identifier: Apache-2.0
#include "launcher/peers.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "ipc/wire.h"
#include "launcher/sibling.h"
#include "sandbox/knobs.h"

/* A burst of announcements must fit while the other end is busy. */
#define SOCKET_BUFFER (1024 * 1024)
#define PROGRAM_FDS_MAX 4

int peer_channel_open(int ret_socks[2], struct err *err)
{
	int size = SOCKET_BUFFER;
	int r = wire_pair_open(ret_socks, err);

	if (r < 0)
		return r;
	for (int i = 0; i < 2; i++)
		if (setsockopt(ret_socks[i], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) < 0)
			setsockopt(ret_socks[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	return 0;
}

static int open_channel(int *ret_mine, int *ret_theirs, struct err *err)
{
	int socks[2];
	int r = peer_channel_open(socks, err);

	if (r < 0)
		return r;
	*ret_mine = socks[0];
	*ret_theirs = socks[1];
	return 0;
}

/* Ctrl-C is for the launcher alone, which tells airlockd; the others work until that has ended. A
 * group of their own would do, but a terminal with tostop would stop it at its first log line. */
static void leave_terminal(void)
{
	setsid();
}

static void started(struct peer *p, pid_t pid, int *sock)
{
	p->pid = pid;
	p->sock = take_fd(sock);
	p->started_ms = clock_monotonic_ms();
	p->start_at_ms = 0;
}

/* A role that loses its supervisor must not stay, whatever it is waiting for. */
static void die_with_parent(pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
		_exit(1);
}

int peer_start_role(struct peer *p, struct launcher *l, void (*role)(struct launcher *l, int sock),
		    struct err *err)
{
	_cleanup_fd_ int mine = -1, theirs = -1;
	pid_t parent = getpid();
	char title[16];
	sigset_t none;
	int r = open_channel(&mine, &theirs, err);

	if (r < 0)
		return r;
	pid_t pid = fork();
	if (pid < 0)
		return err_errno(err, "cannot fork the %s", p->name);
	if (pid == 0) {
		die_with_parent(parent);
		leave_terminal();
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		log_init(p->name, LOG_INFO);
		snprintf(title, sizeof(title), "airlock-%s", p->name);
		prctl(PR_SET_NAME, title, 0, 0, 0);
		/* Without the write end of the lifeline, and without any sandbox's descriptors. */
		fd_close(&l->lifeline[1]);
		/* What is airlockd's alone: a child that outlives a crash must not hold the port. */
		fd_close(&l->options.listen_fd);
		fd_close(&l->options.metrics_fd);
		fd_close(&l->options.config_fd);
		if (dup3(theirs, l->first_fd, O_CLOEXEC) < 0 ||
		    syscall(SYS_close_range, (unsigned)l->first_fd + 1, ~0u, 0) < 0)
			_exit(1);
		role(l, l->first_fd);
	}
	started(p, pid, &mine);
	return 0;
}

/* A program of ours: words is its command line, fds become 3, 4, ... */
struct program {
	const char *const *words; /* NULL-terminated; the first is its name */
	const int *fds;
	int n_fds;
	uid_t user;
	gid_t group;
};

static _Noreturn void become(const struct launcher *l, const struct program *x)
{
	static char *envp[] = { NULL };
	char path[4096];
	int fds[PROGRAM_FDS_MAX];
	sigset_t none;

	leave_terminal();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int i = 0; i < x->n_fds; i++) {
		fds[i] = fcntl(x->fds[i], F_DUPFD_CLOEXEC, 64);
		if (fds[i] < 0)
			_exit(1);
	}
	for (int i = 0; i < x->n_fds; i++)
		if (dup3(fds[i], 3 + i, 0) < 0)
			_exit(1);
	if (syscall(SYS_close_range, 3 + x->n_fds, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
		_exit(1);
	/* Opened as root: its user need not be able to go where it lies, in root's home say. */
	int program = sibling_path(l->directory, x->words[0], path, sizeof(path)) < 0
			      ? -1
			      : open(path, O_PATH | O_CLOEXEC);
	if (program < 0)
		_exit(1);
	if (chdir("/") < 0 || setgroups(0, NULL) < 0 ||
	    setresgid(x->group, x->group, x->group) < 0 ||
	    setresuid(x->user, x->user, x->user) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		_exit(1);
	/* Cleared by the change of ids. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		_exit(1);
	/* By path where that goes: before Linux 6.14 a process executed by descriptor is named by
	 * the number of it. */
	execve(path, (char *const *)(uintptr_t)x->words, envp);
	syscall(SYS_execveat, program, "", (char *const *)(uintptr_t)x->words, envp, AT_EMPTY_PATH);
	_exit(1);
}

static int start_program(struct peer *p, struct launcher *l, struct program *x, int *fds,
			 struct err *err)
{
	_cleanup_fd_ int mine = -1;
	int r = open_channel(&mine, &fds[0], err);

	if (r < 0)
		return r;
	pid_t pid = fork();
	if (pid == 0)
		become(l, x);
	fd_close(&fds[0]);
	if (pid < 0)
		return err_errno(err, "cannot fork %s", p->name);
	started(p, pid, &mine);
	return 0;
}

int peer_start_daemon(struct peer *p, struct launcher *l, struct err *err)
{
	const char *words[] = { "airlockd", "--state-dir", l->options.state_dir, NULL };
	int fds[] = { -1, l->options.config_fd, l->options.listen_fd, l->options.metrics_fd };
	struct program x = { words, fds, fds[3] < 0 ? 3 : 4, l->user, l->group };

	return start_program(p, l, &x, fds, err);
}

#ifdef AIRLOCK_TEST_KNOBS
static void add_test_words(const char **words)
{
	static char bits[24];
	const char *hurry = getenv("AIRLOCK_TEST_HURRY");

	snprintf(bits, sizeof(bits), "%llu", (unsigned long long)knob_bits);
	*words++ = "--off";
	*words++ = bits;
	if (hurry) {
		*words++ = "--hurry";
		*words++ = hurry;
	}
}
#else
static void add_test_words(const char **words)
{
	(void)words;
}
#endif

int peer_start_gateway(struct peer *p, struct launcher *l, struct err *err)
{
	const struct launcher_options *o = &l->options;
	char days[24];
	const char *words[14] = { "airlock-gateway", "--log-dir", o->egress_log_dir,
				  "--log-days",	     days,	  "--dns",
				  o->egress_dns };
	size_t n = 7;
	int fds[] = { -1 };
	struct program x = { words, fds, ARRAY_SIZE(fds), l->gateway_user, l->gateway_group };

	snprintf(days, sizeof(days), "%llu", (unsigned long long)o->egress_log_days);
	if (o->import_base) {
		words[n++] = "--import-base";
		words[n++] = o->import_base;
	}
	add_test_words(words + n);
	return start_program(p, l, &x, fds, err);
}

void peer_kill(struct peer *p)
{
	if (p->pid > 0)
		kill(p->pid, SIGKILL);
	p->kill_at_ms = 0;
	fd_close(&p->sock);
}

void peer_close(struct peer *p)
{
	fd_close(&p->sock);
	p->greeted = false;
	p->kill_at_ms = 0;
	p->pid = 0;
}
