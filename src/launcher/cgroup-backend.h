// SPDX-License-Identifier: Apache-2.0
/*
 * cgroup-backend: what cgroup.c and the two versions share. cgroup-find.c says where the
 * controllers are, cgroup-v1.c and cgroup-v2.c fill struct cgroup_backend, cgroup.c does what is
 * the same for both. Everything works on directory descriptors and short names made from numbers.
 */
#pragma once

#include "launcher/cgroup.h"

enum cgroup_kind {
	CGROUP_MEMORY = 1u << 0,
	CGROUP_CPU = 1u << 1,
	CGROUP_CPUACCT = 1u << 2,
	CGROUP_PIDS = 1u << 3,
	CGROUP_IO = 1u << 4, /* v2 */
};

#define CGROUP_PATH_MAX 512
#define CGROUP_SHORT 64 /* room for "tenants/t<k>/s<m>" and for any value */

/* A mounted hierarchy. */
struct cgroup_mount {
	char top[CGROUP_PATH_MAX]; /* its top directory, as seen by us */
	char own[CGROUP_PATH_MAX]; /* directory of the calling process in it */
	uint32_t kinds;		   /* v1: what is mounted there; v2: what cgroup.controllers says */
};

struct cgroup_backend {
	/* Opens the directories that stand for airlock-<n>, made where needed, into cg->roots. */
	int (*find_roots)(struct cgroup *cg, const struct cgroup_mount *mounts, size_t n,
			  struct err *err);
	/* daemons and tenants exist; moves the caller into daemons and sets weights. */
	int (*settle)(struct cgroup *cg, struct err *err);
	int (*prepare)(struct cgroup *cg, uint32_t tenant, const char *path,
		       struct cgroup_slot *slot, struct err *err);
	uint32_t (*posture)(struct cgroup *cg, const char *path);
	/* Files: the limit of memory, memory charged now, and the one that gives memory back when
	 * written to. */
	const char *memory_limit, *memory_now, *memory_empty;
	/* Takes the caller out of daemons, so that it can be removed, and gives the top back. */
	void (*leave)(struct cgroup *cg);
};

extern const struct cgroup_backend cgroup_v1, cgroup_v2;

/* Fills the mounts of v1 with memory, cpu, cpuacct or pids (version 1), or the one of v2. Returns
 * how many; *ret_version says which. */
int cgroup_find(struct cgroup_mount *mounts, size_t max, int *ret_version, struct err *err);

/* Writes or reads one small file; a read is NUL-terminated without its newline. */
int cgroup_put(int dir, const char *file, const char *text);
int cgroup_put_number(int dir, const char *file, uint64_t number);
int cgroup_get(int dir, const char *file, char *text, size_t size);
/* A file with one number; "max" and v1's "no limit" are UINT64_MAX, anything else is false. */
bool cgroup_get_number(int dir, const char *file, uint64_t *ret);
int cgroup_open_file(int dir, const char *path, const char *file, int flags, int *fd,
		     struct err *err);
/* Limits what all tenants have together to what this host can spare, and sets cg->at_once. */
int cgroup_limit_tenants(struct cgroup *cg, const char *memory_file, struct err *err);
/* The root that has this controller, -1 if none. */
int cgroup_root_of(const struct cgroup *cg, uint32_t kind);
/* Directory of a slot below a root, -1 and errno. */
int cgroup_open_dir(int root, const char *path);
/* mkdir; one that exists already is success. 1 when it was made now. */
int cgroup_make(int dir, const char *path, struct err *err);
