// SPDX-License-Identifier: Apache-2.0
/*
 * Bytes that go through: from a caller into the worker's pipe, and the other way. What does not fit
 * waits at its source: at most one piece (RUNTIME_GIVE_MAX) of an upload is kept here, and of a
 * download nothing, because a caller that takes no more stops the reading of the pipe.
 *
 * An upload is committed by its length where that was announced: the worker compares when the pipe
 * ends. Else by DI_COMMIT, which is sent before the pipe ends, so that whoever sees the end finds
 * it. Anything that breaks before leaves the pipe short, and the worker changes nothing.
 */
#include "core/native/file-job.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"

/* Of one read, so that no client's queue grows by more. */
#define PIECE (64u * KIB)
/* Bytes moved per turn of the loop. */
#define TURN (1u * MIB)

static enum file_step broken(struct runtime_file *job, const char *why)
{
	job->why = why;
	return FILE_BROKEN;
}

/* ---- Up ---- */

/* How many bytes the pipe took; negative: nobody reads it any more. */
static ssize_t push(struct runtime_file *job, struct str bytes)
{
	size_t done = 0;

	while (done < bytes.len) {
		ssize_t n = write(job->pipe->fd, bytes.data + done, bytes.len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	job->moved += done;
	return (ssize_t)done;
}

/* The worker has had enough; ID_FILE_END says why. */
static void stop_giving(struct runtime_file *job)
{
	file_pipe_close(job);
	buf_release(&job->left);
}

static enum file_step end_of_bytes(struct runtime_file *job)
{
	const struct di_commit commit = { .size = job->given };

	if (job->size == FILE_SIZE_UNKNOWN &&
	    sandbox_say(job->box->sandbox, DI_COMMIT, &commit, sizeof(commit)) < 0)
		return broken(job, "it takes no commit");
	file_pipe_close(job);
	return FILE_GO_ON;
}

static enum file_step upload_pump(struct runtime_file *job, int status)
{
	ssize_t n = status < 0 ? status : push(job, buf_str(&job->left));

	if (n < 0) {
		stop_giving(job);
		return FILE_GO_ON;
	}
	buf_consume(&job->left, (size_t)n);
	if (job->left.len)
		return FILE_GO_ON;
	buf_release(&job->left);
	if (job->ended)
		return end_of_bytes(job);
	file_pipe_watch(job, false);
	if (job->asked || job->detached)
		return FILE_GO_ON;
	job->asked = true;
	job->up.wanted(job->data);
	return FILE_GO_ON;
}

static enum file_step upload_end(struct runtime_file *job, const struct id_file *body)
{
	if (!job->ended || job->pipe || body->size != job->given)
		return broken(job, "not all bytes were taken");
	job->result.size = body->size;
	return FILE_DONE;
}

static void upload_detach(struct runtime_file *job)
{
	/* Once everything was given, it happens. */
	if (!job->ended)
		stop_giving(job);
}

static void upload_tell(struct runtime_file *job, const struct err *err)
{
	job->up.done(job->data, &job->result, err);
}

static const struct file_kind upload_kind = {
	.slow = true,
	.pump = upload_pump,
	.end = upload_end,
	.detach = upload_detach,
	.tell = upload_tell,
};

struct runtime_file *runtime_upload(struct runtime *rt, const struct runtime_file_spec *spec,
				    const struct runtime_upload *upload,
				    const struct runtime_upload_ops *ops, void *data)
{
	struct runtime_file *job = file_job_new(rt, spec, FILE_WRITE, data);

	job->kind = &upload_kind;
	job->up = *ops;
	job->size = upload->size;
	job->max = upload->max;
	job->quota = upload->quota_bytes;
	job->left = BUF(RUNTIME_GIVE_MAX);
	return file_submit(job, spec);
}

/* Whether bytes still matter: init may have refused the job already, and its caller hears of it
 * from the loop. */
static bool takes_bytes(const struct runtime_file *job)
{
	return job->state == FILE_QUEUED || (job->state == FILE_RUNNING && job->pipe);
}

bool runtime_upload_give(struct runtime_file *job, struct str bytes)
{
	ssize_t n = 0;

	assert(job->asked && !job->ended && !job->left.len && bytes.len <= RUNTIME_GIVE_MAX);
	if (!takes_bytes(job))
		return true;
	job->given += bytes.len;
	/* Back in the queue, because the sandbox was dead: the pipe comes with the next one. */
	if (job->pipe)
		n = push(job, bytes);
	if (n < 0) {
		stop_giving(job);
		return true;
	}
	if ((size_t)n == bytes.len)
		return true;
	buf_put_str(&job->left, str_from(bytes, (size_t)n));
	job->asked = false;
	if (job->pipe)
		file_pipe_watch(job, true);
	return false;
}

void runtime_upload_end(struct runtime_file *job)
{
	if (!takes_bytes(job))
		return;
	job->ended = true;
	/* The rest from the loop, where a job may break. */
	if (job->pipe)
		file_pipe_watch(job, true);
}

/* ---- Down ---- */

/* What came must become what was announced. */
static enum file_step compare(struct runtime_file *job)
{
	if (!job->answered)
		return FILE_GO_ON;
	if (job->detached || job->moved == job->result.size)
		return FILE_DONE;
	if (job->moved > job->result.size)
		return broken(job, "more bytes than announced");
	return job->pipe ? FILE_GO_ON : broken(job, "fewer bytes than announced");
}

/* Bytes that may still come. */
static uint64_t room(const struct runtime_file *job)
{
	uint64_t most = job->op == FILE_READ ? job->result.size : job->max;

	return most - job->moved;
}

static enum file_step download_pump(struct runtime_file *job, int status)
{
	size_t turn = 0;

	if (!job->announced) {
		file_pipe_watch(job, false);
		return FILE_GO_ON;
	}
	while (job->pipe && !job->paused && turn < TURN) {
		ssize_t n = read(job->pipe->fd, job->rt->chunk, PIECE);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0) {
			file_pipe_close(job);
			break;
		}
		if ((uint64_t)n > room(job))
			return broken(job, "more bytes than announced");
		turn += (size_t)n;
		job->moved += (uint64_t)n;
		job->paused =
			!job->down.bytes(job->data, (struct str){ job->rt->chunk, (size_t)n });
		/* The caller may have let go, or ended the session. */
		if (job->state != FILE_RUNNING)
			return FILE_GO_ON;
	}
	if (job->pipe && job->paused)
		file_pipe_watch(job, false);
	return compare(job);
}

static enum file_step download_begin(struct runtime_file *job)
{
	if (!job->detached)
		job->down.begun(job->data, &job->result);
	if (job->state == FILE_RUNNING && job->pipe && !job->paused)
		file_pipe_watch(job, true);
	return FILE_GO_ON;
}

static enum file_step download_end(struct runtime_file *job, const struct id_file *body)
{
	if (!job->announced)
		return broken(job, "an end without a beginning");
	if (job->op == FILE_READ && body->size != job->result.size)
		return broken(job, "another size than announced");
	job->result.size = body->size;
	job->answered = true;
	/* What is in the pipe still comes, at the caller's pace. */
	return job->paused || !job->pipe ? compare(job) : download_pump(job, 0);
}

/* The worker finds its pipe broken and ends. */
static void download_detach(struct runtime_file *job)
{
	file_pipe_close(job);
}

static void download_tell(struct runtime_file *job, const struct err *err)
{
	job->down.done(job->data, &job->result, err);
}

static const struct file_kind download_kind = {
	.slow = true,
	.begin = download_begin,
	.pump = download_pump,
	.end = download_end,
	.detach = download_detach,
	.tell = download_tell,
};

static struct runtime_file *download(struct runtime_file *job, const struct runtime_file_spec *spec,
				     uint64_t max, const struct runtime_download_ops *ops)
{
	job->kind = &download_kind;
	job->down = *ops;
	job->max = max;
	return file_submit(job, spec);
}

struct runtime_file *runtime_download(struct runtime *rt, const struct runtime_file_spec *spec,
				      uint64_t max, const struct runtime_download_ops *ops,
				      void *data)
{
	return download(file_job_new(rt, spec, FILE_READ, data), spec, max, ops);
}

struct runtime_file *runtime_pack(struct runtime *rt, const struct runtime_file_spec *spec,
				  uint64_t max, const struct runtime_download_ops *ops, void *data)
{
	return download(file_job_new(rt, spec, FILE_PACK, data), spec, max, ops);
}

void runtime_download_resume(struct runtime_file *job)
{
	job->paused = false;
	if (job->state == FILE_RUNNING && job->pipe)
		file_pipe_watch(job, true);
}
