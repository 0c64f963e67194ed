// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "egress/dns.h"

/* A question without its head: the name, then type and class. */
#define NAME_A \
	"\x01" \
	"a" \
	"\x07" \
	"example" \
	"\x00"
#define IN_A "\x00\x01\x00\x01"
#define IN_AAAA "\x00\x1c\x00\x01"
#define HEAD_QUERY "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
#define HEAD_EDNS "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01"
#define OPT(size) "\x00\x00\x29" size "\x00\x00\x00\x00\x00\x00"

#define L63 \
	"\x3f" \
	"abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz_012345678"
#define L61 \
	"\x3d" \
	"abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz_0123456"

/* From memory of exactly its size. */
static enum egress_dns_verdict read_exact(struct str message, struct egress_dns_query *ret)
{
	_cleanup_free_ char *exact = mem_new(message.len ? message.len : 1, 1);

	if (message.len)
		memcpy(exact, message.data, message.len);
	return egress_dns_read((struct str){ exact, message.len }, ret);
}

static struct inet_addr addr_of(const char *text)
{
	struct inet_addr addr;

	assert_true(inet_addr_parse(str_of(text), &addr));
	return addr;
}

static void a_question_is_read(void **state)
{
	struct egress_dns_query q;

	assert_int_equal(read_exact(STR(HEAD_QUERY NAME_A IN_A), &q), EGRESS_DNS_QUESTION);
	assert_int_equal(q.id, 0x1234);
	assert_int_equal(q.flags, 0x0100);
	assert_int_equal(q.type, EGRESS_DNS_A);
	assert_int_equal(q.host.kind, EGRESS_HOST_NAME);
	assert_string_equal(q.host.text, "a.example");
	assert_int_equal(q.question_len, 11 + 4);
	assert_int_equal(q.max, EGRESS_DNS_MAX);
	assert_false(q.edns);
	assert_int_equal(read_exact(STR(HEAD_QUERY NAME_A IN_AAAA), &q), EGRESS_DNS_QUESTION);
	assert_int_equal(q.type, EGRESS_DNS_AAAA);
}

static void every_type_is_a_question(void **state)
{
	/* TXT, NULL, ANY, AXFR, SVCB, HTTPS, PTR, CNAME, and none that exists. */
	static const uint16_t types[] = { 16, 10, 255, 252, 64, 65, 12, 5, 0, 65535 };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		char message[] = HEAD_QUERY NAME_A IN_A;
		struct egress_dns_query q;
		message[23] = (char)(types[i] >> 8);
		message[24] = (char)types[i];
		assert_int_equal(read_exact((struct str){ message, sizeof(message) - 1 }, &q),
				 EGRESS_DNS_QUESTION);
		assert_int_equal(q.type, types[i]);
	}
}

