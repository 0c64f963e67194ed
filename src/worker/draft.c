// SPDX-License-Identifier: Apache-2.0
#include "worker/draft.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fd.h"

void draft_fini(struct draft *d)
{
	if (d->name[0])
		unlinkat(d->at, d->name, 0);
	fd_close(&d->fd);
}

int draft_open(struct draft *d, int dir, int top)
{
	d->dir = d->at = dir;
	d->top = top;
	d->name[0] = '\0';
	d->fd = file_open(dir, ".", O_TMPFILE | O_WRONLY, 0600);
	if (d->fd >= 0)
		return 0;
	if (d->fd != -EOPNOTSUPP && d->fd != -EISDIR)
		return d->fd;
	/* Some stacked file systems can't: a name from the start. */
	for (int i = 0; i < JOB_NAME_TRIES && d->fd < 0; i++) {
		char name[JOB_NAME];
		int r = job_random_name(name);
		if (r < 0)
			return r;
		d->fd = file_open(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
		if (d->fd >= 0)
			memcpy(d->name, name, sizeof(name));
		else if (d->fd != -EEXIST)
			return d->fd;
	}
	return d->fd < 0 ? d->fd : 0;
}

static int draft_link(const struct draft *d, int at, const char *name)
{
	char self[FILE_SELF];

	/* Linux 6.10 and newer; before it CAP_DAC_READ_SEARCH was needed, and it said ENOENT. */
	if (linkat(d->fd, "", at, name, AT_EMPTY_PATH) == 0)
		return 0;
	if (errno != ENOENT && errno != EPERM)
		return -errno;
	file_self(d->fd, self);
	return linkat(AT_FDCWD, self, at, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int draft_name(struct draft *d, int at)
{
	char own[JOB_NAME];
	int r = -EEXIST;

	for (int i = 0; i < JOB_NAME_TRIES && r == -EEXIST; i++) {
		r = job_random_name(own);
		if (r >= 0)
			r = draft_link(d, at, own);
	}
	if (r < 0)
		return r;
	memcpy(d->name, own, sizeof(own));
	d->at = at;
	return 0;
}

int draft_commit(struct draft *d, const char *name, bool exists)
{
	int r = 0;

	if (!d->name[0] && !exists) {
		r = draft_link(d, d->dir, name);
		if (r != -EEXIST)
			return r;
	}
	if (!d->name[0]) {
		r = flock(d->fd, LOCK_EX | LOCK_NB) < 0 ? -errno : draft_name(d, d->top);
		if (r == -EACCES)
			r = draft_name(d, d->dir);
	}
	if (r < 0)
		return r;
	if (renameat(d->at, d->name, d->dir, name) < 0)
		return -errno;
	d->name[0] = '\0';
	return 0;
}
