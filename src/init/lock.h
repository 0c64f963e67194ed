// SPDX-License-Identifier: Apache-2.0
/*
 * lock: giving up rights, for PID 1 and for the tenant process. Every function either has done what
 * it says or returns a negative errno; the caller ends the process on failure, so that nothing ever
 * runs with a layer missing. No heap.
 * Sources: capabilities(7), prctl(2), landlock(7), credentials(7).
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* Empties the bounding set. Needs CAP_SETPCAP. */
int lock_bounding(struct err *err);
/* Init keeps exactly these (a mask of 1 << CAP_...), in the effective and permitted sets. */
int lock_keep_capabilities(uint64_t keep, struct err *err);

/* The tenant process: no capability in any of the five sets, securebits locked, uid and gid 1000,
 * no new privileges, not dumpable until exec. The seccomp filter comes last, by the caller. */
int lock_tenant(struct err *err);

/* Landlock for the calling process: read and execute everywhere, write in /workspace, /tmp,
 * /dev/shm and to devices. In two steps, because a rule on a mount point that is covered later is
 * ignored, and because little may be left to do when a command comes: everything but /workspace is
 * prepared, then, after the attach, the workspace is added and the whole enforced. What is attached
 * at LAYOUT_SOURCE has no rule of its own: it is beneath "/", so it can be read and not written.
 * *ret_ruleset is -1 and 0 is returned where the kernel has no landlock; else the ABI. */
int lock_landlock_prepare(int *ret_ruleset, struct err *err);
int lock_landlock_enforce(int ruleset, struct err *err);
