// SPDX-License-Identifier: Apache-2.0
#include "base/str.h"

static unsigned char lower(char c)
{
	return (unsigned char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

bool str_eq_nocase(struct str a, struct str b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++) {
		if (lower(a.data[i]) != lower(b.data[i]))
			return false;
	}
	return true;
}

struct str str_trim(struct str s)
{
	while (s.len && (s.data[0] == ' ' || s.data[0] == '\t'))
		s = str_from(s, 1);
	while (s.len && (s.data[s.len - 1] == ' ' || s.data[s.len - 1] == '\t'))
		s.len--;
	return s;
}

bool str_split(struct str *rest, char sep, struct str *ret_part)
{
	if (!rest->data)
		return false;
	const char *at = rest->len ? memchr(rest->data, sep, rest->len) : NULL;
	if (!at) {
		*ret_part = *rest;
		*rest = (struct str){ NULL, 0 };
		return true;
	}
	size_t n = (size_t)(at - rest->data);
	*ret_part = (struct str){ rest->data, n };
	*rest = str_from(*rest, n + 1);
	return true;
}

bool str_eq_secret(struct str a, struct str b)
{
	volatile unsigned char diff = a.len != b.len;

	for (size_t i = 0; i < a.len; i++) {
		unsigned char other = b.len ? (unsigned char)b.data[i % b.len] : 0;
		diff = (unsigned char)(diff | ((unsigned char)a.data[i] ^ other));
	}
	return diff == 0;
}
