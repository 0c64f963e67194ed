// SPDX-License-Identifier: Apache-2.0
/*
 * core: the domain of one server, without HTTP or JSON. It ties tenants, keys, sessions, the store
 * and the runtime together; one exists per airlockd. All calls on the loop thread; callbacks come
 * on the loop thread, never before the call that started them has returned.
 *
 * Errors carry the machine word of the contract in err->slug and its exact text in err->text, so
 * that REST, MCP and console answer alike.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/metrics.h"
#include "base/str.h"
#include "core/runtime.h"
#include "core/tenant.h"
#include "egress/list.h"

struct core;
struct repository;
struct store;

struct core_config {
	int64_t session_ttl_ms;
	uint64_t quota_bytes;		   /* workspace quota */
	uint32_t volume_overcommit;	   /* how many times its size the volume is promised */
	uint32_t max_sessions;		   /* all tenants */
	size_t output_max;		   /* per stream */
	uint64_t write_max;		   /* /write and /read, bytes */
	uint64_t upload_max, download_max; /* bytes; of a file, and of an archive */
	uint64_t memory_bytes;		   /* limit of a sandbox; 0: not told */
	const char *const *templates;	   /* allowed template names; borrowed */
	size_t n_templates;
	const char *imported;	   /* comma list of imported images; NULL: none; borrowed */
	const char *runtime_name;  /* "native" */
	const char *tmp_dir;	   /* for archives on their way (O_TMPFILE); borrowed */
	const char *import_base;   /* SANDBOX_GITHUB_BASE; borrowed */
	const char *import_host;   /* its host; borrowed */
	uint64_t import_max;	   /* bytes of an archive */
	struct store *key_store;   /* where keys are stored; may be the store; NULL: nowhere */
	struct store *audit_store; /* the same of the audit log */
	bool audit_strict;
	/* Status and text that a client is told for an error of the core. */
	unsigned (*error_words)(const struct err *err, const char **ret_text);
	int64_t audit_keep_us;	  /* SANDBOX_AUDIT_RETENTION_DAYS */
	bool ephemeral;		  /* SANDBOX_SESSION_STATE=off */
	int64_t snapshot_keep_us; /* SANDBOX_SNAPSHOT_RETENTION_DAYS; 0: for ever */
	const char *lost_file; /* lists the lost volumes; NULL: they are only counted; borrowed */
	unsigned lost_max;     /* new ones that a start takes; 0: any number */
	bool accept_lost;      /* also all that a database which was emptied does not know */
};

/* Takes ownership of nothing; store and runtime outlive the core. Reads the stored sessions, which
 * stay unseen until core_start. */
int core_open(uv_loop_t *loop, const struct core_config *config, struct store *store,
	      struct runtime *runtime, struct core **ret, struct err *err);
/* Ends the sweep timer; ends all sessions first when ephemeral. */
void core_close(struct core *c, void (*closed)(void *data), void *data);

const struct core_config *core_config_get(const struct core *c);
struct runtime *core_runtime(const struct core *c);

/* At start, before any request: once for each volume that exists, then core_start, which compares
 * them with the stored sessions. A session without its volume is dropped, an expired one deleted, a
 * volume of the store's journal deleted. Any other volume is lost: counted, and deleted when a
 * server has run for 7 days with it. EUCLEAN: more than lost_max are new, or the database was
 * emptied and there are some; nothing was done. */
void core_found_volume(struct core *c, const char *volume, uint32_t tenant);
int core_start(struct core *c, struct err *err);
/* Volumes that no session and no journal explains. */
unsigned core_lost_volumes(const struct core *c);

/* Whether another workspace fits. FULL: too little is free; PROMISED: the hard limits of all
 * together would be too much. */
enum core_room { CORE_ROOM_OPEN, CORE_ROOM_FULL, CORE_ROOM_PROMISED };
enum core_room core_room(const struct core *c);

