// SPDX-License-Identifier: Apache-2.0
/*
 * Importing a repository: is the folder's name free? -> the archive comes into a file of ours that
 * has no name -> a command slot -> the file worker unpacks it.
 *
 *   WAITING -> LOOKING -> FETCHING -> UNPACKING -> answered
 *
 * An archive takes room on the host's disk until its import is over, so whoever may have one needs
 * a place: 2 of a tenant's, IMPORTS_MAX in all; others wait in order. Times together stay below
 * what clients wait (the contract, section 0.6): a place within WAIT_MAX_US, a look, the download,
 * and what is left of IMPORT_MAX_MS for the worker to begin and do its work.
 *
 * Until it unpacks an import ends with its caller, its session or the server. From then on it is
 * like a command: it goes on, holds a slot and is counted, whoever still listens. It keeps its
 * session alive all the time.
 *
 * Nothing of the archive has a name in the workspace, so nothing that is planted there has a part
 * in it (docs/decisions/import.md).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "core/audit.h"
#include "core/disk.h"
#include "core/files.h"
#include "core/parts.h"
#include "core/refusal.h"
#include "core/repository.h"

#define PLACES_TENANT 2u
#define IMPORTS_MAX 8u
#define WAIT_MAX_US (20 * 1000000ll)
#define FETCH_MS 30000
#define IMPORT_MAX_MS 200000
/* What the worker may need once it has begun. */
#define UNPACK_MS 140000

/* Where redirects of the code host may lead, and it itself. */
static const char *const fetch_hosts[] = {
	"github.com",
	"codeload.github.com",
	"api.github.com",
};

enum import_state {
	IMPORT_WAITING,
	IMPORT_LOOKING,
	IMPORT_FETCHING,
	IMPORT_UNPACKING,
	IMPORT_OVER
};

struct import {
	struct core *c;
	struct session *s; /* referenced */
	struct origin origin;
	struct repository repository;
	enum import_state state;
	import_fn fn; /* NULL: detached */
	void *data;
	int64_t since_us; /* monotonic */
	bool placed;
	int fd; /* owned: the archive; -1: none yet */
	uint64_t bytes;
	struct runtime_file *job;
	struct runtime_fetch *fetch;
	int64_t unpack_us;	     /* monotonic, of its beginning */
	struct err err;		     /* OVER, and answered soon */
	struct import_result result; /* what to answer when err has no code */
	struct audit *audit;	     /* NULL: none, or it has ended */
	bool unrecorded;	     /* it must not begin yet */
	struct later later;
	struct import *prev, *next;
};

/* ---- The end ---- */

static void places_pump(struct core *c);

static void leave(struct import *im)
{
	struct core *c = im->c;

	*(im->prev ? &im->prev->next : &c->imports_first) = im->next;
	*(im->next ? &im->next->prev : &c->imports_last) = im->prev;
	if (im->state == IMPORT_WAITING)
		c->imports_waiting--;
	if (im->placed) {
		im->s->tenant->imports--;
		c->imports_placed--;
	}
	im->state = IMPORT_OVER;
}

static void tell(void *data)
{
	struct import *im = data;
	struct core *c = im->c;
	bool failed = im->err.code;

	if (im->fn)
		im->fn(im->data, failed ? NULL : &im->result, failed ? &im->err : NULL);
	session_unref(im->s);
	free(im);
	core_release(c);
}

static void record_end(struct import *im)
{
	_cleanup_free_ char *detail = NULL;

	if (!im->audit) {
		tell(im);
	} else if (im->err.code) {
		audit_fail(take_ptr(im->audit), &im->err, tell, im);
	} else {
		detail = mem_printf("%llu files into /workspace/%s",
				    (unsigned long long)im->result.files, im->repository.path);
		struct str shown = utf8_cut(str_of(detail), AUDIT_DETAIL_MAX);
		detail[shown.len] = '\0';
		audit_done(take_ptr(im->audit), detail, tell, im);
	}
}

