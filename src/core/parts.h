// SPDX-License-Identifier: Apache-2.0
/*
 * parts: what the files of core/ share and nobody else sees: the core itself, tenants, the table of
 * sessions, the queue of answers.
 *
 * Invariants
 *  1. A session is in the list and the hash while CREATING, READY or ENDING; session_find sees
 * READY.
 *  2. It is freed when its last reference goes: the list holds one, each call in flight one.
 *  3. tenant->sessions_open counts the sessions that hold a slot: from the accepted create to the
 * end of the delete.
 *  4. A volume is only ever made under a name that the store's journal or a row holds, so
 *     after a crash no volume is unexplained.
 */
#pragma once

#include <uv.h>

#include "core/core.h"
#include "core/key.h"
#include "core/room.h"

#define JOURNAL_BATCH 32u
#define COPY_NAMES 8u

/* For the log, in everything that may fail after its call has returned. */
struct origin {
	char request[24]; /* "": nobody's */
};

struct static_key {
	struct tenant *tenant;
	char *text; /* owned */
	size_t len;
	struct static_key *next;
};

struct limits_entry {
	char *tenant; /* owned */
	struct tenant_limits limits;
	struct limits_entry *next;
};

struct egress_entry {
	char *tenant; /* owned; NULL: "*" */
	struct egress_list rules;
};

/* An answer that must not come before its call has returned. */
struct later {
	void (*fn)(struct later *l);
	struct later *next;
};

/* Somebody who waits for the name of a copy. */
struct copy_wait {
	/* name: valid during the call; NULL with an error. */
	void (*fn)(struct copy_wait *w, const char *name, const struct err *err);
	struct copy_wait *next;
};

struct found_volume {
	char id[SESSION_ID_LEN + 1];
	uint32_t tenant;
	struct found_volume *next;
};

/* later: answers that must not come before their call returned. sweep: every min(60 s, TTL). flush:
 * access times, once a minute. usage: a second after something was counted. tick: every second
 * while something with a deadline waits. again: deletes that failed. leftovers: the same of volumes
 * that nobody waits for. audit: records that are too old, every hour. room: creates wait for space
 * that is about to come back. */
enum core_timer {
	TIMER_LATER,
	TIMER_SWEEP,
	TIMER_FLUSH,
	TIMER_USAGE,
	TIMER_TICK,
	TIMER_AGAIN,
	TIMER_LEFTOVERS,
	TIMER_AUDIT,
	TIMER_ROOM,
	CORE_TIMERS
};

struct snapshot;

struct core {
	uv_loop_t *loop; /* borrowed */
	struct core_config config;
	struct store *store;	 /* borrowed, outlives the core */
	struct runtime *runtime; /* borrowed, outlives the core */
	bool stopping;
	struct origin origin; /* of the calls that are made now */

	struct tenant *tenants;		/* owned */
	struct static_key *static_keys; /* owned */
	struct keys *keys;		/* owned; the stored ones */
	struct limits_entry *limits;	/* owned */
	struct tenant_limits limits_all;
	struct egress_entry *egress; /* owned */
	size_t n_egress;

	struct session *newest, *oldest;
	struct session **hash; /* owned; hash_size is a power of two */
	size_t hash_size, n_sessions;
	uint32_t n_ready;

	/* Ids whose place in the journal is committed, for creates to come. */
	char ids[JOURNAL_BATCH * 4][SESSION_ID_LEN + 1];
	size_t n_ids;
	bool ids_asked;
	struct create *creates_first, *creates_last; /* wait for an id */
	struct create *creates_open;
	struct ending *endings_again; /* wait for another try */
	struct room room;

	/* The same for names of copies. */
	char copy_names[2 * COPY_NAMES][SESSION_ID_LEN + 1];
	size_t n_copy_names;
	bool copy_names_asked;
	struct copy_wait *copy_waits_first, *copy_waits_last;

	struct snapshot *dying; /* owned; deleted ones whose volume is not gone yet */

	struct found_volume *found;   /* owned; between core_open and core_start */
	struct found_volume *journal; /* owned; leftovers, until they are cleared */
	bool clearing;		      /* the first of them is being deleted */
	unsigned leftover_tries;
	struct gone_volume *gone, *gone_last; /* owned; their names are still in the journal */
	struct lost_volume *lost;	      /* owned */
	unsigned n_lost;
	int64_t probed_us;   /* when a store that fails was tried last */
	int64_t lost_at_us;  /* until then their time is counted */
	uint64_t audit_last; /* id of the last record */

	struct exec *execs;	/* in flight */
	struct exec *measuring; /* of those that ran: their disk is looked at */
	struct exec_counts exec_counts;
	struct import *imports_first, *imports_last; /* in flight, in order */
	unsigned imports_placed;		     /* of them, those that may have an archive */
	unsigned imports_waiting;
	unsigned n_waiting; /* file calls */

	struct later *later_first, *later_last;
	uv_timer_t timers[CORE_TIMERS];
	unsigned in_flight; /* calls of ours into runtime and store, and answers to come */
	unsigned open_timers;
	void (*closed)(void *data); /* not NULL: closing */
	void *closed_data;
};

/* Each hold keeps a closing core alive until its release. */
void core_hold(struct core *c);
void core_release(struct core *c);
void core_later(struct core *c, struct later *l);
/* Something with a deadline is waiting: the tick runs while there is. */
void core_wait(struct core *c);