/* From now on nothing new begins ("stopping"); what is under way goes on. */
void core_stop(struct core *c);
bool core_is_stopping(const struct core *c);
/* What is under way, whether a client waits for it or not. */
struct core_work {
	unsigned commands, imports;
	unsigned transfers; /* uploads, downloads, archives */
	bool any;	    /* these, or anything else that is not finished */
};
void core_work_get(const struct core *c, struct core_work *ret);
/* After core_stop: commands are killed, which is on record as a failure, imports and calls in line
 * fail. Their ends follow. */
void core_end_work(struct core *c);

/* The request on whose behalf the next calls are made, copied; "": none. Lines of the log about
 * what comes of them name it, however much later that is. */
void core_on_behalf(struct core *c, const char *request);

/* ---- Tenants (tenant.c) and the keys of the configuration (key.c; others: key.h) ---- */

/* Adds a static key; the tenant is made when new. */
int core_add_key(struct core *c, struct str tenant, struct str key, struct err *err);
/* Limits of "*" (tenant.data == NULL) or of one tenant. */
void core_set_limits(struct core *c, struct str tenant, const struct tenant_limits *limits);
/* Forgets all of them; a whole new set follows. What runs goes on, beyond a limit that fell. */
void core_clear_limits(struct core *c);
/* NULL: there is none of that name. */
struct tenant *tenant_find(struct core *c, struct str name);
/* What one tenant may be allowed to reach; tenant NULL: everybody without an entry. */
struct core_egress {
	const char *tenant;
	const struct egress_list *rules;
};

/* The whole egress policy, copied, in the place of the one before. Sessions that are open keep what
 * they have. */
void core_set_egress(struct core *c, const struct core_egress *entries, size_t n);
/* The tenant's entry, else that of everybody, else an empty list; until the next core_set_egress. */
const struct egress_list *core_egress(const struct core *c, const struct tenant *t);

/* ---- Sessions (session.c) ---- */

#define SESSION_ID_LEN 16 /* "sbx_" + 12 lower-case hex */

/* What is known about the use of a workspace's quota; see disk.h. */
struct disk {
	uint64_t known;	  /* bytes, when last measured */
	uint64_t pending; /* what may have been written since, at most */
	int64_t at_us;	  /* monotonic, of the last such writing */
	uint64_t shared;  /* of it, at most so much is shared with other volumes */
	uint64_t held;	  /* what snapshots of it have, which it may stay charged for */
	uint64_t forked;  /* the same of forks, at most */
	bool stale;	  /* the hard limit is higher than it need be */
	bool crowded;	  /* nearly as many files as it may have, when last walked */
};

enum session_state { SESSION_CREATING, SESSION_READY, SESSION_ENDING };

struct session {
	char id[SESSION_ID_LEN + 1];
	enum session_state state;
	struct tenant *tenant;
	char *template_name; /* as asked; owned */
	const char *image;   /* canonical name of the image; borrowed from the configuration */
	struct egress_list egress;  /* expanded; owned; empty: nothing is reachable */
	struct runtime_egress *net; /* READY with egress: what the runtime knows it by */
	bool persistent;
	uint64_t quota_bytes;
	int64_t created_us;  /* wall clock */
	int64_t accessed_us; /* wall clock */
	uint32_t running;    /* commands in flight: a running command keeps a session alive */
	struct session *prev, *next; /* all sessions, newest first */

	/* core/ only */
	int64_t idle_since_us; /* monotonic clock: the idle clock itself, whatever the wall clock
				  does */
	uint32_t refs;	       /* the list, and every call in flight */
	bool touched;	       /* accessed_us is newer than the store's */
	bool retry;	       /* ENDING, and its volume could not be deleted yet */
	bool has_volume;       /* at start: its volume was found */
	bool transferring;     /* it has one of its tenant's places for transfers */
	struct disk disk;
	struct session *hash_next;
};

struct session_params {
	struct str template_name;
	const struct str *egress;
	size_t n_egress;
	bool persistent;
	struct str snapshot_id; /* data == NULL: none */
};

typedef void (*session_fn)(void *data, struct session *s, const struct err *err);

