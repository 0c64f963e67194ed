// SPDX-License-Identifier: Apache-2.0
/*
 * child: the first process of a sandbox, from clone to the exec of init. It runs with all
 * capabilities of its own new user namespace and none outside, in a copy of the builder's memory:
 * only system calls, no heap, and a failure ends it with a report, never with a layer missing.
 */
#pragma once

#include <stdint.h>

#include "launcher/cgroup.h"
#include "sandbox/plan.h"

struct child_spec {
	const struct plan *plan;
	const struct cgroup_slot *cgroup;
	int init; /* memfd of airlock-init */
	int go;	  /* read end: one byte when the id maps are written; end of file means die */
	int control, handover, lifeline, ready;
};

_Noreturn void child_main(const struct child_spec *spec);
