// SPDX-License-Identifier: Apache-2.0
#include "core/native/file-job.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"

/* Bytes moved per turn of the loop. */
#define FILE_TURN (1u * MIB)

static const struct {
	enum file_code code;
	const char *slug;
} file_errors[] = {
	{ FILE_ERR_MISSING, "file_not_found" },
	{ FILE_ERR_OUTSIDE, "path_outside" },
	{ FILE_ERR_FOLDER, "is_folder" },
	{ FILE_ERR_NOT_REGULAR, "not_regular_file" },
	{ FILE_ERR_NOT_IN_FOLDER, "not_in_folder" },
	{ FILE_ERR_DENIED, "permission_denied" },
	{ FILE_ERR_TOO_LARGE, "file_too_large" },
	{ FILE_ERR_QUOTA, "quota" },
	{ FILE_ERR_INODES, "too_many_files" },
	{ FILE_ERR_NAME, "file_not_found" },
	{ FILE_ERR_EXISTS, "exists" },
	{ FILE_ERR_NOT_EMPTY, "not_empty" },
	{ FILE_ERR_NOT_FOLDER, "not_folder" },
	{ FILE_ERR_CONFLICT, "restore_conflict" },
	{ FILE_ERR_CHANGED, "changed" },
	{ FILE_ERR_DEEP, "too_deep" },
	{ FILE_ERR_ARCHIVE, "unpack_failed" },
};

void files_init(struct files *all)
{
	TAILQ_INIT(&all->ending);
}

/* ---- Pipe ---- */

static void on_pipe_closed(uv_handle_t *handle)
{
	struct file_pipe *p = handle->data;
	struct runtime *rt = p->rt;

	rt->handles--;
	free(p);
	runtime_close_step(rt);
}

void file_pipe_close(struct runtime_file *job)
{
	struct file_pipe *p = take_ptr(job->pipe);

	if (!p)
		return;
	p->job = NULL;
	uv_close((uv_handle_t *)&p->poll, on_pipe_closed);
	fd_close(&p->fd);
}

/* ---- The end of a job ---- */

static void tell(struct runtime_file *job)
{
	struct runtime *rt = job->rt;
	const struct err *err = job->err.code ? &job->err : NULL;

	deadline_clear(&rt->deadlines, &job->deadline);
	TAILQ_REMOVE(&rt->files.ending, job, link);
	if (!job->detached && job->kind)
		job->kind->tell(job, err);
	else if (!job->detached && job->op == FILE_READ)
		job->read_fn(job->data, &job->result, buf_str(&job->got), err);
	else if (!job->detached)
		job->write_fn(job->data, &job->result, err);
	buf_fini(&job->got);
	buf_fini(&job->left);
	free(job->entries);
	free(job->path);
	free(job);
	runtime_close_step(rt);
}

static void on_tell(struct deadline *d)
{
	tell(container_of(d, struct runtime_file, deadline));
}

static void leave_box(struct runtime_file *job)
{
	deadline_clear(&job->rt->deadlines, &job->deadline);
	if (job->box)
		TAILQ_REMOVE(&job->box->jobs, job, link);
	TAILQ_INSERT_TAIL(&job->rt->files.ending, job, link);
	job->box = NULL;
	job->state = FILE_ENDED;
	file_pipe_close(job);
}

/* The words are the caller's: it knows the path as it was sent. */
static void set_error(struct runtime_file *job, int code, const char *slug)
{
	err_slug(&job->err, code, slug, "%s", "");
}

/* For callers that must not call back. The box is theirs to step. */
static void fail_soon(struct runtime_file *job, int code, const char *slug)
{
	set_error(job, code, slug);
	leave_box(job);
	deadline_set(&job->rt->deadlines, &job->deadline, clock_monotonic_ms(), on_tell);
}

/* The running job is over, well or not; the box goes on, then the caller of the job hears of it. */
static void finish(struct runtime_file *job)
{
	struct box *box = job->box;

	leave_box(job);
	box->busy = false;
	box_step(box);
	tell(job);
}

/* Init did what it must not do, or nothing for too long. */
static void fail_with_box(struct runtime_file *job, const char *why)
{
	struct box *box = job->box;

	log_event(LOG_ERROR, "file_job_failed", LOG_STR("volume", box->volume->name),
		  LOG_INT("op", job->op), LOG_STR("why", why));
	if (!job->err.code)
		set_error(job, EIO, "internal");
	leave_box(job);
	box_lose_sandbox(box);
	tell(job);
}

