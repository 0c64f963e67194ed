// SPDX-License-Identifier: Apache-2.0
/*
 * cgroup-v2: one tree. Processes live in daemons and in the slots' leaves only, controllers are
 * enabled from the top down, and one that is enabled forbids processes in the directory itself.
 *
 * airlock-<n> lies at the true top of the tree, or in our own directory if that was delegated to us
 * (systemd's Delegate=yes marks it with an extended attribute; in a container the top is a
 * namespace's root). A delegated directory has to be empty first: who is in it goes to helpers
 * beside airlock-<n>, where a successor ends nobody. Several servers may share it.
 *
 * memory.peak can be set back since 6.12, through the descriptor that is read. Older kernels keep
 * the old peak for ever, so there a slot gets a new leaf for every sandbox.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/fd.h"
#include "base/str.h"
#include "ipc/posture.h"
#include "launcher/cgroup-backend.h"

#define PERIOD_US 100000u
#define DAEMON_WEIGHT "800" /* a tenant has the default, 100 */

static const char *const measures[LD_SLOT_FDS] = {
	[SLOT_FD_OOM] = "memory.events",
	[SLOT_FD_PEAK] = "memory.peak",
	[SLOT_FD_CPU] = "cpu.stat",
	[SLOT_FD_PIDS] = "pids.events",
};

static int top_of(const struct cgroup *cg)
{
	return cg->roots[0].fd;
}

static bool is_delegated(const char *path)
{
	static const char *const marks[] = { "trusted.delegate", "user.delegate" };
	char value[2];

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (getxattr(path, marks[i], value, sizeof(value)) == 1 && value[0] == '1')
			return true;
	return false;
}

/* Our own directory; or the one that was delegated, when we come from a shell that an earlier
 * launcher moved, or from a launcher. */
static void find_own(char own[CGROUP_PATH_MAX], const char *path)
{
	char *last;

	memcpy(own, path, strlen(path) + 1);
	last = strrchr(own, '/');
	if (last && strcmp(last, "/daemons") == 0) {
		*last = '\0';
		last = strrchr(own, '/');
		if (last && strncmp(last, "/airlock-", 9) == 0)
			*last = '\0';
	} else if (last && strcmp(last, "/helpers") == 0) {
		*last = '\0';
	}
}

/* '+' or '-'. One by one: a missing one must not stop the others; what came of it is read later. */
static void switch_controllers(int dir, const char *path, char sign)
{
	static const char *const controllers[] = { "memory", "pids", "cpu", "io" };
	char file[CGROUP_SHORT * 2], text[CGROUP_SHORT];

	snprintf(file, sizeof(file), "%s/cgroup.subtree_control", path);
	for (size_t i = 0; i < sizeof(controllers) / sizeof(controllers[0]); i++) {
		snprintf(text, sizeof(text), "%c%s", sign, controllers[i]);
		cgroup_put(dir, file, text);
	}
}

/* Moves every process of one cgroup to another, for as long as some appear. */
static bool move_all(int root, const char *from, const char *to)
{
	char text[4096];
	struct str rest, pid;

	for (int round = 0; round < 64; round++) {
		if (cgroup_get(root, from, text, sizeof(text)) <= 0)
			return true;
		rest = str_of(text);
		while (str_split(&rest, '\n', &pid)) {
			char one[CGROUP_SHORT];

			snprintf(one, sizeof(one), "%.*s", (int)pid.len, pid.data);
			cgroup_put(root, to, one); /* it may have ended meanwhile */
		}
	}
	return false;
}

static int clear_top(int top, struct err *err)
{
	char text[CGROUP_SHORT];
	int r;

	if (cgroup_get(top, "cgroup.procs", text, sizeof(text)) <= 0)
		return 0;
	r = cgroup_make(top, "helpers", err);
	if (r >= 0 && !move_all(top, "cgroup.procs", "helpers/cgroup.procs"))
		r = err_set(err, EBUSY, "processes keep appearing in the cgroup delegated to us");
	return r;
}

