// SPDX-License-Identifier: Apache-2.0
#include "launcher/measure.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "ipc/posture.h"
#include "sandbox/layout.h"

static const struct {
	const char *name;
	uint32_t bit;
} namespaces[] = {
	{ "user", POSTURE_USER_NAMESPACE },	{ "mnt", POSTURE_MOUNT_NAMESPACE },
	{ "pid", POSTURE_PID_NAMESPACE },	{ "net", POSTURE_NET_NAMESPACE },
	{ "ipc", POSTURE_IPC_NAMESPACE },	{ "uts", POSTURE_UTS_NAMESPACE },
	{ "cgroup", POSTURE_CGROUP_NAMESPACE },
};

/* Reads a whole small file of /proc/<pid>/ into out, NUL-terminated. */
static int read_proc(struct launcher *l, pid_t pid, const char *name, char *out, size_t size,
		     struct err *err)
{
	char path[64];
	size_t have = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "%d/%s", pid, name);
	_cleanup_fd_ int fd = openat(l->proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "/proc/%s", path);
	while (have < size - 1 && (n = read(fd, out + have, size - 1 - have)) > 0)
		have += (size_t)n;
	out[have] = '\0';
	return 0;
}

static uint32_t measure_namespaces(struct launcher *l, pid_t pid)
{
	static ino_t own[ARRAY_SIZE(namespaces)]; /* the builder always comes back to its own */
	uint32_t posture = 0;

	for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++) {
		struct stat st;
		char path[64];
		snprintf(path, sizeof(path), "self/ns/%s", namespaces[i].name);
		if (!own[i] && fstatat(l->proc_fd, path, &st, 0) == 0)
			own[i] = st.st_ino;
		snprintf(path, sizeof(path), "%d/ns/%s", pid, namespaces[i].name);
		if (own[i] && fstatat(l->proc_fd, path, &st, 0) == 0 && own[i] != st.st_ino)
			posture |= namespaces[i].bit;
	}
	return posture;
}

/* The words after "Name:" in a status file. */
static bool status_field(const char *status, const char *name, struct str *ret)
{
	struct str rest = str_of(status), line;

	while (str_split(&rest, '\n', &line))
		if (str_starts(line, str_of(name)) && line.data[strlen(name)] == ':') {
			*ret = str_trim(str_from(line, strlen(name) + 1));
			return true;
		}
	return false;
}

static bool field_is(const char *status, const char *name, const char *value)
{
	struct str found;

	return status_field(status, name, &found) && str_eq(found, str_of(value));
}

/* Real, effective, saved and file system id are all the expected one. */
static bool ids_are(const char *status, const char *name, uint32_t id)
{
	char four[64];

	snprintf(four, sizeof(four), "%u\t%u\t%u\t%u", id, id, id, id);
	return field_is(status, name, four);
}

static uint32_t measure_tenant(const char *status, uint32_t id)
{
	static const char *const sets[] = { "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb" };
	uint32_t posture = POSTURE_NO_CAPABILITIES;

	for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
		if (!field_is(status, sets[i], "0000000000000000"))
			posture &= ~(uint32_t)POSTURE_NO_CAPABILITIES;
	if (ids_are(status, "Uid", id) && ids_are(status, "Gid", id) &&
	    field_is(status, "Groups", ""))
		posture |= POSTURE_UNPRIVILEGED_USER;
	if (field_is(status, "NoNewPrivs", "1"))
		posture |= POSTURE_NO_NEW_PRIVS;
	if (field_is(status, "Seccomp", "2"))
		posture |= POSTURE_SECCOMP;
	return posture;
}

/* A line of mountinfo: id parent dev root mount-point options ... (proc(5)). */
static bool mount_line(struct str line, struct str *ret_root, struct str *ret_point,
		       struct str *ret_options)
{
	struct str word;

	for (int i = 0; i < 6; i++) {
		if (!str_split(&line, ' ', &word))
			return false;
		if (i == 3)
			*ret_root = word;
		if (i == 4)
			*ret_point = word;
		if (i == 5)
			*ret_options = word;
	}
	return true;
}

static bool is_read_only(struct str options)
{
	return str_eq(options, STR("ro")) || str_starts(options, STR("ro,"));
}

/* Places that may be written: everything else must say "ro". */
static bool may_be_writable(struct str point)
{
	static const char *const points[] = { "/tmp", "/dev/shm", "/dev/pts", "/proc",
					      "/workspace" };

	for (size_t i = 0; i < ARRAY_SIZE(points); i++)
		if (str_eq(point, str_of(points[i])))
			return true;
	/* A masked file is a device node, which no mount flag makes writable or not. */
	return str_starts(point, STR("/proc/"));
}

static uint32_t measure_mounts(const char *mounts)
{
	struct str rest = str_of(mounts), line, root = { 0 }, point = { 0 }, options = { 0 };
	bool saw_root = false, all_read_only = true, kcore = false, sys = false, trigger = false;

	while (str_split(&rest, '\n', &line)) {
		if (!line.len)
			continue;
		if (!mount_line(line, &root, &point, &options))
			return 0;
		saw_root |= str_eq(point, STR("/"));
		if (!may_be_writable(point) && !is_read_only(options))
			all_read_only = false;
		kcore |= str_eq(point, STR("/proc/kcore")) && str_eq(root, STR("/null"));
		trigger |= str_eq(point, STR("/proc/sysrq-trigger")) && str_eq(root, STR("/null"));
		sys |= str_eq(point, STR("/proc/sys")) && is_read_only(options);
	}
	return (saw_root && all_read_only ? POSTURE_READ_ONLY_ROOT : 0) |
	       (sys && (kcore || access("/proc/kcore", F_OK) < 0) &&
				(trigger || access("/proc/sysrq-trigger", F_OK) < 0)
			? POSTURE_MASKED_PROC
			: 0);
}

static int find_tenant(struct launcher *l, pid_t init, pid_t *ret, struct err *err)
{
	char name[48], text[64];
	uint64_t pid;
	struct str rest, word;

	snprintf(name, sizeof(name), "task/%d/children", init);
	int r = read_proc(l, init, name, text, sizeof(text), err);
	if (r < 0)
		return r;
	rest = str_of(text);
	if (!str_split(&rest, ' ', &word) || !num_parse(word, 1, INT32_MAX, &pid))
		return err_set(err, ESRCH, "init has no tenant process");
	*ret = (pid_t)pid;
	return 0;
}

int measure_sandbox(struct launcher *l, uint32_t tenant, uint32_t slot,
		    const struct cgroup_slot *cgroup, pid_t init, uint32_t *ret_posture,
		    struct err *err)
{
	static char text[16384];
	uint32_t posture;
	pid_t process = -1;
	int r = find_tenant(l, init, &process, err);

	if (r < 0)
		return r;
	posture = measure_namespaces(l, process);
	r = read_proc(l, process, "status", text, sizeof(text), err);
	if (r < 0)
		return r;
	posture |= measure_tenant(text, layout_tenant_id(l->server, slot));
	r = read_proc(l, init, "status", text, sizeof(text), err);
	if (r < 0)
		return r;
	if (!ids_are(text, "Uid", layout_init_id(l->server, slot)))
		posture &= ~(uint32_t)POSTURE_USER_NAMESPACE;
	r = read_proc(l, process, "mountinfo", text, sizeof(text), err);
	if (r < 0)
		return r;
	posture |= measure_mounts(text);
	if (cgroup_slot_holds(&l->cgroup, tenant, slot, process))
		posture |= cgroup->posture;
	*ret_posture = posture;
	return 0;
}
