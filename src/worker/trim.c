// SPDX-License-Identifier: Apache-2.0
/*
 * FILE_TRIM: a copy of a workspace becomes a snapshot of one of its folders. The entries of the
 * folder go into a folder of ours at the top, everything else is removed, then they go to the top.
 * Nobody else is in that copy, and one that is left half-way is deleted as a whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "worker/file-usage.h"
#include "worker/job.h"
#include "worker/move.h"
#include "worker/remove.h"

/* Until a whole pass finds nothing to move: positions in a folder that changes may skip entries. */
static int move_all(int *from, int to)
{
	const struct tree_entry *e;
	bool moved = true;

	tree_init(&job_tree);
	int r = tree_enter(&job_tree, from, "");
	if (r >= 0 && !(tree_level(&job_tree)->mode & S_IWUSR))
		r = job_chmod(tree_fd(&job_tree), tree_level(&job_tree)->mode | S_IWUSR);
	while (r >= 0 && moved) {
		moved = false;
		r = tree_rewind(&job_tree);
		while (r >= 0 && (r = tree_next(&job_tree, &e)) > 0) {
			r = move_entry(tree_fd(&job_tree), e->name, to, e->name, 0);
			moved = true;
		}
	}
	tree_fini(&job_tree);
	return r;
}

static int remove_rest(const struct job *j, const char *kept)
{
	uint64_t before, count = 0;
	int r;

	do {
		before = count;
		int top = file_open(j->workspace, ".", O_RDONLY | O_DIRECTORY, 0);
		r = top < 0 ? top : remove_beneath(&top, kept, &count);
	} while (r >= 0 && count != before);
	return r;
}

static int move_up(const struct job *j, int *folder)
{
	char name[JOB_NAME];
	int r = job_random_name(name);

	if (r < 0)
		return r;
	if (mkdirat(j->workspace, name, 0700) < 0)
		return -errno;
	_cleanup_fd_ int kept = file_open(j->workspace, name, O_RDONLY | O_DIRECTORY, 0);
	if (kept < 0)
		return kept;
	r = move_all(folder, kept);
	if (r >= 0)
		r = remove_rest(j, name);
	if (r >= 0)
		r = move_all(&kept, j->workspace);
	if (r >= 0 && unlinkat(j->workspace, name, AT_REMOVEDIR) < 0)
		r = -errno;
	return r;
}

/* Of the top itself only our own names go. */
static int remove_own(const struct job *j, int *top)
{
	static char name[NAME_MAX + 1];
	const struct tree_entry *e;
	uint64_t count = 0;
	bool found = true;
	int r = 0;

	while (r >= 0 && found) {
		int fd = file_open(*top, ".", O_RDONLY | O_DIRECTORY, 0);
		if (fd < 0)
			return fd;
		found = false;
		tree_init(&job_tree);
		r = tree_enter(&job_tree, &fd, "");
		while (r >= 0 && !found && (r = tree_next(&job_tree, &e)) > 0) {
			found = job_is_own(e->name) && strlen(e->name) < sizeof(name);
			if (found)
				memcpy(name, e->name, strlen(e->name) + 1);
		}
		tree_fini(&job_tree);
		if (r >= 0 && found)
			r = remove_entry(j->workspace, name, &count);
	}
	return r;
}

int job_trim(struct job *j)
{
	struct file_usage usage;
	bool top;
	_cleanup_fd_ int folder = job_open_folder(j, &top);
	int r = folder;

	if (folder >= 0)
		r = top ? remove_own(j, &folder) : move_up(j, &folder);
	if (r >= 0)
		r = file_usage(j->workspace, &usage);
	if (r < 0)
		return r;
	j->answer.size = usage.bytes;
	j->answer.used = usage.inodes;
	return 0;
}
