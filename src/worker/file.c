// SPDX-License-Identifier: Apache-2.0
#include "worker/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "worker/file-path.h"
#include "worker/file-usage.h"

#define MODE_BITS 0777u
#define NAME_TRIES 16
#define TEMP_NAME (sizeof(".airlock-") + 16)

int file_pause_ms = FILE_PAUSE_MS;

static char chunk[256 * KIB];
static struct file_path path;

struct job {
	const struct di_file *ask;
	int sock;
	int workspace;
	int pipe; /* borrowed, -1: none */
	uint32_t id;
	struct id_file answer;
};

/* ---- answers --------------------------------------------------------------------------------- */

/* What a system call says, in the words of the protocol. -ESPIPE and -EMSGSIZE are our own. */
static const struct {
	int error;
	enum file_code code;
} codes[] = {
	{ ENOENT, FILE_ERR_MISSING },
	{ EXDEV, FILE_ERR_OUTSIDE },
	/* Links in a circle, and links that are not of the file system, lead nowhere inside. */
	{ ELOOP, FILE_ERR_OUTSIDE },
	{ EISDIR, FILE_ERR_FOLDER },
	{ ENXIO, FILE_ERR_NOT_REGULAR },
	{ ENODEV, FILE_ERR_NOT_REGULAR },
	{ ENOTDIR, FILE_ERR_NOT_IN_FOLDER },
	{ EACCES, FILE_ERR_DENIED },
	{ EPERM, FILE_ERR_DENIED },
	{ EROFS, FILE_ERR_DENIED },
	{ EFBIG, FILE_ERR_TOO_LARGE },
	{ EDQUOT, FILE_ERR_QUOTA },
	{ ENOSPC, FILE_ERR_QUOTA },
	{ EMLINK, FILE_ERR_INODES },
	{ EMSGSIZE, FILE_ERR_SHORT },
	{ ENAMETOOLONG, FILE_ERR_NAME },
};

/* Fills the answer from a negative errno; r >= 0 is FILE_OK. */
static void set_result(struct job *j, int r)
{
	if (r >= 0)
		return;
	j->answer.errno_code = (uint32_t)-r;
	j->answer.code = FILE_ERR_SYSTEM;
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		if (codes[i].error == -r)
			j->answer.code = codes[i].code;
	}
}

