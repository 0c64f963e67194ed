// SPDX-License-Identifier: Apache-2.0
/*
 * repository: which repository an import is about and where it goes, from the three texts of a
 * request (the contract, section 13). Pure: no I/O, no memory of its own.
 *
 *   repo   owner/name, or http(s)://[www.]github.com/owner/name[.git][/tree/<ref>][/]
 *   ref    beats the one in the URL; neither: HEAD
 *   path   the folder to make, beneath the workspace; none: the repository's name
 *
 * Blanks around each don't count, and one that is blank counts as not given. Errors carry their
 * slug ("bad_repo", "bad_ref", "bad_destination") and the contract's text. What is taken consists
 * of letters, digits and "._/-" alone, so it can stand in a URL and in a path as it is.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

#define REPOSITORY_OWNER_MAX 39u
#define REPOSITORY_NAME_MAX 100u
#define REPOSITORY_REF_MAX 200u
#define REPOSITORY_PATH_MAX 200u

struct repository {
	char owner[REPOSITORY_OWNER_MAX + 1];
	char name[REPOSITORY_NAME_MAX + 1];
	char ref[REPOSITORY_REF_MAX + 1];
	char path[REPOSITORY_PATH_MAX + 1]; /* without "/" at an end */
};

/* ref and path: data == NULL is not given. */
int repository_parse(struct repository *ret, struct str repo, struct str ref, struct str path,
		     struct err *err);

/* Where its archive is, at a code host that is laid out as GitHub: base is an absolute URL. Returns
 * the length; size or more: it did not fit. */
size_t repository_url(const struct repository *r, const char *base, char *ret, size_t size);
