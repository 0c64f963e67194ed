// SPDX-License-Identifier: Apache-2.0
/*
 * sorted: a walk of a tree in the byte order of its paths ("a", "a-b", "a/x": a folder's own
 * entries come where "a/" sorts), in bounded memory for folders of any size.
 *
 * Per level the smallest names behind the last one that was given are kept, as many as a batch
 * holds; when they are used up, the folder is read again for the next ones. So n names cost n /
 * batch readings. A folder stands twice in a batch: once as an entry, once, with a slash, as the
 * way down. The newest TREE_OPEN levels have a batch; older ones read their folder again on the way
 * back. An entry that appears or goes meanwhile is or isn't seen; none is seen twice.
 *
 * Uses job_tree. There is one walk at a time.
 */
#pragma once

#include "worker/tree.h"

/* Begins with an opened folder; takes *fd. after: only paths behind this one, "" for all. depth:
 * levels, 1 for the folder's own entries alone, 0 for all of them. hide: names of ours in the first
 * folder don't exist. Ended by sorted_end. */
int sorted_start(int *fd, const char *after, unsigned depth, bool hide);
/* 1: *ret_name is an entry of job_tree's top level, good until the next call; 0: the end. Folders
 * that can't be read look empty; with depth 0 they, and what is too deep, are errors. */
int sorted_next(const char **ret_name);
void sorted_end(void);
