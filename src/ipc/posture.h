// SPDX-License-Identifier: Apache-2.0
/*
 * posture: the layers that hold a sandbox, as bits, with their names in the API. A bit is set only
 * when the layer was measured from outside on the sandbox in question, never because it was asked
 * for. docs/threat-model.md says what each one is for.
 */
#pragma once

#include <stdint.h>

enum posture_bit {
	POSTURE_USER_NAMESPACE = 1u << 0, /* own user namespace, both ids from the slot's block */
	POSTURE_MOUNT_NAMESPACE = 1u << 1,
	POSTURE_PID_NAMESPACE = 1u << 2,
	POSTURE_NET_NAMESPACE = 1u << 3,
	POSTURE_IPC_NAMESPACE = 1u << 4,
	POSTURE_UTS_NAMESPACE = 1u << 5,
	POSTURE_CGROUP_NAMESPACE = 1u << 6,
	POSTURE_UNPRIVILEGED_USER = 1u
				    << 7,  /* the tenant's uid and gid are the slot's, no groups */
	POSTURE_NO_CAPABILITIES = 1u << 8, /* all five sets of the tenant empty */
	POSTURE_NO_NEW_PRIVS = 1u << 9,
	POSTURE_SECCOMP = 1u << 10,  /* filter mode */
	POSTURE_LANDLOCK = 1u << 11, /* reported by init when the tenant was released */
	POSTURE_READ_ONLY_ROOT = 1u << 12,
	POSTURE_MASKED_PROC = 1u << 13,
	POSTURE_MEMORY_LIMIT = 1u << 14, /* and no swap beyond it */
	POSTURE_PIDS_LIMIT = 1u << 15,
	POSTURE_CPU_LIMIT = 1u << 16,
	POSTURE_IO_WEIGHT = 1u << 17,
	POSTURE_IDMAPPED_WORKSPACE = 1u << 18,
	POSTURE_HARD_QUOTA = 1u << 19,
	POSTURE_OWN_IMAGE_COPY = 1u << 20, /* the tenant's own inodes, so its own page cache */
	POSTURE_BITS = 21,
};

/* Name of bit number i (0 .. POSTURE_BITS - 1) as the API spells it. */
const char *posture_name(unsigned i);
