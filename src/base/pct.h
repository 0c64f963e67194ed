// SPDX-License-Identifier: Apache-2.0
/*
 * pct: percent-decoding of paths and form queries (RFC 3986 section 2.1; WHATWG URL, form
 * encoding). Decoding is strict: "%" must be followed by two hexadecimal digits and the result must
 * be UTF-8 (percent-escapes are UTF-8 in the contract). It may contain NUL, which callers refuse
 * where it has no meaning. Text is decoded exactly once.
 */
#pragma once

#include <stdbool.h>

#include "base/str.h"

/* Both write at most in.len bytes to out, which may be in.data itself; *ret points to out. False
 * (*ret untouched) when the text is not valid. */
bool pct_decode_segment(struct str in, char *out, struct str *ret);
/* The same, and "+" is a blank. */
bool pct_decode_query(struct str in, char *out, struct str *ret);
