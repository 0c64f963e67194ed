// SPDX-License-Identifier: Apache-2.0
#include "worker/unarchive.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/knobs.h"
#include "worker/job.h"
#include "worker/zip.h"

struct reading {
	struct unarchive *u;
	struct archive *archive;
	uint64_t unpacked;
	int64_t deadline_us;
	int error; /* of the callback: libarchive only knows that it failed */
};

static int fault(struct unarchive *u, enum file_archive_fault what)
{
	u->fault = what;
	return -JOB_ARCHIVE;
}

/* A member, or a folder that was made for one. */
static int count_entry(struct unarchive *u)
{
	u->entries++;
	if (u->entries > UNARCHIVE_ENTRIES && !knob_off(KNOB_ARCHIVE_LIMITS))
		return fault(u, FILE_ARCHIVE_LIMIT);
	return u->entries > u->names ? -JOB_INODES : 0;
}

/* ---- the stream ------------------------------------------------------------------------------ */

static int check_limits(struct reading *r)
{
	if (knob_off(KNOB_ARCHIVE_LIMITS))
		return 0;
	if (r->unpacked > UNARCHIVE_BYTES ||
	    (r->unpacked > UNARCHIVE_RATIO_FREE && r->unpacked / UNARCHIVE_RATIO > zip_taken()))
		return fault(r->u, FILE_ARCHIVE_LIMIT);
	return clock_monotonic_us() > r->deadline_us ? fault(r->u, FILE_ARCHIVE_TIME) : 0;
}

static ssize_t read_stream(struct reading *r)
{
	ssize_t n = zip_read(job_chunk, sizeof(job_chunk));

	if (n == -EBADMSG)
		return knob_off(KNOB_ARCHIVE_STREAM) ? 0 : fault(r->u, FILE_ARCHIVE_BROKEN);
	if (n <= 0)
		return n;
	r->unpacked += (uint64_t)n;
	int error = check_limits(r);
	return error < 0 ? error : n;
}

static la_ssize_t on_read(struct archive *a, void *data, const void **ret)
{
	struct reading *r = data;
	ssize_t n = read_stream(r);

	if (n < 0) {
		r->error = (int)n;
		archive_set_error(a, EIO, "the stream ended");
		return ARCHIVE_FATAL;
	}
	*ret = job_chunk;
	return n;
}

/* What the reader of tar has refused ends it there. */
static int broken(const struct reading *r)
{
	if (r->error < 0)
		return r->error;
	if (archive_errno(r->archive) == ENOMEM)
		return fault(r->u, FILE_ARCHIVE_MEMORY);
	return knob_off(KNOB_ARCHIVE_STREAM) ? 0 : fault(r->u, FILE_ARCHIVE_BROKEN);
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool is_dots(const char *part, size_t len)
{
	return len == 2 && part[0] == '.' && part[1] == '.';
}

/* The name without its first component, in its plainest form. 1: done; 0: nothing is left. */
static int strip(struct unarchive *u, const char *raw, char ret[LIMIT_PATH + 1])
{
	size_t at = 0, parts = 0;

	if (!raw || (raw[0] == '/' && !knob_off(KNOB_ARCHIVE_NAMES)))
		return fault(u, FILE_ARCHIVE_NAME);
	/* Without the check it stays absolute. */
	if (raw[0] == '/') {
		ret[at++] = '/';
		parts++;
	}
	while (*raw) {
		size_t len = strcspn(raw, "/");
		const char *part = raw;
		raw += len + (raw[len] == '/');
		if (len == 0 || (len == 1 && part[0] == '.'))
			continue;
		if (len > LIMIT_PATH_PART || (is_dots(part, len) && !knob_off(KNOB_ARCHIVE_NAMES)))
			return fault(u, FILE_ARCHIVE_NAME);
		if (parts++ == 0)
			continue;
		if (at + len + 2 > LIMIT_PATH)
			return fault(u, FILE_ARCHIVE_NAME);
		if (at > 0)
			ret[at++] = '/';
		memcpy(ret + at, part, len);
		at += len;
	}
	ret[at] = '\0';
	return at > 0;
}

/* A folder by a path without links; without the check, with. */
static int open_folder(int dir, const char *path)
{
	const int flags = O_PATH | O_DIRECTORY;

	return knob_off(KNOB_ARCHIVE_NAMES) ? file_open(dir, path, flags, 0)
					    : file_open_plain(dir, path, flags, 0);
}

/* Makes what is missing of a path, step by step; no step is a link. */
static int make_path(struct unarchive *u, const char *path)
{
	char name[LIMIT_PATH_PART + 1];
	_cleanup_fd_ int dir = file_open(u->root, ".", O_PATH | O_DIRECTORY, 0);

	while (dir >= 0 && *path) {
		size_t len = strcspn(path, "/");
		memcpy(name, path, len);
		name[len] = '\0';
		path += len + (path[len] == '/');
		int error = mkdirat(dir, name, 0755) == 0 ? count_entry(u) : -errno;
		if (error < 0 && error != -EEXIST)
			return error;
		int next = open_folder(dir, name);
		fd_close(&dir);
		dir = next;
	}
	return take_fd(&dir);
}

/* The folder of a stripped name; *ret_name is its last component. The slash becomes NUL. */
static int open_parent(struct unarchive *u, char *path, bool make, const char **ret_name)
{
	char *slash = strrchr(path, '/');
	int fd;

	*ret_name = path;
	if (!slash)
		return file_open(u->root, ".", O_PATH | O_DIRECTORY, 0);
	*slash = '\0';
	*ret_name = slash + 1;
	fd = open_folder(u->root, path);
	if (fd == -ENOENT && make)
		fd = make_path(u, path);
	if (fd == -ELOOP)
		return fault(u, FILE_ARCHIVE_LINK);
	return fd == -ENOTDIR ? fault(u, FILE_ARCHIVE_NAME) : fd;
}

/* What has this name already goes, unless it is a folder. */
static int clear(struct unarchive *u, int dir, const char *name)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(st.st_mode))
		return fault(u, FILE_ARCHIVE_NAME);
	if (unlinkat(dir, name, 0) < 0)
		return -errno;
	u->files -= S_ISREG(st.st_mode);
	return 0;
}

