// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "egress/event.h"

static struct inet_addr addr_of(const char *text)
{
	struct inet_addr addr;

	assert_true(inet_addr_parse(str_of(text), &addr));
	return addr;
}

static struct egress_event plain(void)
{
	return (struct egress_event){
		.ts_ms = 1767225600042,
		.via = EGRESS_PROXY,
		.session = "sb_1",
		.tenant = "acme",
		.host = "pypi.org",
		.port = 443,
	};
}

static void check(const struct egress_event *e, const char *expected)
{
	_cleanup_buf_ struct buf out = BUF(8192);

	assert_true(egress_event_write(e, &out));
	assert_string_equal(out.data, expected);
	assert_int_equal(out.len, strlen(expected));
}

static void a_connection_has_two_lines(void **state)
{
	struct egress_event e = plain();

	e.dialled = true;
	e.ip = addr_of("151.101.0.223");
	e.ips[0] = e.ip;
	e.ips[1] = addr_of("2a04:4e42::223");
	e.n_ips = 2;
	e.conn = 7;
	e.open = true;
	check(&e, "{\"ts\":1767225600.042,\"decision\":\"allow\",\"session\":\"sb_1\","
		  "\"tenant\":\"acme\",\"host\":\"pypi.org\",\"port\":443,"
		  "\"ips\":[\"151.101.0.223\",\"2a04:4e42::223\"],\"ip\":\"151.101.0.223\","
		  "\"via\":\"proxy\",\"conn\":7,\"open\":true}\n");
	e.open = false;
	e.closed = true;
	e.bytes_up = 517;
	e.bytes_down = UINT64_MAX;
	e.duration_ms = 1200;
	check(&e, "{\"ts\":1767225600.042,\"decision\":\"allow\",\"session\":\"sb_1\","
		  "\"tenant\":\"acme\",\"host\":\"pypi.org\",\"port\":443,"
		  "\"ips\":[\"151.101.0.223\",\"2a04:4e42::223\"],\"ip\":\"151.101.0.223\","
		  "\"via\":\"proxy\",\"conn\":7,\"open\":false,\"bytes_up\":517,"
		  "\"bytes_down\":18446744073709551615,\"duration_ms\":1200}\n");
}

static void a_denial_says_why(void **state)
{
	struct egress_event e = plain();

	e.ts_ms = 1767225600000;
	e.code = EGRESS_NOT_CONNECT;
	e.reason = "only HTTPS (CONNECT) is supported";
	e.host = "";
	e.port = -1;
	e.target = STR("http://a.example/\"x\"");
	check(&e, "{\"ts\":1767225600.000,\"decision\":\"deny\",\"session\":\"sb_1\","
		  "\"tenant\":\"acme\",\"host\":\"\",\"target\":\"http://a.example/\\\"x\\\"\","
		  "\"reason\":\"only HTTPS (CONNECT) is supported\",\"code\":\"not_connect\","
		  "\"via\":\"proxy\"}\n");
	e = plain();
	e.code = EGRESS_PORT;
	e.reason = "port 0 not allowed";
	e.via = EGRESS_DIRECT;
	e.port = 0;
	e.has_dest = true;
	e.dest = addr_of("::ffff:1.2.3.4");
	e.repeat = 12;
	check(&e, "{\"ts\":1767225600.042,\"decision\":\"deny\",\"session\":\"sb_1\","
		  "\"tenant\":\"acme\",\"host\":\"pypi.org\",\"port\":0,"
		  "\"reason\":\"port 0 not allowed\",\"code\":\"port\",\"via\":\"direct\","
		  "\"dest\":\"1.2.3.4\",\"repeat\":12}\n");
}

/* Rung 10 speaks after the 200. */
static void a_connection_may_end_as_a_denial(void **state)
{
	struct egress_event e = plain();

	e.code = EGRESS_NO_SNI;
	e.reason = "no TLS server name";
	e.via = EGRESS_DNS;
	e.conn = 7;
	e.closed = true;
	check(&e, "{\"ts\":1767225600.042,\"decision\":\"deny\",\"session\":\"sb_1\","
		  "\"tenant\":\"acme\",\"host\":\"pypi.org\",\"port\":443,"
		  "\"reason\":\"no TLS server name\",\"code\":\"no_sni\",\"via\":\"dns\","
		  "\"conn\":7,\"open\":false,\"duration_ms\":0}\n");
}

