// SPDX-License-Identifier: Apache-2.0
/*
 * runtime: what airlockd needs from whatever isolates and runs. core/native/ implements it on the
 * launcher and init; session.c and api/ see only this header.
 *
 * All calls are made on the loop thread; callbacks come on the loop thread, never before the call
 * that started them has returned. A handle is valid until its done callback has run. A client that
 * hangs up does not end a command: whoever started it hears its end all the same.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"
#include "egress/decide.h"

struct runtime;
struct runtime_egress;
struct runtime_exec;
struct runtime_fetch;
struct runtime_file;

/* ---- Egress ---- */

struct runtime_egress_spec {
	const char *session;	  /* id; names the log, copied */
	const char *tenant;	  /* name, for the log, copied */
	const char *const *rules; /* n_rules >= 1, expanded, copied */
	size_t n_rules;
};

/* A session that may reach something, known to the gateway from now on, whichever lives. Whatever
 * happens to the gateway, no callback and no error comes of it: what cannot be decided is refused
 * there. */
struct runtime_egress *runtime_egress_open(struct runtime *rt,
					   const struct runtime_egress_spec *spec);
/* Its tunnels are closed; commands that named it go on without. */
void runtime_egress_close(struct runtime *rt, struct runtime_egress *e);

struct runtime_live {
	uint64_t conn; /* number in the log */
	uint64_t bytes_up, bytes_down;
};

/* live == NULL: the gateway did not say, within a second; n counts only with it. Valid during the
 * call. */
typedef void (*runtime_live_fn)(void *data, const struct runtime_live *live, size_t n);

/* Attempts to reach something that ended with this code, since the start of airlockd or of the
 * gateway that it found there; without some of the last second. */
uint64_t runtime_egress_count(const struct runtime *rt, enum egress_code code);

/* Asks for the tunnels that are open now. */
void runtime_egress_live(struct runtime *rt, struct runtime_egress *e, runtime_live_fn fn,
			 void *data);

/* ---- Commands ---- */

enum runtime_stream { RUNTIME_STDOUT = 0, RUNTIME_STDERR = 1 };

#define RUNTIME_DENIED_MAX 20u

struct runtime_exec_spec {
	const char *volume;	       /* session id */
	uint32_t tenant;	       /* number */
	const char *image;	       /* canonical image name */
	struct runtime_egress *egress; /* NULL: nothing is reachable; may be closed meanwhile */
	struct str command;	       /* copied */
	struct str cwd;		       /* "" or a path beneath /workspace, copied */
	const char *const *env; /* n_env strings "NAME=value", the whole environment, copied */
	size_t n_env;
	struct str stdin_data; /* data == NULL: /dev/null; copied */
	int64_t timeout_ms;
	size_t output_max; /* per stream */
};

/* One captured stream: the first head bytes, then (when dropped > 0) the last tail bytes. Either in
 * memory or, beyond 256 KiB, in an unnamed file. Owned by the result. */
struct runtime_output;

/* The captured bytes without what was dropped. */
uint64_t runtime_output_size(const struct runtime_output *o);
/* How many bytes were dropped between head and tail (0: nothing). */
uint64_t runtime_output_dropped(const struct runtime_output *o);
/* Where the gap lies, counted from the start of the captured bytes. */
uint64_t runtime_output_head(const struct runtime_output *o);
/* Reads up to len captured bytes at offset; returns the number, 0 at the end, negative errno. */
ssize_t runtime_output_read(const struct runtime_output *o, uint64_t offset, void *data,
			    size_t len);

struct runtime_exec_result {
	int exit_code; /* 0..255; 128 + n for signal n; -1 on timeout */
	bool timed_out;
	bool oom_killed;
	bool pids_limit_hit;
	int64_t duration_us;
	int64_t cpu_ms;			   /* -1: unknown */
	int64_t peak_memory_bytes;	   /* -1: unknown */
	struct runtime_output *streams[2]; /* owned by the result; valid during done only, unless
					      taken with take_ptr and freed by runtime_output_free */
	/* Names that the command was refused, each with its NUL, distinct, in the order of the
	 * first refusal, at most RUNTIME_DENIED_MAX; owned by the result; valid during done only,
	 * unless taken with take_ptr and freed. */
	char *denied;
	size_t n_denied;
	uint32_t posture; /* bits of ipc/posture.h of the sandbox that served */
};