static void lose(struct runtime_file *job, bool late)
{
	if (job->kind && job->kind->lost)
		set_error(job, EIO, job->kind->lost(job, late));
	fail_with_box(job, late ? "it takes too long" : "the file sandbox ended");
}

static void on_queue_late(struct deadline *d)
{
	struct runtime_file *job = container_of(d, struct runtime_file, deadline);
	struct box *box = job->box;

	set_error(job, EAGAIN, "busy");
	leave_box(job);
	box_step(box);
	tell(job);
}

static void on_job_late(struct deadline *d)
{
	lose(container_of(d, struct runtime_file, deadline), true);
}

void file_fail_all(struct box *box, const char *slug)
{
	struct runtime_file *job;

	box->busy = false;
	while ((job = TAILQ_FIRST(&box->jobs)))
		fail_soon(job, EAGAIN, slug);
	if (box->sandbox)
		box_lose_sandbox(box);
	else
		box_step(box);
}

/* ---- Bytes ---- */

static void act(struct runtime_file *job, enum file_step step)
{
	if (step == FILE_DONE)
		finish(job);
	else if (step == FILE_BROKEN)
		fail_with_box(job, job->why);
}

static void take_bytes(struct runtime_file *job)
{
	uint64_t most = job->announced ? job->result.size : job->max;
	size_t turn = 0;

	while (job->pipe && turn < FILE_TURN) {
		ssize_t n = read(job->pipe->fd, job->rt->chunk, RUNTIME_CHUNK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0) {
			file_pipe_close(job);
			break;
		}
		turn += (size_t)n;
		if ((uint64_t)n > most - job->got.len ||
		    !buf_put(&job->got, job->rt->chunk, (size_t)n)) {
			fail_with_box(job, "more bytes than announced");
			return;
		}
	}
	if (job->answered && job->got.len == job->result.size)
		finish(job);
	else if (job->answered && !job->pipe)
		fail_with_box(job, "fewer bytes than announced");
}

/* Writes what the pipe takes. The end of the pipe tells the worker the end of the bytes. */
static void give_bytes(struct runtime_file *job)
{
	size_t turn = 0;

	while (job->sent < job->bytes.len && turn < FILE_TURN) {
		ssize_t n = write(job->pipe->fd, job->bytes.data + job->sent,
				  job->bytes.len - job->sent);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			/* The worker has had enough; ID_FILE_END says why. */
			file_pipe_close(job);
			return;
		}
		job->sent += (size_t)n;
		turn += (size_t)n;
	}
	if (job->sent == job->bytes.len)
		file_pipe_close(job);
}

static void on_pipe(uv_poll_t *poll, int status, int events)
{
	struct runtime_file *job = ((struct file_pipe *)poll->data)->job;

	if (job->kind)
		act(job, job->kind->pump(job, status));
	else if (job->op == FILE_READ)
		take_bytes(job);
	else if (status < 0)
		file_pipe_close(job);
	else
		give_bytes(job);
}

bool file_job_gives(const struct runtime_file *job)
{
	return job->op == FILE_WRITE || job->op == FILE_UNPACK;
}

void file_pipe_watch(struct runtime_file *job, bool on)
{
	if (on)
		uv_poll_start(&job->pipe->poll, file_job_gives(job) ? UV_WRITABLE : UV_READABLE,
			      on_pipe);
	else
		uv_poll_stop(&job->pipe->poll);
}

/* ---- What init says ---- */

static void on_file(struct runtime_file *job, const struct id_file *body)
{
	if (body->code != FILE_OK || body->size > job->max || job->got.len > body->size) {
		fail_with_box(job, "a size that was not asked for");
		return;
	}
	job->announced = true;
	job->result.size = body->size;
	job->result.mode = body->mode;
	if (job->kind)
		act(job, job->kind->begin(job));
	else
		take_bytes(job);
}

