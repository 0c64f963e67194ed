// SPDX-License-Identifier: Apache-2.0
/*
 * btrfs: subvolumes and quota groups, by ioctl.
 *
 * Simple quotas (Linux 6.7): an extent is charged, for as long as anything refers to it, to the
 * subvolume that wrote it, also when that one is gone. So the limit of a workspace sits on a group
 * of its session, 1/N, which the subvolume is born into and which outlives it for as long as
 * snapshots and copies hold what it wrote; and every 1/N, and every snapshot, is a member of its
 * tenant's group 2/T, whose limit bounds what a chain of copies and deletions could pile up. Full
 * qgroups (older kernels) charge everybody for what they share, and parents would make the
 * accounting inconsistent at the next snapshot, and then no limit of any tenant would hold: so
 * there is no parent, the limit is on the subvolume's own group 0/id, and the kernel's
 * "inconsistent" mark is looked at after every snapshot.
 *
 * Sources: include/uapi/linux/btrfs.h, btrfs_tree.h, fs/btrfs/qgroup.c.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "launcher/kernel.h"
#include "launcher/volume-backend.h"

#define SUBVOLUME_INODE 256 /* BTRFS_FIRST_FREE_OBJECTID: the root directory of every subvolume */
#define SWEEP_STEP 256
#define CLEANER_TRIES 500
#define CLEANER_MS 20
#define GROUP(level, id) ((uint64_t)(level) << BTRFS_QGROUP_LEVEL_SHIFT | (id))

/* ---- searching the file system's own trees --------------------------------------------------- */

struct search {
	int fd;
	struct btrfs_ioctl_search_args args;
	uint32_t left;
	size_t at;
};

struct item {
	struct btrfs_ioctl_search_header head;
	const char *data;
};

static void search_init(struct search *s, int fd, uint64_t tree, uint64_t object, uint32_t type)
{
	*s = (struct search){
		.fd = fd,
		.args.key = { .tree_id = tree,
			      .min_objectid = object,
			      .max_objectid = object,
			      .min_type = type,
			      .max_type = type,
			      .max_offset = UINT64_MAX,
			      .max_transid = UINT64_MAX },
	};
}

/* 1 and the next item, or 0 at the end. */
static int search_next(struct search *s, struct item *item, struct err *err)
{
	struct btrfs_ioctl_search_key *key = &s->args.key;

	if (s->left == 0) {
		key->nr_items = 4096;
		if (ioctl(s->fd, BTRFS_IOC_TREE_SEARCH, &s->args) < 0)
			return err_errno(err, "reading a tree of the file system");
		s->left = key->nr_items;
		s->at = 0;
		if (s->left == 0)
			return 0;
	}
	memcpy(&item->head, s->args.buf + s->at, sizeof(item->head));
	item->data = s->args.buf + s->at + sizeof(item->head);
	s->at += sizeof(item->head) + item->head.len;
	s->left--;
	key->min_offset = item->head.offset + 1;
	if (key->min_offset == 0) /* it was the last one that there can be: an empty range */
		key->min_offset = 1, key->max_offset = 0;
	return 1;
}

static int subvolume_id(int fd, uint64_t *ret_id, struct err *err)
{
	struct btrfs_ioctl_ino_lookup_args args = { .objectid = SUBVOLUME_INODE };

	if (ioctl(fd, BTRFS_IOC_INO_LOOKUP, &args) < 0)
		return err_errno(err, "asking for the number of a subvolume");
	*ret_id = args.treeid;
	return 0;
}

/* ---- quotas ---------------------------------------------------------------------------------- */

/* A file below /sys/fs/btrfs/<uuid>/qgroups; false when there is none. */
static bool quota_fact(int fd, const char *name, char text[static 32])
{
	struct btrfs_ioctl_fs_info_args info = { 0 };
	char path[128];
	const uint8_t *u = info.fsid;

	if (ioctl(fd, BTRFS_IOC_FS_INFO, &info) < 0)
		return false;
	snprintf(
		path, sizeof(path),
		"/sys/fs/btrfs/%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x"
		"/qgroups/%s",
		u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12],
		u[13], u[14], u[15], name);
	_cleanup_fd_ int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = file < 0 ? -1 : read(file, text, 31);
	if (n <= 0)
		return false;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return true;
}

static enum msg_quota quota_measure(int root)
{
	char text[32];