/* ---- tenant.c, key.c ---- */
int tenant_make(struct core *c, struct str name, struct tenant **ret, struct err *err);
void tenants_free(struct core *c);
/* Of a new one, or the one that there is. */
struct tenant *tenant_add(struct core *c, struct str name, uint32_t number);
int keys_load(struct core *c, struct err *err);
void keys_free(struct core *c);

/* ---- audit.c ---- */
int audit_load(struct core *c, struct err *err);
void audit_start_pruning(struct core *c);

/* ---- egress.c ---- */
/* The rules that a request asks for. */
void egress_expand(const struct session_params *p, struct egress_list *ret);
/* The whole sentence about those that the tenant's policy does not cover. */
void egress_put_refusal(const struct core *c, const struct tenant *t,
			const struct session_params *p, struct buf *out);
/* Refuses what the policy does not cover. */
int egress_check(const struct core *c, const struct tenant *t, const struct session_params *p,
		 struct err *err);
/* A READY session becomes known to the runtime, and is forgotten by it. */
void egress_open(struct core *c, struct session *s);
void egress_close(struct core *c, struct session *s);
void egress_free(struct core *c);

/* ---- session.c ---- */
struct session *session_find_any(struct core *c, struct str id);
void session_insert(struct core *c, struct session *s);
/* Gives it its id; after session_insert. */
void session_name(struct core *c, struct session *s, const char *id);
void session_remove(struct core *c, struct session *s);
void session_ref(struct session *s);
void session_unref(struct session *s);
/* Deletes what has been idle for its TTL at this time of the monotonic clock. */
void core_sweep(struct core *c, int64_t now_us);
/* Writes the access times that changed. */
void core_flush(struct core *c);

/* ---- create.c ---- */
/* The canonical name of the image behind a template. */
const char *session_image(const struct core *c, const char *template_name);
void ids_pump(struct core *c);
void creates_expire(struct core *c, int64_t now_us);

/* ---- ending.c ---- */
/* Of a session that is ENDING already. */
void session_end(struct core *c, struct session *s, session_fn fn, void *data);
void endings_hurry(struct core *c);

/* ---- start.c ---- */
int sessions_load(struct core *c, struct err *err);
void found_free(struct core *c);

/* ---- lost.c ---- */
void lost_add(struct core *c, const char *id);
/* When all are known. An error: too many of them are new. */
int lost_settle(struct core *c, struct err *err);
/* By every sweep. */
void lost_tick(struct core *c, int64_t now_us);
void lost_free(struct core *c);

/* ---- leftover.c ---- */
/* Deletes a volume whose name only the journal has, a little later; then the journal lets go. */
void leftover_add(struct core *c, const char *volume);
/* It is deleted: the journal lets go of it when that is on the disk for certain. */
void leftover_gone(struct core *c, const char *volume);
/* By every sweep. */
void leftovers_forget(struct core *c, int64_t now_us);
void leftovers_free(struct core *c);
/* Begins with what there is; nothing more happens when it is under way already. */
void leftovers_clear(struct core *c);
/* Again soon, unless it failed often. */
void leftovers_later(struct core *c);

/* ---- copy-name.c ---- */
/* May call w->fn before it returns. */
void copy_name_get(struct core *c, struct copy_wait *w);
void copy_names_pump(struct core *c);

/* ---- snapshot.c ---- */
int snapshots_load(struct core *c, struct err *err);
/* At start: whether a snapshot's row explains this volume. */
bool snapshots_explain(struct core *c, const char *volume, uint32_t tenant);
/* After all volumes were found: rows without one go. */
void snapshots_start(struct core *c);
/* Deletes what is over its time, of one tenant or of all; then also tries again what failed, which
 * snapshots_bury does alone. */
void snapshots_expire(struct core *c, struct tenant *t);
void snapshots_sweep(struct core *c);
void snapshots_bury(struct core *c);
void snapshots_free(struct core *c);
void snapshot_free(struct snapshot *snap);
void snapshot_insert(struct snapshot *snap);
bool snapshot_volume_is_known(const struct core *c, const char *volume);
void snapshot_ref(struct snapshot *snap);
/* The last one of a deleted snapshot deletes its volume. */
void snapshot_unref(struct core *c, struct snapshot *snap);

/* ---- exec.c ---- */
void exec_counts_init(struct core *c);
/* The server stops: all end now. */
void execs_kill(struct core *c);
/* Answers those whose disk is looked at for too long at this time of the monotonic clock. */
void execs_expire(struct core *c, int64_t now_us);
unsigned execs_count(const struct core *c);
/* "exec_limit" when the tenant's command slots are taken. */
int exec_check_slot(const struct tenant *t, struct err *err);

/* ---- import.c ---- */
/* Those of one session, or all: what is not unpacking yet ends. */
void imports_end(struct core *c, const struct session *s);
unsigned imports_count(const struct core *c);
/* Ends waits that are too old at this time of the monotonic clock. */
void imports_expire(struct core *c, int64_t now_us);

/* ---- files.c ---- */
/* Ends waits that are too old at this time of the monotonic clock. */
void files_expire(struct core *c, int64_t now_us);

/* ---- usage.c ---- */
int usage_load(struct core *c, struct err *err);
void usage_add(struct core *c, struct tenant *t, uint64_t sessions, uint64_t commands, int64_t ms);
void usage_flush(struct core *c);
void usage_free(struct tenant *t);
