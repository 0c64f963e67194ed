// SPDX-License-Identifier: Apache-2.0
/*
 * File calls: at most 8 of a tenant run at once, others wait in order and at most 60 s, the waiting
 * in the workspace's line included. Transfers, which go at the pace of a client, have a line of
 * their own.
 *
 * WAITING -> (write: is the quota near?) -> RUNNING -> answered
 */
#include "core/files.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "core/disk.h"
#include "core/files-call.h"

#define RUNNING_MAX 8u
#define WAIT_MAX_MS 60000ll
#define QUEUE_MIN_MS 1000
#define SHOWN_CHARS 200u

/* ---- Words ---- */

#define ANY_USE UINT32_MAX

static const struct {
	const char *slug; /* of the runtime */
	uint32_t uses;	  /* bits of enum files_use */
	int code;
	const char *said;	    /* slug for the caller */
	const char *before, *after; /* around the path; after == NULL: the path is not shown */
} says[] = {
	{ "file_not_found", 1u << FILES_FOLDER, ENOENT, "file_not_found", "Folder '",
	  "' does not exist." },
	{ "file_not_found", ANY_USE, ENOENT, "file_not_found", "File '", "' does not exist." },
	{ "path_outside", ANY_USE, EACCES, "path_outside",
	  "Access denied: symlink/path traversal outside workspace for '", "'" },
	{ "not_folder", ANY_USE, ENOTDIR, "not_folder", "'", "' is not a folder." },
	{ "is_folder", 1u << FILES_REMOVE, EISDIR, "is_folder", "'", "' is the workspace itself." },
	{ "is_folder", ANY_USE, EISDIR, "is_folder", "'", "' is a folder." },
	{ "not_regular_file", ANY_USE, EINVAL, "not_regular_file", "'",
	  "' is not a regular file." },
	{ "not_in_folder", ANY_USE, ENOTDIR, "not_in_folder", "'", "' is not inside a folder." },
	{ "permission_denied", ANY_USE, EACCES, "permission_denied", "Permission denied for '",
	  "'." },
	{ "not_utf8", ANY_USE, EILSEQ, "not_utf8", "'", "' is not UTF-8 text; use download." },
	{ "not_empty", ANY_USE, ENOTEMPTY, "not_empty", "'", "' is not empty." },
	{ "exists", ANY_USE, EEXIST, "exists", "'", "' already exists." },
	{ "too_many_files", ANY_USE, EDQUOT, "too_many_files", "The workspace has too many files.",
	  NULL },
	{ "too_deep", ANY_USE, EOVERFLOW, "too_deep",
	  "The workspace has more than 8,192 levels of folders.", NULL },
	{ "changed", ANY_USE, EAGAIN, "changed",
	  "The workspace was changed while it was being looked at; try again.", NULL },
	{ "busy", ANY_USE, EAGAIN, "busy", "The server is busy; try again shortly.", NULL },
	{ "stopping", ANY_USE, ESHUTDOWN, "stopping", "The server is stopping; try again shortly.",
	  NULL },
	{ "no_capacity", ANY_USE, EAGAIN, "no_capacity",
	  "All sandbox workspaces are in use; try again shortly.", NULL },
	{ "session_not_found", ANY_USE, ENOENT, "session_not_found", "Session not found or expired",
	  NULL },
};

void files_say(struct err *ret, const struct core *c, const struct err *err,
	       const struct files_matter *m)
{
	struct str shown = utf8_cut(m->path, SHOWN_CHARS);
	const char *slug = err->slug ? err->slug : "internal";
	int len = (int)shown.len;

	for (size_t i = 0; i < ARRAY_SIZE(says); i++) {
		if (strcmp(says[i].slug, slug) != 0 || !(says[i].uses & 1u << m->use))
			continue;
		err_slug(ret, says[i].code, says[i].said, "%s%.*s%s", says[i].before,
			 says[i].after ? len : 0, len ? shown.data : "",
			 says[i].after ? says[i].after : "");
		return;
	}
	if (strcmp(slug, "file_too_large") == 0 && m->use == FILES_DOWNLOAD)
		err_slug(ret, EFBIG, "file_too_large",
			 "File '%.*s' is larger than the %llu MB download limit.", len,
			 len ? shown.data : "", (unsigned long long)(c->config.download_max / MIB));
	else if (strcmp(slug, "file_too_large") == 0)
		err_slug(ret, EFBIG, "file_too_large",
			 "File '%.*s' is larger than the %llu MB read limit; use download.", len,
			 len ? shown.data : "", (unsigned long long)(c->config.write_max / MIB));
	else if (strcmp(slug, "quota") == 0)
		err_slug(ret, EDQUOT, "quota",
			 "Writing %.*s would use %.1f MB of the workspace's %llu MB disk quota. "
			 "Delete files first.",
			 len, len ? shown.data : "", (double)m->used_bytes / MIB,
			 (unsigned long long)(m->s->quota_bytes / MIB));
	else
		err_slug(ret, EIO, "internal", "Internal Server Error");
}

