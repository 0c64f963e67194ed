// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "egress/hello.h"

#define WHOLE 0xffffu

static void put_number(struct buf *out, unsigned bytes, size_t value)
{
	while (bytes--)
		buf_put_char(out, (char)(value >> 8 * bytes));
}

static void put_vector(struct buf *out, unsigned length_bytes, struct str content)
{
	put_number(out, length_bytes, content.len);
	buf_put_str(out, content);
}

/* Extensions in the order of a text: s server name, S the same with another name, o one that says
 * nothing, e an empty server name extension. */
static void put_extensions(struct buf *out, const char *which)
{
	for (; *which; which++) {
		static const struct str bodies[256] = {
			['s'] = { "\0\x0c\0\0\x09"
				  "a.example",
				  14 },
			['S'] = { "\0\x0c\0\0\x09"
				  "b.example",
				  14 },
			['e'] = { NULL, 0 },
			['o'] = { "\x02h2", 3 },
		};
		put_number(out, 2, *which == 'o' ? 16 : 0);
		put_vector(out, 2, bodies[(unsigned char)*which]);
	}
}

/* The body of a hello around a block of extensions; NULL data: a hello without any. */
static void put_body(struct buf *out, struct str extensions)
{
	static const char random[32] = "01234567890123456789012345678901";

	buf_put(out, "\x03\x03", 2);
	buf_put(out, random, sizeof(random));
	put_vector(out, 1, (struct str){ random, 32 });
	put_vector(out, 2, STR("\x13\x01\x13\x02"));
	put_vector(out, 1, STR("\0"));
	if (extensions.data)
		put_vector(out, 2, extensions);
}

/* A message in records of at most piece bytes. */
static void put_records(struct buf *out, unsigned type, struct str body, size_t piece)
{
	_cleanup_buf_ struct buf message = BUF(70000);
	struct str rest;

	put_number(&message, 1, type);
	put_vector(&message, 3, body);
	for (rest = buf_str(&message); rest.len;) {
		size_t n = piece < rest.len ? piece : rest.len;
		buf_put(out, "\x16\x03\x01", 3);
		put_vector(out, 2, (struct str){ rest.data, n });
		rest = str_from(rest, n);
	}
}

static void put_hello(struct buf *out, const char *which, size_t piece)
{
	_cleanup_buf_ struct buf extensions = BUF(70000), body = BUF(70000);

	put_extensions(&extensions, which);
	put_body(&body, buf_str(&extensions));
	put_records(out, 1, buf_str(&body), piece);
}

static enum egress_hello parse(struct str bytes, char name[256])
{
	/* Memory of exactly this size: a sanitizer sees a read behind it. */
	_cleanup_free_ char *exact = mem_new(bytes.len ? bytes.len : 1, 1);
	size_t len = 999;

	if (bytes.len)
		memcpy(exact, bytes.data, bytes.len);
	memset(name, 0, 256);
	enum egress_hello result = egress_hello_parse((struct str){ exact, bytes.len }, name, &len);
	if (result != EGRESS_HELLO_NAME)
		assert_int_equal(len, 999);
	else
		assert_int_equal(len, strnlen(name, 256));
	return result;
}

static enum egress_hello verdict(struct str bytes)
{
	char name[256];

	return parse(bytes, name);
}

static void the_name_comes_when_the_hello_is_whole(void **state)
{
	for (size_t piece = 1; piece < 120; piece++) {
		_cleanup_buf_ struct buf hello = BUF(70000);
		char name[256];
		put_hello(&hello, "oso", piece);
		for (size_t n = 0; n < hello.len; n++)
			assert_int_equal(verdict((struct str){ hello.data, n }), EGRESS_HELLO_MORE);
		assert_int_equal(parse(buf_str(&hello), name), EGRESS_HELLO_NAME);
		assert_string_equal(name, "a.example");
	}
}

