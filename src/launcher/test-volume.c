// SPDX-License-Identifier: Apache-2.0
/*
 * Workspaces and images on real file systems. Needs root, loop devices and btrfs; without them all
 * but the names is skipped with the reason. Everything lies below one folder made by mkdtemp.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <netinet/in.h>
#include <sched.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "base/fd.h"
#include "launcher/test-volume-rig.h"

#define IMAGE "base:1"
#define EVIL "airlock-test-evil"

/* ---- names ----------------------------------------------------------------------------------- */

static void only_sbx_or_snp_and_12_hex_is_a_volume_name(void **state)
{
	static const struct {
		const char name[MSG_VOLUME_NAME];
		bool good;
	} rows[] = {
		{ "sbx_0123456789ab", true },
		{ "sbx_ffffffffffff", true },
		{ "snp_0123456789ab", true },
		{ "snp_0123456789a", false },
		{ "snq_0123456789ab", false },
		{ "", false },
		{ "sbx_0123456789a", false },
		{ "sbx_0123456789abc", false },
		{ "sbx_0123456789AB", false },
		{ "sbx_0123456789a/", false },
		{ "sbx-0123456789ab", false },
		{ "../0123456789ab", false },
		{ "sbx_0123456789ab.", false },
		{ "sbx_00000000000g", false },
		{ ".", false },
	};
	char unterminated[MSG_VOLUME_NAME];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(volume_name_ok(rows[i].name), rows[i].good);
	memset(unterminated, '0', sizeof(unterminated));
	assert_false(volume_name_ok(unterminated));
}

static void a_bad_image_name_is_refused_everywhere(void **state)
{
	static const char *const names[] = { "",	   ".",	   "..",      "a/b",
					     "-x",	   ".x",   "a b",     "x.creating",
					     "x.deleting", "a\nb", "\xc3\xa4" };
	int fd;
	bool own;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(image_open_for_tenant(&v, names[i], 1, &fd, &own, &err), -EINVAL);
		assert_int_equal(image_add(&v, names[i], "/dev/null", &err), -EINVAL);
		assert_int_equal(image_remove(&v, names[i], &err), -EINVAL);
		assert_false(image_exists(&v, names[i]));
	}
}

/* ---- one volume ------------------------------------------------------------------------------ */

static int change_tenant_number(void)
{
	uint32_t other = 8;

	return fsetxattr(open(".", O_RDONLY), "trusted.airlock.tenant", &other, sizeof(other), 0) <
			       0
		       ? errno
		       : 0;
}

static void a_volume_belongs_to_its_tenant(void **state)
{
	_cleanup_fd_ int fd = -1;
	const char *name = "sbx_00000000000a";
	uint32_t tenant = 0;
	struct stat st;

	need_host();
	ok(create(name, 4000000007u, 0));
	ok(volume_open(&v, name, &fd, &tenant, &err));
	assert_int_equal(tenant, 4000000007u);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_uid, 1000);
	assert_int_equal(st.st_gid, 1000);
	assert_int_equal(st.st_mode, S_IFDIR | 0755);
	assert_int_equal(as_tenant(name, change_tenant_number), EPERM);
	assert_int_equal(create(name, 7, 0), -EEXIST);
	fd_close(&fd);
	assert_int_equal(volume_open(&v, "sbx_00000000000b", &fd, &tenant, &err), -ENOENT);
	assert_int_equal(fd, -1);
}

static void a_link_in_the_place_of_a_volume_is_not_followed(void **state)
{
	uint32_t tenant;
	int fd = -1;

	need_host();
	assert_int_equal(symlinkat("sbx_00000000000a", v.volumes_fd, "sbx_00000000000c"), 0);
	assert_int_equal(volume_open(&v, "sbx_00000000000c", &fd, &tenant, &err), -ENOTDIR);
	assert_int_equal(unlinkat(v.volumes_fd, "sbx_00000000000c", 0), 0);
}

static int free_some(void)
{
	return unlink("big") < 0 ? errno : 0;
}

static void the_limit_holds_for(const char *name)
{
	const uint64_t limit = 32 * MIB;
	struct stat st;
	uint64_t used = 0, told = 0;
	_cleanup_fd_ int fd = -1;
	uint32_t tenant;

	ok(create(name, 7, limit));
	assert_int_equal(as_tenant(name, fill), EDQUOT);
	ok(volume_open(&v, name, &fd, &tenant, &err));
	assert_int_equal(fstatat(fd, "big", &st, 0), 0);
	assert_in_range(st.st_blocks * 512, limit / 2, limit);
	assert_int_equal(syncfs(fd), 0);
	ok(volume_stat(&v, name, &used, &told, &err));
	assert_int_equal(told, limit);
	assert_in_range(used, limit / 2, limit);
	assert_int_equal(as_tenant(name, free_some), 0);
	assert_int_equal(syncfs(fd), 0);
	ok(volume_stat(&v, name, &used, &told, &err));
	assert_in_range(used, 0, MIB);
}

