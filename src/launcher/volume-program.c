// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <grp.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/fd.h"
#include "launcher/volume-backend.h"

/*
 * The cage. The child starts with new namespaces (their owner is the initial user namespace: it
 * needs no id map) and goes down in this order, because each step needs what a later one gives up:
 *   1. every mount that it inherited becomes read-only, nosuid, nodev: a copy, the host's stay;
 *   2. the working directory is the root of the detached mount, so that ".." ends there;
 *   3. ids change to IMAGE_OWNER, which empties the capability sets; no_new_privs; dies with us.
 * What is left: reading what everybody may read on this host, and writing into the cage.
 */
static const char *cage_enter(int cage)
{
	struct mount_attr ro = {
		.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
		.propagation = MS_PRIVATE,
	};
	struct rlimit none = { 0, 0 };

	if (mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &ro, sizeof(ro)) < 0)
		return "making the host read-only for the child";
	if (fchdir(cage) < 0)
		return "entering the new tree";
	if (setrlimit(RLIMIT_CORE, &none) < 0)
		return "setting limits";
	if (setgroups(0, NULL) < 0 || setresgid(IMAGE_OWNER, IMAGE_OWNER, IMAGE_OWNER) < 0 ||
	    setresuid(IMAGE_OWNER, IMAGE_OWNER, IMAGE_OWNER) < 0)
		return "changing to an unprivileged user";
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return "giving up privileges";
	return NULL;
}

static const char *program_prepare(const struct volume_program *c, int output)
{
	sigset_t none;

	sigemptyset(&none);
	if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
		return "unblocking signals";
	if (dup2(c->input, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0)
		return "setting up standard descriptors";
	umask(022);
	return c->cage >= 0 ? cage_enter(c->cage) : NULL;
}

static void program_main(const struct volume_program *c, int output) __attribute__((noreturn));

static void program_main(const struct volume_program *c, int output)
{
	static char *const no_environment[] = { NULL };
	char text[200];
	const char *failed = program_prepare(c, output);

	if (!failed) {
		signal(SIGPIPE, SIG_DFL);
		execve(c->argv[0], (char *const *)(uintptr_t)c->argv, no_environment);
		failed = "starting it";
	}
	int n = snprintf(text, sizeof(text), "%s: %s\n", failed, strerrordesc_np(errno));
	if (write(output, text, (size_t)n) < 0)
		_exit(126);
	_exit(127);
}

/* Keeps the first line of what the child prints and reads the rest away. */
static void first_line(int fd, char line[static 256])
{
	char rest[512];
	size_t len = 0;
	ssize_t n;

	while ((n = read(fd, rest, sizeof(rest))) != 0) {
		if (n < 0 && errno != EINTR)
			break;
		for (ssize_t i = 0; i < n && len < 255; i++)
			line[len++] = rest[i];
	}
	line[len] = '\0';
	line[strcspn(line, "\n")] = '\0';
	for (char *p = line; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = '?';
}

int volume_program_run(const struct volume_program *c, struct err *err)
{
	_cleanup_fd_ int out = -1, in = -1, pidfd = -1;
	int ends[2];
	char line[256];
	siginfo_t info = { 0 };
	struct clone_args args = { .flags = CLONE_PIDFD,
				   .pidfd = (uintptr_t)&pidfd,
				   .exit_signal = SIGCHLD };

	if (c->cage >= 0)
		args.flags |= CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
			      CLONE_NEWUTS;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "making a pipe for %s", c->argv[0]);
	in = ends[0];
	out = ends[1];
	long pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid < 0)
		return err_errno(err, "starting a process for %s", c->argv[0]);
	if (pid == 0)
		program_main(c, out);
	fd_close(&out);
	first_line(in, line);
	while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0)
		if (errno != EINTR)
			return err_errno(err, "waiting for %s", c->argv[0]);
	if (info.si_code == CLD_EXITED && info.si_status == 0)
		return 0;
	if (info.si_code != CLD_EXITED)
		return err_set(err, EIO, "%s was ended by signal %d", c->argv[0], info.si_status);
	return err_set(err, EIO, "%s failed with status %d: %s", c->argv[0], info.si_status, line);
}
