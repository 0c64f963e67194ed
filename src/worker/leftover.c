// SPDX-License-Identifier: Apache-2.0
#include "worker/leftover.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "worker/remove.h"

/* Found in one look; more wait for the next. */
#define FOUND_MAX 16u

/* Another worker of the workspace may see it between the two calls and take it for a leftover. */
static int make(int workspace, const char *name)
{
	struct stat st;

	if (mkdirat(workspace, name, 0700) < 0)
		return -errno;
	_cleanup_fd_ int fd = file_open(workspace, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (fd < 0)
		return fd == -ENOENT ? -EEXIST : fd;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EEXIST : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	return st.st_nlink ? take_fd(&fd) : -EEXIST;
}

int leftover_begin(int workspace, char ret_name[JOB_NAME])
{
	int r = -EEXIST;

	for (int i = 0; i < JOB_NAME_TRIES && r == -EEXIST; i++) {
		r = job_random_name(ret_name);
		if (r >= 0)
			r = make(workspace, ret_name);
	}
	return r;
}

static bool is_name(const char *name)
{
	return job_is_own(name) && strlen(name) == JOB_NAME - 1 &&
	       strspn(name + JOB_OWN_LEN, "0123456789abcdef") == JOB_NAME - 1 - JOB_OWN_LEN;
}

/* The names are kept: a folder is not read while it is being emptied. */
static unsigned find(int workspace, char names[FOUND_MAX][JOB_NAME])
{
	const struct tree_entry *e;
	unsigned n = 0;
	_cleanup_fd_ int fd = file_open(workspace, ".", O_RDONLY | O_DIRECTORY, 0);

	if (fd < 0)
		return 0;
	tree_init(&job_tree);
	int r = tree_enter(&job_tree, &fd, "");
	while (r >= 0 && n < FOUND_MAX) {
		r = tree_next(&job_tree, &e);
		if (r <= 0)
			break;
		if (is_name(e->name))
			memcpy(names[n++], e->name, JOB_NAME);
	}
	tree_fini(&job_tree);
	return n;
}

void leftover_remove(int workspace)
{
	static char names[FOUND_MAX][JOB_NAME];
	unsigned n = find(workspace, names);
	uint64_t removed = 0;

	for (unsigned i = 0; i < n; i++) {
		/* Nothing else can be locked, and no FIFO is waited for. */
		_cleanup_fd_ int fd =
			file_open(workspace, names[i], O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0);
		struct stat st;
		if (fd >= 0 && fstat(fd, &st) == 0 &&
		    (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)) &&
		    flock(fd, LOCK_EX | LOCK_NB) == 0)
			remove_entry(workspace, names[i], &removed);
	}
}
