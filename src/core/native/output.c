// SPDX-License-Identifier: Apache-2.0
#include "core/native/output.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

#define FIRST_MEMORY 4096u

struct runtime_output {
	const char *dir;
	uint64_t head_max, tail_max; /* both together: max */
	uint64_t total;		     /* bytes that came */
	bool frozen;   /* storing failed: only kept bytes are there, all of them head */
	uint64_t kept; /* while frozen */
	char *mem;     /* owned; NULL when nothing came or fd took over */
	size_t mem_cap;
	int fd; /* owned; -1 while in memory */
};

struct runtime_output *output_new(size_t max, const char *dir)
{
	struct runtime_output *o = mem_new(1, sizeof(*o));

	assert(max > 0);
	o->dir = dir;
	o->head_max = (uint64_t)max / 4 * 3;
	o->tail_max = max - o->head_max;
	o->fd = -1;
	return o;
}

void runtime_output_free(struct runtime_output *o)
{
	if (!o)
		return;
	free(o->mem);
	fd_close(&o->fd);
	free(o);
}

static bool write_all(int fd, const char *data, size_t len, uint64_t place)
{
	while (len) {
		ssize_t n = pwrite(fd, data, len, (off_t)place);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		data += n;
		len -= (size_t)n;
		place += (uint64_t)n;
	}
	return true;
}

/* Moves what is in memory to a file. Nothing has gone round the ring unless the ring is full, and
 * the memory then holds every place in use. */
static bool spill(struct runtime_output *o, uint64_t used)
{
	_cleanup_fd_ int fd = open(o->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0 || !write_all(fd, o->mem, (size_t)used, 0))
		return false;
	o->fd = take_fd(&fd);
	free(take_ptr(o->mem));
	o->mem_cap = 0;
	return true;
}

static void grow(struct runtime_output *o, uint64_t need)
{
	uint64_t most = o->head_max + o->tail_max;
	size_t cap = o->mem_cap ? o->mem_cap : FIRST_MEMORY;

	if (most > OUTPUT_MEMORY)
		most = OUTPUT_MEMORY;
	if (need <= o->mem_cap)
		return;
	while (cap < need)
		cap *= 2;
	if (cap > most)
		cap = (size_t)most;
	o->mem = mem_grow(o->mem, cap, 1);
	o->mem_cap = cap;
}

/* Stores bytes that do not cross from head to tail nor wrap. */
static bool store(struct runtime_output *o, uint64_t place, const char *data, size_t len)
{
	uint64_t max = o->head_max + o->tail_max;
	uint64_t used = o->total < max ? o->total : max;

	if (o->fd < 0 && place + len > OUTPUT_MEMORY && !spill(o, used))
		return false;
	if (o->fd >= 0)
		return write_all(o->fd, data, len, place);
	grow(o, place + len);
	memcpy(o->mem + place, data, len);
	return true;
}

static uint64_t place_of(const struct runtime_output *o, uint64_t i)
{
	return i < o->head_max ? i : o->head_max + (i - o->head_max) % o->tail_max;
}

static void freeze(struct runtime_output *o, uint64_t more)
{
	o->kept = o->total < o->head_max ? o->total : o->head_max;
	o->frozen = true;
	o->total += more;
}

void output_add(struct runtime_output *o, struct str bytes)
{
	uint64_t end = o->total + bytes.len;

	if (o->frozen) {
		o->total = end;
		return;
	}
	while (o->total < end) {
		uint64_t left = end - o->total;
		uint64_t place = place_of(o, o->total);
		uint64_t room = o->total < o->head_max ? o->head_max - place
						       : o->head_max + o->tail_max - place;
		size_t n;

		/* What the same call would overwrite need not be written at all. */
		if (o->total >= o->head_max && left > 2 * o->tail_max) {
			o->total += left / o->tail_max * o->tail_max - o->tail_max;
			continue;
		}
		n = (size_t)(left < room ? left : room);
		if (!store(o, place, bytes.data + (bytes.len - left), n)) {
			freeze(o, left);
			return;
		}
		o->total += n;
	}
}

uint64_t runtime_output_size(const struct runtime_output *o)
{
	uint64_t max = o->head_max + o->tail_max;

	if (o->frozen)
		return o->kept;
	return o->total < max ? o->total : max;
}

uint64_t runtime_output_dropped(const struct runtime_output *o)
{
	return o->total - runtime_output_size(o);
}

uint64_t runtime_output_head(const struct runtime_output *o)
{
	uint64_t size = runtime_output_size(o);

	return size < o->head_max ? size : o->head_max;
}

ssize_t runtime_output_read(const struct runtime_output *o, uint64_t offset, void *data, size_t len)
{
	uint64_t size = runtime_output_size(o), i, place, room;
	ssize_t n;

	if (offset >= size || !len)
		return 0;
	i = offset < o->head_max ? offset : offset + runtime_output_dropped(o);
	place = place_of(o, i);
	room = offset < o->head_max ? o->head_max - place : o->head_max + o->tail_max - place;
	if (room > size - offset)
		room = size - offset;
	if (len > room)
		len = (size_t)room;
	if (o->fd < 0) {
		memcpy(data, o->mem + place, len);
		return (ssize_t)len;
	}
	do {
		n = pread(o->fd, data, len, (off_t)place);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return n ? n : -EIO;
}
