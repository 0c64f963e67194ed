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

bool path_is_workspace(struct str path)
{
	struct str rest = path, part;

	if (path.len && path.data[0] == '/')
		return false;
	while (str_split(&rest, '/', &part)) {
		if (part.len && !str_eq(part, STR(".")))
			return false;
	}
	return true;
}

struct str path_last(struct str path)
{
	struct str rest = path, part, last = { "", 0 };

	while (str_split(&rest, '/', &part)) {
		if (part.len)
			last = part;
	}
	return last;
}
