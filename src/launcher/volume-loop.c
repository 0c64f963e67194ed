// SPDX-License-Identifier: Apache-2.0
/*
 * <state>/volumes.img: a file with a btrfs of its own, mounted at <state>/mnt.
 *
 * Making it: everything is done on volumes.img.new (allocate, mkfs, attach, mount, quota), which
 * gets its name at the very end; what a crash leaves is removed by the next start. The file is
 * allocated in full, because running out of space beneath a file system is an I/O error for
 * everybody in it, and mounted without discard, which would give the space back bit by bit.
 *
 * The open file carries a lock, and the loop device holds the open file: the lock goes when the
 * last mount of an earlier launcher is gone, and until then nobody else can mount the same blocks.
 * The loop device ends itself (autoclear).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/xattr.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "launcher/volume-backend.h"

#define IMG "volumes.img"
#define IMG_NEW "volumes.img.new"
#define MOUNT_POINT "mnt"
#define XATTR_QUOTA "trusted.airlock.quota"
#define LOOP_BLOCK 4096
#define SIZE_MIN (256ull * MIB)
#define SIZE_DEFAULT (20ull * 1024 * MIB)
#define LOOP_TRIES 64

/* ---- the file -------------------------------------------------------------------------------- */

static int img_lock(int fd, struct err *err)
{
	return volume_lock(fd,
			   IMG " is mounted by another server, or by sandboxes of an earlier one "
			       "that have not ended",
			   err);
}

static int img_size(int state, uint64_t wanted, uint64_t *ret_size, struct err *err)
{
	struct statvfs fs;

	if (fstatvfs(state, &fs) < 0)
		return err_errno(err, "asking for free space");
	uint64_t available = (uint64_t)fs.f_bavail * fs.f_frsize;
	uint64_t size = wanted			       ? wanted
			: available / 4 < SIZE_DEFAULT ? available / 4
						       : SIZE_DEFAULT;

	size -= size % MIB;
	if (size < SIZE_MIN || size > available)
		return err_set(err, ENOSPC,
			       "the volume of the workspaces would have %llu MiB; it needs "
			       "at least %llu, and %llu MiB are free",
			       (unsigned long long)(size / MIB), SIZE_MIN / MIB,
			       (unsigned long long)(available / MIB));
	*ret_size = size;
	return 0;
}

static int img_format(int fd, struct err *err)
{
	/* --nodiscard: or it would give the allocation back. */
	static const char *const argv[] = {
		"/usr/sbin/mkfs.btrfs",
		"--quiet",
		"--nodiscard",
		"--label",
		"airlock",
		"--data",
		"single",
		"--metadata",
		"single",
		"/proc/self/fd/0",
		NULL,
	};
	struct volume_program mkfs = { .argv = argv, .input = fd, .cage = -1 };
	int r = volume_program_run(&mkfs, err);

	return r < 0 ? err_wrap(err, "making a file system in " IMG " (btrfs-progs)") : 0;
}

