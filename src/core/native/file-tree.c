// SPDX-License-Identifier: Apache-2.0
/*
 * Listing a folder, and changes of the tree without bytes. A listing is read whole before it is
 * looked at; nothing of it is believed: lengths, order, number and the place of the cursor are
 * checked against what was asked for.
 */
#include "core/native/file-job.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"

/* What an honest listing can have: each entry with its two paths. */
#define LIST_BYTES (RUNTIME_LIST_MAX * (sizeof(struct file_entry) + 2 * LIMIT_PATH))

static enum file_step broken(struct runtime_file *job, const char *why)
{
	job->why = why;
	return FILE_BROKEN;
}

static void put_second(struct runtime_file *job, struct str second)
{
	assert(second.len <= LIMIT_PATH && (!second.len || !memchr(second.data, 0, second.len)));
	job->path = mem_grow(job->path, job->path_len + second.len + 1, 1);
	if (second.len)
		memcpy(job->path + job->path_len, second.data, second.len);
	job->path[job->path_len + second.len] = '\0';
	job->path_len += second.len + 1;
}

/* ---- Without bytes ---- */

static enum file_step plain_end(struct runtime_file *job, const struct id_file *body)
{
	job->result.size = body->size;
	return FILE_DONE;
}

static void plain_tell(struct runtime_file *job, const struct err *err)
{
	job->write_fn(job->data, &job->result, err);
}

static const struct file_kind plain_kind = {
	.end = plain_end,
	.tell = plain_tell,
};

static struct runtime_file *plain(struct runtime *rt, const struct runtime_file_spec *spec,
				  enum file_op op, runtime_write_fn fn, void *data)
{
	struct runtime_file *job = file_job_new(rt, spec, op, data);

	job->kind = &plain_kind;
	job->write_fn = fn;
	return job;
}

struct runtime_file *runtime_remove(struct runtime *rt, const struct runtime_file_spec *spec,
				    bool recursive, runtime_write_fn fn, void *data)
{
	struct runtime_file *job = plain(rt, spec, FILE_REMOVE, fn, data);

	job->flags = recursive ? FILE_RECURSIVE : 0;
	return file_submit(job, spec);
}

struct runtime_file *runtime_move(struct runtime *rt, const struct runtime_file_spec *spec,
				  struct str to, bool replace, runtime_write_fn fn, void *data)
{
	struct runtime_file *job = plain(rt, spec, FILE_MOVE, fn, data);

	job->flags = replace ? FILE_REPLACE : 0;
	put_second(job, to);
	return file_submit(job, spec);
}

struct runtime_file *runtime_mkdir(struct runtime *rt, const struct runtime_file_spec *spec,
				   runtime_write_fn fn, void *data)
{
	return file_submit(plain(rt, spec, FILE_MKDIR, fn, data), spec);
}

/* ---- Listing ---- */

static int order(struct str a, struct str b)
{
	int r = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);

	return r ? r : (a.len > b.len) - (a.len < b.len);
}

/* Takes n bytes from the front; data == NULL: there are not so many. */
static struct str take(struct str *rest, size_t n)
{
	struct str got = { NULL, 0 };

	if (n > rest->len)
		return got;
	got = (struct str){ rest->data, n };
	*rest = str_from(*rest, n);
	return got;
}

static bool is_text(struct str text, size_t min)
{
	return text.data && text.len >= min && text.len <= LIMIT_PATH &&
	       !memchr(text.data, 0, text.len);
}

/* Takes an entry that lies behind *last, which it becomes. */
static bool parse_entry(struct str *rest, struct str *last, struct runtime_entry *ret)
{
	struct file_entry head;
	struct str raw = take(rest, sizeof(head));

	if (!raw.data)
		return false;
	memcpy(&head, raw.data, sizeof(head));
	*ret = (struct runtime_entry){ .mode = head.mode,
				       .size = head.size,
				       .mtime_s = head.mtime,
				       .path = take(rest, head.path_len),
				       .target = take(rest, head.target_len) };
	if (!is_text(ret->path, 1) || !is_text(ret->target, 0) || order(ret->path, *last) <= 0)
		return false;
	*last = ret->path;
	return true;
}

static bool parse_list(struct runtime_file *job)
{
	const char *after = job->path + job->path_len - job->after_len - 1;
	struct str rest = buf_str(&job->got), last = { after, job->after_len };

	if (job->result.size)
		job->entries = mem_new((size_t)job->result.size, sizeof(*job->entries));
	for (uint64_t i = 0; i < job->result.size; i++) {
		if (!parse_entry(&rest, &last, &job->entries[i]))
			return false;
	}
	return !rest.len;
}

static enum file_step list_pump(struct runtime_file *job, int status)
{
	while (job->pipe) {
		ssize_t n = read(job->pipe->fd, job->rt->chunk, RUNTIME_CHUNK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return FILE_GO_ON;
		if (n <= 0)
			file_pipe_close(job);
		else if (!buf_put(&job->got, job->rt->chunk, (size_t)n))
			return broken(job, "a listing that is too long");
	}
	if (!job->answered)
		return FILE_GO_ON;
	return parse_list(job) ? FILE_DONE : broken(job, "a listing that is none");
}

static enum file_step list_end(struct runtime_file *job, const struct id_file *body)
{
	if (body->size > RUNTIME_LIST_MAX || body->used > 1 || (body->used && !body->size))
		return broken(job, "more entries than asked for");
	job->result.size = body->size;
	job->result.used_bytes = body->used;
	job->answered = true;
	return list_pump(job, 0);
}

static void list_tell(struct runtime_file *job, const struct err *err)
{
	job->list_fn(job->data, job->entries, err ? 0 : (size_t)job->result.size,
		     !err && job->result.used_bytes, err);
}

static const struct file_kind list_kind = {
	.pump = list_pump,
	.end = list_end,
	.tell = list_tell,
};

struct runtime_file *runtime_list(struct runtime *rt, const struct runtime_file_spec *spec,
				  struct str after, uint32_t depth, runtime_list_fn fn, void *data)
{
	struct runtime_file *job = file_job_new(rt, spec, FILE_LIST, data);

	job->kind = &list_kind;
	job->list_fn = fn;
	job->depth = depth;
	job->max = RUNTIME_LIST_MAX;
	job->got = BUF(LIST_BYTES);
	job->after_len = after.len;
	put_second(job, after);
	return file_submit(job, spec);
}
