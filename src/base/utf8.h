// SPDX-License-Identifier: Apache-2.0
/*
 * utf8: checking, repairing and measuring UTF-8 (RFC 3629: no surrogates, no overlong forms,
 * nothing above U+10FFFF). "Character" means code point.
 *
 * Repairing replaces every maximal invalid subpart by one U+FFFD (Unicode 15, section 3.9, "U+FFFD
 * Substitution of Maximal Subparts"; the WHATWG decoder; Python's errors="replace"). It works chunk
 * by chunk: the same bytes give the same text wherever the chunks are cut.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

bool utf8_valid(struct str s);

/* A sequence begun in one chunk and not ended there. {0} is the start. */
struct utf8_fix {
	unsigned char held[4];
	unsigned char n_held;
	unsigned char missing;	 /* continuation bytes that must still come */
	unsigned char low, high; /* what the next one may be */
};

/* Both return false when out is full; the text in out is then cut between two characters. */
bool utf8_fix_put(struct utf8_fix *fix, struct str in, struct buf *out);
/* No more input: an unfinished sequence becomes one U+FFFD. The state is the start again. */
bool utf8_fix_end(struct utf8_fix *fix, struct buf *out);

/* How many bytes of a control character s begins with: U+0000..001F, U+007F..009F; 0: of none. */
size_t utf8_control(struct str s);

/* The rest is for valid text only. */
uint64_t utf8_count(struct str s);
/* The first n characters. */
struct str utf8_cut(struct str s, uint64_t n);
/* Without Unicode white space at both ends (the set of Python's str.strip). */
struct str utf8_strip(struct str s);
