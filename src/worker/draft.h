// SPDX-License-Identifier: Apache-2.0
/*
 * draft: a new file on its way. It has no name until it is complete, where the file system can do
 * that, so it dies with the process; it gets one in a single step that others see. A file that
 * replaces another one is named ".airlock-<16 hex>" for the moment between linkat and renameat: at
 * the top of the workspace, where such names are ours, or in its folder when the top is closed. As
 * long as it lives its maker holds a lock on it (flock(2)); one that nobody holds is left of a
 * maker that was killed.
 */
#pragma once

#include <stdbool.h>

#include "worker/job.h"

struct draft {
	int dir;	     /* borrowed: the folder it goes into */
	int top;	     /* borrowed: the workspace */
	int at;		     /* one of the two: where it has its name */
	int fd;		     /* owned */
	char name[JOB_NAME]; /* "" while it has none */
};

/* Fills *d; to be ended by draft_fini, also when this failed. */
int draft_open(struct draft *d, int dir, int top);
/* Gives it its name; exists: something may be there, which is replaced. */
int draft_commit(struct draft *d, const char *name, bool exists);
void draft_fini(struct draft *d);
