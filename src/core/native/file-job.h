// SPDX-License-Identifier: Apache-2.0
/*
 * file-job: one file job, shared by the files that do them and nobody else: file.c (queue, start,
 * end, and the jobs that are done whole), file-stream.c (bytes that go through), file-tree.c
 * (listing, and what changes the tree without bytes), file-copy.c (making snapshots and merging
 * them), file-unpack.c (archives).
 *
 * A kind is what a job does with its pipe and with init's answers. Its functions say how the job
 * goes on; file.c ends it. Only refused and tell are called for a job that was refused.
 */
#pragma once

#include "base/buf.h"
#include "core/native/file.h"
#include "core/native/state.h"

enum file_step {
	FILE_GO_ON,
	FILE_DONE,
	FILE_BROKEN, /* init did what it must not do: job->why */
};

struct file_kind {
	bool slow;	/* it goes at the pace of a client */
	bool long_walk; /* it takes as long as the tree is large */
	bool again;	/* its bytes are still there, for another sandbox */
	/* ID_FILE came; result.size is not beyond max. NULL: none is awaited. */
	enum file_step (*begin)(struct runtime_file *job);
	/* The pipe is ready, or broken (status < 0). NULL: there is no pipe. */
	enum file_step (*pump)(struct runtime_file *job, int status);
	/* ID_FILE_END came with FILE_OK. */
	enum file_step (*end)(struct runtime_file *job, const struct id_file *body);
	/* It came with another code. FILE_DONE: that is the answer. NULL: it always is. */
	enum file_step (*refused)(struct runtime_file *job, const struct id_file *body);
	/* Its sandbox has ended, or is ended now because it takes too long: what to tell, and not
	 * "internal". NULL: that is it. */
	const char *(*lost)(struct runtime_file *job, bool late);
	/* Nobody listens any more, and the job is running. NULL: it may go on. */
	void (*detach)(struct runtime_file *job);
	void (*tell)(struct runtime_file *job, const struct err *err);
};

enum file_state { FILE_QUEUED, FILE_RUNNING, FILE_ENDED };

/* Our end of the pipe of a job. Lives on until libuv has let go of it. */
struct file_pipe {
	struct runtime *rt;
	struct runtime_file *job; /* NULL once closing */
	int fd;			  /* owned */
	uv_poll_t poll;
};

struct runtime_file {
	struct runtime *rt;
	struct box *box; /* NULL when ENDED */
	enum file_state state;
	enum file_op op;
	TAILQ_ENTRY(runtime_file) link; /* in box->jobs or files.ending */
	struct deadline deadline;
	unsigned tries;
	int64_t queue_until_ms; /* monotonic: QUEUED ends here */
	int64_t until_ms;	/* and RUNNING, if not before; 0: nothing of the kind */
	char *path;		/* owned: the specification, each path with its NUL */
	size_t path_len;
	char source[MSG_VOLUME_NAME]; /* FILE_MERGE; else "" */
	const struct file_kind *kind; /* NULL: this is all file.c's */

	runtime_read_fn read_fn;
	runtime_write_fn write_fn;
	void *data;
	bool detached;

	uint64_t max, quota;
	struct str bytes; /* FILE_WRITE: borrowed until the callback */
	size_t sent;	  /* of bytes */
	struct buf got;	  /* FILE_READ; FILE_MERGE: the path in the way */
	bool announced;	  /* ID_FILE came: got must become result.size */
	bool answered;	  /* ID_FILE_END came with FILE_OK */
	struct file_pipe *pipe;
	struct runtime_file_result result;
	struct err err; /* code 0: good */

	/* With kind. */
	uint64_t size; /* FILE_WRITE: announced, or unknown; FILE_UNPACK: of the archive */
	uint32_t flags, depth;
	uint64_t moved;	 /* bytes that went through the pipe */
	uint64_t given;	 /* upload: bytes that the caller gave */
	struct buf left; /* upload: of them, those that the pipe did not take */
	bool asked;	 /* upload: the caller was told to give */
	bool ended;	 /* upload: the caller gives no more */
	bool paused;	 /* download: the caller takes no more */
	const char *why; /* with FILE_BROKEN: a literal */
	struct runtime_upload_ops up;
	struct runtime_download_ops down;
	runtime_list_fn list_fn;
	int archive;		       /* unpack: borrowed until its end or the detach */
	int64_t oom_kills;	       /* unpack: of its slot when it began */
	struct runtime_entry *entries; /* list: owned */
	size_t after_len;	       /* list: of the cursor, which is the last thing in path */
};

struct runtime_file *file_job_new(struct runtime *rt, const struct runtime_file_spec *spec,
				  enum file_op op, void *data);
struct runtime_file *file_submit(struct runtime_file *job, const struct runtime_file_spec *spec);
/* Whether its pipe is written to. */
bool file_job_gives(const struct runtime_file *job);
void file_pipe_close(struct runtime_file *job);
/* Watches the pipe, or no longer. */
void file_pipe_watch(struct runtime_file *job, bool on);