/* The place goes to the next; it is put on record, then answered. */
static void finish(struct import *im, const struct import_result *result, const struct err *err)
{
	struct core *c = im->c;

	leave(im);
	fd_close(&im->fd);
	im->s->running--;
	if (im->s->state == SESSION_READY)
		session_touch(c, im->s);
	places_pump(c);
	if (err)
		im->err = *err;
	else if (result)
		im->result = *result;
	else
		err_slug(&im->err, ECANCELED, "internal", "the client went away");
	record_end(im);
}

/* What it is waiting for says nothing any more. */
static void let_go(struct import *im)
{
	if (im->fetch)
		runtime_fetch_cancel(take_ptr(im->fetch));
	if (im->job)
		runtime_file_detach(take_ptr(im->job));
}

static void on_refused(struct later *l)
{
	struct import *im = container_of(l, struct import, later);

	finish(im, NULL, &im->err);
}

/* For callers in which nobody may be called back. */
static void refuse_soon(struct import *im)
{
	let_go(im);
	im->later.fn = on_refused;
	core_later(im->c, &im->later);
}

void imports_end(struct core *c, const struct session *s)
{
	for (struct import *im = c->imports_first; im; im = im->next) {
		if ((s && im->s != s) || im->state == IMPORT_UNPACKING || im->err.code)
			continue;
		if (s)
			refusal_no_session(&im->err);
		else
			refusal_stopping(&im->err);
		refuse_soon(im);
	}
	for (struct import *im = c->imports_first; !s && im; im = im->next) {
		if (im->state != IMPORT_UNPACKING || im->err.code)
			continue;
		im->s->tenant->commands_running--;
		refusal_stopping(&im->err);
		refuse_soon(im);
	}
}

unsigned imports_count(const struct core *c)
{
	unsigned n = 0;

	for (const struct import *im = c->imports_first; im; im = im->next)
		n++;
	return n;
}

void import_detach(struct import *im)
{
	im->fn = NULL;
	if (im->state == IMPORT_UNPACKING || im->state == IMPORT_OVER || im->err.code)
		return;
	let_go(im);
	finish(im, NULL, NULL);
}

/* ---- Words ---- */

static const char *const faults[] = {
	[RUNTIME_ARCHIVE_BROKEN] = "the archive is damaged or cut short.",
	[RUNTIME_ARCHIVE_NAME] = "a name in the archive leads out of its folder, is too long, or "
				 "needs a folder where a file is.",
	[RUNTIME_ARCHIVE_KIND] = "the archive has something that is no file, folder or link.",
	[RUNTIME_ARCHIVE_LINK] = "a name in the archive leads through a link, or a hard link leads "
				 "out of it.",
	[RUNTIME_ARCHIVE_LIMIT] = "the archive has more than 500,000 entries, or is larger than "
				  "16 GB or 200 times its size when it is unpacked.",
	[RUNTIME_ARCHIVE_TIME] = "it took longer than 120 s.",
	[RUNTIME_ARCHIVE_MEMORY] = "it took more memory than a sandbox has.",
	[RUNTIME_ARCHIVE_KILLED] = "what unpacked it was killed.",
	[RUNTIME_ARCHIVE_CRASHED] = "what unpacked it crashed.",
};

static void say_no_space(struct err *ret, const struct import *im, uint64_t used)
{
	uint64_t quota = im->s->quota_bytes, left = used < quota ? quota - used : 0;

	if (im->bytes > left)
		err_slug(ret, EDQUOT, "import_no_space",
			 "The archive (%.1f MB) doesn't fit in the workspace's free disk space "
			 "(%.1f MB).",
			 (double)im->bytes / MIB, (double)left / MIB);
	else
		err_slug(ret, EDQUOT, "import_no_space",
			 "The files of %s/%s don't fit in the workspace's free disk space (%.1f "
			 "MB).",
			 im->repository.owner, im->repository.name, (double)left / MIB);
}

