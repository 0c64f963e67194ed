// SPDX-License-Identifier: Apache-2.0
/*
 * The two jobs of snapshots: trimming a copy to one of its folders, and merging a second volume,
 * the source, into a folder. The path of a conflict comes through the pipe, written before init
 * says that there is one, and is looked at as anything of a tenant's: a path without a conflict,
 * none with one, a NUL in it or more than a path has are lies.
 */
#include "core/native/file-job.h"

#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"

static enum file_step broken(struct runtime_file *job, const char *why)
{
	job->why = why;
	return FILE_BROKEN;
}

/* ---- Trimming ---- */

static enum file_step trim_end(struct runtime_file *job, const struct id_file *body)
{
	job->result.used_bytes = body->size;
	return FILE_DONE;
}

static void trim_tell(struct runtime_file *job, const struct err *err)
{
	job->write_fn(job->data, &job->result, err);
}

static const struct file_kind trim_kind = {
	.long_walk = true,
	.end = trim_end,
	.tell = trim_tell,
};

struct runtime_file *file_trim(struct runtime *rt, const struct runtime_file_spec *spec,
			       int64_t until_ms, runtime_write_fn fn, void *data)
{
	struct runtime_file *job = file_job_new(rt, spec, FILE_TRIM, data);

	job->kind = &trim_kind;
	job->until_ms = until_ms;
	job->write_fn = fn;
	return file_submit(job, spec);
}

/* ---- Merging ---- */

static enum file_step merge_pump(struct runtime_file *job, int status)
{
	while (job->pipe) {
		ssize_t n = read(job->pipe->fd, job->rt->chunk, RUNTIME_CHUNK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0)
			file_pipe_close(job);
		else if (memchr(job->rt->chunk, 0, (size_t)n) ||
			 !buf_put(&job->got, job->rt->chunk, (size_t)n))
			return broken(job, "what came is no path");
	}
	return FILE_GO_ON;
}

static enum file_step merge_refused(struct runtime_file *job, const struct id_file *body)
{
	if (merge_pump(job, 0) == FILE_BROKEN)
		return FILE_BROKEN;
	if ((body->code == FILE_ERR_CONFLICT) != (job->got.len > 0))
		return broken(job, "a path without a conflict or the reverse");
	return FILE_DONE;
}

static enum file_step merge_end(struct runtime_file *job, const struct id_file *body)
{
	job->result.size = body->size;
	return merge_refused(job, body);
}

static void merge_tell(struct runtime_file *job, const struct err *err)
{
	job->read_fn(job->data, &job->result, buf_str(&job->got), err);
}

static const struct file_kind merge_kind = {
	.long_walk = true,
	.pump = merge_pump,
	.end = merge_end,
	.refused = merge_refused,
	.tell = merge_tell,
};

struct runtime_file *runtime_file_merge(struct runtime *rt, const struct runtime_file_spec *spec,
					const char *source, uint64_t quota_bytes,
					runtime_read_fn fn, void *data)
{
	struct runtime_file *job = file_job_new(rt, spec, FILE_MERGE, data);

	job->kind = &merge_kind;
	job->read_fn = fn;
	job->quota = quota_bytes;
	job->got = BUF(LIMIT_PATH);
	snprintf(job->source, sizeof(job->source), "%s", source);
	return file_submit(job, spec);
}
