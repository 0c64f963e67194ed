// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <string.h>

#include "base/mem.h"

#define HIGH_BITS 0x8080808080808080u

/* Lead bytes and what may follow them directly (Unicode 15, table 3-7). Later ones are 80..BF. */
static const struct lead {
	unsigned char first, last, missing, low, high;
} leads[] = {
	{ 0xc2, 0xdf, 1, 0x80, 0xbf }, { 0xe0, 0xe0, 2, 0xa0, 0xbf }, { 0xe1, 0xec, 2, 0x80, 0xbf },
	{ 0xed, 0xed, 2, 0x80, 0x9f }, { 0xee, 0xef, 2, 0x80, 0xbf }, { 0xf0, 0xf0, 3, 0x90, 0xbf },
	{ 0xf1, 0xf3, 3, 0x80, 0xbf }, { 0xf4, 0xf4, 3, 0x80, 0x8f },
};

static const struct lead *lead_find(unsigned char c)
{
	for (size_t i = 0; i < ARRAY_SIZE(leads); i++) {
		if (c >= leads[i].first && c <= leads[i].last)
			return &leads[i];
	}
	return NULL;
}

/* Length of the ASCII at the start, by eight bytes where possible. */
static size_t ascii_prefix(const unsigned char *p, size_t len)
{
	size_t i = 0;

	for (; len - i >= 8; i += 8) {
		uint64_t word;
		memcpy(&word, p + i, sizeof(word));
		if (word & HIGH_BITS)
			break;
	}
	while (i < len && p[i] < 0x80)
		i++;
	return i;
}

/* Length of the longest prefix made of whole characters. */
static size_t valid_prefix(struct str s)
{
	const unsigned char *p = (const unsigned char *)s.data;
	size_t i = 0;

	for (;;) {
		i += ascii_prefix(p + i, s.len - i);
		const struct lead *lead = i < s.len ? lead_find(p[i]) : NULL;
		if (!lead || lead->missing > s.len - i - 1)
			return i;
		if (p[i + 1] < lead->low || p[i + 1] > lead->high)
			return i;
		for (unsigned k = 2; k <= lead->missing; k++) {
			if ((p[i + k] & 0xc0) != 0x80)
				return i;
		}
		i += 1u + lead->missing;
	}
}

bool utf8_valid(struct str s)
{
	return !s.len || valid_prefix(s) == s.len;
}

static bool put_replacement(struct buf *out)
{
	return buf_put(out, "\xef\xbf\xbd", 3);
}

/* Takes one byte; sets *ret_used to false when the byte only ended a bad sequence and counts again.
 */
static bool fix_step(struct utf8_fix *fix, unsigned char c, struct buf *out, bool *ret_used)
{
	*ret_used = true;
	if (fix->missing) {
		if (c < fix->low || c > fix->high) {
			*ret_used = false;
			return utf8_fix_end(fix, out);
		}
		fix->held[fix->n_held++] = c;
		fix->low = 0x80;
		fix->high = 0xbf;
		if (--fix->missing)
			return true;
		bool ok = buf_put(out, fix->held, fix->n_held);
		fix->n_held = 0;
		return ok;
	}
	const struct lead *lead = lead_find(c);
	if (c < 0x80)
		return buf_put_char(out, (char)c);
	if (!lead)
		return put_replacement(out);
	*fix = (struct utf8_fix){ .held = { c },
				  .n_held = 1,
				  .missing = lead->missing,
				  .low = lead->low,
				  .high = lead->high };
	return true;
}

bool utf8_fix_put(struct utf8_fix *fix, struct str in, struct buf *out)
{
	while (in.len) {
		bool used;
		if (!fix->missing) {
			size_t n = valid_prefix(in);
			if (n && !buf_put(out, in.data, n)) {
				/* What still fits, whole characters only. */
				size_t room = out->max - out->len;
				out->full = false;
				buf_put(out, in.data,
					valid_prefix((struct str){ in.data, room < n ? room : n }));
				out->full = true;
				return false;
			}
			in = str_from(in, n);
			if (!in.len)
				break;
		}
		if (!fix_step(fix, (unsigned char)in.data[0], out, &used))
			return false;
		if (used)
			in = str_from(in, 1);
	}
	return !buf_is_full(out);
}

bool utf8_fix_end(struct utf8_fix *fix, struct buf *out)
{
	bool unfinished = fix->n_held != 0;

	*fix = (struct utf8_fix){ .n_held = 0 };
	return !unfinished || put_replacement(out);
}

size_t utf8_control(struct str s)
{
	unsigned char first = s.len > 0 ? (unsigned char)s.data[0] : ' ';
	unsigned char second = s.len > 1 ? (unsigned char)s.data[1] : ' ';

	if (first < 0x20 || first == 0x7f)
		return 1;
	return first == 0xc2 && second >= 0x80 && second <= 0x9f ? 2 : 0;
}

uint64_t utf8_count(struct str s)
{
	uint64_t n = 0;

	for (size_t i = 0; i < s.len; i++)
		n += ((unsigned char)s.data[i] & 0xc0) != 0x80;
	return n;
}

struct str utf8_cut(struct str s, uint64_t n)
{
	for (size_t i = 0; i < s.len; i++) {
		if (((unsigned char)s.data[i] & 0xc0) == 0x80)
			continue;
		if (!n--)
			return (struct str){ s.data, i };
	}
	return s;
}

/* White space as UTF-8: from..to on the last byte, after the given bytes. */
static const struct space {
	const char *before;
	unsigned char from, to;
} spaces[] = {
	{ "", 0x09, 0x0d },	    /* tab, line feed, vertical tab, form feed, return */
	{ "", 0x1c, 0x20 },	    /* the four separators, space */
	{ "\xc2", 0x85, 0x85 },	    /* U+0085 */
	{ "\xc2", 0xa0, 0xa0 },	    /* U+00A0 */
	{ "\xe1\x9a", 0x80, 0x80 }, /* U+1680 */
	{ "\xe2\x80", 0x80, 0x8a }, /* U+2000..200A */
	{ "\xe2\x80", 0xa8, 0xa9 }, /* U+2028, U+2029 */
	{ "\xe2\x80", 0xaf, 0xaf }, /* U+202F */
	{ "\xe2\x81", 0x9f, 0x9f }, /* U+205F */
	{ "\xe3\x80", 0x80, 0x80 }, /* U+3000 */
};

/* Whether the character of len bytes is white space. */
static bool is_space(const char *at, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(spaces); i++) {
		size_t n = strlen(spaces[i].before);
		unsigned char last = (unsigned char)at[len - 1];
		if (len == n + 1 && memcmp(at, spaces[i].before, n) == 0 &&
		    last >= spaces[i].from && last <= spaces[i].to)
			return true;
	}
	return false;
}

struct str utf8_strip(struct str s)
{
	while (s.len) {
		size_t n = utf8_cut(s, 1).len;
		if (!is_space(s.data, n))
			break;
		s = str_from(s, n);
	}
	while (s.len) {
		size_t n = 1;
		while (n < s.len && n < 4 && ((unsigned char)s.data[s.len - n] & 0xc0) == 0x80)
			n++;
		if (!is_space(s.data + s.len - n, n))
			break;
		s.len -= n;
	}
	return s;
}
