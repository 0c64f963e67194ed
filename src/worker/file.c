// SPDX-License-Identifier: Apache-2.0
#include "worker/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "sandbox/knobs.h"
#include "worker/file-usage.h"
#include "worker/job.h"
#include "worker/leftover.h"

#define MODE_BITS 0777u
#define SEND_MAX (1u << 30)

/* ---- reading --------------------------------------------------------------------------------- */

/* Exactly size bytes: what the file has grown by since is not sent, less is -JOB_SHORT. The file's
 * pages go into the pipe themselves: every file system that has idmapped mounts can do that. */
static int send_file(int pipe, int fd, uint64_t size)
{
	while (size > 0) {
		ssize_t n = sendfile(pipe, fd, NULL, size < SEND_MAX ? (size_t)size : SEND_MAX);

		if (n > 0) {
			size -= (uint64_t)n;
		} else if (n == 0) {
			return -JOB_SHORT;
		} else if (errno == EAGAIN) {
			int r = job_wait(pipe, POLLOUT);
			if (r < 0)
				return r;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

static int check_regular(int fd, struct stat *st)
{
	if (fstat(fd, st) < 0)
		return -errno;
	if (S_ISDIR(st->st_mode))
		return -EISDIR;
	return S_ISREG(st->st_mode) ? 0 : -ENXIO;
}

static int job_read(struct job *j)
{
	struct stat st;
	_cleanup_fd_ int peek = file_open_path(j->workspace, &job_path, O_PATH);

	if (peek < 0)
		return peek;
	int r = check_regular(peek, &st);
	if (r < 0)
		return r;
	/* Looked at before it is opened, so that no FIFO or device is touched, and again
	 * afterwards, because it may have been swapped. */
	_cleanup_fd_ int fd =
		file_open(j->workspace, job_path.text, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return fd;
	r = check_regular(fd, &st);
	if (r < 0)
		return r;
	j->answer.size = (uint64_t)st.st_size;
	j->answer.mode = st.st_mode & MODE_BITS;
	if (j->answer.size > j->ask->max)
		return -EFBIG;
	if (j->pipe < 0)
		return -EINVAL;
	job_answer(j, ID_FILE);
	return send_file(j->pipe, fd, j->answer.size);
}

static int stat_entry(struct job *j, struct stat *ret)
{
	struct file_target t = { .base = -1 };
	int r = file_entry_find(j->workspace, &job_path, &t);

	if (r >= 0 && !t.exists)
		r = -ENOENT;
	if (r >= 0)
		*ret = t.st;
	/* It is the workspace. */
	if (r == -EISDIR)
		r = fstat(j->workspace, ret) < 0 ? -errno : 0;
	file_target_fini(&t);
	return r;
}

static int stat_path(struct job *j, struct stat *ret)
{
	_cleanup_fd_ int fd = file_open_path(j->workspace, &job_path, O_PATH);

	if (fd < 0)
		return fd;
	return fstat(fd, ret) < 0 ? -errno : 0;
}

static int job_stat(struct job *j)
{
	struct stat st;
	int r = j->ask->flags & FILE_NO_FOLLOW ? stat_entry(j, &st) : stat_path(j, &st);

	if (r < 0)
		return r;
	j->answer.size = (uint64_t)st.st_size;
	j->answer.mode = st.st_mode;
	j->answer.used = (uint64_t)st.st_blocks * 512;
	return 0;
}

static int job_usage(struct job *j)
{
	struct file_usage usage;

	leftover_remove(j->workspace);
	int r = file_usage(j->workspace, &usage);
	if (r < 0)
		return r;
	j->answer.size = usage.bytes;
	j->answer.used = usage.inodes;
	j->answer.errno_code = usage.partial ? EACCES : 0;
	return 0;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static const struct {
	int (*run)(struct job *j);
	unsigned paths;
	uint32_t flags; /* that it knows */
} jobs[] = {
	[FILE_READ] = { job_read, 1, 0 },
	[FILE_WRITE] = { job_write, 1, 0 },
	[FILE_STAT] = { job_stat, 1, FILE_NO_FOLLOW },
	[FILE_USAGE] = { job_usage, 1, 0 },
	[FILE_LIST] = { job_list, 2, 0 },
	[FILE_REMOVE] = { job_remove, 1, FILE_RECURSIVE },
	[FILE_MOVE] = { job_move, 2, FILE_REPLACE },
	[FILE_MKDIR] = { job_mkdir, 1, 0 },
	[FILE_PACK] = { job_pack, 1, 0 },
	[FILE_UNPACK] = { job_unpack, 1, 0 },
	[FILE_TRIM] = { job_trim, 1, 0 },
	[FILE_MERGE] = { job_merge, 1, 0 },
};

/* One path of the specification; returns the offset behind its NUL. */
static ssize_t load_path(struct file_path *p, const char *text, size_t len)
{
	const char *end = memchr(text, '\0', len);

	if (!end || (size_t)(end - text) > LIMIT_PATH)
		return -EINVAL;
	p->len = (size_t)(end - text);
	memcpy(p->text, text, p->len + 1);
	return (ssize_t)p->len + 1;
}

/* The specification is the paths, each with its NUL, and nothing else. */
static int load_paths(int spec, unsigned paths)
{
	static char text[2 * (LIMIT_PATH + 1) + 1];
	ssize_t n = pread(spec, text, sizeof(text), 0);

	if (n < 0)
		return -errno;
	ssize_t used = load_path(&job_path, text, (size_t)n);
	if (used >= 0 && paths > 1) {
		ssize_t second = load_path(&job_second, text + used, (size_t)(n - used));
		used = second < 0 ? second : used + second;
	}
	if (used < 0 || used != n)
		return -EINVAL;
	if (job_path.len == 0) {
		memcpy(job_path.text, ".", sizeof("."));
		job_path.len = 1;
	}
	return 0;
}

static int prepare(const struct job *j, int spec)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	int flags;

	if (sigaction(SIGPIPE, &ignore, NULL) < 0)
		return -errno;
	umask(0);
	if (j->ask->op >= ARRAY_SIZE(jobs) || !jobs[j->ask->op].run ||
	    (j->ask->flags & ~jobs[j->ask->op].flags))
		return -EINVAL;
	if (j->pipe >= 0) {
		flags = fcntl(j->pipe, F_GETFL);
		if (flags < 0 || fcntl(j->pipe, F_SETFL, flags | O_NONBLOCK) < 0)
			return -errno;
	}
	return load_paths(spec, jobs[j->ask->op].paths);
}

void file_worker_job(const struct wire_msg *msg, const struct file_place *place)
{
	struct di_file ask;
	struct job j = { .ask = &ask,
			 .sock = place->sock,
			 .workspace = place->workspace,
			 .source = place->source,
			 .pipe = msg->n_fds > 1 ? msg->fds[1] : -1,
			 .id = msg->head.id };

	memcpy(&ask, msg->body, sizeof(ask));
	if (knob_off(KNOB_QUOTA_COUNT))
		ask.quota = 0;
	int r = prepare(&j, msg->fds[0]);
	if (r >= 0)
		r = jobs[ask.op].run(&j);
	job_result(&j, r);
	job_answer(&j, ID_FILE_END);
}
