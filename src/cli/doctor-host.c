// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/doctor.h"
#include "cli/paths.h"
#include "cli/state.h"

/* Settings of the kernel that a sandbox does not depend on, but that shut doors behind it. */
static const struct knob {
	const char *path;
	uint64_t at_least;
	const char *setting; /* as for sysctl.d */
} knobs[] = {
	{ "/proc/sys/kernel/unprivileged_bpf_disabled", 1, "kernel.unprivileged_bpf_disabled=2" },
	{ "/proc/sys/kernel/io_uring_disabled", 1, "kernel.io_uring_disabled=2" },
	{ "/proc/sys/kernel/kptr_restrict", 1, "kernel.kptr_restrict=2" },
	{ "/proc/sys/kernel/dmesg_restrict", 1, "kernel.dmesg_restrict=1" },
	{ "/proc/sys/kernel/perf_event_paranoid", 2, "kernel.perf_event_paranoid=2" },
	{ "/proc/sys/kernel/yama/ptrace_scope", 1, "kernel.yama.ptrace_scope=1" },
	{ "/proc/sys/fs/protected_symlinks", 1, "fs.protected_symlinks=1" },
	{ "/proc/sys/fs/protected_hardlinks", 1, "fs.protected_hardlinks=1" },
	{ "/proc/sys/fs/protected_fifos", 1, "fs.protected_fifos=1" },
	{ "/proc/sys/fs/protected_regular", 1, "fs.protected_regular=1" },
};

static void probe_knobs(struct probe_finding *f)
{
	_cleanup_buf_ struct buf open_ones = BUF(PROBE_TEXT);
	char value[32];

	for (size_t i = 0; i < ARRAY_SIZE(knobs); i++) {
		uint64_t number;
		probe_read(knobs[i].path, value, sizeof(value));
		/* Not there: the kernel does not have the feature, or is older than the switch. */
		if (num_parse(str_of(value), 0, UINT32_MAX, &number) && number < knobs[i].at_least)
			buf_printf(&open_ones, "%s%s", open_ones.len ? " " : "", knobs[i].setting);
	}
	if (open_ones.len)
		probe_say(f, PROBE_NOTE, open_ones.data,
			  "some doors of the kernel are open for all users");
	else
		probe_say(f, PROBE_GOOD, NULL, "shut for users without rights");
}

static void probe_unprivileged_userns(struct probe_finding *f)
{
	char clone[32], apparmor[32];

	probe_read("/proc/sys/kernel/unprivileged_userns_clone", clone, sizeof(clone));
	probe_read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", apparmor,
		   sizeof(apparmor));
	if (strcmp(clone, "0") == 0 || strcmp(apparmor, "1") == 0)
		probe_say(f, PROBE_GOOD, NULL, "only with rights, as Airlock makes them");
	else
		probe_say(f, PROBE_NOTE,
			  *clone ? "kernel.unprivileged_userns_clone=0 if nothing else needs "
				   "them"
				 : "",
			  "every user of the host may make user namespaces; code in a sandbox may "
			  "not");
}

static void probe_core_pattern(struct probe_finding *f)
{
	char pattern[256];

	probe_read("/proc/sys/kernel/core_pattern", pattern, sizeof(pattern));
	if (pattern[0] != '|')
		probe_say(f, PROBE_GOOD, NULL, "no program of the host is started for a crash");
	else
		probe_say(f, PROBE_NOTE,
			  "kernel.core_pattern=core, or |/bin/false: a limit of 0 does not stop a "
			  "program",
			  "a crash inside starts %.120s on the host", pattern + 1);
}

static void probe_modprobe(struct probe_finding *f)
{
	char program[256];

	probe_read("/proc/sys/kernel/modprobe", program, sizeof(program));
	if (!*program)
		probe_say(f, PROBE_GOOD, NULL, "the kernel starts no program to load modules");
	else
		probe_say(f, PROBE_NOTE,
			  "load what the host needs at boot, then: sysctl -w kernel.modprobe= "
			  "(kernel.modules_disabled does not stop it)",
			  "running a file of an unknown format may start %.120s on the host",
			  program);
}

static void probe_filter_log(struct probe_finding *f)
{
	char actions[256];

	probe_read("/proc/sys/kernel/seccomp/actions_logged", actions, sizeof(actions));
	if (!*actions)
		probe_say(f, PROBE_GOOD, NULL, "the kernel writes nothing of what filters did");
	else
		probe_say(f, PROBE_NOTE, "sysctl -w kernel.seccomp.actions_logged=",
			  "a filter that a tenant's program has set for itself may write to the "
			  "kernel's and the audit log");
}

static void probe_swap(struct probe_finding *f)
{
	char line[256];
	FILE *swaps = fopen("/proc/swaps", "re");
	unsigned n = 0;

	while (swaps && fgets(line, sizeof(line), swaps))
		n++;
	if (swaps)
		fclose(swaps);
	if (n > 1)
		probe_say(f, PROBE_NOTE,
			  "sandboxes get no swap, but the server's memory may be written "
			  "there: encrypt it or switch it off",
			  "there is swap");
	else
		probe_say(f, PROBE_GOOD, NULL, "none");
}