static void a_tenant_can_not_write_past_the_limit(void **state)
{
	need_host();
	assert_int_not_equal(v.quota, MSG_QUOTA_NONE);
	the_limit_holds_for("sbx_0000000000f0");
}

static void one_full_volume_does_not_fill_another(void **state)
{
	need_host();
	ok(create("sbx_0000000000f1", 7, 32 * MIB));
	ok(create("sbx_0000000000f2", 7, 32 * MIB));
	assert_int_equal(as_tenant("sbx_0000000000f1", fill), EDQUOT);
	assert_int_equal(as_tenant("sbx_0000000000f2", fill), EDQUOT);
}

/* ---- deleting -------------------------------------------------------------------------------- */

static void make_nested(int folder, const char *name)
{
	struct btrfs_ioctl_vol_args args = { 0 };

	snprintf(args.name, sizeof(args.name), "%s", name);
	assert_int_equal(ioctl(folder, BTRFS_IOC_SUBVOL_CREATE, &args), 0);
}

static void nested_subvolumes_go_with_the_volume(void **state)
{
	_cleanup_fd_ int fd = -1, inner = -1, deep = -1;
	uint32_t tenant;

	need_host();
	ok(create("sbx_0000000000d0", 7, 32 * MIB));
	ok(volume_open(&v, "sbx_0000000000d0", &fd, &tenant, &err));
	assert_int_equal(mkdirat(fd, "folder", 0755), 0);
	ok(volume_open_folder(fd, "folder", &inner, &err));
	make_nested(inner, "one");
	make_nested(inner, "two");
	ok(volume_open_folder(inner, "two", &deep, &err));
	make_nested(deep, "three");
	ok(volume_mark_deleted(&v, "sbx_0000000000d0", &err));
	ok(volume_mark_deleted(&v, "sbx_0000000000d0", &err)); /* a missing one is success */
	fd_close(&fd);
	assert_int_equal(volume_open(&v, "sbx_0000000000d0", &fd, &tenant, &err), -ENOENT);
	assert_int_equal(volume_delete_next(&v, &err), 1);
	delete_all();
	assert_int_equal(faccessat(v.volumes_fd, "sbx_0000000000d0.deleting", F_OK, 0), -1);
}

static void note_volume(void *data, const char *name, uint32_t tenant)
{
	if (strcmp(name, "sbx_0000000000e1") == 0)
		*(uint32_t *)data = tenant;
	if (strcmp(name, "sbx_0000000000e2") == 0)
		fail_msg("%s", "an unfinished volume was reported");
}

static void an_unfinished_volume_is_swept_and_a_finished_one_never(void **state)
{
	uint32_t tenant = 0;

	need_host();
	ok(create("sbx_0000000000e1", 9, 0));
	ok(volume_backend(&v)->make(&v, v.volumes_fd, "sbx_0000000000e2" VOLUME_CREATING,
				    &(struct volume_charge){ .session = true, .group = 0xe2 },
				    32 * MIB, &err));
	delete_all();
	/* It may be in the making by another process, until the next start. */
	assert_int_equal(faccessat(v.volumes_fd, "sbx_0000000000e2" VOLUME_CREATING, F_OK, 0), 0);
	close_state("btrfs");
	open_state("btrfs", VOLUMES_BTRFS);
	delete_all();
	ok(volume_each(&v, note_volume, &tenant, &err));
	assert_int_equal(tenant, 9);
	assert_int_equal(faccessat(v.volumes_fd, "sbx_0000000000e2" VOLUME_CREATING, F_OK, 0), -1);
	assert_int_equal(faccessat(v.volumes_fd, "sbx_0000000000e2" VOLUME_DELETING, F_OK, 0), -1);
}