/* Made by OpenSSL 3.0. */
static void a_hello_of_a_real_client_is_read(void **state)
{
	static const unsigned char bytes[] = {
		0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03, 0x10, 0x82, 0x74,
		0x1d, 0x77, 0xf6, 0xeb, 0x89, 0x85, 0xfc, 0xa4, 0x65, 0x77, 0x99, 0x47, 0xf8, 0xf4,
		0x1b, 0x64, 0x51, 0x1e, 0xa2, 0xce, 0xd8, 0xf9, 0x5d, 0xe5, 0x82, 0x2a, 0x92, 0xd9,
		0x8e, 0x20, 0xeb, 0x55, 0xf2, 0x97, 0x83, 0xa4, 0xfa, 0xd5, 0xbd, 0x32, 0xd6, 0xc3,
		0x4e, 0x46, 0xe9, 0x8a, 0x04, 0x09, 0x69, 0xc5, 0x2a, 0x85, 0xf2, 0x29, 0x16, 0x7a,
		0x2b, 0xb1, 0x87, 0xab, 0xfa, 0x28, 0x00, 0x0a, 0x13, 0x02, 0x13, 0x03, 0x13, 0x01,
		0xc0, 0x2f, 0x00, 0xff, 0x01, 0x00, 0x01, 0xa9, 0x00, 0x00, 0x00, 0x0d, 0x00, 0x0b,
		0x00, 0x00, 0x08, 0x70, 0x79, 0x70, 0x69, 0x2e, 0x6f, 0x72, 0x67, 0x00, 0x0b, 0x00,
		0x04, 0x03, 0x00, 0x01, 0x02, 0x00, 0x0a, 0x00, 0x16, 0x00, 0x14, 0x00, 0x1d, 0x00,
		0x17, 0x00, 0x1e, 0x00, 0x19, 0x00, 0x18, 0x01, 0x00, 0x01, 0x01, 0x01, 0x02, 0x01,
		0x03, 0x01, 0x04, 0x00, 0x23, 0x00, 0x00, 0x00, 0x10, 0x00, 0x0e, 0x00, 0x0c, 0x02,
		0x68, 0x32, 0x08, 0x68, 0x74, 0x74, 0x70, 0x2f, 0x31, 0x2e, 0x31, 0x00, 0x16, 0x00,
		0x00, 0x00, 0x17, 0x00, 0x00, 0x00, 0x0d, 0x00, 0x2a, 0x00, 0x28, 0x04, 0x03, 0x05,
		0x03, 0x06, 0x03, 0x08, 0x07, 0x08, 0x08, 0x08, 0x09, 0x08, 0x0a, 0x08, 0x0b, 0x08,
		0x04, 0x08, 0x05, 0x08, 0x06, 0x04, 0x01, 0x05, 0x01, 0x06, 0x01, 0x03, 0x03, 0x03,
		0x01, 0x03, 0x02, 0x04, 0x02, 0x05, 0x02, 0x06, 0x02, 0x00, 0x2b, 0x00, 0x05, 0x04,
		0x03, 0x04, 0x03, 0x03, 0x00, 0x2d, 0x00, 0x02, 0x01, 0x01, 0x00, 0x33, 0x00, 0x26,
		0x00, 0x24, 0x00, 0x1d, 0x00, 0x20, 0x15, 0x01, 0x3c, 0xa4, 0x71, 0x9c, 0xb7, 0xb2,
		0xca, 0x4a, 0x98, 0xe3, 0xe2, 0x7e, 0x0a, 0xa9, 0x28, 0xd6, 0xad, 0x39, 0x25, 0xe0,
		0x3f, 0xd8, 0x3a, 0x49, 0xc6, 0x6b, 0xf4, 0x4a, 0x54, 0x16, 0x00, 0x15, 0x00, 0xed,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	};
	struct str real = { (const char *)bytes, sizeof(bytes) };
	char name[256];

	for (size_t n = 0; n < real.len; n++)
		assert_int_equal(verdict((struct str){ real.data, n }), EGRESS_HELLO_MORE);
	assert_int_equal(parse(real, name), EGRESS_HELLO_NAME);
	assert_string_equal(name, "pypi.org");
}

