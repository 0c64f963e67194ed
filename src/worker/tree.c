// SPDX-License-Identifier: Apache-2.0
#include "worker/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "worker/file-path.h"

static struct tree_slot *slot_of(struct tree *t, unsigned level)
{
	return &t->slots[level % TREE_OPEN];
}

struct tree_level *tree_level(struct tree *t)
{
	return &t->levels[t->depth - 1];
}

int tree_fd(const struct tree *t)
{
	return t->slots[(t->depth - 1) % TREE_OPEN].fd;
}

void tree_init(struct tree *t)
{
	t->depth = 0;
	t->seen = 0;
	t->path_len = 0;
	t->path_cut = false;
	for (unsigned n = 0; n < TREE_OPEN; n++)
		t->slots[n].fd = -1;
}

void tree_fini(struct tree *t)
{
	for (unsigned n = 0; n < TREE_OPEN; n++)
		fd_close(&t->slots[n].fd);
	t->depth = 0;
}

static void push_path(struct tree *t, const char *name)
{
	size_t len = strlen(name);

	if (!len)
		return;
	if (t->path_cut || len + 1 > sizeof(t->path) - t->path_len) {
		t->path_cut = true;
		return;
	}
	memcpy(t->path + t->path_len, name, len);
	t->path_len += len;
	t->path[t->path_len++] = '/';
}

int tree_enter(struct tree *t, int *fd, const char *name)
{
	struct tree_slot *s = slot_of(t, t->depth);
	struct stat st;

	if (t->depth == TREE_DEPTH) {
		fd_close(fd);
		return -EOVERFLOW;
	}
	if (fstat(*fd, &st) < 0) {
		int r = -errno;
		fd_close(fd);
		return r;
	}
	push_path(t, name);
	fd_close(&s->fd);
	s->fd = take_fd(fd);
	s->filled = s->at = 0;
	/* A path that was cut is not remembered by its length: the levels above it are. */
	t->levels[t->depth++] =
		(struct tree_level){ .dev = st.st_dev,
				     .ino = st.st_ino,
				     .path_len = t->path_cut ? TREE_PATH : (uint32_t)t->path_len,
				     .mode = st.st_mode };
	return 0;
}

int tree_descend(struct tree *t, const char *name)
{
	int fd = file_open(tree_fd(t), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK, 0);

	/* Removed, or swapped for something that is no folder. */
	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
		return 0;
	if (fd < 0)
		return fd;
	int r = tree_enter(t, &fd, name);
	return r < 0 ? r : 1;
}

/* The slot of the level above may have been lent to a deeper one. */
static int reopen(struct tree_slot *s, const struct tree_level *l, int child)
{
	struct stat st;

	s->filled = s->at = 0;
	s->fd = openat(child, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->fd < 0 || fstat(s->fd, &st) < 0)
		return -errno;
	if (st.st_dev != l->dev || st.st_ino != l->ino)
		return -EAGAIN;
	return lseek(s->fd, l->after, SEEK_SET) < 0 ? -errno : 0;
}

int tree_leave(struct tree *t)
{
	struct tree_slot *child = slot_of(t, t->depth - 1);
	int r = 0;

	t->depth--;
	if (t->depth > 0) {
		struct tree_slot *s = slot_of(t, t->depth - 1);
		const struct tree_level *l = tree_level(t);
		if (s->fd < 0)
			r = reopen(s, l, child->fd);
		t->path_cut = l->path_len == TREE_PATH;
		if (!t->path_cut)
			t->path_len = l->path_len;
	}
	fd_close(&child->fd);
	return r;
}

static bool is_dots(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

int tree_next(struct tree *t, const struct tree_entry **ret)
{
	struct tree_slot *s = slot_of(t, t->depth - 1);
	struct tree_level *l = tree_level(t);
	const struct tree_entry *e;

	do {
		if (s->at >= s->filled) {
			long n = syscall(SYS_getdents64, s->fd, s->entries, sizeof(s->entries));
			if (n <= 0)
				/* A folder that was removed under us reads as ENOENT. */
				return n == 0 || errno == ENOENT ? 0 : -errno;
			s->filled = (uint32_t)n;
			s->at = 0;
		}
		e = (const void *)(s->entries + s->at);
		s->at += e->len;
		l->before = l->after;
		l->after = e->next;
	} while (is_dots(e->name));
	if (++t->seen > TREE_ENTRIES)
		return -EOVERFLOW;
	*ret = e;
	return 1;
}

static int seek(struct tree *t, int64_t position)
{
	struct tree_slot *s = slot_of(t, t->depth - 1);

	s->filled = s->at = 0;
	tree_level(t)->after = position;
	return lseek(s->fd, position, SEEK_SET) < 0 ? -errno : 0;
}

int tree_again(struct tree *t)
{
	return seek(t, tree_level(t)->before);
}

int tree_rewind(struct tree *t)
{
	return seek(t, 0);
}
