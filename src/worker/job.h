// SPDX-License-Identifier: Apache-2.0
/*
 * job: what every kind of file job shares: the order, the two paths, the pipe, the answer. One job
 * at a time, so its buffers are the process's.
 *
 * A job returns 0 or a negative errno; job_result turns that into the protocol's word. Some numbers
 * that no system call used here returns have a meaning of our own, below.
 */
#pragma once

#include <stdbool.h>

#include "base/limits.h"
#include "ipc/messages.h"
#include "worker/file-path.h"
#include "worker/tree.h"

#define JOB_SHORT EMSGSIZE    /* FILE_ERR_SHORT */
#define JOB_INODES EMLINK     /* FILE_ERR_INODES */
#define JOB_CONFLICT ENOTUNIQ /* FILE_ERR_CONFLICT */
#define JOB_ARCHIVE EBADMSG   /* FILE_ERR_ARCHIVE, job->fault says which */
#define JOB_NOT_FOLDER EBADFD /* FILE_ERR_NOT_FOLDER */

/* Names at the top of a workspace that begin so are ours: not listed, packed or kept. */
#define JOB_OWN ".airlock-"
#define JOB_OWN_LEN (sizeof(JOB_OWN) - 1)
#define JOB_NAME (sizeof(JOB_OWN) + 16) /* ".airlock-<16 hex>" */
#define JOB_NAME_TRIES 16

struct job {
	const struct di_file *ask;
	int sock;
	int workspace;
	int source; /* borrowed, -1: none is attached */
	int pipe;   /* borrowed, -1: none */
	uint32_t id;
	uint32_t fault; /* enum file_archive_fault */
	struct id_file answer;
};

extern char job_chunk[256 * KIB];
extern struct file_path job_path, job_second;
/* For the walk of a job; file_usage has one of its own. The second one goes along in a copy. */
extern struct tree job_tree, job_tree2;

int job_wait(int fd, short events);
void job_answer(struct job *j, enum id_type type);
/* Fills the answer from a negative errno; r >= 0 is FILE_OK. */
void job_result(struct job *j, int r);

int job_pipe_write(int pipe, const char *data, size_t len);
/* Up to len bytes; 0: its end. */
ssize_t job_pipe_read(int pipe, char *data, size_t len);
int job_write_all(int fd, const char *data, size_t len);

int job_random_name(char name[JOB_NAME]);
static inline bool job_is_own(const char *name)
{
	return __builtin_strncmp(name, JOB_OWN, JOB_OWN_LEN) == 0;
}

/* The folder that job_path names, O_RDONLY. *ret_top: it is the workspace itself. */
int job_open_folder(const struct job *j, bool *ret_top);

/* Makes a folder that is the caller's own usable for a moment, when its mode is what refuses. fd
 * may be O_PATH. */
int job_chmod(int fd, mode_t mode);

/* -EDQUOT, and the sum in the answer, when used + more is above the quota of the order. */
int job_check_quota(struct job *j, uint64_t used, uint64_t more);

/* ---- the kinds, one file each ---- */
int job_write(struct job *j);
int job_list(struct job *j);
int job_remove(struct job *j);
int job_move(struct job *j);
int job_mkdir(struct job *j);
int job_pack(struct job *j);
int job_unpack(struct job *j);
int job_trim(struct job *j);
int job_merge(struct job *j);
