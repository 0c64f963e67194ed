// SPDX-License-Identifier: Apache-2.0
#include "ipc/posture.h"

#include <stddef.h>

static const char *const names[POSTURE_BITS] = {
	"user_namespace",     "mount_namespace",   "pid_namespace",
	"net_namespace",      "ipc_namespace",	   "uts_namespace",
	"cgroup_namespace",   "unprivileged_user", "no_capabilities",
	"no_new_privs",	      "seccomp",	   "landlock",
	"read_only_root",     "masked_proc",	   "memory_limit",
	"pids_limit",	      "cpu_limit",	   "io_weight",
	"idmapped_workspace", "hard_quota",	   "own_image_copy",
};

const char *posture_name(unsigned i)
{
	return i < POSTURE_BITS ? names[i] : NULL;
}