static int wait_for(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n;

	do {
		n = poll(&p, 1, file_pause_ms);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return n == 0 ? -ETIMEDOUT : 0;
}

/* A peer that doesn't read its answers loses them; its deadline is what ends the job then. */
static void answer(struct job *j, enum id_type type)
{
	while (wire_send(j->sock, type, j->id, &j->answer, sizeof(j->answer), NULL, 0) == -EAGAIN) {
		if (wait_for(j->sock, POLLOUT) < 0)
			return;
	}
}

/* ---- reading --------------------------------------------------------------------------------- */

static int pipe_write(int pipe, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(pipe, data, len);
		if (n < 0 && errno == EAGAIN) {
			int r = wait_for(pipe, POLLOUT);
			if (r < 0)
				return r;
		} else if (n < 0) {
			if (errno != EINTR)
				return -errno;
		} else {
			data += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

/* Exactly size bytes: what the file has grown by since is not sent, less is -EMSGSIZE. */
static int send_file(int pipe, int fd, uint64_t size)
{
	while (size > 0) {
		ssize_t n = read(fd, chunk, size < sizeof(chunk) ? (size_t)size : sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EMSGSIZE;
		int r = pipe_write(pipe, chunk, (size_t)n);
		if (r < 0)
			return r;
		size -= (uint64_t)n;
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
	_cleanup_fd_ int peek = file_open_path(j->workspace, &path, O_PATH);

	if (peek < 0)
		return peek;
	int r = check_regular(peek, &st);
	if (r < 0)
		return r;
	/* Looked at before it is opened, so that no FIFO or device is touched, and again
	 * afterwards, because it may have been swapped. */
	_cleanup_fd_ int fd =
		file_open(j->workspace, path.text, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
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
	answer(j, ID_FILE);
	return send_file(j->pipe, fd, j->answer.size);
}

static int job_stat(struct job *j)
{
	struct stat st;
	_cleanup_fd_ int fd = file_open_path(j->workspace, &path, O_PATH);

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	j->answer.size = (uint64_t)st.st_size;
	j->answer.mode = st.st_mode;
	j->answer.used = (uint64_t)st.st_blocks * 512;
	return 0;
}

static int job_usage(struct job *j)
{
	struct file_usage usage;
	int r = file_usage(j->workspace, &usage);

	if (r < 0)
		return r;
	j->answer.size = usage.bytes;
	j->answer.used = usage.inodes;
	j->answer.errno_code = usage.partial ? EACCES : 0;
	return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A new file on its way: without a name until it is complete, where the file system can do that. */
struct draft {
	int dir;	      /* owned */
	int fd;		      /* owned */
	char name[TEMP_NAME]; /* "" while it has none */
};

static void draft_fini(struct draft *d)
{
	if (d->name[0])
		unlinkat(d->dir, d->name, 0);
	fd_close(&d->fd);
	fd_close(&d->dir);
}

static int random_name(char name[TEMP_NAME])
{
	static const char hex[] = "0123456789abcdef";
	unsigned char bytes[8];
	char *at = name + sizeof(".airlock-") - 1;

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return -EIO;
	memcpy(name, ".airlock-", sizeof(".airlock-"));
	for (size_t i = 0; i < sizeof(bytes); i++) {
		*at++ = hex[bytes[i] >> 4];
		*at++ = hex[bytes[i] & 15];
	}
	*at = '\0';
	return 0;
}

static int draft_open(struct draft *d)
{
	d->fd = file_open(d->dir, ".", O_TMPFILE | O_WRONLY, 0600);
	if (d->fd >= 0)
		return 0;
	if (d->fd != -EOPNOTSUPP && d->fd != -EISDIR)
		return d->fd;
	/* Some stacked file systems can't: a name from the start. */
	for (int i = 0; i < NAME_TRIES && d->fd < 0; i++) {
		char name[TEMP_NAME];
		int r = random_name(name);
		if (r < 0)
			return r;
		d->fd = file_open(d->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
		if (d->fd >= 0)
			memcpy(d->name, name, sizeof(name));
		else if (d->fd != -EEXIST)
			return d->fd;
	}
	return d->fd < 0 ? d->fd : 0;
}

static int draft_link(const struct draft *d, const char *name)
{
	char self[sizeof("/proc/self/fd/") + 3 * sizeof(int)] = "/proc/self/fd/";
	char digits[3 * sizeof(int)];
	size_t n = 0, at = sizeof("/proc/self/fd/") - 1;

	/* Linux 6.10 and newer; before it CAP_DAC_READ_SEARCH was needed, and it said ENOENT. */
	if (linkat(d->fd, "", d->dir, name, AT_EMPTY_PATH) == 0)
		return 0;
	if (errno != ENOENT && errno != EPERM)
		return -errno;
	for (unsigned fd = (unsigned)d->fd; n == 0 || fd > 0; fd /= 10)
		digits[n++] = (char)('0' + fd % 10);
	while (n > 0)
		self[at++] = digits[--n];
	return linkat(AT_FDCWD, self, d->dir, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

/* Gives the draft the name of the target, in one step that others see. */
static int draft_commit(struct draft *d, const struct file_target *t)
{
	int r = -EEXIST;

	if (!d->name[0] && !t->exists) {
		r = draft_link(d, t->name);
		if (r != -EEXIST)
			return r;
	}
	for (int i = 0; i < NAME_TRIES && !d->name[0]; i++) {
		char name[TEMP_NAME];
		r = random_name(name);
		if (r >= 0)
			r = draft_link(d, name);
		if (r >= 0)
			memcpy(d->name, name, sizeof(name));
		else if (r != -EEXIST)
			return r;
	}
	if (!d->name[0])
		return r;
	if (renameat(d->dir, d->name, d->dir, t->name) < 0)
		return -errno;
	d->name[0] = '\0';
	return 0;
}

static int write_all(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

/* All bytes of the pipe, which must be exactly size; no pipe is an empty one. */
static int receive_file(int pipe, int fd, uint64_t size)
{
	uint64_t got = 0;

	while (pipe >= 0) {
		ssize_t n = read(pipe, chunk, sizeof(chunk));
		if (n == 0)
			break;
		if (n < 0 && errno == EAGAIN) {
			int r = wait_for(pipe, POLLIN);
			if (r < 0)
				return r;
		} else if (n < 0) {
			if (errno != EINTR)
				return -errno;
		} else {
			got += (uint64_t)n;
			if (got > size)
				return -EMSGSIZE;
			int r = write_all(fd, chunk, (size_t)n);
			if (r < 0)
				return r;
		}
	}
	return got == size ? 0 : -EMSGSIZE;
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

/* What the tree would use, when that is more than the quota: -EDQUOT. */
static int check_quota(struct job *j, const struct file_target *t)
{
	struct file_usage usage;
	int r = file_usage(j->workspace, &usage);

	if (r < 0)
		return r;
	if (!t->exists && usage.inodes >= FILE_INODES_MAX)
		return -EMLINK;
	uint64_t old = replaced_bytes(t);
	uint64_t rest = usage.bytes > old ? usage.bytes - old : 0;
	if (rest <= j->ask->quota && j->ask->size <= j->ask->quota - rest)
		return 0;
	j->answer.used = j->ask->size > UINT64_MAX - rest ? UINT64_MAX : rest + j->ask->size;
	return -EDQUOT;
}

static int write_draft(struct job *j, const struct file_target *t, struct draft *d)
{
	unsigned mode = (t->exists ? t->st.st_mode : j->ask->mode) & MODE_BITS;
	int r = draft_open(d);

	if (r >= 0)
		r = receive_file(j->pipe, d->fd, j->ask->size);
	if (r >= 0 && fchmod(d->fd, mode) < 0)
		r = -errno;
	if (r >= 0)
		r = draft_commit(d, t);
	if (r >= 0) {
		j->answer.size = j->ask->size;
		j->answer.mode = mode;
	}
	return r;
}

/* The file system refused: say what the tree would use, or that it is out of inodes. */
static int explain_full(struct job *j, const struct file_target *t, int r)
{
	struct file_usage usage;
	struct statfs fs;

	if (r == -ENOSPC && fstatfs(t->base, &fs) == 0 && fs.f_files > 0 && fs.f_ffree == 0)
		return -EMLINK;
	if (file_usage(j->workspace, &usage) == 0) {
		uint64_t old = replaced_bytes(t);
		j->answer.used = (usage.bytes > old ? usage.bytes - old : 0) + j->ask->size;
	}
	return r;
}

static int job_write_to(struct job *j, const struct file_target *t)
{
	struct draft d = { .dir = -1, .fd = -1 };
	unsigned made = 0;
	int r = check_target(t);

	if (r >= 0 && j->ask->quota > 0)
		r = check_quota(j, t);
	if (r < 0)
		return r;
	d.dir = file_target_make(t, &made);
	r = d.dir < 0 ? d.dir : write_draft(j, t, &d);
	draft_fini(&d);
	if (r < 0)
		file_target_unmake(t, made);
	return r == -EDQUOT || r == -ENOSPC ? explain_full(j, t, r) : r;
}

static int job_write(struct job *j)
{
	struct file_target t = { .base = -1 };
	int r = file_target_find(j->workspace, &path, &t);

	if (r >= 0)
		r = job_write_to(j, &t);
	file_target_fini(&t);
	return r;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static int (*const jobs[])(struct job *j) = {
	[FILE_READ] = job_read,
	[FILE_WRITE] = job_write,
	[FILE_STAT] = job_stat,
	[FILE_USAGE] = job_usage,
};

/* The specification is the path with its NUL and nothing else. */
static int load_path(int spec)
{
	ssize_t n = pread(spec, path.text, LIMIT_PATH + 2, 0);

	if (n < 0)
		return -errno;
	if (n < 1 || n > (ssize_t)LIMIT_PATH + 1 || path.text[n - 1] != '\0' ||
	    memchr(path.text, '\0', (size_t)n) != path.text + n - 1)
		return -EINVAL;
	path.len = (size_t)n - 1;
	if (path.len == 0) {
		memcpy(path.text, ".", sizeof("."));
		path.len = 1;
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
	if (j->ask->op >= ARRAY_SIZE(jobs) || !jobs[j->ask->op] || j->ask->flags)
		return -EINVAL;
	if (j->pipe >= 0) {
		flags = fcntl(j->pipe, F_GETFL);
		if (flags < 0 || fcntl(j->pipe, F_SETFL, flags | O_NONBLOCK) < 0)
			return -errno;
	}
	return load_path(spec);
}

void file_worker_job(const struct wire_msg *msg, int reply_sock, int workspace_fd)
{
	struct di_file ask;
	struct job j = { .ask = &ask,
			 .sock = reply_sock,
			 .workspace = workspace_fd,
			 .pipe = msg->n_fds > 1 ? msg->fds[1] : -1,
			 .id = msg->head.id };

	memcpy(&ask, msg->body, sizeof(ask));
	int r = prepare(&j, msg->fds[0]);
	if (r >= 0)
		r = jobs[ask.op](&j);
	set_result(&j, r);
	answer(&j, ID_FILE_END);
}
