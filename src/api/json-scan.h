// SPDX-License-Identifier: Apache-2.0
/*
 * json-scan: a look over JSON text before anything is built from it. It counts how deep and how
 * many values the text can have, so that 64 MiB of "[[],[],..." is refused for the price of reading
 * it. It does not judge the grammar: whatever it lets pass is still parsed strictly. For text that
 * is valid JSON the counts are exact. RFC 8259; limits in base/limits.h. Used by airlockd, on any
 * thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct json_scan {
	unsigned depth;	 /* of the deepest container; 1 for {} */
	size_t values;	 /* objects, lists, strings, numbers, literals; names do not count */
	bool has_nul;	 /* the escape \u0000 stands in some string */
	const char *why; /* on failure: what is wrong, a literal */
	size_t at;	 /* on failure: byte where it was seen */
};

/* False when the text starts with a byte order mark or passes a limit. */
bool json_scan(struct str text, struct json_scan *ret);
