// SPDX-License-Identifier: Apache-2.0
/*
 * launcher: the only process of Airlock with rights on the host. One binary, three roles, each a
 * process of its own so that none delays another:
 *
 *   hand-over  (the main process) supervises the others, knows every sandbox, attaches workspaces.
 *              Answers within microseconds: it never builds, deletes or waits.
 *   builder    makes blank sandboxes, one after the other (launcher/builder.c).
 *   sweeper    makes and deletes volumes, gives memory of dead sandboxes back (launcher/sweeper.c).
 *
 * No heap after start, no threads, no text of a tenant. What they share is set up before the fork
 * and only read afterwards. Roles are forked, not exec'd: they need what was opened here.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "launcher/cgroup.h"
#include "launcher/options.h"
#include "launcher/volume.h"

/* Exit status of a refused start: a configuration or a host that no restart will change. */
#define EXIT_CONFIG 78
/* Of airlockd: what it refuses may pass. */
#define EXIT_LATER 75

struct launcher {
	struct launcher_options options;
	char directory[4000]; /* where our other programs are */
	unsigned server;      /* n of /run/airlock/<n> */
	int lock_fd;	 /* owned; held by every role, so that n is free only when all are gone */
	int proc_fd;	 /* owned: /proc of the host */
	int init_fd;	 /* owned: airlock-init in a sealed memfd */
	int lifeline[2]; /* owned: init holds the read end; the write end lives here alone */
	uid_t user;	 /* airlockd's */
	gid_t group;
	uid_t gateway_user; /* only with options.egress_user */
	gid_t gateway_group;
	struct cgroup cgroup;
	struct volumes volumes;
	bool all_ports;	 /* connections to every port are caught (launcher/catch.h) */
	uint32_t layers; /* posture bits that this host offers */
	int first_fd;	 /* every descriptor below it was opened before the first sandbox */
};

/* Each runs until its socket ends. */
_Noreturn void builder_main(struct launcher *l, int sock);
_Noreturn void sweeper_main(struct launcher *l, int sock);

/* The hand-over role: runs until told to stop, returns the exit status. */
int handover_main(struct launcher *l);

/* Posture bits that must be measured on every blank sandbox before it is used. */
#define LAUNCHER_POSTURE_BLANK \
	(POSTURE_USER_NAMESPACE | POSTURE_MOUNT_NAMESPACE | POSTURE_PID_NAMESPACE | \
	 POSTURE_NET_NAMESPACE | POSTURE_IPC_NAMESPACE | POSTURE_UTS_NAMESPACE | \
	 POSTURE_CGROUP_NAMESPACE | POSTURE_UNPRIVILEGED_USER | POSTURE_NO_CAPABILITIES | \
	 POSTURE_NO_NEW_PRIVS | POSTURE_SECCOMP | POSTURE_READ_ONLY_ROOT | POSTURE_MASKED_PROC)
/* And what the host must offer before many tenants may share it. */
#define LAUNCHER_POSTURE_MULTI \
	(LAUNCHER_POSTURE_BLANK | POSTURE_LANDLOCK | POSTURE_MEMORY_LIMIT | POSTURE_PIDS_LIMIT | \
	 POSTURE_CPU_LIMIT | POSTURE_IDMAPPED_WORKSPACE | POSTURE_HARD_QUOTA)
