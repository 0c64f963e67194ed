// SPDX-License-Identifier: Apache-2.0
/*
 * Plain directories: no quota, no clones, for one tenant on a host where btrfs cannot be had.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "launcher/volume-backend.h"

#define XATTR_SEALED "trusted.airlock.sealed"

static int plain_make(struct volumes *v, int folder, const char *name,
		      const struct volume_charge *charge, uint64_t limit_bytes, struct err *err)
{
	if (mkdirat(folder, name, 0700) < 0)
		return err_errno(err, "making the directory %s", name);
	return 0;
}

/* Noted, and held by whoever mounts it: read-only, or not at all. On disk before it is said. */
static int plain_seal(struct volumes *v, int tree, struct err *err)
{
	if (fsetxattr(tree, XATTR_SEALED, "", 0, 0) < 0 || syncfs(tree) < 0)
		return err_errno(err, "sealing a directory");
	return 0;
}

static bool plain_is_sealed(int tree)
{
	return fgetxattr(tree, XATTR_SEALED, NULL, 0) >= 0;
}

/* GNU rm goes down by descriptor, to any depth, and follows nothing. */
static int plain_destroy(struct volumes *v, int folder, const char *name, struct err *err)
{
	char path[300];
	const char *const argv[] = { "/usr/bin/rm", "-rf", "--one-file-system", "--", path, NULL };
	struct volume_program rm = { .argv = argv, .input = folder, .cage = -1 };

	snprintf(path, sizeof(path), "/proc/self/fd/0/%s", name);
	return volume_program_run(&rm, err);
}

const struct volume_backend volume_plain = {
	.make = plain_make,
	.seal = plain_seal,
	.is_sealed = plain_is_sealed,
	.destroy = plain_destroy,
};
