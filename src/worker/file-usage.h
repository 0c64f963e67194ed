// SPDX-License-Identifier: Apache-2.0
/*
 * file-usage: what a tree takes, as du(1) counts it: st_blocks * 512 of every entry and of the
 * folder itself, links not followed. A file with n names counts 1/n (rounded up) at each, which is
 * once when all its names are in the tree; they are, because hard links don't leave a mount.
 *
 * Bounded memory for any tree: the newest FILE_USAGE_OPEN levels keep a descriptor and a buffer of
 * entries; older ones are opened again through ".." of the child, checked by device and inode
 * number, and continued at their saved position. Depth up to FILE_USAGE_DEPTH, FILE_USAGE_ENTRIES
 * entries.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define FILE_USAGE_OPEN 16
#define FILE_USAGE_DEPTH 8192
#define FILE_USAGE_ENTRIES (1u << 26)

struct file_usage {
	uint64_t bytes;
	uint64_t inodes;
	bool partial; /* a folder could not be read */
};

/* -EOVERFLOW: deeper or larger than the limits. -EAGAIN: folders were moved while it walked. */
int file_usage(int workspace_fd, struct file_usage *ret);
