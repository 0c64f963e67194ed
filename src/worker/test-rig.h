// SPDX-License-Identifier: Apache-2.0
/*
 * test-rig: a workspace, a folder beside it that stands for the world outside, and a source, for
 * the tests of the file worker. Jobs go in through file_worker_job as init gives them, answers come
 * back over a socket pair. Include cmocka.h first.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "ipc/messages.h"

extern char top[64];
extern int top_fd, ws, outside, source;

int rig_setup(void **state);
int rig_teardown(void **state);
/* Everything below dir, however deep, without following anything. */
void clear_dir(int dir);

void put(int dir, const char *name, const char *text);
void make_dir(int dir, const char *name);
void make_link(const char *target, int dir, const char *name);
void check(int dir, const char *name, const char *text);
/* Of an entry itself, a link too; 0 when there is none. */
mode_t mode_of(int dir, const char *name);
int count_entries(int dir);
/* A chain of folders "m" with a file on both sides of each, so that every level has entries left on
 * the way back. */
void make_chain(int dir, unsigned depth);

struct result {
	struct id_file end;
	bool announced;
	struct id_file first;
};

/* A DI_COMMIT, or another message, that is in the socket when the job starts. */
struct say {
	uint8_t type;
	uint32_t id;
	uint64_t size;
};

#define RIG_ID 77

int spec_of(const void *text, size_t len);
struct result job_raw(const struct di_file *ask, int spec, int pipe);
struct result job_with(const struct di_file *ask, int spec, int pipe, const struct say *says,
		       size_t n, size_t *ret_left);
struct result job(const struct di_file *ask, const char *path, int pipe);
struct result job_two(const struct di_file *ask, const char *path, const char *second, int pipe);

/* A file without a name in the place of a pipe: it holds any amount. */
int make_pipe_file(void);

pid_t start_swapper(int dir, const char *a, const char *b);
void stop(pid_t pid);
/* Runs a program with dir as its folder; its exit status. */
int run_in(int dir, const char *command);
