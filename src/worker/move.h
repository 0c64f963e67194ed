// SPDX-License-Identifier: Apache-2.0
/*
 * move: one name to another place. A folder that changes its parent must be writable for its owner,
 * since its ".." is written; one that isn't gets the right for that moment.
 */
#pragma once

/* flags of renameat2(2). Links are moved themselves. */
int move_entry(int from_dir, const char *from, int to_dir, const char *to, unsigned flags);
