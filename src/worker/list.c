// SPDX-License-Identifier: Apache-2.0
/* FILE_LIST: a page of a tree in byte order. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "worker/job.h"
#include "worker/sorted.h"

#define DEPTH_MAX 16u

/* Where job_chunk is filled up to. */
static int flush(const struct job *j, size_t *filled)
{
	int r = job_pipe_write(j->pipe, job_chunk, *filled);

	*filled = 0;
	return r;
}

static void put(size_t *filled, const void *data, size_t len)
{
	memcpy(job_chunk + *filled, data, len);
	*filled += len;
}

/* 1: it was put down; 0: it is gone. */
static int put_entry(const struct job *j, const char *name, size_t *filled)
{
	static char target[PATH_MAX];
	size_t dir_len = job_tree.path_len, name_len = strlen(name);
	struct file_entry e = { .path_len = (uint32_t)(dir_len + name_len) };
	struct stat st;

	if (fstatat(tree_fd(&job_tree), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	e.mode = st.st_mode;
	e.size = (uint64_t)st.st_size;
	e.mtime = st.st_mtim.tv_sec;
	if (S_ISLNK(st.st_mode)) {
		ssize_t n = readlinkat(tree_fd(&job_tree), name, target, sizeof(target));
		e.target_len = n < 0 ? 0 : (uint32_t)n;
	}
	if (*filled + sizeof(e) + e.path_len + e.target_len > sizeof(job_chunk)) {
		int r = flush(j, filled);
		if (r < 0)
			return r;
	}
	put(filled, &e, sizeof(e));
	put(filled, job_tree.path, dir_len);
	put(filled, name, name_len);
	put(filled, target, e.target_len);
	return 1;
}

static int list(struct job *j, size_t *filled)
{
	const char *name;
	int r;

	while ((r = sorted_next(&name)) > 0) {
		if (j->answer.size == j->ask->max) {
			j->answer.used = 1;
			return 0;
		}
		r = put_entry(j, name, filled);
		if (r < 0)
			return r;
		j->answer.size += (uint64_t)r;
	}
	return r;
}

int job_list(struct job *j)
{
	size_t filled = 0;
	bool top;
	int r;

	if (j->pipe < 0 || j->ask->depth < 1 || j->ask->depth > DEPTH_MAX)
		return -EINVAL;
	int fd = job_open_folder(j, &top);
	if (fd < 0)
		return fd;
	r = sorted_start(&fd, job_second.text, j->ask->depth, top);
	if (r >= 0)
		r = list(j, &filled);
	sorted_end();
	return r < 0 ? r : flush(j, &filled);
}
