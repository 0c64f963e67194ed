// SPDX-License-Identifier: Apache-2.0
/*
 * A foreign archive: unarchive() on a folder that is emptied each time. Whatever the input: the
 * folder beside it keeps its one file as it was, no descriptor stays open, nothing but files,
 * folders and links was made, no file has a set-id bit, as many regular files are there as it says,
 * and no more names than it counted.
 *
 * Input: 1 byte, odd when what follows is a tar that is still to be put into gzip; the archive.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/fd.h"
#include "worker/file-usage.h"
#include "worker/file.h"
#include "worker/job.h"
#include "worker/remove.h"
#include "worker/unarchive.h"

#define ROOM (UINT64_C(4) << 20)
#define NAMES 10000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char top[] = "/dev/shm/fuzz-archive-XXXXXX";
static int top_fd = -1, outside = -1;
static uint64_t files, names;

static int check_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)path;
	(void)kind;
	(void)ftw;
	assert(S_ISREG(st->st_mode) || S_ISDIR(st->st_mode) || S_ISLNK(st->st_mode));
	assert(S_ISLNK(st->st_mode) || !(st->st_mode & 07000));
	files += S_ISREG(st->st_mode);
	names++;
	return 0;
}

static void empty(const char *name)
{
	uint64_t count = 0;

	assert(remove_entry(top_fd, name, &count) == 0);
}

static void remove_top(void)
{
	empty("ws");
	empty("out");
	rmdir(top);
}

static void start(void)
{
	assert(mkdtemp(top));
	top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert(mkdirat(top_fd, "out", 0755) == 0);
	outside = openat(top_fd, "out", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int fd = openat(outside, "c", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert(fd >= 0 && write(fd, "outside", 7) == 7);
	atexit(remove_top);
	file_pause_ms = 0;
}

static void check_outside(void)
{
	struct file_usage usage;
	char text[8] = "";
	_cleanup_fd_ int fd = openat(outside, "c", O_RDONLY | O_CLOEXEC);

	assert(file_usage(outside, &usage) == 0 && usage.inodes == 2);
	assert(read(fd, text, sizeof(text)) == 7 && memcmp(text, "outside", 8) == 0);
}

static void fill(int fd, const uint8_t *data, size_t size, bool raw)
{
	static uint8_t out[1 << 20];
	z_stream z = { 0 };

	if (!raw) {
		assert(write(fd, data, size) == (ssize_t)size);
		return;
	}
	size = size < sizeof(out) / 2 ? size : sizeof(out) / 2;
	assert(deflateInit2(&z, 1, Z_DEFLATED, 31, 8, 0) == Z_OK);
	z.next_in = (Bytef *)(uintptr_t)data;
	z.avail_in = (uInt)size;
	z.next_out = out;
	z.avail_out = sizeof(out);
	assert(deflate(&z, Z_FINISH) == Z_STREAM_END);
	deflateEnd(&z);
	assert(write(fd, out, sizeof(out) - z.avail_out) == (ssize_t)(sizeof(out) - z.avail_out));
}

static int next_fd(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	if (top_fd < 0)
		start();
	int before = next_fd();
	assert(mkdirat(top_fd, "ws", 0755) == 0);
	_cleanup_fd_ int root = openat(top_fd, "ws", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int pipe = memfd_create("archive", MFD_CLOEXEC);
	struct unarchive u = { .pipe = pipe, .root = root, .room = ROOM, .names = NAMES };
	char path[sizeof(top) + 4];
	fill(pipe, data + 1, size - 1, data[0] & 1);
	assert(lseek(pipe, 0, SEEK_SET) == 0);
	int r = unarchive(&u);
	assert(r <= 0 && (r != -JOB_ARCHIVE || u.fault));
	snprintf(path, sizeof(path), "%s/ws", top);
	files = names = 0;
	assert(nftw(path, check_one, 16, FTW_PHYS) == 0);
	assert(r < 0 || files == u.files);
	assert(names - 1 <= u.entries && u.entries <= NAMES + 1);
	check_outside();
	fd_close(&root);
	fd_close(&pipe);
	empty("ws");
	assert(next_fd() == before);
	return 0;
}
