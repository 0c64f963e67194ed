// SPDX-License-Identifier: Apache-2.0
#include "worker/file-usage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "worker/file-path.h"

#define WALK_TRIES 3

static struct tree tree;

struct sum {
	uint64_t bytes, inodes;
	uint64_t shared; /* 1/2^20 inodes, of files with several names */
	bool partial;
};

static void count(struct sum *s, const struct stat *st)
{
	uint64_t bytes = (uint64_t)st->st_blocks * 512;

	if (S_ISDIR(st->st_mode) || st->st_nlink < 2) {
		s->bytes += bytes;
		s->inodes++;
		return;
	}
	s->bytes += (bytes + st->st_nlink - 1) / st->st_nlink;
	s->shared += (1u << 20) / st->st_nlink;
}

static int count_top(struct sum *s)
{
	struct stat st;

	if (fstat(tree_fd(&tree), &st) < 0)
		return -errno;
	count(s, &st);
	return 0;
}

static int descend(struct sum *s, const char *name)
{
	int r = tree_descend(&tree, name);

	if (r == -EACCES || r == -EXDEV) {
		s->partial = true;
		s->inodes++;
		return 0;
	}
	return r == 1 ? count_top(s) : r;
}

static int visit(struct sum *s, const struct tree_entry *e)
{
	struct stat st;

	if (e->type == DT_DIR)
		return descend(s, e->name);
	if (fstatat(tree_fd(&tree), e->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(st.st_mode))
		return descend(s, e->name);
	count(s, &st);
	return 0;
}

static int walk(int workspace_fd, struct sum *s)
{
	const struct tree_entry *e;
	int fd = file_open(workspace_fd, ".", O_RDONLY | O_DIRECTORY, 0);

	if (fd < 0)
		return fd;
	int r = tree_enter(&tree, &fd, "");
	if (r >= 0)
		r = count_top(s);
	while (r >= 0 && tree.depth > 0) {
		r = tree_next(&tree, &e);
		if (r > 0)
			r = visit(s, e);
		else if (r == 0)
			r = tree_leave(&tree);
	}
	return r;
}

int file_usage(int workspace_fd, struct file_usage *ret)
{
	int r = -EAGAIN;

	for (int i = 0; i < WALK_TRIES && r == -EAGAIN; i++) {
		struct sum s = { 0 };
		tree_init(&tree);
		r = walk(workspace_fd, &s);
		tree_fini(&tree);
		if (r >= 0)
			*ret = (struct file_usage){ s.bytes, s.inodes + (s.shared >> 20),
						    s.partial };
	}
	return r < 0 ? r : 0;
}
