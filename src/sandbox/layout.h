// SPDX-License-Identifier: Apache-2.0
/*
 * layout: what a sandbox looks like, as data that the launcher, init and the tests share: ids,
 * descriptors that init inherits, places. The host id of inner id i of slot s on server n is
 * LAYOUT_ID(n, s, i); every server has its own million, every slot its own two ids, so no two
 * sandboxes on a machine ever share one.
 */
#pragma once

#include <stdint.h>

#define LAYOUT_SERVERS 16u
#define LAYOUT_SLOTS 512u
#define LAYOUT_ID_FIRST 1900000000u
#define LAYOUT_ID_SERVER 1000000u

/* Inner ids: init and the tenant. Nothing else is mapped. */
#define LAYOUT_INIT 0u
#define LAYOUT_TENANT 1000u

static inline uint32_t layout_init_id(uint32_t server, uint32_t slot)
{
	return LAYOUT_ID_FIRST + server * LAYOUT_ID_SERVER + slot * 2;
}

static inline uint32_t layout_tenant_id(uint32_t server, uint32_t slot)
{
	return layout_init_id(server, slot) + 1;
}

/* Descriptors that init finds open; nothing else is. */
enum layout_fd {
	LAYOUT_FD_CONTROL = 3,	/* SEQPACKET to airlockd */
	LAYOUT_FD_HANDOVER = 4, /* SEQPACKET to the launcher's hand-over role */
	LAYOUT_FD_LIFELINE = 5, /* pipe whose end ends the sandbox */
	LAYOUT_FD_READY = 6,	/* pipe to the builder: one struct layout_ready, then closed */
	LAYOUT_FD_END = 7,
};

/* What init says when the tenant process waits, locked down. */
struct layout_ready {
	uint32_t magic;
	int32_t code;	/* 0, or a positive errno */
	char stage[24]; /* where it failed, NUL-terminated */
};

#define LAYOUT_READY_MAGIC 0x31594452u /* "RDY1" */

#define LAYOUT_WORKSPACE "/workspace"
/* An empty folder of the read-only root; what a file sandbox copies from is attached there. */
#define LAYOUT_SOURCE "/run"
#define LAYOUT_SHELL "/bin/bash"
#define LAYOUT_HOSTNAME "sandbox"