static void text_of_tenants_cannot_leave_its_string(void **state)
{
	static const struct {
		struct str in;
		const char *out; /* within the quotes */
	} table[] = {
		{ STR(""), "" },
		{ STR("\"},{\""), "\\\"},{\\\"" },
		{ STR("\\"), "\\\\" },
		{ STR("a\r\nb"), "a\\u000d\\u000ab" },
		{ STR("a\0b"), "a\\u0000b" },
		{ STR("\x1b[2J\x7f\t"), "\\u001b[2J\\u007f\\u0009" },
		{ STR("\xc3\xa9"), "\\u00e9" },
		{ STR("\xc2\x80\xdf\xbf\xe0\xa0\x80"), "\\u0080\\u07ff\\u0800" },
		{ STR("\xc2\x9b"), "\\u009b" },	    /* a control of one byte elsewhere */
		{ STR("\xe2\x80\xae"), "\\u202e" }, /* text the other way round */
		{ STR("\xe2\x80\xa8"), "\\u2028" }, /* a line end to some */
		{ STR("\xef\xbf\xbf"), "\\uffff" },
		{ STR("\xf0\x9f\x98\x80"), "\\ud83d\\ude00" },
		{ STR("\xf4\x8f\xbf\xbf"), "\\udbff\\udfff" },
		{ STR("\xff"), "\\ufffd" },
		{ STR("a\xc3"), "a\\ufffd" },
		{ STR("\xed\xa0\x80"), "\\ufffd\\ufffd\\ufffd" },
		{ STR("\xc0\x80"), "\\ufffd\\ufffd" },
		{ STR("\xf0\x9f\x98"), "\\ufffd" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_buf_ struct buf expected = BUF(1024), out = BUF(1024);
		struct egress_event e = plain();
		e.target = table[i].in;
		buf_printf(&expected, ",\"target\":\"%s\",\"via\"", table[i].out);
		assert_true(egress_event_write(&e, &out));
		if (!strstr(out.data, expected.data))
			fail_msg("row %zu: %s", i, out.data);
	}
}

/* Every pair of bytes: one line, printable, and a parser that others wrote reads it. */
static void any_bytes_make_one_line_of_json(void **state)
{
	_cleanup_buf_ struct buf out = BUF(1024);

	for (unsigned a = 0; a < 256; a++) {
		for (unsigned b = 0; b < 256; b += a < 128 ? 17 : 1) {
			char text[] = { 'x', (char)a, (char)b, 'y' };
			struct egress_event e = plain();
			e.target = (struct str){ text, sizeof(text) };
			buf_clear(&out);
			assert_true(egress_event_write(&e, &out));
			for (size_t i = 0; i + 1 < out.len; i++)
				assert_in_range((unsigned char)out.data[i], 0x20, 0x7e);
			assert_int_equal(out.data[out.len - 1], '\n');
			json_t *line = json_loadb(out.data, out.len, JSON_ALLOW_NUL, NULL);
			assert_non_null(line);
			json_t *target = json_object_get(line, "target");
			assert_int_equal(json_string_value(target)[0], 'x');
			assert_int_equal(json_string_value(target)[json_string_length(target) - 1],
					 'y');
			if (a < 128 && b < 128)
				assert_memory_equal(json_string_value(target), text, sizeof(text));
			json_decref(line);
		}
	}
}

static void a_full_buffer_holds_whole_lines(void **state)
{
	struct egress_event e = plain();
	_cleanup_buf_ struct buf one = BUF(8192);

	assert_true(egress_event_write(&e, &one));
	for (size_t max = 1; max < 3 * one.len; max++) {
		_cleanup_buf_ struct buf out = BUF(max);
		size_t n = 0;
		while (egress_event_write(&e, &out))
			n++;
		assert_int_equal(n, max / one.len);
		assert_int_equal(out.len, n * one.len);
		assert_true(buf_is_full(&out));
		assert_true(!out.data || out.data[out.len] == '\0');
		for (size_t i = 0; i < n; i++)
			assert_memory_equal(out.data + i * one.len, one.data, one.len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_has_two_lines),
		cmocka_unit_test(a_denial_says_why),
		cmocka_unit_test(a_connection_may_end_as_a_denial),
		cmocka_unit_test(text_of_tenants_cannot_leave_its_string),
		cmocka_unit_test(any_bytes_make_one_line_of_json),
		cmocka_unit_test(a_full_buffer_holds_whole_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
