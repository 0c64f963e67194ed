// SPDX-License-Identifier: Apache-2.0
/*
 * file: file jobs, done by the file worker of a sandbox in which no tenant code ever starts
 * (box.h).
 *
 *   QUEUED -> RUNNING -> ENDED
 *
 * Init's answers are hostile: a size beyond what was asked for, more or fewer bytes than announced,
 * an answer out of turn kill the file sandbox and fail that job alone. QUEUED lasts FILE_QUEUE_MS
 * at most, or what the caller gives ("busy"), RUNNING FILE_JOB_MS or what its kind says. A job that
 * never reached init is tried again with another sandbox, within the same time. A write whose
 * caller has lost interest is broken off unless all bytes are on their way; the worker then changes
 * nothing.
 */
#pragma once

#include <stdint.h>

#include "core/native/box.h"
#include "core/runtime.h"

#define FILE_QUEUE_MS 60000
#define FILE_JOB_MS 120000
/* What a caller waits before it does without an answer. */
#define FILE_LOOK_MS 5000
/* Snapshots: walks of whole trees. Archives: the worker's own time, and removing what came. */
#define FILE_LONG_JOB_MS 140000
/* Bytes that a client sends or takes at its own pace. */
#define FILE_STREAM_MS 240000
#define FILE_TRIES 3
#define FILE_PIPE_SIZE (256 * 1024)

struct volume;

struct files {
	struct file_list ending; /* jobs whose callback comes from the loop */
	uint32_t next_job;
};

void files_init(struct files *all);

/* For box.c: the first job begins; it has a sandbox with the workspace attached. */
void file_start(struct box *box);
/* What the first job wants to read from beside the workspace; "": nothing. */
const char *file_source(const struct box *box);
void file_message(struct box *box, const struct wire_msg *msg);
void file_sandbox_ended(struct box *box);
void file_handover_failed(struct box *box, uint32_t code);
/* No sandbox can be had: every job of the box fails, the box ends. */
void file_fail_all(struct box *box, const char *slug);

/* For snapshot.c: makes the workspace what the folder holds, until then. result->used_bytes: what
 * is left. */
struct runtime_file *file_trim(struct runtime *rt, const struct runtime_file_spec *spec,
			       int64_t until_ms, runtime_write_fn fn, void *data);

/* All its jobs fail, its file sandbox is killed. */
void file_volume_ends(struct runtime *rt, struct volume *v);
/* The same for all volumes. */
void files_end(struct runtime *rt);
/* After files_end: the callbacks that are still to come, now. */
void files_abandon(struct runtime *rt);
