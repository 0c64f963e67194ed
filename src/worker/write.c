// SPDX-License-Identifier: Apache-2.0
/*
 * FILE_WRITE. A file of unknown size is complete when its pipe has ended and a DI_COMMIT with the
 * job's id says as many bytes as came. The commit may arrive after the pipe's end, so it is waited
 * for; a commit with another size, or any other message, means that it will not come. A message
 * that is not ours to take stays in the socket.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "worker/draft.h"
#include "worker/file-usage.h"
#include "worker/file.h"
#include "worker/job.h"
#include "worker/leftover.h"

#define MODE_BITS 0777u

struct room {
	uint64_t used;	/* by the tree, without what is replaced; only with a quota */
	uint64_t limit; /* bytes that may come */
	int beyond;	/* the error when more come */
};

static int take_commit(const struct job *j, uint64_t got)
{
	struct wire_msg msg;
	struct di_commit commit;
	int r = wire_recv(j->sock, &wire_di, &msg);

	if (r <= 0)
		return r == -EAGAIN ? r : -JOB_SHORT;
	wire_msg_fini(&msg);
	/* One that was sent for a job which had ended before it came. */
	if (msg.head.id != j->id)
		return -EAGAIN;
	memcpy(&commit, msg.body, sizeof(commit));
	return commit.size == got ? 0 : -JOB_SHORT;
}

static int wait_commit(const struct job *j, uint64_t got)
{
	struct wire_head head;
	int r;

	do {
		r = job_wait(j->sock, POLLIN);
		if (r < 0)
			return r == -ETIMEDOUT ? -JOB_SHORT : r;
		ssize_t n = recv(j->sock, &head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			r = -EAGAIN;
			continue;
		}
		if (n != (ssize_t)sizeof(head) || head.type != DI_COMMIT)
			return -JOB_SHORT;
		r = take_commit(j, got);
	} while (r == -EAGAIN);
	return r;
}

/* All bytes of the pipe, which must be as many as announced; no pipe is an empty file. */
static int receive_file(struct job *j, int fd, const struct room *room)
{
	uint64_t got = 0, size = j->ask->size;

	while (j->pipe >= 0) {
		ssize_t n = job_pipe_read(j->pipe, job_chunk, sizeof(job_chunk));
		if (n < 0)
			return (int)n;
		if (n == 0)
			break;
		got += (uint64_t)n;
		if (got > room->limit) {
			if (room->beyond == -EDQUOT)
				j->answer.used = room->used + got;
			return room->beyond;
		}
		int r = job_write_all(fd, job_chunk, (size_t)n);
		if (r < 0)
			return r;
	}
	int r = size == FILE_SIZE_UNKNOWN ? wait_commit(j, got) : got == size ? 0 : -JOB_SHORT;
	if (r >= 0)
		j->answer.size = got;
	return r;
}

/* The old file's bytes that the new one makes free. */
static uint64_t replaced_bytes(const struct file_target *t)
{
	return t->exists && t->st.st_nlink < 2 ? (uint64_t)t->st.st_blocks * 512 : 0;
}

static int check_target(const struct file_target *t)
{
	if (!t->exists)
		return 0;
	if (S_ISDIR(t->st.st_mode))
		return -EISDIR;
	if (!S_ISREG(t->st.st_mode))
		return -ENXIO;
	/* Renaming would not ask the old file. Everything in a workspace belongs to the tenant. */
	return t->st.st_mode & S_IWUSR ? 0 : -EACCES;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static int find_room(struct job *j, const struct file_target *t, struct room *room)
{
	bool unknown = j->ask->size == FILE_SIZE_UNKNOWN;
	struct file_usage usage;

	*room = (struct room){ .limit = unknown ? j->ask->max : j->ask->size,
			       .beyond = unknown ? -EFBIG : -JOB_SHORT };
	if (!j->ask->quota)
		return 0;
	leftover_remove(j->workspace);
	int r = file_usage(j->workspace, &usage);
	if (r < 0)
		return r;
	unsigned missing = file_target_missing(t);
	if (missing > 0 && usage.inodes + missing > file_inodes_max)
		return -JOB_INODES;
	room->used = less(usage.bytes, replaced_bytes(t));
	r = job_check_quota(j, room->used, unknown ? 0 : j->ask->size);
	if (r >= 0 && unknown && j->ask->quota - room->used < room->limit) {
		room->limit = j->ask->quota - room->used;
		room->beyond = -EDQUOT;
	}
	return r;
}

static int write_draft(struct job *j, const struct file_target *t, struct draft *d,
		       const struct room *room)
{
	unsigned mode = (t->exists ? t->st.st_mode : j->ask->mode) & MODE_BITS;
	int r = receive_file(j, d->fd, room);

	if (r >= 0 && fchmod(d->fd, mode) < 0)
		r = -errno;
	if (r >= 0)
		r = draft_commit(d, t->name, t->exists);
	if (r >= 0)
		j->answer.mode = mode;
	return r;
}

/* The file system refused: say what the tree would use, or that it is out of inodes. */
static int explain_full(struct job *j, const struct file_target *t, int r)
{
	struct file_usage usage;
	struct statfs fs;
	uint64_t size = j->ask->size == FILE_SIZE_UNKNOWN ? 0 : j->ask->size;

	if (r == -ENOSPC && fstatfs(t->base, &fs) == 0 && fs.f_files > 0 && fs.f_ffree == 0)
		return -JOB_INODES;
	if (j->answer.used == 0 && file_usage(j->workspace, &usage) == 0)
		j->answer.used = less(usage.bytes, replaced_bytes(t)) + size;
	return r;
}

static int write_to(struct job *j, const struct file_target *t)
{
	struct draft d = { .fd = -1 };
	struct room room;
	unsigned made = 0;
	int r = check_target(t);

	if (r >= 0)
		r = find_room(j, t, &room);
	if (r < 0)
		return r;
	_cleanup_fd_ int dir = file_target_make(t, &made);
	r = dir < 0 ? dir : draft_open(&d, dir, j->workspace);
	if (r >= 0)
		r = write_draft(j, t, &d, &room);
	draft_fini(&d);
	if (r < 0)
		file_target_unmake(t, made);
	return r == -EDQUOT || r == -ENOSPC ? explain_full(j, t, r) : r;
}

int job_write(struct job *j)
{
	struct file_target t = { .base = -1 };
	int r = file_target_find(j->workspace, &job_path, &t);

	if (r >= 0)
		r = write_to(j, &t);
	file_target_fini(&t);
	return r;
}
