// SPDX-License-Identifier: Apache-2.0
/*
 * Images: images/<name>, read-only, and clones/t<tenant>.<name>, a tenant's copy-on-write clone
 * with inodes of its own. A clone knows its image by the image's uuid, so one that was made of an
 * earlier image of the same name is noticed and replaced.
 *
 * Adding: <name>.creating is made, tar fills it in a cage (volume-program.c), the mount
 * points that every sandbox needs are checked, everything is written to disk, the tree is sealed
 * and gets its name. The tar may be hostile: nothing in the new tree is opened by path, and nothing
 * in it is trusted but that these few names are directories.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/fd.h"
#include "base/str.h"
#include "launcher/volume-backend.h"

#define XATTR_SOURCE "trusted.airlock.source"

/* Where a sandbox's own mounts go. A link there would lead them astray. */
static const char *const mount_points[] = {
	"dev", "proc", "sys", "run", "tmp", "workspace", "snapshot",
};

/* How tar is told what it gets, by the first bytes of the file. */
static const struct packing {
	const char *magic;
	size_t len;
	const char *option;
} packings[] = {
	{ "\x1f\x8b", 2, "--gzip" },
	{ "\xfd\x37zXZ", 5, "--xz" },
	{ "\x28\xb5\x2f\xfd", 4, "--zstd" },
	{ "", 0, "--warning=no-timestamp" }, /* not packed */
};

static bool ends_with(struct str name, struct str suffix)
{
	return name.len >= suffix.len && str_eq(str_from(name, name.len - suffix.len), suffix);
}

static int need_image_name(const char *image, struct err *err)
{
	struct str name = { image, strnlen(image, MSG_IMAGE_NAME) };
	bool ok = name.len > 0 && name.len < MSG_IMAGE_NAME && image[0] != '.' && image[0] != '-';

	for (size_t i = 0; ok && i < name.len; i++) {
		char c = image[i];

		ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		     c == '.' || c == '_' || c == '-' || c == ':';
	}
	if (!ok || ends_with(name, STR(VOLUME_CREATING)) || ends_with(name, STR(VOLUME_DELETING)))
		return err_set(err, EINVAL, "that is no name of an image");
	return 0;
}

static int open_image(struct volumes *v, const char *image, int *ret_fd, struct err *err)
{
	int r = need_image_name(image, err);

	return r < 0 ? r : volume_open_folder(v->images_fd, image, ret_fd, err);
}

bool image_exists(struct volumes *v, const char *image)
{
	_cleanup_fd_ int fd = -1;
	struct err ignored;

	return open_image(v, image, &fd, &ignored) == 0;
}

/* ---- clones ---------------------------------------------------------------------------------- */

int image_open_for_tenant(struct volumes *v, const char *image, uint32_t tenant, int *ret_fd,
			  bool *ret_own, struct err *err)
{
	const struct volume_backend *backend = volume_backend(v);
	_cleanup_fd_ int source = -1, clone = -1;
	char name[MSG_IMAGE_NAME + 16];
	struct err missing;
	int r = open_image(v, image, &source, err);

	if (r < 0)
		return r;
	if (!backend->clone) {
		*ret_fd = take_fd(&source);
		*ret_own = false;
		return 0;
	}
	snprintf(name, sizeof(name), "t%u.%.63s", tenant, image);
	r = volume_open_folder(v->clones_fd, name, &clone, &missing);
	if (r == 0 && !backend->is_clone_of(clone, source)) {
		fd_close(&clone);
		r = volume_set_aside(v->clones_fd, name, err);
		if (r < 0 && r != -ENOENT)
			return r;
	}
	if (clone < 0) {
		r = backend->clone(v, source, v->clones_fd, name, NULL, 0, err);
		if (r == 0)
			r = volume_open_folder(v->clones_fd, name, &clone, err);
		if (r < 0)
			return r;
	}
	*ret_fd = take_fd(&clone);
	*ret_own = true;
	return 0;
}

/* ---- adding ---------------------------------------------------------------------------------- */

static int open_tar(const char *path, int *ret_fd, const char **ret_option, struct err *err)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const struct packing *p = packings;
	char head[8] = { 0 };
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "opening %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, EINVAL, "%s is not a regular file", path);
	if (pread(fd, head, sizeof(head), 0) < 0)
		return err_errno(err, "reading %s", path);
	while (memcmp(head, p->magic, p->len) != 0)
		p++;
	*ret_option = p->option;
	*ret_fd = take_fd(&fd);
	return 0;
}

/* tar in a cage whose only writable place is the tree. Modes lose set-id bits and what umask takes.
 */