static void without_descriptors_no_volume_is_passed_over(void **state)
{
	struct rlimit before, low;
	uint32_t tenant = 0;

	need_host(); /* and the one from above */
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	int next = dup(v.volumes_fd);
	close(next);
	/* For the list itself, and none of what is in it. */
	low = before;
	low.rlim_cur = (rlim_t)next + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	int r = volume_each(&v, note_volume, &tenant, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(r, -EMFILE);
	assert_int_equal(tenant, 0);
	ok(volume_each(&v, note_volume, &tenant, &err));
	assert_int_equal(tenant, 9);
}

static void what_was_being_made_goes_with_its_name(void **state)
{
	need_host();
	for (int with = 0; with < 2; with++) {
		ok(volume_backend(&v)->make(&v, v.volumes_fd, "sbx_0000000000e3" VOLUME_CREATING,
					    &(struct volume_charge){ .session = true, .group = 1 },
					    0, &err));
		if (with)
			ok(volume_backend(&v)->make(&v, v.volumes_fd, "sbx_0000000000e3", NULL, 0,
						    &err));
		ok(volume_mark_deleted(&v, "sbx_0000000000e3", &err));
		delete_all();
		assert_int_equal(faccessat(v.volumes_fd, "sbx_0000000000e3", F_OK, 0), -1);
		assert_int_equal(faccessat(v.volumes_fd, "sbx_0000000000e3" VOLUME_CREATING, F_OK,
					   0),
				 -1);
		assert_int_equal(faccessat(v.volumes_fd, "sbx_0000000000e3" VOLUME_DELETING, F_OK,
					   0),
				 -1);
	}
}

/* Directories of /sys/fs/btrfs/<uuid>/qgroups whose group has the given level. */
static int groups_of_level(char level)
{
	struct btrfs_ioctl_fs_info_args info = { 0 };
	char path[128] = "/sys/fs/btrfs/";
	int n = 0;

	assert_int_equal(ioctl(v.root_fd, BTRFS_IOC_FS_INFO, &info), 0);
	for (int i = 0; i < 16; i++)
		snprintf(path + strlen(path), 8,
			 i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", info.fsid[i]);
	snprintf(path + strlen(path), 16, "/qgroups");
	DIR *dir = opendir(path);
	assert_non_null(dir);
	for (struct dirent *e; (e = readdir(dir));)
		n += e->d_name[0] == level && e->d_name[1] == '_';
	closedir(dir);
	return n;
}

static int volumes_only(void *data, int folder, const char *name)
{
	*(int *)data += strlen(name) == 16;
	return 0;
}

static void quota_groups_of_deleted_volumes_go_too(void **state)
{
	char name[MSG_VOLUME_NAME];
	int alive = 0, level1, level0;

	need_host();
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "sbx_00000000ab%02x", i);
		ok(create(name, 7, 32 * MIB));
		ok(volume_mark_deleted(&v, name, &err));
	}
	delete_all();
	ok(volume_scan(v.volumes_fd, volumes_only, &alive, &err));
	int wanted1 = v.quota == MSG_QUOTA_SIMPLE ? alive : 0;
	int wanted0 = alive + names_in(v.images_fd) + names_in(v.clones_fd) + 1;
	/* The cleaner works when a transaction ends. */
	for (int i = 0; i < 500; i++) {
		assert_int_equal(ioctl(v.root_fd, BTRFS_IOC_SYNC), 0);
		int more;
		while ((more = volume_sweep(&v, &err)) > 0)
			;
		ok(more);
		level1 = groups_of_level('1');
		level0 = groups_of_level('0');
		if (level1 == wanted1 && level0 == wanted0)
			return;
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	}
	assert_int_equal(level1, wanted1);
	assert_int_equal(level0, wanted0);
}

/* ---- images ---------------------------------------------------------------------------------- */

struct member {
	const char *name;
	char type; /* as in the tar header */
	const char *target, *content;
	unsigned mode;
	uint64_t claimed; /* size in the header; 0: of content */
};

/* One member as a ustar header and its content. */
static void put_member(int fd, const struct member *m)
{
	char block[512] = { 0 };
	size_t len = m->content ? strlen(m->content) : 0;
	unsigned sum = 0;

	assert_true(strlen(m->name) < 100 && len <= 512);
	memcpy(block, m->name, strlen(m->name));
	snprintf(block + 100, 8, "%07o", m->mode);
	snprintf(block + 108, 8, "%07o", 0u);
	snprintf(block + 116, 8, "%07o", 0u);
	snprintf(block + 124, 12, "%011llo", (unsigned long long)(m->claimed ? m->claimed : len));
	snprintf(block + 136, 12, "%011o", 1000000000u);
	memset(block + 148, ' ', 8);
	block[156] = m->type;
	if (m->target)
		memcpy(block + 157, m->target, strlen(m->target));
	memcpy(block + 257, "ustar\00000", 8);
	snprintf(block + 329, 8, "%07o", 1u);
	snprintf(block + 337, 8, "%07o", 3u);
	for (size_t i = 0; i < sizeof(block); i++)
		sum += (unsigned char)block[i];
	snprintf(block + 148, 7, "%06o", sum);
	assert_int_equal(write(fd, block, 512), 512);
	if (!len)
		return;
	memset(block, 0, sizeof(block));
	memcpy(block, m->content, len);
	assert_int_equal(write(fd, block, 512), 512);
}

static void make_tar(const struct member *members, char path[static 256])
{
	static const char end[1024];

	path_of(path, "test.tar");
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	for (const struct member *m = members; m->name; m++) {
		put_member(fd, m);
		if (m->claimed)
			assert_true(lseek(fd, (off_t)m->claimed, SEEK_CUR) > 0);
	}
	assert_int_equal(write(fd, end, sizeof(end)), sizeof(end));
}

static const struct member good_members[] = {
	{ "bin/", '5', .mode = 0755 },
	{ "bin/sh", '0', .content = "#!", .mode = 06755 },
	{ "bin/private", '0', .content = "x", .mode = 0666 },
	{ "bin/again", '1', .target = "bin/sh" },
	{ "lib", '2', .target = "/outside" },
	{ "tmp/", '5', .mode = 01777 },
	{ NULL },
};

