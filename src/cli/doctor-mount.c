// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/loop.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "cli/doctor.h"
#include "cli/state.h"

/* <sys/mount.h> of glibc 2.36 and <linux/mount.h> do not go together. */
int mount(const char *source, const char *target, const char *type, unsigned long flags,
	  const void *data);
#define MS_REC_ 16384ul
#define MS_PRIVATE_ (1ul << 18)

/* BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA, include/uapi/linux/btrfs.h of 6.7 */
#define QUOTA_ENABLE_SIMPLE 4
#define TRIAL_BYTES (160ll << 20)
#define TRIAL_DIR "/run/airlock-doctor"

static bool own_mounts(struct probe_finding *f)
{
	if (!probe_needs_root(f))
		return false;
	if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC_ | MS_PRIVATE_, NULL) == 0)
		return true;
	probe_say(f, PROBE_MISSING, "root without CAP_SYS_ADMIN is not enough",
		  "no mount namespace: %s", strerrordesc_np(errno));
	return false;
}

/* ---- /proc ----------------------------------------------------------------------------------- */

/* Returns 0 or errno: a fresh procfs, as a sandbox gets one. */
static int new_procfs(void)
{
	long fs = syscall(SYS_fsopen, "proc", FSOPEN_CLOEXEC);

	if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0 ||
	    syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, 0) < 0)
		return errno;
	return 0;
}

static void probe_procfs(struct probe_finding *f)
{
	int status = 0;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID) < 0) {
		probe_say(f, geteuid() ? PROBE_UNKNOWN : PROBE_MISSING, NULL, "no namespaces: %s",
			  strerrordesc_np(errno));
		return;
	}
	/* The new pid namespace holds from the first child on. */
	pid_t pid = fork();
	if (pid == 0)
		_exit(new_procfs());
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return;
	if (WEXITSTATUS(status) == 0)
		probe_say(f, PROBE_GOOD, NULL, "a sandbox gets one of its own");
	else
		probe_say(f, PROBE_MISSING,
			  "in a container, give it an unmasked /proc (procMount: Unmasked, "
			  "--security-opt systempaths=unconfined)",
			  "cannot be mounted inside: %s", strerrordesc_np(WEXITSTATUS(status)));
}

/* ---- Idmapped mounts ------------------------------------------------------------------------- */

/* A user namespace with one id mapped, as a descriptor, or -1. */
static int user_namespace(void)
{
	static const struct {
		const char *file, *text;
	} writes[] = {
		{ "setgroups", "deny" },
		{ "gid_map", "0 1900000000 1" },
		{ "uid_map", "0 1900000000 1" },
	};
	int ready[2], fd = -1;
	char path[64], byte;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return -1;
	pid_t pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWUSER) == 0 && write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	fd_close(&ready[1]);
	if (pid > 0 && read(ready[0], &byte, 1) == 1) {
		bool good = true;
		for (size_t i = 0; i < ARRAY_SIZE(writes); i++) {
			snprintf(path, sizeof(path), "/proc/%d/%s", pid, writes[i].file);
			_cleanup_fd_ int file = open(path, O_WRONLY | O_CLOEXEC);
			good &= write(file, writes[i].text, strlen(writes[i].text)) > 0;
		}
		snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
		fd = good ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	}
	fd_close(&ready[0]);
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return fd;
}

static void probe_idmap(struct probe_finding *f)
{
	/* Some file systems cannot; one that can is enough: workspaces are btrfs. */
	static const char *const places[] = { "/var/lib", "/", "/usr", "/boot" };

	if (!own_mounts(f))
		return;
	_cleanup_fd_ int ns = user_namespace();
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP,
					   .userns_fd = (uint64_t)ns };
		long tree = syscall(SYS_open_tree, AT_FDCWD, places[i],
				    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
		if (ns < 0 || tree < 0)
			continue;
		long r = syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr));
		close((int)tree);
		if (r == 0) {
			probe_say(f, PROBE_GOOD, NULL, "work (tried on %s)", places[i]);
			return;
		}
	}
	probe_say(f, PROBE_MISSING,
		  "use a kernel of 6.1 or newer; a container needs CAP_SYS_ADMIN "
		  "outside of a user namespace",
		  "refused: %s", strerrordesc_np(errno));
}

/* ---- btrfs ----------------------------------------------------------------------------------- */