static void on_refusal(struct runtime_file *job, const struct id_file *body)
{
	const char *slug = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(file_errors); i++) {
		if (body->code == (uint32_t)file_errors[i].code)
			slug = file_errors[i].slug;
	}
	if (!slug && !job->detached && !job->announced)
		log_event(LOG_WARN, "file_job_refused", LOG_STR("volume", job->box->volume->name),
			  LOG_INT("op", job->op), LOG_INT("code", body->code),
			  LOG_INT("errno", body->errno_code));
	set_error(job, EIO, slug ? slug : "internal");
	job->result.size = body->size;
	job->result.used_bytes = body->used;
	finish(job);
}

static void on_end(struct runtime_file *job, const struct id_file *body)
{
	/* Something else wrote to the file meanwhile: what came is neither the old nor the new. */
	if (body->code == FILE_ERR_SHORT && job->op == FILE_READ && !job->kind &&
	    job->tries < FILE_TRIES) {
		file_pipe_close(job);
		buf_clear(&job->got);
		job->announced = false;
		file_start(job->box);
		return;
	}
	if (body->code != FILE_OK) {
		if (job->kind && job->kind->refused && job->kind->refused(job, body) == FILE_BROKEN)
			fail_with_box(job, job->why);
		else
			on_refusal(job, body);
		return;
	}
	if (job->kind) {
		act(job, job->kind->end(job, body));
		return;
	}
	switch (job->op) {
	case FILE_READ:
		job->answered = true;
		if (job->announced)
			take_bytes(job);
		else
			fail_with_box(job, "an end without a beginning");
		return;
	case FILE_WRITE:
		if (job->sent != job->bytes.len || body->size != job->bytes.len) {
			fail_with_box(job, "not all bytes were taken");
			return;
		}
		job->result.size = body->size;
		break;
	case FILE_USAGE:
		job->result.used_bytes = body->size;
		job->result.size = body->used;
		break;
	case FILE_STAT:
		job->result.size = body->size;
		job->result.mode = body->mode;
		break;
	default:
		fail_with_box(job, "an answer that nobody asked for");
		return;
	}
	finish(job);
}

static struct runtime_file *running_job(const struct box *box)
{
	return box->busy ? TAILQ_FIRST(&box->jobs) : NULL;
}

void file_message(struct box *box, const struct wire_msg *msg)
{
	struct runtime_file *job = running_job(box);
	struct id_file body;

	memcpy(&body, msg->body, sizeof(body));
	if (msg->head.type == ID_FILE)
		on_file(job, &body);
	else
		on_end(job, &body);
}

void file_sandbox_ended(struct box *box)
{
	struct runtime_file *job = running_job(box);

	if (job)
		lose(job, false);
	else
		box_lose_sandbox(box);
}

/* Nothing reached the workspace: the job begins again. */
static void try_again(struct runtime_file *job)
{
	struct box *box = job->box;

	job->state = FILE_QUEUED;
	file_pipe_close(job);
	deadline_set(&job->rt->deadlines, &job->deadline, job->queue_until_ms, on_queue_late);
	box_lose_sandbox(box);
}

void file_handover_failed(struct box *box, uint32_t code)
{
	struct runtime_file *job = running_job(box);
	bool was_dead = code == ESRCH || code == EPIPE;

	if (job && was_dead && job->moved && !job->kind->again) {
		/* The bytes are gone, but nothing has happened: the caller may begin again. */
		set_error(job, EAGAIN, "busy");
		leave_box(job);
		box_lose_sandbox(box);
		tell(job);
	} else if (job && was_dead && job->tries < FILE_TRIES) {
		try_again(job);
	} else if (job) {
		fail_with_box(job, "it did not get the workspace");
	} else {
		box_lose_sandbox(box);
	}
}

/* ---- Starting a job ---- */

