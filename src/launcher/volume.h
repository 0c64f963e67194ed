// SPDX-License-Identifier: Apache-2.0
/*
 * volume: workspaces with a quota, their snapshots, and the read-only images, on one file system
 * that only the launcher's private mount namespace sees. Back ends: btrfs on a fully allocated loop
 * file
 * (<state>/volumes.img, simple quotas where the kernel has them, else full qgroups with level-0
 * limits only), or plain directories (single-tenant only). Used by the launcher's roles; no heap.
 *
 * A volume is a workspace, "sbx_" + 12 hex, or a snapshot, "snp_" + 12 hex. Its journal is its
 * directory name: <id>.creating, <id>, <id>.deleting. What an earlier launcher left as .creating
 * becomes .deleting when volumes_open finds it. The tenant's number is in the extended attribute
 * trusted.airlock.tenant, set before the rename to <id>. The owner on disk is always uid and gid
 * 1000, mode 0755.
 *
 * A snapshot begins writable and ends sealed: then nothing can be written to it any more. Whether
 * it is sealed is a property of the directory, so that the one step that seals it is also the last
 * one; a snapshot that volumes_open finds unsealed becomes .deleting too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "ipc/messages.h"

#define VOLUME_OWNER 1000
/* Owns every file of an image on disk: a uid that no process has but the one that unpacks, outside
 * of all slots' ids; inside a sandbox it shows as nobody. */
#define IMAGE_OWNER 1899999999u

struct volumes_config {
	const char *state_dir;
	enum { VOLUMES_AUTO, VOLUMES_BTRFS, VOLUMES_PLAIN } kind;
	uint64_t size_bytes; /* of volumes.img when it is made; 0: min(20 GiB, a quarter of free) */
};

struct volumes {
	enum msg_volumes kind;
	enum msg_quota quota;
	int root_fd;	     /* owned: root of the file system; holds volumes/ and images/ */
	int volumes_fd;	     /* owned */
	int images_fd;	     /* owned */
	int clones_fd;	     /* owned: the tenants' copies of images */
	bool direct_io;	     /* the loop device bypasses the page cache */
	uint64_t sweep_at;   /* where volume_sweep goes on */
	uint64_t destroyed;  /* id of the subvolume that was deleted last; 0: none */
	char why_plain[200]; /* VOLUMES_AUTO took plain directories: the reason, else "" */
};

#define VOLUMES_NONE \
	((struct volumes){ .root_fd = -1, .volumes_fd = -1, .images_fd = -1, .clones_fd = -1 })

/* Mounts (makes at first start: allocate, mkfs.btrfs, subvolumes, quota). The caller has unshared
 * its mount namespace and made it private; descriptors are good for open_tree in that namespace,
 * and the mount lasts as long as the namespace does. VOLUMES_AUTO: btrfs where volumes.img exists
 * or can be made, else plain directories, with the reason in why_plain; a volumes.img that exists
 * and can't be mounted is always an error. Waits up to 10 s for an earlier launcher's mount to go
 * away. */
int volumes_open(struct volumes *v, const struct volumes_config *config, struct err *err);
void volumes_close(struct volumes *v);
/* Makes the file system as large as the device that it lies on; volumes_open has done it. */
int volumes_take_all(int root, struct err *err);

/* Whether name is "sbx_" or "snp_" and 12 lower-case hex. Every name from airlockd passes this
 * first. */
bool volume_name_ok(const char name[MSG_VOLUME_NAME]);
/* Of a name that is ok. */
bool volume_is_snapshot(const char *name);

struct volume_spec {
	const char *name; /* a snapshot begins unsealed */
	uint32_t tenant;
	/* Hard limits, 0: none. That of a workspace; a snapshot has none. */
	uint64_t limit_bytes;
	/* Simple quotas alone: that of all that the tenant's volumes of today and before have
	 * written and that is still on disk. Holds from now on for all of them. */
	uint64_t tenant_bytes;
	/* NULL or "": empty. Else a workspace or a sealed snapshot that it begins as a
	 * copy-on-write copy of; -EACCES when it is another tenant's, -EOPNOTSUPP where nothing
	 * can be cloned (plain directories): its content is a tenant's, so a file sandbox has to
	 * copy it. May take as long as what was written to it takes to reach the disk. */
	const char *source;
};