static bool run_mkfs(const char *file)
{
	char *const argv[] = { (char *)(uintptr_t) "mkfs.btrfs", (char *)(uintptr_t) "-q",
			       (char *)(uintptr_t)file, NULL };
	char *const envp[] = { (char *)(uintptr_t) "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };
	posix_spawn_file_actions_t actions;
	int status = 1;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	for (int fd = 0; fd < 3; fd++)
		posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
	for (size_t i = 0; i < 2; i++) {
		static const char *const programs[] = { "/usr/sbin/mkfs.btrfs",
							"/sbin/mkfs.btrfs" };
		if (posix_spawn(&pid, programs[i], &actions, NULL, argv, envp) != 0)
			continue;
		waitpid(pid, &status, 0);
		break;
	}
	posix_spawn_file_actions_destroy(&actions);
	return status == 0;
}

/* A loop device for the file; it goes with its last user. -1 and errno. */
static int attach_loop(int file, char path[32])
{
	_cleanup_fd_ int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	struct loop_config config = { .fd = (uint32_t)file,
				      .info = { .lo_flags = LO_FLAGS_AUTOCLEAR } };

	for (int i = 0; control >= 0 && i < 8; i++) {
		int number = ioctl(control, LOOP_CTL_GET_FREE);
		if (number < 0)
			return -1;
		snprintf(path, 32, "/dev/loop%d", number);
		int loop = open(path, O_RDWR | O_CLOEXEC);
		if (loop >= 0 && ioctl(loop, LOOP_CONFIGURE, &config) == 0)
			return loop;
		fd_close(&loop);
		/* Somebody else took it. */
		if (errno != EBUSY)
			return -1;
	}
	return -1;
}

static void try_quota(struct probe_finding *f)
{
	struct btrfs_ioctl_quota_ctl_args args = { .cmd = QUOTA_ENABLE_SIMPLE };
	_cleanup_fd_ int dir = open(TRIAL_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir >= 0 && ioctl(dir, BTRFS_IOC_QUOTA_CTL, &args) == 0) {
		probe_say(f, PROBE_GOOD, NULL, "btrfs with simple quotas");
		return;
	}
	args.cmd = BTRFS_QUOTA_CTL_ENABLE;
	if (dir >= 0 && ioctl(dir, BTRFS_IOC_QUOTA_CTL, &args) == 0)
		probe_say(f, PROBE_GOOD, NULL,
			  "btrfs with full quota groups (simple quotas come with Linux 6.7 and are "
			  "faster)");
	else
		probe_say(f, PROBE_MISSING, "use a kernel whose btrfs has quotas",
			  "btrfs without quotas: %s", strerrordesc_np(errno));
}

static void try_btrfs(struct probe_finding *f, const char *file)
{
	char device[32];
	_cleanup_fd_ int fd = open(file, O_RDWR | O_CLOEXEC);

	if (!run_mkfs(file)) {
		probe_say(f, PROBE_MISSING, "apt-get install btrfs-progs",
			  "mkfs.btrfs does not run");
		return;
	}
	_cleanup_fd_ int loop = attach_loop(fd, device);
	if (loop < 0) {
		probe_say(f, PROBE_MISSING,
			  "modprobe loop; a container needs /dev/loop-control and loop "
			  "devices",
			  "no loop device: %s", strerrordesc_np(errno));
		return;
	}
	/* The tmpfs keeps the mount point out of everybody's sight. */
	if (mount("airlock", "/run", "tmpfs", 0, "size=1m") < 0 || mkdir(TRIAL_DIR, 0700) < 0 ||
	    mount(device, TRIAL_DIR, "btrfs", 0, NULL) < 0) {
		probe_say(f, PROBE_MISSING, "modprobe btrfs, or use a kernel that has it",
			  "btrfs cannot be mounted: %s", strerrordesc_np(errno));
		return;
	}
	try_quota(f);
}

static void probe_quota(struct probe_finding *f)
{
	char file[] = "/var/tmp/airlock-doctor-XXXXXX";

	if (!own_mounts(f))
		return;
	_cleanup_fd_ int fd = mkostemp(file, O_CLOEXEC);
	if (fd < 0 || ftruncate(fd, TRIAL_BYTES) < 0)
		probe_say(f, PROBE_UNKNOWN, NULL, "no file for the trial in /var/tmp: %s",
			  strerrordesc_np(errno));
	else
		try_btrfs(f, file);
	if (fd >= 0)
		unlink(file);
}

/* Of the state directory, or of what there is of the way to it. */
static void probe_space(struct probe_finding *f)
{
	const struct state_choice choice = { NULL, NULL };
	struct statvfs fs;
	struct err err;
	_cleanup_free_ char *dir = state_find(&choice, &err);

	if (!dir) {
		probe_say(f, PROBE_UNKNOWN, NULL, "%s", err.text);
		return;
	}
	while (statvfs(dir, &fs) < 0) {
		char *slash = errno == ENOENT ? strrchr(dir, '/') : NULL;
		if (!slash || (slash == dir && !slash[1])) {
			probe_say(f, PROBE_UNKNOWN, NULL, "%s: %s", dir, strerrordesc_np(errno));
			return;
		}
		slash[slash == dir] = '\0';
	}
	unsigned long long mb = (unsigned long long)fs.f_bavail * fs.f_frsize >> 20;
	probe_say(f, mb < 4096 ? PROBE_NOTE : PROBE_GOOD,
		  mb < 4096 ? "the volume of the workspaces is allocated at once; set "
			      "SANDBOX_VOLUME_SIZE_MB"
			    : NULL,
		  "%llu MB free in %s", mb, dir);
}

const struct probe doctor_mount_probes[] = {
	{ "private /proc", "a sandbox sees only its own processes", true, probe_procfs },
	{ "idmapped mounts", "no two sandboxes share an owner", true, probe_idmap },
	{ "hard quota", "a full workspace hurts only its owner; copies cost nothing", true,
	  probe_quota },
	{ "disk space", "workspaces and images", false, probe_space },
};
const size_t n_doctor_mount_probes = ARRAY_SIZE(doctor_mount_probes);
