// SPDX-License-Identifier: Apache-2.0
/*
 * Archives: a file of the caller's goes into the worker's pipe, at the worker's pace. It reads the
 * file from the start whenever it begins, so a job that never reached its sandbox begins again.
 *
 * The worker takes an archive for whole by what is in it, the gzip's checksum, so a pipe that ends
 * early leaves nothing. What init says of one that was good must come after all bytes were taken.
 */
#include "core/native/file-job.h"

#include <errno.h>
#include <unistd.h>

#include "base/limits.h"

/* Of one read. */
#define PIECE (64u * KIB)
/* Bytes moved per turn of the loop. */
#define TURN (1u * MIB)

static enum file_step broken(struct runtime_file *job, const char *why)
{
	job->why = why;
	return FILE_BROKEN;
}

/* Bytes that the pipe took. 0: no more now; negative: none ever. */
static ssize_t push(struct runtime_file *job)
{
	uint64_t left = job->size - job->moved;
	ssize_t n = pread(job->archive, job->rt->chunk, left < PIECE ? (size_t)left : PIECE,
			  (off_t)job->moved);

	if (n <= 0)
		return n < 0 ? -errno : -ENODATA;
	do {
		n = write(job->pipe->fd, job->rt->chunk, (size_t)n);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	return n;
}

static enum file_step unpack_pump(struct runtime_file *job, int status)
{
	ssize_t n = 1;

	/* The file is borrowed no longer. */
	if (job->detached)
		status = UV_ECANCELED;
	for (size_t turn = 0; n > 0 && job->moved < job->size && turn < TURN; turn += (size_t)n) {
		n = status < 0 ? status : push(job);
		if (n > 0)
			job->moved += (uint64_t)n;
	}
	/* A worker that has had enough says why itself. */
	if (n < 0 && n != -EPIPE && status >= 0)
		return broken(job, "the archive can't be read");
	if (n < 0 || job->moved == job->size)
		file_pipe_close(job);
	return FILE_GO_ON;
}

static enum file_step unpack_end(struct runtime_file *job, const struct id_file *body)
{
	if (!job->detached && (job->pipe || job->moved != job->size))
		return broken(job, "not all bytes were taken");
	job->result.size = body->size;
	job->result.used_bytes = body->used;
	return FILE_DONE;
}

/* The limit of memory kills one process, or all of the sandbox (cgroups v2). */
static enum runtime_archive_fault killed_by(const struct runtime_file *job)
{
	int64_t now = slot_read_oom_kills(sandbox_slot(job->box->sandbox));

	return job->oom_kills >= 0 && now > job->oom_kills ? RUNTIME_ARCHIVE_MEMORY
							   : RUNTIME_ARCHIVE_KILLED;
}

static enum file_step unpack_refused(struct runtime_file *job, const struct id_file *body)
{
	if (body->code != FILE_ERR_ARCHIVE)
		return FILE_DONE;
	/* The two enumerations are one. */
	_Static_assert((int)RUNTIME_ARCHIVE_BROKEN == (int)FILE_ARCHIVE_BROKEN &&
			       (int)RUNTIME_ARCHIVE_NAME == (int)FILE_ARCHIVE_NAME &&
			       (int)RUNTIME_ARCHIVE_KIND == (int)FILE_ARCHIVE_KIND &&
			       (int)RUNTIME_ARCHIVE_LINK == (int)FILE_ARCHIVE_LINK &&
			       (int)RUNTIME_ARCHIVE_LIMIT == (int)FILE_ARCHIVE_LIMIT &&
			       (int)RUNTIME_ARCHIVE_TIME == (int)FILE_ARCHIVE_TIME &&
			       (int)RUNTIME_ARCHIVE_MEMORY == (int)FILE_ARCHIVE_MEMORY &&
			       (int)RUNTIME_ARCHIVE_KILLED == (int)FILE_ARCHIVE_KILLED &&
			       (int)RUNTIME_ARCHIVE_CRASHED == (int)FILE_ARCHIVE_CRASHED,
		       "the faults of an archive are the protocol's");
	if (body->errno_code < FILE_ARCHIVE_BROKEN || body->errno_code > FILE_ARCHIVE_CRASHED)
		return broken(job, "a fault that no archive has");
	job->result.fault = body->errno_code == FILE_ARCHIVE_KILLED
				    ? killed_by(job)
				    : (enum runtime_archive_fault)body->errno_code;
	return FILE_DONE;
}

static const char *unpack_lost(struct runtime_file *job, bool late)
{
	job->result.fault = late ? RUNTIME_ARCHIVE_TIME : killed_by(job);
	return "unpack_failed";
}

/* The worker finds the archive cut short, unless it has all of it. */
static void unpack_detach(struct runtime_file *job)
{
	file_pipe_close(job);
}

static void unpack_tell(struct runtime_file *job, const struct err *err)
{
	job->write_fn(job->data, &job->result, err);
}

static const struct file_kind unpack_kind = {
	.slow = true,
	.long_walk = true,
	.again = true,
	.pump = unpack_pump,
	.end = unpack_end,
	.refused = unpack_refused,
	.lost = unpack_lost,
	.detach = unpack_detach,
	.tell = unpack_tell,
};

struct runtime_file *runtime_unpack(struct runtime *rt, const struct runtime_file_spec *spec,
				    const struct runtime_unpack *unpack, runtime_write_fn fn,
				    void *data)
{
	struct runtime_file *job = file_job_new(rt, spec, FILE_UNPACK, data);

	job->kind = &unpack_kind;
	job->write_fn = fn;
	job->archive = unpack->fd;
	job->size = unpack->size;
	job->quota = unpack->quota_bytes;
	return file_submit(job, spec);
}
