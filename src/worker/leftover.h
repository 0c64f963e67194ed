// SPDX-License-Identifier: Apache-2.0
/*
 * leftover: ".airlock-<16 hex>" at the top of a workspace: folders in which an archive is unpacked
 * until it is whole, and files that are about to take the place of another one (draft.h). Whoever
 * works on one holds a lock on it (flock(2)), which ends with its processes: one that nobody holds
 * is what is left of a worker that was killed, and goes.
 *
 * It is looked for where it would count: before the workspace is measured, and before the next
 * archive. No listing, archive or snapshot has it meanwhile.
 */
#pragma once

#include "worker/job.h"

/* Makes such a folder, mode 0700, and returns it open and locked; the lock is that of the open
 * file, so a child that has it keeps it, too. Its name is the caller's to remove or to change. */
int leftover_begin(int workspace, char ret_name[JOB_NAME]);
/* Removes those that nobody holds. What can't be removed stays for the next time. */
void leftover_remove(int workspace);