	if (quota_fact(root, "mode", text))
		return strcmp(text, "squota") == 0   ? MSG_QUOTA_SIMPLE
		       : strcmp(text, "qgroup") == 0 ? MSG_QUOTA_FULL
						     : MSG_QUOTA_NONE;
	/* Kernels without this file have full qgroups or none. */
	return quota_fact(root, "enabled", text) && strcmp(text, "1") == 0 ? MSG_QUOTA_FULL
									   : MSG_QUOTA_NONE;
}

static bool quota_inconsistent(int fd)
{
	char text[32];

	return !quota_fact(fd, "inconsistent", text) || strcmp(text, "0") != 0;
}

/* Full qgroups: counts anew when the kernel says that it lost count. */
static int quota_settle(int fd, struct err *err)
{
	struct btrfs_ioctl_quota_rescan_args args = { 0 };

	if (!quota_inconsistent(fd))
		return 0;
	if (ioctl(fd, BTRFS_IOC_QUOTA_RESCAN, &args) < 0 && errno != EINPROGRESS)
		return err_errno(err, "counting the quota groups anew");
	if (ioctl(fd, BTRFS_IOC_QUOTA_RESCAN_WAIT) < 0)
		return err_errno(err, "waiting for the count of the quota groups");
	if (quota_inconsistent(fd))
		return err_set(err, EIO,
			       "the file system's quota groups are inconsistent, no quota holds");
	return 0;
}

int volume_btrfs_quota_start(int root, enum msg_quota *quota, struct err *err)
{
	struct btrfs_ioctl_quota_ctl_args args = { .cmd = BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA };
	int r = -1;

	if (*quota != MSG_QUOTA_FULL)
		r = ioctl(root, BTRFS_IOC_QUOTA_CTL, &args);
	/* A kernel that does not know simple quotas says EINVAL; nothing else is a reason to do
	 * without. */
	if (*quota == MSG_QUOTA_FULL || (r < 0 && errno == EINVAL && *quota == MSG_QUOTA_NONE)) {
		args.cmd = BTRFS_QUOTA_CTL_ENABLE;
		r = ioctl(root, BTRFS_IOC_QUOTA_CTL, &args);
	}
	if (r < 0)
		return err_errno(err, "turning quotas on");
	*quota = quota_measure(root);
	return *quota == MSG_QUOTA_FULL ? quota_settle(root, err) : 0;
}

/* id 0: the subvolume's own. */
static int group_limit(int fd, uint64_t id, uint64_t bytes, struct err *err)
{
	struct btrfs_ioctl_qgroup_limit_args args = {
		.qgroupid = id,
		/* All bits set is what takes a limit away. */
		.lim = { .flags = BTRFS_QGROUP_LIMIT_MAX_RFER,
			 .max_rfer = bytes ? bytes : UINT64_MAX },
	};

	if (ioctl(fd, BTRFS_IOC_QGROUP_LIMIT, &args) < 0)
		return err_errno(err, "setting a quota");
	return 0;
}

static int group_change(int fd, uint64_t id, bool create)
{
	struct btrfs_ioctl_qgroup_create_args args = { .create = create, .qgroupid = id };

	return ioctl(fd, BTRFS_IOC_QGROUP_CREATE, &args);
}

static int group_make(int root, uint64_t id, uint64_t bytes, struct err *err)
{
	if (group_change(root, id, true) < 0 && errno != EEXIST)
		return err_errno(err, "making a quota group");
	return bytes ? group_limit(root, id, bytes, err) : 0;
}

/* Makes the groups that a tree is charged to; *ret is the one that it is born into, 0 for none. */
static int group_prepare(struct volumes *v, const struct volume_charge *charge,
			 uint64_t limit_bytes, uint64_t *ret, struct err *err)
{
	*ret = 0;
	if (!charge || v->quota != MSG_QUOTA_SIMPLE)
		return 0;
	struct btrfs_ioctl_qgroup_assign_args args = {
		.assign = 1,
		.src = GROUP(1, charge->group),
		.dst = GROUP(2, charge->tenant),
	};
	*ret = charge->session ? args.src : args.dst;
	int r = group_make(v->root_fd, args.dst, charge->tenant_bytes, err);
	if (r < 0 || !charge->session)
		return r;
	r = group_make(v->root_fd, args.src, limit_bytes, err);
	if (r == 0 && ioctl(v->root_fd, BTRFS_IOC_QGROUP_ASSIGN, &args) < 0 && errno != EEXIST)
		r = err_errno(err, "charging a session to its tenant");
	return r;
}

