// SPDX-License-Identifier: Apache-2.0
#include "http/chunk.h"

#include <stdbool.h>

#include "base/limits.h"
#include "http/token.h"

enum state { SIZE, EXT_NAME, EXT_VALUE, SIZE_LF, DATA, DATA_CR, DATA_LF, END_CR, END_LF };

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

/* A byte of an extension: a token, or two with "=" between. */
static bool take_extension(struct chunk *c, char byte)
{
	if (byte == '\r' && c->piece) {
		c->state = SIZE_LF;
		return true;
	}
	if (byte == '=' && c->piece && c->state == EXT_NAME) {
		c->state = EXT_VALUE;
		c->piece = 0;
	} else if (token_has((unsigned char)byte)) {
		c->piece++;
	} else {
		return false;
	}
	return ++c->extension <= LIMIT_CHUNK_EXTENSIONS;
}

/* A byte of the size. */
static bool take_size(struct chunk *c, char byte)
{
	if (c->digits && byte == ';') {
		c->state = EXT_NAME;
		c->piece = 0;
		return ++c->extension <= LIMIT_CHUNK_EXTENSIONS;
	}
	if (c->digits && byte == '\r') {
		c->state = SIZE_LF;
		return true;
	}
	return take_digit(c, byte);
}

/* A byte of the framing, outside the data. */
static bool take_byte(struct chunk *c, char byte)
{
	switch ((enum state)c->state) {
	case SIZE:
		return take_size(c, byte);
	case EXT_NAME:
	case EXT_VALUE:
		return take_extension(c, byte);
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