void runtime_output_free(struct runtime_output *o);

struct runtime_exec_ops {
	/* The shell runs; the command's clock has started. May be NULL. */
	void (*started)(void *data);
	/* Bytes as they come, before any cut. May be NULL. */
	void (*output)(void *data, enum runtime_stream stream, struct str bytes);
	/* Exactly once. err != NULL: nothing ran (slug "no_capacity", "busy", "internal", and about
	 * cwd "file_not_found", "not_folder", "path_outside", "permission_denied"); else *result. */
	void (*done)(void *data, struct runtime_exec_result *result, const struct err *err);
};

struct runtime_exec *runtime_exec_start(struct runtime *rt, const struct runtime_exec_spec *spec,
					const struct runtime_exec_ops *ops, void *data);
/* Ends the command now; done follows with exit code 137. */
void runtime_exec_kill(struct runtime_exec *exec);

/* ---- Files ---- */

/* What is wrong with an archive. */
enum runtime_archive_fault {
	RUNTIME_ARCHIVE_BROKEN = 1, /* not a tar in gzip, or cut short */
	RUNTIME_ARCHIVE_NAME,	    /* absolute, "..", too long, a file and a folder */
	RUNTIME_ARCHIVE_KIND,	    /* a device or another thing that is no file, folder or link */
	RUNTIME_ARCHIVE_LINK,	    /* a hard link to outside, a name beneath a link */
	RUNTIME_ARCHIVE_LIMIT,	    /* too many entries, or too large when unpacked */
	RUNTIME_ARCHIVE_TIME,	    /* it takes too long */
	RUNTIME_ARCHIVE_MEMORY,	    /* its reader was at the limit of memory, */
	RUNTIME_ARCHIVE_KILLED,	    /* was killed, */
	RUNTIME_ARCHIVE_CRASHED,    /* or crashed */
};

/* err->slug: "file_not_found", "path_outside", "is_folder", "not_regular_file", "not_in_folder",
 * "permission_denied", "file_too_large", "quota", "too_many_files", "exists", "not_empty",
 * "not_folder", "restore_conflict", "changed", "too_deep", "unpack_failed", "busy", "internal";
 * err->text is empty for them: the words are the caller's. For "quota", used_bytes says what the
 * tree would use. Of a usage, size is the number of files and folders. */
struct runtime_file_result {
	uint64_t size;
	uint64_t used_bytes;
	uint32_t mode;
	enum runtime_archive_fault fault; /* of "unpack_failed" */
};

struct runtime_file_spec {
	const char *volume;
	uint32_t tenant;
	const char *image;
	struct str path;  /* copied; at most LIMIT_PATH bytes, no NUL */
	int64_t queue_ms; /* waits no longer to begin ("busy"); 0: 60 s */
};

typedef void (*runtime_read_fn)(void *data, const struct runtime_file_result *result,
				struct str bytes, const struct err *err);
typedef void (*runtime_write_fn)(void *data, const struct runtime_file_result *result,
				 const struct err *err);

/* Reads a whole file of at most max bytes; bytes are valid during the callback. */
struct runtime_file *runtime_file_read(struct runtime *rt, const struct runtime_file_spec *spec,
				       uint64_t max, runtime_read_fn fn, void *data);
/* Writes a whole file. bytes are borrowed until the callback. quota_bytes 0: none. */
struct runtime_file *runtime_file_write(struct runtime *rt, const struct runtime_file_spec *spec,
					struct str bytes, uint64_t quota_bytes, runtime_write_fn fn,
					void *data);
/* Allocated bytes of the whole workspace (result->used_bytes), walked. */
struct runtime_file *runtime_file_usage(struct runtime *rt, const struct runtime_file_spec *spec,
					runtime_write_fn fn, void *data);

