// SPDX-License-Identifier: Apache-2.0
/*
 * cgroup-v1: one hierarchy per controller (or for cpu and cpuacct together). A slot's directories
 * are reused: a removed memory cgroup lives on while page cache charged to it does. Before the next
 * sandbox only the peak is set back; kill counts and CPU time go on, readers take differences.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "ipc/posture.h"
#include "launcher/cgroup-backend.h"

#define PERIOD_US 100000u
#define SHARES 1024u
#define DAEMON_SHARES (8 * SHARES)

/* airlock-<n> at the top of each hierarchy, or below our own cgroup where the top is not ours. */
static int find_roots(struct cgroup *cg, const struct cgroup_mount *mounts, size_t n,
		      struct err *err)
{
	char name[CGROUP_SHORT];

	snprintf(name, sizeof(name), "airlock-%u", cg->config.server);
	for (size_t i = 0; i < n; i++) {
		_cleanup_fd_ int top = open(mounts[i].top, O_PATH | O_DIRECTORY | O_CLOEXEC);
		_cleanup_fd_ int own = open(mounts[i].own, O_PATH | O_DIRECTORY | O_CLOEXEC);
		int made = cgroup_make(top, name, err), base = top, fd;

		if (made < 0) {
			base = own;
			made = cgroup_make(own, name, err);
		}
		fd = made < 0 ? -1 : cgroup_open_dir(base, name);
		if (fd < 0)
			return made < 0 ? made : err_errno(err, "opening cgroup %s", name);
		cg->roots[cg->n_roots++] =
			(struct cgroup_root){ .fd = fd, .kinds = mounts[i].kinds };
	}
	return 0;
}

static bool no_swap_on_host(void)
{
	char text[128];

	/* One line of headings, then one per swap area. */
	return cgroup_get(AT_FDCWD, "/proc/swaps", text, sizeof(text)) >= 0 && !strchr(text, '\n');
}

static int settle(struct cgroup *cg, struct err *err)
{
	int memory = cgroup_root_of(cg, CGROUP_MEMORY), cpu = cgroup_root_of(cg, CGROUP_CPU);

	for (unsigned i = 0; i < cg->n_roots; i++)
		if (cgroup_put(cg->roots[i].fd, "daemons/cgroup.procs", "0") < 0)
			return err_errno(err, "moving into cgroup daemons");
	/* The default since 5.11 and the only value there; without it limits do not cover children.
	 */
	if (memory >= 0)
		cgroup_put(memory, "memory.use_hierarchy", "1");
	cg->memory = memory >= 0;
	cg->swap = memory >= 0 &&
		   (faccessat(memory, "tenants/memory.memsw.limit_in_bytes", F_OK, 0) == 0 ||
		    no_swap_on_host());
	cg->cpu = cpu >= 0 && faccessat(cpu, "tenants/cpu.cfs_quota_us", F_OK, 0) == 0 &&
		  cgroup_root_of(cg, CGROUP_CPUACCT) >= 0;
	cg->pids = cgroup_root_of(cg, CGROUP_PIDS) >= 0;
	cg->io_weight = false; /* does not attribute buffered writes */
	if (cg->cpu && cgroup_put_number(cpu, "daemons/cpu.shares", DAEMON_SHARES) < 0)
		return err_errno(err, "setting cpu.shares of daemons");
	return 0;
}

static void leave(struct cgroup *cg)
{
	for (unsigned i = 0; i < cg->n_roots; i++)
		cgroup_put(cg->roots[i].fd, "../cgroup.procs", "0");
}

/* Memory first, then memory with swap: the kernel keeps the second at least as large as the first. */
static int set_limits(const struct cgroup *cg, int root, const char *path, uint32_t kinds,
		      struct err *err)
{
	const struct {
		uint32_t kind;
		const char *file;
		uint64_t value;
		bool optional;
	} limits[] = {
		{ CGROUP_MEMORY, "memory.limit_in_bytes", cg->config.memory_bytes, false },
		{ CGROUP_MEMORY, "memory.memsw.limit_in_bytes", cg->config.memory_bytes, true },
		{ CGROUP_MEMORY, "memory.swappiness", 0, true },
		{ CGROUP_PIDS, "pids.max", cg->config.pids, false },
		{ CGROUP_CPU, "cpu.cfs_period_us", PERIOD_US, false },
		{ CGROUP_CPU, "cpu.cfs_quota_us",
		  (uint64_t)cg->config.cpu_milli * (PERIOD_US / 1000), false },
	};
	_cleanup_fd_ int dir = cgroup_open_dir(root, path);

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		int r = kinds & limits[i].kind
				? cgroup_put_number(dir, limits[i].file, limits[i].value)
				: 0;

		if (r < 0 && !(limits[i].optional && r == -ENOENT))
			return err_set(err, -r, "setting %s of cgroup %s: %s", limits[i].file, path,
				       strerrordesc_np(-r));
	}
	return 0;
}

