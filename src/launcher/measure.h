// SPDX-License-Identifier: Apache-2.0
/*
 * measure: what a blank sandbox is, read from the host's /proc: never what was asked for. Used by
 * the builder before a sandbox may be used. No heap.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "launcher/launcher.h"

/* init: host pid. Returns the bits of ipc/posture.h that hold. An error only when the processes can
 * not be read at all (they died). */
int measure_sandbox(struct launcher *l, uint32_t tenant, uint32_t slot,
		    const struct cgroup_slot *cgroup, pid_t init, uint32_t *ret_posture,
		    struct err *err);
