// SPDX-License-Identifier: Apache-2.0
#include "api/path.h"

#include "base/limits.h"
#include "base/utf8.h"

#define ECHO_CHARACTERS 200

const char *path_check(struct str path)
{
	struct str rest = path, part;

	if (path.len > LIMIT_PATH)
		return "a path has at most 4096 bytes";
	if (!utf8_valid(path))
		return "a path must be UTF-8";
	while (str_split(&rest, '/', &part)) {
		if (part.len > LIMIT_PATH_PART)
			return "a part of a path has at most 255 bytes";
	}
	return NULL;
}

struct str path_echo(struct str path)
{
	return utf8_cut(path, ECHO_CHARACTERS);
}