static int unpack(int tree, int tar, const char *option, struct err *err)
{
	const char *const argv[] = {
		"/usr/bin/tar",
		"--extract",
		"--file=-",
		option,
		"--no-same-owner",
		"--numeric-owner",
		"--no-same-permissions",
		"--no-xattrs",
		"--no-acls",
		"--no-selinux",
		"--delay-directory-restore",
		"--exclude=./dev/*",
		"--exclude=dev/*",
		NULL,
	};
	_cleanup_fd_ int cage =
		open_tree(tree, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (cage < 0)
		return err_errno(err, "preparing to unpack");
	struct volume_program program = { .argv = argv, .input = tar, .cage = cage };
	return volume_program_run(&program, err);
}

static int check_mount_points(int tree, struct err *err)
{
	for (size_t i = 0; i < sizeof(mount_points) / sizeof(mount_points[0]); i++) {
		const char *name = mount_points[i];
		struct stat st;

		if (mkdirat(tree, name, 0755) < 0 && errno != EEXIST)
			return err_errno(err, "making the mount point /%s", name);
		if (fstatat(tree, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return err_errno(err, "looking at /%s", name);
		if (!S_ISDIR(st.st_mode))
			return err_set(err, EINVAL, "/%s of the image is not a directory", name);
	}
	return 0;
}

/* An unpacked tree gets half of what is free, so that a bomb does not fill the volume. */
static int make_tree(struct volumes *v, const char *making, int *ret_fd, struct err *err)
{
	_cleanup_fd_ int fd = -1;
	uint64_t bytes, available;
	int r = volumes_space(v, &bytes, &available, err);

	if (r == 0)
		r = volume_backend(v)->make(v, v->images_fd, making, NULL, available / 2, err);
	if (r == 0)
		r = volume_open_folder(v->images_fd, making, &fd, err);
	if (r < 0)
		return r;
	if (fchown(fd, IMAGE_OWNER, IMAGE_OWNER) < 0 || fchmod(fd, 0755) < 0)
		return err_errno(err, "preparing %s", making);
	*ret_fd = take_fd(&fd);
	return 0;
}

/* Which file an image came from: enough to see that another one was built since. */
struct source {
	uint64_t size;
	int64_t mtime_ns;
};

static int source_of(int tar, struct source *ret)
{
	struct stat st;

	if (fstat(tar, &st) < 0)
		return -errno;
	ret->size = (uint64_t)st.st_size;
	ret->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	return 0;
}

bool image_is_current(struct volumes *v, const char *image, const char *tar_path)
{
	_cleanup_fd_ int tar = open(tar_path, O_RDONLY | O_CLOEXEC);
	_cleanup_fd_ int tree = -1;
	struct source now = { 0 }, then = { 0 };
	struct err ignored;

	if (volume_open_folder(v->images_fd, image, &tree, &ignored) < 0)
		return false;
	if (tar < 0 || source_of(tar, &now) < 0)
		return true; /* nothing to replace it with */
	return fgetxattr(tree, XATTR_SOURCE, &then, sizeof(then)) == sizeof(then) &&
	       then.size == now.size && then.mtime_ns == now.mtime_ns;
}

/* Fills <making> and makes it <image>. */
static int add_tree(struct volumes *v, const char *image, const char *making, int tar,
		    const char *option, struct err *err)
{
	_cleanup_fd_ int tree = -1;
	int r = make_tree(v, making, &tree, err);

	if (r == 0)
		r = unpack(tree, tar, option, err);
	if (r == 0)
		r = check_mount_points(tree, err);
	if (r < 0)
		return r;
	struct source source;
	if (source_of(tar, &source) < 0 ||
	    fsetxattr(tree, XATTR_SOURCE, &source, sizeof(source), 0) < 0)
		return err_errno(err, "noting where it came from");
	/* The data first: a name that survives a power cut must not stand for empty files. */
	if (syncfs(tree) < 0)
		return err_errno(err, "writing it to disk");
	r = volume_backend(v)->seal(v, tree, err);
	if (r < 0)
		return r;
	if (renameat2(v->images_fd, making, v->images_fd, image, RENAME_NOREPLACE) < 0)
		return err_errno(err, "giving it its name");
	return 0;
}

int image_add(struct volumes *v, const char *image, const char *tar_path, struct err *err)
{
	_cleanup_fd_ int tar = -1;
	char making[MSG_IMAGE_NAME + 16];
	const char *option = NULL;
	struct err ignored;
	int r = need_image_name(image, err);

	if (r < 0)
		return r;
	if (image_exists(v, image))
		return err_set(err, EEXIST, "there is an image %s already", image);
	r = open_tar(tar_path, &tar, &option, err);
	if (r < 0)
		return r;
	snprintf(making, sizeof(making), "%.63s" VOLUME_CREATING, image);
	r = add_tree(v, image, making, tar, option, err);
	if (r == 0)
		return 0;
	if (r != -EEXIST) /* then it is somebody else's */
		volume_set_aside(v->images_fd, making, &ignored);
	return err_wrap(err, "adding the image %s from %s", image, tar_path);
}

/* ---- removing -------------------------------------------------------------------------------- */

struct remove_clones {
	const char *image;
	struct err *err;
};

static int remove_clone(void *data, int folder, const char *name)
{
	const struct remove_clones *rc = data;
	const char *dot = strchr(name, '.');

	if (!dot || strcmp(dot + 1, rc->image) != 0)
		return 0;
	int r = volume_set_aside(folder, name, rc->err);
	return r == -ENOENT ? 0 : r;
}

int image_remove(struct volumes *v, const char *image, struct err *err)
{
	struct remove_clones rc = { image, err };
	int r = need_image_name(image, err);

	if (r == 0)
		r = volume_set_aside(v->images_fd, image, err);
	if (r < 0)
		return r;
	return volume_scan(v->clones_fd, remove_clone, &rc, err);
}