static void probe_cpu_bugs(struct probe_finding *f)
{
	_cleanup_buf_ struct buf names = BUF(PROBE_TEXT / 2);
	char text[256];
	glob_t found;

	if (glob("/sys/devices/system/cpu/vulnerabilities/*", 0, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc; i++) {
			probe_read(found.gl_pathv[i], text, sizeof(text));
			if (strncmp(text, "Vulnerable", 10) == 0)
				buf_printf(&names, "%s%s", names.len ? ", " : "",
					   strrchr(found.gl_pathv[i], '/') + 1);
		}
		globfree(&found);
	}
	if (names.len)
		probe_say(f, PROBE_NOTE,
			  "update microcode and kernel; strangers may read what the CPU leaks",
			  "unmitigated: %s", names.data);
	else
		probe_say(f, PROBE_GOOD, NULL, "nothing unmitigated");
}

static void probe_user(struct probe_finding *f)
{
	if (getpwnam("airlock"))
		probe_say(f, PROBE_GOOD, NULL, "the user airlock exists");
	else
		probe_say(f, PROBE_MISSING,
			  "useradd --system --user-group --no-create-home airlock",
			  "there is no user airlock");
}

static void probe_programs(struct probe_finding *f)
{
	static const char *const names[] = { "airlock-launcher", "airlockd", "airlock-init" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_free_ char *path = paths_program(names[i]);
		if (!path) {
			probe_say(f, PROBE_MISSING, "make build, or make install",
				  "%s is not beside this program", names[i]);
			return;
		}
	}
	probe_say(f, PROBE_GOOD, NULL, "launcher, daemon and init are there");
}

static void probe_image(struct probe_finding *f)
{
	_cleanup_free_ char *tar = paths_base_tar();

	if (access(tar, F_OK) == 0)
		probe_say(f, PROBE_GOOD, NULL, "%.200s", tar);
	else
		probe_say(f, PROBE_NOTE, "airlock image build",
			  "the base image has not been built");
}

static void probe_root(struct probe_finding *f)
{
	char status[4096], *line;
	FILE *file = fopen("/proc/self/status", "re");
	size_t n = file ? fread(status, 1, sizeof(status) - 1, file) : 0;
	unsigned long long caps;

	if (file)
		fclose(file);
	status[n] = '\0';
	line = strstr(status, "CapEff:");
	caps = line ? strtoull(line + 7, NULL, 16) : 0;
	if (geteuid() != 0)
		probe_say(f, PROBE_NOTE, "sudo airlock serve",
			  "not root now; serve and run need it");
	else if (!(caps & (1ull << 21)))
		probe_say(f, PROBE_MISSING, "the container around us must allow CAP_SYS_ADMIN",
			  "root without CAP_SYS_ADMIN");
	else
		probe_say(f, PROBE_GOOD, NULL, "root with CAP_SYS_ADMIN%s",
			  caps & (1ull << 24) ? "" : ", without CAP_SYS_RESOURCE");
}

/* Of the state directory that is used when nothing else is said. */
static void probe_lost(struct probe_finding *f)
{
	struct err err;
	_cleanup_free_ char *dir = state_find(&(struct state_choice){ 0 }, &err);
	if (!dir) {
		probe_say(f, PROBE_UNKNOWN, "run `airlock doctor` as root", "%.250s", err.text);
		return;
	}
	_cleanup_free_ char *path = mem_printf("%s/state/lost-volumes", dir);
	/* The folder is user airlock's. */
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	bool regular = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	FILE *list = regular ? fdopen(fd, "r") : NULL;
	unsigned n = 0;

	if (!list && fd >= 0) {
		probe_say(f, PROBE_UNKNOWN, "look at who made it", "%.150s is not a file", path);
		close(fd);
		return;
	}
	if (!list && errno != ENOENT) {
		probe_say(f, PROBE_UNKNOWN, "run `airlock doctor` as root", "%.150s: %s", path,
			  strerrordesc_np(errno));
		return;
	}
	for (int ch; list && (ch = fgetc(list)) != EOF;)
		n += ch == '\n';
	if (list)
		fclose(list);
	if (n)
		probe_say(f, PROBE_NOTE, "airlock volume purge",
			  "%u that the database did not explain at the last start", n);
	else
		probe_say(f, PROBE_GOOD, NULL, "none");
}

const struct probe doctor_host_probes[] = {
	{ "rights", "making sandboxes", false, probe_root },
	{ "user", "what speaks to clients has no rights", false, probe_user },
	{ "programs", "everything is installed", false, probe_programs },
	{ "base image", "what sandboxes start from", false, probe_image },
	{ "lost volumes", "workspaces of an older database", false, probe_lost },
	{ "core dumps", "no program of the host runs on a tenant's crash", false,
	  probe_core_pattern },
	{ "module loader", "no program of the host runs on a tenant's demand", false,
	  probe_modprobe },
	{ "filter log", "no tenant writes to the host's logs", false, probe_filter_log },
	{ "swap", "secrets stay in memory", false, probe_swap },
	{ "kernel settings", "fewer doors for whoever gets out", false, probe_knobs },
	{ "user namespaces", "for others on this host", false, probe_unprivileged_userns },
	{ "CPU", "side channels between tenants", false, probe_cpu_bugs },
};
const size_t n_doctor_host_probes = ARRAY_SIZE(doctor_host_probes);
