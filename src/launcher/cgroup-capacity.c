// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "base/fd.h"
#include "base/limits.h"
#include "launcher/cgroup-backend.h"

/* What stays for the host, our own processes among it: an eighth of the memory, but at least so
 * much, and at most half; a quarter of the processes. */
#define MEMORY_PART 8
#define MEMORY_LEAST (256ull * MIB)
#define PIDS_PART 4
#define PIDS_MOST (4u << 20) /* the kernel's PID_MAX_LIMIT */
/* How deep a service manager may have put us. */
#define ANCESTORS 16

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The least of value and what our ancestors allow. The top of a hierarchy has no such file, or one
 * without a limit. */
static uint64_t allowed(int root, const char *file, uint64_t value)
{
	char path[3 * ANCESTORS + CGROUP_SHORT] = "";
	size_t len = 0;
	uint64_t limit;

	for (unsigned i = 0; i < ANCESTORS; i++) {
		len += (size_t)snprintf(path + len, sizeof(path) - len, "../");
		snprintf(path + len, sizeof(path) - len, "%s", file);
		if (!cgroup_get_number(root, path, &limit))
			break;
		value = smaller(value, limit);
	}
	return value;
}

static uint64_t memory_of_host(void)
{
	struct sysinfo info;

	return sysinfo(&info) == 0 ? (uint64_t)info.totalram * info.mem_unit : 0;
}

static uint64_t pids_of_host(void)
{
	uint64_t pids = PIDS_MOST, threads = PIDS_MOST;

	cgroup_get_number(AT_FDCWD, "/proc/sys/kernel/pid_max", &pids);
	cgroup_get_number(AT_FDCWD, "/proc/sys/kernel/threads-max", &threads);
	return smaller(pids, threads);
}

static uint64_t memory_for(uint64_t all)
{
	uint64_t kept = all / MEMORY_PART > MEMORY_LEAST ? all / MEMORY_PART : MEMORY_LEAST;

	return all - smaller(kept, all / 2);
}

static int limit_tenants(int root, const char *file, uint64_t value, struct err *err)
{
	_cleanup_fd_ int dir = cgroup_open_dir(root, "tenants");
	int r = cgroup_put_number(dir, file, value);

	return r < 0 ? err_set(err, -r, "setting %s of cgroup tenants: %s", file,
			       strerrordesc_np(-r))
		     : 0;
}

int cgroup_limit_tenants(struct cgroup *cg, const char *memory_file, struct err *err)
{
	int memory = cgroup_root_of(cg, CGROUP_MEMORY), pids = cgroup_root_of(cg, CGROUP_PIDS);
	uint64_t at_once = UINT32_MAX;
	int r = 0;

	if (cg->memory) {
		uint64_t bytes = memory_for(allowed(memory, memory_file, memory_of_host()));
		at_once = smaller(at_once, bytes / cg->config.memory_bytes);
		r = limit_tenants(memory, memory_file, bytes, err);
	}
	if (cg->pids && r >= 0) {
		uint64_t count = allowed(pids, "pids.max", pids_of_host());
		count -= count / PIDS_PART;
		at_once = smaller(at_once, count / cg->config.pids);
		r = limit_tenants(pids, "pids.max", count, err);
	}
	cg->at_once = (uint32_t)at_once;
	return r;
}