/* ---- modes ----------------------------------------------------------------------------------- */

/* In the place of libarchive's own, which is linked without: an ACL in a PAX header would change
 * the mode of its member, and is not ours to take over. */
int __wrap_archive_acl_from_text_l(void *acl, const char *text, int type, void *charset);
int __wrap_archive_acl_from_text_l(void *acl, const char *text, int type, void *charset)
{
	(void)acl;
	(void)text;
	(void)type;
	(void)charset;
	return ARCHIVE_OK;
}

/* ---- members --------------------------------------------------------------------------------- */

static int charge(struct unarchive *u, uint64_t bytes)
{
	u->bytes += (bytes + UNARCHIVE_BLOCK - 1) / UNARCHIVE_BLOCK * UNARCHIVE_BLOCK;
	return u->bytes > u->room ? -EDQUOT : 0;
}

static int write_at(int fd, const char *data, size_t len, int64_t offset)
{
	while (len > 0) {
		ssize_t n = pwrite(fd, data, len, offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		len -= (size_t)n;
		offset += n;
	}
	return 0;
}

static int copy_data(struct reading *r, int fd)
{
	const void *data;
	size_t len;
	la_int64_t offset;

	for (;;) {
		int state = archive_read_data_block(r->archive, &data, &len, &offset);
		if (state == ARCHIVE_EOF)
			return 0;
		if (state != ARCHIVE_OK && state != ARCHIVE_WARN)
			return broken(r);
		if (offset < 0 || (uint64_t)offset > UNARCHIVE_BYTES)
			return fault(r->u, FILE_ARCHIVE_LIMIT);
		int error = charge(r->u, len);
		if (error >= 0)
			error = write_at(fd, data, len, offset);
		if (error < 0)
			return error;
	}
}

static int finish_file(int fd, struct archive_entry *e)
{
	const struct timespec times[2] = { { .tv_sec = archive_entry_mtime(e) },
					   { .tv_sec = archive_entry_mtime(e) } };

	if (fchmod(fd, archive_entry_perm(e) & 0111 ? 0755 : 0644) < 0)
		return -errno;
	/* A time that the file system can't hold is no reason to refuse. */
	if (archive_entry_mtime_is_set(e) && futimens(fd, times) < 0 && errno != EINVAL)
		return -errno;
	return 0;
}

static int make_file(struct reading *r, struct archive_entry *e, int dir, const char *name)
{
	int64_t size = archive_entry_size(e);
	int error = clear(r->u, dir, name);

	if (error < 0)
		return error;
	if (size < 0 || ((uint64_t)size > UNARCHIVE_BYTES && !knob_off(KNOB_ARCHIVE_LIMITS)))
		return fault(r->u, FILE_ARCHIVE_LIMIT);
	_cleanup_fd_ int fd = file_open(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fd;
	error = copy_data(r, fd);
	/* A sparse file may end in a hole. */
	if (error >= 0 && ftruncate(fd, size) < 0)
		error = -errno;
	if (error >= 0)
		error = finish_file(fd, e);
	r->u->files++;
	return error;
}

static int make_link(struct unarchive *u, struct archive_entry *e, int dir, const char *name)
{
	const char *target = archive_entry_symlink(e);
	int error;

	if (!target || !*target)
		return fault(u, FILE_ARCHIVE_BROKEN);
	error = clear(u, dir, name);
	if (error < 0)
		return error;
	if (symlinkat(target, dir, name) == 0)
		return 0;
	return errno == ENAMETOOLONG ? fault(u, FILE_ARCHIVE_NAME) : -errno;
}

static int make_folder(struct unarchive *u, int dir, const char *name)
{
	struct stat st;

	if (mkdirat(dir, name, 0755) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : fault(u, FILE_ARCHIVE_NAME);
}

/* Another name of a file of this archive, and of nothing else. */
static int make_hard_link(struct unarchive *u, const char *raw, int dir, const char *name)
{
	char target[LIMIT_PATH + 1];
	const char *target_name;
	struct stat st, old;

	if (strip(u, raw, target) <= 0)
		return fault(u, FILE_ARCHIVE_LINK);
	_cleanup_fd_ int target_dir = open_parent(u, target, false, &target_name);
	if (target_dir < 0 || fstatat(target_dir, target_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    (!S_ISREG(st.st_mode) && !knob_off(KNOB_ARCHIVE_NAMES)))
		return fault(u, FILE_ARCHIVE_LINK);
	/* To itself: it is there. */
	if (fstatat(dir, name, &old, AT_SYMLINK_NOFOLLOW) == 0 && old.st_ino == st.st_ino)
		return 0;
	int error = clear(u, dir, name);
	if (error < 0)
		return error;
	if (linkat(target_dir, target_name, dir, name, 0) < 0)
		return -errno;
	u->files++;
	return 0;
}

/* Only without the check of kinds. */
static int make_node(struct archive_entry *e, int dir, const char *name)
{
	return mknodat(dir, name, archive_entry_filetype(e) | 0644, archive_entry_rdev(e)) < 0
		       ? -errno
		       : 0;
}

static int make_member(struct reading *r, struct archive_entry *e)
{
	static char path[LIMIT_PATH + 1];
	const char *name, *hard_link = archive_entry_hardlink(e);
	mode_t kind = archive_entry_filetype(e);
	int left = strip(r->u, archive_entry_pathname(e), path);

	if (left < 0)
		return left;
	bool odd = !hard_link && kind != AE_IFREG && kind != AE_IFDIR && kind != AE_IFLNK;
	if (odd && !knob_off(KNOB_ARCHIVE_NAMES))
		return fault(r->u, FILE_ARCHIVE_KIND);
	/* The first component itself, and files beside it. */
	if (left == 0)
		return 0;
	_cleanup_fd_ int dir = open_parent(r->u, path, true, &name);
	if (dir < 0)
		return dir;
	if (odd)
		return make_node(e, dir, name);
	if (hard_link)
		return make_hard_link(r->u, hard_link, dir, name);
	if (kind == AE_IFDIR)
		return make_folder(r->u, dir, name);
	return kind == AE_IFLNK ? make_link(r->u, e, dir, name) : make_file(r, e, dir, name);
}

static int make_all(struct reading *r)
{
	struct archive_entry *e;
	int error = 0;

	while (error >= 0) {
		int state = archive_read_next_header(r->archive, &e);
		if (state == ARCHIVE_EOF)
			return 0;
		/* A warning is a name that is not of the process's locale: it comes as bytes. */
		if (state != ARCHIVE_OK && state != ARCHIVE_WARN)
			return broken(r);
		error = count_entry(r->u);
		if (error >= 0)
			error = make_member(r, e);
	}
	return error;
}

/* What comes behind the tar's end is padding; it is read, since the checksum is behind it. */
static int read_rest(struct reading *r)
{
	ssize_t n;

	do {
		n = read_stream(r);
	} while (n > 0);
	return (int)n;
}

int unarchive(struct unarchive *u)
{
	struct reading r = { .u = u,
			     .archive = archive_read_new(),
			     .deadline_us = clock_monotonic_us() + UNARCHIVE_MS * INT64_C(1000) };
	int error = zip_open(u->pipe);

	if (!r.archive)
		return -ENOMEM;
	if (error >= 0 && archive_read_support_format_tar(r.archive) != ARCHIVE_OK)
		error = -ENOMEM;
	if (error >= 0 && archive_read_open(r.archive, &r, NULL, on_read, NULL) != ARCHIVE_OK)
		error = broken(&r);
	if (error >= 0)
		error = make_all(&r);
	if (error >= 0)
		error = read_rest(&r);
	archive_read_free(r.archive);
	return error;
}