static int find_roots(struct cgroup *cg, const struct cgroup_mount *mounts, size_t n,
		      struct err *err)
{
	_cleanup_fd_ int top = open(mounts[0].top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char own[CGROUP_PATH_MAX], name[CGROUP_SHORT];
	int r = 0;

	find_own(own, mounts[0].own);
	if (is_delegated(own) || faccessat(top, "cgroup.type", F_OK, 0) == 0) {
		fd_close(&top);
		top = open(own, O_PATH | O_DIRECTORY | O_CLOEXEC);
		r = clear_top(top, err);
	}
	if (r < 0)
		return r;
	switch_controllers(top, ".", '+');
	snprintf(name, sizeof(name), "airlock-%u", cg->config.server);
	r = cgroup_make(top, name, err);
	if (r < 0)
		return r;
	r = cgroup_open_dir(top, name);
	if (r < 0)
		return err_errno(err, "opening cgroup %s", name);
	cg->roots[cg->n_roots++] = (struct cgroup_root){ .fd = r, .kinds = mounts[0].kinds };
	return 0;
}

static bool has(int root, const char *file)
{
	return faccessat(root, file, F_OK, 0) == 0;
}

/* io.weight counts only with bfq on the disk or with the io.cost model switched on. */
static bool io_weight_counts(int root)
{
	char text[512];
	_cleanup_fd_ int top = open("/sys/fs/cgroup", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return has(root, "tenants/io.bfq.weight") ||
	       (cgroup_get(top, "io.cost.qos", text, sizeof(text)) > 0 && strstr(text, "enable=1"));
}

static int settle(struct cgroup *cg, struct err *err)
{
	_cleanup_fd_ int peak = -1;
	int root = top_of(cg);

	if (cgroup_put(root, "daemons/cgroup.procs", "0") < 0)
		return err_errno(err, "moving into cgroup daemons");
	switch_controllers(root, ".", '+');
	switch_controllers(root, "tenants", '+');
	cg->memory = has(root, "tenants/memory.max") && has(root, "tenants/memory.peak");
	cg->swap = cg->memory && has(root, "tenants/memory.swap.max");
	cg->cpu = has(root, "tenants/cpu.max");
	cg->pids = has(root, "tenants/pids.max");
	cg->io_weight = has(root, "tenants/io.weight") && io_weight_counts(root);
	peak = openat(root, "daemons/memory.peak", O_RDWR | O_CLOEXEC);
	cg->peak_reset = peak >= 0 && write(peak, "0", 1) == 1;
	if (cg->cpu && cgroup_put(root, "daemons/cpu.weight", DAEMON_WEIGHT) < 0)
		return err_errno(err, "setting cpu.weight of daemons");
	if (has(root, "daemons/io.weight"))
		cgroup_put(root, "daemons/io.weight", "default " DAEMON_WEIGHT);
	return 0;
}

/* The true top takes us as it is. A delegated directory does so when its controllers are off again,
 * which the kernel refuses while another server in it uses them. */
static void leave(struct cgroup *cg)
{
	int root = top_of(cg);

	switch_controllers(root, ".", '-');
	if (cgroup_put(root, "../cgroup.procs", "0") == 0)
		return;
	switch_controllers(root, "..", '-');
	if (cgroup_put(root, "../cgroup.procs", "0") == 0)
		move_all(root, "../helpers/cgroup.procs", "../cgroup.procs");
	else
		cgroup_put(root, "../helpers/cgroup.procs", "0");
	unlinkat(root, "../helpers", AT_REMOVEDIR);
}

static int set_limits(const struct cgroup *cg, int dir, const char *path, struct err *err)
{
	char cpu[CGROUP_SHORT];
	const struct {
		const char *file;
		uint64_t value;
		const char *text;
		bool wanted;
	} limits[] = {
		{ "memory.max", cg->config.memory_bytes, NULL, true },
		{ "memory.swap.max", 0, NULL, cg->swap },
		{ "memory.oom.group", 1, NULL,
		  true }, /* never above: it would take the neighbours */
		{ "pids.max", cg->config.pids, NULL, true },
		{ "cpu.max", 0, cpu, true },
	};

	snprintf(cpu, sizeof(cpu), "%u %u", cg->config.cpu_milli * (PERIOD_US / 1000), PERIOD_US);
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		int r = !limits[i].wanted ? 0
			: limits[i].text  ? cgroup_put(dir, limits[i].file, limits[i].text)
					  : cgroup_put_number(dir, limits[i].file, limits[i].value);

		if (r < 0)
			return err_set(err, -r, "setting %s of cgroup %s: %s", limits[i].file, path,
				       strerrordesc_np(-r));
	}
	return 0;
}

static int make_slot(struct cgroup *cg, uint32_t tenant, const char *path, struct cgroup_slot *slot,
		     struct err *err)
{
	char parent[CGROUP_SHORT];
	int root = top_of(cg), r;

