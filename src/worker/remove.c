// SPDX-License-Identifier: Apache-2.0
#include "worker/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "worker/job.h"
#include "worker/move.h"

#define OWNER 0700u

/* Removes a name or an empty folder. 1: it is gone; 0: it is a folder with something in it. relax:
 * a mode that dir may be given, 0: none. */
static int remove_one(int dir, const char *name, bool folder, mode_t relax, uint64_t *count)
{
	for (int i = 0; i < JOB_NAME_TRIES; i++) {
		if (unlinkat(dir, name, folder ? AT_REMOVEDIR : 0) == 0) {
			++*count;
			return 1;
		}
		if (errno == ENOENT)
			return 1;
		if (errno == ENOTEMPTY || errno == EEXIST)
			return 0;
		/* It is the other kind: swapped, or the kind was not known. */
		if (errno == EISDIR || errno == ENOTDIR)
			folder = errno == EISDIR;
		else if (errno != EACCES || !relax)
			return -errno;
		else if (job_chmod(dir, relax) < 0)
			return -EACCES;
		else
			relax = 0;
	}
	return -EAGAIN;
}

/* A folder that its owner made unreadable. */
static int unlock(int dir, const char *name)
{
	struct stat st;
	_cleanup_fd_ int fd = file_open(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	return (st.st_mode & OWNER) == OWNER ? -EACCES : job_chmod(fd, st.st_mode | OWNER);
}

/* A folder deeper than a walk can go becomes one of the first folder's entries, for the next. */
static int lift(int top, const char *name)
{
	char own[JOB_NAME];
	struct stat st;
	int r = job_random_name(own);

	if (r >= 0 && fstat(top, &st) < 0)
		r = -errno;
	if (r >= 0 && (st.st_mode & OWNER) != OWNER)
		r = job_chmod(top, st.st_mode | OWNER);
	if (r >= 0)
		r = move_entry(tree_fd(&job_tree), name, top, own, RENAME_NOREPLACE);
	return r == -ENOENT ? 0 : r;
}

static int visit(const struct tree_entry *e, uint64_t *count)
{
	int r = remove_one(tree_fd(&job_tree), e->name, e->type == DT_DIR,
			   tree_level(&job_tree)->mode | OWNER, count);

	if (r != 0)
		return r;
	r = tree_descend(&job_tree, e->name);
	if (r == -EACCES) {
		r = unlock(tree_fd(&job_tree), e->name);
		if (r >= 0)
			r = tree_descend(&job_tree, e->name);
	}
	return r;
}

static int remove_once(int top, const char *skip, uint64_t *count, bool *ret_again)
{
	const struct tree_entry *e;
	int fd = file_open(top, ".", O_RDONLY | O_DIRECTORY, 0);

	*ret_again = false;
	if (fd < 0)
		return fd;
	tree_init(&job_tree);
	int r = tree_enter(&job_tree, &fd, "");
	while (r >= 0 && job_tree.depth > 0) {
		r = tree_next(&job_tree, &e);
		if (r > 0) {
			if (job_tree.depth > 1 || !skip || strcmp(e->name, skip) != 0)
				r = visit(e, count);
			if (r == -EOVERFLOW && job_tree.depth == TREE_DEPTH) {
				r = lift(top, e->name);
				*ret_again = true;
			}
		} else if (r == 0) {
			r = tree_leave(&job_tree);
			/* Now it is empty, or somebody filled it. */
			if (r >= 0 && job_tree.depth > 0)
				r = tree_again(&job_tree);
		}
	}
	tree_fini(&job_tree);
	return r < 0 ? r : 0;
}

int remove_beneath(int *fd, const char *skip, uint64_t *count)
{
	_cleanup_fd_ int top = take_fd(fd);
	bool again = true;
	int r = 0;

	while (r >= 0 && again)
		r = remove_once(top, skip, count, &again);
	return r;
}

int remove_entry(int dir, const char *name, uint64_t *count)
{
	for (int i = 0; i < JOB_NAME_TRIES; i++) {
		int r = remove_one(dir, name, false, 0, count);
		if (r != 0)
			return r < 0 ? r : 0;
		int fd = file_open(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
		if (fd == -EACCES && unlock(dir, name) >= 0)
			fd = file_open(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
		if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
			continue;
		r = fd < 0 ? fd : remove_beneath(&fd, NULL, count);
		if (r < 0)
			return r;
	}
	return -ENOTEMPTY;
}

/* ---- FILE_REMOVE ----------------------------------------------------------------------------- */

int job_remove(struct job *j)
{
	struct file_target t = { .base = -1 };
	uint64_t count = 0;
	int r = file_entry_find(j->workspace, &job_path, &t);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	if (*t.rest || !t.exists)
		r = 0;
	else if (j->ask->flags & FILE_RECURSIVE)
		r = remove_entry(t.base, t.name, &count);
	else if ((r = remove_one(t.base, t.name, S_ISDIR(t.st.st_mode), 0, &count)) == 0)
		r = -ENOTEMPTY;
	file_target_fini(&t);
	j->answer.size = count;
	return r < 0 ? r : 0;
}