/* Reads an item about a quota group; false when there is none. */
static bool group_item(int root, uint64_t object, uint32_t type, uint64_t group, void *data,
		       size_t size)
{
	struct search s;
	struct item item;
	struct err ignored;

	search_init(&s, root, BTRFS_QUOTA_TREE_OBJECTID, object, type);
	s.args.key.min_offset = s.args.key.max_offset = group;
	if (search_next(&s, &item, &ignored) != 1 || item.head.len < size)
		return false;
	if (size)
		memcpy(data, item.data, size);
	return true;
}

/* The kernel ignores the name of a group that it does not know, and then no limit would hold. */
static int group_check_member(int root, int tree, uint64_t parent, struct err *err)
{
	uint64_t id;
	int r = subvolume_id(tree, &id, err);

	if (r == 0 && !group_item(root, id, BTRFS_QGROUP_RELATION_KEY, parent, NULL, 0))
		r = err_set(err, EIO, "a new volume did not get into its quota group");
	return r;
}

int volumes_take_all(int root, struct err *err)
{
	struct btrfs_ioctl_vol_args args = { .name = "1:max" };

	if (ioctl(root, BTRFS_IOC_RESIZE, &args) < 0)
		return err_errno(err, "making the file system larger");
	return 0;
}

/* ---- subvolumes ------------------------------------------------------------------------------ */

/* Empty with source -1, else a snapshot of it. parent 0: born into no group. */
static int subvolume_create(int folder, const char *name, int source, uint64_t flags,
			    uint64_t parent, struct err *err)
{
	_Alignas(struct btrfs_qgroup_inherit) char
		room[sizeof(struct btrfs_qgroup_inherit) + sizeof(uint64_t)] = { 0 };
	struct btrfs_qgroup_inherit *inherit = (void *)room;
	struct btrfs_ioctl_vol_args_v2 args = { .fd = source, .flags = flags };

	if (parent) {
		inherit->num_qgroups = 1;
		inherit->qgroups[0] = parent;
		args.flags |= BTRFS_SUBVOL_QGROUP_INHERIT;
		args.size = sizeof(room);
		args.qgroup_inherit = inherit;
	}
	snprintf(args.name, sizeof(args.name), "%s", name);
	if (ioctl(folder, source < 0 ? BTRFS_IOC_SUBVOL_CREATE_V2 : BTRFS_IOC_SNAP_CREATE_V2,
		  &args) < 0)
		return err_errno(err, "making the subvolume %s", name);
	return 0;
}

static int subvolume_bound(struct volumes *v, int folder, const char *name, uint64_t parent,
			   uint64_t limit_bytes, struct err *err)
{
	_cleanup_fd_ int fd = -1;
	int r = volume_open_folder(folder, name, &fd, err);

	if (r < 0 || v->quota == MSG_QUOTA_NONE)
		return r;
	return parent ? group_check_member(v->root_fd, fd, parent, err)
		      : group_limit(fd, 0, limit_bytes, err);
}

static int btrfs_make(struct volumes *v, int folder, const char *name,
		      const struct volume_charge *charge, uint64_t limit_bytes, struct err *err)
{
	uint64_t parent;
	int r = group_prepare(v, charge, limit_bytes, &parent, err);

	if (r == 0)
		r = subvolume_create(folder, name, -1, 0, parent, err);
	return r < 0 ? r : subvolume_bound(v, folder, name, parent, limit_bytes, err);
}

static int btrfs_seal(struct volumes *v, int tree, struct err *err)
{
	uint64_t flags = BTRFS_SUBVOL_RDONLY;

	if (ioctl(tree, BTRFS_IOC_SUBVOL_SETFLAGS, &flags) < 0)
		return err_errno(err, "making a subvolume read-only");
	return 0;
}

static bool btrfs_is_sealed(int tree)
{
	uint64_t flags = 0;

	return ioctl(tree, BTRFS_IOC_SUBVOL_GETFLAGS, &flags) == 0 && (flags & BTRFS_SUBVOL_RDONLY);
}

static int btrfs_clone(struct volumes *v, int source, int folder, const char *name,
		       const struct volume_charge *charge, uint64_t limit_bytes, struct err *err)
{
	uint64_t parent;
	int r = group_prepare(v, charge, limit_bytes, &parent, err);

	if (r == 0)
		r = subvolume_create(folder, name, source, charge ? 0 : BTRFS_SUBVOL_RDONLY, parent,
				     err);
	if (r == 0 && v->quota == MSG_QUOTA_FULL)
		r = quota_settle(folder, err);
	if (r < 0 || !charge)
		return r;
	/* Full qgroups: a clone begins with its source's limit. */
	return subvolume_bound(v, folder, name, parent, limit_bytes, err);
}