/* ---- The end ---- */

void files_call_free(struct files_call *f)
{
	struct core *c = f->c;

	session_unref(f->s);
	free(f->path_text);
	free(f->second_text);
	free(f);
	core_release(c);
}

static void answer(struct files_call *f, bool missing, struct str bytes, const struct err *err)
{
	if (f->detached)
		;
	else if (f->kind)
		f->kind->answer(f, err);
	else if (f->use == FILES_READ)
		f->read(f->data, missing, bytes, err);
	else
		f->write(f->data, err);
	files_call_free(f);
}

void files_call_refuse(struct files_call *f, const struct err *err, uint64_t used_bytes)
{
	struct err said, gone = { .slug = "session_not_found" };

	/* Nobody can be told any more; what init said is in the log. */
	if (f->begun) {
		answer(f, false, STR(""), err);
		return;
	}
	/* Of a move, used_bytes says which of the two paths it is about. */
	bool is_second = f->use == FILES_MOVE &&
			 (used_bytes == 1 || (err->slug && strcmp(err->slug, "exists") == 0));
	const struct files_matter matter = { f->s, f->use, is_second ? f->second : f->path,
					     used_bytes };

	/* Whatever broke a call whose session was deleted meanwhile, that is the reason. */
	files_say(&said, f->c, f->s->state == SESSION_READY ? err : &gone, &matter);
	if (strcmp(said.slug, "internal") == 0)
		log_event(LOG_ERROR, "file_call_failed", LOG_STR("request", f->origin.request),
			  LOG_STR("session", f->s->id), LOG_STR("tenant", f->s->tenant->name),
			  LOG_STR("why", err->text));
	answer(f, false, STR(""), &said);
}

static void start_next(struct core *c, struct files_line *line);

static bool is_slow(const struct files_call *f)
{
	return f->kind && f->kind->slow;
}

static struct files_line *line_of(const struct files_call *f)
{
	return &f->s->tenant->files[is_slow(f) ? FILES_SLOW : FILES_QUICK];
}

/* A session transfers one thing at a time, whatever it asks for: a second place of its own would
 * only be kept from the tenant's other sessions. */
static bool may_start(const struct files_call *f)
{
	return line_of(f)->running < RUNNING_MAX && !(is_slow(f) && f->s->transferring);
}

/* The place goes to the next in line before the answer. */
void files_call_give_place(struct files_call *f)
{
	f->job = NULL;
	line_of(f)->running--;
	if (is_slow(f))
		f->s->transferring = false;
	start_next(f->c, line_of(f));
}

static void on_read(void *data, const struct runtime_file_result *result, struct str bytes,
		    const struct err *err)
{
	struct files_call *f = data;
	struct err not_text = { .slug = "not_utf8" };

	files_call_give_place(f);
	if (err && err->slug && strcmp(err->slug, "file_not_found") == 0)
		answer(f, true, STR(""), NULL);
	else if (err)
		files_call_refuse(f, err, 0);
	else if (!utf8_valid(bytes))
		files_call_refuse(f, &not_text, 0);
	else
		answer(f, false, bytes, NULL);
}

static void on_written(void *data, const struct runtime_file_result *result, const struct err *err)
{
	struct files_call *f = data;

	files_call_give_place(f);
	if (err)
		files_call_refuse(f, err, result ? result->used_bytes : 0);
	else
		answer(f, false, STR(""), NULL);
}

void files_call_end(struct files_call *f, const struct runtime_file_result *result,
		    const struct err *err)
{
	files_call_give_place(f);
	if (err) {
		files_call_refuse(f, err, result ? result->used_bytes : 0);
		return;
	}
	f->number = result ? result->size : 0;
	answer(f, false, STR(""), NULL);
}

/* ---- The start ---- */

int64_t files_queue_ms(int64_t since_us, int64_t wait_max_ms)
{
	int64_t left_ms = wait_max_ms - (clock_monotonic_us() - since_us) / 1000;

	return left_ms > QUEUE_MIN_MS ? left_ms : QUEUE_MIN_MS;
}

