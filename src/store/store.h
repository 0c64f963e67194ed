// SPDX-License-Identifier: Apache-2.0
/*
 * store: what must survive a restart, in the words of the domain. store/sqlite implements it; all
 * writes run on a thread of its own in the order they were asked for, several in one commit when
 * they wait (WAL, synchronous=FULL), and their callbacks come on the loop thread after the commit.
 *
 * Beside sessions and snapshots it keeps a journal of ids: names of volumes that belong to neither,
 * because theirs is being made or being deleted. A volume found at start is a session's, a
 * snapshot's, or the journal's (it may be deleted: nobody was told of it, or its owner gave it up),
 * or unknown (it is kept).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"

struct store;

typedef void (*store_fn)(void *data, const struct err *err);
typedef void (*store_number_fn)(void *data, uint32_t number, const struct err *err);

/* path: the database file, made 0600 when missing. A damaged file, a newer schema or a file that
 * another process has open is refused with a sentence; it is never emptied. */
int store_open(uv_loop_t *loop, const char *path, struct store **ret, struct err *err);
/* Finishes all writes, then calls closed. */
void store_close(struct store *s, void (*closed)(void *data), void *data);
/* Whether the file was there and had nothing in it, not even a schema: somebody or something has
 * emptied it. So it stays, whoever opens it, until it is accepted (at start only). */
bool store_was_emptied(const struct store *s);
int store_accept_emptied(struct store *s, struct err *err);

/* ---- Read once, at start, on the calling thread ---- */

struct store_session {
	const char *id;
	const char *tenant;
	const char *template_name;
	const char *egress; /* rules separated by blanks */
	int persistent;
	uint64_t quota_bytes;
	/* Of what it holds, at most so much is shared with other volumes; of what its forks were
	 * given, at most so much is still charged to it. */
	uint64_t shared_bytes, forked_bytes;
	int64_t created_us, accessed_us;
};

struct store_snapshot {
	const char *id;
	const char *tenant;
	const char *name, *path;
	const char *session;	   /* where it was taken */
	const char *template_name; /* of that session */
	uint64_t size_bytes;
	int64_t created_us, expires_us; /* expires_us 0: never */
};

/* Oldest first. */
int store_load_sessions(struct store *s, void (*each)(void *data, const struct store_session *row),
			void *data, struct err *err);
/* Oldest first. */
int store_load_snapshots(struct store *s,
			 void (*each)(void *data, const struct store_snapshot *row), void *data,
			 struct err *err);
int store_load_journal(struct store *s, void (*each)(void *data, const char *id), void *data,
		       struct err *err);
/* Number of a tenant, made when new (a write on the calling thread; at start only). */
int store_tenant_number(struct store *s, const char *tenant, uint32_t *ret, struct err *err);

struct store_key {
	const char *key_id;
	const char *tenant, *name;
	const char *hash;		/* SHA-256 of the whole key, 64 lower-case hex digits */
	int64_t created_us, revoked_us; /* revoked_us 0: active */
};

/* Oldest first, revoked ones too. */
int store_load_keys(struct store *s, void (*each)(void *data, const struct store_key *row),
		    void *data, struct err *err);

/* ---- Writes; strings are copied; fn may be NULL ---- */

/* Takes the id out of the journal in the same commit. */
void store_put_session(struct store *s, const struct store_session *row, store_fn fn, void *data);
/* All of them in one commit, or none. n > 0. */
void store_put_sessions(struct store *s, const struct store_session *rows, size_t n, store_fn fn,
			void *data);
/* Puts the id into the journal in the same commit. */
void store_drop_session(struct store *s, const char *id, store_fn fn, void *data);
/* Access times of many sessions are written together once a minute by the core. */
void store_touch_session(struct store *s, const char *id, int64_t accessed_us);

void store_share_session(struct store *s, const char *id, uint64_t shared_bytes,
			 uint64_t forked_bytes);

/* Takes the volume out of the journal in the same commit. */
void store_put_snapshot(struct store *s, const struct store_snapshot *row, const char *volume,
			store_fn fn, void *data);
/* Puts the volume into the journal in the same commit. */
void store_drop_snapshot(struct store *s, const char *id, const char *volume, store_fn fn,
			 void *data);

/* Several ids, one after the other, each with its NUL. */
void store_add_journal(struct store *s, const char *ids, size_t n_ids, store_fn fn, void *data);
void store_clear_journal(struct store *s, const char *ids, size_t n_ids);

/* Number of a tenant, made when new. */
void store_add_tenant(struct store *s, const char *tenant, store_number_fn fn, void *data);

void store_put_key(struct store *s, const struct store_key *row, store_fn fn, void *data);
void store_revoke_key(struct store *s, const char *key_id, int64_t revoked_us, store_fn fn,
		      void *data);
void store_drop_key(struct store *s, const char *key_id);

struct store_usage {
	const char *tenant;
	const char *period; /* YYYY-MM */
	uint64_t sessions, commands, command_ms;
};

/* Adds to what is there. */
void store_add_usage(struct store *s, const struct store_usage *delta, store_fn fn, void *data);
/* Of all months. */
int store_load_usage(struct store *s, void (*each)(void *data, const struct store_usage *row),
		     void *data, struct err *err);
/* ---- Audit ----
 *
 * A record is put twice: as it begins, open, and as it ended. Open ones are never shown; those that
 * are left when a database is opened belong to what was running when its server was killed. */

struct store_audit {
	uint64_t id; /* chosen by the caller, rising */
	int64_t at_us;
	const char *tenant, *session, *actor, *kind, *command;
	const char *detail; /* NULL: none */
	bool open, truncated, timed_out, oom_killed;
	bool failed;	     /* there is no exit code */
	int exit_code;	     /* of one that has not failed */
	int64_t duration_ms; /* -1: not known */
};

/* Id of the last record (0: none), and the open ones become failed ones that ended at at_us, with
 * that detail; at start. */
int store_audit_recover(struct store *s, int64_t at_us, const char *detail, uint64_t *ret_last,
			struct err *err);
/* In the place of the one with its id. */
void store_put_audit(struct store *s, const struct store_audit *row, store_fn fn, void *data);

/* As if it had never been put. */
void store_drop_audit(struct store *s, uint64_t id);

struct store_audit_page {
	struct store_audit *rows; /* newest first */
	size_t n;
	bool more; /* there are older ones */
};

/* page: valid during the call; NULL with an error. */
typedef void (*store_audit_page_fn)(void *data, const struct store_audit_page *page,
				    const struct err *err);

/* What one asks for: records of a tenant that ended at from_us or later, older than a place among
 * them (before_us INT64_MAX: from the newest on). */
struct store_audit_query {
	const char *tenant;
	int64_t from_us;
	int64_t before_us; /* of the last record that one has, and the lower half of its id */
	uint32_t before_id;
	size_t limit; /* 1..1000 */
};

/* Behind all writes that were asked for before. */
void store_page_audit(struct store *s, const struct store_audit_query *query,
		      store_audit_page_fn fn, void *data);
/* Forgets some of what ended before that time, the oldest first; fn with how many. */
void store_prune_audit(struct store *s, int64_t before_us, store_number_fn fn, void *data);

/* Failed writes since start, for healthz and metrics. */
uint64_t store_errors(const struct store *s);
/* Whether the last write failed. What only reads does not count. */
bool store_is_failing(const struct store *s);
/* Writes something that is not there afterwards, to find out. */
void store_probe(struct store *s);
