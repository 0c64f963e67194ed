// SPDX-License-Identifier: Apache-2.0
#include "http/chunk.h"

#include <stdbool.h>

#include "base/limits.h"

enum state { SIZE, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF, END_CR, END_LF };

#define MAX_DIGITS 15u

static bool take_digit(struct chunk *c, char digit)
{
	unsigned value;

	if (digit >= '0' && digit <= '9')
		value = (unsigned)(digit - '0');
	else if ((digit | 0x20) >= 'a' && (digit | 0x20) <= 'f')
		value = (unsigned)((digit | 0x20) - 'a') + 10;
	else
		return false;
	c->left = c->left * 16 + value;
	return ++c->digits <= MAX_DIGITS;
}

/* A byte of the size line. */
static bool take_size(struct chunk *c, char byte)
{
	if (c->state == SIZE && c->digits && byte == ';') {
		c->state = EXTENSION;
		return ++c->extension <= LIMIT_CHUNK_EXTENSIONS;
	}
	if (byte == '\r' && c->digits) {
		c->state = SIZE_LF;
		return true;
	}
	if (c->state == SIZE)
		return take_digit(c, byte);
	unsigned char u = (unsigned char)byte;
	return (u == '\t' || (u >= ' ' && u != 0x7f)) && ++c->extension <= LIMIT_CHUNK_EXTENSIONS;
}

/* A byte of the framing, outside the data. */
static bool take_byte(struct chunk *c, char byte)
{
	switch ((enum state)c->state) {
	case SIZE:
	case EXTENSION:
		return take_size(c, byte);
	case SIZE_LF:
		c->state = c->left ? DATA : END_CR;
		return byte == '\n';
	case DATA_CR:
		c->state = DATA_LF;
		return byte == '\r';
	case DATA_LF:
		c->state = SIZE;
		c->digits = 0;
		return byte == '\n';
	default: /* END_CR: anything else would be a trailer field */
		c->state = END_LF;
		return byte == '\r';
	}
}

enum chunk_result chunk_take(struct chunk *c, struct str *in, struct str *ret_data)
{
	while (in->len) {
		if (c->state == DATA) {
			size_t n = c->left < in->len ? (size_t)c->left : in->len;
			*ret_data = (struct str){ in->data, n };
			*in = str_from(*in, n);
			c->left -= n;
			if (!c->left)
				c->state = DATA_CR;
			return CHUNK_DATA;
		}
		char byte = in->data[0];
		*in = str_from(*in, 1);
		if (c->state == END_LF)
			return byte == '\n' ? CHUNK_END : CHUNK_BAD;
		if (!take_byte(c, byte))
			return CHUNK_BAD;
	}
	return CHUNK_MORE;
}