static int open_slot(struct cgroup *cg, const char *path, struct cgroup_slot *slot, struct err *err)
{
	const struct {
		int root;
		const char *file;
		int flags;
		int *fd;
	} files[] = {
		{ cgroup_root_of(cg, CGROUP_MEMORY), "memory.max_usage_in_bytes", O_WRONLY,
		  &slot->peak },
		{ cgroup_root_of(cg, CGROUP_PIDS), "pids.current", O_RDONLY, &slot->members },
		{ cgroup_root_of(cg, CGROUP_MEMORY), "memory.oom_control", O_RDONLY,
		  &slot->measure[SLOT_FD_OOM] },
		{ cgroup_root_of(cg, CGROUP_MEMORY), "memory.max_usage_in_bytes", O_RDONLY,
		  &slot->measure[SLOT_FD_PEAK] },
		{ cgroup_root_of(cg, CGROUP_CPUACCT), "cpuacct.usage", O_RDONLY,
		  &slot->measure[SLOT_FD_CPU] },
		{ cgroup_root_of(cg, CGROUP_PIDS), "pids.events", O_RDONLY,
		  &slot->measure[SLOT_FD_PIDS] },
	};
	char file[CGROUP_SHORT * 2];
	int r = 0;

	for (unsigned i = 0; r >= 0 && i < cg->n_roots; i++) {
		snprintf(file, sizeof(file), "%s/tasks", path);
		r = cgroup_open_file(cg->roots[i].fd, path, file, O_WRONLY, &slot->join[i], err);
		slot->n_join = i + 1;
	}
	for (size_t i = 0; r >= 0 && i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(file, sizeof(file), "%s/%s", path, files[i].file);
		r = cgroup_open_file(files[i].root, path, file, files[i].flags, files[i].fd, err);
	}
	return r;
}

static int make_slot(struct cgroup *cg, uint32_t tenant, const char *path, struct cgroup_slot *slot,
		     struct err *err)
{
	char parent[CGROUP_SHORT];
	int r = 0;

	snprintf(parent, sizeof(parent), "tenants/t%u", tenant);
	for (unsigned i = 0; r >= 0 && i < cg->n_roots; i++) {
		r = cgroup_make(cg->roots[i].fd, parent, err);
		if (r >= 0)
			r = cgroup_make(cg->roots[i].fd, path, err);
		if (r >= 0)
			r = set_limits(cg, cg->roots[i].fd, path, cg->roots[i].kinds, err);
	}
	if (r >= 0)
		r = open_slot(cg, path, slot, err);
	if (r < 0)
		cgroup_slot_close(slot);
	else
		slot->fresh = true;
	return r;
}

static int prepare(struct cgroup *cg, uint32_t tenant, const char *path, struct cgroup_slot *slot,
		   struct err *err)
{
	char members[CGROUP_SHORT];
	int r;

	if (!cg->memory || !cg->pids || !cg->cpu)
		return err_set(err, ENOTSUP,
			       "the cgroup controllers memory, pids, cpu and cpuacct are all "
			       "needed; not all of them are mounted");
	if (slot->n_join == 0) {
		r = make_slot(cg, tenant, path, slot, err);
		if (r < 0)
			return r;
	}
	if (pread(slot->members, members, sizeof(members), 0) != 2 || members[0] != '0')
		return err_set(err, EBUSY, "cgroup %s still holds processes", path);
	if (write(slot->peak, "0", 1) != 1)
		return err_errno(err, "resetting the memory peak of cgroup %s", path);
	return 0;
}

static uint64_t number_of(const struct cgroup *cg, uint32_t kind, const char *path,
			  const char *name)
{
	char file[CGROUP_SHORT * 2];
	uint64_t value;

	snprintf(file, sizeof(file), "%s/%s", path, name);
	return cgroup_get_number(cgroup_root_of(cg, kind), file, &value) ? value : UINT64_MAX;
}

static uint32_t posture(struct cgroup *cg, const char *path)
{
	uint64_t quota = (uint64_t)cg->config.cpu_milli * (PERIOD_US / 1000);
	uint64_t swap = number_of(cg, CGROUP_MEMORY, path, "memory.memsw.limit_in_bytes");
	uint32_t bits = 0;

	/* The kernel rounds memory down to whole pages. */
	if (number_of(cg, CGROUP_MEMORY, path, "memory.limit_in_bytes") <=
		    cg->config.memory_bytes &&
	    (swap <= cg->config.memory_bytes || no_swap_on_host()))
		bits |= POSTURE_MEMORY_LIMIT;
	if (number_of(cg, CGROUP_PIDS, path, "pids.max") == cg->config.pids)
		bits |= POSTURE_PIDS_LIMIT;
	if (number_of(cg, CGROUP_CPU, path, "cpu.cfs_quota_us") == quota &&
	    number_of(cg, CGROUP_CPU, path, "cpu.cfs_period_us") == PERIOD_US)
		bits |= POSTURE_CPU_LIMIT;
	return bits;
}

const struct cgroup_backend cgroup_v1 = {
	.find_roots = find_roots,
	.settle = settle,
	.prepare = prepare,
	.posture = posture,
	.memory_limit = "memory.limit_in_bytes",
	.memory_now = "memory.usage_in_bytes",
	.memory_empty = "memory.force_empty",
	.leave = leave,
};