static void extensions_have_one_server_name(void **state)
{
	static const struct {
		const char *which;
		enum egress_hello verdict;
	} table[] = {
		{ "s", EGRESS_HELLO_NAME },	 { "so", EGRESS_HELLO_NAME },
		{ "os", EGRESS_HELLO_NAME },	 { "oos", EGRESS_HELLO_NAME },
		{ "", EGRESS_HELLO_NO_NAME },	 { "o", EGRESS_HELLO_NO_NAME },
		{ "ss", EGRESS_HELLO_NO_NAME },	 { "sS", EGRESS_HELLO_NO_NAME },
		{ "sos", EGRESS_HELLO_NO_NAME }, { "sss", EGRESS_HELLO_NO_NAME },
		{ "e", EGRESS_HELLO_NOT_TLS },	 { "se", EGRESS_HELLO_NOT_TLS },
		{ "es", EGRESS_HELLO_NOT_TLS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_buf_ struct buf hello = BUF(70000);
		put_hello(&hello, table[i].which, WHOLE);
		assert_int_equal(verdict(buf_str(&hello)), table[i].verdict);
	}
}

/* The content of the one server name extension. */
static void the_extension_has_one_entry_that_is_a_name(void **state)
{
	static const struct {
		struct str content;
		enum egress_hello verdict;
		const char *name;
	} table[] = {
		{ STR("\0\4\0\0\1a"), EGRESS_HELLO_NAME, "a" },
		{ STR("\0\x0c\0\0\x09"
		      "127.0.0.1"),
		  EGRESS_HELLO_NAME, "127.0.0.1" },
		{ STR("\0\x0d\0\0\x0a"
		      "A.example."),
		  EGRESS_HELLO_NAME, "A.example." },
		{ STR("\0\6\0\0\3a b"), EGRESS_HELLO_NAME, "a b" },
		{ STR("\0\6\0\0\3\xc3\xa9\xff"), EGRESS_HELLO_NAME, "\xc3\xa9\xff" },
		{ STR("\0\x08\0\0\1a\0\0\1b"), EGRESS_HELLO_NO_NAME, NULL }, /* two entries */
		{ STR("\0\x08\0\0\1a\0\0\1a"), EGRESS_HELLO_NO_NAME, NULL },
		{ STR("\0\x08\1\0\1a\0\0\1b"), EGRESS_HELLO_NO_NAME, NULL },
		{ STR("\0\x08\0\0\1a\1\0\1b"), EGRESS_HELLO_NO_NAME, NULL },
		{ STR("\0\4\1\0\1a"), EGRESS_HELLO_NO_NAME, NULL }, /* no host_name */
		{ STR("\0\4\xff\0\1a"), EGRESS_HELLO_NO_NAME, NULL },
		{ STR("\0\3\0\0\0"), EGRESS_HELLO_NO_NAME, NULL }, /* empty name, empty list */
		{ STR("\0\0"), EGRESS_HELLO_NO_NAME, NULL },
		{ STR(""), EGRESS_HELLO_NOT_TLS, NULL }, /* lengths that do not add up */
		{ STR("\0"), EGRESS_HELLO_NOT_TLS, NULL },
		{ STR("\0\4\0\0\1"), EGRESS_HELLO_NOT_TLS, NULL },
		{ STR("\0\5\0\0\1a"), EGRESS_HELLO_NOT_TLS, NULL },
		{ STR("\0\3\0\0\1a"), EGRESS_HELLO_NOT_TLS, NULL },
		{ STR("\0\4\0\0\2a"), EGRESS_HELLO_NOT_TLS, NULL },
		{ STR("\0\4\0\0\0a"), EGRESS_HELLO_NOT_TLS, NULL },
		{ STR("\0\4\0\0\1ab"), EGRESS_HELLO_NOT_TLS, NULL },
		{ STR("\0\1\0"), EGRESS_HELLO_NOT_TLS, NULL },
		{ STR("\0\4\0\xff\xff"
		      "a"),
		  EGRESS_HELLO_NOT_TLS, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_buf_ struct buf extensions = BUF(1000), body = BUF(1000),
					 hello = BUF(1000);
		char name[256];
		put_number(&extensions, 2, 0);
		put_vector(&extensions, 2, table[i].content);
		put_body(&body, buf_str(&extensions));
		put_records(&hello, 1, buf_str(&body), WHOLE);
		if (parse(buf_str(&hello), name) != table[i].verdict)
			fail_msg("row %zu", i);
		if (table[i].name)
			assert_string_equal(name, table[i].name);
	}
}

static void a_name_may_hold_any_byte_and_255_of_them(void **state)
{
	for (size_t len = 1; len < 300; len += 127) {
		_cleanup_buf_ struct buf list = BUF(1000), content = BUF(1000),
					 extensions = BUF(1000), body = BUF(1000),
					 hello = BUF(1000);
		char bytes[300] = { 0 }, name[256];
		size_t ret_len = 0;
		put_number(&list, 1, 0);
		put_vector(&list, 2, (struct str){ bytes, len });
		put_vector(&content, 2, buf_str(&list));
		put_number(&extensions, 2, 0);
		put_vector(&extensions, 2, buf_str(&content));
		put_body(&body, buf_str(&extensions));
		put_records(&hello, 1, buf_str(&body), WHOLE);
		enum egress_hello result = egress_hello_parse(buf_str(&hello), name, &ret_len);
		assert_int_equal(result, len <= 255 ? EGRESS_HELLO_NAME : EGRESS_HELLO_NO_NAME);
		assert_int_equal(ret_len, len <= 255 ? len : 0);
	}
}

static void a_hello_without_extensions_has_no_name(void **state)
{
	_cleanup_buf_ struct buf body = BUF(1000), hello = BUF(1000);

	put_body(&body, (struct str){ NULL, 0 });
	put_records(&hello, 1, buf_str(&body), WHOLE);
	assert_int_equal(verdict(buf_str(&hello)), EGRESS_HELLO_NO_NAME);
}

static void what_begins_otherwise_is_not_tls(void **state)
{
	static const struct {
		struct str bytes;
		enum egress_hello verdict;
	} table[] = {
		{ STR(""), EGRESS_HELLO_MORE },
		{ { NULL, 0 }, EGRESS_HELLO_MORE },
		{ STR("\x16"), EGRESS_HELLO_MORE },
		{ STR("\x16\x03"), EGRESS_HELLO_MORE },
		{ STR("\x16\x03\x01"), EGRESS_HELLO_MORE },
		{ STR("\x16\x03\x01\x01"), EGRESS_HELLO_MORE },
		{ STR("\x16\x03\x01\x01\x00"), EGRESS_HELLO_MORE },
		{ STR("\x16\x03\x04\x00\x10\x01"), EGRESS_HELLO_MORE },
		{ STR("G"), EGRESS_HELLO_NOT_TLS },
		{ STR("GET / HTTP/1.1\r\n"), EGRESS_HELLO_NOT_TLS },
		{ STR("SSH-2.0-OpenSSH_9.2\r\n"), EGRESS_HELLO_NOT_TLS },
		{ STR("\0"), EGRESS_HELLO_NOT_TLS },
		{ STR("\x80\x2e\x01\x00\x02"), EGRESS_HELLO_NOT_TLS }, /* SSLv2 */
		{ STR("\x80\x2e\x01\x03\x01"), EGRESS_HELLO_NOT_TLS }, /* in its envelope */
		{ STR("\x14\x03\x01"), EGRESS_HELLO_NOT_TLS },
		{ STR("\x15\x03\x01\x00\x02\x02\x28"), EGRESS_HELLO_NOT_TLS },
		{ STR("\x17\x03\x03\x00\x10"), EGRESS_HELLO_NOT_TLS },
		{ STR("\x16\x02"), EGRESS_HELLO_NOT_TLS },
		{ STR("\x16\xfe\xfd"), EGRESS_HELLO_NOT_TLS }, /* DTLS */
		{ STR("\x16\x03\x00"), EGRESS_HELLO_NOT_TLS }, /* SSLv3 */
		{ STR("\x16\x03\x05"), EGRESS_HELLO_NOT_TLS },
		{ STR("\x16\x03\x01\x00\x00"), EGRESS_HELLO_NOT_TLS }, /* empty record */
		{ STR("\x16\x03\x01\x40\x00"), EGRESS_HELLO_MORE },
		{ STR("\x16\x03\x01\x40\x01"), EGRESS_HELLO_NOT_TLS }, /* over 2^14 */
		{ STR("\x16\x03\x01\xff\xff"), EGRESS_HELLO_NOT_TLS },
		{ STR("\x16\x03\x01\x00\x10\x00"), EGRESS_HELLO_NOT_TLS }, /* other messages */
		{ STR("\x16\x03\x01\x00\x10\x02"), EGRESS_HELLO_NOT_TLS },
		{ STR("\x16\x03\x01\x00\x10\x01\x01"), EGRESS_HELLO_MORE },
		{ STR("\x16\x03\x01\x00\x10\x01\x01\x00\x00"), EGRESS_HELLO_NOT_TLS }, /* 64 KiB */
		{ STR("\x16\x03\x01\x00\x10\x01\x00\x3f\xf8"), EGRESS_HELLO_NOT_TLS },
		{ STR("\x16\x03\x01\x00\x10\x01\x00\x3f\xf7"), EGRESS_HELLO_MORE },
		{ STR("\x16\x03\x01\x00\x04\x01\x00\x00\x00"), EGRESS_HELLO_NOT_TLS }, /* no body */
		/* a second record that is none */
		{ STR("\x16\x03\x01\x00\x01\x01\x16"), EGRESS_HELLO_MORE },
		{ STR("\x16\x03\x01\x00\x01\x01\x17"), EGRESS_HELLO_NOT_TLS },
		{ STR("\x16\x03\x01\x00\x01\x01\x14\x03\x03\x00\x01\x01"), EGRESS_HELLO_NOT_TLS },
		{ STR("\x16\x03\x01\x00\x01\x01\x16\x03\x01\x00\x00"), EGRESS_HELLO_NOT_TLS },
		/* a record that is longer than the message */
		{ STR("\x16\x03\x01\x00\x11\x01\x00\x00\x0c"), EGRESS_HELLO_NOT_TLS },
		{ STR("\x16\x03\x01\x00\x10\x01\x00\x00\x0c"), EGRESS_HELLO_MORE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (verdict(table[i].bytes) != table[i].verdict)
			fail_msg("row %zu", i);
	}
}

/* Offsets into a hello of put_hello("s"): record 5, message 4, then the body. */
static void fields_of_the_hello_must_add_up(void **state)
{
	enum { AT_VERSION = 9, AT_SESSION = 43, AT_SUITES = 76, AT_COMPRESSION = 82, AT_ALL = 84 };
	static const struct {
		size_t at;
		struct str bytes;
		enum egress_hello verdict;
	} table[] = {
		{ AT_VERSION, STR("\x03\x01"), EGRESS_HELLO_NAME },
		{ AT_VERSION, STR("\x03\x02"), EGRESS_HELLO_NAME },
		{ AT_VERSION, STR("\x03\x00"), EGRESS_HELLO_NOT_TLS },
		{ AT_VERSION, STR("\x03\x05"), EGRESS_HELLO_NOT_TLS },
		{ AT_VERSION, STR("\x02\x03"), EGRESS_HELLO_NOT_TLS },
		{ AT_SESSION, STR("\x21"), EGRESS_HELLO_NOT_TLS },
		{ AT_SESSION, STR("\x1f"), EGRESS_HELLO_NOT_TLS },
		{ AT_SESSION, STR("\xff"), EGRESS_HELLO_NOT_TLS },
		{ AT_SUITES, STR("\x00\x00"), EGRESS_HELLO_NOT_TLS },
		{ AT_SUITES, STR("\x00\x03"), EGRESS_HELLO_NOT_TLS },
		{ AT_SUITES, STR("\x00\x06"), EGRESS_HELLO_NOT_TLS },
		{ AT_SUITES, STR("\xff\xfe"), EGRESS_HELLO_NOT_TLS },
		{ AT_COMPRESSION, STR("\x00"), EGRESS_HELLO_NOT_TLS },
		{ AT_COMPRESSION, STR("\x02"), EGRESS_HELLO_NOT_TLS },
		{ AT_ALL, STR("\x00\x11"), EGRESS_HELLO_NOT_TLS },
		{ AT_ALL, STR("\x00\x12"), EGRESS_HELLO_NAME },
		{ AT_ALL, STR("\x00\x13"), EGRESS_HELLO_NOT_TLS },
		{ AT_ALL, STR("\xff\xff"), EGRESS_HELLO_NOT_TLS },
		{ AT_ALL + 2, STR("\x00\x01"), EGRESS_HELLO_NO_NAME }, /* another type */
		{ AT_ALL + 4, STR("\x00\x0d"), EGRESS_HELLO_NOT_TLS },
		{ AT_ALL + 4, STR("\x00\x0f"), EGRESS_HELLO_NOT_TLS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_buf_ struct buf hello = BUF(1000);
		put_hello(&hello, "s", WHOLE);
		assert_int_equal(hello.len, AT_ALL + 2 + 18);
		memcpy(hello.data + table[i].at, table[i].bytes.data, table[i].bytes.len);
		if (verdict(buf_str(&hello)) != table[i].verdict)
			fail_msg("row %zu", i);
	}
}

/* The lengths of record and message are right, the body ends too early: only where the compression
 * methods end it may. */
static void a_body_that_ends_early_is_not_tls(void **state)
{
	_cleanup_buf_ struct buf extensions = BUF(1000), body = BUF(1000);

	put_extensions(&extensions, "so");
	put_body(&body, buf_str(&extensions));
	for (size_t n = 0; n <= body.len; n++) {
		_cleanup_buf_ struct buf hello = BUF(1000);
		enum egress_hello expected = n == body.len ? EGRESS_HELLO_NAME
					     : n == 75	   ? EGRESS_HELLO_NO_NAME
							   : EGRESS_HELLO_NOT_TLS;
		put_records(&hello, 1, (struct str){ body.data, n }, WHOLE);
		assert_int_equal(verdict(buf_str(&hello)), expected);
	}
	buf_put_char(&body, 0);
	_cleanup_buf_ struct buf longer = BUF(1000);
	put_records(&longer, 1, buf_str(&body), WHOLE);
	assert_int_equal(verdict(buf_str(&longer)), EGRESS_HELLO_NOT_TLS);
}

static void a_session_id_has_32_bytes_at_most(void **state)
{
	for (size_t len = 0; len <= 40; len++) {
		_cleanup_buf_ struct buf extensions = BUF(1000), body = BUF(1000),
					 hello = BUF(1000);
		static const char zeros[40];
		put_extensions(&extensions, "s");
		buf_put(&body, "\x03\x03", 2);
		buf_put(&body, zeros, 32);
		put_vector(&body, 1, (struct str){ zeros, len });
		put_vector(&body, 2, STR("\x13\x01"));
		put_vector(&body, 1, STR("\0"));
		put_vector(&body, 2, buf_str(&extensions));
		put_records(&hello, 1, buf_str(&body), WHOLE);
		assert_int_equal(verdict(buf_str(&hello)),
				 len <= 32 ? EGRESS_HELLO_NAME : EGRESS_HELLO_NOT_TLS);
	}
}

/* Early data, a change of ciphers, anything: the hello has said what counts. */
static void what_follows_the_hello_changes_nothing(void **state)
{
	static const struct str table[] = {
		STR("\x17\x03\x03\x00\x02hi"), STR("\x14\x03\x03\x00\x01\x01"), STR("GET /"),
		STR("\0\0\0\0\0\0\0\0"),       STR("\x16\x03\x01\x00\x00"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_buf_ struct buf hello = BUF(1000);
		char name[256];
		put_hello(&hello, "s", 50);
		buf_put_str(&hello, table[i]);
		assert_int_equal(parse(buf_str(&hello), name), EGRESS_HELLO_NAME);
		assert_string_equal(name, "a.example");
	}
}

static void a_second_hello_in_the_same_record_is_refused(void **state)
{
	_cleanup_buf_ struct buf one = BUF(1000), both = BUF(1000);

	put_hello(&one, "s", WHOLE);
	struct str message = str_from(buf_str(&one), 5);
	buf_put(&both, "\x16\x03\x01", 3);
	put_number(&both, 2, 2 * message.len);
	buf_put_str(&both, message);
	buf_put_str(&both, message);
	assert_int_equal(verdict(buf_str(&both)), EGRESS_HELLO_NOT_TLS);
	assert_int_equal(verdict((struct str){ both.data, one.len }), EGRESS_HELLO_NOT_TLS);
}

/* A hello that has exactly total bytes with the heads of its records. */
static void put_padded(struct buf *out, size_t total, size_t piece)
{
	static const char zeros[20000];

	for (size_t padding = 15000; padding < sizeof(zeros); padding++) {
		_cleanup_buf_ struct buf extensions = BUF(70000), body = BUF(70000);
		buf_clear(out);
		put_number(&extensions, 2, 21);
		put_vector(&extensions, 2, (struct str){ zeros, padding });
		put_extensions(&extensions, "s");
		put_body(&body, buf_str(&extensions));
		put_records(out, 1, buf_str(&body), piece);
		if (out->len == total)
			return;
	}
	fail_msg("no padding gives %zu bytes", total);
}

static void sixteen_kib_are_the_end(void **state)
{
	static const size_t pieces[] = { 16384, 9000, 4000 };

	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		_cleanup_buf_ struct buf hello = BUF(70000);
		char name[256];
		put_padded(&hello, EGRESS_HELLO_MAX, pieces[i]);
		assert_int_equal(verdict((struct str){ hello.data, hello.len - 1 }),
				 EGRESS_HELLO_MORE);
		assert_int_equal(parse(buf_str(&hello), name), EGRESS_HELLO_NAME);
		assert_string_equal(name, "a.example");
		buf_put_text(&hello, "and what follows");
		assert_int_equal(parse(buf_str(&hello), name), EGRESS_HELLO_NAME);
		put_padded(&hello, EGRESS_HELLO_MAX + 1, pieces[i]);
		assert_int_equal(verdict(buf_str(&hello)), EGRESS_HELLO_NOT_TLS);
		assert_int_equal(verdict((struct str){ hello.data, EGRESS_HELLO_MAX }),
				 EGRESS_HELLO_NOT_TLS);
	}
}

/* In records of one byte the message may have a sixth of that. */
static void heads_of_records_count_as_bytes(void **state)
{
	_cleanup_buf_ struct buf body = BUF(70000), hello = BUF(70000), extensions = BUF(70000);
	static const char zeros[4000];

	put_number(&extensions, 2, 21);
	put_vector(&extensions, 2, (struct str){ zeros, sizeof(zeros) });
	put_body(&body, buf_str(&extensions));
	put_records(&hello, 1, buf_str(&body), 1);
	assert_int_equal(verdict((struct str){ hello.data, EGRESS_HELLO_MAX - 1 }),
			 EGRESS_HELLO_MORE);
	assert_int_equal(verdict((struct str){ hello.data, EGRESS_HELLO_MAX }),
			 EGRESS_HELLO_NOT_TLS);
	assert_int_equal(verdict(buf_str(&hello)), EGRESS_HELLO_NOT_TLS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_name_comes_when_the_hello_is_whole),
		cmocka_unit_test(a_hello_of_a_real_client_is_read),
		cmocka_unit_test(extensions_have_one_server_name),
		cmocka_unit_test(the_extension_has_one_entry_that_is_a_name),
		cmocka_unit_test(a_name_may_hold_any_byte_and_255_of_them),
		cmocka_unit_test(a_hello_without_extensions_has_no_name),
		cmocka_unit_test(what_begins_otherwise_is_not_tls),
		cmocka_unit_test(fields_of_the_hello_must_add_up),
		cmocka_unit_test(a_body_that_ends_early_is_not_tls),
		cmocka_unit_test(a_session_id_has_32_bytes_at_most),
		cmocka_unit_test(what_follows_the_hello_changes_nothing),
		cmocka_unit_test(a_second_hello_in_the_same_record_is_refused),
		cmocka_unit_test(sixteen_kib_are_the_end),
		cmocka_unit_test(heads_of_records_count_as_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
