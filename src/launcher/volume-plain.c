// SPDX-License-Identifier: Apache-2.0
/*
 * Plain directories: no quota, no clones, for one tenant on a host where btrfs cannot be had.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "launcher/volume-backend.h"

static int plain_make(struct volumes *v, int folder, const char *name, uint64_t group,
		      uint64_t limit_bytes, struct err *err)
{
	if (mkdirat(folder, name, 0700) < 0)
		return err_errno(err, "making the directory %s", name);
	return 0;
}

static int plain_seal(struct volumes *v, int tree, struct err *err)
{
	return 0; /* mounted read-only, and its owner is nobody's uid */
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

static int plain_usage(struct volumes *v, int tree, uint64_t group, uint64_t *ret_used,
		       uint64_t *ret_limit, struct err *err)
{
	return err_set(err, EOPNOTSUPP, "plain directories have no counter of used bytes");
}

const struct volume_backend volume_plain = {
	.make = plain_make,
	.seal = plain_seal,
	.destroy = plain_destroy,
	.usage = plain_usage,
};
