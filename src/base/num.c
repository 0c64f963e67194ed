// SPDX-License-Identifier: Apache-2.0
#include "base/num.h"

bool num_parse(struct str text, uint64_t min, uint64_t max, uint64_t *ret)
{
	uint64_t value = 0;

	if (!text.len)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		unsigned digit = (unsigned char)text.data[i] - (unsigned)'0';
		if (digit > 9)
			return false;
		if (__builtin_mul_overflow(value, 10u, &value) ||
		    __builtin_add_overflow(value, digit, &value))
			return false;
	}
	if (value < min || value > max)
		return false;
	*ret = value;
	return true;
}

bool num_parse_milli(struct str text, uint64_t min_milli, uint64_t max_milli, uint64_t *ret_milli)
{
	struct str whole = text, rest = { "", 0 };
	uint64_t units = 0, part = 0, milli = 0;
	const char *point = text.len ? memchr(text.data, '.', text.len) : NULL;

	if (point) {
		whole.len = (size_t)(point - text.data);
		rest = str_from(text, whole.len + 1);
		if (!rest.len || rest.len > 3 || !num_parse(rest, 0, 999, &part))
			return false;
		for (size_t i = rest.len; i < 3; i++)
			part *= 10;
	}
	if (!num_parse(whole, 0, UINT64_MAX / 1000 - 1, &units))
		return false;
	milli = units * 1000 + part;
	if (milli < min_milli || milli > max_milli)
		return false;
	*ret_milli = milli;
	return true;
}