/* Whether a path names something, a link too: "file_not_found" when not. "busy" when the workspace
 * is at something that takes longer than this is worth waiting for. */
struct runtime_file *runtime_look(struct runtime *rt, const struct runtime_file_spec *spec,
				  runtime_write_fn fn, void *data);

/* ---- Bytes that go through ----
 *
 * Nothing is kept but what is on its way: less than 512 KiB a job, whatever the size. */

#define RUNTIME_SIZE_UNKNOWN UINT64_MAX
/* Bytes of one runtime_upload_give. */
#define RUNTIME_GIVE_MAX (64u * 1024)

struct runtime_upload_ops {
	/* Bytes may be given: first when the worker has the job, then after each false of
	 * runtime_upload_give. */
	void (*wanted)(void *data);
	/* Once. On success all that was given is in the file; else nothing was changed. */
	void (*done)(void *data, const struct runtime_file_result *result, const struct err *err);
};

struct runtime_upload {
	uint64_t size;	      /* announced, or RUNTIME_SIZE_UNKNOWN */
	uint64_t max;	      /* of an unknown size */
	uint64_t quota_bytes; /* 0: none */
};

/* Writes a file whose bytes come later. Detaching before runtime_upload_end leaves the old file. */
struct runtime_file *runtime_upload(struct runtime *rt, const struct runtime_file_spec *spec,
				    const struct runtime_upload *upload,
				    const struct runtime_upload_ops *ops, void *data);
/* Takes all of it; after wanted. False: no more until the next wanted. */
bool runtime_upload_give(struct runtime_file *job, struct str bytes);
/* That was all, and it was as announced. */
void runtime_upload_end(struct runtime_file *job);

struct runtime_download_ops {
	/* Before the first byte. result->size: of the file, which comes exactly or fails; of an
	 * archive nothing is known. */
	void (*begun)(void *data, const struct runtime_file_result *result);
	/* Valid during the call. False: nothing more until runtime_download_resume, but done when
	 * that was the last. */
	bool (*bytes)(void *data, struct str bytes);
	/* Once. */
	void (*done)(void *data, const struct runtime_file_result *result, const struct err *err);
};

struct runtime_file *runtime_download(struct runtime *rt, const struct runtime_file_spec *spec,
				      uint64_t max, const struct runtime_download_ops *ops,
				      void *data);
/* A folder as a tar in gzip of at most max bytes. */
struct runtime_file *runtime_pack(struct runtime *rt, const struct runtime_file_spec *spec,
				  uint64_t max, const struct runtime_download_ops *ops, void *data);
void runtime_download_resume(struct runtime_file *job);

/* ---- The tree ---- */

#define RUNTIME_LIST_MAX 1000u

struct runtime_entry {
	struct str path;   /* relative to the folder, any bytes but NUL */
	struct str target; /* of a link */
	uint32_t mode;	   /* with the type bits */
	uint64_t size;
	int64_t mtime_s;
};

/* Sorted by path in byte order; more: there are further ones. Valid during the call. */
typedef void (*runtime_list_fn)(void *data, const struct runtime_entry *entries, size_t n,
				bool more, const struct err *err);

/* Entries behind the path after ("": from the start), depth levels deep. */
struct runtime_file *runtime_list(struct runtime *rt, const struct runtime_file_spec *spec,
				  struct str after, uint32_t depth, runtime_list_fn fn, void *data);
/* result->size: how many names were removed; 0, and no error, when there was none. */
struct runtime_file *runtime_remove(struct runtime *rt, const struct runtime_file_spec *spec,
				    bool recursive, runtime_write_fn fn, void *data);
struct runtime_file *runtime_move(struct runtime *rt, const struct runtime_file_spec *spec,
				  struct str to, bool replace, runtime_write_fn fn, void *data);
/* result->size: 1 when it was made. */
struct runtime_file *runtime_mkdir(struct runtime *rt, const struct runtime_file_spec *spec,
				   runtime_write_fn fn, void *data);

