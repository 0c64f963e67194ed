// SPDX-License-Identifier: Apache-2.0
/*
 * Making a snapshot:
 *
 *   DL_SNAPSHOT_CREATE   a copy of the workspace as it is now, which nobody else knows yet
 *                        (where the back end cannot clone: an empty volume, FILE_MERGE into it)
 *   FILE_TRIM            in a file sandbox that has the copy as its workspace: all but the folder
 *                        goes, what is left is measured
 *   (quiet)              no process has the copy attached any more
 *   DL_SNAPSHOT_SEAL     nothing can be written to it any more
 *
 * Where both jobs are needed, the second has what the first has left of their time. The first step
 * that fails ends it. What is left of it then is the caller's to delete; an unsealed copy does not
 * survive a restart of the launcher.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/native/state.h"

#define QUEUE_MIN_MS 1000

struct snapshot_op {
	struct runtime *rt;
	char name[MSG_VOLUME_NAME], from[MSG_VOLUME_NAME];
	uint32_t tenant;
	char *image; /* owned */
	char *path;  /* owned; NULL: keep everything */
	size_t path_len;
	runtime_write_fn fn;
	void *data;
	int64_t until_ms; /* monotonic: the jobs are over by then */
	struct runtime_file_result result;
};

static void finish(struct snapshot_op *op, const struct err *err)
{
	op->fn(op->data, &op->result, err);
	free(op->image);
	free(op->path);
	free(op);
}

static void on_sealed(struct runtime *rt, void *data, struct wire_msg *msg)
{
	struct err err;

	finish(data, volume_failed(msg, &err) ? &err : NULL);
}

static void on_quiet(struct runtime *rt, struct volume *v, void *data)
{
	struct snapshot_op *op = data;
	struct dl_volume body;

	/* One that is being deleted meanwhile: the launcher says so. */
	memcpy(body.volume, op->name, sizeof(body.volume));
	link_ask(rt, DL_SNAPSHOT_SEAL, &body, sizeof(body), LINK_BIT(LD_DONE), on_sealed, op);
}

static void on_trimmed(void *data, const struct runtime_file_result *result, const struct err *err)
{
	struct snapshot_op *op = data;
	struct volume *v = volume_find(op->rt, op->name);
	struct err gone;

	op->result = *result;
	if (err || !v) {
		err_slug(&gone, ENOENT, "internal", "the snapshot is gone");
		finish(op, err ? err : &gone);
		return;
	}
	if (v->box)
		box_lose_sandbox(v->box);
	volume_when_quiet(op->rt, v, on_quiet, op);
}

static struct runtime_file_spec spec_of(const struct snapshot_op *op, struct str path)
{
	int64_t queue_ms = op->until_ms - FILE_LONG_JOB_MS - clock_monotonic_ms();

	return (struct runtime_file_spec){
		.volume = op->name,
		.tenant = op->tenant,
		.image = op->image,
		.path = path,
		.queue_ms = queue_ms > QUEUE_MIN_MS ? queue_ms : QUEUE_MIN_MS,
	};
}

/* What it is to be made from is there; nobody has it attached but a sandbox that is dying. */
static void trim(struct snapshot_op *op)
{
	struct volume *v = volume_find(op->rt, op->name);
	const struct runtime_file_spec spec = spec_of(op, (struct str){ op->path, op->path_len });
	struct err gone;

	if (!v) {
		err_slug(&gone, ENOENT, "internal", "the snapshot is gone");
		finish(op, &gone);
	} else if (op->path) {
		file_trim(op->rt, &spec, op->until_ms, on_trimmed, op);
	} else {
		volume_when_quiet(op->rt, v, on_quiet, op);
	}
}

static void on_copied(struct runtime *rt, void *data, struct wire_msg *msg)
{
	struct snapshot_op *op = data;
	struct err err;

	if (volume_failed(msg, &err)) {
		finish(op, &err);
		return;
	}
	volume_add(rt, op->name, op->tenant);
	trim(op);
}

/* ---- Without copy-on-write ---- */

static void on_filled(void *data, const struct runtime_file_result *result, struct str bytes,
		      const struct err *err)
{
	if (err)
		finish(data, err);
	else
		trim(data);
}

static void on_empty(struct runtime *rt, void *data, struct wire_msg *msg)
{
	struct snapshot_op *op = data;
	struct err err;

	if (volume_failed(msg, &err)) {
		finish(op, &err);
		return;
	}
	volume_add(rt, op->name, op->tenant);
	const struct runtime_file_spec spec = spec_of(op, STR("."));
	runtime_file_merge(rt, &spec, op->from, 0, on_filled, op);
}

static void on_cloned(struct runtime *rt, void *data, struct wire_msg *msg)
{
	struct snapshot_op *op = data;
	struct dl_volume_create body = { .tenant = op->tenant };

	if (!volume_cannot_clone(msg)) {
		on_copied(rt, op, msg);
		return;
	}
	memcpy(body.volume, op->name, sizeof(body.volume));
	link_ask(rt, DL_VOLUME_CREATE, &body, sizeof(body), LINK_BIT(LD_DONE), on_empty, op);
}

void runtime_snapshot_create(struct runtime *rt, const struct runtime_snapshot_spec *spec,
			     runtime_write_fn fn, void *data)
{
	struct snapshot_op *op = mem_new(1, sizeof(*op));
	struct dl_snapshot_create body = { .tenant = spec->tenant };

	*op = (struct snapshot_op){ .rt = rt, .tenant = spec->tenant, .fn = fn, .data = data };
	snprintf(op->name, sizeof(op->name), "%s", spec->snapshot);
	op->until_ms = clock_monotonic_ms() + FILE_LONG_JOB_MS +
		       (spec->queue_ms ? spec->queue_ms : FILE_QUEUE_MS);
	op->image = mem_dup(spec->image);
	if (spec->path.data) {
		op->path = mem_dup_n(spec->path.data, spec->path.len);
		op->path_len = spec->path.len;
	}
	snprintf(op->from, sizeof(op->from), "%s", spec->volume);
	memcpy(body.volume, op->from, sizeof(body.volume));
	memcpy(body.snapshot, op->name, sizeof(body.snapshot));
	link_ask(rt, DL_SNAPSHOT_CREATE, &body, sizeof(body), LINK_BIT(LD_DONE), on_cloned, op);
}