/* What the file worker said. */
static void say(struct err *ret, const struct import *im, const struct err *err,
		const struct runtime_file_result *result)
{
	const struct repository *r = &im->repository;
	struct err gone = { .slug = "session_not_found" };
	const struct files_matter matter = { im->s, FILES_WRITE, str_of(r->path), 0 };
	const char *slug = err->slug ? err->slug : "";

	if (im->s->state != SESSION_READY)
		files_say(ret, im->c, &gone, &matter);
	else if (strcmp(slug, "exists") == 0)
		err_slug(ret, EEXIST, "destination_exists",
			 "/workspace/%s already exists. Pick another folder name or delete it "
			 "first.",
			 r->path);
	else if (strcmp(slug, "quota") == 0)
		say_no_space(ret, im, result->used_bytes);
	else if (strcmp(slug, "unpack_failed") == 0)
		err_slug(ret, EBADMSG, "unpack_failed", "Unpacking %s/%s failed: %s", r->owner,
			 r->name, faults[result->fault]);
	else
		files_say(ret, im->c, err, &matter);
	if (strcmp(ret->slug, "internal") == 0)
		log_event(LOG_ERROR, "import_failed", LOG_STR("request", im->origin.request),
			  LOG_STR("session", im->s->id), LOG_STR("tenant", im->s->tenant->name),
			  LOG_STR("why", err->text));
}

static void say_status(struct err *ret, const struct import *im, unsigned status)
{
	const struct repository *r = &im->repository;

	if (status == 404)
		err_slug(ret, ENOENT, "repo_not_found",
			 "%s/%s@%s wasn't found. Only public repositories can be imported.",
			 r->owner, r->name, r->ref);
	else
		err_slug(ret, EPROTO, "github_failed", "GitHub answered %u for %s/%s.", status,
			 r->owner, r->name);
}

static void say_fetch(struct err *ret, const struct import *im,
		      const struct runtime_fetch_result *result)
{
	const struct repository *r = &im->repository;

	switch (result->end) {
	case RUNTIME_FETCH_STATUS:
		say_status(ret, im, result->status);
		break;
	case RUNTIME_FETCH_TOO_LARGE:
		err_slug(ret, EFBIG, "import_too_large",
			 "%s/%s is larger than the %llu MB import limit.", r->owner, r->name,
			 (unsigned long long)(im->c->config.import_max / MIB));
		break;
	case RUNTIME_FETCH_REDIRECT:
		err_slug(ret, EPROTO, "github_failed",
			 "GitHub redirected the download to an unexpected host (%.255s).",
			 result->host);
		break;
	case RUNTIME_FETCH_NO_SPACE:
		refusal_busy(ret);
		break;
	case RUNTIME_FETCH_OK:
	case RUNTIME_FETCH_FAILED:
		err_slug(ret, EPROTO, "github_failed", "Couldn't download %s/%s: %.400s", r->owner,
			 r->name, result->reason);
		break;
	}
	if (result->end == RUNTIME_FETCH_NO_SPACE)
		log_event(LOG_ERROR, "import_no_room", LOG_STR("request", im->origin.request),
			  LOG_STR("session", im->s->id),
			  LOG_STR("why", "the state directory's disk is full"));
}

/* ---- The steps, the last first ---- */

/* Whoever unpacks removes what there is, unless it was ended as well. */
static bool may_have_left(const struct runtime_file_result *result, const struct err *err)
{
	return err->slug &&
	       (strcmp(err->slug, "internal") == 0 ||
		(strcmp(err->slug, "unpack_failed") == 0 && result->fault >= RUNTIME_ARCHIVE_TIME));
}

/* Whether it ran: what the worker never began is no command. */
static bool has_run(const struct err *err)
{
	return !err->slug ||
	       (strcmp(err->slug, "busy") != 0 && strcmp(err->slug, "no_capacity") != 0);
}