/* Slugs: template_not_permitted, egress_not_permitted, snapshot_not_found, snapshot_too_large,
 * persistent_unavailable, session_limit, no_capacity, busy, stopping, internal. A refused create
 * leaves nothing. */
void session_create(struct core *c, struct tenant *t, const struct session_params *p, session_fn fn,
		    void *data);
/* The whole sentence about a template or an egress that is refused (slug), which may be longer than
 * struct err holds. Leaves out as it is where another word was the reason. */
void session_refusal(const struct core *c, const struct tenant *t, const struct session_params *p,
		     const char *slug, struct buf *out);
/* The tunnels that a READY session with egress has open now. */
void session_egress_live(struct core *c, struct session *s, runtime_live_fn fn, void *data);
/* Exact id; NULL when there is none that is READY. Does not look at the tenant. */
struct session *session_find(struct core *c, struct str id);
/* Restarts the idle clock. */
void session_touch(struct core *c, struct session *s);
int64_t session_expires_us(const struct core *c, const struct session *s);
/* Newest first; prev == NULL starts. Only READY sessions of the tenant. */
struct session *session_next(struct core *c, const struct tenant *t, const struct session *prev);
/* From now on session_find no longer sees it; fn when no process is left and the slot is free. */
void session_delete(struct core *c, struct session *s, session_fn fn, void *data);
/* READY sessions of all tenants. */
uint32_t session_count(const struct core *c);
/* Usage of the workspace as the back end counts it. */
void session_disk_used(struct core *c, struct session *s, runtime_stat_fn fn, void *data);

/* ---- Commands (exec.c) ---- */

struct exec_params {
	struct str command;
	struct str cwd; /* data == NULL: /workspace */
	const struct str *env_names, *env_values;
	size_t n_env;
	struct str stdin_data; /* data == NULL: /dev/null */
	uint32_t timeout_s;
	const char *actor; /* for the audit log; copied */
};

#define EXEC_WARNINGS_MAX 3

struct exec_result {
	struct runtime_exec_result *run; /* streams may be taken with take_ptr */
	uint32_t timeout_s;
	bool egress;			       /* the session has some: run->denied counts */
	char warnings[EXEC_WARNINGS_MAX][200]; /* in the order of the contract */
	size_t n_warnings;
};

struct exec_ops {
	void (*started)(void *data);						  /* may be NULL */
	void (*output)(void *data, enum runtime_stream stream, struct str bytes); /* may be NULL */
	void (*done)(void *data, struct exec_result *result, const struct err *err);
};

struct exec;

/* Takes the tenant's command slot, or fails at once with "exec_limit". On success done is called
 * exactly once; the slot is given back before it. */
int exec_start(struct core *c, struct session *s, const struct exec_params *p,
	       const struct exec_ops *ops, void *data, struct exec **ret, struct err *err);
/* No callback follows; the command runs on and is accounted. */
void exec_detach(struct exec *e);
/* Ends the command now; done follows. */
void exec_kill(struct exec *e);

enum exec_outcome {
	EXEC_OUTCOME_OK,     /* it ran to its end, whatever its exit code */
	EXEC_OUTCOME_FAILED, /* it did not run, or was ended by us */
	EXEC_OUTCOME_TIMEOUT,
	EXEC_OUTCOME_OOM,
	EXEC_OUTCOMES,
};

/* Of the commands that exec_start took, since the start. */
struct exec_counts {
	uint64_t outcomes[EXEC_OUTCOMES];
	struct metrics_histogram seconds;  /* that commands ran, those that ran */
	struct metrics_histogram overhead; /* all else from exec_start to done, waiting included */
};

const struct exec_counts *exec_counts_get(const struct core *c);

/* ---- Files (files.c) ---- */

typedef void (*files_read_fn)(void *data, bool missing, struct str bytes, const struct err *err);
typedef void (*files_write_fn)(void *data, const struct err *err);

struct files_call;

/* Checks of the path's form are the caller's (422); the rest comes as err with slug and text. At
 * most 8 calls of a tenant run at once, and 8 transfers of different sessions; others wait in
 * order, 60 s at most ("busy"). */