/* Puts what the snapshot holds into a folder, which is made when missing; checked whole before
 * anything is changed. result->size: bytes that it needs, also for "quota". bytes: the path that is
 * in the way, for "restore_conflict": whatever the tenant calls its files, but no NUL; of a longer
 * one the first LIMIT_PATH. source must outlive the job. */
struct runtime_file *runtime_file_merge(struct runtime *rt, const struct runtime_file_spec *spec,
					const char *source, uint64_t quota_bytes,
					runtime_read_fn fn, void *data);
struct runtime_unpack {
	int fd;		      /* the archive, read from offset 0; borrowed until the callback or
				 the detach */
	uint64_t size;	      /* of it: exactly so many bytes are read */
	uint64_t quota_bytes; /* the archive must fit beside what is there, and so must its files;
				 0: none */
};

/* Unpacks a tar in gzip, without its first component, as a new folder. result->size: regular files,
 * result->used_bytes: what they added, at most. err->slug as above, and "unpack_failed" with
 * result->fault. For "quota", used_bytes says what the tree used before. Of one that failed, or was
 * detached before the worker had all bytes, nothing is left. */
struct runtime_file *runtime_unpack(struct runtime *rt, const struct runtime_file_spec *spec,
				    const struct runtime_unpack *unpack, runtime_write_fn fn,
				    void *data);
/* No callback follows; the job itself may finish. */
void runtime_file_detach(struct runtime_file *job);

/* ---- Downloads from outside ----
 *
 * The gateway does them, into a file of the caller. No session and no policy has a part in it: what
 * may be asked for is in the specification, and the addresses are judged as those of sandboxes. */

#define RUNTIME_FETCH_URL_MAX 2048u
#define RUNTIME_FETCH_HOSTS_MAX 8u

struct runtime_fetch_spec {
	/* https://..., copied, at most RUNTIME_FETCH_URL_MAX bytes, no user in it. http://... where
	 * it is the operator's SANDBOX_GITHUB_BASE, on a loopback address. */
	const char *url;
	/* Copied; 1 to RUNTIME_FETCH_HOSTS_MAX names, or addresses without brackets: of which each
	 * step has to be one, the first too. The port is 443, or that of SANDBOX_GITHUB_BASE on its
	 * own host. */
	const char *const *hosts;
	size_t n_hosts;
	uint64_t max_bytes;
	int fd; /* borrowed, duplicated: an unnamed file, open for writing, written from offset 0 */
	int64_t timeout_ms; /* of all of it */
};

enum runtime_fetch_end {
	RUNTIME_FETCH_OK,	 /* the file has result->bytes */
	RUNTIME_FETCH_STATUS,	 /* the last answer was no 200: result->status */
	RUNTIME_FETCH_TOO_LARGE, /* than max_bytes, as announced or as it came */
	RUNTIME_FETCH_REDIRECT,	 /* to a host or a scheme that is not allowed: result->host */
	RUNTIME_FETCH_FAILED,	 /* result->reason, a short phrase for the client */
	RUNTIME_FETCH_NO_SPACE,	 /* the file could not be written */
};

/* Texts are never NULL; they and all else are valid during the call. */
struct runtime_fetch_result {
	enum runtime_fetch_end end;
	unsigned status; /* of the last answer; 0: there was none */
	uint64_t bytes;	 /* written to the file */
	const char *host;
	const char *reason;
};

typedef void (*runtime_fetch_fn)(void *data, const struct runtime_fetch_result *result);

/* GET, with at most five redirects. fn is called once, whatever happens to the gateway. */
struct runtime_fetch *runtime_fetch_start(struct runtime *rt, const struct runtime_fetch_spec *spec,
					  runtime_fetch_fn fn, void *data);
/* No call follows, and soon nobody writes to the file any more. */
void runtime_fetch_cancel(struct runtime_fetch *fetch);

/* ---- Volumes ---- */

typedef void (*runtime_volume_fn)(void *data, const struct err *err);
typedef void (*runtime_stat_fn)(void *data, uint64_t used_bytes, const struct err *err);

