// SPDX-License-Identifier: Apache-2.0
#include "base/pct.h"

#include "base/utf8.h"

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static bool decode(struct str in, bool plus_is_blank, char *out, struct str *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < in.len; i++) {
		char c = in.data[i];
		if (c == '+' && plus_is_blank) {
			c = ' ';
		} else if (c == '%') {
			int high = in.len - i > 2 ? hex_value(in.data[i + 1]) : -1;
			int low = in.len - i > 2 ? hex_value(in.data[i + 2]) : -1;
			if (high < 0 || low < 0)
				return false;
			c = (char)(high * 16 + low);
			i += 2;
		}
		out[n++] = c;
	}
	struct str done = { out, n };
	if (!utf8_valid(done))
		return false;
	*ret = done;
	return true;
}

bool pct_decode_segment(struct str in, char *out, struct str *ret)
{
	return decode(in, false, out, ret);
}

bool pct_decode_query(struct str in, char *out, struct str *ret)
{
	return decode(in, true, out, ret);
}