int volume_create(struct volumes *v, const struct volume_spec *spec, struct err *err);
/* Seals a snapshot; it is on disk then. A sealed one stays so. */
int volume_seal(struct volumes *v, const char *name, struct err *err);
/* Of an open volume. */
bool volume_is_sealed(struct volumes *v, int fd);
/* Changes the hard limit of a workspace; 0: none. -EOPNOTSUPP with plain directories. */
int volume_limit(struct volumes *v, const char *name, uint64_t limit_bytes, struct err *err);
/* Opens a volume for open_tree and reads its tenant. -ENOENT when there is none. */
int volume_open(struct volumes *v, const char *name, int *ret_fd, uint32_t *ret_tenant,
		struct err *err);
/* Renames it to <id>.deleting, and what one that died while making it left. Nobody may be making
 * it. Returns 1, or 0 when there was none. */
int volume_mark_deleted(struct volumes *v, const char *name, struct err *err);
/* Deletes one <id>.deleting with all nested subvolumes; images and clones too. Slow; may run in
 * another process than volume_create. Returns 1 when one was deleted, 0 when there was none. */
int volume_delete_next(struct volumes *v, struct err *err);
/* Removes the quota groups of volumes that are gone; the kernel is done with one some time after
 * its deletion (a commit, 30 s), so this is to be called now and then after deletions, and only by
 * the process that calls volume_create. Looks at a few hundred groups; returns 1 when there are
 * more to look at, 0 at the end of a round. volumes_open makes a whole round. */
int volume_sweep(struct volumes *v, struct err *err);
/* The counter lags behind writes until the file system's next commit (up to 30 s). -EOPNOTSUPP with
 * plain directories, which have neither a counter nor a limit. *ret_limit 0: no limit. */
int volume_stat(struct volumes *v, const char *name, uint64_t *ret_used, uint64_t *ret_limit,
		struct err *err);
/* Calls each finished volume once; tenant 0 when it carries no tenant number. One that cannot be
 * looked at for want of descriptors or memory is an error; one that is broken is left out. */
int volume_each(struct volumes *v, void (*each)(void *data, const char *name, uint32_t tenant),
		void *data, struct err *err);
int volumes_space(struct volumes *v, uint64_t *ret_bytes, uint64_t *ret_free, struct err *err);
/* Whether so little is free that what was deleted has to give its space back at once. Never with
 * plain directories, which give it back at once anyway. */
bool volumes_short(struct volumes *v);
/* When space is short, gets back that of all that volume_delete_next has deleted, which the kernel
 * would give back within two commits (60 s): takes up to seconds, at most about ten where something
 * deleted is still open. Returns whether space was short. */
bool volumes_hurry(struct volumes *v);

/* ---- Images: images/<name>, a read-only subvolume; name as in MSG_IMAGE_NAME, "/" never occurs
 * ---- */

/* The tenant's own copy-on-write clone (made when missing), opened for open_tree. With plain
 * directories: the image itself, *ret_own false. */
int image_open_for_tenant(struct volumes *v, const char *image, uint32_t tenant, int *ret_fd,
			  bool *ret_own, struct err *err);
/* Unpacks a tar (from `airlock image build` or import) as a new image under name.creating, then
 * renames: files get owner IMAGE_OWNER, set-id bits are dropped, device nodes are refused. gzip, xz
 * and zstd are recognised. tar runs in a child that can write nowhere else (volume-program.c). */
int image_add(struct volumes *v, const char *image, const char *tar_path, struct err *err);
/* Whether there is one of that name. */
bool image_exists(struct volumes *v, const char *image);
/* Whether the image is there and came from this very file, or the file is gone. */
bool image_is_current(struct volumes *v, const char *image, const char *tar_path);
/* Sets the image and all clones of it aside for volume_delete_next; sandboxes that run on a clone
 * keep it. -ENOENT when there is none. */
int image_remove(struct volumes *v, const char *image, struct err *err);