static void an_image_is_read_only_and_each_tenant_has_its_own_inodes(void **state)
{
	_cleanup_fd_ int one = -1, two = -1, again = -1;
	struct stat a, b, c;
	char path[256];
	bool own = false;

	need_host();
	make_tar(good_members, path);
	ok(image_add(&v, IMAGE, path, &err));
	assert_true(image_exists(&v, IMAGE));
	assert_int_equal(image_add(&v, IMAGE, path, &err), -EEXIST);
	ok(image_open_for_tenant(&v, IMAGE, 1, &one, &own, &err));
	assert_true(own);
	ok(image_open_for_tenant(&v, IMAGE, 2, &two, &own, &err));
	ok(image_open_for_tenant(&v, IMAGE, 1, &again, &own, &err));
	assert_int_equal(fstatat(one, "bin/sh", &a, 0), 0);
	assert_int_equal(fstatat(two, "bin/sh", &b, 0), 0);
	assert_int_equal(fstatat(again, "bin/sh", &c, 0), 0);
	assert_int_not_equal(a.st_dev, b.st_dev);
	assert_int_equal(a.st_dev, c.st_dev);
	assert_int_equal(openat(one, "new", O_CREAT | O_WRONLY, 0644), -1);
	assert_int_equal(errno, EROFS);
	assert_int_equal(a.st_mode, S_IFREG | 0755); /* set-id bits are gone */
	assert_int_equal(a.st_uid, IMAGE_OWNER);
	assert_int_equal(a.st_mtime, 1000000000);
	assert_int_equal(fstatat(one, "bin/private", &a, 0), 0);
	assert_int_equal(a.st_mode, S_IFREG | 0644);
	for (size_t i = 0; i < 7; i++) {
		static const char *const names[] = { "dev", "proc",	 "sys",	    "run",
						     "tmp", "workspace", "snapshot" };

		assert_int_equal(fstatat(one, names[i], &a, AT_SYMLINK_NOFOLLOW), 0);
		assert_true(S_ISDIR(a.st_mode));
	}
}

static void a_new_image_of_the_same_name_replaces_the_clones(void **state)
{
	static const struct member other[] = { { "second", '0', .content = "2" }, { NULL } };
	_cleanup_fd_ int old = -1, new = -1;
	char path[256];
	bool own;

	need_host();
	ok(image_open_for_tenant(&v, IMAGE, 1, &old, &own, &err));
	ok(image_remove(&v, IMAGE, &err));
	assert_int_equal(image_open_for_tenant(&v, IMAGE, 1, &new, &own, &err), -ENOENT);
	assert_int_equal(image_remove(&v, IMAGE, &err), -ENOENT);
	make_tar(other, path);
	ok(image_add(&v, IMAGE, path, &err));
	assert_true(image_is_current(&v, IMAGE, path));
	assert_true(image_is_current(&v, IMAGE, "/no/such.tar")); /* nothing better is there */
	assert_false(image_is_current(&v, IMAGE, "/dev/null"));
	assert_false(image_is_current(&v, "absent", path));
	ok(image_open_for_tenant(&v, IMAGE, 1, &new, &own, &err));
	assert_int_equal(faccessat(new, "second", F_OK, 0), 0);
	assert_int_equal(faccessat(new, "bin", F_OK, 0), -1);
	assert_int_equal(faccessat(old, "bin/sh", F_OK, 0), 0); /* who runs on it keeps it */
	delete_all();
	assert_int_equal(names_in(v.images_fd), 1);
	assert_int_equal(names_in(v.clones_fd), 1);
}

static int count_image(void *data, int folder, const char *name)
{
	++*(int *)data;
	return 0;
}

/* Names that a member must not have made anything at. */
static void nothing_evil_outside(void)
{
	static const char *const places[] = { "/" EVIL, "/tmp/" EVIL, "/var/tmp/" EVIL,
					      "/dev/shm/" EVIL };
	char path[256];

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		assert_int_equal(access(places[i], F_OK), -1);
	path_of(path, EVIL);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(faccessat(v.images_fd, EVIL, F_OK, 0), -1);
	assert_int_equal(faccessat(v.root_fd, EVIL, F_OK, 0), -1);
}

