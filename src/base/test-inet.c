// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/inet.h"
#include "base/mem.h"

static void addresses_have_one_form(void **state)
{
	static const struct {
		struct str in;
		const char *out; /* NULL: refused */
	} table[] = {
		{ STR("127.0.0.1"), "127.0.0.1" },
		{ STR("::ffff:127.0.0.1"), "127.0.0.1" },
		{ STR("::1"), "::1" },
		{ STR("2001:DB8:0:0::1"), "2001:db8::1" },
		{ STR(""), NULL },
		{ STR("127.0.0"), NULL },
		{ STR("127.0.0.01"), NULL },
		{ STR("0x7f.0.0.1"), NULL },
		{ STR("256.0.0.1"), NULL },
		{ STR("127.0.0.1 "), NULL },
		{ STR("127.0.0.1\0"), NULL },
		{ STR("fe80::1%lo"), NULL },
		{ STR("[::1]"), NULL },
		{ STR("localhost"), NULL },
		{ STR("1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb"), NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct inet_addr addr;
		char text[INET6_ADDRSTRLEN];
		assert_int_equal(inet_addr_parse(table[i].in, &addr), table[i].out != NULL);
		if (!table[i].out)
			continue;
		inet_addr_format(&addr, text);
		assert_string_equal(text, table[i].out);
	}
}

static void ranges_hold_what_their_prefix_says(void **state)
{
	static const struct {
		const char *range, *addr;
		bool has;
	} table[] = {
		{ "10.0.0.0/8", "10.255.1.2", true },
		{ "10.0.0.0/8", "11.0.0.0", false },
		{ "10.0.0.0/8", "::ffff:10.1.1.1", true },
		{ "127.0.0.1", "127.0.0.1", true },
		{ "127.0.0.1", "127.0.0.2", false },
		{ "192.168.4.0/22", "192.168.7.255", true },
		{ "192.168.4.0/22", "192.168.8.0", false },
		{ "0.0.0.0/0", "8.8.8.8", true },
		{ "0.0.0.0/0", "::1", false },
		{ "::/0", "8.8.8.8", true },
		{ "fd00::/8", "fdff::1", true },
		{ "fd00::/8", "fe00::1", false },
		{ "::1", "::1", true },
		{ "::1", "::2", false },
		{ "::ffff:10.0.0.0/104", "10.9.9.9", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct inet_range range;
		struct inet_addr addr;
		assert_true(inet_range_parse(str_of(table[i].range), &range));
		assert_true(inet_addr_parse(str_of(table[i].addr), &addr));
		assert_int_equal(inet_range_has(&range, &addr), table[i].has);
	}
}

static void bad_ranges_are_refused(void **state)
{
	static const char *const table[] = {
		"",
		"/8",
		"10.0.0.0/",
		"10.0.0.0/33",
		"10.0.0.0/-1",
		"10.0.0.0/ 8",
		"10.0.0.0/8/8",
		"10.0.0.1/8",
		"10.0.0.0/0x8",
		"::/129",
		"fd00::1/8",
		"x/8",
		"10.0.0.0/0000",
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct inet_range range;
		assert_false(inet_range_parse(str_of(table[i]), &range));
	}
}

static void lists_take_blanks_and_empty_entries(void **state)
{
	struct inet_range *ranges = NULL;
	struct err err;
	size_t n = 0;

	assert_int_equal(inet_ranges_parse(STR(" 127.0.0.1 ,, ::1,10.0.0.0/8 ,"), &ranges, &n,
					   &err),
			 0);
	assert_int_equal(n, 3);
	free(ranges);
	assert_int_equal(inet_ranges_parse((struct str){ NULL, 0 }, &ranges, &n, &err), 0);
	assert_int_equal(n, 0);
	assert_true(inet_ranges_parse(STR("127.0.0.1,me"), &ranges, &n, &err) < 0);
	assert_string_equal(err.text, "'me' is not an address or range");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_have_one_form),
		cmocka_unit_test(ranges_hold_what_their_prefix_says),
		cmocka_unit_test(bad_ranges_are_refused),
		cmocka_unit_test(lists_take_blanks_and_empty_entries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
