// SPDX-License-Identifier: Apache-2.0
/* A place in the tenant's line, for what is no file call itself. */
#include "core/files-call.h"

static struct runtime_file *turn_run(struct files_call *f, const struct runtime_file_spec *spec,
				     uint64_t quota)
{
	f->turn(f->data, NULL);
	return NULL;
}

static void turn_answer(struct files_call *f, const struct err *err)
{
	f->turn(f->data, err);
}

static const struct files_kind turn_kind = { .run = turn_run, .answer = turn_answer };

struct files_call *files_turn(struct core *c, struct session *s, files_turn_fn fn, void *data)
{
	struct files_call *f = files_call_new(c, s, STR(""));

	f->kind = &turn_kind;
	f->use = FILES_FOLDER;
	f->turn = fn;
	f->data = data;
	return files_call_start(f);
}

void files_turn_end(struct files_call *turn)
{
	files_call_give_place(turn);
	files_call_free(turn);
}