static bool btrfs_is_clone_of(int tree, int source)
{
	struct btrfs_ioctl_get_subvol_info_args clone, image;

	/* Success is 0 or, by an oversight of the kernel's, 1. */
	return ioctl(tree, BTRFS_IOC_GET_SUBVOL_INFO, &clone) >= 0 &&
	       ioctl(source, BTRFS_IOC_GET_SUBVOL_INFO, &image) >= 0 &&
	       memcmp(clone.parent_uuid, image.uuid, sizeof(image.uuid)) == 0;
}

/* ---- deleting -------------------------------------------------------------------------------- */

/* The number of some subvolume that hangs below this one; 0 when there is none. */
static int first_nested(int root, uint64_t id, uint64_t *ret_id, struct err *err)
{
	struct search s;
	struct item item;

	search_init(&s, root, BTRFS_ROOT_TREE_OBJECTID, id, BTRFS_ROOT_REF_KEY);
	int r = search_next(&s, &item, err);
	if (r >= 0)
		*ret_id = r > 0 ? item.head.offset : 0;
	return r < 0 ? r : 0;
}

/* Deletes whatever subvolumes lie below this one, the deepest first. Tenants can't make any while
 * their seccomp filter holds. */
static int delete_nested(int root, uint64_t id, struct err *err)
{
	for (;;) {
		uint64_t deepest = id, below = 0;

		do {
			int r = first_nested(root, deepest, &below, err);
			if (r < 0)
				return r;
			if (below)
				deepest = below;
		} while (below);
		if (deepest == id)
			return 0;
		struct btrfs_ioctl_vol_args_v2 args = { .flags = BTRFS_SUBVOL_SPEC_BY_ID,
							.subvolid = deepest };
		if (ioctl(root, BTRFS_IOC_SNAP_DESTROY_V2, &args) < 0)
			return err_errno(err, "deleting a nested subvolume");
	}
}

static int btrfs_destroy(struct volumes *v, int folder, const char *name, struct err *err)
{
	_cleanup_fd_ int fd = -1;
	struct btrfs_ioctl_vol_args_v2 args = { 0 };
	struct stat st;
	uint64_t id;
	int r = volume_open_folder(folder, name, &fd, err);

	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return err_errno(err, "looking at %s", name);
	if (st.st_ino != SUBVOLUME_INODE)
		return volume_plain.destroy(v, folder, name, err);
	r = subvolume_id(fd, &id, err);
	if (r == 0)
		r = delete_nested(v->root_fd, id, err);
	if (r < 0)
		return r;
	fd_close(&fd); /* the cleaner waits for the last user */
	snprintf(args.name, sizeof(args.name), "%s", name);
	if (ioctl(folder, BTRFS_IOC_SNAP_DESTROY_V2, &args) < 0)
		return err_errno(err, "deleting the subvolume %s", name);
	v->destroyed = id;
	return 0;
}

/* ---- usage and the groups that deleted trees leave behind ------------------------------------- */

/* The group whose counter and limit are the volume's. */
static int volume_group(struct volumes *v, int tree, const struct volume_charge *charge,
			uint64_t *ret, struct err *err)
{
	if (v->quota == MSG_QUOTA_NONE)
		return err_set(err, EOPNOTSUPP, "the file system has no quotas");
	*ret = GROUP(1, charge->group);
	return charge->session && v->quota == MSG_QUOTA_SIMPLE ? 0 : subvolume_id(tree, ret, err);
}

static int btrfs_limit(struct volumes *v, int tree, const struct volume_charge *charge,
		       uint64_t limit_bytes, struct err *err)
{
	uint64_t id;
	int r = volume_group(v, tree, charge, &id, err);

	return r < 0 ? r : group_limit(v->root_fd, id, limit_bytes, err);
}

static int btrfs_usage(struct volumes *v, int tree, const struct volume_charge *charge,
		       uint64_t *ret_used, uint64_t *ret_limit, struct err *err)
{
	struct btrfs_qgroup_info_item info;
	struct btrfs_qgroup_limit_item limit;
	uint64_t id;
	int r = volume_group(v, tree, charge, &id, err);

	if (r < 0)
		return r;
	if (!group_item(v->root_fd, 0, BTRFS_QGROUP_INFO_KEY, id, &info, sizeof(info)))
		return err_set(err, ENOENT, "the volume has no quota group");
	bool limited =
		group_item(v->root_fd, 0, BTRFS_QGROUP_LIMIT_KEY, id, &limit, sizeof(limit)) &&
		(le64toh(limit.flags) & BTRFS_QGROUP_LIMIT_MAX_RFER);
	*ret_used = le64toh(info.rfer);
	*ret_limit = limited ? le64toh(limit.max_rfer) : 0;
	return 0;
}

