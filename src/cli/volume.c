// SPDX-License-Identifier: Apache-2.0
/*
 * `airlock volume`: the file system that holds the workspaces (docs/volumes.md), as root.
 *
 * A stopped server's volume is opened as the launcher does it, in a mount namespace of our own: its
 * lock keeps a server from starting meanwhile. A running server's is reached through the launcher's
 * mount namespace; nothing but its size is changed there.
 *
 * Growing: the file first, then the loop device, then the file system. Whatever of it a crash
 * leaves undone is done by the next start, which always takes all of the file.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <linux/btrfs.h>
#include <linux/loop.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/servers.h"
#include "cli/state.h"
#include "launcher/volume.h"

/* So much stays free on the disk below. */
#define KEEP_FREE (256 * MIB)

struct place {
	char *dir;	     /* owned: the state directory, resolved */
	int img;	     /* owned: volumes.img, -1: plain directories */
	int launcher;	     /* 0: no server runs there */
	int root;	     /* owned: of the file system */
	struct volumes open; /* of a stopped server */
};

#define PLACE ((struct place){ .img = -1, .root = -1, .open = VOLUMES_NONE })

static void place_close(struct place *p)
{
	volumes_close(&p->open);
	fd_close(&p->img);
	fd_close(&p->root);
	free(p->dir);
}

/* ---- finding it ------------------------------------------------------------------------------ */

/* The launcher that serves from this directory; 0: none. */
static int launcher_at(const char *dir)
{
	json_t *servers = servers_find();
	const json_t *server;
	int pid = 0;
	size_t i;

	json_array_foreach(servers, i, server)
	{
		const char *named = json_string_value(json_object_get(server, "state_dir"));
		_cleanup_free_ char *at = named ? realpath(named, NULL) : NULL;
		if (at && strcmp(at, dir) == 0)
			pid = (int)json_integer_value(json_object_get(server, "pid"));
	}
	json_decref(servers);
	return pid;
}

