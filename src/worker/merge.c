// SPDX-License-Identifier: Apache-2.0
/*
 * FILE_MERGE: what is attached at LAYOUT_SOURCE, which nobody can write to, goes into a folder of
 * the workspace. Two walks of the source, each with the folders of the destination beside it as far
 * as they exist:
 *
 *   check  a folder against something else of the same name is a conflict; what can't be read or
 *          entered is refused; the sum is held against the quota. Nothing was changed so far.
 *   apply  folders are made or used as they are, files and links are put in the place of what has
 *          their name, by one rename each. Data is shared with the source where the file system can
 *          do that.
 *
 * Mode and time are the source's, but for folders that were there before. FIFOs, sockets and
 * devices are left out, and names of ours at the top. A link in the destination is replaced or in
 * the way, never followed.
 *
 * Invariant: job_tree2 (destination) is never deeper than job_tree (source); where both are equally
 * deep their tops are the same folder of the two sides.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "worker/draft.h"
#include "worker/file-usage.h"
#include "worker/file.h"
#include "worker/job.h"
#include "worker/leftover.h"

#define OWNER 0700u
#define ALL_BITS 07777u

struct merge {
	const struct job *j;
	bool apply;
	uint64_t need;	   /* allocated bytes of what comes */
	uint64_t replaced; /* and of what goes for it */
	uint64_t fresh;	   /* names that come new */
};

struct pair {
	const char *name;
	struct stat from, to; /* to only if there */
	bool there;
};

static bool made[TREE_DEPTH]; /* per level of the destination */

static bool has_destination(void)
{
	return job_tree2.depth == job_tree.depth;
}

/* ---- check ----------------------------------------------------------------------------------- */

/* As much of the path as a path has; what is remembered of one that was cut is more. */
static int report_conflict(const struct merge *m, const char *name)
{
	size_t len = strlen(name), before = job_tree.path_len;
	int r = 0;

	if (before > LIMIT_PATH)
		before = LIMIT_PATH;
	if (len > LIMIT_PATH - before)
		len = LIMIT_PATH - before;
	if (m->j->pipe >= 0)
		r = job_pipe_write(m->j->pipe, job_tree.path, before);
	if (m->j->pipe >= 0 && r >= 0)
		r = job_pipe_write(m->j->pipe, name, len);
	return r < 0 ? r : -JOB_CONFLICT;
}

