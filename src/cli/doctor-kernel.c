// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/doctor.h"

#define LANDLOCK_CREATE_RULESET_VERSION_ 1u /* include/uapi/linux/landlock.h */
#define LANDLOCK_FLOOR 2
#define LANDLOCK_SCOPES 6
/* include/uapi/linux/magic.h */
#define CGROUP2_MAGIC 0x63677270

static void probe_version(struct probe_finding *f)
{
	struct utsname u;
	char *end;

	uname(&u);
	unsigned long major = strtoul(u.release, &end, 10);
	unsigned long minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
	if (major > 6 || (major == 6 && minor >= 1))
		probe_say(f, PROBE_GOOD, NULL, "Linux %s", u.release);
	else
		probe_say(f, PROBE_MISSING, "use a kernel of 6.1 or newer", "Linux %s", u.release);
}

static void probe_user_namespace(struct probe_finding *f)
{
	char max[32], clone[32];

	probe_read("/proc/sys/user/max_user_namespaces", max, sizeof(max));
	probe_read("/proc/sys/kernel/unprivileged_userns_clone", clone, sizeof(clone));
	if (unshare(CLONE_NEWUSER) == 0) {
		probe_say(f, PROBE_GOOD, NULL, "can be made (user.max_user_namespaces %s)", max);
		return;
	}
	if (errno == EPERM && geteuid() != 0)
		probe_say(f, PROBE_UNKNOWN, "run `airlock doctor` as root",
			  "not for users without rights (kernel.unprivileged_userns_clone %s)",
			  *clone ? clone : "-");
	else
		probe_say(f, PROBE_MISSING,
			  "sysctl user.max_user_namespaces=10000; in a container, allow "
			  "nested ones",
			  "cannot be made: %s", strerrordesc_np(errno));
}

static void probe_namespaces(struct probe_finding *f)
{
	static const struct {
		int flag;
		const char *name;
	} kinds[] = {
		{ CLONE_NEWNS, "mount" }, { CLONE_NEWPID, "pid" }, { CLONE_NEWNET, "net" },
		{ CLONE_NEWIPC, "ipc" },  { CLONE_NEWUTS, "uts" }, { CLONE_NEWCGROUP, "cgroup" },
	};

	if (geteuid() != 0 && unshare(CLONE_NEWUSER) < 0) {
		probe_needs_root(f);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (unshare(kinds[i].flag) == 0)
			continue;
		probe_say(f, PROBE_MISSING, "the kernel or a container around us withholds it",
			  "no %s namespace: %s", kinds[i].name, strerrordesc_np(errno));
		return;
	}
	probe_say(f, PROBE_GOOD, NULL, "mount, pid, net, ipc, uts, cgroup");
}

static void probe_seccomp(struct probe_finding *f)
{
	static const struct {
		uint32_t action;
		const char *name;
	} actions[] = {
		{ SECCOMP_RET_KILL_PROCESS, "KILL_PROCESS" },
		{ SECCOMP_RET_ERRNO, "ERRNO" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
		uint32_t action = actions[i].action;
		if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) < 0) {
			probe_say(f, PROBE_MISSING, "use a kernel with CONFIG_SECCOMP_FILTER",
				  "action %s: %s", actions[i].name, strerrordesc_np(errno));
			return;
		}
	}
	probe_say(f, PROBE_GOOD, NULL, "filters, with KILL_PROCESS and ERRNO");
}

static void probe_landlock(struct probe_finding *f)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION_);

	if (abi < LANDLOCK_FLOOR)
		probe_say(f, PROBE_MISSING,
			  "boot with lsm=landlock,… in front of the other modules",
			  abi < 0 ? "not there" : "too old");
	else if (abi < LANDLOCK_SCOPES)
		probe_say(f, PROBE_GOOD, NULL,
			  "ABI %ld (scopes for signals and sockets come with %d)", abi,
			  LANDLOCK_SCOPES);
	else
		probe_say(f, PROBE_GOOD, NULL, "ABI %ld, with scopes", abi);
}

static void probe_openat2(struct probe_finding *f)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH };
	long fd = syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof(how));

	if (fd >= 0)
		probe_say(f, PROBE_GOOD, NULL, "RESOLVE_BENEATH works");
	else
		probe_say(f, PROBE_MISSING, "a filter around us may block it; allow openat2",
			  "openat2: %s", strerrordesc_np(errno));
}

