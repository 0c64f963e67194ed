// SPDX-License-Identifier: Apache-2.0
#include "launcher/host.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "ipc/posture.h"
#include "launcher/volume.h"

#define LANDLOCK_VERSION 1u /* LANDLOCK_CREATE_RULESET_VERSION */
#define LANDLOCK_FLOOR 2

static const struct {
	int flag;
	uint32_t bit;
} namespaces[] = {
	{ CLONE_NEWUSER, POSTURE_USER_NAMESPACE },     { CLONE_NEWNS, POSTURE_MOUNT_NAMESPACE },
	{ CLONE_NEWPID, POSTURE_PID_NAMESPACE },       { CLONE_NEWNET, POSTURE_NET_NAMESPACE },
	{ CLONE_NEWIPC, POSTURE_IPC_NAMESPACE },       { CLONE_NEWUTS, POSTURE_UTS_NAMESPACE },
	{ CLONE_NEWCGROUP, POSTURE_CGROUP_NAMESPACE },
};

static bool can_unshare(int flag)
{
	int status = 1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(unshare(flag) < 0);
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

uint32_t host_layers(struct launcher *l)
{
	/* What needs nothing but the above and a kernel of the floor. */
	uint32_t layers = POSTURE_UNPRIVILEGED_USER | POSTURE_NO_CAPABILITIES |
			  POSTURE_NO_NEW_PRIVS | POSTURE_READ_ONLY_ROOT | POSTURE_MASKED_PROC |
			  POSTURE_IDMAPPED_WORKSPACE;
	uint32_t action = SECCOMP_RET_KILL_PROCESS;

	for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++)
		if (can_unshare(namespaces[i].flag))
			layers |= namespaces[i].bit;
	if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0)
		layers |= POSTURE_SECCOMP;
	if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION) >= LANDLOCK_FLOOR)
		layers |= POSTURE_LANDLOCK;
	if (l->cgroup.memory && l->cgroup.swap)
		layers |= POSTURE_MEMORY_LIMIT;
	if (l->cgroup.pids)
		layers |= POSTURE_PIDS_LIMIT;
	if (l->cgroup.cpu)
		layers |= POSTURE_CPU_LIMIT;
	if (l->cgroup.io_weight)
		layers |= POSTURE_IO_WEIGHT;
	if (l->volumes.quota != MSG_QUOTA_NONE)
		layers |= POSTURE_HARD_QUOTA;
	if (l->volumes.kind == MSG_VOLUMES_BTRFS)
		layers |= POSTURE_OWN_IMAGE_COPY;
	return layers;
}
