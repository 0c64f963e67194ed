// SPDX-License-Identifier: Apache-2.0
#include "worker/job.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "worker/file.h"

int file_pause_ms = FILE_PAUSE_MS;
uint64_t file_inodes_max = FILE_INODES_MAX;

char job_chunk[256 * KIB];
struct file_path job_path, job_second;
struct tree job_tree, job_tree2;

/* ---- answers --------------------------------------------------------------------------------- */

/* What a system call says, in the words of the protocol, and our own numbers. */
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
	{ ENAMETOOLONG, FILE_ERR_NAME },
	{ EEXIST, FILE_ERR_EXISTS },
	{ ENOTEMPTY, FILE_ERR_NOT_EMPTY },
	{ JOB_INODES, FILE_ERR_INODES },
	{ JOB_SHORT, FILE_ERR_SHORT },
	{ JOB_CONFLICT, FILE_ERR_CONFLICT },
	{ JOB_ARCHIVE, FILE_ERR_ARCHIVE },
	{ JOB_NOT_FOLDER, FILE_ERR_NOT_FOLDER },
	{ EAGAIN, FILE_ERR_CHANGED },
	{ EOVERFLOW, FILE_ERR_DEEP },
};

void job_result(struct job *j, int r)
{
	if (r >= 0)
		return;
	j->answer.errno_code = r == -JOB_ARCHIVE ? j->fault : (uint32_t)-r;
	j->answer.code = FILE_ERR_SYSTEM;
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		if (codes[i].error == -r)
			j->answer.code = codes[i].code;
	}
}

int job_wait(int fd, short events)
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
void job_answer(struct job *j, enum id_type type)
{
	while (wire_send(j->sock, type, j->id, &j->answer, sizeof(j->answer), NULL, 0) == -EAGAIN) {
		if (job_wait(j->sock, POLLOUT) < 0)
			return;
	}
}

/* ---- bytes ----------------------------------------------------------------------------------- */

int job_pipe_write(int pipe, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(pipe, data, len);
		if (n < 0 && errno == EAGAIN) {
			int r = job_wait(pipe, POLLOUT);
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

ssize_t job_pipe_read(int pipe, char *data, size_t len)
{
	for (;;) {
		ssize_t n = read(pipe, data, len);
		if (n >= 0)
			return n;
		if (errno == EAGAIN) {
			int r = job_wait(pipe, POLLIN);
			if (r < 0)
				return r;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
}

int job_write_all(int fd, const char *data, size_t len)
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

/* ---- folders --------------------------------------------------------------------------------- */

int job_random_name(char name[JOB_NAME])
{
	static const char hex[] = "0123456789abcdef";
	unsigned char bytes[8];
	char *at = name + JOB_OWN_LEN;

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return -EIO;
	memcpy(name, JOB_OWN, JOB_OWN_LEN);
	for (size_t i = 0; i < sizeof(bytes); i++) {
		*at++ = hex[bytes[i] >> 4];
		*at++ = hex[bytes[i] & 15];
	}
	*at = '\0';
	return 0;
}

int job_open_folder(const struct job *j, bool *ret_top)
{
	struct stat st, top;
	/* Looked at before it is opened for reading, so that no FIFO or device is touched. */
	_cleanup_fd_ int peek = file_open_path(j->workspace, &job_path, O_PATH);

	if (peek < 0)
		return peek;
	if (fstat(peek, &st) < 0 || fstat(j->workspace, &top) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -JOB_NOT_FOLDER;
	*ret_top = st.st_dev == top.st_dev && st.st_ino == top.st_ino;
	return file_open(peek, ".", O_RDONLY | O_DIRECTORY, 0);
}

int job_chmod(int fd, mode_t mode)
{
	char self[FILE_SELF];

	file_self(fd, self);
	return chmod(self, mode & 07777) < 0 ? -errno : 0;
}

int job_check_quota(struct job *j, uint64_t used, uint64_t more)
{
	if (used <= j->ask->quota && more <= j->ask->quota - used)
		return 0;
	j->answer.used = more > UINT64_MAX - used ? UINT64_MAX : used + more;
	return -EDQUOT;
}
