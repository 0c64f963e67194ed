// SPDX-License-Identifier: Apache-2.0
/*
 * remove: everything beneath a folder, and names, by descriptors. Links are removed, never
 * followed. A folder is tried first and entered only when it isn't empty; after that it comes
 * again, so no names need to be kept. Folders that refuse by their mode get their owner's rights.
 * What is deeper than a walk goes is moved up and removed by another one. Uses job_tree.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Empties an opened folder; takes *fd. *count grows by the names that went. skip: names of ours
 * stay.
 */
int remove_beneath(int *fd, const char *skip, uint64_t *count);
/* One name, with all that is beneath it. 0 also when there was none. */
int remove_entry(int dir, const char *name, uint64_t *count);
