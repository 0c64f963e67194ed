// SPDX-License-Identifier: Apache-2.0
/*
 * snapshot: stored copies of a folder (the contract, section 9), and what is done with them.
 *
 *   (making) -> stored -> deleted -> (gone)
 *
 * While one is being made only its volume exists, under a name of the store's journal. Its row and
 * the journal's entry change places in one commit, when it is whole and sealed; from then on it is
 * there, whatever happens. Deleting is the same commit the other way round: then nobody sees it any
 * more, and its volume goes when nobody uses it any more. One that is over its time is invisible at
 * once and deleted by the next sweep.
 *
 * Making, restoring and forking go on record (audit.h) under the actor, who is copied.
 *
 * All on the loop thread; callbacks never before the call that started them has returned. Errors
 * have slug and text of the contract.
 */
#pragma once

#include "core/core.h"

#define SNAPSHOT_ID_LEN 21 /* "snap_" + 16 lower-case hex */
#define FORK_MAX 16u
/* What making and restoring may wait, all in all: of the 200 s of the contract (section 0.6) the
 * worker needs up to 140. */
#define SNAPSHOT_WAIT_MS 60000

struct snapshot {
	char id[SNAPSHOT_ID_LEN + 1];
	char volume[SESSION_ID_LEN + 1]; /* "snp_" + the first 12 digits of the id */
	char session_id[SESSION_ID_LEN + 1];
	struct tenant *tenant;
	char *name, *path, *template_name; /* owned */
	uint64_t size_bytes;
	int64_t created_us, expires_us; /* wall clock; expires_us 0: never */

	/* core/ only */
	uint32_t refs;		      /* the list, and every call that reads from it */
	bool deleted;		      /* its volume goes with the last reference */
	bool asked;		      /* its volume is being deleted */
	bool has_volume;	      /* at start: its volume was found */
	struct snapshot *prev, *next; /* the tenant's, newest first; dying ones */
};

/* snapshot is valid during the call. */
typedef void (*snapshot_fn)(void *data, const struct snapshot *snapshot, const struct err *err);

/* 429 "snapshot_limit": step 9 of the ladder. */
int snapshot_check_limit(struct core *c, struct tenant *t, struct err *err);
/* name.data == NULL: none. Slugs: snapshot_limit, snapshot_storage, snapshot_space, those of a
 * folder, session_not_found, busy, stopping, internal. */
void snapshot_create(struct core *c, struct session *s, struct str name, struct str path,
		     const char *actor, snapshot_fn fn, void *data);
/* NULL: none that this tenant can see. */
struct snapshot *snapshot_find(struct core *c, const struct tenant *t, struct str id);
/* Newest first; prev == NULL starts. */
struct snapshot *snapshot_next(struct core *c, const struct tenant *t, const struct snapshot *prev);
/* From now on snapshot_find does not see it, unless the store fails ("busy"). */
void snapshot_delete(struct core *c, struct snapshot *snapshot, snapshot_fn fn, void *data);

/* Slugs: snapshot_not_found, restore_conflict, snapshot_too_large, those of a folder, busy and so
 * on. */
void snapshot_restore(struct core *c, struct session *s, struct str id, struct str path,
		      const char *actor, snapshot_fn fn, void *data);

/* sessions is valid during the call; NULL with an error. */
typedef void (*fork_fn)(void *data, struct session *const *sessions, size_t n,
			const struct err *err);

/* count (1 to FORK_MAX) new sessions with the files of this one as they are at one instant: all of
 * them or none. Slugs: session_limit, no_capacity, session_not_found, busy, stopping, internal. */
void session_fork(struct core *c, struct session *s, unsigned count, const char *actor, fork_fn fn,
		  void *data);