static void a_hostile_tar_reaches_nothing_outside(void **state)
{
	static const struct {
		const char *what;
		bool refused;
		struct member members[4];
	} rows[] = {
		{ "upwards", true, { { "../" EVIL, '0', .content = "x", .mode = 0644 } } },
		{ "upwards twice",
		  true,
		  { { "a/../../../" EVIL, '0', .content = "x", .mode = 0644 } } },
		{ "absolute", true, { { "/tmp/../" EVIL, '0', .content = "x", .mode = 0644 } } },
		{ "absolute lands inside",
		  false,
		  { { "/tmp/" EVIL, '0', .content = "x", .mode = 0644 } } },
		{ "through a link",
		  true,
		  { { "l", '2', .target = "/var/tmp" },
		    { "l/" EVIL, '0', .content = "x", .mode = 0644 } } },
		{ "through a link upwards",
		  true,
		  { { "l", '2', .target = "../.." },
		    { "l/" EVIL, '0', .content = "x", .mode = 0644 } } },
		{ "through a hard link to a link",
		  true,
		  { { "l", '2', .target = "/dev/shm" },
		    { "m", '1', .target = "l" },
		    { "m/" EVIL, '0', .content = "x", .mode = 0644 } } },
		{ "hard link to a host file", true, { { "h", '1', .target = "/etc/passwd" } } },
		{ "hard link upwards", true, { { "h", '1', .target = "../../volumes.img" } } },
		{ "character device", true, { { "null", '3', .mode = 0666 } } },
		{ "block device", true, { { "disk", '4', .mode = 0666 } } },
		{ "device in /dev is left out", false, { { "dev/null", '3', .mode = 0666 } } },
		{ "link for /dev", true, { { "dev", '2', .target = "/tmp" } } },
		{ "link for /proc", true, { { "proc", '2', .target = "tmp" } } },
		{ "file for /workspace",
		  true,
		  { { "workspace", '0', .content = "x", .mode = 0644 } } },
		{ "directory that nobody may enter", false, { { "workspace/", '5', .mode = 0 } } },
	};
	struct stat before, after;
	char path[256];

	need_host();
	assert_int_equal(stat("/etc/passwd", &before), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		make_tar(rows[i].members, path);
		int r = image_add(&v, "hostile", path, &err);

		if ((r < 0) != rows[i].refused)
			fail_msg("%s: %d %s", rows[i].what, r, r < 0 ? err.text : "");
		nothing_evil_outside();
		if (r == 0)
			ok(image_remove(&v, "hostile", &err));
		delete_all();
	}
	assert_int_equal(stat("/etc/passwd", &after), 0);
	assert_int_equal(before.st_nlink, after.st_nlink);
	int n = 0;
	ok(volume_scan(v.images_fd, count_image, &n, &err));
	assert_int_equal(n, 1);
}

static int listen_here(int *ret_port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (void *)&at, len), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (void *)&at, &len), 0);
	*ret_port = ntohs(at.sin_port);
	return fd;
}

