// SPDX-License-Identifier: Apache-2.0
#include "worker/zip.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "worker/job.h"

/* zlib's default, 6, takes a fifth longer for 4 % less (10,000 Python files). */
#define LEVEL 4
#define GZIP (15 + 16) /* the largest window, with gzip's frame */
#define MEMORY (512 * KIB)

static _Alignas(16) char memory[MEMORY];
static size_t memory_used;
static char buffer[64 * KIB];

static struct {
	z_stream z;
	int pipe;
	uint64_t bytes, max;
	bool ended;   /* in: the pipe */
	bool between; /* in: no member is open */
} zip;

static voidpf allocate(voidpf opaque, uInt n, uInt size)
{
	size_t need = ((size_t)n * size + 15) & ~(size_t)15;

	(void)opaque;
	if (need > sizeof(memory) - memory_used)
		return Z_NULL;
	memory_used += need;
	return memory + memory_used - need;
}

static void release(voidpf opaque, voidpf address)
{
	(void)opaque;
	(void)address;
}

static void begin(int pipe)
{
	memory_used = 0;
	memset(&zip, 0, sizeof(zip));
	zip.z.zalloc = allocate;
	zip.z.zfree = release;
	zip.pipe = pipe;
}

/* ---- out ------------------------------------------------------------------------------------- */

static void empty_buffer(void)
{
	zip.z.next_out = (Bytef *)buffer;
	zip.z.avail_out = sizeof(buffer);
}

int zip_start(int pipe, uint64_t max)
{
	begin(pipe);
	zip.max = max;
	empty_buffer();
	return deflateInit2(&zip.z, LEVEL, Z_DEFLATED, GZIP, 8, Z_DEFAULT_STRATEGY) == Z_OK
		       ? 0
		       : -ENOMEM;
}

static int flush_buffer(void)
{
	size_t len = sizeof(buffer) - zip.z.avail_out;

	zip.bytes += len;
	if (zip.bytes > zip.max)
		return -EFBIG;
	empty_buffer();
	return job_pipe_write(zip.pipe, buffer, len);
}

int zip_put(const void *data, size_t len)
{
	zip.z.next_in = (Bytef *)(uintptr_t)data;
	zip.z.avail_in = (uInt)len;
	while (zip.z.avail_in > 0) {
		deflate(&zip.z, Z_NO_FLUSH);
		if (zip.z.avail_out == 0) {
			int r = flush_buffer();
			if (r < 0)
				return r;
		}
	}
	return 0;
}

int zip_finish(void)
{
	int state;

	zip.z.avail_in = 0;
	do {
		state = deflate(&zip.z, Z_FINISH);
		int r = flush_buffer();
		if (r < 0)
			return r;
	} while (state != Z_STREAM_END);
	return 0;
}

uint64_t zip_sent(void)
{
	return zip.bytes;
}

/* ---- in -------------------------------------------------------------------------------------- */

int zip_open(int pipe)
{
	begin(pipe);
	return inflateInit2(&zip.z, GZIP) == Z_OK ? 0 : -ENOMEM;
}

static int fill_buffer(void)
{
	ssize_t n = job_pipe_read(zip.pipe, buffer, sizeof(buffer));

	if (n < 0)
		return (int)n;
	zip.ended = n == 0;
	zip.bytes += (uint64_t)n;
	zip.z.next_in = (Bytef *)buffer;
	zip.z.avail_in = (uInt)n;
	return 0;
}

ssize_t zip_read(void *data, size_t len)
{
	zip.z.next_out = data;
	zip.z.avail_out = (uInt)len;
	while (zip.z.avail_out == len) {
		if (zip.z.avail_in == 0 && !zip.ended) {
			int r = fill_buffer();
			if (r < 0)
				return r;
		}
		if (zip.z.avail_in == 0)
			return zip.between ? 0 : -EBADMSG;
		if (zip.between && inflateReset(&zip.z) != Z_OK)
			return -EBADMSG;
		zip.between = false;
		int state = inflate(&zip.z, Z_NO_FLUSH);
		if (state == Z_STREAM_END)
			zip.between = true;
		else if (state != Z_OK && state != Z_BUF_ERROR)
			return -EBADMSG;
	}
	return (ssize_t)(len - zip.z.avail_out);
}

uint64_t zip_taken(void)
{
	return zip.bytes;
}