static void on_unpacked(void *data, const struct runtime_file_result *result, const struct err *err)
{
	struct import *im = data;
	struct session *s = im->s;
	struct err said;

	im->job = NULL;
	s->tenant->commands_running--;
	if (!err || has_run(err))
		usage_add(im->c, s->tenant, 0, 1, (clock_monotonic_us() - im->unpack_us) / 1000);
	if (err) {
		/* What was left of it, if something was, goes when the workspace is measured. */
		if (may_have_left(result, err))
			disk_add(s, s->quota_bytes);
		say(&said, im, err, result);
		finish(im, NULL, &said);
		return;
	}
	disk_add(s, result->used_bytes);
	finish(im,
	       &(struct import_result){ .repository = &im->repository,
					.files = result->size,
					.archive_bytes = im->bytes },
	       NULL);
}

static struct runtime_file_spec file_spec(const struct import *im)
{
	return (struct runtime_file_spec){
		.volume = im->s->id,
		.tenant = im->s->tenant->number,
		.image = im->s->image,
		.path = str_of(im->repository.path),
	};
}

static void unpack(struct import *im)
{
	struct runtime_file_spec spec = file_spec(im);
	const struct runtime_unpack archive = {
		.fd = im->fd,
		.size = im->bytes,
		.quota_bytes = im->s->quota_bytes,
	};

	spec.queue_ms = files_queue_ms(im->since_us, IMPORT_MAX_MS - UNPACK_MS);
	im->state = IMPORT_UNPACKING;
	im->unpack_us = clock_monotonic_us();
	im->s->tenant->commands_running++;
	/* From now on the counter of the volume lags. */
	disk_add(im->s, 0);
	im->job = runtime_unpack(im->c->runtime, &spec, &archive, on_unpacked, im);
}

static void on_fetched(void *data, const struct runtime_fetch_result *result)
{
	struct import *im = data;
	struct err said;

	im->fetch = NULL;
	im->bytes = result->bytes;
	if (result->end != RUNTIME_FETCH_OK)
		say_fetch(&said, im, result);
	else if (exec_check_slot(im->s->tenant, &said) >= 0) {
		unpack(im);
		return;
	}
	finish(im, NULL, &said);
}

