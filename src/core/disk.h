// SPDX-License-Identifier: Apache-2.0
/*
 * disk: whether a workspace could be over its quota, without asking more often than needed.
 *
 * The quota is about the allocated blocks of the tree; only a walk of it tells them exactly, and a
 * walk costs more the more files there are. The back end's counter is cheap, but it lags until the
 * file system's next commit. So a session carries an upper bound: the last measured use plus what
 * may have been written since (the bytes of file calls; for commands their CPU time at a rate that
 * no write path reaches). Steps, each only when the one before cannot say no:
 *   1. the bound is within the quota: done;
 *   2. the counter: with nothing written for longer than a commit takes it is exact; else it counts
 *      as a lower bound only;
 *   3. the walk (or, for a write, the check by the file worker, which walks).
 *
 * Used by exec.c (warning 2) and files.c.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"

/* Bytes that a command may have written. Its unknown figures are negative. */
uint64_t disk_bound_of_run(const struct core *c, const struct runtime_exec_result *run);
void disk_add(struct session *s, uint64_t bytes);
/* So many bytes may have come that are shared with another volume, which is where the back end may
 * count them. */
void disk_share(const struct core *c, struct session *s, uint64_t bytes);
/* All that it holds may be. */
void disk_share_all(const struct core *c, struct session *s);
/* What the counter says, and what it may leave out. */
uint64_t disk_counted(const struct core *c, const struct session *s, uint64_t counter);
/* Above the quota, so that a write that replaces a file has room for both copies: the quota itself
 * is checked by the file worker, the hard limit only has to hold against tenant code. */
uint64_t disk_hard_limit(const struct core *c, uint64_t quota);
/* All that the tenant may have on the disk. */
uint64_t disk_tenant_limit(const struct core *c, const struct tenant *t);
/* A snapshot or fork of so many bytes was made: the hard limit rises where the back end goes on
 * charging the session for them. */
void disk_hold(struct core *c, struct session *s, uint64_t bytes);
void disk_fork(struct core *c, struct session *s);
/* The snapshot is gone: with the next disk_settle the limit falls; by then the file system has
 * noticed, too. */
void disk_let_go(struct session *s, uint64_t bytes);
void disk_settle(struct core *c, struct session *s);
/* The same of a session that may have been a fork. */
void disk_gone(struct core *c, const struct session *gone);
/* A measurement that began when s->disk.pending was before. */
void disk_measured(struct session *s, uint64_t used, uint64_t before);
/* So many files and folders a walk has found. Near their limit every question needs a walk: empty
 * files use no blocks, and only the walk of a write counts them. */
void disk_crowd(struct session *s, uint64_t inodes);

/* Steps 1 and 2; answer(data, true) when only a walk can tell. May answer before it returns. */
typedef void (*disk_fn)(void *data, bool walk);

void disk_ask(struct core *c, struct session *s, uint64_t more, disk_fn answer, void *data);
