// SPDX-License-Identifier: Apache-2.0
#include "api/json-out.h"

#include <inttypes.h>

#include "base/utf8.h"

/* 0: stands for itself; 'u': as \u00xx; else the letter behind the backslash. */
static const char escapes[256] = {
	[0] = 'u',  [1] = 'u',	[2] = 'u',  [3] = 'u',	[4] = 'u',   [5] = 'u',	    [6] = 'u',
	[7] = 'u',  [8] = 'b',	[9] = 't',  [10] = 'n', [11] = 'u',  [12] = 'f',    [13] = 'r',
	[14] = 'u', [15] = 'u', [16] = 'u', [17] = 'u', [18] = 'u',  [19] = 'u',    [20] = 'u',
	[21] = 'u', [22] = 'u', [23] = 'u', [24] = 'u', [25] = 'u',  [26] = 'u',    [27] = 'u',
	[28] = 'u', [29] = 'u', [30] = 'u', [31] = 'u', ['"'] = '"', ['\\'] = '\\',
};

/* Text is escaped in blocks, so that room is asked for once a block. */
#define BLOCK 1024u
#define ESCAPE_MAX 6u /* \u00xx */

static size_t escape_block(char *out, struct str in)
{
	static const char hex[] = "0123456789abcdef";
	char *at = out;

	for (size_t i = 0; i < in.len; i++) {
		unsigned char c = (unsigned char)in.data[i];
		char letter = escapes[c];
		if (!letter) {
			*at++ = (char)c;
			continue;
		}
		*at++ = '\\';
		*at++ = letter;
		if (letter != 'u')
			continue;
		memcpy(at, "00", 2);
		at[2] = hex[c >> 4];
		at[3] = hex[c & 15];
		at += 4;
	}
	return (size_t)(at - out);
}

/* Length of the part at the start that needs no escape. */
static size_t plain_prefix(struct str s)
{
	size_t i = 0;

	while (i < s.len && !escapes[(unsigned char)s.data[i]])
		i++;
	return i;
}

bool json_escape(struct buf *out, struct str valid)
{
	while (valid.len) {
		size_t n = plain_prefix(valid);
		if (!buf_put(out, valid.data, n))
			return false;
		valid = str_from(valid, n);
		if (!valid.len)
			break;
		/* Where one character wants an escape, others do. */
		char room[BLOCK * ESCAPE_MAX];
		struct str block = { valid.data, valid.len < BLOCK ? valid.len : BLOCK };
		if (!buf_put(out, room, escape_block(room, block)))
			return false;
		valid = str_from(valid, block.len);
	}
	return true;
}

static void begin(struct json_out *o, const char *key)
{
	if (o->more)
		buf_put_char(o->buf, ',');
	o->more = true;
	if (!key)
		return;
	buf_put_char(o->buf, '"');
	buf_put_text(o->buf, key);
	buf_put(o->buf, "\":", 2);
}

static void open(struct json_out *o, const char *key, char bracket)
{
	begin(o, key);
	buf_put_char(o->buf, bracket);
	o->more = false;
}

void json_out_object(struct json_out *o, const char *key)
{
	open(o, key, '{');
}

void json_out_list(struct json_out *o, const char *key)
{
	open(o, key, '[');
}

void json_out_end_object(struct json_out *o)
{
	buf_put_char(o->buf, '}');
	o->more = true;
}

void json_out_end_list(struct json_out *o)
{
	buf_put_char(o->buf, ']');
	o->more = true;
}

static void put_string(struct buf *out, struct str value)
{
	buf_put_char(out, '"');
	if (utf8_valid(value)) {
		json_escape(out, value);
	} else {
		/* Repaired, a byte becomes at most three. */
		_cleanup_buf_ struct buf fixed = BUF(value.len * 3 + 3);
		struct utf8_fix fix = { .n_held = 0 };
		utf8_fix_put(&fix, value, &fixed);
		utf8_fix_end(&fix, &fixed);
		json_escape(out, buf_str(&fixed));
	}
	buf_put_char(out, '"');
}

void json_out_str(struct json_out *o, const char *key, struct str value)
{
	begin(o, key);
	put_string(o->buf, value);
}

void json_out_text(struct json_out *o, const char *key, const char *value)
{
	json_out_str(o, key, str_of(value));
}

void json_out_int(struct json_out *o, const char *key, int64_t value)
{
	begin(o, key);
	buf_printf(o->buf, "%" PRId64, value);
}

void json_out_bool(struct json_out *o, const char *key, bool value)
{
	begin(o, key);
	buf_put_text(o->buf, value ? "true" : "false");
}

void json_out_null(struct json_out *o, const char *key)
{
	begin(o, key);
	buf_put(o->buf, "null", 4);
}

void json_out_time(struct json_out *o, const char *key, int64_t us)
{
	if (us < 0)
		us = 0;
	begin(o, key);
	buf_printf(o->buf, "%" PRId64 ".%06" PRId64, us / 1000000, us % 1000000);
}

void json_out_seconds(struct json_out *o, const char *key, uint64_t ms)
{
	begin(o, key);
	buf_printf(o->buf, "%" PRIu64 ".%03" PRIu64, ms / 1000, ms % 1000);
}

void json_out_name(struct json_out *o, struct str name)
{
	begin(o, NULL);
	put_string(o->buf, name);
	buf_put_char(o->buf, ':');
	o->more = false;
}
