// SPDX-License-Identifier: Apache-2.0
/*
 * inject: makes the n-th system call of a process, or of anything that it forks meanwhile, fail.
 *
 *   inject PID N ERRNO
 *
 * Prints "attached" when it counts, "injected <call> <pid>" when it has done it. SIGTERM makes it
 * let go of everything and print "total <calls>". Counting goes over all traced processes together,
 * in the order in which they enter the kernel. Calls that can not be refused in a meaningful way
 * (exit, sigreturn, execve that already succeeded) are counted but left alone. x86-64 only, like
 * the filters. Uses ptrace(2), so the seccomp filter of a sandbox sees a skipped call.
 */
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
};

static struct tracee tracees[TRACEES_MAX];
static volatile sig_atomic_t stop;
static unsigned long calls, target;
static int error_number;
static bool done;

static void on_term(int sig)
{
	(void)sig;
	stop = 1;
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

static void on_call(struct tracee *t)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, t->pid, NULL, &regs) < 0)
		return;
	if (!t->inside) {
		t->inside = true;
		calls++;
		if (!done && calls >= target && is_refusable(regs.orig_rax)) {
			printf("injected %llu %d\n", regs.orig_rax, t->pid);
			fflush(stdout);
			regs.orig_rax = (unsigned long long)-1;
			ptrace(PTRACE_SETREGS, t->pid, NULL, &regs);
			t->poisoned = true;
			done = true;
		}
		return;
	}
	t->inside = false;
	if (t->poisoned) {
		regs.rax = (unsigned long long)-(long long)error_number;
		ptrace(PTRACE_SETREGS, t->pid, NULL, &regs);
		t->poisoned = false;
	}
}

/* Returns the signal to deliver with the restart. */
static int on_stop(struct tracee *t, int status)
{
	int sig = WSTOPSIG(status), event = status >> 16;

	if (sig == (SIGTRAP | 0x80)) {
		on_call(t);
		return 0;
	}
	if (event == PTRACE_EVENT_STOP || event == PTRACE_EVENT_FORK ||
	    event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE)
		return 0;
	if (event == PTRACE_EVENT_EXEC) {
		t->inside = true; /* the exit of execve is still to come */
		return 0;
	}
	return sig;
}

int main(int argc, char **argv)
{
	struct sigaction act = { .sa_handler = on_term };
	int status;

	if (argc != 4) {
		fprintf(stderr, "usage: inject PID N ERRNO\n");
		return 2;
	}
	pid_t first = (pid_t)strtol(argv[1], NULL, 10);
	target = strtoul(argv[2], NULL, 10);
	error_number = (int)strtol(argv[3], NULL, 10);
	sigaction(SIGTERM, &act, NULL);
	if (ptrace(PTRACE_SEIZE, first, NULL, (void *)OPTIONS) < 0 ||
	    ptrace(PTRACE_INTERRUPT, first, NULL, NULL) < 0) {
		perror("inject: attach");
		return 1;
	}
	find(first);
	bool announced = false;
	while (!stop) {
		pid_t pid = waitpid(-1, &status, __WALL);
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
		ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(long)sig);
		if (!announced) {
			announced = true;
			printf("attached\n");
			fflush(stdout);
		}
	}
	/* The kernel lets go of every tracee when its tracer ends, whatever state it is in. */
	printf("total %lu\n", calls);
	return 0;
}
