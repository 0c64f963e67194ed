// SPDX-License-Identifier: Apache-2.0
#include "launcher/volume.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "launcher/volume-backend.h"

#define LOCK_WAIT_MS 10000
#define SHORT_PART 8u
#define SHORT_BYTES (1024u * MIB)
#define XATTR_TENANT "trusted.airlock.tenant"

const struct volume_backend *volume_backend(const struct volumes *v)
{
	return v->kind == MSG_VOLUMES_BTRFS ? &volume_btrfs : &volume_plain;
}

/* ---- names and folders ----------------------------------------------------------------------- */

bool volume_name_ok(const char name[MSG_VOLUME_NAME])
{
	if (strnlen(name, MSG_VOLUME_NAME) != 16 ||
	    (memcmp(name, "sbx_", 4) != 0 && memcmp(name, "snp_", 4) != 0))
		return false;
	for (int i = 4; i < 16; i++)
		if (!(name[i] >= '0' && name[i] <= '9') && !(name[i] >= 'a' && name[i] <= 'f'))
			return false;
	return true;
}

bool volume_is_snapshot(const char *name)
{
	return memcmp(name, "snp_", 4) == 0;
}

static struct volume_charge charge_of(const char *name)
{
	struct volume_charge charge = { .session = !volume_is_snapshot(name) };

	for (const char *p = name + 4; *p; p++)
		charge.group = charge.group << 4 | (uint64_t)(*p <= '9' ? *p - '0' : *p - 'a' + 10);
	return charge;
}

static bool ends_with(const char *name, const char *suffix)
{
	size_t len = strlen(name), n = strlen(suffix);

	return len > n && memcmp(name + len - n, suffix, n) == 0;
}

static int need_name(const char *name, struct err *err)
{
	return volume_name_ok(name) ? 0 : err_set(err, EINVAL, "that is no name of a volume");
}

int volume_open_folder(int at, const char *name, int *ret_fd, struct err *err)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return err_errno(err, "opening %s", name);
	*ret_fd = fd;
	return 0;
}

int volume_scan(int folder, int (*each)(void *data, int folder, const char *name), void *data,
		struct err *err)
{
	_Alignas(struct dirent64) char entries[4096];
	_cleanup_fd_ int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return err_errno(err, "opening a folder to list it");
	while ((n = getdents64(fd, entries, sizeof(entries))) > 0) {
		for (ssize_t at = 0; at < n;) {
			const struct dirent64 *e = (const void *)(entries + at);

			at += e->d_reclen;
			if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
				continue;
			int r = each(data, folder, e->d_name);
			if (r != 0)
				return r;
		}
	}
	return n < 0 ? err_errno(err, "listing a folder") : 0;
}

int volume_set_aside(int folder, const char *name, struct err *err)
{
	char aside[NAME_MAX + 1];

	for (unsigned k = 0; k < 1000; k++) {
		int n = k == 0 ? snprintf(aside, sizeof(aside), "%s" VOLUME_DELETING, name)
			       : snprintf(aside, sizeof(aside), "%s.%u" VOLUME_DELETING, name, k);

		if (n < 0 || (size_t)n >= sizeof(aside))
			return err_set(err, ENAMETOOLONG, "the name %s is too long", name);
		if (renameat2(folder, name, folder, aside, RENAME_NOREPLACE) == 0)
			return 0;
		if (errno != EEXIST)
			break;
	}
	return err_errno(err, "renaming %s to delete it", name);
}

int volume_lock(int fd, const char *busy, struct err *err)
{
	int64_t deadline = clock_monotonic_ms() + LOCK_WAIT_MS;

	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_errno(err, "locking the volumes");
		if (clock_monotonic_ms() >= deadline)
			return err_set(err, EBUSY, "%s", busy);
		nanosleep(&(struct timespec){ .tv_nsec = 10 * 1000 * 1000 }, NULL);
	}
	return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int stop_scan(void *data, int folder, const char *name)
{
	return 1;
}

