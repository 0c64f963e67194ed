// SPDX-License-Identifier: Apache-2.0
/*
 * str: a borrowed piece of text, pointer and length, not NUL-terminated. It lives as long as the
 * buffer that it points into. The empty one may have data == NULL.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct str {
	const char *data;
	size_t len;
};

#define STR(literal) ((struct str){ "" literal, sizeof(literal) - 1 })

/* Only for NUL-terminated text of our own, never for input. */
static inline struct str str_of(const char *text)
{
	return (struct str){ text, text ? strlen(text) : 0 };
}

static inline bool str_eq(struct str a, struct str b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* ASCII letters compare without case, whatever the locale; NUL is a byte like others. */
bool str_eq_nocase(struct str a, struct str b);

static inline bool str_starts(struct str a, struct str prefix)
{
	return a.len >= prefix.len && str_eq((struct str){ a.data, prefix.len }, prefix);
}

/* The part from byte n on; n is at most s.len. */
static inline struct str str_from(struct str s, size_t n)
{
	return (struct str){ s.data ? s.data + n : NULL, s.len - n };
}

/* Without blanks (space, tab) at both ends. */
struct str str_trim(struct str s);
/* Takes the part before the first sep out of *rest; returns false when *rest was exhausted
 * (data == NULL). "a,,b" gives "a", "", "b". */
bool str_split(struct str *rest, char sep, struct str *ret_part);
/* Equal in time that depends on the lengths alone. */
bool str_eq_secret(struct str a, struct str b);
