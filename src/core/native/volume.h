// SPDX-License-Identifier: Apache-2.0
/*
 * volume: what airlockd knows about each workspace and snapshot: whose it is, which sandboxes have
 * it attached, which posture served it last. The bytes are the launcher's.
 *
 *   PRESENT -> DELETING -> (gone)
 *
 * Deleting ends the commands and file jobs, waits until no sandbox has it attached (after a
 * restart: until every sandbox that the earlier airlockd had used is gone), then asks the launcher;
 * new commands and jobs are refused from the first moment on.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "core/native/sandbox.h"
#include "core/runtime.h"

struct box;

struct volume;

/* No sandbox has it attached, but it may be on its way out. */
typedef void (*volume_quiet_fn)(struct runtime *rt, struct volume *v, void *data);

enum volume_state { VOLUME_PRESENT, VOLUME_DELETING, VOLUME_ASKED };

struct volume {
	char name[MSG_VOLUME_NAME];
	uint32_t tenant;
	uint32_t posture; /* of the sandbox that last served it; 0: none yet */
	enum volume_state state;
	struct sandbox_list sandboxes; /* attached, not known to be gone */
	struct sandbox_list readers;   /* the same, that have it as their source */
	struct box *box;	       /* its file sandbox and jobs; NULL: none */
	struct box *slow_box;	       /* the same for jobs that go at a client's pace */
	runtime_volume_fn fn;	       /* of the delete */
	void *data;
	volume_quiet_fn quiet; /* NULL: nobody waits */
	void *quiet_data;
	struct volume *next; /* in its bucket */
};

struct volume_table {
	struct volume **buckets; /* owned */
	size_t n_buckets;	 /* a power of two, or 0 */
	size_t n;
};

/* Returns the known one when there is one. NULL: not a name. */
struct volume *volume_add(struct runtime *rt, const char *name, uint32_t tenant);
/* NULL when unknown or being deleted. */
struct volume *volume_find(struct runtime *rt, const char *name);
/* Calls fn when no sandbox has it attached as its workspace, at once when that is so; one at a
 * time. */
void volume_when_quiet(struct runtime *rt, struct volume *v, volume_quiet_fn fn, void *data);
/* Turns what the launcher answered (LD_DONE; NULL: it is gone) into an error; true when there is
 * one. */
bool volume_failed(const struct wire_msg *msg, struct err *err);
/* The back end has no copy-on-write: what was to be a copy has to be made empty and filled. */
bool volume_cannot_clone(const struct wire_msg *msg);
/* A sandbox that had it attached is gone. */
void volume_sandbox_gone(struct runtime *rt, struct volume *v);
/* The last sandbox that an earlier airlockd used is gone. */
void volume_strays_gone(struct runtime *rt);
void volume_table_fini(struct volume_table *t);