struct runtime_volume_spec {
	const char *volume;
	uint32_t tenant;
	uint64_t limit_bytes;  /* hard limit; 0: none */
	uint64_t tenant_bytes; /* the same for all that the tenant has written and that is still
				  on the disk, where the back end can; 0: as before */
	const char *source;    /* a workspace or snapshot of the tenant to begin as; NULL: empty */
	const char *image;     /* of the sandbox that copies, where nothing can be cloned */
};

/* Makes a workspace. err->slug "no_capacity" when the volume is full. */
void runtime_volume_create(struct runtime *rt, const struct runtime_volume_spec *spec,
			   runtime_volume_fn fn, void *data);
/* Ends every process that has the workspace attached, then removes it. The callback comes when no
 * process is left and the name is gone; space is freed behind it, or, while it is short, before
 * (up to 10 s). A missing volume is success. */
void runtime_volume_delete(struct runtime *rt, const char *volume, runtime_volume_fn fn,
			   void *data);
/* A new hard limit. Where counts_shared is false, a workspace stays charged for what a snapshot or
 * copy of it holds, so that its limit has to rise by that. */
void runtime_volume_limit(struct runtime *rt, const char *volume, uint64_t limit_bytes,
			  runtime_volume_fn fn, void *data);

struct runtime_snapshot_spec {
	const char *volume, *snapshot; /* names; copied */
	uint32_t tenant;
	const char *image; /* of the sandbox that trims */
	struct str path;   /* the folder to keep; data == NULL: everything as it is, unmeasured */
	int64_t queue_ms;  /* as of a file job, all that it does for this together */
};

/* Keeps a folder of a workspace as it is at this instant, for ever. result->used_bytes: what it
 * holds. err->slug as for files, and "no_capacity" when the volume is full. Of one that failed
 * something may be left: runtime_volume_delete takes snapshots too. */
void runtime_snapshot_create(struct runtime *rt, const struct runtime_snapshot_spec *spec,
			     runtime_write_fn fn, void *data);

/* The file system that holds all workspaces. */
struct runtime_space {
	uint64_t bytes, free;
	uint64_t promised; /* sum of the hard limits of all workspaces */
	bool hard_quota;   /* else limits are not kept and promised says nothing */
	bool frees;	   /* what was deleted is about to give its space back */
};

typedef void (*runtime_space_fn)(void *data, const struct runtime_space *space,
				 const struct err *err);

/* As it is now: with every volume whose creation or deletion was answered before fn is called, and
 * without those whose creation is answered later. err: nobody knows. */
void runtime_volume_space(struct runtime *rt, runtime_space_fn fn, void *data);

/* The back end's own counter; cheap, may lag by a commit. */
void runtime_volume_stat(struct runtime *rt, const char *volume, runtime_stat_fn fn, void *data);

/* ---- The runtime itself ---- */

struct runtime_info {
	const char *name; /* "native" */
	bool ready;	  /* the launcher has answered */
	bool silent;	  /* and has not for 10 s, when it was asked */
	bool builds_fail; /* the last few sandboxes that were asked for could not be made */
	bool hard_quota;
	bool counts_shared;  /* a volume's counter has what it shares with another one */
	uint32_t layers;     /* posture bits that this host offers */
	uint32_t missing;    /* posture bits that multi-tenant mode requires and the host lacks */
	unsigned pool_ready; /* blank sandboxes waiting */
	unsigned running;    /* commands */
	unsigned queued;
	unsigned running_max; /* more wait for their turn */
	bool has_gateway;     /* this server is meant to have one */
	bool gateway;	      /* it is there and has said hello */
	unsigned gateway_restarts;
	struct runtime_space volume; /* as it was last known; all 0 until then */
};

void runtime_info_get(struct runtime *rt, struct runtime_info *ret);
/* Posture of the sandbox that last served this volume, or of the newest blank one of the tenant;
 * 0 when none was ever built. */
uint32_t runtime_posture(struct runtime *rt, const char *volume, uint32_t tenant);
/* Says that a tenant is about to run commands, so that a pool is worth keeping. */
void runtime_warm(struct runtime *rt, uint32_t tenant, const char *image, bool egress);
