// SPDX-License-Identifier: Apache-2.0
/*
 * How values are counted without a parser: a text has one value at the top, and every container
 * that is not empty has one more value than it has commas. So 1 + commas + containers that are not
 * empty.
 */
#include "api/json-scan.h"

#include <stdint.h>

#include "base/limits.h"

static bool fail(struct json_scan *scan, size_t at, const char *why)
{
	scan->at = at;
	scan->why = why;
	return false;
}

#define ONES 0x0101010101010101u
#define HIGHS 0x8080808080808080u

/* Whether one of eight bytes is c. */
static bool has_byte(uint64_t word, unsigned char c)
{
	uint64_t x = word ^ (ONES * c);

	return ((x - ONES) & ~x & HIGHS) != 0;
}

/* at is behind the opening quote; returns the place behind the closing one. */
static size_t skip_string(struct str text, size_t at, bool *ret_nul)
{
	while (at < text.len) {
		uint64_t word;

		if (text.len - at >= sizeof(word)) {
			memcpy(&word, text.data + at, sizeof(word));
			if (!has_byte(word, '"') && !has_byte(word, '\\')) {
				at += sizeof(word);
				continue;
			}
		}
		char c = text.data[at++];
		if (c == '"')
			break;
		if (c != '\\')
			continue;
		if (text.len - at >= 5 && memcmp(text.data + at, "u0000", 5) == 0)
			*ret_nul = true;
		at += at < text.len;
	}
	return at;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Whether the container opened just before at has no value. */
static bool is_empty(struct str text, size_t at)
{
	while (at < text.len && is_blank(text.data[at]))
		at++;
	return at < text.len && (text.data[at] == ']' || text.data[at] == '}');
}

bool json_scan(struct str text, struct json_scan *ret)
{
	unsigned depth = 0;

	*ret = (struct json_scan){ .values = 1 };
	if (text.len >= 3 && memcmp(text.data, "\xef\xbb\xbf", 3) == 0)
		return fail(ret, 0, "a byte order mark is not allowed");
	for (size_t at = 0; at < text.len;) {
		char c = text.data[at++];
		switch (c) {
		case '"':
			at = skip_string(text, at, &ret->has_nul);
			break;
		case '{':
		case '[':
			if (++depth > LIMIT_JSON_DEPTH)
				return fail(ret, at - 1, "nested too deeply");
			if (depth > ret->depth)
				ret->depth = depth;
			ret->values += !is_empty(text, at);
			break;
		case '}':
		case ']':
			depth -= depth > 0;
			break;
		case ',':
			ret->values++;
			break;
		default:
			break;
		}
		if (ret->values > LIMIT_JSON_VALUES)
			return fail(ret, at - 1, "too many values");
	}
	return true;
}
