// SPDX-License-Identifier: Apache-2.0
/*
 * files: the words of the contract for what goes wrong with a path (sections 5.1, 5.2, 5.5). The
 * calls themselves are in core.h.
 */
#pragma once

#include "core/core.h"

/* Which thing the path was to be. */
enum files_use {
	FILES_READ,
	FILES_WRITE,
	FILES_FOLDER,
	FILES_DOWNLOAD,
	FILES_REMOVE,
	FILES_MOVE,
};

/* What the words are about. */
struct files_matter {
	const struct session *s;
	enum files_use use;
	struct str path;
	uint64_t used_bytes; /* of slug "quota" */
};

/* Turns what the runtime said (a slug, no words) about a path into slug and text for the caller;
 * what is no matter of the path becomes "busy", "no_capacity" or "internal". */
void files_say(struct err *ret, const struct core *c, const struct err *err,
	       const struct files_matter *m);
