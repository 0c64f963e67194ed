// SPDX-License-Identifier: Apache-2.0
/*
 * inject: makes the n-th system call of a process, or of anything that it forks meanwhile, fail; or
 * kills the process that is about to make it.
 *
 *   inject PID N ERRNO
 *   inject PID N kill [exec]
 *
 * Prints "attached" when it counts, "injected <call> <pid>" when it has done it. SIGTERM makes it
 * let go of everything and print "total <calls>". Counting goes over all traced processes together,
 * in the order in which they enter the kernel; with "exec" it leaves out those that have not
 * exec'd, nor were forked by one that has, since it attached. Calls that can not be refused in a
 * meaningful way (exit, sigreturn, execve that already succeeded) are counted but left alone. A
 * process that is killed dies before the call was made. x86-64 only, like the filters. Uses
 * ptrace(2), so the seccomp filter of a sandbox sees a skipped call.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRACEES_MAX 1024
#define OPTIONS \
	(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | \
	 PTRACE_O_TRACEEXEC)

struct tracee {
	pid_t pid;
	bool inside;   /* between entry and exit of a call */
	bool poisoned; /* its call was replaced; the exit sets the result */
	bool counts;
	bool known; /* its parent's stop for the fork was seen: counts is decided */
	bool held;  /* stopped until it is */
};

static struct tracee tracees[TRACEES_MAX];
static unsigned long calls, target;
static int error_number;
static bool killing, only_after_exec, done;

/* The kernel lets go of every tracee when its tracer ends, whatever state it is in. */
static _Noreturn void end(void)
{
	printf("total %lu\n", calls);
	fflush(stdout);
	_exit(0);
}

static void on_term(int sig)
{
	(void)sig;
	end();
}

/* SIGTERM comes in here and nowhere else: not in the middle of something, nor between a look at
 * whether it has come and a wait that would not end any more. */
static pid_t wait_for_stop(int *status)
{
	sigset_t term;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_UNBLOCK, &term, NULL);
	pid_t pid = waitpid(-1, status, __WALL);
	int error = errno;
	sigprocmask(SIG_BLOCK, &term, NULL);
	errno = error;
	return pid;
}

static struct tracee *find(pid_t pid)
{
	struct tracee *unused = NULL;

	for (size_t i = 0; i < TRACEES_MAX; i++) {
		if (tracees[i].pid == pid)
			return &tracees[i];
		if (!tracees[i].pid && !unused)
			unused = &tracees[i];
	}
	if (unused)
		*unused = (struct tracee){ .pid = pid };
	return unused;
}

static bool is_refusable(unsigned long long call)
{
	return call != SYS_exit && call != SYS_exit_group && call != SYS_rt_sigreturn &&
	       call != SYS_restart_syscall && call != SYS_close && call != SYS_close_range;
}

/* At the entry of a call that is to fail, or not to be lived to see. */
static void inject(struct tracee *t, struct user_regs_struct *regs)
{
	done = true;
	printf("injected %llu %d\n", regs->orig_rax, t->pid);
	fflush(stdout);
	if (killing) {
		kill(t->pid, SIGKILL);
		return;
	}
	regs->orig_rax = (unsigned long long)-1;
	ptrace(PTRACE_SETREGS, t->pid, NULL, regs);
	t->poisoned = true;
}

static void on_call(struct tracee *t)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, t->pid, NULL, &regs) < 0)
		return;
	if (!t->inside) {
		t->inside = true;
		calls += t->counts;
		if (!done && t->counts && calls >= target &&
		    (killing || is_refusable(regs.orig_rax)))
			inject(t, &regs);
		return;
	}
	t->inside = false;
	if (t->poisoned) {
		regs.rax = (unsigned long long)-(long long)error_number;
		ptrace(PTRACE_SETREGS, t->pid, NULL, &regs);
		t->poisoned = false;
	}
}

static void go_on(const struct tracee *t, int sig)
{
	ptrace(PTRACE_SYSCALL, t->pid, NULL, (void *)(long)sig);
}

/* A new process may stop before its parent has told of it. */
static void on_fork(const struct tracee *parent)
{
	unsigned long pid;

	if (ptrace(PTRACE_GETEVENTMSG, parent->pid, NULL, &pid) < 0)
		return;
	struct tracee *t = find((pid_t)pid);
	if (!t)
		return;
	t->counts = parent->counts;
	t->known = true;
	if (t->held)
		go_on(t, 0);
	t->held = false;
}

/* Returns the signal to deliver with the restart, or -1: not now. */
static int on_stop(struct tracee *t, int status)
{
	int sig = WSTOPSIG(status), event = status >> 16;

	if (sig == (SIGTRAP | 0x80)) {
		on_call(t);
		return 0;
	}
	if (event == PTRACE_EVENT_STOP) {
		t->held = !t->known;
		return t->held ? -1 : 0;
	}
	if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK ||
	    event == PTRACE_EVENT_CLONE) {
		on_fork(t);
		return 0;
	}
	if (event == PTRACE_EVENT_EXEC) {
		t->inside = true; /* the exit of execve is still to come */
		t->counts = true;
		return 0;
	}
	return sig;
}

static int attach_one(pid_t pid)
{
	struct tracee *t = find(pid);

	if (!t || ptrace(PTRACE_SEIZE, pid, NULL, (void *)OPTIONS) < 0 ||
	    ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0)
		return -1;
	t->known = true;
	t->counts = !only_after_exec;
	return 0;
}

/* All its threads. */
static int attach(const char *pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%.20s/task", pid);
	DIR *dir = opendir(path);
	if (!dir)
		return -1;
	int r = 0;
	for (struct dirent *e; r == 0 && (e = readdir(dir));)
		if (e->d_name[0] != '.')
			r = attach_one((pid_t)strtol(e->d_name, NULL, 10));
	closedir(dir);
	return r;
}

int main(int argc, char **argv)
{
	struct sigaction act = { .sa_handler = on_term };
	int status;

	killing = argc > 3 && strcmp(argv[3], "kill") == 0;
	only_after_exec = killing && argc == 5 && strcmp(argv[4], "exec") == 0;
	if (argc != 4 + only_after_exec) {
		fprintf(stderr, "usage: inject PID N ERRNO | inject PID N kill [exec]\n");
		return 2;
	}
	target = strtoul(argv[2], NULL, 10);
	error_number = (int)strtol(argv[3], NULL, 10);
	sigset_t term;
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	sigaction(SIGTERM, &act, NULL);
	if (attach(argv[1]) < 0) {
		perror("inject: attach");
		return 1;
	}
	bool announced = false;
	for (;;) {
		pid_t pid = wait_for_stop(&status);
		if (pid < 0) {
			if (errno == EINTR)
				continue;
			break; /* nothing left to trace */
		}
		struct tracee *t = find(pid);
		if (!t)
			break;
		if (!WIFSTOPPED(status)) {
			*t = (struct tracee){ 0 };
			continue;
		}
		int sig = on_stop(t, status);
		if (sig >= 0)
			go_on(t, sig);
		if (!announced) {
			announced = true;
			printf("attached\n");
			fflush(stdout);
		}
	}
	end();
}
