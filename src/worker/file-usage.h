// SPDX-License-Identifier: Apache-2.0
/*
 * file-usage: what a tree takes, as du(1) counts it: st_blocks * 512 of every entry and of the
 * folder itself, links not followed. A file with n names counts 1/n (rounded up) at each, which is
 * once when all its names are in the tree; they are, because hard links don't leave a mount.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "worker/tree.h"

struct file_usage {
	uint64_t bytes;
	uint64_t inodes;
	bool partial; /* a folder could not be read */
};

/* -EOVERFLOW: deeper or larger than the limits. -EAGAIN: folders were moved while it walked. */
int file_usage(int workspace_fd, struct file_usage *ret);
