// SPDX-License-Identifier: Apache-2.0
/*
 * files-call: one file call in its tenant's line, shared by files.c (the line, the words, text
 * files), bytes.c and tree.c, and nobody else.
 *
 * A call with a kind is run and answered by it. Whoever hears the end of its job gives the place
 * away first, then answers; answering frees the call.
 */
#pragma once

#include "core/files.h"
#include "core/parts.h"

#define FILES_BLOCK 4096u /* what a file is rounded up to */

struct files_kind {
	bool slow; /* it goes at the pace of a client */
	/* Bytes that it may add to the workspace; NULL: none, and nobody looks at the quota. */
	uint64_t (*more)(const struct files_call *f);
	/* Starts the job; quota 0: no need to look. */
	struct runtime_file *(*run)(struct files_call *f, const struct runtime_file_spec *spec,
				    uint64_t quota);
	/* Tells the caller; err NULL: number is set. */
	void (*answer)(struct files_call *f, const struct err *err);
};

struct files_call {
	struct core *c;
	struct session *s; /* referenced */
	struct origin origin;
	char *path_text;	       /* owned */
	struct str path;	       /* points there */
	const struct files_kind *kind; /* NULL: read or write */
	char *second_text;	       /* owned */
	struct str second;	       /* points there: of a move, or the cursor of a list */
	struct str bytes;	       /* FILES_WRITE: borrowed until the answer */
	uint64_t size;		       /* upload: announced, or unknown */
	bool flag;		       /* recursive, replace */
	bool begun; /* the caller has got a beginning: an error has no words any more */
	uint32_t depth;
	uint64_t number; /* what the runtime's result.size said */
	struct files_upload_ops up;
	struct files_download_ops down;
	files_list_fn list;
	files_change_fn change;
	files_turn_fn turn;
	enum files_use use;
	files_read_fn read;
	files_write_fn write;
	void *data;
	bool detached, waiting;
	struct runtime_file *job;
	int64_t since_us;	 /* monotonic */
	struct files_call *next; /* waiting, of one tenant */
};

struct files_call *files_call_new(struct core *c, struct session *s, struct str path);
struct files_call *files_call_start(struct files_call *f);
/* The job is over: the next in line begins. */
void files_call_give_place(struct files_call *f);
/* Answers with the words for what the runtime said. */
void files_call_refuse(struct files_call *f, const struct err *err, uint64_t used_bytes);
/* The end of a job of a kind: place, words, answer. */
void files_call_end(struct files_call *f, const struct runtime_file_result *result,
		    const struct err *err);
void files_call_free(struct files_call *f);
