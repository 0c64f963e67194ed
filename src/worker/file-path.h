// SPDX-License-Identifier: Apache-2.0
/*
 * file-path: from a tenant's path to a descriptor, beneath the workspace and nowhere else. The
 * kernel resolves (openat2 with RESOLVE_BENEATH, NO_MAGICLINKS, NO_XDEV); nothing here decides from
 * a string whether a path is inside. Two things are added to what the kernel does:
 *
 * - "a/../b" with a missing folder a means b, as for people and for clients that wrote it: the pair
 *   is cut out and the rest resolved again. A name that does not exist is no link, so nothing is
 *   guessed.
 * - A file to be written is found as (folder, name): a final link is read and its text put in the
 *   place of the name, then the whole path goes through the kernel again.
 *
 * Errors are negative errno values: -EXDEV leaves the workspace.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* A path and a link's text. What the kernel is given is at most PATH_MAX anyway. */
#define FILE_PATH_MAX (2 * PATH_MAX)

struct file_path {
	size_t len;
	char text[FILE_PATH_MAX];
};

/* Where a file is to be written. The strings lie in the file_path. */
struct file_target {
	int base;	  /* owned: O_PATH descriptor of the deepest folder that exists */
	const char *rest; /* folders to be made in it, "" when there are none */
	const char *name;
	bool exists; /* then st is of what is there; of file_target_find never a link */
	struct stat st;
};

/* openat2 beneath dir; EAGAIN (something was renamed or mounted meanwhile) is retried a bounded
 * number of times. mode counts with O_CREAT and O_TMPFILE. */
int file_open(int dir, const char *path, int flags, unsigned mode);
/* The same for a path that no link may be in: -ELOOP. */
int file_open_plain(int dir, const char *path, int flags, unsigned mode);

/* The same for a path of a tenant, following links, with the missing pairs cut out of *path. */
int file_open_path(int workspace_fd, struct file_path *path, int flags);

/* "/proc/self/fd/<n>": the open file itself as a path, for calls that want one. */
#define FILE_SELF (sizeof("/proc/self/fd/") + 3 * sizeof(int))
void file_self(int fd, char ret[FILE_SELF]);

/* Fills *ret, *path is used up. -EISDIR: it names a folder, -ENOTDIR: a parent is a file. */
int file_target_find(int workspace_fd, struct file_path *path, struct file_target *ret);
/* The same for an entry as it is, a folder or a link too: the last component is not followed,
 * slashes behind it are cut off. -EISDIR: it is "." or ends in "..". */
int file_entry_find(int workspace_fd, struct file_path *path, struct file_target *ret);
void file_target_fini(struct file_target *t);

/* How many names come with the file at most: its own if there is none, and folders. */
unsigned file_target_missing(const struct file_target *t);
/* Makes the folders of t->rest, mode 0755. Returns a descriptor of the folder that the file goes
 * into; *ret_made, also set on failure, is the number of parts of t->rest up to the last one that
 * was new. */
int file_target_make(const struct file_target *t, unsigned *ret_made);
/* Removes the first made folders of t->rest again, the deepest first, those that are empty. */
void file_target_unmake(const struct file_target *t, unsigned made);
