// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/mem.h"
#include "egress/host.h"

/* 63 and 64 bytes; sums below are counted from them. */
#define L63 "abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz_012345678"
#define L64 L63 "9"
#define L61 "abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz_0123456"
#define ZEROS_50 "00000000000000000000000000000000000000000000000000"

static void parse(struct str raw, struct egress_host *ret)
{
	memset(ret, 'x', sizeof(*ret));
	egress_host_parse(raw, ret);
	assert_true(ret->len <= EGRESS_HOST_MAX);
	assert_int_equal(ret->text[ret->len], '\0');
	if (ret->kind == EGRESS_HOST_BAD)
		assert_int_equal(ret->len, 0);
}

static void names_have_one_form(void **state)
{
	static const struct {
		struct str in;
		const char *out;
	} table[] = {
		{ STR("allowed.example"), "allowed.example" },
		{ STR("ALLOWED.Example"), "allowed.example" },
		{ STR("allowed.example."), "allowed.example" },
		{ STR("ALLOWED.EXAMPLE."), "allowed.example" },
		{ STR("a"), "a" },
		{ STR("localhost"), "localhost" },
		{ STR("_dmarc.example.com"), "_dmarc.example.com" },
		{ STR("-a-.example"), "-a-.example" },
		{ STR("r3---sn-4g5e6nsz.googlevideo.com"), "r3---sn-4g5e6nsz.googlevideo.com" },
		{ STR("1.2.3.4.example"), "1.2.3.4.example" },
		{ STR("0x7f.example"), "0x7f.example" },
		{ STR("127.0.0.1.nip.io"), "127.0.0.1.nip.io" },
		{ STR("example.1a"), "example.1a" },
		{ STR("example.0xg"), "example.0xg" },
		{ STR("example.x7f"), "example.x7f" },
		{ STR("example.00x1"), "example.00x1" },
		{ STR("-1"), "-1" }, /* no number to anybody */
		{ STR("a." L63), "a." L63 },
		{ STR(L63 "." L63 "." L63 "." L61), L63 "." L63 "." L63 "." L61 },
		{ STR(L63 "." L63 "." L63 "." L61 "."), L63 "." L63 "." L63 "." L61 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct egress_host host;
		parse(table[i].in, &host);
		assert_int_equal(host.kind, EGRESS_HOST_NAME);
		assert_string_equal(host.text, table[i].out);
		assert_int_equal(host.len, strlen(table[i].out));
	}
}

static void every_spelling_of_an_address_is_a_literal(void **state)
{
	static const struct str table[] = {
		/* the usual ones */
		STR("127.0.0.1"),
		STR("169.254.169.254"),
		STR("8.8.8.8"),
		STR("0.0.0.0"),
		STR("255.255.255.255"),
		/* one to four parts, each decimal, octal or hexadecimal, a dot behind */
		STR("2130706433"),
		STR("017700000001"),
		STR("0x7f000001"),
		STR("0X7F000001"),
		STR("0177.0.0.1"),
		STR("0x7f.0x0.0x0.0x1"),
		STR("0x7f.0.0.01"),
		STR("127.1"),
		STR("127.0.1"),
		STR("127.0x000001"),
		STR("10.65535"),
		STR("10.16777215"),
		STR("0"),
		STR("00"),
		STR("0x"),
		STR("4294967295"),
		STR("0xffffffff"),
		STR("037777777777"),
		STR("127.0.0.1."),
		STR("2130706433."),
		STR("0x7f.1."),
		STR("0."),
		STR("0x."),
		STR("0000000000000000000000000000000000000000000000000000000000000000000127.0.0.1"),
		STR("0x" ZEROS_50 "7f000001"),
		STR(ZEROS_50 ZEROS_50 ZEROS_50 ZEROS_50 ZEROS_50 "127"), /* 253 bytes */
		/* IPv6, bare and in brackets, with a zone */
		STR("::"),
		STR("::1"),
		STR("[::]"),
		STR("[::1]"),
		STR("[fd00:ec2::254]"),
		STR("fd00:ec2::254"),
		STR("2001:DB8:0:0:0:0:0:1"),
		STR("[2606:4700:4700::1111]"),
		STR("::ffff:127.0.0.1"),
		STR("[::ffff:7f00:1]"),
		STR("64:ff9b::127.0.0.1"),
		STR("fe80::1%eth0"),
		STR("[fe80::1%25eth0]"),
		STR("fe80::1%1"),
		STR("[127.0.0.1]"),
		STR("[0x7f.1]"),
		STR("[2130706433]"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct egress_host host;
		parse(table[i], &host);
		assert_int_equal(host.kind, EGRESS_HOST_LITERAL);
		assert_true(str_eq((struct str){ host.text, host.len }, table[i]));
	}
}

static void nothing_else_is_a_host(void **state)
{
	static const struct str table[] = {
		{ NULL, 0 },
		STR(""),
		STR("."),
		STR(".."),
		STR("allowed.example.."),
		STR(".allowed.example"),
		STR("allowed..example"),
		STR("allowed.example\0"),
		STR("allowed.example\0.evil.example"),
		STR("\0"),
		STR("allowed.example\r"),
		STR("allowed.example\n"),
		STR("allowed\r\n.example"),
		STR("allowed.example\t"),
		STR(" allowed.example"),
		STR("allowed.example "),
		STR("allowed. example"),
		STR("user@allowed.example"),
		STR("allowed.example@evil.example"),
		STR("allowed.example#evil.example"),
		STR("allowed.example?a"),
		STR("allowed.example/"),
		STR("allowed.example\\evil.example"),
		STR("allowed.example:443"),
		STR("allowed.example\x7f"),
		STR("allowed.example\x1b[0m"),
		STR("*.example.com"),
		STR("a,b"),
		STR("a+b.example"),
		STR("a=b.example"),
		STR("a%2eb.example"),
		STR("http://allowed.example"),
		STR("[allowed.example]"),
		STR("(allowed.example)"),
		STR("\"allowed.example\""),
		/* numbers that no address has, so no resolver may guess at them */
		STR("1.2.3.4.5"),
		STR("256.1.1.1"),
		STR("1.2.3.256"),
		STR("1.256.1"),
		STR("10.16777216"),
		STR("4294967296"),
		STR("0x100000000"),
		STR("99999999999999999999999999999999999999999999"),
		STR("09"),
		STR("1.2.3.08"),
		STR("0xg.1"),
		STR("example.1"),
		STR("example.0x1"),
		STR("example.0x"),
		STR("example.0XfF."),
		STR("allowed.example.0"),
		STR("a.127.0.0.1"),
		STR("127.0.0.1.."),
		STR("127..0.1"),
		STR(".127.0.0.1"),
		STR("127.0.0.1 "),
		STR(" 127.0.0.1"),
		STR("127.0.0.1\0"),
		STR("127.0.0.1\n"),
		STR("+127.0.0.1"),
		STR("127.0.0.1%lo"),
		STR("\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1"), /* full-width digits */
		STR("127.0.0.\xef\xbc\x90"),
		STR("\xef\xbc\x90"),
		STR("%31"),
		STR("%3127.0.0.1"),
		STR("127.0.0.%31"),
		STR("\xe2\x91\xa0.0.0.1"), /* a digit in a circle */
		/* IPv6 that is none */
		STR(":"),
		STR(":::"),
		STR("::1::"),
		STR("1:2:3:4:5:6:7:8:9"),
		STR("12345::"),
		STR("::g"),
		STR("::ffff:127.0.0.256"),
		STR("::ffff:127.1"),
		STR("::1."),
		STR("[::1]."),
		STR("[::1"),
		STR("::1]"),
		STR("[[::1]]"),
		STR("[]"),
		STR("[.]"),
		STR("[::1]x"),
		STR("fe80::1%"),
		STR("fe80::1%eth0\n"),
		STR("fe80::1%e/0"),
		STR("fe80::1%eth0%eth1"),
		STR("%eth0"),
		STR("%::1"),
		STR("::1 "),
		STR("[ ::1]"),
		/* names that are not ASCII */
		STR("\xd0\xb0llowed.example"),	    /* Cyrillic a */
		STR("caf\xc3\xa9.example"),	    /* NFC */
		STR("cafe\xcc\x81.example"),	    /* NFD */
		STR("all\xe2\x80\x8dowed.example"), /* zero width joiner */
		STR("stra\xc3\x9f"
		    "e.example"),
		STR("allowed\xe3\x80\x82"
		    "example"), /* the dots of U+3002, U+FF0E, U+FF61 */
		STR("allowed\xef\xbc\x8e"
		    "example"),
		STR("allowed\xef\xbd\xa1"
		    "example"),
		STR("\xe2\x84\xaa.example"), /* Kelvin sign, a k in lower case */
		STR("allowe\xc4\xb1.example"),
		STR("allowed.example\x80"),
		STR("\xff"),
		/* too long */
		STR(L64 ".example"),
		STR("a." L64),
		STR(L63 "." L63 "." L63 "." L61 "a"),
		STR(L63 "." L63 "." L63 "." L61 "a."),
		STR(ZEROS_50 ZEROS_50 ZEROS_50 ZEROS_50 ZEROS_50 "127."),
		STR(ZEROS_50 ZEROS_50 ZEROS_50 ZEROS_50 ZEROS_50 ZEROS_50 "127.0.0.1"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct egress_host host;
		parse(table[i], &host);
		if (host.kind != EGRESS_HOST_BAD)
			fail_msg("row %zu: %s", i, host.text);
	}
}

/* The samples of RFC 3492 7.1, and what is special in others. */
static void a_labels_must_decode(void **state)
{
	static const struct {
		struct str label;
		bool ok;
	} table[] = {
		{ STR("xn--mnchen-3ya"), true },
		{ STR("XN--MNCHEN-3YA"), true },
		{ STR("xn--bcher-kva"), true },
		{ STR("xn--fsq"), true },
		{ STR("xn--egbpdaj6bu4bxfgehfvwxn"), true },
		{ STR("xn--ihqwcrb4cv8a8dqg056pqjye"), true },
		{ STR("xn--ihqwctvzc91f659drss3x8bo0yb"), true },
		{ STR("xn--proprostnemluvesky-uyb24dma41a"), true },
		{ STR("xn--4dbcagdahymbxekheh6e0a7fei0b"), true },
		{ STR("xn--i1baa7eci9glrd9b2ae1bj0hfcgg6iyaf8o0a1dig0cd"), true },
		{ STR("xn--n8jok5ay5dzabd5bym9f0cm5685rrjetr6pdxa"), true },
		{ STR("xn--989aomsvi5e83db1d2a355cv1e0vak1dwrv93d5xbh15a0dt30a5jpsd879ccm6fea98c"),
		  false }, /* decodes, but is longer than a label */
		{ STR("xn--b1abfaaepdrnnbgefbadotcwatmq2g4l"), true },
		{ STR("xn--porqunopuedensimplementehablarenespaol-fmd56a"), true },
		{ STR("xn--ls8h"), true },	 /* U+1F4A9 */
		{ STR("xn--80ak6aa92e"), true }, /* a look-alike of apple, in Cyrillic */
		{ STR("xn--"), false },
		{ STR("xn---"), false },
		{ STR("xn--a-"), false }, /* ASCII alone is no A-label */
		{ STR("xn--abc-"), false },
		{ STR("xn--abc"), true },
		{ STR("xn---foo"), false }, /* a dash in front belongs to the number */
		{ STR("xn--a"), true },	    /* U+0080 */
		{ STR("xn--z"), false },    /* a number that does not end */
		{ STR("xn--9"), false },
		{ STR("xn--99999999"), false },
		{ STR("xn--99999999999999999999"), false },
		{ STR("xn--a_b-9ga"), true },
		{ STR("xn--_"), false },
		{ STR("xn--a_"), false },
		{ STR("xn--mnchen-3y_"), false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		char text[128];
		struct egress_host host;
		for (unsigned place = 0; place < 3; place++) {
			static const char *const around[][2] = { { "", "" },
								 { "", ".example" },
								 { "www.", "." } };
			int n = snprintf(text, sizeof(text), "%s%.*s%s", around[place][0],
					 (int)table[i].label.len, table[i].label.data,
					 around[place][1]);
			parse((struct str){ text, (size_t)n }, &host);
			if ((host.kind == EGRESS_HOST_NAME) != table[i].ok)
				fail_msg("%s", text);
		}
	}
}

/* Random ones and neighbours of good ones, at the borders of Unicode among others. What is good is
 * what Python's decoder takes, without surrogates. */
static void a_labels_decode_where_others_decode_them(void **state)
{
	static const char *const good[] = {
		"0-gw2h63c01l37boyg",
		"00-efa48bfi",
		"090z",
		"0a-gkc89b7c4o",
		"0a-gkc8bb7c4o",
		"0y0c",
		"1b0-y33p",
		"73a",
		"73b",
		"880ac",
		"88b9dyb8a",
		"8a0z9y9bb",
		"8ya",
		"8zbyac0bya",
		"9-9ba",
		"9-qub81c",
		"9-ry3g",
		"9-yub81c",
		"98d8b",
		"99-gq6a",
		"99-gq6c",
		"99-gz6c",
		"9ca0u",
		"9ca9u",
		"9dba08cy8a",
		"_b9-yn3pbetj0z",
		"_b9-yn3pvetj0y",
		"_b9-yn3pvetj0z",
		"a",
		"a-gw2h63c01l37boyg",
		"a-h023p",
		"a-r23gvhia4b",
		"a-r23gvhia4z",
		"a-xt2b18o30pn8g425a",
		"a-xt2bk8o30pn8g425a",
		"a5a",
		"aac",
		"acaby0c",
		"b-99tpl7e97a",
		"b-9ba",
		"b-bga",
		"b-l9tpl7e97a",
		"b-z12hq6r",
		"b-zi2hq6b",
		"b-zi2hq6r",
		"b0-8281yjrf",
		"b0-828kyjrf",
		"b0-f73aneq98bz3b",
		"b0-f73aneqb8bz3a",
		"b0-f73aneqb8bz3b",
		"b08cd",
		"b0bga",
		"b8-fg2eh2r8zj",
		"b99z0-wu48p0481y",
		"bb0-y33p",
		"bb0-y33y",
		"bb9z0-wu48p0481y",
		"bz-fg2eh2r8zb",
		"bz-fg2eh2r8zj",
		"bz0yayba",
		"ca9dbc",
		"dd9abybc0a0a",
		"dn32g",
		"dn32gaaaaa",
		"gck8fqb",
		"gck8fqc",
		"gck8fyc",
		"hb9b",
		"iqsz58eq2l2yb",
		"iqsz58eq2l2yp",
		"iqsz58zq2l2yp",
		"o5a",
		"ot1c",
		"otzc",
		"rba",
		"rby",
		"rza",
		"ydya8ccy8a",
		"yf20a2253cdq2h6zzci336g",
		"z-ry3a",
		"z-ry3g",
		"z0-efa48bfi",
		"zz9zda",
	};
	static const char *const bad[] = {
		"0-gw2h63c01l37boy",
		"0-gw2h63c01l37boy1",
		"00-efa48bf",
		"00-efa48bf9",
		"08909yddzdc0",
		"0a-gkc89b7c4",
		"0a-gkc89b7c40",
		"73",
		"730",
		"88",
		"8b98y0",
		"8y9",
		"9-9b",
		"9-9b8",
		"9-qub81",
		"9-qub811",
		"99-gq6",
		"9ca0",
		"9ca01",
		"_b9-yn3pvetj0",
		"a-r23gvhia4",
		"a-r23gvzia4b",
		"a-xt2bk8o30pn8g425",
		"acdyy9",
		"b-bg",
		"b-bg8",
		"b-l9tpl7e97",
		"b-l9tpl7e970",
		"b-zi2hq6",
		"b0",
		"b0-828kyjr",
		"b0-828kyjr0",
		"b0-f73aneqb8bz3",
		"b99b9b8yb",
		"bb0-y33",
		"bb9z0-wu48p0481",
		"bd8y9y",
		"bdayyzb0",
		"bybdbyb8az90",
		"bz-fg2eh2r8z",
		"dbbc9",
		"dbbyyacyc0y0c9",
		"dbczyyca8a8",
		"ddd880",
		"dy89cyzayaaa99",
		"dzcaz0",
		"dzzbzaz9",
		"en32g",
		"gck8fq",
		"ib9b",
		"iqsz58eq2l2y",
		"o5",
		"ot1",
		"ot19",
		"q49b",
		"rb",
		"yc0z0zbz",
		"ycdy09zdz0a0",
		"ydb9c0",
		"yf20a2253cdq2h6zzci336",
		"yf20a2253cdq2h6zzci3368",
		"yf28a2253cdq2h6zzci336g",
		"z-ry3",
		"z8cyca909c99ad",
		"zb089aa9d8ya",
		"zc9ybz",
		"zy0c",
		"zz",
	};

	for (size_t i = 0; i < ARRAY_SIZE(good) + ARRAY_SIZE(bad); i++) {
		bool ok = i < ARRAY_SIZE(good);
		char text[64];
		struct egress_host host;
		int n = snprintf(text, sizeof(text), "xn--%s",
				 ok ? good[i] : bad[i - ARRAY_SIZE(good)]);
		parse((struct str){ text, (size_t)n }, &host);
		if ((host.kind == EGRESS_HOST_NAME) != ok)
			fail_msg("%s", text);
	}
}

static void an_authority_has_a_host_and_a_strict_port(void **state)
{
	static const struct {
		struct str in;
		enum egress_host_kind kind;
		const char *host;
		uint16_t port;
	} table[] = {
		{ STR("a.example:443"), EGRESS_HOST_NAME, "a.example", 443 },
		{ STR("A.Example.:443"), EGRESS_HOST_NAME, "a.example", 443 },
		{ STR("a.example:1"), EGRESS_HOST_NAME, "a.example", 1 },
		{ STR("a.example:22"), EGRESS_HOST_NAME, "a.example", 22 },
		{ STR("a.example:65535"), EGRESS_HOST_NAME, "a.example", 65535 },
		{ STR("a.example"), EGRESS_HOST_NAME, "a.example", 0 },
		{ STR("a.example:"), EGRESS_HOST_NAME, "a.example", 0 },
		{ STR("a.example:0"), EGRESS_HOST_NAME, "a.example", 0 },
		{ STR("a.example:65536"), EGRESS_HOST_NAME, "a.example", 0 },
		{ STR("a.example:65979"), EGRESS_HOST_NAME, "a.example", 0 }, /* 443 + 2^16 */
		{ STR("a.example:4294967739"), EGRESS_HOST_NAME, "a.example", 0 },
		{ STR("a.example:18446744073709552059"), EGRESS_HOST_NAME, "a.example", 0 },
		{ STR("a.example:0443"), EGRESS_HOST_NAME, "a.example", 0 },
		{ STR("a.example:+443"), EGRESS_HOST_NAME, "a.example", 0 },
		{ STR("a.example:-443"), EGRESS_HOST_NAME, "a.example", 0 },
		{ STR("a.example:443 "), EGRESS_HOST_NAME, "a.example", 0 },
		{ STR("a.example: 443"), EGRESS_HOST_NAME, "a.example", 0 },
		{ STR("a.example:443\0"), EGRESS_HOST_NAME, "a.example", 0 },
		{ STR("a.example:443\r"), EGRESS_HOST_NAME, "a.example", 0 },
		{ STR("a.example:0x1bb"), EGRESS_HOST_NAME, "a.example", 0 },
		{ STR("a.example:4e2"), EGRESS_HOST_NAME, "a.example", 0 },
		{ STR("a.example:https"), EGRESS_HOST_NAME, "a.example", 0 },
		{ STR("a.example:\xef\xbc\x94\xef\xbc\x94\xef\xbc\x93"), EGRESS_HOST_NAME,
		  "a.example", 0 },
		{ STR("a.example:443/"), EGRESS_HOST_NAME, "a.example", 0 },
		{ STR("a.example:443#b"), EGRESS_HOST_NAME, "a.example", 0 },
		{ STR("a.example:443@b.example:443"), EGRESS_HOST_BAD, "", 443 },
		{ STR("user@a.example:443"), EGRESS_HOST_BAD, "", 443 },
		{ STR("a.example::443"), EGRESS_HOST_BAD, "", 443 },
		{ STR("a.example:80:443"), EGRESS_HOST_BAD, "", 443 },
		{ STR("http://a.example:443"), EGRESS_HOST_BAD, "", 443 },
		{ STR("http://a.example"), EGRESS_HOST_NAME, "http", 0 },
		{ STR("a.example\0:443"), EGRESS_HOST_BAD, "", 443 },
		{ STR("a.example :443"), EGRESS_HOST_BAD, "", 443 },
		{ STR(":443"), EGRESS_HOST_BAD, "", 443 },
		{ STR(":"), EGRESS_HOST_BAD, "", 0 },
		{ STR(""), EGRESS_HOST_BAD, "", 0 },
		{ { NULL, 0 }, EGRESS_HOST_BAD, "", 0 },
		{ STR("10.0.0.1:443"), EGRESS_HOST_LITERAL, "10.0.0.1", 443 },
		{ STR("2130706433:443"), EGRESS_HOST_LITERAL, "2130706433", 443 },
		{ STR("0x7f.1:443"), EGRESS_HOST_LITERAL, "0x7f.1", 443 },
		{ STR("[::1]:443"), EGRESS_HOST_LITERAL, "[::1]", 443 },
		{ STR("[fe80::1%25eth0]:443"), EGRESS_HOST_LITERAL, "[fe80::1%25eth0]", 443 },
		{ STR("[::1]"), EGRESS_HOST_LITERAL, "[::1]", 0 },
		{ STR("[::1]:"), EGRESS_HOST_LITERAL, "[::1]", 0 },
		{ STR("[::1]443"), EGRESS_HOST_BAD, "", 0 },
		{ STR("[::1]x:443"), EGRESS_HOST_BAD, "", 443 },
		{ STR("[::1:443"), EGRESS_HOST_BAD, "", 443 },
		{ STR("::1]:443"), EGRESS_HOST_BAD, "", 443 },
		{ STR("[]:443"), EGRESS_HOST_BAD, "", 443 },
		{ STR("[a.example]:443"), EGRESS_HOST_BAD, "", 443 },
		{ STR("[::1]:443]"), EGRESS_HOST_BAD, "", 0 },
		/* without brackets the last group reads as the port */
		{ STR("::1:443"), EGRESS_HOST_LITERAL, "::1", 443 },
		{ STR("2001:db8::1"), EGRESS_HOST_BAD, "", 1 },
		{ STR("443"), EGRESS_HOST_LITERAL, "443", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct egress_host host;
		uint16_t port = 7;
		memset(&host, 'x', sizeof(host));
		egress_authority_parse(table[i].in, &host, &port);
		if (host.kind != table[i].kind || strcmp(host.text, table[i].host) != 0 ||
		    port != table[i].port)
			fail_msg("row %zu: %d '%s' %u", i, host.kind, host.text, port);
	}
}

static void every_byte_has_its_place(void **state)
{
	for (unsigned c = 0; c < 256; c++) {
		char text[] = { 'a', (char)c, 'b' };
		struct egress_host host;
		bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			  (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
		parse((struct str){ text, sizeof(text) }, &host);
		assert_int_equal(host.kind, ok ? EGRESS_HOST_NAME : EGRESS_HOST_BAD);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_have_one_form),
		cmocka_unit_test(every_spelling_of_an_address_is_a_literal),
		cmocka_unit_test(nothing_else_is_a_host),
		cmocka_unit_test(a_labels_must_decode),
		cmocka_unit_test(a_labels_decode_where_others_decode_them),
		cmocka_unit_test(an_authority_has_a_host_and_a_strict_port),
		cmocka_unit_test(every_byte_has_its_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