static void run_job(struct files_call *f, uint64_t quota)
{
	const struct runtime_file_spec spec = {
		.volume = f->s->id,
		.tenant = f->s->tenant->number,
		.image = f->s->image,
		.path = f->path,
		.queue_ms = files_queue_ms(f->since_us, WAIT_MAX_MS),
	};
	struct runtime *rt = f->c->runtime;

	if (f->kind)
		f->job = f->kind->run(f, &spec, quota);
	else if (f->use == FILES_READ)
		f->job = runtime_file_read(rt, &spec, f->c->config.write_max, on_read, f);
	else
		f->job = runtime_file_write(rt, &spec, f->bytes, quota, on_written, f);
}

/* What it may add to the workspace; 0: nothing. */
static uint64_t more(const struct files_call *f)
{
	if (f->kind)
		return f->kind->more ? f->kind->more(f) : 0;
	return f->use == FILES_WRITE ? f->bytes.len + FILES_BLOCK : 0;
}

static void on_disk(void *data, bool walk)
{
	struct files_call *f = data;

	if (f->detached) {
		files_call_give_place(f);
		files_call_free(f);
		return;
	}
	/* The worker walks the tree only when the quota may be near. */
	disk_add(f->s, more(f));
	run_job(f, walk ? f->s->quota_bytes : 0);
}

static void start(struct files_call *f)
{
	line_of(f)->running++;
	if (is_slow(f))
		f->s->transferring = true;
	if (more(f))
		disk_ask(f->c, f->s, more(f), on_disk, f);
	else
		run_job(f, 0);
}

static void leave_line(struct files_call *f)
{
	struct files_line *line = line_of(f);
	struct files_call *before = NULL, *at = line->first;

	for (; at != f; at = at->next)
		before = at;
	if (before)
		before->next = f->next;
	else
		line->first = f->next;
	if (line->last == f)
		line->last = before;
	f->waiting = false;
	f->c->n_waiting--;
}

static struct files_call *next_of(const struct files_line *line)
{
	struct files_call *f = line->first;

	while (f && f->s->state == SESSION_READY && !may_start(f))
		f = f->next;
	return f;
}

static void start_next(struct core *c, struct files_line *line)
{
	struct err gone = { .code = ENOENT };
	struct files_call *f;

	while (line->running < RUNNING_MAX && (f = next_of(line))) {
		leave_line(f);
		if (f->s->state == SESSION_READY)
			start(f);
		else
			files_call_refuse(f, &gone, 0);
	}
}

static void expire(struct core *c, struct files_line *line, int64_t now_us)
{
	struct err busy = { .slug = now_us == INT64_MAX ? "stopping" : "busy" };

	struct files_call *f;

	while ((f = line->first) && now_us - f->since_us >= WAIT_MAX_MS * 1000) {
		leave_line(f);
		files_call_refuse(f, &busy, 0);
	}
}

void files_expire(struct core *c, int64_t now_us)
{
	for (struct tenant *t = c->tenants; t; t = t->next) {
		expire(c, &t->files[FILES_QUICK], now_us);
		expire(c, &t->files[FILES_SLOW], now_us);
	}
}

struct files_call *files_call_new(struct core *c, struct session *s, struct str path)
{
	struct files_call *f = mem_new(1, sizeof(*f));

	f->c = c;
	f->s = s;
	f->origin = c->origin;
	f->path_text = mem_dup_n(path.data, path.len);
	f->path = (struct str){ f->path_text, path.len };
	f->since_us = clock_monotonic_us();
	session_ref(s);
	core_hold(c);
	return f;
}

struct files_call *files_call_start(struct files_call *f)
{
	struct files_line *line = line_of(f);

	if (may_start(f)) {
		start(f);
		return f;
	}
	if (line->last)
		line->last->next = f;
	else
		line->first = f;
	line->last = f;
	f->waiting = true;
	f->c->n_waiting++;
	core_wait(f->c);
	return f;
}

struct files_call *files_read(struct core *c, struct session *s, struct str path, files_read_fn fn,
			      void *data)
{
	struct files_call *f = files_call_new(c, s, path);

	f->use = FILES_READ;
	f->read = fn;
	f->data = data;
	return files_call_start(f);
}

struct files_call *files_write(struct core *c, struct session *s, struct str path, struct str bytes,
			       files_write_fn fn, void *data)
{
	struct files_call *f = files_call_new(c, s, path);

	f->use = FILES_WRITE;
	f->bytes = bytes;
	f->write = fn;
	f->data = data;
	return files_call_start(f);
}

void files_detach(struct files_call *f)
{
	f->detached = true;
	if (f->waiting) {
		leave_line(f);
		files_call_free(f);
	} else if ((f->kind || f->use == FILES_WRITE) && f->job) {
		/* The bytes are the caller's again, so the job must end here. */
		runtime_file_detach(f->job);
		files_call_give_place(f);
		files_call_free(f);
	}
}