/* Whatever gains control of tar has this and no more. */
static void the_cage_holds_whatever_runs_in_it(void **state)
{
	/* Each line is tried; one that works is what the cage should have kept from it. */
	static const char script[] =
		"import os, socket, sys\n"
		"sys.excepthook = lambda kind, e, at: print(repr(e), at.tb_lineno)\n"
		"def tried(what):\n"
		"    try: exec(what)\n"
		"    except OSError: return\n"
		"    print('the cage let this through:', what); os._exit(1)\n"
		"open('inside', 'w').write('x')\n"
		"for d in ('/', '/tmp', '/var/tmp', '/dev/shm', '/run', '/proc/sys/kernel'):\n"
		"    tried(f'open(\"{d}/" EVIL "\", \"w\")')\n"
		"for what in ('open(\"/dev/zero\")', 'os.mknod(\"d\", 0o20666, os.makedev(1, "
		"3))',\n"
		"             'os.chown(\"inside\", 0, 0)', 'open(\"/etc/shadow\")', "
		"'os.setuid(0)',\n"
		"             'os.setgroups([0])', 'os.chroot(\".\")', "
		"'socket.sethostname(\"x\")',\n"
		"             'os.kill(%d, 0)', 'open(\"/proc/%d/environ\").read()',\n"
		"             'os.link(\"/etc/passwd\", \"p\")', 'os.nice(-1)',\n"
		"             'socket.create_connection((\"127.0.0.1\", %d), 1)'): tried(what)\n"
		"os.symlink('/etc', 'l'); os.chdir('..'); open('up', 'w')\n"
		"os.chdir('/'); ids = os.getresuid() + os.getresgid() + tuple(os.getgroups())\n"
		"facts = (set(ids), os.getpid(), dict(os.environ).keys() - {'LC_CTYPE'})\n"
		"if facts != ({%u}, 1, set()): print(facts); os._exit(1)\n";
	char text[2500];
	int port = 0;
	_cleanup_fd_ int server = listen_here(&port);
	const char *const argv[] = { "/usr/bin/python3", "-I", "-c", text, NULL };
	_cleanup_fd_ int tree = -1, cage = -1, null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	need_host();
	snprintf(text, sizeof(text), script, getpid(), getpid(), port, IMAGE_OWNER);
	ok(volume_backend(&v)->make(&v, v.images_fd, "cage" VOLUME_CREATING, NULL, 0, &err));
	ok(volume_open_folder(v.images_fd, "cage" VOLUME_CREATING, &tree, &err));
	assert_int_equal(fchown(tree, IMAGE_OWNER, IMAGE_OWNER), 0);
	cage = open_tree(tree, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	assert_true(cage >= 0);
	struct volume_program program = { .argv = argv, .input = null, .cage = cage };
	ok(volume_program_run(&program, &err));
	nothing_evil_outside();
	assert_int_equal(faccessat(tree, "inside", F_OK, 0), 0);
	assert_int_equal(faccessat(tree, "up", F_OK, 0), 0); /* ".." of the cage is the cage */
	ok(volume_set_aside(v.images_fd, "cage" VOLUME_CREATING, &err));
	delete_all();
}

static void what_is_no_tar_is_refused(void **state)
{
	static const char *const contents[] = { "", "hello", "\x1f\x8b garbage", "\x28\xb5\x2f\xfd",
						"\xfd\x37zXZ" };
	char path[256];

	need_host();
	path_of(path, "test.tar");
	for (size_t i = 0; i < sizeof(contents) / sizeof(contents[0]); i++) {
		int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

		assert_true(write(fd, contents[i], strlen(contents[i])) >= 0);
		close(fd);
		assert_true(image_add(&v, "bad", path, &err) < 0);
		assert_false(image_exists(&v, "bad"));
	}
	assert_int_equal(image_add(&v, "bad", "/dev/zero", &err), -EINVAL);
	assert_true(image_add(&v, "bad", "/nowhere", &err) < 0);
	delete_all();
}

static void a_bomb_does_not_fill_the_volume(void **state)
{
	const struct member bomb[] = { { "bomb", '0', .claimed = VOLUME_SIZE, .mode = 0644 },
				       { NULL } };
	uint64_t bytes, before, during;
	char path[256];

	need_host();
	ok(volumes_space(&v, &bytes, &before, &err));
	make_tar(bomb, path);
	assert_true(image_add(&v, "bomb", path, &err) < 0);
	ok(volumes_space(&v, &bytes, &during, &err));
	assert_true(during >= before / 3);
	delete_all();
}

/* ---- the file and the mount ------------------------------------------------------------------ */

static int leave_file(void)
{
	int fd = open("kept", O_WRONLY | O_CREAT | O_EXCL, 0644);

	return fd < 0 || write(fd, "x", 1) != 1 ? errno : 0;
}

static int find_file(void)
{
	return access("kept", R_OK) < 0 ? errno : 0;
}

static void a_second_start_finds_everything(void **state)
{
	enum msg_quota quota = v.quota;

	need_host();
	ok(create("sbx_0000000000c1", 12, 32 * MIB));
	assert_int_equal(as_tenant("sbx_0000000000c1", leave_file), 0);
	close_state("btrfs");
	open_state("btrfs", VOLUMES_AUTO);
	assert_int_equal(v.quota, quota);
	assert_int_equal(as_tenant("sbx_0000000000c1", find_file), 0);
	assert_int_equal(as_tenant("sbx_0000000000c1", fill), EDQUOT);
	assert_true(image_exists(&v, IMAGE));
}

static void the_file_is_allocated_in_full(void **state)
{
	char path[256];
	struct stat st;

	need_host();
	path_of(path, "btrfs/volumes.img");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, VOLUME_SIZE);
	assert_true((uint64_t)st.st_blocks * 512 >= VOLUME_SIZE);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void a_file_that_grew_is_taken_whole_by_the_next_start(void **state)
{
	struct volumes saved = v;
	uint64_t before = 0, after = 0, available;
	char path[256];

	need_host();
	path_of(path, "grown");
	assert_int_equal(mkdir(path, 0700), 0);
	struct volumes_config config = { .state_dir = path, .size_bytes = 256 * MIB };
	ok(volumes_open(&v, &config, &err));
	ok(create("sbx_0000000000c2", 12, 32 * MIB));
	assert_int_equal(as_tenant("sbx_0000000000c2", leave_file), 0);
	ok(volumes_space(&v, &before, &available, &err));
	close_state("grown");
	path_of(path, "grown/volumes.img");
	_cleanup_fd_ int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(fallocate(fd, 0, 0, 300 * MIB), 0);
	fd_close(&fd);
	open_state("grown", VOLUMES_AUTO);
	ok(volumes_space(&v, &after, &available, &err));
	assert_int_equal(before, 256 * MIB);
	assert_int_equal(after, 300 * MIB);
	assert_int_equal(as_tenant("sbx_0000000000c2", find_file), 0);
	ok(volumes_take_all(v.root_fd, &err)); /* nothing to do is fine */
	close_state("grown");
	v = saved;
}

static void a_state_directory_that_others_write_to_is_refused(void **state)
{
	char path[256];
	struct volumes none = VOLUMES_NONE;
	struct volumes_config config = { .state_dir = path, .kind = VOLUMES_AUTO };

	need_host();
	path_of(path, "open");
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chmod(path, 0777), 0);
	assert_int_equal(volumes_open(&none, &config, &err), -EPERM);
	assert_int_equal(none.root_fd, -1);
}

