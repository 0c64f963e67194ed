// SPDX-License-Identifier: Apache-2.0
/*
 * Plain directories: no quota, no clones, for one tenant on a host where btrfs cannot be had.
 *
 * Deleting a tree that a tenant made: it may be deeper than any path or descriptor limit, so there
 * is no recursion. Folders below the first level are moved up to the first level, under names of
 * our own, until there are none left; three descriptors are enough for any depth. Nothing is
 * followed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "launcher/volume-backend.h"

struct flatten {
	int top;
	unsigned long moved;
	struct err *err;
};

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

/* An entry of a folder of the first level: a file goes, a folder moves up. */
static int empty_entry(void *data, int folder, const char *name)
{
	struct flatten *f = data;
	char up[32];

	if (unlinkat(folder, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return err_errno(f->err, "deleting a file of a workspace");
	do {
		snprintf(up, sizeof(up), ".airlock-%lu", f->moved++);
		if (renameat2(folder, name, f->top, up, RENAME_NOREPLACE) == 0)
			return 0;
	} while (errno == EEXIST);
	return err_errno(f->err, "moving a folder of a workspace up");
}

static int empty_top_entry(void *data, int top, const char *name)
{
	struct flatten *f = data;
	_cleanup_fd_ int fd = -1;

	if (unlinkat(top, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return err_errno(f->err, "deleting a file of a workspace");
	if (unlinkat(top, name, AT_REMOVEDIR) == 0)
		return 0;
	int r = volume_open_folder(top, name, &fd, f->err);
	if (r < 0)
		return r;
	r = volume_scan(fd, empty_entry, f, f->err);
	if (r < 0)
		return r;
	if (unlinkat(top, name, AT_REMOVEDIR) < 0 && errno != ENOTEMPTY)
		return err_errno(f->err, "deleting a folder of a workspace");
	return 0;
}

static int plain_destroy(struct volumes *v, int folder, const char *name, struct err *err)
{
	_cleanup_fd_ int top = -1;
	int r = volume_open_folder(folder, name, &top, err);

	if (r < 0)
		return r;
	/* Each pass takes away at least one level of every folder that it meets. */
	struct flatten f = { .top = top, .err = err };
	while (unlinkat(folder, name, AT_REMOVEDIR) < 0) {
		if (errno != ENOTEMPTY)
			return err_errno(err, "deleting %s", name);
		r = volume_scan(top, empty_top_entry, &f, err);
		if (r < 0)
			return r;
	}
	return 0;
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
