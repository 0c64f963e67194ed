// SPDX-License-Identifier: Apache-2.0
/* FILE_MOVE and FILE_MKDIR. */
#include "worker/move.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "worker/job.h"

static int rename_to(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
	return syscall(SYS_renameat2, from_dir, from, to_dir, to, flags) < 0 ? -errno : 0;
}

int move_entry(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
	struct stat st;
	int r = rename_to(from_dir, from, to_dir, to, flags);

	if (r != -EACCES)
		return r;
	_cleanup_fd_ int fd = file_open(from_dir, from, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
	if (fd < 0 || fstat(fd, &st) < 0 || (st.st_mode & S_IWUSR) ||
	    job_chmod(fd, st.st_mode | S_IWUSR) < 0)
		return r;
	r = rename_to(from_dir, from, to_dir, to, flags);
	job_chmod(fd, st.st_mode);
	return r;
}

static int move_to(struct job *j, const struct file_target *from, const struct file_target *to)
{
	bool replace = j->ask->flags & FILE_REPLACE;
	unsigned made = 0;

	if (to->exists && !replace)
		return -EEXIST;
	_cleanup_fd_ int dir = file_target_make(to, &made);
	int r = dir < 0 ? dir
			: move_entry(from->base, from->name, dir, to->name,
				     replace ? 0 : RENAME_NOREPLACE);
	if (r < 0)
		file_target_unmake(to, made);
	/* One is a folder and the other is not, or the folder that is there has something in it. */
	if (to->exists && (r == -ENOTDIR || r == -EISDIR || r == -ENOTEMPTY))
		return -EEXIST;
	/* A folder into itself. */
	if (r == -EINVAL) {
		j->answer.used = 1;
		return -ENOTDIR;
	}
	return r;
}

int job_move(struct job *j)
{
	struct file_target from = { .base = -1 }, to = { .base = -1 };
	int r = file_entry_find(j->workspace, &job_path, &from);

	if (r >= 0 && !from.exists)
		r = -ENOENT;
	if (r >= 0) {
		r = file_entry_find(j->workspace, &job_second, &to);
		j->answer.used = r < 0;
	}
	if (r >= 0)
		r = move_to(j, &from, &to);
	file_target_fini(&from);
	file_target_fini(&to);
	return r;
}

/* ---- FILE_MKDIR ------------------------------------------------------------------------------ */

/* 0: there is a folder already. */
static int look(const struct job *j)
{
	struct stat st;
	_cleanup_fd_ int fd = file_open_path(j->workspace, &job_path, O_PATH);

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -EEXIST;
}

static int make(struct job *j, const struct file_target *t)
{
	unsigned made = 0;
	_cleanup_fd_ int dir = file_target_make(t, &made);
	int r = dir;

	if (dir >= 0)
		r = mkdirat(dir, t->name, 0755) < 0 ? -errno : 0;
	if (r < 0)
		file_target_unmake(t, made);
	else
		j->answer.size = 1;
	return r;
}

int job_mkdir(struct job *j)
{
	struct file_target t = { .base = -1 };
	int r;

	while (job_path.len > 1 && job_path.text[job_path.len - 1] == '/')
		job_path.text[--job_path.len] = '\0';
	r = look(j);
	if (r != -ENOENT)
		return r;
	r = file_target_find(j->workspace, &job_path, &t);
	if (r >= 0)
		r = make(j, &t);
	file_target_fini(&t);
	return r;
}