/* Whether workspaces were kept in plain directories by an earlier start. */
static bool plain_in_use(int state)
{
	_cleanup_fd_ int fd =
		openat(state, "volumes", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct err ignored;

	return fd >= 0 && volume_scan(fd, stop_scan, NULL, &ignored) == 1;
}

static int open_plain(struct volumes *v, int state, struct err *err)
{
	v->kind = MSG_VOLUMES_PLAIN;
	v->quota = MSG_QUOTA_NONE;
	int r = volume_open_folder(state, ".", &v->root_fd, err);
	return r < 0 ? r : volume_lock(v->root_fd, "another server uses this state directory", err);
}

static int open_root(struct volumes *v, int state, const struct volumes_config *config,
		     struct err *err)
{
	bool exists = faccessat(state, "volumes.img", F_OK, AT_SYMLINK_NOFOLLOW) == 0;

	if (config->kind == VOLUMES_PLAIN)
		return open_plain(v, state, err);
	if (config->kind == VOLUMES_AUTO && !exists && plain_in_use(state)) {
		snprintf(v->why_plain, sizeof(v->why_plain),
			 "an earlier start made plain directories for them here");
		return open_plain(v, state, err);
	}
	int r = volume_loop_open(v, state, config, err);
	if (r == 0 || exists || config->kind == VOLUMES_BTRFS)
		return r;
	snprintf(v->why_plain, sizeof(v->why_plain), "%.199s", err->text);
	return open_plain(v, state, err);
}

static bool is_unsealed(struct volumes *v, int folder, const char *name)
{
	_cleanup_fd_ int fd = -1;
	struct err ignored;

	return folder == v->volumes_fd && strlen(name) < MSG_VOLUME_NAME && volume_name_ok(name) &&
	       volume_is_snapshot(name) && volume_open_folder(folder, name, &fd, &ignored) == 0 &&
	       !volume_is_sealed(v, fd);
}

struct opening {
	struct volumes *v;
	struct err *err;
};

/* Nobody is making anything yet: these are what a crash left. */
static int set_unfinished_aside(void *data, int folder, const char *name)
{
	const struct opening *o = data;

	return ends_with(name, VOLUME_CREATING) || is_unsealed(o->v, folder, name)
		       ? volume_set_aside(folder, name, o->err)
		       : 0;
}

static int open_folders(struct volumes *v, struct err *err)
{
	static const char *const names[] = { "volumes", "images", "clones" };
	int *const folders[] = { &v->volumes_fd, &v->images_fd, &v->clones_fd };
	struct opening opening = { v, err };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (mkdirat(v->root_fd, names[i], 0700) < 0 && errno != EEXIST)
			return err_errno(err, "making the directory %s", names[i]);
		int r = volume_open_folder(v->root_fd, names[i], folders[i], err);
		if (r == 0)
			r = volume_scan(*folders[i], set_unfinished_aside, &opening, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int volumes_open(struct volumes *v, const struct volumes_config *config, struct err *err)
{
	_cleanup_fd_ int state = open(config->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct volumes new = VOLUMES_NONE;
	struct stat st;

	if (state < 0 || fstat(state, &st) < 0)
		return err_errno(err, "opening the state directory %s", config->state_dir);
	if (st.st_uid != geteuid() || (st.st_mode & 022) != 0)
		return err_set(err, EPERM,
			       "the state directory %s must belong to root and be writable "
			       "for nobody else",
			       config->state_dir);
	int r = open_root(&new, state, config, err);
	if (r == 0)
		r = open_folders(&new, err);
	if (r < 0) {
		volumes_close(&new);
		return r;
	}
	*v = new;
	struct err ignored; /* groups that stay are no reason not to start */
	while (volume_sweep(v, &ignored) > 0)
		;
	return 0;
}

void volumes_close(struct volumes *v)
{
	fd_close(&v->clones_fd);
	fd_close(&v->images_fd);
	fd_close(&v->volumes_fd);
	fd_close(&v->root_fd);
}

int volumes_space(struct volumes *v, uint64_t *ret_bytes, uint64_t *ret_free, struct err *err)
{
	struct statfs64 fs;

	if (fstatfs64(v->root_fd, &fs) < 0)
		return err_errno(err, "asking for free space");
	*ret_bytes = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
	*ret_free = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	return 0;
}

bool volumes_short(struct volumes *v)
{
	uint64_t bytes, available, least;
	struct err ignored;

	if (!volume_backend(v)->hurry || volumes_space(v, &bytes, &available, &ignored) < 0)
		return false;
	least = bytes / 2 < SHORT_BYTES ? bytes / 2 : SHORT_BYTES;
	return available < least || available < bytes / SHORT_PART;
}

bool volumes_hurry(struct volumes *v)
{
	bool is_short = volumes_short(v);

	if (is_short)
		volume_backend(v)->hurry(v);
	return is_short;
}

/* ---- one volume ------------------------------------------------------------------------------ */

static int read_tenant(int fd, const char *name, uint32_t *ret_tenant, struct err *err)
{
	uint32_t tenant;
	ssize_t n = fgetxattr(fd, XATTR_TENANT, &tenant, sizeof(tenant));

	if (n < 0)
		return err_errno(err, "reading the tenant of %s", name);
	if (n != sizeof(tenant))
		return err_set(err, EINVAL, "the volume %s has no valid tenant number", name);
	*ret_tenant = tenant;
	return 0;
}

/* A clone has most of it already, and where it begins as full as its limit allows nothing more can
 * be written to it. */
static int give_to_tenant(int fd, const char *name, uint32_t tenant, struct err *err)
{
	uint32_t noted;
	struct err ignored;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno(err, "looking at %s", name);
	if ((read_tenant(fd, name, &noted, &ignored) < 0 || noted != tenant) &&
	    fsetxattr(fd, XATTR_TENANT, &tenant, sizeof(tenant), 0) < 0)
		return err_errno(err, "noting the tenant of %s", name);
	if ((st.st_uid != VOLUME_OWNER || st.st_gid != VOLUME_OWNER) &&
	    fchown(fd, VOLUME_OWNER, VOLUME_OWNER) < 0)
		return err_errno(err, "giving %s to the tenant", name);
	if ((st.st_mode & 07777) != 0755 && fchmod(fd, 0755) < 0)
		return err_errno(err, "setting the mode of %s", name);
	return 0;
}

static int finish_volume(struct volumes *v, const char *making, const struct volume_spec *spec,
			 struct err *err)
{
	_cleanup_fd_ int fd = -1;
	int r = volume_open_folder(v->volumes_fd, making, &fd, err);

	if (r == 0)
		r = give_to_tenant(fd, spec->name, spec->tenant, err);
	if (r < 0)
		return r;
	if (renameat2(v->volumes_fd, making, v->volumes_fd, spec->name, RENAME_NOREPLACE) < 0)
		return err_errno(err, "finishing the volume %s", spec->name);
	return 0;
}

static int clone_source(struct volumes *v, const char *making, const struct volume_spec *spec,
			const struct volume_charge *charge, struct err *err)
{
	_cleanup_fd_ int source = -1;
	uint32_t tenant = 0;
	int r = volume_open(v, spec->source, &source, &tenant, err);

	if (r < 0)
		return r;
	if (tenant != spec->tenant)
		return err_set(err, EACCES, "%s is another tenant's", spec->source);
	if (volume_is_snapshot(spec->source) && !volume_is_sealed(v, source))
		return err_set(err, EBUSY, "the snapshot %s is not finished", spec->source);
	if (!volume_backend(v)->clone)
		return err_set(err, EOPNOTSUPP, "plain directories can't be cloned");
	return volume_backend(v)->clone(v, source, v->volumes_fd, making, charge, spec->limit_bytes,
					err);
}

int volume_create(struct volumes *v, const struct volume_spec *spec, struct err *err)
{
	char making[64];
	struct err ignored;
	int r = need_name(spec->name, err);

	if (r < 0)
		return r;
	if (faccessat(v->volumes_fd, spec->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(err, EEXIST, "there is a volume %s already", spec->name);
	struct volume_charge charge = charge_of(spec->name);
	charge.tenant = spec->tenant;
	charge.tenant_bytes = spec->tenant_bytes;
	snprintf(making, sizeof(making), "%s" VOLUME_CREATING, spec->name);
	r = spec->source && spec->source[0]
		    ? clone_source(v, making, spec, &charge, err)
		    : volume_backend(v)->make(v, v->volumes_fd, making, &charge, spec->limit_bytes,
					      err);
	if (r == 0)
		r = finish_volume(v, making, spec, err);
	if (r < 0 && r != -EEXIST) /* then it is somebody else's */
		volume_set_aside(v->volumes_fd, making, &ignored);
	return r;
}

bool volume_is_sealed(struct volumes *v, int fd)
{
	return volume_backend(v)->is_sealed(fd);
}

int volume_open(struct volumes *v, const char *name, int *ret_fd, uint32_t *ret_tenant,
		struct err *err)
{
	_cleanup_fd_ int fd = -1;
	int r = need_name(name, err);

	if (r == 0)
		r = volume_open_folder(v->volumes_fd, name, &fd, err);
	if (r == 0)
		r = read_tenant(fd, name, ret_tenant, err);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

/* 1: done; 0: there is none. */
static int put_away(struct volumes *v, const char *name, struct err *err)
{
	int r = volume_set_aside(v->volumes_fd, name, err);

	/* A file system without any room can't rename, but it keeps a reserve for deleting. */
	if (r == -ENOSPC)
		r = volume_backend(v)->destroy(v, v->volumes_fd, name, err);
	return r == 0 ? 1 : r == -ENOENT ? 0 : r;
}

int volume_mark_deleted(struct volumes *v, const char *name, struct err *err)
{
	char making[64];
	int r = need_name(name, err);

	if (r < 0)
		return r;
	snprintf(making, sizeof(making), "%s" VOLUME_CREATING, name);
	int unfinished = put_away(v, making, err);
	if (unfinished < 0)
		return unfinished;
	r = put_away(v, name, err);
	return r < 0 ? r : r || unfinished;
}

static int open_any(struct volumes *v, const char *name, int *ret_fd, struct err *err)
{
	int r = need_name(name, err);

	return r < 0 ? r : volume_open_folder(v->volumes_fd, name, ret_fd, err);
}

int volume_seal(struct volumes *v, const char *name, struct err *err)
{
	_cleanup_fd_ int fd = -1;
	int r = open_any(v, name, &fd, err);

	if (r == 0 && !volume_is_snapshot(name))
		r = err_set(err, EINVAL, "%s is no snapshot", name);
	return r < 0 ? r : volume_backend(v)->seal(v, fd, err);
}

int volume_limit(struct volumes *v, const char *name, uint64_t limit_bytes, struct err *err)
{
	_cleanup_fd_ int fd = -1;
	int r = open_any(v, name, &fd, err);

	if (r < 0)
		return r;
	const struct volume_charge charge = charge_of(name);
	if (!volume_backend(v)->limit)
		return err_set(err, EOPNOTSUPP, "plain directories have no limit");
	return volume_backend(v)->limit(v, fd, &charge, limit_bytes, err);
}

int volume_stat(struct volumes *v, const char *name, uint64_t *ret_used, uint64_t *ret_limit,
		struct err *err)
{
	_cleanup_fd_ int fd = -1;
	int r = open_any(v, name, &fd, err);

	if (r < 0)
		return r;
	const struct volume_charge charge = charge_of(name);
	if (!volume_backend(v)->usage)
		return err_set(err, EOPNOTSUPP, "plain directories have no counter of used bytes");
	return volume_backend(v)->usage(v, fd, &charge, ret_used, ret_limit, err);
}

struct each_volume {
	void (*each)(void *data, const char *name, uint32_t tenant);
	void *data;
	struct err *err;
};

static int report_volume(void *data, int folder, const char *name)
{
	const struct each_volume *e = data;
	_cleanup_fd_ int fd = -1;
	uint32_t tenant = 0;
	struct err ignored;

	if (strlen(name) >= MSG_VOLUME_NAME || !volume_name_ok(name))
		return 0;
	int r = volume_open_folder(folder, name, &fd, e->err);
	/* It is there, and would be taken for lost. */
	if (r == -EMFILE || r == -ENFILE || r == -ENOMEM)
		return r;
	if (r < 0)
		return 0;
	if (read_tenant(fd, name, &tenant, &ignored) < 0)
		tenant = 0;
	e->each(e->data, name, tenant);
	return 0;
}

int volume_each(struct volumes *v, void (*each)(void *data, const char *name, uint32_t tenant),
		void *data, struct err *err)
{
	struct each_volume e = { each, data, err };

	return volume_scan(v->volumes_fd, report_volume, &e, err);
}

/* ---- deleting -------------------------------------------------------------------------------- */

struct delete_next {
	struct volumes *v;
	int failed; /* what the last one that could not be deleted said */
	struct err *err;
};

static int delete_entry(void *data, int folder, const char *name)
{
	struct delete_next *d = data;

	if (!ends_with(name, VOLUME_DELETING))
		return 0;
	int r = volume_backend(d->v)->destroy(d->v, folder, name, d->err);
	if (r == 0)
		return 1;
	if (r != -ENOENT) /* somebody else was faster */
		d->failed = r;
	return 0; /* one that resists does not keep the others */
}

int volume_delete_next(struct volumes *v, struct err *err)
{
	const int folders[] = { v->volumes_fd, v->images_fd, v->clones_fd };
	struct delete_next d = { .v = v, .err = err };

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		int r = volume_scan(folders[i], delete_entry, &d, err);

		if (r != 0)
			return r;
	}
	return d.failed;
}

int volume_sweep(struct volumes *v, struct err *err)
{
	return volume_backend(v)->sweep ? volume_backend(v)->sweep(v, err) : 0;
}
