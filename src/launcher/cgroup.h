// SPDX-License-Identifier: Apache-2.0
/*
 * cgroup: limits and accounting, the same for v1 (separate hierarchies) and v2 behind this header.
 * Used by the launcher's roles. No heap. Layout: airlock-<n>/{daemons,tenants/t<k>/s<m>}, in every
 * hierarchy in use, at its top; under systemd with Delegate=yes in the unit's own directory.
 *
 * A slot's directories belong to one tenant at a time and are kept between sandboxes. Limits are set
 * before any process enters. Tenants have equal CPU weight, daemons eight times that.
 * Sources: Documentation/admin-guide/cgroup-v1/, cgroup-v2.rst.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "ipc/messages.h"

#define CGROUP_JOIN_MAX 5

struct cgroup_config {
	unsigned server; /* n */
	uint64_t memory_bytes;
	uint32_t pids;
	uint32_t cpu_milli; /* 1000 = one CPU */
};

struct cgroup {
	int version;				 /* 1 or 2 */
	bool memory, swap, cpu, pids, io_weight; /* what this host can enforce */
	bool peak_reset; /* v2: memory.peak can be set back (6.12 and newer), so slots are reused */
	uint32_t at_once; /* so many slots, each at its limits, fit into what tenants may have */
	struct cgroup_config config;
	unsigned n_roots;
	struct cgroup_root {
		int fd;		/* owned: directory of airlock-<n> in this hierarchy */
		uint32_t kinds; /* which controllers live here, CGROUP_... in cgroup.c */
	} roots[CGROUP_JOIN_MAX];
};

/* How a new process gets in, and how airlockd measures. */
struct cgroup_slot {
	int into;		   /* v2: directory for CLONE_INTO_CGROUP; v1: -1 */
	int join[CGROUP_JOIN_MAX]; /* v1: "tasks" files; the child itself writes "0" */
	unsigned n_join;
	int measure[LD_SLOT_FDS]; /* see enum ld_slot_fd */
	uint32_t posture;	  /* what the kernel says is in force, see cgroup_slot_posture */
	bool fresh;		  /* measure was opened anew: tell airlockd */
	int peak, members; /* v1, never passed on: sets the peak back; counts the processes */
};

#define CGROUP_SLOT_NONE \
	((struct cgroup_slot){ .into = -1, \
			       .join = { -1, -1, -1, -1, -1 }, \
			       .measure = { -1, -1, -1, -1 }, \
			       .peak = -1, \
			       .members = -1 })

/* Finds the hierarchies, makes airlock-<n>, moves the calling process into daemons, ends and
 * removes what an earlier launcher with the same n left, and limits what all tenants have together,
 * so that the host keeps something. */
int cgroup_open(struct cgroup *cg, const struct cgroup_config *config, struct err *err);
void cgroup_close(struct cgroup *cg);
/* Removes everything below airlock-<n> that holds no process; called at the end. */
void cgroup_remove_all(struct cgroup *cg);

/* Ends and removes what a launcher with another number left; the caller holds that number. */
void cgroup_remove_other(struct cgroup *cg, uint32_t server);

/* Makes the slot ready for a new sandbox: directories, limits, counters reset as far as the kernel
 * can; opens what *slot lacks. *slot keeps its descriptors between sandboxes of the same tenant. */
int cgroup_slot_prepare(struct cgroup *cg, uint32_t tenant, uint32_t slot_number,
			struct cgroup_slot *slot, struct err *err);
void cgroup_slot_close(struct cgroup_slot *slot);
/* Removes the slot's directories (they must be empty of processes). */
int cgroup_slot_remove(struct cgroup *cg, uint32_t tenant, uint32_t slot_number, struct err *err);
/* Gives back the memory that a slot without processes is still charged for (70-90 ms on v1). */
void cgroup_slot_empty(struct cgroup *cg, uint32_t tenant, uint32_t slot_number);
/* Removes the directory of a tenant without slots; one with slots stays. */
void cgroup_tenant_remove(struct cgroup *cg, uint32_t tenant);
/* Every slot that has a directory, whoever made it; in v1 once for each hierarchy. */
void cgroup_each_slot(struct cgroup *cg, void (*each)(uint32_t tenant, uint32_t slot_number));

/* What the kernel says is in force for the slot: POSTURE_MEMORY_LIMIT, ..._PIDS_, ..._CPU_, IO
 * bits. */
uint32_t cgroup_slot_posture(struct cgroup *cg, uint32_t tenant, uint32_t slot_number);
/* Whether process pid is in the slot's cgroup in every hierarchy. */
bool cgroup_slot_holds(struct cgroup *cg, uint32_t tenant, uint32_t slot_number, int pid);