/* ---- Control groups -------------------------------------------------------------------------- */

static bool has_word(const char *list, const char *word, const char *separators)
{
	size_t len = strlen(word);

	for (const char *at = list; *at;) {
		size_t n = strcspn(at, separators);
		if (n == len && memcmp(at, word, n) == 0)
			return true;
		at += n;
		at += strspn(at, separators);
	}
	return false;
}

/* The mount options of a v1 hierarchy name its controllers. */
static bool is_v1_mounted(const char *controller)
{
	char line[4096], type[64], options[1024];
	FILE *mounts = fopen("/proc/self/mounts", "re");
	bool found = false;

	while (mounts && !found && fgets(line, sizeof(line), mounts))
		found = sscanf(line, "%*s %*s %63s %1023s", type, options) == 2 &&
			strcmp(type, "cgroup") == 0 && has_word(options, controller, ",");
	if (mounts)
		fclose(mounts);
	return found;
}

static bool is_v2(void)
{
	struct statfs fs;

	return statfs("/sys/fs/cgroup", &fs) == 0 && fs.f_type == CGROUP2_MAGIC;
}

static void probe_controller(struct probe_finding *f, const char *controller)
{
	char list[512];

	probe_read("/sys/fs/cgroup/cgroup.controllers", list, sizeof(list));
	if (is_v2() && has_word(list, controller, " "))
		probe_say(f, PROBE_GOOD, NULL, "cgroup v2");
	else if (is_v1_mounted(controller))
		probe_say(f, PROBE_GOOD, NULL, "cgroup v1");
	else
		probe_say(f, PROBE_MISSING,
			  is_v2() ? "boot without cgroup_disable; under systemd use Delegate=yes"
				  : "mount the controller's hierarchy below /sys/fs/cgroup",
			  "no %s controller", controller);
}

static void probe_memory(struct probe_finding *f)
{
	char swaps[256];
	FILE *file = fopen("/proc/swaps", "re");
	bool swap = false;

	/* The first line is a heading. */
	while (file && fgets(swaps, sizeof(swaps), file))
		swap |= strncmp(swaps, "Filename", 8) != 0;
	if (file)
		fclose(file);
	probe_controller(f, "memory");
	if (f->verdict == PROBE_GOOD && swap && !is_v2() &&
	    access("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", F_OK) < 0)
		probe_say(f, PROBE_MISSING, "boot with swapaccount=1, or switch swap off",
			  "cgroup v1 without a limit for swap, and there is swap");
}

static void probe_pids(struct probe_finding *f)
{
	probe_controller(f, "pids");
}

static void probe_cpu(struct probe_finding *f)
{
	probe_controller(f, "cpu");
}

static void probe_io(struct probe_finding *f)
{
	char list[512];

	probe_read("/sys/fs/cgroup/cgroup.controllers", list, sizeof(list));
	if (is_v2() && has_word(list, "io", " "))
		probe_say(f, PROBE_GOOD, NULL, "cgroup v2");
	else
		probe_say(f, PROBE_NOTE, "one tenant's disk work may slow others; use cgroup v2",
			  "no io controller of cgroup v2");
}

const struct probe doctor_kernel_probes[] = {
	{ "kernel", "the calls that isolation is built on", true, probe_version },
	{ "user namespace", "root inside is nobody outside", true, probe_user_namespace },
	{ "namespaces", "a sandbox sees only itself", true, probe_namespaces },
	{ "seccomp", "less kernel to attack", true, probe_seccomp },
	{ "landlock", "the second fence around files", true, probe_landlock },
	{ "openat2", "paths never leave a workspace", true, probe_openat2 },
	{ "memory limit", "one sandbox cannot take the host's memory", true, probe_memory },
	{ "process limit", "fork bombs stay small", true, probe_pids },
	{ "CPU limit", "a fair share for everybody", true, probe_cpu },
	{ "io weight", "a fair share of the disk", false, probe_io },
};
const size_t n_doctor_kernel_probes = ARRAY_SIZE(doctor_kernel_probes);