static void names_are_judged_like_any_host(void **state)
{
	static const struct {
		struct str name;
		enum egress_host_kind kind;
		const char *text;
	} table[] = {
		{ STR("\x01"
		      "A\x07"
		      "eXAMPLE\0"),
		  EGRESS_HOST_NAME, "a.example" }, /* 0x20 mixing */
		{ STR("\x0e"
		      "xn--mnchen-3ya\x02"
		      "de\0"),
		  EGRESS_HOST_NAME, "xn--mnchen-3ya.de" },
		{ STR("\x04"
		      "xn--\x02"
		      "de\0"),
		  EGRESS_HOST_BAD, "" },
		{ STR("\0"), EGRESS_HOST_BAD, "" }, /* the root */
		{ STR("\x09"
		      "localhost\0"),
		  EGRESS_HOST_NAME, "localhost" },
		{ STR("\x03"
		      "127\x01"
		      "0\x01"
		      "0\x01"
		      "1\0"),
		  EGRESS_HOST_LITERAL, "127.0.0.1" },
		{ STR("\x04"
		      "0x7f\x01"
		      "1\0"),
		  EGRESS_HOST_LITERAL, "0x7f.1" },
		{ STR("\x01"
		      "a\x01"
		      "1\0"),
		  EGRESS_HOST_BAD, "" },
		/* a dot, a zero and others inside a label */
		{ STR("\x09"
		      "a.example\0"),
		  EGRESS_HOST_BAD, "" },
		{ STR("\x02"
		      "a.\x07"
		      "example\0"),
		  EGRESS_HOST_BAD, "" },
		{ STR("\x01"
		      "a\x08"
		      "example.\0"),
		  EGRESS_HOST_BAD, "" },
		{ STR("\x09"
		      "127.0.0.1\0"),
		  EGRESS_HOST_BAD, "" },
		{ STR("\x02"
		      "a\0\x07"
		      "example\0"),
		  EGRESS_HOST_BAD, "" },
		{ STR("\x03"
		      "a\r\n\x07"
		      "example\0"),
		  EGRESS_HOST_BAD, "" },
		{ STR("\x03"
		      "a b\x07"
		      "example\0"),
		  EGRESS_HOST_BAD, "" },
		{ STR("\x02\xc3\xa9\x07"
		      "example\0"),
		  EGRESS_HOST_BAD, "" },
		{ STR("\x01*\x07"
		      "example\0"),
		  EGRESS_HOST_BAD, "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_buf_ struct buf message = BUF(512);
		struct egress_dns_query q;
		buf_put(&message, HEAD_QUERY, 12);
		buf_put_str(&message, table[i].name);
		buf_put(&message, IN_A, 4);
		assert_int_equal(read_exact(buf_str(&message), &q), EGRESS_DNS_QUESTION);
		if (q.host.kind != table[i].kind || strcmp(q.host.text, table[i].text) != 0)
			fail_msg("row %zu: %s", i, q.host.text);
		assert_int_equal(q.question_len, table[i].name.len + 4);
	}
}

static void names_have_255_bytes_at_most(void **state)
{
	struct egress_dns_query q;

	assert_int_equal(read_exact(STR(HEAD_QUERY L63 L63 L63 L61 "\0" IN_A), &q),
			 EGRESS_DNS_QUESTION);
	assert_int_equal(q.host.kind, EGRESS_HOST_NAME);
	assert_int_equal(q.host.len, 253);
	assert_int_equal(read_exact(STR(HEAD_QUERY L63 L63 L63 L63 "\0" IN_A), &q),
			 EGRESS_DNS_REFUSE);
	assert_int_equal(q.rcode, EGRESS_DNS_FORMERR);
	assert_int_equal(read_exact(STR(HEAD_QUERY L63 L63 L63 L63 L63 L63 "\0" IN_A), &q),
			 EGRESS_DNS_REFUSE);
	assert_int_equal(read_exact(STR(HEAD_QUERY L63 L63 L63 L61 "\1a\0" IN_A), &q),
			 EGRESS_DNS_REFUSE);
}

static void other_messages_are_refused_or_dropped(void **state)
{
	static const struct {
		struct str message;
		enum egress_dns_verdict verdict;
		unsigned rcode;
		size_t question_len;
	} table[] = {
		{ STR(""), EGRESS_DNS_DROP },
		{ { NULL, 0 }, EGRESS_DNS_DROP },
		{ STR("\x12"), EGRESS_DNS_DROP },
		{ STR("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00"), EGRESS_DNS_DROP },
		/* an answer: two stubs would talk for ever */
		{ STR("\x12\x34\x81\x80\x00\x01\x00\x00\x00\x00\x00\x00" NAME_A IN_A),
		  EGRESS_DNS_DROP },
		{ STR("\x12\x34\x80\x00\x00\x01\x00\x00\x00\x00\x00\x00" NAME_A IN_A),
		  EGRESS_DNS_DROP },
		/* status, notify, update */
		{ STR("\x12\x34\x10\x00\x00\x01\x00\x00\x00\x00\x00\x00" NAME_A IN_A),
		  EGRESS_DNS_REFUSE, EGRESS_DNS_NOTIMP, 0 },
		{ STR("\x12\x34\x20\x00\x00\x01\x00\x00\x00\x00\x00\x00" NAME_A IN_A),
		  EGRESS_DNS_REFUSE, EGRESS_DNS_NOTIMP, 0 },
		{ STR("\x12\x34\x28\x00\x00\x00\x00\x00\x00\x00\x00\x00"), EGRESS_DNS_REFUSE,
		  EGRESS_DNS_NOTIMP, 0 },
		/* no question, two, more than there are */
		{ STR("\x12\x34\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"), EGRESS_DNS_REFUSE,
		  EGRESS_DNS_FORMERR, 0 },
		{ STR("\x12\x34\x01\x00\x00\x02\x00\x00\x00\x00\x00\x00" NAME_A IN_A NAME_A IN_A),
		  EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR, 0 },
		{ STR("\x12\x34\x01\x00\xff\xff\x00\x00\x00\x00\x00\x00" NAME_A IN_A),
		  EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR, 0 },
		/* cut */
		{ STR(HEAD_QUERY), EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR, 0 },
		{ STR(HEAD_QUERY "\x01"), EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR, 0 },
		{ STR(HEAD_QUERY "\x01"
				 "a"),
		  EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR, 0 },
		{ STR(HEAD_QUERY "\x3f"
				 "a\0" IN_A),
		  EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR, 0 },
		{ STR(HEAD_QUERY NAME_A), EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR, 0 },
		{ STR(HEAD_QUERY NAME_A "\0\1\0"), EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR, 0 },
		/* pointers: to itself, forward, into the head, behind a label; the other two kinds */
		{ STR(HEAD_QUERY "\xc0\x0c" IN_A), EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR, 0 },
		{ STR(HEAD_QUERY "\xc0\x12" IN_A), EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR, 0 },
		{ STR(HEAD_QUERY "\xc0\x00" IN_A), EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR, 0 },
		{ STR(HEAD_QUERY "\x01"
				 "a\xc0\x0c" IN_A),
		  EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR, 0 },
		{ STR(HEAD_QUERY "\x41\x01" NAME_A IN_A), EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR,
		  0 },
		{ STR(HEAD_QUERY "\x80" NAME_A IN_A), EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR, 0 },
		/* other classes */
		{ STR(HEAD_QUERY NAME_A "\0\x10\0\3"), EGRESS_DNS_REFUSE, EGRESS_DNS_NOTIMP, 15 },
		{ STR(HEAD_QUERY NAME_A "\0\1\0\xff"), EGRESS_DNS_REFUSE, EGRESS_DNS_NOTIMP, 15 },
		{ STR(HEAD_QUERY NAME_A "\0\1\0\0"), EGRESS_DNS_REFUSE, EGRESS_DNS_NOTIMP, 15 },
		/* records where none belong, bytes behind the end */
		{ STR("\x12\x34\x01\x00\x00\x01\x00\x01\x00\x00\x00\x00" NAME_A IN_A
		      "\xc0\x0c\0\1\0\1\0\0\0\0\0\4\x08\x08\x08\x08"),
		  EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR, 15 },
		{ STR("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x01\x00\x00" NAME_A IN_A),
		  EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR, 15 },
		{ STR("\x12\x34\x01\x00\x00\x01\x01\x00\x00\x00\x00\x00" NAME_A IN_A),
		  EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR, 15 },
		{ STR("\x12\x34\x01\x00\x00\x01\x00\x00\x01\x00\x00\x00" NAME_A IN_A),
		  EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR, 15 },
		{ STR("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x01\x00" NAME_A IN_A),
		  EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR, 15 },
		{ STR("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x02" NAME_A IN_A OPT("\x10\0")
			      OPT("\x10\0")),
		  EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR, 15 },
		{ STR(HEAD_EDNS NAME_A IN_A), EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR, 15 },
		{ STR(HEAD_EDNS NAME_A IN_A "\0\0\x29\x10\0\0\0\0\0\0"), EGRESS_DNS_REFUSE,
		  EGRESS_DNS_FORMERR, 15 },
		{ STR(HEAD_EDNS NAME_A IN_A "\0\0\x29\x10\0\0\0\0\0\0\1"), EGRESS_DNS_REFUSE,
		  EGRESS_DNS_FORMERR, 15 },
		{ STR(HEAD_EDNS NAME_A IN_A "\1\0\x29\x10\0\0\0\0\0\0\0"), EGRESS_DNS_REFUSE,
		  EGRESS_DNS_FORMERR, 15 },
		{ STR(HEAD_EDNS NAME_A IN_A "\0\0\xfa\x10\0\0\0\0\0\0\0"), EGRESS_DNS_REFUSE,
		  EGRESS_DNS_FORMERR, 15 },
		{ STR(HEAD_EDNS NAME_A IN_A OPT("\x10\0") "x"), EGRESS_DNS_REFUSE,
		  EGRESS_DNS_FORMERR, 15 },
		{ STR(HEAD_QUERY NAME_A IN_A "x"), EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR, 15 },
		{ STR(HEAD_QUERY NAME_A IN_A OPT("\x10\0")), EGRESS_DNS_REFUSE, EGRESS_DNS_FORMERR,
		  15 },
		/* EDNS of another version */
		{ STR(HEAD_EDNS NAME_A IN_A "\0\0\x29\x10\0\0\1\0\0\0\0"), EGRESS_DNS_REFUSE,
		  EGRESS_DNS_BADVERS, 15 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct egress_dns_query q = { .rcode = 0 };
		if (read_exact(table[i].message, &q) != table[i].verdict)
			fail_msg("row %zu", i);
		assert_int_equal(q.rcode, table[i].rcode);
		if (table[i].verdict != EGRESS_DNS_REFUSE)
			continue;
		assert_int_equal(q.question_len, table[i].question_len);
		/* A refusal can always be said, and says which one it is. */
		unsigned char out[512];
		size_t len = egress_dns_write(table[i].message, &q, q.rcode, NULL, 0, 60, q.max,
					      out, sizeof(out));
		assert_true(len >= 12);
		assert_memory_equal(out, table[i].message.data, 2);
		assert_int_equal(out[3] & 15, q.rcode & 15);
		assert_int_equal(out[5], table[i].question_len ? 1 : 0);
	}
}

static void edns_says_how_much_fits(void **state)
{
	static const struct {
		struct str message;
		size_t max;
	} table[] = {
		{ STR(HEAD_EDNS NAME_A IN_A OPT("\x00\x00")), 512 },
		{ STR(HEAD_EDNS NAME_A IN_A OPT("\x01\xff")), 512 },
		{ STR(HEAD_EDNS NAME_A IN_A OPT("\x02\x00")), 512 },
		{ STR(HEAD_EDNS NAME_A IN_A OPT("\x02\x01")), 513 },
		{ STR(HEAD_EDNS NAME_A IN_A OPT("\x04\xd0")), 1232 },
		{ STR(HEAD_EDNS NAME_A IN_A OPT("\x04\xd1")), 1232 },
		{ STR(HEAD_EDNS NAME_A IN_A OPT("\x10\x00")), 1232 },
		{ STR(HEAD_EDNS NAME_A IN_A OPT("\xff\xff")), 1232 },
		/* with options: a cookie */
		{ STR(HEAD_EDNS NAME_A IN_A "\0\0\x29\x10\0\0\0\0\0\0\x0c\0\x0a\0\x08"
					    "12345678"),
		  1232 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct egress_dns_query q;
		assert_int_equal(read_exact(table[i].message, &q), EGRESS_DNS_QUESTION);
		assert_true(q.edns);
		assert_false(q.dnssec_ok);
		assert_int_equal(q.max, table[i].max);
	}
}

/* Reads message, answers it, compares the bytes. */
static void check_answer(struct str message, enum egress_dns_rcode rcode,
			 const struct inet_addr *addrs, size_t n_addrs, uint32_t ttl,
			 struct str expected)
{
	struct egress_dns_query q;
	unsigned char out[1500];

	assert_int_not_equal(read_exact(message, &q), EGRESS_DNS_DROP);
	size_t len =
		egress_dns_write(message, &q, rcode, addrs, n_addrs, ttl, q.max, out, sizeof(out));
	assert_int_equal(len, expected.len);
	assert_memory_equal(out, expected.data, len);
}

#define HEAD_OF_ANSWER(flags, n) "\x12\x34" flags "\x00\x01\x00" n "\x00\x00\x00\x00"
#define HEAD_WITH_OPT(flags, n) "\x12\x34" flags "\x00\x01\x00" n "\x00\x00\x00\x01"
#define OUR_OPT(rcode, flags) "\x00\x00\x29\x04\xd0" rcode "\x00" flags "\x00\x00\x00"

static void answers_are_these_bytes(void **state)
{
	struct inet_addr addrs[] = { addr_of("198.18.0.1"), addr_of("2001:db8::5"),
				     addr_of("8.8.4.4") };

	check_answer(STR(HEAD_QUERY NAME_A IN_A), EGRESS_DNS_NOERROR, addrs, 3, 30,
		     STR(HEAD_OF_ANSWER("\x81\x80", "\x02") NAME_A IN_A
			 "\xc0\x0c\0\1\0\1\0\0\0\x1e\0\4\xc6\x12\0\1"
			 "\xc0\x0c\0\1\0\1\0\0\0\x1e\0\4\x08\x08\4\4"));
	check_answer(STR(HEAD_QUERY NAME_A IN_AAAA), EGRESS_DNS_NOERROR, addrs, 3, 3600,
		     STR(HEAD_OF_ANSWER("\x81\x80", "\x01") NAME_A IN_AAAA
			 "\xc0\x0c\0\x1c\0\1\0\0\0\x3c\0\x10"
			 "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\5"));
	/* The question as it was asked, in its letters; recursion not desired; checking disabled. */
	check_answer(STR("\x12\x34\x00\x10\0\1\0\0\0\0\0\0\1"
			 "A\0" IN_A),
		     EGRESS_DNS_NOERROR, addrs, 1, 0,
		     STR(HEAD_OF_ANSWER("\x80\x90",
					"\x01") "\1"
						"A\0" IN_A
						"\xc0\x0c\0\1\0\1\0\0\0\0\0\4\xc6\x12\0\1"));
	/* Other bits of a query mean nothing: authoritative, truncated, zero, authentic, rcode. */
	check_answer(STR("\x12\x34\x07\xef\0\1\0\0\0\0\0\0" NAME_A IN_A), EGRESS_DNS_NOERROR, NULL,
		     0, 60, STR(HEAD_OF_ANSWER("\x81\x80", "\x00") NAME_A IN_A));
	check_answer(STR(HEAD_QUERY NAME_A IN_A), EGRESS_DNS_NXDOMAIN, NULL, 0, 60,
		     STR(HEAD_OF_ANSWER("\x81\x83", "\x00") NAME_A IN_A));
	check_answer(STR(HEAD_QUERY NAME_A IN_A), EGRESS_DNS_SERVFAIL, addrs, 3, 60,
		     STR(HEAD_OF_ANSWER("\x81\x82", "\x00") NAME_A IN_A));
	/* HTTPS: an empty answer whatever is given. */
	check_answer(STR(HEAD_QUERY NAME_A "\0\x41\0\1"), EGRESS_DNS_NOERROR, addrs, 3, 60,
		     STR(HEAD_OF_ANSWER("\x81\x80", "\x00") NAME_A "\0\x41\0\1"));
	check_answer(STR(HEAD_QUERY NAME_A "\0\xff\0\1"), EGRESS_DNS_NOERROR, addrs, 3, 60,
		     STR(HEAD_OF_ANSWER("\x81\x80", "\x00") NAME_A "\0\xff\0\1"));
}

static void answers_to_edns_have_an_opt(void **state)
{
	struct inet_addr addr = addr_of("8.8.8.8");

	check_answer(STR(HEAD_EDNS NAME_A IN_A OPT("\x10\x00")), EGRESS_DNS_NOERROR, &addr, 1, 60,
		     STR(HEAD_WITH_OPT("\x81\x80", "\x01") NAME_A IN_A
			 "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x08\x08\x08\x08" OUR_OPT("\0", "\0")));
	check_answer(STR(HEAD_EDNS NAME_A IN_A OPT("\x10\x00")), EGRESS_DNS_NXDOMAIN, NULL, 0, 60,
		     STR(HEAD_WITH_OPT("\x81\x83", "\x00") NAME_A IN_A OUR_OPT("\0", "\0")));
	/* DO comes back, other flags do not. */
	check_answer(STR(HEAD_EDNS NAME_A IN_A "\0\0\x29\x10\0\0\0\x7f\xff\0\0"),
		     EGRESS_DNS_NOERROR, NULL, 0, 60,
		     STR(HEAD_WITH_OPT("\x81\x80", "\x00") NAME_A IN_A OUR_OPT("\0", "\0")));
	check_answer(STR(HEAD_EDNS NAME_A IN_A "\0\0\x29\x10\0\0\0\x80\0\0\0"), EGRESS_DNS_NOERROR,
		     NULL, 0, 60,
		     STR(HEAD_WITH_OPT("\x81\x80", "\x00") NAME_A IN_A OUR_OPT("\0", "\x80")));
	check_answer(STR(HEAD_EDNS NAME_A IN_A "\0\0\x29\x10\0\0\1\0\0\0\0"), EGRESS_DNS_BADVERS,
		     NULL, 0, 60,
		     STR(HEAD_WITH_OPT("\x81\x80", "\x00") NAME_A IN_A OUR_OPT("\1", "\0")));
}

static unsigned count_answers(const unsigned char *out)
{
	return (unsigned)out[6] << 8 | out[7];
}

static void what_does_not_fit_is_cut_and_said(void **state)
{
	static const struct {
		struct str message;
		size_t max, size, len;
		unsigned n;
		bool truncated;
	} table[] = {
		{ STR(HEAD_QUERY NAME_A IN_A), 512, 1500, 27 + 30 * 16, 30, true },
		{ STR(HEAD_QUERY NAME_A IN_A), 65535, 1500, 27 + 40 * 16, 40, false },
		{ STR(HEAD_QUERY NAME_A IN_A), 512, 100, 27 + 4 * 16, 4, true },
		{ STR(HEAD_QUERY NAME_A IN_A), 27 + 16, 1500, 27 + 16, 1, true },
		{ STR(HEAD_QUERY NAME_A IN_A), 27 + 15, 1500, 27, 0, true },
		{ STR(HEAD_QUERY NAME_A IN_A), 27, 1500, 27, 0, true },
		{ STR(HEAD_QUERY NAME_A IN_A), 26, 1500, 12, 0, true },
		{ STR(HEAD_QUERY NAME_A IN_A), 12, 1500, 12, 0, true },
		{ STR(HEAD_QUERY NAME_A IN_A), 11, 1500, 0, 0, false },
		{ STR(HEAD_QUERY NAME_A IN_A), 512, 11, 0, 0, false },
		{ STR(HEAD_QUERY NAME_A IN_A), 512, 0, 0, 0, false },
		{ STR(HEAD_EDNS NAME_A IN_A OPT("\x10\0")), 1232, 1500, 38 + 40 * 16, 40, false },
		{ STR(HEAD_EDNS NAME_A IN_A OPT("\x10\0")), 512, 1500, 38 + 29 * 16, 29, true },
		{ STR(HEAD_EDNS NAME_A IN_A OPT("\x10\0")), 38, 1500, 38, 0, true },
		{ STR(HEAD_EDNS NAME_A IN_A OPT("\x10\0")), 37, 1500, 12, 0, true },
	};
	struct inet_addr addrs[40];

	for (size_t i = 0; i < ARRAY_SIZE(addrs); i++) {
		addrs[i] = addr_of("8.8.8.0");
		addrs[i].bytes[15] = (unsigned char)i;
	}
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_free_ unsigned char *out = mem_new(table[i].size ? table[i].size : 1, 1);
		struct egress_dns_query q;
		assert_int_equal(read_exact(table[i].message, &q), EGRESS_DNS_QUESTION);
		size_t len = egress_dns_write(table[i].message, &q, EGRESS_DNS_NOERROR, addrs,
					      ARRAY_SIZE(addrs), 60, table[i].max, out,
					      table[i].size);
		if (len != table[i].len)
			fail_msg("row %zu: %zu", i, len);
		if (!len)
			continue;
		assert_int_equal(count_answers(out), table[i].n);
		assert_int_equal((out[2] & 2) != 0, table[i].truncated);
		assert_int_equal(out[3], 0x80);
		assert_int_equal(out[5], len > 12);
		assert_int_equal(out[11], len > 12 && q.edns);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_question_is_read),
		cmocka_unit_test(every_type_is_a_question),
		cmocka_unit_test(names_are_judged_like_any_host),
		cmocka_unit_test(names_have_255_bytes_at_most),
		cmocka_unit_test(other_messages_are_refused_or_dropped),
		cmocka_unit_test(edns_says_how_much_fits),
		cmocka_unit_test(answers_are_these_bytes),
		cmocka_unit_test(answers_to_edns_have_an_opt),
		cmocka_unit_test(what_does_not_fit_is_cut_and_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