static void without_room_plain_directories_say_why(void **state)
{
	char path[256];
	struct volumes_config config = { .state_dir = path,
					 .kind = VOLUMES_AUTO,
					 .size_bytes = MIB };

	need_host();
	path_of(path, "small");
	assert_int_equal(mkdir(path, 0700), 0);
	struct volumes small = VOLUMES_NONE;
	ok(volumes_open(&small, &config, &err));
	assert_int_equal(small.kind, MSG_VOLUMES_PLAIN);
	assert_non_null(strstr(small.why_plain, "256"));
	ok(volume_create(&small, &(struct volume_spec){ .name = "sbx_000000000001", .tenant = 1 },
			 &err));
	volumes_close(&small);
	/* And it stays so: the workspaces lie there now. */
	config.size_bytes = VOLUME_SIZE;
	ok(volumes_open(&small, &config, &err));
	assert_int_equal(small.kind, MSG_VOLUMES_PLAIN);
	volumes_close(&small);
	struct volumes_config strict = { .state_dir = path,
					 .kind = VOLUMES_BTRFS,
					 .size_bytes = MIB };
	assert_int_equal(volumes_open(&small, &strict, &err), -ENOSPC);
}

static void full_qgroups_hold_the_limit_too(void **state)
{
	struct volumes saved = v;

	need_host();
	make_full("full");
	open_state("full", VOLUMES_AUTO);
	assert_int_equal(v.quota, MSG_QUOTA_FULL);
	the_limit_holds_for("sbx_0000000000f0");
	an_image_is_read_only_and_each_tenant_has_its_own_inodes(NULL);
	quota_groups_of_deleted_volumes_go_too(NULL);
	close_state("full");
	v = saved;
}

/* A launcher that is killed anywhere in its first start, image and all, keeps nobody from the next.
 */
static void a_start_killed_at_any_moment_is_made_good_by_the_next(void **state)
{
	struct volumes saved = v;
	char path[256], tar[256];
	int finished = 0;

	need_host();
	path_of(path, "killed");
	assert_int_equal(mkdir(path, 0700), 0);
	make_tar(good_members, tar);
	for (int i = 0; i < 60 && finished < 3; i++) {
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			struct volumes_config config = { .state_dir = path,
							 .size_bytes = VOLUME_SIZE };

			v = VOLUMES_NONE;
			if (unshare(CLONE_NEWNS) == 0 && volumes_open(&v, &config, &err) == 0 &&
			    (image_exists(&v, IMAGE) || image_add(&v, IMAGE, tar, &err) == 0))
				_exit(0);
			print_error("round %d: %s\n", i, err.text);
			_exit(1);
		}
		nanosleep(&(struct timespec){ .tv_nsec = i * 2000000 }, NULL);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (WIFEXITED(status)) {
			assert_int_equal(WEXITSTATUS(status), 0);
			finished++;
		}
	}
	open_state("killed", VOLUMES_BTRFS);
	delete_all();
	assert_int_equal(names_in(v.images_fd), image_exists(&v, IMAGE));
	if (!image_exists(&v, IMAGE))
		ok(image_add(&v, IMAGE, tar, &err));
	the_limit_holds_for("sbx_0000000000f0");
	close_state("killed");
	v = saved;
}

