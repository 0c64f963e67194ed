// SPDX-License-Identifier: Apache-2.0
/*
 * files: the words of the contract for what goes wrong with a path (sections 5.1, 5.2, 5.5). The
 * calls themselves are in core.h.
 */
#pragma once

#include "core/core.h"

/* A place among the tenant's file calls for one that is made elsewhere (snapshots, restore). */
struct files_call;

/* err == NULL: it has its place until files_turn_end. Else it has none and never will: "busy",
 * "stopping", "session_not_found", with the words for the caller. */
typedef void (*files_turn_fn)(void *data, const struct err *err);

/* May call fn, which must not end it there and then, before it returns. It cannot be detached. */
struct files_call *files_turn(struct core *c, struct session *s, files_turn_fn fn, void *data);
void files_turn_end(struct files_call *turn);

/* For the job of a call that may wait so long in all: what is left of it, or a second. */
int64_t files_queue_ms(int64_t since_us, int64_t wait_max_ms);

/* Which thing the path was to be. */
enum files_use {
	FILES_READ,
	FILES_WRITE,
	FILES_FOLDER,
	FILES_DOWNLOAD,
	FILES_REMOVE,
	FILES_MOVE,
};

/* What the words are about. */
struct files_matter {
	const struct session *s;
	enum files_use use;
	struct str path;
	uint64_t used_bytes; /* of slug "quota" */
};

/* Turns what the runtime said (a slug, no words) about a path into slug and text for the caller;
 * what is no matter of the path becomes "busy", "no_capacity" or "internal". */
void files_say(struct err *ret, const struct core *c, const struct err *err,
	       const struct files_matter *m);