static int check_entry(struct merge *m, const struct pair *p)
{
	uint64_t bytes = (uint64_t)p->from.st_blocks * 512;
	bool folder = S_ISDIR(p->from.st_mode);

	if (p->there && folder != (bool)S_ISDIR(p->to.st_mode))
		return report_conflict(m, p->name);
	if (S_ISREG(p->from.st_mode) &&
	    faccessat(tree_fd(&job_tree), p->name, R_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!folder || !p->there)
		m->need += bytes;
	if (!p->there)
		m->fresh++;
	else if (!folder && p->to.st_nlink < 2)
		m->replaced += (uint64_t)p->to.st_blocks * 512;
	return 0;
}

/* ---- apply ----------------------------------------------------------------------------------- */

static int copy_range(int in, int out, off_t at, off_t end)
{
	while (at < end) {
		size_t want = end - at < (off_t)sizeof(job_chunk) ? (size_t)(end - at)
								  : sizeof(job_chunk);
		ssize_t n = pread(in, job_chunk, want, at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		if (lseek(out, at, SEEK_SET) < 0)
			return -errno;
		int r = job_write_all(out, job_chunk, (size_t)n);
		if (r < 0)
			return r;
		at += n;
	}
	return 0;
}

/* Holes stay holes. */
static int copy_data(int in, int out, off_t size)
{
	off_t at = 0, hole;

	if (ioctl(out, FICLONE, in) == 0)
		return 0;
	while (at < size && (at = lseek(in, at, SEEK_DATA)) >= 0) {
		hole = lseek(in, at, SEEK_HOLE);
		if (hole < 0)
			return -errno;
		int r = copy_range(in, out, at, hole < size ? hole : size);
		if (r < 0)
			return r;
		at = hole;
	}
	if (at < 0 && errno != ENXIO)
		return -errno;
	return ftruncate(out, size) < 0 ? -errno : 0;
}

static int take_over(int fd, const struct stat *from)
{
	const struct timespec times[2] = { from->st_atim, from->st_mtim };

	if (fchmod(fd, from->st_mode & ALL_BITS) < 0 || futimens(fd, times) < 0)
		return -errno;
	return 0;
}

static int apply_file(const struct merge *m, const struct pair *p)
{
	int dir = tree_fd(&job_tree2);
	struct draft d = { .fd = -1 };
	struct stat st;
	_cleanup_fd_ int in = file_open(tree_fd(&job_tree), p->name,
					O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);

	if (in < 0)
		return in;
	if (fstat(in, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EAGAIN;
	int r = draft_open(&d, dir, m->j->workspace);
	if (r >= 0)
		r = copy_data(in, d.fd, st.st_size);
	if (r >= 0)
		r = take_over(d.fd, &st);
	if (r >= 0)
		r = draft_commit(&d, p->name, p->there);
	draft_fini(&d);
	return r;
}

static int apply_link(const struct merge *m, const struct pair *p)
{
	static char target[PATH_MAX];
	const struct timespec times[2] = { p->from.st_atim, p->from.st_mtim };
	int dir = tree_fd(&job_tree2), at = m->j->workspace;
	char own[JOB_NAME];
	ssize_t n = readlinkat(tree_fd(&job_tree), p->name, target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	int r = job_random_name(own);
	if (r < 0)
		return r;
	if (symlinkat(target, at, own) < 0) {
		at = dir; /* the top is closed */
		if (errno != EACCES || symlinkat(target, at, own) < 0)
			return -errno;
	}
	if (utimensat(at, own, times, AT_SYMLINK_NOFOLLOW) < 0 ||
	    renameat(at, own, dir, p->name) < 0) {
		r = -errno;
		unlinkat(at, own, 0);
	}
	return r;
}

/* Enters the destination's folder, made when there is none. */
static int apply_folder(const struct pair *p)
{
	int dir = tree_fd(&job_tree2), r = 0;
	bool fresh = false;

	/* What is removed or swapped between the two calls may be back the next time. */
	for (int i = 0; i < JOB_NAME_TRIES && r == 0; i++) {
		fresh = mkdirat(dir, p->name, OWNER) == 0;
		if (!fresh && errno != EEXIST)
			return -errno;
		r = tree_descend(&job_tree2, p->name);
	}
	if (r <= 0)
		return r < 0 ? r : -EAGAIN;
	made[job_tree2.depth - 1] = fresh;
	mode_t mode = tree_level(&job_tree2)->mode;
	return (mode & OWNER) == OWNER ? 0 : job_chmod(tree_fd(&job_tree2), mode | OWNER);
}

/* Mode and time of a folder come last: what went into it changed them. */
static int finish_folder(void)
{
	const struct tree_level *l = tree_level(&job_tree2);
	int fd = tree_fd(&job_tree2);
	struct stat st;

	if (made[job_tree2.depth - 1])
		return fstat(tree_fd(&job_tree), &st) < 0 ? -errno : take_over(fd, &st);
	return (l->mode & OWNER) == OWNER ? 0 : job_chmod(fd, l->mode);
}

/* ---- both ------------------------------------------------------------------------------------ */

static int leave(const struct merge *m)
{
	bool both = has_destination();
	int r = both && m->apply ? finish_folder() : 0;

	if (both) {
		int left = tree_leave(&job_tree2);
		r = r < 0 ? r : left;
	}
	int left = tree_leave(&job_tree);
	return r < 0 ? r : left;
}

static int visit_folder(const struct merge *m, const struct pair *p)
{
	bool beside = has_destination();
	int r = tree_descend(&job_tree, p->name);

	if (r <= 0 || !beside)
		return r;
	if (m->apply)
		return apply_folder(p);
	return p->there ? tree_descend(&job_tree2, p->name) : 0;
}

static int visit(struct merge *m, const struct tree_entry *e)
{
	struct pair p = { .name = e->name };
	int r = 0;

	if (job_tree.depth == 1 && job_is_own(e->name))
		return 0;
	if (fstatat(tree_fd(&job_tree), e->name, &p.from, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISREG(p.from.st_mode) && !S_ISDIR(p.from.st_mode) && !S_ISLNK(p.from.st_mode))
		return 0;
	if (has_destination()) {
		p.there = fstatat(tree_fd(&job_tree2), e->name, &p.to, AT_SYMLINK_NOFOLLOW) == 0;
		if (!p.there && errno != ENOENT)
			return -errno;
	}
	if (!m->apply)
		r = check_entry(m, &p);
	if (r < 0)
		return r;
	if (S_ISDIR(p.from.st_mode))
		return visit_folder(m, &p);
	if (!m->apply)
		return 0;
	return S_ISREG(p.from.st_mode) ? apply_file(m, &p) : apply_link(m, &p);
}

/* to: the destination, -1: it is to be made later; taken. */
static int walk(struct merge *m, int *to)
{
	const struct tree_entry *e;
	int from = file_open(m->j->source, ".", O_RDONLY | O_DIRECTORY, 0);
	int r = from;

	tree_init(&job_tree);
	tree_init(&job_tree2);
	made[0] = false;
	if (from >= 0)
		r = tree_enter(&job_tree, &from, "");
	if (r >= 0 && *to >= 0)
		r = tree_enter(&job_tree2, to, "");
	while (r >= 0 && job_tree.depth > 0) {
		r = tree_next(&job_tree, &e);
		if (r > 0)
			r = visit(m, e);
		else if (r == 0)
			r = leave(m);
	}
	/* After an error the folders above get their modes back. */
	while (job_tree.depth > 0 && job_tree2.depth > 0 && leave(m) >= 0)
		;
	tree_fini(&job_tree);
	tree_fini(&job_tree2);
	return r < 0 ? r : 0;
}

static void trim_path(void)
{
	while (job_path.len > 1 && job_path.text[job_path.len - 1] == '/')
		job_path.text[--job_path.len] = '\0';
}

/* The names of the folder itself and of those above it. */
static int count_destination(const struct job *j, struct merge *m)
{
	struct file_target t = { .base = -1 };

	trim_path();
	job_second = job_path;
	int r = file_target_find(j->workspace, &job_second, &t);
	if (r >= 0)
		m->fresh += file_target_missing(&t);
	file_target_fini(&t);
	return r;
}

/* to: as of walk. */
static int check(struct job *j, struct merge *m, int *to)
{
	struct file_usage usage;
	bool missing = *to < 0;
	int r = walk(m, to);

	j->answer.size = m->need;
	if (r < 0 || !j->ask->quota)
		return r;
	leftover_remove(j->workspace);
	r = missing ? count_destination(j, m) : 0;
	if (r >= 0)
		r = file_usage(j->workspace, &usage);
	if (r < 0)
		return r;
	if (usage.inodes + m->fresh > file_inodes_max)
		return -JOB_INODES;
	return job_check_quota(j, usage.bytes > m->replaced ? usage.bytes - m->replaced : 0,
			       m->need);
}

static int make_destination(const struct job *j)
{
	struct file_target t = { .base = -1 };
	unsigned made_parts = 0;
	int fd, r;

	trim_path();
	r = file_target_find(j->workspace, &job_path, &t);
	if (r < 0)
		return r;
	_cleanup_fd_ int dir = file_target_make(&t, &made_parts);
	fd = dir;
	if (dir >= 0 && mkdirat(dir, t.name, 0755) < 0)
		fd = -errno;
	else if (dir >= 0)
		fd = file_open(dir, t.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (fd < 0)
		file_target_unmake(&t, made_parts);
	file_target_fini(&t);
	return fd;
}

int job_merge(struct job *j)
{
	struct merge m = { .j = j };
	struct file_usage usage;
	bool top;

	if (j->source < 0)
		return -EINVAL;
	_cleanup_fd_ int to = job_open_folder(j, &top);
	if (to < 0 && to != -ENOENT)
		return to;
	_cleanup_fd_ int again = to < 0 ? -1 : file_open(to, ".", O_RDONLY | O_DIRECTORY, 0);
	to = to < 0 ? -1 : to;
	int r = check(j, &m, &to);
	if (r < 0)
		return r;
	if (again < 0)
		again = make_destination(j);
	if (again < 0)
		return again;
	m.apply = true;
	r = walk(&m, &again);
	if ((r == -EDQUOT || r == -ENOSPC) && file_usage(j->workspace, &usage) == 0)
		j->answer.used = usage.bytes;
	return r;
}
