// SPDX-License-Identifier: Apache-2.0
#include "worker/file-usage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "worker/file-path.h"

#define ENTRIES_SIZE 16384
#define WALK_TRIES 3

/* As the kernel fills it, include/linux/dirent.h. */
struct entry {
	uint64_t ino;
	int64_t next; /* position after this entry */
	uint16_t len;
	uint8_t type;
	char name[];
};

struct level {
	uint64_t dev, ino;
	int64_t position; /* after the last entry that was counted */
};

/* Level n uses slot n % FILE_USAGE_OPEN. Invariant: the slots of the levels top - FILE_USAGE_OPEN +
 * 1 to top are theirs or empty (fd -1). */
struct slot {
	int fd; /* owned */
	uint32_t filled, at;
	_Alignas(8) char entries[ENTRIES_SIZE];
};

static struct level levels[FILE_USAGE_DEPTH];
static struct slot slots[FILE_USAGE_OPEN];

struct walk {
	unsigned top;
	uint64_t bytes, inodes;
	uint64_t shared; /* 1/2^20 inodes, of files with several names */
	uint64_t seen;
	bool partial;
};

static struct slot *slot_of(unsigned level)
{
	return &slots[level % FILE_USAGE_OPEN];
}

static void count(struct walk *w, const struct stat *st)
{
	uint64_t bytes = (uint64_t)st->st_blocks * 512;

	if (S_ISDIR(st->st_mode) || st->st_nlink < 2) {
		w->bytes += bytes;
		w->inodes++;
		return;
	}
	w->bytes += (bytes + st->st_nlink - 1) / st->st_nlink;
	w->shared += (1u << 20) / st->st_nlink;
}

/* Makes the opened folder level w->top. */
static int enter(struct walk *w, int *fd)
{
	struct slot *s = slot_of(w->top);
	struct stat st;

	if (fstat(*fd, &st) < 0)
		return -errno;
	count(w, &st);
	fd_close(&s->fd);
	s->fd = take_fd(fd);
	s->filled = s->at = 0;
	levels[w->top] = (struct level){ st.st_dev, st.st_ino, 0 };
	return 0;
}

static bool is_gone(int r)
{
	/* Removed, or swapped for something that is no folder. */
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP;
}

static int descend(struct walk *w, const char *name)
{
	_cleanup_fd_ int fd = file_open(slot_of(w->top)->fd, name,
					O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK, 0);

	if (is_gone(fd))
		return 0;
	/* EXDEV: something is mounted there. */
	if (fd == -EACCES || fd == -EXDEV) {
		w->partial = true;
		w->inodes++;
		return 0;
	}
	if (fd < 0)
		return fd;
	if (w->top + 1 == FILE_USAGE_DEPTH)
		return -EOVERFLOW;
	w->top++;
	return enter(w, &fd);
}

/* Back to the level above; its slot may have been lent to a deeper one. */
static int ascend(struct walk *w)
{
	struct slot *child = slot_of(w->top), *s = slot_of(w->top - 1);
	const struct level *l = &levels[w->top - 1];
	struct stat st;

	w->top--;
	if (s->fd < 0) {
		s->filled = s->at = 0;
		s->fd = openat(child->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (s->fd < 0)
			return -errno;
		if (fstat(s->fd, &st) < 0)
			return -errno;
		if (st.st_dev != l->dev || st.st_ino != l->ino)
			return -EAGAIN;
		if (lseek(s->fd, l->position, SEEK_SET) < 0)
			return -errno;
	}
	fd_close(&child->fd);
	return 0;
}

static int visit(struct walk *w, const struct entry *e)
{
	struct stat st;

	if (e->name[0] == '.' && (!e->name[1] || (e->name[1] == '.' && !e->name[2])))
		return 0;
	if (++w->seen > FILE_USAGE_ENTRIES)
		return -EOVERFLOW;
	if (e->type == DT_DIR)
		return descend(w, e->name);
	if (fstatat(slot_of(w->top)->fd, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(st.st_mode))
		return descend(w, e->name);
	count(w, &st);
	return 0;
}

/* Counts the next entry of the top level. Returns 0 at the end of the folder, 1 when there may be
 * more, possibly in a level below. */
static int step(struct walk *w)
{
	struct slot *s = slot_of(w->top);

	if (s->at >= s->filled) {
		long n = syscall(SYS_getdents64, s->fd, s->entries, sizeof(s->entries));
		if (n <= 0)
			/* A folder that was removed under us reads as ENOENT. */
			return n == 0 || errno == ENOENT ? 0 : -errno;
		s->filled = (uint32_t)n;
		s->at = 0;
	}
	const struct entry *e = (const void *)(s->entries + s->at);
	s->at += e->len;
	levels[w->top].position = e->next;
	int r = visit(w, e);
	return r < 0 ? r : 1;
}

static int walk(int workspace_fd, struct walk *w)
{
	_cleanup_fd_ int fd = file_open(workspace_fd, ".", O_RDONLY | O_DIRECTORY, 0);

	if (fd < 0)
		return fd;
	int r = enter(w, &fd);
	while (r >= 0) {
		r = step(w);
		if (r == 0) {
			if (w->top == 0)
				return 0;
			r = ascend(w);
		}
	}
	return r;
}

int file_usage(int workspace_fd, struct file_usage *ret)
{
	int r = -EAGAIN;

	for (int i = 0; i < WALK_TRIES && r == -EAGAIN; i++) {
		struct walk w = { 0 };
		for (unsigned n = 0; n < FILE_USAGE_OPEN; n++)
			slots[n].fd = -1;
		r = walk(workspace_fd, &w);
		for (unsigned n = 0; n < FILE_USAGE_OPEN; n++)
			fd_close(&slots[n].fd);
		if (r == 0)
			*ret = (struct file_usage){ w.bytes, w.inodes + (w.shared >> 20),
						    w.partial };
	}
	return r;
}
