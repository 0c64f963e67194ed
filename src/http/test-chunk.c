// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/mem.h"
#include "http/chunk.h"

/* Decodes what the pieces hold together. Returns the result and how much was left over. */
static enum chunk_result decode(const struct str *pieces, size_t n, struct buf *body,
				size_t *ret_left)
{
	struct chunk chunk = { .left = 0 };
	enum chunk_result r = CHUNK_MORE;

	buf_clear(body);
	*ret_left = 0;
	for (size_t i = 0; i < n; i++) {
		struct str in = pieces[i], data;
		while (r != CHUNK_BAD && r != CHUNK_END &&
		       (r = chunk_take(&chunk, &in, &data)) == CHUNK_DATA)
			buf_put_str(body, data);
		*ret_left += in.len;
	}
	return r;
}

#define ENDS(why, text, data, left) \
	{ \
		why, STR(text), CHUNK_END, STR(data), left \
	}
#define WAITS(why, text, data) \
	{ \
		why, STR(text), CHUNK_MORE, STR(data), 0 \
	}
#define BAD(why, text) \
	{ \
		why, STR(text), CHUNK_BAD, STR(""), 0 \
	}

static const struct chunk_case {
	const char *why;
	struct str in;
	enum chunk_result result;
	struct str body;
	size_t left;
} cases[] = {
	ENDS("no data", "0\r\n\r\n", "", 0),
	ENDS("one chunk", "5\r\nhello\r\n0\r\n\r\n", "hello", 0),
	ENDS("two chunks", "5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", "hello!", 0),
	ENDS("large and small digits", "A\r\n0123456789\r\nb\r\n0123456789a\r\n0\r\n\r\n",
	     "01234567890123456789a", 0),
	ENDS("leading zeros", "0005\r\nhello\r\n000\r\n\r\n", "hello", 0),
	ENDS("line ends in the data", "4\r\n\r\n\r\n\r\n0\r\n\r\n", "\r\n\r\n", 0),
	ENDS("NUL in the data", "3\r\na\0b\r\n0\r\n\r\n", "a\0b", 0),
	ENDS("an extension", "5;a=b\r\nhello\r\n0;c\r\n\r\n", "hello", 0),
	ENDS("what follows stays", "1\r\nx\r\n0\r\n\r\nGET /", "x", 5),
	WAITS("nothing", "", ""),
	WAITS("half a size", "5", ""),
	WAITS("half the data", "5\r\nhel", "hel"),
	WAITS("without the last line end", "5\r\nhello\r\n0\r\n\r", "hello"),
	BAD("empty size", "\r\nhello"),
	BAD("no digit", "g\r\n"),
	BAD("sign", "+5\r\nhello\r\n"),
	BAD("minus", "-1\r\n"),
	BAD("0x", "0x5\r\nhello\r\n"),
	BAD("blank before the size", " 5\r\nhello\r\n"),
	BAD("blank after the size", "5 \r\nhello\r\n"),
	BAD("tab after the size", "5\t\r\nhello\r\n"),
	BAD("blank before the extension", "5 ;a\r\nhello\r\n"),
	BAD("extension without size", ";a\r\n"),
	BAD("sixteen digits", "0000000000000005\r\nhello\r\n"),
	BAD("size above 2^60", "1000000000000000\r\n"),
	BAD("size above 2^64", "10000000000000005\r\n"),
	BAD("bare LF after the size", "5\nhello\r\n"),
	BAD("bare CR after the size", "5\rhello\r\n"),
	BAD("two CR after the size", "5\r\r\nhello\r\n"),
	BAD("bare LF in an extension", "5;a\nhello\r\n"),
	BAD("bare CR in an extension", "5;a\rb\r\nhello\r\n"),
	BAD("byte above 7f in an extension", "5;\xff\r\nhello\r\n"),
	BAD("empty extension", "5;\r\nhello\r\n"),
	BAD("extension without name", "5;=a\r\nhello\r\n"),
	BAD("extension without value", "5;a=\r\nhello\r\n"),
	BAD("extension with two values", "5;a=b=c\r\nhello\r\n"),
	BAD("quoted extension", "5;a=\"b\"\r\nhello\r\n"),
	BAD("blank in an extension", "5; a\r\nhello\r\n"),
	BAD("two extensions", "5;a;b\r\nhello\r\n"),
	BAD("NUL in an extension", "5;a\0\r\nhello\r\n"),
	BAD("bare LF after the data", "5\r\nhello\n0\r\n\r\n"),
	BAD("bare CR after the data", "5\r\nhello\r0\r\n\r\n"),
	BAD("nothing after the data", "5\r\nhello0\r\n\r\n"),
	BAD("data longer than its size", "5\r\nhello!\r\n"),
	BAD("data shorter than its size", "7\r\nhello\r\n0\r\n\r\n"),
	BAD("bare LF after the last size", "0\n\r\n"),
	BAD("bare LF at the end", "0\r\n\n"),
	BAD("bare CR at the end", "0\r\n\rX"),
	BAD("trailer field", "0\r\nX: y\r\n\r\n"),
	BAD("length as a trailer", "0\r\nContent-Length: 5\r\n\r\n"),
	BAD("blank trailer", "0\r\n \r\n\r\n"),
	BAD("NUL as a size", "\0\r\n"),
};

static void check(const struct chunk_case *c, const struct str *pieces, size_t n)
{
	_cleanup_buf_ struct buf body = BUF(100);
	size_t left;
	enum chunk_result r = decode(pieces, n, &body, &left);

	if (r != c->result)
		print_error("%s: %d\n", c->why, r);
	assert_int_equal(r, c->result);
	if (r == CHUNK_BAD)
		return;
	assert_true(str_eq(buf_str(&body), c->body));
	assert_int_equal(left, c->left);
}

static void every_body_gets_its_answer_however_it_is_cut(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct chunk_case *c = &cases[i];
		for (size_t a = 0; a <= c->in.len; a++) {
			for (size_t b = a; b <= c->in.len; b++) {
				struct str pieces[] = { { c->in.data, a },
							{ c->in.data + a, b - a },
							str_from(c->in, b) };
				check(c, pieces, ARRAY_SIZE(pieces));
			}
		}
	}
}

static void every_body_gets_its_answer_byte_by_byte(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct str pieces[64];
		assert_true(cases[i].in.len <= ARRAY_SIZE(pieces));
		for (size_t k = 0; k < cases[i].in.len; k++)
			pieces[k] = (struct str){ cases[i].in.data + k, 1 };
		check(&cases[i], pieces, cases[i].in.len);
	}
}

static void extensions_have_a_largest_sum(void **state)
{
	_cleanup_buf_ struct buf in = BUF(100000);
	_cleanup_buf_ struct buf body = BUF(100000);
	size_t left;

	for (unsigned extra = 0; extra < 2; extra++) {
		buf_clear(&in);
		for (unsigned i = 0; i < LIMIT_CHUNK_EXTENSIONS / 4; i++)
			buf_put_text(&in, "1;abc\r\nx\r\n");
		buf_put_text(&in, extra ? "0;a\r\n\r\n" : "0\r\n\r\n");
		struct str whole = buf_str(&in);
		assert_int_equal(decode(&whole, 1, &body, &left), extra ? CHUNK_BAD : CHUNK_END);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_body_gets_its_answer_however_it_is_cut),
		cmocka_unit_test(every_body_gets_its_answer_byte_by_byte),
		cmocka_unit_test(extensions_have_a_largest_sum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
