// SPDX-License-Identifier: Apache-2.0
/*
 * slot: the measuring descriptors of one cgroup slot, and what they say.
 *
 * The launcher sends four read-only descriptors per slot, once; airlockd reads them itself with
 * pread, so that neither an answer nor an OOM waits for another process. Counters are cumulative
 * over the slot's life: take a sample before the command and compare. Formats of both cgroup
 * versions: Documentation/admin-guide/cgroup-v1/memory.rst, cpuacct.rst, pids.rst and
 * cgroup-v2.rst.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "ipc/messages.h"

/* A slot number beyond this is a fault of the launcher. */
#define SLOT_MAX 100000u

struct slot {
	int fds[LD_SLOT_FDS]; /* owned */
	uint32_t version;     /* of cgroups, 1 or 2; 0: not known yet */
};

/* -1: could not be read. */
struct slot_sample {
	int64_t oom_kills;
	int64_t peak_bytes;
	int64_t cpu_us;
	int64_t pids_hits;
};

#define SLOT_NONE ((struct slot){ .fds = { -1, -1, -1, -1 } })

void slot_close(struct slot *slot);
void slot_read(const struct slot *slot, struct slot_sample *ret);
int64_t slot_read_oom_kills(const struct slot *slot);

/* What a command used, from a sample before and one after. -1: cannot be told. */
struct slot_use {
	int64_t oom_kills;
	int64_t peak_bytes;
	int64_t cpu_ms;
	int64_t pids_hits;
};

void slot_use(const struct slot *slot, const struct slot_sample *before,
	      const struct slot_sample *after, struct slot_use *ret);

/* The number behind "<key> " at the start of a line, or (key empty) the first line as a number. -1
 * when there is none or it is not a number. */
int64_t slot_parse(struct str text, struct str key);
