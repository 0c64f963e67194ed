// SPDX-License-Identifier: Apache-2.0
/*
 * FILE_UNPACK. The archive is unpacked by a process of its own, so that what its reader allocates,
 * or breaks, ends with it. It works in a new folder of ours at the top (leftover.h), which becomes
 * the folder that was asked for by one rename; whatever happens before, it is removed.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "worker/file-usage.h"
#include "worker/file.h"
#include "worker/job.h"
#include "worker/leftover.h"
#include "worker/move.h"
#include "worker/remove.h"
#include "worker/unarchive.h"

/* SIGXCPU comes first: it says more than SIGKILL. */
#define CPU_SECONDS (UNARCHIVE_MS / 1000)

struct outcome {
	int error;
	struct unarchive u;
};

static _Noreturn void child(struct unarchive *u, int report)
{
	const struct rlimit cpu = { CPU_SECONDS, CPU_SECONDS + 1 };
	struct outcome out = { .error = 0 };

	setrlimit(RLIMIT_CPU, &cpu);
	out.error = unarchive(u);
	out.u = *u;
	_exit(job_write_all(report, (const char *)&out, sizeof(out)) < 0);
}

/* It could not say so itself. */
static int ended_by(struct unarchive *u, int status)
{
	if (!WIFSIGNALED(status))
		return -EIO;
	switch (WTERMSIG(status)) {
	case SIGXCPU:
		u->fault = FILE_ARCHIVE_TIME;
		break;
	case SIGKILL:
		u->fault = FILE_ARCHIVE_KILLED;
		break;
	default:
		u->fault = FILE_ARCHIVE_CRASHED;
		break;
	}
	return -JOB_ARCHIVE;
}

/* Runs it; fills *u. */
static int run_child(struct unarchive *u)
{
	struct outcome out;
	int pipes[2], status;

	if (pipe2(pipes, O_CLOEXEC) < 0)
		return -errno;
	_cleanup_fd_ int reader = pipes[0], writer = pipes[1];
	pid_t pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		child(u, writer);
	fd_close(&writer);
	ssize_t n;
	do {
		n = read(reader, &out, sizeof(out));
	} while (n < 0 && errno == EINTR);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (n != (ssize_t)sizeof(out))
		return ended_by(u, status);
	*u = out.u;
	return out.error;
}

/* missing: names of the folder and those above it. */
static int find_room(struct job *j, unsigned missing, struct unarchive *u)
{
	struct file_usage usage;

	leftover_remove(j->workspace);
	u->room = u->names = UINT64_MAX;
	if (!j->ask->quota)
		return 0;
	int r = file_usage(j->workspace, &usage);
	if (r < 0)
		return r;
	if (usage.inodes + missing > file_inodes_max)
		return -JOB_INODES;
	r = job_check_quota(j, usage.bytes, j->ask->size);
	j->answer.used = usage.bytes;
	if (r < 0)
		return r;
	u->room = j->ask->quota - usage.bytes;
	u->names = file_inodes_max - usage.inodes - missing;
	return 0;
}

/* Gives the folder its name. */
static int place(struct job *j, const char *own, int folder, const struct file_target *t)
{
	unsigned made = 0;
	int r = fchmod(folder, 0755) < 0 ? -errno : 0;

	if (r < 0)
		return r;
	_cleanup_fd_ int dir = file_target_make(t, &made);
	r = dir < 0 ? dir : move_entry(j->workspace, own, dir, t->name, RENAME_NOREPLACE);
	if (r < 0)
		file_target_unmake(t, made);
	return r;
}

static int unpack_to(struct job *j, const struct file_target *t)
{
	struct unarchive u = { .pipe = j->pipe };
	char own[JOB_NAME];
	uint64_t removed = 0;
	unsigned missing = file_target_missing(t);
	int r = find_room(j, missing, &u);

	if (r < 0)
		return r;
	_cleanup_fd_ int folder = leftover_begin(j->workspace, own);
	if (folder < 0)
		return folder;
	u.root = folder;
	r = run_child(&u);
	if (r >= 0)
		r = place(j, own, folder, t);
	if (r >= 0) {
		j->answer.size = u.files;
		j->answer.used = u.bytes + (u.entries + missing) * UNARCHIVE_BLOCK;
	} else {
		remove_entry(j->workspace, own, &removed);
	}
	j->fault = u.fault;
	return r;
}

int job_unpack(struct job *j)
{
	struct file_target t = { .base = -1 };
	int r;

	if (j->pipe < 0)
		return -EINVAL;
	r = file_entry_find(j->workspace, &job_path, &t);
	if (r == -EISDIR)
		return -EEXIST;
	if (r >= 0)
		r = t.exists ? -EEXIST : unpack_to(j, &t);
	file_target_fini(&t);
	return r;
}
