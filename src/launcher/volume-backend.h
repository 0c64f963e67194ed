// SPDX-License-Identifier: Apache-2.0
/*
 * volume-backend: what a file system must be able to do to hold workspaces and images; private to
 * volume*.c and image.c. A "tree" is one workspace, image or clone: a btrfs subvolume or a plain
 * directory, named by the descriptor of the folder that it lies in and a checked name.
 *
 * Below the root (struct volumes.root_fd) lie volumes/, images/ and clones/. In each of them a name
 * that ends in .creating belongs to its maker, one that ends in .deleting to volume_delete_next.
 */
#pragma once

#include "launcher/volume.h"

#define VOLUME_CREATING ".creating"
#define VOLUME_DELETING ".deleting"

/* To whom the bytes of a volume are charged. Images and their clones are charged to nobody. */
struct volume_charge {
	bool session;	/* a workspace; else a snapshot, which only the tenant is charged for */
	uint64_t group; /* 48 bits that name the session */
	uint32_t tenant;
	uint64_t tenant_bytes; /* as in struct volume_spec */
};

struct volume_backend {
	/* An empty tree, owned by root. charge may be NULL. limit_bytes, 0 for no limit, is of the
	 * session, or else of the tree alone. */
	int (*make)(struct volumes *v, int folder, const char *name,
		    const struct volume_charge *charge, uint64_t limit_bytes, struct err *err);
	/* Makes a tree read-only for ever, and says whether it is. */
	int (*seal)(struct volumes *v, int tree, struct err *err);
	bool (*is_sealed)(int tree);
	/* A copy-on-write clone with all attributes, read-only without a charge; NULL when the file
	 * system has none. */
	int (*clone)(struct volumes *v, int source, int folder, const char *name,
		     const struct volume_charge *charge, uint64_t limit_bytes, struct err *err);
	bool (*is_clone_of)(int tree, int source);
	int (*destroy)(struct volumes *v, int folder, const char *name, struct err *err);
	/* Gets the space of deleted trees back at once; NULL: it comes back by itself. */
	void (*hurry)(struct volumes *v);
	/* NULL: there is neither a counter nor a limit. */
	int (*usage)(struct volumes *v, int tree, const struct volume_charge *charge,
		     uint64_t *ret_used, uint64_t *ret_limit, struct err *err);
	int (*limit)(struct volumes *v, int tree, const struct volume_charge *charge,
		     uint64_t limit_bytes, struct err *err);
	/* As volume_sweep; NULL: there are no groups. */
	int (*sweep)(struct volumes *v, struct err *err);
};

extern const struct volume_backend volume_btrfs, volume_plain;

const struct volume_backend *volume_backend(const struct volumes *v);

/* ---- volume-loop.c: <state>/volumes.img as a mounted file system ----------------------------- */

/* Mounts it at <state>/mnt; makes it when it is missing. Fills v->quota, direct_io, root_fd. */
int volume_loop_open(struct volumes *v, int state, const struct volumes_config *config,
		     struct err *err);

/* ---- volume-btrfs.c -------------------------------------------------------------------------- */

/* Turns quotas on, of the kind that *quota says (MSG_QUOTA_NONE: the best there is); *quota is then
 * what the kernel says is in force. */
int volume_btrfs_quota_start(int root, enum msg_quota *quota, struct err *err);

/* ---- volume.c: for all of them --------------------------------------------------------------- */

/* Calls each for every name in the folder but . and .. until it returns something else than 0, and
 * returns that. */
int volume_scan(int folder, int (*each)(void *data, int folder, const char *name), void *data,
		struct err *err);
int volume_open_folder(int at, const char *name, int *ret_fd, struct err *err);
/* Takes flock(2); waits up to 10 s for an earlier launcher's processes, which may be dying, and
 * says busy then. */
int volume_lock(int fd, const char *busy, struct err *err);
/* Renames to <name>.deleting, or <name>.<k>.deleting. */
int volume_set_aside(int folder, const char *name, struct err *err);

/* ---- volume-program.c: other people's programs ------------------------------------------------- */

struct volume_program {
	const char *const *argv; /* argv[0] is an absolute path */
	int input;		 /* standard input */
	int cage; /* -1, or a detached mount: the only thing the child may write to */
};

/* Runs a program to its end, with an empty environment and no descriptor but the three standard
 * ones; fails unless its status is 0, with the first line that it printed. In a cage it has its own
 * mount, process, network and IPC namespaces, everything but the cage is read-only, and it is uid
 * and gid IMAGE_OWNER without any capability. */
int volume_program_run(const struct volume_program *c, struct err *err);