/* 1 when the tree of a group 0/id exists, also while the cleaner is taking it apart. */
static int subvolume_exists(int root, uint64_t id, struct err *err)
{
	struct search s;
	struct item item;

	search_init(&s, root, BTRFS_ROOT_TREE_OBJECTID, id, BTRFS_ROOT_ITEM_KEY);
	return search_next(&s, &item, err);
}

static bool session_exists(struct volumes *v, uint64_t group)
{
	char name[MSG_VOLUME_NAME];

	snprintf(name, sizeof(name), "sbx_%012llx",
		 (unsigned long long)(group & (GROUP(1, 0) - 1)));
	return faccessat(v->volumes_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* What a tree held is taken off its group when the transaction ends in which the cleaner was done.
 * Full qgroups would let the group go before that, and be inconsistent from then on. */
static bool group_is_empty(const struct item *item)
{
	struct btrfs_qgroup_info_item info;

	memcpy(&info, item->data, sizeof(info));
	return !info.rfer;
}

/* Groups of trees come first in the order of numbers, then those of sessions, then those of
 * tenants. What still has bytes, or members (EBUSY), stays for another round. */
static int btrfs_sweep(struct volumes *v, struct err *err)
{
	struct search s;
	struct item item;
	int r = 0;

	if (v->quota == MSG_QUOTA_NONE)
		return 0;
	search_init(&s, v->root_fd, BTRFS_QUOTA_TREE_OBJECTID, 0, BTRFS_QGROUP_INFO_KEY);
	s.args.key.min_offset = v->sweep_at > SUBVOLUME_INODE ? v->sweep_at : SUBVOLUME_INODE;
	for (unsigned n = 0; n < SWEEP_STEP; n++) {
		r = search_next(&s, &item, err);
		if (r <= 0) {
			v->sweep_at = 0;
			return r;
		}
		uint64_t id = item.head.offset;
		int used = id < GROUP(1, 0)   ? subvolume_exists(v->root_fd, id, err)
			   : id < GROUP(2, 0) ? session_exists(v, id)
					      : 0;
		if (used < 0)
			return used;
		if (!used && group_is_empty(&item))
			group_change(v->root_fd, id, false);
		v->sweep_at = id + 1;
	}
	return 1;
}

/* A deleted tree is an orphan until the cleaner has taken it apart. That does not begin before the
 * last process that has it mounted is gone, which may be a sandbox on an image that was replaced:
 * so the one that was deleted last is waited for, and any only where another process has done it. */
static bool is_cleaning(struct volumes *v)
{
	struct search s;
	struct item item;
	struct err ignored;

	if (v->destroyed)
		return subvolume_exists(v->root_fd, v->destroyed, &ignored) > 0;
	search_init(&s, v->root_fd, BTRFS_ROOT_TREE_OBJECTID, (uint64_t)BTRFS_ORPHAN_OBJECTID,
		    BTRFS_ORPHAN_ITEM_KEY);
	return search_next(&s, &item, &ignored) > 0;
}

/* A commit wakes the cleaner, which takes deleted trees apart in turn; what it freed can be used
 * after another one. They may be 30 s away: not when space is short. */
static void btrfs_hurry(struct volumes *v)
{
	ioctl(v->root_fd, BTRFS_IOC_SYNC);
	for (int i = 0; i < CLEANER_TRIES; i++) {
		if (!is_cleaning(v))
			break;
		poll(NULL, 0, CLEANER_MS);
	}
	ioctl(v->root_fd, BTRFS_IOC_SYNC);
	v->destroyed = 0;
}

const struct volume_backend volume_btrfs = {
	.make = btrfs_make,
	.seal = btrfs_seal,
	.is_sealed = btrfs_is_sealed,
	.clone = btrfs_clone,
	.is_clone_of = btrfs_is_clone_of,
	.destroy = btrfs_destroy,
	.hurry = btrfs_hurry,
	.usage = btrfs_usage,
	.limit = btrfs_limit,
	.sweep = btrfs_sweep,
};
