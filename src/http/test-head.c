// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/mem.h"
#include "http/head.h"

#define H "Host: a\r\n"
#define GET "GET / HTTP/1.1\r\n"

/* Scans with the input cut at every place, which must not change the answer, then parses. Returns
 * the status, 0 when the head is right, -1 when it is not whole. */
static int read_head(struct str in, struct arena *arena, struct head_info *info)
{
	struct head_scan whole = { .at = 0 };
	int got = head_scan(&whole, in);

	for (size_t cut = 0; cut <= in.len && in.len < 300; cut++) {
		struct head_scan scan = { .at = 0 };
		int r = head_scan(&scan, (struct str){ in.data, cut });
		assert_int_equal(r ? r : head_scan(&scan, in), got);
	}
	if (got <= 0)
		return got ? -got : -1;
	return head_parse(&whole, (struct str){ in.data, (size_t)got }, arena, info);
}

static int status_of(struct str in)
{
	_cleanup_arena_ struct arena arena = { .blocks = NULL };
	struct head_info info;

	return read_head(in, &arena, &info);
}

#define CASE(why, status, text) \
	{ \
		why, status, STR(text) \
	}

static const struct head_case {
	const char *why;
	int status;
	struct str in;
} cases[] = {
	CASE("the smallest head", 0, GET H "\r\n"),
	CASE("obs-text in a value", 0, GET H "X: \xc3\xbc\xff\r\n\r\n"),
	CASE("a tab in a value", 0, GET H "X: a\tb\r\n\r\n"),
	CASE("an empty value", 0, GET H "X:\r\n\r\n"),
	CASE("an empty value at the end of blanks", 0, GET H "X: \t \r\n\r\n"),
	CASE("no blank after the colon", 0, GET "Host:a\r\n\r\n"),
	CASE("an unknown method that is a token", 0, "FROB / HTTP/1.1\r\n" H "\r\n"),
	CASE("a method in small letters", 0, "get / HTTP/1.1\r\n" H "\r\n"),
	CASE("every token byte in method and name", 0,
	     "!#$%&'*+-.^_`|~09az / HTTP/1.1\r\n" H "!#$%&'*+-.^_`|~09az: x\r\n\r\n"),
	CASE("a target with every odd byte", 0, "GET /\"<>\\^`{|}%zz?a?b HTTP/1.1\r\n" H "\r\n"),
	CASE("two slashes", 0, "GET //x HTTP/1.1\r\n" H "\r\n"),
	CASE("a host with port", 0, GET "Host: a.b:80\r\n\r\n"),
	CASE("a host in brackets", 0, GET "Host: [::1]:80\r\n\r\n"),
	CASE("length zero", 0, GET H "Content-Length: 0\r\n\r\n"),
	CASE("length with leading zeros", 0, GET H "Content-Length: 007\r\n\r\n"),
	CASE("the longest length", 0, GET H "Content-Length: 9223372036854775807\r\n\r\n"),
	CASE("chunked", 0, GET H "Transfer-Encoding: chunked\r\n\r\n"),
	CASE("chunked with blanks around", 0, GET H "Transfer-Encoding: \t chunked \t\r\n\r\n"),
	CASE("switch to a web socket", 0,
	     GET H "Connection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n"),
	CASE("names of llhttp's own fields, cut short", 0,
	     GET H "Connectio: x\r\nConten: x\r\nUpgrad: x\r\nProxy-Connection: close\r\n\r\n"),
	CASE("health probe of HTTP/1.0", 0, "GET /healthz HTTP/1.0\r\n" H "\r\n"),
	CASE("health probe of HTTP/1.0 without host", 0, "GET /healthz?x HTTP/1.0\r\n\r\n"),

	CASE("nothing", -1, ""),
	CASE("half a line", -1, "GET / HTTP/1.1\r"),
	CASE("without the empty line", -1, GET H),
	CASE("half an empty line", -1, GET H "\r"),

	CASE("empty line before the request", 400, "\r\n" GET H "\r\n"),
	CASE("bare LF before the request", 400, "\n" GET H "\r\n"),
	CASE("bare LF after the request line", 400, "GET / HTTP/1.1\n" H "\r\n"),
	CASE("bare LF after a field", 400, GET "Host: a\n\r\n"),
	CASE("bare LF ends the head", 400, GET H "\n"),
	CASE("bare LF in a value", 400, GET H "X: a\nb\r\n\r\n"),
	CASE("LF CR instead of CR LF", 400, GET "Host: a\n\r\r\n"),
	CASE("bare CR after the request line", 400, "GET / HTTP/1.1\rHost: a\r\n\r\n"),
	CASE("bare CR in a value", 400, GET H "X: a\rb\r\n\r\n"),
	CASE("bare CR in the target", 400, "GET /\r HTTP/1.1\r\n" H "\r\n"),
	CASE("two CR", 400, GET H "X: a\r\r\n\r\n"),
	CASE("bare CR ends the head", 400, GET H "\r\r\n"),
	CASE("NUL in the method", 400, "G\0T / HTTP/1.1\r\n" H "\r\n"),
	CASE("NUL in the target", 400, "GET /\0 HTTP/1.1\r\n" H "\r\n"),
	CASE("NUL in a name", 400, GET H "X\0: a\r\n\r\n"),
	CASE("NUL in a value", 400, GET H "X: a\0b\r\n\r\n"),
	CASE("control byte in a value", 400, GET H "X: a\x01\r\n\r\n"),
	CASE("DEL in a value", 400, GET H "X: a\x7f\r\n\r\n"),
	CASE("ESC in a value", 400, GET H "X: \x1b[31m\r\n\r\n"),
	CASE("folded field with a blank", 400, GET H "X: a\r\n b\r\n\r\n"),
	CASE("folded field with a tab", 400, GET H "X: a\r\n\tb\r\n\r\n"),
	CASE("blank before the first field", 400, GET " " H "\r\n"),
	CASE("field without name", 400, GET H ": x\r\n\r\n"),
	CASE("field without colon", 400, GET H "X\r\n\r\n"),
	CASE("blank before the colon", 400, GET "Host : a\r\n\r\n"),
	CASE("tab before the colon", 400, GET H "Content-Length\t: 5\r\n\r\n"),
	CASE("blank in a name", 400, GET H "Content Length: 5\r\n\r\n"),
	CASE("name that is not a token", 400, GET H "X(: a\r\n\r\n"),
	CASE("name with a byte above 7f", 400, GET H "X\xc3\xbc: a\r\n\r\n"),
	CASE("method that is not a token", 400, "G(T / HTTP/1.1\r\n" H "\r\n"),
	CASE("method with a colon", 400, "GET: / HTTP/1.1\r\n" H "\r\n"),
	CASE("no method", 400, " / HTTP/1.1\r\n" H "\r\n"),
	CASE("method too long", 400, "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1\r\n" H "\r\n"),
	CASE("TLS hello", 400, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
	CASE("two blanks after the method", 400, "GET  / HTTP/1.1\r\n" H "\r\n"),
	CASE("tab after the method", 400, "GET\t/ HTTP/1.1\r\n" H "\r\n"),
	CASE("two blanks before the version", 400, "GET /  HTTP/1.1\r\n" H "\r\n"),
	CASE("blank after the version", 400, "GET / HTTP/1.1 \r\n" H "\r\n"),
	CASE("absolute form", 400, "GET http://a/ HTTP/1.1\r\n" H "\r\n"),
	CASE("absolute form that disagrees with Host", 400, "GET http://b/ HTTP/1.1\r\n" H "\r\n"),
	CASE("authority form", 400, "CONNECT a:443 HTTP/1.1\r\n" H "\r\n"),
	CASE("CONNECT with a path", 400, "CONNECT /x HTTP/1.1\r\n" H "\r\n"),
	CASE("asterisk form", 400, "OPTIONS * HTTP/1.1\r\n" H "\r\n"),
	CASE("no target", 400, "GET HTTP/1.1\r\n" H "\r\n"),
	CASE("target without slash", 400, "GET x HTTP/1.1\r\n" H "\r\n"),
	CASE("fragment in the target", 400, "GET /x#y HTTP/1.1\r\n" H "\r\n"),
	CASE("byte above 7f in the target", 400, "GET /\xc3\xbc HTTP/1.1\r\n" H "\r\n"),
	CASE("tab in the target", 400, "GET /\tx HTTP/1.1\r\n" H "\r\n"),
	CASE("DEL in the target", 400, "GET /\x7f HTTP/1.1\r\n" H "\r\n"),
	CASE("HTTP/0.9, without version", 400, "GET /\r\n"),
	CASE("HTTP/0.9 by name", 400, "GET / HTTP/0.9\r\n" H "\r\n"),
	CASE("HTTP/2 preface", 400, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
	CASE("version in small letters", 400, "GET / http/1.1\r\n" H "\r\n"),
	CASE("another protocol", 400, "GET / ICAP/1.1\r\n" H "\r\n"),
	CASE("version with two digits", 400, "GET / HTTP/1.10\r\n" H "\r\n"),
	CASE("version without minor", 400, "GET / HTTP/1\r\n" H "\r\n"),
	CASE("no host", 400, GET "\r\n"),
	CASE("two hosts", 400, GET H H "\r\n"),
	CASE("two hosts that differ in case", 400, GET H "hOST: b\r\n\r\n"),
	CASE("empty host", 400, GET "Host:\r\n\r\n"),
	CASE("blank host", 400, GET "Host: \t \r\n\r\n"),
	CASE("two hosts in one", 400, GET "Host: a, b\r\n\r\n"),
	CASE("host with user", 400, GET "Host: u@a\r\n\r\n"),
	CASE("host with path", 400, GET "Host: a/b\r\n\r\n"),
	CASE("host with a byte above 7f", 400, GET "Host: \xc3\xbc\r\n\r\n"),
	CASE("two hosts for a health probe", 400, "GET /healthz HTTP/1.0\r\n" H H "\r\n"),
	CASE("two lengths", 400, GET H "Content-Length: 1\r\nContent-Length: 2\r\n\r\n"),
	CASE("two equal lengths", 400, GET H "Content-Length: 1\r\ncontent-length: 1\r\n\r\n"),
	CASE("two lengths in one", 400, GET H "Content-Length: 1, 1\r\n\r\n"),
	CASE("empty length", 400, GET H "Content-Length:\r\n\r\n"),
	CASE("length with plus", 400, GET H "Content-Length: +5\r\n\r\n"),
	CASE("negative length", 400, GET H "Content-Length: -5\r\n\r\n"),
	CASE("hexadecimal length", 400, GET H "Content-Length: 0x5\r\n\r\n"),
	CASE("length with fraction", 400, GET H "Content-Length: 5.0\r\n\r\n"),
	CASE("length with blank inside", 400, GET H "Content-Length: 1 2\r\n\r\n"),
	CASE("length of 2^63", 400, GET H "Content-Length: 9223372036854775808\r\n\r\n"),
	CASE("length of 2^64 + 5", 400, GET H "Content-Length: 18446744073709551621\r\n\r\n"),
	CASE("chunked and length", 400,
	     GET H "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"),
	CASE("length and chunked", 400,
	     GET H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
	CASE("two codings", 400,
	     GET H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
	CASE("gzip, chunked", 400, GET H "Transfer-Encoding: gzip, chunked\r\n\r\n"),
	CASE("chunked, identity", 400, GET H "Transfer-Encoding: chunked, identity\r\n\r\n"),
	CASE("identity", 400, GET H "Transfer-Encoding: identity\r\n\r\n"),
	CASE("empty coding", 400, GET H "Transfer-Encoding:\r\n\r\n"),
	CASE("coding in capitals", 400, GET H "Transfer-Encoding: Chunked\r\n\r\n"),
	CASE("coding with parameter", 400, GET H "Transfer-Encoding: chunked;q=1\r\n\r\n"),
	CASE("coding with a vertical tab", 400,
	     GET H "Transfer-Encoding: \x0b"
		   "chunked\r\n\r\n"),
	CASE("chunked in HTTP/1.0", 400,
	     "GET /healthz HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n"),
	CASE("switch to HTTP/2", 400,
	     GET H "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n"),
	CASE("switch to one of two", 400, GET H "Upgrade: websocket, h2c\r\n\r\n"),
	CASE("two upgrades", 400, GET H "Upgrade: websocket\r\nUpgrade: websocket\r\n\r\n"),

	CASE("HTTP/1.0", 505, "GET / HTTP/1.0\r\n" H "\r\n"),
	CASE("HTTP/1.0 to another path", 505, "GET /healthz/ HTTP/1.0\r\n" H "\r\n"),
	CASE("HTTP/1.0 with another method", 505, "POST /healthz HTTP/1.0\r\n" H "\r\n"),
	CASE("HTTP/2.0 by name", 505, "GET / HTTP/2.0\r\n" H "\r\n"),
	CASE("HTTP/1.2", 505, "GET / HTTP/1.2\r\n" H "\r\n"),
	CASE("HTTP/3.0", 505, "GET / HTTP/3.0\r\n" H "\r\n"),
};

static void every_form_gets_its_status(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int status = status_of(cases[i].in);
		if (status != cases[i].status)
			print_error("%s: %d\n", cases[i].why, status);
		assert_int_equal(status, cases[i].status);
	}
}

/* Each byte value in each place of a head: only what the grammar has passes. */
static void every_byte_in_every_place_is_judged(void **state)
{
	static const char form[] = "GET /x HTTP/1.1\r\nHost: a\r\nX: bb\r\n\r\n";

	for (unsigned c = 0; c < 256; c++) {
		char text[sizeof(form)];
		memcpy(text, form, sizeof(form));
		text[strlen("GET /x HTTP/1.1\r\nHost: a\r\nX: ")] = (char)c;
		bool value_ok = c == '\t' || (c >= ' ' && c != 0x7f);
		assert_int_equal(status_of((struct str){ text, sizeof(form) - 1 }),
				 value_ok ? 0 : 400);
		memcpy(text, form, sizeof(form));
		text[strlen("GET /")] = (char)c;
		bool target_ok = c > ' ' && c < 0x7f && c != '#';
		/* A blank makes the target "/" and then two blanks. */
		assert_int_equal(status_of((struct str){ text, sizeof(form) - 1 }),
				 target_ok ? 0 : 400);
	}
}

static struct str repeat(struct buf *b, const char *before, char c, size_t n, const char *after)
{
	buf_clear(b);
	buf_put_text(b, before);
	for (size_t i = 0; i < n; i++)
		buf_put_char(b, c);
	buf_put_text(b, after);
	return buf_str(b);
}

static void a_target_has_a_longest_length(void **state)
{
	_cleanup_buf_ struct buf b = BUF(100000);

	assert_int_equal(status_of(repeat(&b, "GET /", 'x', LIMIT_TARGET - 1,
					  " HTTP/1.1\r\n" H "\r\n")),
			 0);
	assert_int_equal(status_of(
				 repeat(&b, "GET /", 'x', LIMIT_TARGET, " HTTP/1.1\r\n" H "\r\n")),
			 414);
	assert_int_equal(status_of(repeat(&b, "GET /", 'x', LIMIT_TARGET, "")), 414);
	assert_int_equal(status_of(repeat(&b, "GET /", 'x', LIMIT_TARGET - 1, "")), -1);
}

static void the_fields_have_a_longest_length_and_a_largest_number(void **state)
{
	_cleanup_buf_ struct buf b = BUF(100000);
	size_t room = LIMIT_HEAD - strlen(H "X: \r\n\r\n");

	assert_int_equal(status_of(repeat(&b, GET H "X: ", 'x', room, "\r\n\r\n")), 0);
	assert_int_equal(status_of(repeat(&b, GET H "X: ", 'x', room + 1, "\r\n\r\n")), 431);
	assert_int_equal(status_of(repeat(&b, GET H "X: ", 'x', LIMIT_HEAD, "")), 431);
	assert_int_equal(status_of(repeat(&b, GET H, 'x', LIMIT_HEAD, "")), 431);
	for (unsigned n = LIMIT_HEADER_FIELDS - 1; n <= LIMIT_HEADER_FIELDS; n++) {
		buf_clear(&b);
		buf_put_text(&b, GET H);
		for (unsigned i = 0; i < n; i++)
			buf_printf(&b, "X%u: y\r\n", i);
		buf_put_text(&b, "\r\n");
		assert_int_equal(status_of(buf_str(&b)), n == LIMIT_HEADER_FIELDS ? 431 : 0);
	}
}

static void the_longest_head_fits_the_input_buffer(void **state)
{
	_cleanup_buf_ struct buf b = BUF(100000);
	size_t room = LIMIT_HEAD - strlen(H "X: \r\n\r\n");

	buf_put_text(&b, "0123456789012345678901234567890 /");
	for (size_t i = 1; i < LIMIT_TARGET; i++)
		buf_put_char(&b, 'x');
	buf_put_text(&b, " HTTP/1.1\r\n" H "X: ");
	for (size_t i = 0; i < room; i++)
		buf_put_char(&b, 'x');
	buf_put_text(&b, "\r\n\r\n");
	assert_int_equal(status_of(buf_str(&b)), 0);
	assert_true(b.len <= LIMIT_METHOD + LIMIT_TARGET + LIMIT_HEAD + 64);
}

static void fields_come_out_as_sent(void **state)
{
	_cleanup_arena_ struct arena arena = { .blocks = NULL };
	struct head_info info = { .is_http10 = true };
	const struct http_head *head = &info.head;
	size_t n;

	assert_int_equal(
		read_head(STR("PATCH /a/b%20c?d=e&f HTTP/1.1\r\nhost: h\r\nX-Key:  \t v w \t\r\n"
			      "Empty:\r\nx-key: second\r\nContent-Length: 12\r\n\r\nbody"),
			  &arena, &info),
		0);
	assert_true(str_eq(head->method, STR("PATCH")));
	assert_true(str_eq(head->target, STR("/a/b%20c?d=e&f")));
	assert_true(str_eq(head->path, STR("/a/b%20c")));
	assert_true(str_eq(head->query, STR("d=e&f")));
	assert_int_equal(head->n_headers, 5);
	assert_true(str_eq(head->headers[1].name, STR("X-Key")));
	assert_true(str_eq(http_head_find(head, "X-KEY", &n), STR("v w")));
	assert_int_equal(n, 2);
	assert_int_equal(http_head_find(head, "Empty", &n).len, 0);
	assert_int_equal(n, 1);
	assert_null(http_head_find(head, "X-Ke", &n).data);
	assert_int_equal(n, 0);
	assert_true(head->has_body && !head->chunked && head->content_length == 12);
	assert_true(head->keep_alive && !info.is_http10 && !info.expect_continue);
}

static void a_query_is_absent_or_empty(void **state)
{
	_cleanup_arena_ struct arena arena = { .blocks = NULL };
	struct head_info info;

	assert_int_equal(read_head(STR("GET /x HTTP/1.1\r\n" H "\r\n"), &arena, &info), 0);
	assert_null(info.head.query.data);
	assert_false(info.head.has_body);
	assert_int_equal(read_head(STR("GET /x? HTTP/1.1\r\n" H "\r\n"), &arena, &info), 0);
	assert_non_null(info.head.query.data);
	assert_int_equal(info.head.query.len, 0);
	assert_true(str_eq(info.head.path, STR("/x")));
}

static void connection_and_expect_are_understood(void **state)
{
	static const struct {
		struct str in;
		bool keep_alive, expect;
	} table[] = {
		{ STR(GET H "\r\n"), true, false },
		{ STR(GET H "Connection: close\r\n\r\n"), false, false },
		{ STR(GET H "Connection: CLOSE\r\n\r\n"), false, false },
		{ STR(GET H "Connection: x, close\r\n\r\n"), false, false },
		{ STR(GET H "Connection: keep-alive\r\nConnection: close\r\n\r\n"), false, false },
		{ STR(GET H "Connection: keep-alive, close\r\n\r\n"), false, false },
		{ STR(GET H "Connection: closed\r\n\r\n"), true, false },
		{ STR(GET H "Connection: Keep-Alive\r\n\r\n"), true, false },
		{ STR("GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), false, false },
		{ STR(GET H "Expect: 100-Continue\r\n\r\n"), true, true },
		{ STR(GET H "Expect: other\r\n\r\n"), true, false },
		{ STR("GET /healthz HTTP/1.0\r\nExpect: 100-continue\r\n\r\n"), false, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_arena_ struct arena arena = { .blocks = NULL };
		struct head_info info;
		assert_int_equal(read_head(table[i].in, &arena, &info), 0);
		assert_int_equal(info.head.keep_alive, table[i].keep_alive);
		assert_int_equal(info.expect_continue, table[i].expect);
	}
}

static void what_follows_the_head_is_left_alone(void **state)
{
	struct head_scan scan = { .at = 0 };
	struct str in = STR(GET H "\r\n\r\n\nGARBAGE");

	assert_int_equal(head_scan(&scan, in), strlen(GET H "\r\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_form_gets_its_status),
		cmocka_unit_test(every_byte_in_every_place_is_judged),
		cmocka_unit_test(a_target_has_a_longest_length),
		cmocka_unit_test(the_fields_have_a_longest_length_and_a_largest_number),
		cmocka_unit_test(the_longest_head_fits_the_input_buffer),
		cmocka_unit_test(fields_come_out_as_sent),
		cmocka_unit_test(a_query_is_absent_or_empty),
		cmocka_unit_test(connection_and_expect_are_understood),
		cmocka_unit_test(what_follows_the_head_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
