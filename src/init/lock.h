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

/* Restricts the calling process: read and execute everywhere, write in /workspace, /tmp, /dev/shm
 * and to devices. To be called after /workspace was attached: a rule on a covered mount point is
 * ignored. Returns the ABI in force (0: the kernel has none), negative on failure. */
int lock_landlock(struct err *err);