/* What an interrupted start left; its space is free only when nothing of it is mounted any more. */
static int img_remove_unfinished(int state, struct err *err)
{
	_cleanup_fd_ int fd = openat(state, IMG_NEW, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	int r = fd >= 0 ? img_lock(fd, err) : 0;

	if (r == 0 && unlinkat(state, IMG_NEW, 0) < 0 && errno != ENOENT)
		r = err_errno(err, "removing an unfinished " IMG_NEW);
	return r;
}

static int img_make(int state, uint64_t wanted, int *ret_fd, struct err *err)
{
	_cleanup_fd_ int fd = -1;
	uint64_t size = 0;
	int r = img_remove_unfinished(state, err);

	if (r == 0)
		r = img_size(state, wanted, &size, err);
	if (r < 0)
		return r;
	fd = openat(state, IMG_NEW, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, "creating " IMG_NEW);
	if (fallocate(fd, 0, 0, (off_t)size) < 0)
		return err_errno(err, "allocating %llu MiB for " IMG,
				 (unsigned long long)(size / MIB));
	r = img_lock(fd, err);
	if (r == 0)
		r = img_format(fd, err);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

static int img_open(int state, int *ret_fd, struct err *err)
{
	_cleanup_fd_ int fd = openat(state, IMG, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "opening " IMG);
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
		return err_set(err, EPERM,
			       IMG " is not a file of root's, closed to others (mode 0600)");
	int r = img_lock(fd, err);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

/* The kind of quota is noted beside the file, because a kernel that does not know it can't tell. */
static enum msg_quota img_quota(int fd)
{
	char text[16] = "";

	if (fgetxattr(fd, XATTR_QUOTA, text, sizeof(text) - 1) < 0)
		return MSG_QUOTA_NONE;
	return strcmp(text, "simple") == 0 ? MSG_QUOTA_SIMPLE
	       : strcmp(text, "full") == 0 ? MSG_QUOTA_FULL
					   : MSG_QUOTA_NONE;
}

static int img_note_quota(int fd, enum msg_quota quota, struct err *err)
{
	const char *text = quota == MSG_QUOTA_SIMPLE ? "simple" : "full";

	if (fsetxattr(fd, XATTR_QUOTA, text, strlen(text), 0) < 0)
		return err_errno(err, "noting the kind of quota at " IMG);
	return 0;
}

/* ---- the loop device and the mount ----------------------------------------------------------- */

static int loop_attach(int img, char ret_path[static 32], int *ret_fd, bool *ret_direct,
		       struct err *err)
{
	_cleanup_fd_ int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	struct loop_config config = {
		.fd = (uint32_t)img,
		.block_size = LOOP_BLOCK,
		.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
	};
	struct loop_info64 info;

	if (control < 0)
		return err_errno(err, "opening /dev/loop-control");
	snprintf((char *)config.info.lo_file_name, sizeof(config.info.lo_file_name), "airlock");
	for (int i = 0; i < LOOP_TRIES; i++) {
		int number = ioctl(control, LOOP_CTL_GET_FREE);

		if (number < 0)
			return err_errno(err, "finding a free loop device");
		snprintf(ret_path, 32, "/dev/loop%d", number);
		_cleanup_fd_ int fd = open(ret_path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return err_errno(err, "opening %s", ret_path);
		if (ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
			/* On some file systems the flag is dropped in silence. */
			*ret_direct = ioctl(fd, LOOP_GET_STATUS64, &info) == 0 &&
				      (info.lo_flags & LO_FLAGS_DIRECT_IO);
			*ret_fd = take_fd(&fd);
			return 0;
		}
		if (errno != EBUSY) /* somebody else was faster */
			return err_errno(err, "setting up %s", ret_path);
	}
	return err_set(err, EBUSY, "no loop device could be had");
}

static int mount_device(int state, const char *device, int *ret_root, struct err *err)
{
	_cleanup_fd_ int fs = fsopen("btrfs", FSOPEN_CLOEXEC), mount = -1, root = -1;

	if (fs < 0)
		return err_errno(err, "the kernel has no btrfs (modprobe btrfs)");
	if (fsconfig(fs, FSCONFIG_SET_STRING, "source", device, 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_FLAG, "nodiscard", NULL, 0) < 0 ||
	    fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_errno(err, "mounting " IMG);
	mount = fsmount(fs, FSMOUNT_CLOEXEC,
			MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME);
	if (mount < 0)
		return err_errno(err, "mounting " IMG);
	if (mkdirat(state, MOUNT_POINT, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "making the mount point " MOUNT_POINT);
	root = openat(state, MOUNT_POINT, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (root < 0 ||
	    move_mount(mount, "", root, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return err_errno(err, "mounting " IMG " at " MOUNT_POINT);
	return volume_open_folder(mount, ".", ret_root, err);
}

static void unmount(int state)
{
	char path[64];
	_cleanup_fd_ int mnt =
		openat(state, MOUNT_POINT, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", mnt);
	umount2(path, MNT_DETACH);
}

static int wrap_mount_error(enum msg_quota quota, struct err *err)
{
	struct utsname host;

	if (quota != MSG_QUOTA_SIMPLE || uname(&host) < 0)
		return -err->code;
	return err_wrap(err,
			IMG
			" is damaged, or this kernel (%s) is older than 6.7 and cannot mount it",
			host.release);
}

int volume_loop_open(struct volumes *v, int state, const struct volumes_config *config,
		     struct err *err)
{
	_cleanup_fd_ int img = -1, loop = -1, root = -1;
	char device[32];
	enum msg_quota noted, quota;
	bool fresh = faccessat(state, IMG, F_OK, AT_SYMLINK_NOFOLLOW) < 0, direct = false;
	int r = fresh ? img_make(state, config->size_bytes, &img, err) : img_open(state, &img, err);

	if (r < 0)
		return r;
	noted = quota = img_quota(img);
	r = loop_attach(img, device, &loop, &direct, err);
	if (r == 0)
		r = mount_device(state, device, &root, err);
	if (r < 0)
		return wrap_mount_error(noted, err);
	struct err ignored;
	volumes_take_all(root, &ignored); /* the file may have grown; smaller is good enough */
	r = volume_btrfs_quota_start(root, &quota, err);
	if (r == 0 && quota != noted && quota != MSG_QUOTA_NONE)
		r = img_note_quota(img, quota, err);
	if (r == 0 && fresh && renameat2(state, IMG_NEW, state, IMG, RENAME_NOREPLACE) < 0)
		r = err_errno(err, "giving " IMG " its name");
	if (r < 0) {
		unmount(state);
		return r;
	}
	v->kind = MSG_VOLUMES_BTRFS;
	v->quota = quota;
	v->direct_io = direct;
	v->root_fd = take_fd(&root);
	return 0;
}