/* A sealed file with the paths and their NULs, as DI_FILE wants it. */
static int path_fd(const char *path, size_t len)
{
	_cleanup_fd_ int fd = memfd_create("path", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || pwrite(fd, path, len, 0) != (ssize_t)len ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return -1;
	return take_fd(&fd);
}

static bool is_slow(const struct runtime_file *job)
{
	return job->kind && job->kind->slow;
}

static bool is_piped(const struct runtime_file *job)
{
	return job->op == FILE_READ || job->op == FILE_LIST || job->op == FILE_PACK ||
	       job->op == FILE_MERGE || file_job_gives(job);
}

/* Makes the pipe and returns init's end, or -1. */
static int pipe_open(struct runtime_file *job)
{
	bool reads = !file_job_gives(job);
	struct file_pipe *p;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -1;
	p = mem_new(1, sizeof(*p));
	p->rt = job->rt;
	p->job = job;
	p->fd = fds[reads ? 0 : 1];
	p->poll.data = p;
	if (uv_poll_init(job->rt->loop, &p->poll, p->fd) < 0) {
		free(p);
		close(fds[0]);
		close(fds[1]);
		return -1;
	}
	job->rt->handles++;
	job->pipe = p;
	return fds[reads ? 1 : 0];
}

static const enum sandbox_state file_states[] = {
	[FILE_READ] = SANDBOX_FILE_READ,   [FILE_WRITE] = SANDBOX_FILE_OTHER,
	[FILE_STAT] = SANDBOX_FILE_OTHER,  [FILE_USAGE] = SANDBOX_FILE_OTHER,
	[FILE_LIST] = SANDBOX_FILE_OTHER,  [FILE_REMOVE] = SANDBOX_FILE_OTHER,
	[FILE_MOVE] = SANDBOX_FILE_OTHER,  [FILE_MKDIR] = SANDBOX_FILE_OTHER,
	[FILE_PACK] = SANDBOX_FILE_READ,   [FILE_TRIM] = SANDBOX_FILE_OTHER,
	[FILE_MERGE] = SANDBOX_FILE_OTHER, [FILE_UNPACK] = SANDBOX_FILE_OTHER,
};

/* Returns 0, or -errno: -EPIPE when init is gone. A small write is in the pipe before init looks. */
static int send_job(struct runtime_file *job, struct sandbox *s)
{
	const struct di_file body = { .op = job->op,
				      .mode = 0644,
				      .size = job->kind ? job->size : job->bytes.len,
				      .max = job->max,
				      .quota = job->quota,
				      .flags = job->flags,
				      .depth = job->depth };
	_cleanup_fd_ int path = path_fd(job->path, job->path_len);
	_cleanup_fd_ int theirs = -1;
	int r;

	if (path < 0 || (is_piped(job) && (theirs = pipe_open(job)) < 0))
		return -EMFILE;
	job->sent = 0;
	if (job->kind && job->kind->again)
		job->moved = 0;
	if (job->op == FILE_WRITE && !job->kind)
		give_bytes(job);
	/* Fewer turns for many bytes; the kernel may say no to a user with many pipes. */
	if (job->pipe && job->kind)
		fcntl(job->pipe->fd, F_SETPIPE_SZ, FILE_PIPE_SIZE);
	if (++job->rt->files.next_job == 0)
		job->rt->files.next_job = 1;
	r = sandbox_send(s, file_states[job->op], DI_FILE, job->rt->files.next_job, &body,
			 sizeof(body), (int[]){ path, theirs }, theirs >= 0 ? 2 : 1);
	if (r == 0 && job->pipe)
		file_pipe_watch(job, true);
	return r;
}

const char *file_source(const struct box *box)
{
	const struct runtime_file *job = TAILQ_FIRST(&box->jobs);

	return job ? job->source : "";
}

static int64_t limit_of(const struct runtime_file *job)
{
	if (job->kind && job->kind->long_walk)
		return FILE_LONG_JOB_MS;
	return is_slow(job) ? FILE_STREAM_MS : FILE_JOB_MS;
}

static int64_t running_until_ms(const struct runtime_file *job)
{
	int64_t until_ms = clock_monotonic_ms() + limit_of(job);

	return job->until_ms && job->until_ms < until_ms ? job->until_ms : until_ms;
}

void file_start(struct box *box)
{
	struct runtime_file *job = TAILQ_FIRST(&box->jobs);
	int r;

	box->busy = true;
	job->state = FILE_RUNNING;
	job->tries++;
	if (job->kind && job->kind->lost)
		job->oom_kills = slot_read_oom_kills(sandbox_slot(box->sandbox));
	r = send_job(job, box->sandbox);
	if (r == 0) {
		deadline_set(&job->rt->deadlines, &job->deadline, running_until_ms(job),
			     on_job_late);
	} else if (r == -EPIPE && job->tries < FILE_TRIES) {
		try_again(job);
	} else {
		fail_soon(job, -r, r == -EPIPE ? "internal" : "busy");
		box_lose_sandbox(box);
	}
}

/* ---- The calls ---- */

struct runtime_file *file_job_new(struct runtime *rt, const struct runtime_file_spec *spec,
				  enum file_op op, void *data)
{
	struct runtime_file *job = mem_new(1, sizeof(*job));

	assert(spec->path.len <= LIMIT_PATH &&
	       (!spec->path.len || !memchr(spec->path.data, 0, spec->path.len)));
	job->rt = rt;
	job->op = op;
	job->data = data;
	job->queue_until_ms =
		clock_monotonic_ms() + (spec->queue_ms ? spec->queue_ms : FILE_QUEUE_MS);
	job->archive = -1;
	job->path = mem_dup_n(spec->path.data, spec->path.len);
	job->path_len = spec->path.len + 1;
	return job;
}

struct runtime_file *file_submit(struct runtime_file *job, const struct runtime_file_spec *spec)
{
	struct runtime *rt = job->rt;
	struct volume *v = volume_find(rt, spec->volume);
	struct pool *pool = pool_get(rt, spec->tenant, spec->image, false);

	assert(pool); /* an image's name fits */
	if (rt->closing || rt->link.state != LINK_READY || !v) {
		fail_soon(job, ESHUTDOWN, v ? "busy" : "internal");
		return job;
	}
	job->box = box_get(rt, v, pool, is_slow(job));
	TAILQ_INSERT_TAIL(&job->box->jobs, job, link);
	deadline_set(&rt->deadlines, &job->deadline, job->queue_until_ms, on_queue_late);
	box_step(job->box);
	return job;
}

struct runtime_file *runtime_file_read(struct runtime *rt, const struct runtime_file_spec *spec,
				       uint64_t max, runtime_read_fn fn, void *data)
{
	struct runtime_file *job = file_job_new(rt, spec, FILE_READ, data);

	job->read_fn = fn;
	job->max = max;
	job->got = BUF((size_t)max);
	return file_submit(job, spec);
}

struct runtime_file *runtime_file_write(struct runtime *rt, const struct runtime_file_spec *spec,
					struct str bytes, uint64_t quota_bytes, runtime_write_fn fn,
					void *data)
{
	struct runtime_file *job = file_job_new(rt, spec, FILE_WRITE, data);

	job->write_fn = fn;
	job->bytes = bytes;
	job->quota = quota_bytes;
	return file_submit(job, spec);
}

struct runtime_file *runtime_file_usage(struct runtime *rt, const struct runtime_file_spec *spec,
					runtime_write_fn fn, void *data)
{
	struct runtime_file *job = file_job_new(rt, spec, FILE_USAGE, data);

	job->write_fn = fn;
	return file_submit(job, spec);
}

struct runtime_file *runtime_look(struct runtime *rt, const struct runtime_file_spec *spec,
				  runtime_write_fn fn, void *data)
{
	struct runtime_file *job = file_job_new(rt, spec, FILE_STAT, data);

	job->write_fn = fn;
	job->flags = FILE_NO_FOLLOW;
	job->queue_until_ms = clock_monotonic_ms() + FILE_LOOK_MS;
	return file_submit(job, spec);
}

void runtime_file_detach(struct runtime_file *job)
{
	struct box *box = job->box;

	job->detached = true;
	if (job->state == FILE_QUEUED) {
		fail_soon(job, ECANCELED, "busy");
		box_step(box);
	} else if (job->state == FILE_RUNNING && job->kind && job->kind->detach) {
		job->kind->detach(job);
	} else if (job->state == FILE_RUNNING && job->op == FILE_WRITE && !job->kind) {
		/* The bytes are borrowed no longer. */
		file_pipe_close(job);
	}
}

/* ---- Ending many ---- */

void file_volume_ends(struct runtime *rt, struct volume *v)
{
	if (v->box)
		file_fail_all(v->box, "internal");
	if (v->slow_box)
		file_fail_all(v->slow_box, "internal");
}

void files_end(struct runtime *rt)
{
	for (size_t i = 0; i < rt->volumes.n_buckets; i++) {
		for (struct volume *v = rt->volumes.buckets[i]; v; v = v->next)
			file_volume_ends(rt, v);
	}
}

void files_abandon(struct runtime *rt)
{
	struct runtime_file *job;

	while ((job = TAILQ_FIRST(&rt->files.ending)))
		tell(job);
}
