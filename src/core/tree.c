// SPDX-License-Identifier: Apache-2.0
/* Listing a folder, and removing, moving and making without bytes. */
#include "base/mem.h"
#include "core/files-call.h"

/* ---- Changes ---- */

static void on_changed(void *data, const struct runtime_file_result *result, const struct err *err)
{
	files_call_end(data, result, err);
}

static void change_answer(struct files_call *f, const struct err *err)
{
	f->change(f->data, f->number, err);
}

static struct runtime_file *remove_run(struct files_call *f, const struct runtime_file_spec *spec,
				       uint64_t quota)
{
	return runtime_remove(f->c->runtime, spec, f->flag, on_changed, f);
}

static struct runtime_file *move_run(struct files_call *f, const struct runtime_file_spec *spec,
				     uint64_t quota)
{
	return runtime_move(f->c->runtime, spec, f->second, f->flag, on_changed, f);
}

static struct runtime_file *mkdir_run(struct files_call *f, const struct runtime_file_spec *spec,
				      uint64_t quota)
{
	return runtime_mkdir(f->c->runtime, spec, on_changed, f);
}

static const struct files_kind remove_kind = { .run = remove_run, .answer = change_answer };
static const struct files_kind move_kind = { .run = move_run, .answer = change_answer };
static const struct files_kind mkdir_kind = { .run = mkdir_run, .answer = change_answer };

static struct files_call *change_new(struct core *c, struct session *s, struct str path,
				     const struct files_kind *kind, files_change_fn fn, void *data)
{
	struct files_call *f = files_call_new(c, s, path);

	f->kind = kind;
	f->change = fn;
	f->data = data;
	return f;
}

static void set_second(struct files_call *f, struct str second)
{
	f->second_text = mem_dup_n(second.data, second.len);
	f->second = (struct str){ f->second_text, second.len };
}

struct files_call *files_remove(struct core *c, struct session *s, struct str path, bool recursive,
				files_change_fn fn, void *data)
{
	struct files_call *f = change_new(c, s, path, &remove_kind, fn, data);

	f->use = FILES_REMOVE;
	f->flag = recursive;
	return files_call_start(f);
}

struct files_call *files_move(struct core *c, struct session *s, struct str from, struct str to,
			      bool replace, files_change_fn fn, void *data)
{
	struct files_call *f = change_new(c, s, from, &move_kind, fn, data);

	f->use = FILES_MOVE;
	f->flag = replace;
	set_second(f, to);
	return files_call_start(f);
}

struct files_call *files_mkdir(struct core *c, struct session *s, struct str path,
			       files_change_fn fn, void *data)
{
	struct files_call *f = change_new(c, s, path, &mkdir_kind, fn, data);

	f->use = FILES_FOLDER;
	return files_call_start(f);
}

/* ---- Listing ---- */

/* The entries are valid in this call only, so the answer is given here. */
static void on_list(void *data, const struct runtime_entry *entries, size_t n, bool more,
		    const struct err *err)
{
	struct files_call *f = data;

	if (err) {
		files_call_end(f, NULL, err);
		return;
	}
	files_call_give_place(f);
	f->list(f->data, entries, n, more, NULL);
	files_call_free(f);
}

static struct runtime_file *list_run(struct files_call *f, const struct runtime_file_spec *spec,
				     uint64_t quota)
{
	return runtime_list(f->c->runtime, spec, f->second, f->depth, on_list, f);
}

static void list_answer(struct files_call *f, const struct err *err)
{
	f->list(f->data, NULL, 0, false, err);
}

static const struct files_kind list_kind = { .run = list_run, .answer = list_answer };

struct files_call *files_list(struct core *c, struct session *s, struct str path, struct str after,
			      uint32_t depth, files_list_fn fn, void *data)
{
	struct files_call *f = files_call_new(c, s, path);

	f->kind = &list_kind;
	f->use = FILES_FOLDER;
	f->list = fn;
	f->data = data;
	f->depth = depth;
	set_second(f, after);
	return files_call_start(f);
}
