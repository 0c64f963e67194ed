// SPDX-License-Identifier: Apache-2.0
/*
 * tree: a way down a tenant's folders and back, by descriptors, in bounded memory and without
 * recursion. A struct tree is a stack of levels; the newest TREE_OPEN of them keep a descriptor and
 * a buffer of entries, older ones are opened again through ".." of the child, checked by device and
 * inode number, and continued at their saved position. So a tree may be deeper than any path can be
 * long. A folder is entered by openat2 beneath its parent, links not followed.
 *
 * While somebody changes the tree, what it says is what was there at some moment; a level that was
 * moved away is -EAGAIN. Nothing outside of the first folder is ever reached: a ".." that leads to
 * another folder than the one that we came from is refused.
 *
 * States: tree_init, then tree_enter of the first folder, then any of the others; tree_fini closes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TREE_OPEN 16
#define TREE_DEPTH 8192
#define TREE_ENTRIES (1u << 26) /* that one walk looks at */
#define TREE_PATH 65536		/* bytes of path that are remembered */

/* As the kernel fills it, include/linux/dirent.h. */
struct tree_entry {
	uint64_t ino;
	int64_t next; /* position after this entry */
	uint16_t len;
	uint8_t type; /* DT_DIR and so on, DT_UNKNOWN is possible */
	char name[];
};

struct tree_level {
	uint64_t dev, ino;
	int64_t before, after; /* positions around the last entry that was given */
	uint32_t path_len;     /* of the folder itself, with its slash */
	mode_t mode;	       /* when it was entered */
};

struct tree_slot {
	int fd; /* owned */
	uint32_t filled, at;
	_Alignas(8) char entries[16384];
};

/* Level n uses slot n % TREE_OPEN. Invariant: the slots of the levels depth - TREE_OPEN to depth -
 * 1 are theirs or empty (fd -1). */
struct tree {
	unsigned depth; /* levels; 0: nothing is entered */
	uint64_t seen;
	size_t path_len; /* of the top level's path beneath the first folder, "" or "a/b/" */
	bool path_cut;	 /* it is longer than what path holds */
	struct tree_slot slots[TREE_OPEN];
	struct tree_level levels[TREE_DEPTH];
	char path[TREE_PATH];
};

void tree_init(struct tree *t);
void tree_fini(struct tree *t);

/* Makes an opened folder the top level; name is "" for the first. Takes *fd. -EOVERFLOW: too deep.
 */
int tree_enter(struct tree *t, int *fd, const char *name);
/* Opens a folder of the top level and enters it. 1: done; 0: it is gone, or no folder any more;
 * -EACCES, -EXDEV (something is mounted there) and others. */
int tree_descend(struct tree *t, const char *name);
/* Back to the level above, if there is one. */
int tree_leave(struct tree *t);

/* Descriptor of the top level: O_RDONLY. */
int tree_fd(const struct tree *t);
struct tree_level *tree_level(struct tree *t);

/* The next entry of the top level but "." and "..", in no order. 1: *ret is good until the next
 * call for this tree; 0: there is none. -EOVERFLOW: more than TREE_ENTRIES in all. */
int tree_next(struct tree *t, const struct tree_entry **ret);
/* The last entry comes again. */
int tree_again(struct tree *t);
/* All entries of the top level come again. */
int tree_rewind(struct tree *t);