static int place_find(struct place *p, const struct state_choice *choice, struct err *err)
{
	_cleanup_free_ char *wanted = NULL;

	if (geteuid() != 0)
		return err_set(err, EPERM, "this needs root");
	wanted = state_find(choice, err);
	if (!wanted)
		return -err->code;
	p->dir = realpath(wanted, NULL);
	if (!p->dir)
		return err_errno(err, "the state directory %s", wanted);
	_cleanup_free_ char *img = mem_printf("%s/volumes.img", p->dir);
	_cleanup_free_ char *plain = mem_printf("%s/volumes", p->dir);
	p->img = open(img, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (p->img < 0 && errno != ENOENT)
		return err_errno(err, "%s", img);
	if (p->img < 0 && access(plain, F_OK) < 0)
		return err_set(err, ENOENT,
			       "%s has no volume; the first start of a server makes it", p->dir);
	p->launcher = launcher_at(p->dir);
	return 0;
}

static int open_running(struct place *p, struct err *err)
{
	_cleanup_free_ char *path =
		mem_printf("/proc/%d/root%s%s", p->launcher, p->dir, p->img < 0 ? "" : "/mnt");

	p->root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return p->root < 0 ? err_errno(err, "the running server's volume") : 0;
}

static int open_stopped(struct place *p, struct err *err)
{
	const struct volumes_config config = {
		.state_dir = p->dir,
		.kind = p->img < 0 ? VOLUMES_PLAIN : VOLUMES_BTRFS,
	};

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_errno(err, "making a mount namespace");
	int r = volumes_open(&p->open, &config, err);
	if (r < 0)
		return r;
	p->root = fcntl(p->open.root_fd, F_DUPFD_CLOEXEC, 3);
	return p->root < 0 ? err_errno(err, "the volume") : 0;
}

static int place_open(struct place *p, struct err *err)
{
	return p->launcher ? open_running(p, err) : open_stopped(p, err);
}

/* ---- show ------------------------------------------------------------------------------------ */

struct counts {
	json_int_t workspaces, snapshots, leaving;
};

static int count_volumes(const struct place *p, struct counts *ret, struct err *err)
{
	_cleanup_fd_ int fd = openat(p->root, "volumes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir)
		return err_errno(err, "the folder of the volumes");
	take_fd(&fd);
	for (struct dirent *e; (e = readdir(dir));) {
		char name[MSG_VOLUME_NAME] = "";

		if (e->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%.23s", e->d_name);
		if (strlen(e->d_name) >= sizeof(name) || !volume_name_ok(name))
			ret->leaving++;
		else if (volume_is_snapshot(name))
			ret->snapshots++;
		else
			ret->workspaces++;
	}
	closedir(dir);
	return 0;
}

static const char *kind_of(const struct place *p)
{
	char quota[16] = "";

	if (p->img < 0)
		return "plain directories, no hard quota";
	if (fgetxattr(p->img, "trusted.airlock.quota", quota, sizeof(quota) - 1) < 0)
		return "btrfs";
	return strcmp(quota, "simple") == 0 ? "btrfs, simple quotas" : "btrfs, full quota groups";
}

static int report(const struct place *p, json_t **ret, struct err *err)
{
	struct counts n = { 0 };
	struct statvfs fs;
	int r = count_volumes(p, &n, err);

	if (r < 0)
		return r;
	if (fstatvfs(p->root, &fs) < 0)
		return err_errno(err, "asking for free space");
	*ret = json_pack("{s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I}", "state_dir", p->dir, "kind",
			 kind_of(p), "running", p->launcher != 0, "size_bytes",
			 (json_int_t)(fs.f_blocks * fs.f_frsize), "free_bytes",
			 (json_int_t)(fs.f_bavail * fs.f_frsize), "workspaces", n.workspaces,
			 "snapshots", n.snapshots, "being_deleted", n.leaving);
	return 0;
}

static void print_report(const json_t *r)
{
	double size = json_number_value(json_object_get(r, "size_bytes"));
	double left = json_number_value(json_object_get(r, "free_bytes"));

	printf("state directory  %s (%s)\n", json_string_value(json_object_get(r, "state_dir")),
	       json_is_true(json_object_get(r, "running")) ? "served" : "stopped");
	printf("kind             %s\n", json_string_value(json_object_get(r, "kind")));
	printf("size             %.1f GB, %.1f GB free\n", size / (1u << 30), left / (1u << 30));
	printf("workspaces       %lld\n",
	       (long long)json_integer_value(json_object_get(r, "workspaces")));
	printf("snapshots        %lld\n",
	       (long long)json_integer_value(json_object_get(r, "snapshots")));
	printf("being deleted    %lld\n",
	       (long long)json_integer_value(json_object_get(r, "being_deleted")));
}

static int volume_show(const struct cli_command *self, int argc, char **argv)
{
	__attribute__((cleanup(place_close))) struct place p = PLACE;
	struct state_choice state = { 0 };
	bool json = false;
	const struct opt opts[] = { STATE_OPTS(state), { "json", 0, OPT_FLAG, &json, 0, 0 } };
	json_t *r = NULL;
	struct err err;
	int at = opt_parse(opts, ARRAY_SIZE(opts), argc, argv, &err);

	if (at < 0)
		return cli_usage(self, "%s", err.text);
	if (at != argc)
		return cli_usage(self, NULL);
	if (place_find(&p, &state, &err) < 0 || place_open(&p, &err) < 0 ||
	    report(&p, &r, &err) < 0)
		return cli_fail(&err);
	if (json) {
		json_dumpf(r, stdout, JSON_INDENT(2));
		putchar('\n');
	} else {
		print_report(r);
	}
	json_decref(r);
	return 0;
}

/* ---- grow ------------------------------------------------------------------------------------ */

/* "40G", "40960M": of the whole volume. */
static bool parse_size(const char *text, uint64_t *ret)
{
	size_t len = strlen(text);
	uint64_t n, unit = 0;

	if (len > 1)
		unit = text[len - 1] == 'M'   ? MIB
		       : text[len - 1] == 'G' ? 1024 * MIB
		       : text[len - 1] == 'T' ? 1024ull * 1024 * MIB
					      : 0;
	if (!unit || !num_parse((struct str){ text, len - 1 }, 1, UINT32_MAX, &n))
		return false;
	*ret = n * unit;
	return n <= INT64_MAX / unit;
}

static int grow_file(const struct place *p, uint64_t size, struct err *err)
{
	struct stat st;
	struct statvfs fs;

	if (fstat(p->img, &st) < 0 || fstatvfs(p->img, &fs) < 0)
		return err_errno(err, "looking at volumes.img");
	uint64_t old = (uint64_t)st.st_size, available = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (size < old)
		return err_set(err, EINVAL,
			       "the volume has %llu MB already, and cannot be made smaller",
			       (unsigned long long)(old / MIB));
	if (size - old + KEEP_FREE > available)
		return err_set(err, ENOSPC, "that takes %llu MB more, and %llu MB are free there",
			       (unsigned long long)((size - old) / MIB),
			       (unsigned long long)(available / MIB));
	/* All of it at once: a file system that runs out of room beneath it fails for everybody. */
	if (fallocate(p->img, 0, 0, (off_t)size) < 0)
		return err_errno(err, "allocating volumes.img");
	return fsync(p->img) < 0 ? err_errno(err, "writing volumes.img") : 0;
}

/* The loop device below a mounted volume; it must be that of our file. */
static int open_loop(const struct place *p, int *ret_fd, struct err *err)
{
	struct btrfs_ioctl_dev_info_args info = { .devid = 1 };
	struct loop_info64 loop;
	struct stat st;

	if (ioctl(p->root, BTRFS_IOC_DEV_INFO, &info) < 0)
		return err_errno(err, "asking for the volume's device");
	_cleanup_fd_ int fd = open((const char *)info.path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, LOOP_GET_STATUS64, &loop) < 0 || fstat(p->img, &st) < 0)
		return err_errno(err, "%s", (const char *)info.path);
	if (loop.lo_inode != st.st_ino || loop.lo_device != st.st_dev)
		return err_set(err, EINVAL, "%s is not the volume's", (const char *)info.path);
	*ret_fd = take_fd(&fd);
	return 0;
}

static int volume_grow(const struct cli_command *self, int argc, char **argv)
{
	__attribute__((cleanup(place_close))) struct place p = PLACE;
	_cleanup_fd_ int loop = -1;
	struct state_choice state = { 0 };
	const struct opt opts[] = { STATE_OPTS(state) };
	uint64_t size = 0;
	struct statvfs fs;
	struct err err;
	int at = opt_parse(opts, ARRAY_SIZE(opts), argc, argv, &err);

	if (at < 0)
		return cli_usage(self, "%s", err.text);
	if (argc - at != 1)
		return cli_usage(self, NULL);
	if (!parse_size(argv[at], &size))
		return cli_usage(self, "'%s' is no size: 40G is one, and the size of all of it",
				 argv[at]);
	if (place_find(&p, &state, &err) < 0)
		return cli_fail(&err);
	if (p.img < 0) {
		err_set(&err, ENOTSUP, "plain directories have the size of the disk they lie on");
		return cli_fail(&err);
	}
	/* A stopped server's is opened afterwards: that takes all of the file by itself. */
	int r = p.launcher ? place_open(&p, &err) : 0;
	if (r == 0 && p.launcher)
		r = open_loop(&p, &loop, &err);
	if (r == 0)
		r = grow_file(&p, size, &err);
	if (r == 0 && p.launcher && ioctl(loop, LOOP_SET_CAPACITY) < 0)
		r = err_errno(&err, "telling the loop device");
	if (r == 0)
		r = p.launcher ? volumes_take_all(p.root, &err) : place_open(&p, &err);
	if (r == 0 && fstatvfs(p.root, &fs) < 0)
		r = err_errno(&err, "asking for the size");
	if (r < 0)
		return cli_fail(&err);
	printf("The volume has %llu MB now, %llu MB of it free.\n",
	       (unsigned long long)(fs.f_blocks * fs.f_frsize / MIB),
	       (unsigned long long)(fs.f_bavail * fs.f_frsize / MIB));
	return 0;
}

/* ---- purge ----------------------------------------------------------------------------------- */

/* Shows, or removes, one volume that nothing explained at the last start. */
static int purge_one(struct place *p, const char *name, bool really, struct err *err)
{
	uint64_t used = 0, limit = 0;
	uint32_t tenant = 0;
	_cleanup_fd_ int fd = -1;
	struct err ignored;

	if (volume_open(&p->open, name, &fd, &tenant, &ignored) < 0)
		return 0; /* it is gone */
	volume_stat(&p->open, name, &used, &limit, &ignored);
	fd_close(&fd);
	int r = really ? volume_mark_deleted(&p->open, name, err) : 0;
	if (r < 0)
		return r;
	printf("%s  tenant %u, %llu MB%s\n", name, tenant, (unsigned long long)(used / MIB),
	       really ? ", removed" : "");
	return 1;
}

static int purge(struct place *p, FILE *list, bool really, struct err *err)
{
	char line[128], name[MSG_VOLUME_NAME];
	int n = 0, r = 0;

	while (r >= 0 && fgets(line, sizeof(line), list)) {
		line[strcspn(line, " \n")] = '\0';
		snprintf(name, sizeof(name), "%.23s", line);
		if (strlen(line) >= sizeof(name) || !volume_name_ok(name))
			return err_set(err, EINVAL, "the list of lost volumes is damaged");
		r = purge_one(p, name, really, err);
		n += r > 0;
	}
	while (really && r >= 0 && (r = volume_delete_next(&p->open, err)) > 0)
		;
	if (really)
		volumes_hurry(&p->open);
	return r < 0 ? r : n;
}

static int volume_purge(const struct cli_command *self, int argc, char **argv)
{
	__attribute__((cleanup(place_close))) struct place p = PLACE;
	struct state_choice state = { 0 };
	bool really = false;
	const struct opt opts[] = { STATE_OPTS(state), { "yes", 0, OPT_FLAG, &really, 0, 0 } };
	struct err err;
	int at = opt_parse(opts, ARRAY_SIZE(opts), argc, argv, &err);

	if (at < 0)
		return cli_usage(self, "%s", err.text);
	if (at != argc)
		return cli_usage(self, NULL);
	if (place_find(&p, &state, &err) < 0)
		return cli_fail(&err);
	if (p.launcher) {
		err_set(&err, EBUSY, "a server runs on %s; stop it first", p.dir);
		return cli_fail(&err);
	}
	_cleanup_free_ char *path = mem_printf("%s/state/lost-volumes", p.dir);
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	FILE *list = fd < 0 ? NULL : fdopen(fd, "r");
	if (!list && errno != ENOENT) {
		err_errno(&err, "%s", path);
		return cli_fail(&err);
	}
	take_fd(&fd);
	int n = list ? place_open(&p, &err) : 0;
	if (list && n == 0)
		n = purge(&p, list, really, &err);
	if (list)
		fclose(list);
	if (n < 0)
		return cli_fail(&err);
	if (n == 0)
		puts("No volume was lost at the last start.");
	else if (!really)
		puts("Nothing was removed: say --yes when these are not needed any more.");
	return 0;
}

int cmd_volume(const struct cli_command *self, int argc, char **argv)
{
	static const struct cli_command table[] = {
		{ "volume show", "[" STATE_USAGE "] [--json]", "", volume_show },
		{ "volume grow", "[" STATE_USAGE "] SIZE", "", volume_grow },
		{ "volume purge", "[" STATE_USAGE "] [--yes]", "", volume_purge },
	};

	(void)self;
	return cli_dispatch(table, ARRAY_SIZE(table), "volume ", argc, argv);
}