struct files_call *files_read(struct core *c, struct session *s, struct str path, files_read_fn fn,
			      void *data);
/* bytes are borrowed until fn. */
struct files_call *files_write(struct core *c, struct session *s, struct str path, struct str bytes,
			       files_write_fn fn, void *data);

/* ---- Bytes (bytes.c) and the tree (tree.c) ----
 *
 * The same lines, the same words. Nothing of a transfer is kept but what is on its way. */

struct files_upload_ops {
	/* files_give may be called: first when the worker has the job, then after each false. */
	void (*wanted)(void *data);
	/* Once; until then the old file is there, and for ever when it failed. */
	void (*done)(void *data, uint64_t size, const struct err *err);
};

/* size: of the body, or RUNTIME_SIZE_UNKNOWN; the caller has checked it against upload_max. */
struct files_call *files_upload(struct core *c, struct session *s, struct str path, uint64_t size,
				const struct files_upload_ops *ops, void *data);
/* Takes all of it, at most RUNTIME_GIVE_MAX. False: no more until wanted. */
bool files_give(struct files_call *call, struct str bytes);
void files_give_end(struct files_call *call);

struct files_download_ops {
	/* Before the first byte; size of the file, of an archive 0. */
	void (*begun)(void *data, uint64_t size);
	/* False: no more until files_resume, but done when that was the last. */
	bool (*bytes)(void *data, struct str bytes);
	/* Once. After begun an error has no words for the client. */
	void (*done)(void *data, const struct err *err);
};

struct files_call *files_download(struct core *c, struct session *s, struct str path,
				  const struct files_download_ops *ops, void *data);
struct files_call *files_archive(struct core *c, struct session *s, struct str path,
				 const struct files_download_ops *ops, void *data);
void files_resume(struct files_call *call);

typedef void (*files_list_fn)(void *data, const struct runtime_entry *entries, size_t n, bool more,
			      const struct err *err);
/* number: how many were removed, or 1 when a folder was made. */
typedef void (*files_change_fn)(void *data, uint64_t number, const struct err *err);

struct files_call *files_list(struct core *c, struct session *s, struct str path, struct str after,
			      uint32_t depth, files_list_fn fn, void *data);
struct files_call *files_remove(struct core *c, struct session *s, struct str path, bool recursive,
				files_change_fn fn, void *data);
struct files_call *files_move(struct core *c, struct session *s, struct str from, struct str to,
			      bool replace, files_change_fn fn, void *data);
struct files_call *files_mkdir(struct core *c, struct session *s, struct str path,
			       files_change_fn fn, void *data);

/* No callback follows; the bytes given to files_write are copied or no longer used. An upload that
 * was not ended leaves the old file. */
void files_detach(struct files_call *call);

/* ---- Imports (import.c) ---- */

struct import_params {
	struct str repo, ref, path; /* as given; ref, path: data == NULL is none */
	const char *actor;	    /* for the audit log; copied */
};

struct import_result {
	const struct repository *repository; /* what it was taken for */
	uint64_t files, archive_bytes;
};

/* result: valid during the call. Slugs: those of exec_limit and files, and repo_not_found,
 * destination_exists, import_too_large, import_no_space, unpack_failed, github_failed. */
typedef void (*import_fn)(void *data, const struct import_result *result, const struct err *err);

struct import;

/* Fails at once with "bad_repo", "bad_ref", "bad_destination", "stopping". On success fn is called
 * exactly once. */
int import_start(struct core *c, struct session *s, const struct import_params *p, import_fn fn,
		 void *data, struct import **ret, struct err *err);
/* No callback follows. What is not unpacking yet ends; what is goes on, and is accounted. */
void import_detach(struct import *im);

/* ---- Usage (usage.c) ---- */

struct usage_month {
	char period[8]; /* "YYYY-MM", UTC */
	uint64_t sessions;
	uint64_t commands;
	uint64_t command_ms;
};

void usage_get(struct core *c, const struct tenant *t, struct usage_month *ret);
