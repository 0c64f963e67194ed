// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/wal.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

#define MAGIC 0x377f0682u /* the lowest bit: checksums are over big-endian words */
#define PAGE_MAX 65536u
#define LENGTH (INT64_C(1280) * 1024) /* 256 pages of 4 KiB with their heads, and a large commit */

enum { HEAD = 32, HEAD_PAGE = 8, HEAD_SALTS = 16, HEAD_SUM = 24 };
enum { FRAME = 24, FRAME_COMMIT = 4, FRAME_SALTS = 8, FRAME_SUM = 16, SALTS = 8 };

struct wal {
	int fd;
	bool big;
	uint32_t sum[2]; /* of all that was read */
	uint32_t page;
	uint8_t salts[SALTS]; /* frames of an earlier round have others */
	uint8_t frame[FRAME + PAGE_MAX];
};

static bool read_all(const struct wal *w, off_t at, void *to, size_t n)
{
	return pread(w->fd, to, n, at) == (ssize_t)n;
}

static uint32_t be32(const uint8_t *at)
{
	uint32_t word;

	memcpy(&word, at, sizeof(word));
	return be32toh(word);
}

static void sum_up(struct wal *w, const uint8_t *at, size_t n)
{
	uint32_t words[2];

	for (; n; at += sizeof(words), n -= sizeof(words)) {
		memcpy(words, at, sizeof(words));
		w->sum[0] += (w->big ? be32toh(words[0]) : le32toh(words[0])) + w->sum[1];
		w->sum[1] += (w->big ? be32toh(words[1]) : le32toh(words[1])) + w->sum[0];
	}
}

static bool has_sum(const struct wal *w, const uint8_t *at)
{
	return be32(at) == w->sum[0] && be32(at + 4) == w->sum[1];
}

static bool take_head(struct wal *w, const uint8_t head[HEAD])
{
	w->big = be32(head) & 1;
	w->page = be32(head + HEAD_PAGE);
	memcpy(w->salts, head + HEAD_SALTS, SALTS);
	sum_up(w, head, HEAD_SUM);
	return (be32(head) & ~1u) == MAGIC && has_sum(w, head + HEAD_SUM) && w->page >= 512 &&
	       w->page <= PAGE_MAX && !(w->page & (w->page - 1));
}

static bool is_whole(struct wal *w)
{
	if (memcmp(w->frame + FRAME_SALTS, w->salts, SALTS) != 0)
		return false;
	sum_up(w, w->frame, FRAME_SALTS);
	sum_up(w, w->frame + FRAME, w->page);
	return has_sum(w, w->frame + FRAME_SUM);
}

/* A frame of an earlier round shares neither salt with it. */
static bool is_of_this_round(const struct wal *w)
{
	const uint8_t *salts = w->frame + FRAME_SALTS;
	const size_t half = SALTS / 2;

	return memcmp(salts, w->salts, half) == 0 ||
	       memcmp(salts + half, w->salts + half, half) == 0;
}

/* Whether a write follows one that was committed, from that place on. */
static bool goes_on_after_commit(struct wal *w, off_t at)
{
	bool committed = false;

	for (; read_all(w, at, w->frame, FRAME); at += FRAME + w->page) {
		if (!is_of_this_round(w))
			continue;
		if (committed)
			return true;
		committed = be32(w->frame + FRAME_COMMIT) != 0;
	}
	return false;
}

static bool is_sound(struct wal *w)
{
	static const uint8_t nothing[HEAD];
	uint8_t head[HEAD];
	off_t at = HEAD;

	/* What has a length and no content yet was never told of. */
	if (!read_all(w, 0, head, HEAD) || memcmp(head, nothing, HEAD) == 0)
		return true;
	if (!take_head(w, head))
		return false;
	while (read_all(w, at, w->frame, FRAME + w->page) && is_whole(w))
		at += FRAME + w->page;
	return !goes_on_after_commit(w, at);
}

/* sqlite would delete the log of a database that has no page. */
static bool is_cut_off(const char *database, int fd)
{
	struct stat of_database, log;

	return stat(database, &of_database) == 0 && of_database.st_size == 0 &&
	       fstat(fd, &log) == 0 && log.st_size > HEAD;
}

int wal_check(const char *database, struct err *err)
{
	_cleanup_free_ char *path = mem_printf("%s-wal", database);
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? 0 : err_errno(err, "%s", path);
	_cleanup_free_ struct wal *w = mem_new(1, sizeof(*w));
	w->fd = fd;
	if (is_cut_off(database, fd))
		return err_set(err, EUCLEAN, "it is empty and its log %s is not", path);
	if (!is_sound(w))
		return err_set(err, EUCLEAN, "its log %s has lost what was committed", path);
	return 0;
}

void wal_lengthen(const char *database)
{
	static const char zeros[16384];
	_cleanup_free_ char *path = mem_printf("%s-wal", database);
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	off_t end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	ssize_t n = 1;

	if (end < 0)
		return;
	for (off_t at = end; n > 0 && at < LENGTH; at += n)
		n = write(fd, zeros, sizeof(zeros));
	/* It is not for this to take the last room. When it stays longer, nothing is lost. */
	if (n <= 0 && ftruncate(fd, end) < 0)
		return;
}
