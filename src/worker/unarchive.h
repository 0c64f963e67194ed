// SPDX-License-Identifier: Apache-2.0
/*
 * unarchive: a foreign tar in gzip becomes files beneath a folder that nobody else uses. libarchive
 * reads the tar, zip.h the gzip. Here is what is taken over (protocol 13):
 *
 *   names   without their first component; "." and empty parts don't count. Absolute ones, "..", a
 *           part above 255 bytes and a whole above 4,096 are refused, and so is a name that has a
 *           link or a file where a folder is needed: no link of the archive is ever followed.
 *   kinds   files, folders, links; hard links to a file of the archive. Anything else is refused.
 *   rest    content, time of files, and whether a file may be executed. No owner, no other mode, no
 *           extended attribute. Of two members with one name the later one stays.
 *
 * Limits: entries (members, and the folders that are made for them), bytes, 200 times the
 * compressed size, two minutes. What was made before a refusal is the caller's to remove. Uses the
 * heap; zip.h.
 */
#pragma once

#include <stdint.h>

#define UNARCHIVE_ENTRIES 500000u
#define UNARCHIVE_BYTES (UINT64_C(16) << 30) /* of the tar, and of any file in it */
#define UNARCHIVE_RATIO 200u
#define UNARCHIVE_RATIO_FREE (16u << 20) /* unpacked bytes from which the ratio counts */
#define UNARCHIVE_MS 120000
/* What bytes are counted in. */
#define UNARCHIVE_BLOCK 4096u

struct unarchive {
	/* in */
	int pipe, root; /* borrowed */
	uint64_t room;	/* bytes that may be written, more are -EDQUOT */
	uint64_t names; /* entries that may come, more are -JOB_INODES */
	/* out */
	uint64_t files; /* regular ones, hard links too */
	uint64_t bytes; /* written, in blocks */
	uint64_t entries;
	uint32_t fault; /* enum file_archive_fault */
};

/* 0, -JOB_ARCHIVE with fault set, or another negative errno. */
int unarchive(struct unarchive *u);