static void a_full_file_system_can_still_be_cleared(void **state)
{
	struct volumes saved = v;
	uint64_t bytes, available = 0;
	char path[256];

	need_host();
	path_of(path, "filled");
	assert_int_equal(mkdir(path, 0700), 0);
	struct volumes_config config = { .state_dir = path, .size_bytes = 256 * MIB };
	ok(volumes_open(&v, &config, &err));
	ok(create("sbx_0000000000a1", 7, 0));
	assert_int_equal(as_tenant("sbx_0000000000a1", fill), ENOSPC);
	assert_int_equal(create("sbx_0000000000a2", 7, 32 * MIB), -ENOSPC);
	ok(volume_mark_deleted(&v, "sbx_0000000000a1", &err));
	for (int i = 0; i < 6000 && available < 200 * MIB; i++) {
		delete_all();
		ok(volumes_space(&v, &bytes, &available, &err));
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	assert_in_range(available, 200 * MIB, 256 * MIB);
	ok(create("sbx_0000000000a2", 7, 32 * MIB));
	close_state("filled");
	v = saved;
}

/* ---- plain directories ----------------------------------------------------------------------- */

static int dig(void)
{
	for (int i = 0; i < 3000; i++) {
		if (mkdir("deep", 0755) < 0 || mkdir(".airlock-0", 0755) < 0 || chdir("deep") < 0)
			return errno;
		close(open("file", O_CREAT | O_WRONLY, 0));
	}
	return symlink("/etc", "link") < 0 ? errno : 0;
}

static void plain_directories_delete_any_depth_and_follow_nothing(void **state)
{
	struct volumes saved = v;
	char path[256];
	uint64_t used, limit;
	_cleanup_fd_ int fd = -1;
	bool own = true;

	need_host();
	path_of(path, "plain");
	assert_int_equal(mkdir(path, 0700), 0);
	open_state("plain", VOLUMES_PLAIN);
	assert_int_equal(v.kind, MSG_VOLUMES_PLAIN);
	assert_int_equal(v.quota, MSG_QUOTA_NONE);
	a_volume_belongs_to_its_tenant(NULL);
	ok(create("sbx_0000000000b1", 3, 0));
	assert_int_equal(as_tenant("sbx_0000000000b1", dig), 0);
	assert_int_equal(volume_stat(&v, "sbx_0000000000b1", &used, &limit, &err), -EOPNOTSUPP);
	ok(volume_mark_deleted(&v, "sbx_0000000000b1", &err));
	delete_all();
	assert_int_equal(names_in(v.volumes_fd), 1);
	assert_int_equal(access("/etc/passwd", F_OK), 0);
	make_tar(good_members, path);
	ok(image_add(&v, IMAGE, path, &err));
	ok(image_open_for_tenant(&v, IMAGE, 1, &fd, &own, &err));
	assert_false(own);
	volumes_close(&v);
	v = saved;
}

/* An earlier launcher's process, which ends when the next one is waiting for it. */
static void hold_until_wanted(const char *path, int says, pid_t next)
{
	char proc[64], text[4] = "";
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (flock(dir, LOCK_EX | LOCK_NB) < 0 || write(says, "x", 1) != 1)
		_exit(1);
	snprintf(proc, sizeof(proc), "/proc/%d/syscall", next);
	for (int i = 0; i < 2000 && strncmp(text, "230 ", 4) != 0; i++) { /* clock_nanosleep */
		int fd = open(proc, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || read(fd, text, 4) < 0)
			_exit(2);
		close(fd);
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	_exit(0);
}

static void plain_directories_wait_for_an_earlier_launcher(void **state)
{
	struct volumes saved = v;
	char path[256], ready;
	int says[2], status;

	need_host();
	path_of(path, "plain-late");
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(pipe2(says, O_CLOEXEC), 0);
	pid_t self = getpid(), earlier = fork();
	if (earlier == 0)
		hold_until_wanted(path, says[1], self);
	assert_int_equal(read(says[0], &ready, 1), 1);
	open_state("plain-late", VOLUMES_PLAIN);
	assert_int_equal(waitpid(earlier, &status, 0), earlier);
	assert_int_equal(status, 0);
	volumes_close(&v);
	v = saved;
	close(says[0]);
	close(says[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_sbx_or_snp_and_12_hex_is_a_volume_name),
		cmocka_unit_test(a_bad_image_name_is_refused_everywhere),
		cmocka_unit_test(a_volume_belongs_to_its_tenant),
		cmocka_unit_test(a_link_in_the_place_of_a_volume_is_not_followed),
		cmocka_unit_test(a_tenant_can_not_write_past_the_limit),
		cmocka_unit_test(one_full_volume_does_not_fill_another),
		cmocka_unit_test(nested_subvolumes_go_with_the_volume),
		cmocka_unit_test(an_unfinished_volume_is_swept_and_a_finished_one_never),
		cmocka_unit_test(without_descriptors_no_volume_is_passed_over),
		cmocka_unit_test(what_was_being_made_goes_with_its_name),
		cmocka_unit_test(an_image_is_read_only_and_each_tenant_has_its_own_inodes),
		cmocka_unit_test(a_new_image_of_the_same_name_replaces_the_clones),
		cmocka_unit_test(a_hostile_tar_reaches_nothing_outside),
		cmocka_unit_test(the_cage_holds_whatever_runs_in_it),
		cmocka_unit_test(what_is_no_tar_is_refused),
		cmocka_unit_test(a_bomb_does_not_fill_the_volume),
		cmocka_unit_test(quota_groups_of_deleted_volumes_go_too),
		cmocka_unit_test(a_second_start_finds_everything),
		cmocka_unit_test(the_file_is_allocated_in_full),
		cmocka_unit_test(a_file_that_grew_is_taken_whole_by_the_next_start),
		cmocka_unit_test(a_state_directory_that_others_write_to_is_refused),
		cmocka_unit_test(without_room_plain_directories_say_why),
		cmocka_unit_test(full_qgroups_hold_the_limit_too),
		cmocka_unit_test(a_start_killed_at_any_moment_is_made_good_by_the_next),
		cmocka_unit_test(a_full_file_system_can_still_be_cleared),
		cmocka_unit_test(plain_directories_delete_any_depth_and_follow_nothing),
		cmocka_unit_test(plain_directories_wait_for_an_earlier_launcher),
	};

	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