	snprintf(parent, sizeof(parent), "tenants/t%u", tenant);
	r = cgroup_make(root, parent, err);
	if (r > 0)
		switch_controllers(root, parent, '+');
	if (r >= 0)
		r = cgroup_make(root, path, err);
	if (r >= 0)
		slot->into = cgroup_open_dir(root, path);
	if (r >= 0 && slot->into < 0)
		r = err_errno(err, "opening cgroup %s", path);
	if (r >= 0)
		r = set_limits(cg, slot->into, path, err);
	for (unsigned i = 0; r >= 0 && i < LD_SLOT_FDS; i++)
		r = cgroup_open_file(slot->into, path, measures[i],
				     i == SLOT_FD_PEAK && cg->peak_reset ? O_RDWR : O_RDONLY,
				     &slot->measure[i], err);
	if (r < 0)
		cgroup_slot_close(slot);
	else
		slot->fresh = true;
	return r;
}

static int prepare(struct cgroup *cg, uint32_t tenant, const char *path, struct cgroup_slot *slot,
		   struct err *err)
{
	char events[CGROUP_SHORT * 2];
	int root = top_of(cg);

	if (!cg->memory || !cg->pids || !cg->cpu)
		return err_set(err, ENOTSUP,
			       "the cgroup controllers memory (with memory.peak), pids and cpu "
			       "are all needed; not all of them are enabled for us");
	if (slot->into >= 0 && cg->peak_reset) {
		if (cgroup_get(slot->into, "cgroup.events", events, sizeof(events)) < 0 ||
		    !strstr(events, "populated 0"))
			return err_set(err, EBUSY, "cgroup %s still holds processes", path);
		if (write(slot->measure[SLOT_FD_PEAK], "0", 1) != 1)
			return err_errno(err, "resetting the memory peak of cgroup %s", path);
		return 0;
	}
	cgroup_slot_close(slot);
	if (unlinkat(root, path, AT_REMOVEDIR) != 0 && errno != ENOENT)
		return err_errno(err, "removing the used cgroup %s", path);
	return make_slot(cg, tenant, path, slot, err);
}

static bool says(int dir, const char *file, const char *expected)
{
	char text[CGROUP_SHORT * 2];

	return cgroup_get(dir, file, text, sizeof(text)) >= 0 && strcmp(text, expected) == 0;
}

static uint32_t posture(struct cgroup *cg, const char *path)
{
	_cleanup_fd_ int dir = cgroup_open_dir(top_of(cg), path);
	char cpu[CGROUP_SHORT], pids[CGROUP_SHORT];
	uint64_t memory;
	uint32_t bits = 0;

	snprintf(cpu, sizeof(cpu), "%u %u", cg->config.cpu_milli * (PERIOD_US / 1000), PERIOD_US);
	snprintf(pids, sizeof(pids), "%u", cg->config.pids);
	if (cgroup_get_number(dir, "memory.max", &memory) && memory <= cg->config.memory_bytes &&
	    (says(dir, "memory.swap.max", "0") || !cg->swap))
		bits |= POSTURE_MEMORY_LIMIT;
	if (says(dir, "pids.max", pids))
		bits |= POSTURE_PIDS_LIMIT;
	if (says(dir, "cpu.max", cpu))
		bits |= POSTURE_CPU_LIMIT;
	if (cg->io_weight && has(dir, "io.weight"))
		bits |= POSTURE_IO_WEIGHT;
	return bits;
}

const struct cgroup_backend cgroup_v2 = {
	.find_roots = find_roots,
	.settle = settle,
	.prepare = prepare,
	.posture = posture,
	.memory_limit = "memory.max",
	.memory_now = "memory.current",
	.memory_empty = "memory.reclaim",
	.leave = leave,
};