/* A file for the archive, where there is room for it and as much again for the server's own. */
static int make_file(struct import *im, struct err *err)
{
	struct statfs fs;

	im->fd = open(im->c->config.tmp_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (im->fd < 0 || fstatfs(im->fd, &fs) < 0) {
		err_errno(err, "making a file in %s", im->c->config.tmp_dir);
	} else if ((uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize >= 2 * im->c->config.import_max) {
		return 0;
	} else {
		err_set(err, ENOSPC, "less than twice SANDBOX_IMPORT_MAX_MB is free in %s",
			im->c->config.tmp_dir);
	}
	log_event(LOG_ERROR, "import_no_room", LOG_STR("request", im->origin.request),
		  LOG_STR("session", im->s->id), LOG_STR("why", err->text));
	return refusal_busy(err);
}

static void fetch(struct import *im)
{
	const struct core_config *config = &im->c->config;
	const char *hosts[ARRAY_SIZE(fetch_hosts) + 1] = { config->import_host };
	char url[RUNTIME_FETCH_URL_MAX + 1];
	struct err said;

	memcpy(hosts + 1, fetch_hosts, sizeof(fetch_hosts));
	if (repository_url(&im->repository, config->import_base, url, sizeof(url)) >= sizeof(url))
		err_slug(&said, EPROTO, "github_failed", "Couldn't download %s/%s: %s",
			 im->repository.owner, im->repository.name, "its address is too long");
	else if (make_file(im, &said) >= 0) {
		const struct runtime_fetch_spec spec = { .url = url,
							 .hosts = hosts,
							 .n_hosts = ARRAY_SIZE(hosts),
							 .max_bytes = config->import_max,
							 .fd = im->fd,
							 .timeout_ms = FETCH_MS };
		im->state = IMPORT_FETCHING;
		im->fetch = runtime_fetch_start(im->c->runtime, &spec, on_fetched, im);
		return;
	}
	finish(im, NULL, &said);
}

/* Asked before a download that would be for nothing; unpacking finds out for sure. */
static void on_looked(void *data, const struct runtime_file_result *result, const struct err *err)
{
	struct import *im = data;
	struct err exists = { .slug = "exists" }, said;
	const char *slug = err ? err->slug : "exists";

	im->job = NULL;
	if (slug && (strcmp(slug, "file_not_found") == 0 || strcmp(slug, "busy") == 0)) {
		fetch(im);
		return;
	}
	say(&said, im, err ? err : &exists, result);
	finish(im, NULL, &said);
}

static void look(struct import *im)
{
	const struct runtime_file_spec spec = file_spec(im);

	im->state = IMPORT_LOOKING;
	im->job = runtime_look(im->c->runtime, &spec, on_looked, im);
}

/* ---- Places ---- */

static void places_pump(struct core *c)
{
	for (struct import *im = c->imports_first; im && c->imports_placed < IMPORTS_MAX;
	     im = im->next) {
		if (im->state != IMPORT_WAITING || im->err.code || im->unrecorded ||
		    im->s->tenant->imports >= PLACES_TENANT)
			continue;
		c->imports_waiting--;
		c->imports_placed++;
		im->s->tenant->imports++;
		im->placed = true;
		look(im);
	}
}

void imports_expire(struct core *c, int64_t now_us)
{
	for (struct import *im = c->imports_first; im; im = im->next) {
		if (im->state != IMPORT_WAITING || im->err.code ||
		    now_us - im->since_us < WAIT_MAX_US)
			continue;
		refusal_busy(&im->err);
		refuse_soon(im);
	}
}

static void on_begun(void *data, bool on_disk)
{
	struct import *im = data;

	im->unrecorded = false;
	if (im->state == IMPORT_OVER || im->err.code)
		return;
	if (on_disk) {
		places_pump(im->c);
		return;
	}
	refusal_busy(&im->err);
	refuse_soon(im);
}

static void put_part(struct buf *out, const char *before, struct str part)
{
	if (!part.data)
		return;
	buf_put_text(out, before);
	buf_put_str(out, part);
}

static void record(struct core *c, struct session *s, const struct import_params *p,
		   struct import *im, struct audit **ret)
{
	_cleanup_buf_ struct buf command = BUF(8 * KIB);

	put_part(&command, "import ", p->repo);
	put_part(&command, " @", p->ref);
	put_part(&command, " into ", p->path);
	const struct audit_start start = {
		.tenant = s->tenant,
		.session = s->id,
		.actor = p->actor,
		.kind = "import",
		.command = buf_str(&command),
	};
	*ret = audit_begin(c, &start, im && audit_is_strict(c) ? on_begun : NULL, im);
}

/* Nobody waits for the record of what never began. */
static int refuse(struct core *c, struct session *s, const struct import_params *p,
		  const struct err *err)
{
	struct audit *audit;

	record(c, s, p, NULL, &audit);
	if (audit)
		audit_fail(audit, err, NULL, NULL);
	return -err->code;
}

int import_start(struct core *c, struct session *s, const struct import_params *p, import_fn fn,
		 void *data, struct import **ret, struct err *err)
{
	struct repository repository;
	int r = repository_parse(&repository, p->repo, p->ref, p->path, err);

	if (r >= 0 && c->stopping)
		r = refusal_stopping(err);
	if (r < 0)
		return refuse(c, s, p, err);
	struct import *im = mem_new(1, sizeof(*im));
	*im = (struct import){ .c = c,
			       .s = s,
			       .origin = c->origin,
			       .repository = repository,
			       .fn = fn,
			       .data = data,
			       .since_us = clock_monotonic_us(),
			       .fd = -1,
			       .prev = c->imports_last };
	core_hold(c);
	session_ref(s);
	s->running++;
	*(im->prev ? &im->prev->next : &c->imports_first) = im;
	c->imports_last = im;
	c->imports_waiting++;
	record(c, s, p, im, &im->audit);
	im->unrecorded = audit_is_strict(c);
	places_pump(c);
	if (im->state == IMPORT_WAITING)
		core_wait(c);
	*ret = im;
	return 0;
}
