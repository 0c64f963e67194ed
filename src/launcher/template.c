// SPDX-License-Identifier: Apache-2.0
#include "launcher/template.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "ipc/wire.h"
#include "sandbox/knobs.h"
#include "sandbox/plan.h"

#define ENTRIES_MAX 32
#define FLAGS_IMAGE (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

struct entry {
	char name[64];
	int mount;	  /* owned: a detached clone of a folder; -1 for a link or an empty one */
	char target[128]; /* of a link */
};

struct report {
	int code;
	char text[200];
};

static struct entry entries[ENTRIES_MAX];
static size_t n_entries;

static int set_flags(int mount, uint64_t flags, struct err *err)
{
	struct mount_attr attr = { .attr_set = flags };

	if (mount_setattr(mount, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return err_errno(err, "mount_setattr");
	return 0;
}

static bool is_skipped(const char *name)
{
	for (const char *const *s = plan_image_skip; *s; s++)
		if (!strcmp(*s, name))
			return true;
	return false;
}

/* A folder becomes a detached mount, a link is kept as a link, anything else is left out. */
static int take_entry(int image, const char *name, struct err *err)
{
	struct entry *e = &entries[n_entries];
	struct open_how how = { .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
					   RESOLVE_NO_XDEV };
	struct stat st;

	if (n_entries == ENTRIES_MAX || strlen(name) >= sizeof(e->name))
		return err_set(
			err, E2BIG,
			"the image has too many entries in its root, or one with a long name");
	memcpy(e->name, name, strlen(name) + 1);
	e->mount = -1;
	if (fstatat(image, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, "image: %s", name);
	if (S_ISLNK(st.st_mode)) {
		ssize_t n = readlinkat(image, name, e->target, sizeof(e->target) - 1);
		if (n <= 0 || (size_t)n == sizeof(e->target) - 1)
			return err_set(err, ENAMETOOLONG, "image: the link %s is too long", name);
		e->target[n] = '\0';
		n_entries++;
		return 0;
	}
	if (!S_ISDIR(st.st_mode))
		return 0;
	e->target[0] = '\0';
	/* btrfs says so of an empty folder; a mount of nothing would only cost each sandbox. */
	if (st.st_size == 0) {
		n_entries++;
		return 0;
	}
	_cleanup_fd_ int fd = (int)syscall(SYS_openat2, image, name, &how, sizeof(how));
	if (fd < 0)
		return err_errno(err, "image: %s", name);
	_cleanup_fd_ int mount =
		open_tree(fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (mount < 0)
		return err_errno(err, "image: open_tree %s", name);
	if (!knob_off(KNOB_READ_ONLY)) {
		int r = set_flags(mount, FLAGS_IMAGE, err);
		if (r < 0)
			return r;
	}
	e->mount = take_fd(&mount);
	n_entries++;
	return 0;
}

static int take_image(int image, struct err *err)
{
	static char list[8192] __attribute__((aligned(8)));
	_cleanup_fd_ int dir = openat(image, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ssize_t n;

	if (dir < 0)
		return err_errno(err, "cannot open the image");
	while ((n = getdents64(dir, list, sizeof(list))) > 0)
		for (ssize_t at = 0; at < n;) {
			struct dirent64 *d = (struct dirent64 *)(void *)(list + at);
			at += d->d_reclen;
			int r = is_skipped(d->d_name) ? 0 : take_entry(image, d->d_name, err);
			if (r < 0)
				return r;
		}
	return n < 0 ? err_errno(err, "cannot list the image") : 0;
}

static int make_tmpfs(const char *options[][2], uint64_t flags, int *ret_mount, struct err *err)
{
	_cleanup_fd_ int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);

	if (fs < 0)
		return err_errno(err, "fsopen tmpfs");
	for (; (*options)[0]; options++)
		if (fsconfig(fs, FSCONFIG_SET_STRING, (*options)[0], (*options)[1], 0) < 0)
			return err_errno(err, "tmpfs option %s", (*options)[0]);
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_errno(err, "cannot make a tmpfs");
	int mount = fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)flags);
	if (mount < 0)
		return err_errno(err, "fsmount tmpfs");
	*ret_mount = mount;
	return 0;
}

static int attach(int mount, int root, const char *name, struct err *err)
{
	if (move_mount(mount, "", root, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_errno(err, "cannot attach %s", name);
	return 0;
}

static int fill_root(int root, struct err *err)
{
	for (const char *const *f = plan_folders; *f; f++)
		if (mkdirat(root, *f, 0755) < 0)
			return err_errno(err, "mkdir %s", *f);
	for (size_t i = 0; i < n_entries; i++) {
		struct entry *e = &entries[i];
		if (e->target[0]) {
			if (symlinkat(e->target, root, e->name) < 0)
				return err_errno(err, "symlink %s", e->name);
			continue;
		}
		if (mkdirat(root, e->name, 0755) < 0)
			return err_errno(err, "mkdir %s", e->name);
		int r = e->mount < 0 ? 0 : attach(e->mount, root, e->name, err);
		if (r < 0)
			return r;
		fd_close(&e->mount);
	}
	return 0;
}

static int fill_dev(int root, struct err *err)
{
	const char *options[][2] = {
		{ "size", "64k" }, { "nr_inodes", "32" }, { "mode", "0755" }, { NULL, NULL }
	};
	_cleanup_fd_ int dev = -1;
	int r = make_tmpfs(options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NOATIME,
			   &dev, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < plan_n_devices; i++) {
		const struct plan_device *d = &plan_devices[i];
		if (mknodat(dev, d->name, S_IFCHR | 0666, makedev(d->major, d->minor)) < 0)
			return err_errno(err, "mknod %s", d->name);
	}
	for (size_t i = 0; i < plan_n_dev_links; i++)
		if (symlinkat(plan_dev_links[i].target, dev, plan_dev_links[i].name) < 0)
			return err_errno(err, "symlink %s", plan_dev_links[i].name);
	if (mkdirat(dev, "pts", 0755) < 0 || mkdirat(dev, "shm", 0755) < 0)
		return err_errno(err, "mkdir in /dev");
	r = attach(dev, root, "dev", err);
	return r < 0 ? r : set_flags(dev, MOUNT_ATTR_RDONLY, err);
}

/* A procfs outlives the pid namespace that it shows: after this child is gone it is empty. */
static int fill_proc(int root, struct err *err)
{
	int status;

	if (unshare(CLONE_NEWPID) < 0)
		return err_errno(err, "unshare a pid namespace");
	pid_t pid = fork();
	if (pid < 0)
		return err_errno(err, "fork");
	if (pid == 0) {
		_cleanup_fd_ int fs = fsopen("proc", FSOPEN_CLOEXEC);
		if (fs < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
			_exit(1);
		int mount = fsmount(fs, FSMOUNT_CLOEXEC,
				    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
		if (mount < 0 || move_mount(mount, "", root, "proc", MOVE_MOUNT_F_EMPTY_PATH) < 0)
			_exit(1);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) < 0 || status)
		return err_set(err, EIO, "cannot mount an empty /proc");
	return 0;
}

static int enter_root(int root, struct err *err)
{
	/* Any folder does as the place of the new root: the old tree goes away in a moment. */
	int r = attach(root, AT_FDCWD, "/proc", err);

	if (r < 0)
		return r;
	if (fchdir(root) < 0)
		return err_errno(err, "fchdir");
	return 0;
}

static int leave_host(struct err *err)
{
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return err_errno(err, "pivot_root");
	if (umount2(".", MNT_DETACH) < 0)
		return err_errno(err, "cannot let go of the host's tree");
	return chdir("/") < 0 ? err_errno(err, "chdir") : 0;
}

static int build(int image, struct err *err)
{
	const char *options[][2] = {
		{ "size", "64k" }, { "nr_inodes", "64" }, { "mode", "0755" }, { NULL, NULL }
	};
	_cleanup_fd_ int root = -1;
	int r = take_image(image, err);

	if (r < 0)
		return r;
	umask(0);
	if (unshare(CLONE_NEWNS) < 0)
		return err_errno(err, "unshare a mount namespace");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_errno(err, "cannot make the mounts private");
	r = make_tmpfs(options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, &root, err);
	if (r == 0)
		r = enter_root(root, err);
	if (r == 0)
		r = fill_root(root, err);
	if (r == 0)
		r = fill_dev(root, err);
	if (r == 0)
		r = fill_proc(root, err);
	if (r == 0)
		r = leave_host(err);
	if (r == 0 && !knob_off(KNOB_READ_ONLY))
		r = set_flags(root, MOUNT_ATTR_RDONLY, err);
	return r;
}

static _Noreturn void maker(int image, int out)
{
	struct report report = { 0 };
	struct err err;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	int r = build(image, &err);
	if (r < 0) {
		report.code = -r;
		snprintf(report.text, sizeof(report.text), "%.199s", err.text);
	}
	/* Stays until the builder has opened the namespace and lets go of its end. */
	if (write(out, &report, sizeof(report)) == sizeof(report))
		(void)!read(out, &byte, 1);
	_exit(0);
}

int template_make(int image, int *ret_namespace, struct err *err)
{
	_cleanup_fd_ int mine = -1, theirs = -1;
	struct report report;
	char path[64];
	int socks[2];
	int r = wire_pair_open(socks, err);

	if (r < 0)
		return r;
	mine = socks[0];
	theirs = socks[1];
	/* This pair is waited on. */
	fcntl(mine, F_SETFL, 0);
	fcntl(theirs, F_SETFL, 0);
	n_entries = 0;
	pid_t pid = fork();
	if (pid < 0)
		return err_errno(err, "fork");
	if (pid == 0) {
		fd_close(&mine);
		maker(image, theirs);
	}
	fd_close(&theirs);
	if (read(mine, &report, sizeof(report)) != sizeof(report)) {
		r = err_set(err, EPIPE, "the template maker died");
	} else if (report.code) {
		report.text[sizeof(report.text) - 1] = '\0';
		r = err_set(err, report.code, "template: %s", report.text);
	} else {
		snprintf(path, sizeof(path), "/proc/%d/ns/mnt", pid);
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		r = fd < 0 ? err_errno(err, "cannot open the template") : 0;
		if (r == 0)
			*ret_namespace = fd;
	}
	fd_close(&mine);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return r;
}
