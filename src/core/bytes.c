// SPDX-License-Identifier: Apache-2.0
/*
 * Uploads, downloads, archives: file calls whose bytes go through. This file only passes them on;
 * who waits for whom is between the runtime and the caller.
 */
#include <assert.h>

#include "core/files-call.h"

/* ---- Up ---- */

static void on_wanted(void *data)
{
	struct files_call *f = data;

	f->up.wanted(f->data);
}

static void on_uploaded(void *data, const struct runtime_file_result *result, const struct err *err)
{
	files_call_end(data, result, err);
}

/* Of an unknown size the largest counts until it is there. */
static uint64_t upload_more(const struct files_call *f)
{
	uint64_t size = f->size == RUNTIME_SIZE_UNKNOWN ? f->c->config.upload_max : f->size;

	return size + FILES_BLOCK;
}

static struct runtime_file *upload_run(struct files_call *f, const struct runtime_file_spec *spec,
				       uint64_t quota)
{
	static const struct runtime_upload_ops ops = { on_wanted, on_uploaded };
	const struct runtime_upload upload = { .size = f->size,
					       .max = f->c->config.upload_max,
					       .quota_bytes = quota };

	return runtime_upload(f->c->runtime, spec, &upload, &ops, f);
}

static void upload_answer(struct files_call *f, const struct err *err)
{
	f->up.done(f->data, f->number, err);
}

static const struct files_kind upload_kind = { true, upload_more, upload_run, upload_answer };

struct files_call *files_upload(struct core *c, struct session *s, struct str path, uint64_t size,
				const struct files_upload_ops *ops, void *data)
{
	struct files_call *f = files_call_new(c, s, path);

	assert(size == RUNTIME_SIZE_UNKNOWN || size <= c->config.upload_max);
	f->kind = &upload_kind;
	f->use = FILES_WRITE;
	f->size = size;
	f->up = *ops;
	f->data = data;
	return files_call_start(f);
}

bool files_give(struct files_call *f, struct str bytes)
{
	return runtime_upload_give(f->job, bytes);
}

void files_give_end(struct files_call *f)
{
	runtime_upload_end(f->job);
}

/* ---- Down ---- */

static void on_begun(void *data, const struct runtime_file_result *result)
{
	struct files_call *f = data;

	f->begun = true;
	f->down.begun(f->data, result->size);
}

static bool on_bytes(void *data, struct str bytes)
{
	struct files_call *f = data;

	return f->down.bytes(f->data, bytes);
}

static void on_downloaded(void *data, const struct runtime_file_result *result,
			  const struct err *err)
{
	files_call_end(data, result, err);
}

static const struct runtime_download_ops down_ops = { on_begun, on_bytes, on_downloaded };

static struct runtime_file *download_run(struct files_call *f, const struct runtime_file_spec *spec,
					 uint64_t quota)
{
	return runtime_download(f->c->runtime, spec, f->c->config.download_max, &down_ops, f);
}

static struct runtime_file *pack_run(struct files_call *f, const struct runtime_file_spec *spec,
				     uint64_t quota)
{
	return runtime_pack(f->c->runtime, spec, f->c->config.download_max, &down_ops, f);
}

static void download_answer(struct files_call *f, const struct err *err)
{
	f->down.done(f->data, err);
}

static const struct files_kind download_kind = { .slow = true,
						 .run = download_run,
						 .answer = download_answer };
static const struct files_kind pack_kind = { .slow = true,
					     .run = pack_run,
					     .answer = download_answer };

static struct files_call *download(struct files_call *f, const struct files_kind *kind,
				   enum files_use use, const struct files_download_ops *ops,
				   void *data)
{
	f->kind = kind;
	f->use = use;
	f->down = *ops;
	f->data = data;
	return files_call_start(f);
}

struct files_call *files_download(struct core *c, struct session *s, struct str path,
				  const struct files_download_ops *ops, void *data)
{
	return download(files_call_new(c, s, path), &download_kind, FILES_DOWNLOAD, ops, data);
}

struct files_call *files_archive(struct core *c, struct session *s, struct str path,
				 const struct files_download_ops *ops, void *data)
{
	return download(files_call_new(c, s, path), &pack_kind, FILES_FOLDER, ops, data);
}

void files_resume(struct files_call *f)
{
	runtime_download_resume(f->job);
}
