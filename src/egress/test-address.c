// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "egress/address.h"

static struct inet_addr addr_of(const char *text)
{
	struct inet_addr addr;

	if (!inet_addr_parse(str_of(text), &addr))
		fail_msg("%s", text);
	return addr;
}

static bool is_public(const char *text)
{
	struct inet_addr addr = addr_of(text);

	return egress_address_is_public(&addr);
}

/* First and last address of each range, and whether the ones beside it are public. */
static void special_ranges_are_refused_to_their_edges(void **state)
{
	static const struct {
		const char *before, *first, *last, *after;
		bool before_is_public, after_is_public;
	} table[] = {
		{ NULL, "0.0.0.0", "0.255.255.255", "1.0.0.0", false, true },
		{ "9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0", true, true },
		{ "100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0", true, true },
		{ "126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0", true, true },
		{ "169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0", true, true },
		{ "172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0", true, true },
		{ "191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0", true, true },
		{ "192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0", true, true },
		{ "192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0", true, true },
		{ "192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0", true, true },
		{ "198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0", true, true },
		{ "198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0", true, true },
		{ "203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0", true, true },
		{ "223.255.255.255", "224.0.0.0", "239.255.255.255", "240.0.0.0", true, false },
		{ "239.255.255.255", "240.0.0.0", "255.255.255.255", NULL, false, false },
		{ NULL, "::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2000::", false, true },
		{ "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		  "2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::", true, true },
		{ "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8::",
		  "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::", true, true },
		{ "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		  "2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::", true, true },
		{ "3ffd:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		  "3ffe::", "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff::", true, false },
		{ "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		  "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::", false, true },
		{ "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		  "4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, true, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (is_public(table[i].first) || is_public(table[i].last))
			fail_msg("%s", table[i].first);
		if (table[i].before)
			assert_int_equal(is_public(table[i].before), table[i].before_is_public);
		if (table[i].after)
			assert_int_equal(is_public(table[i].after), table[i].after_is_public);
	}
}

static void addresses_of_attacks_are_refused(void **state)
{
	static const char *const table[] = {
		"169.254.169.254", /* metadata services */
		"169.254.170.2",
		"100.100.100.200",
		"192.0.0.192",
		"fd00:ec2::254",
		"fd20:ce::254",
		"fe80::a9fe:a9fe",
		"255.255.255.255",
		"::",
		"::1",
		"::2",
		"::ffff:127.0.0.1", /* mapped: as IPv4 */
		"::ffff:10.0.0.1",
		"::ffff:169.254.169.254",
		"::ffff:0.0.0.0",
		"::127.0.0.1", /* compatible */
		"::8.8.8.8",
		"::ffff:0:127.0.0.1", /* translated: RFC 2765 */
		"::ffff:0:8.8.8.8",
		"64:ff9b::127.0.0.1", /* NAT64 */
		"64:ff9b::8.8.8.8",
		"64:ff9b:1::1",
		"64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
		"2002:7f00:1::", /* 6to4 */
		"2002:808:808::1",
		"2001::1", /* Teredo */
		"2001:0:4136:e378:8000:63bf:3fff:fdd2",
		"2001:1::1",
		"2001:2::1", /* benchmarking */
		"2001:3::1",
		"2001:4:112::1",
		"2001:10::1", /* ORCHID, ORCHIDv2 */
		"2001:20::1",
		"2001:30::1",
		"100::1", /* discard only */
		"100:0:0:1::1",
		"5f00::1", /* SRv6 */
		"3fff::1",
		"fc00::1",
		"fdff::1",
		"fe80::1",
		"febf::1",
		"fec0::1",
		"feff::1",
		"ff02::1",
		"ff0e::1",
		"224.0.0.251",
		"239.255.255.250",
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (is_public(table[i]))
			fail_msg("%s", table[i]);
	}
}

static void addresses_of_the_internet_are_public(void **state)
{
	static const char *const table[] = {
		"1.1.1.1",	     "8.8.8.8",		 "151.101.0.223",	 "140.82.121.4",
		"192.31.196.1",	     "192.52.193.1",	 "192.175.48.1",	 "::ffff:8.8.8.8",
		"2606:4700::6810:1", "2a04:4e42::223",	 "2001:4860:4860::8888", "2620:4f:8000::1",
		"2400:cb00::1",	     "2c0f:fb50:4003::",
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (!is_public(table[i]))
			fail_msg("%s", table[i]);
	}
}

static void one_bad_address_spoils_the_answer(void **state)
{
	static const struct {
		const char *addrs[4];
		enum egress_addresses verdict;
	} table[] = {
		{ { "8.8.8.8" }, EGRESS_ADDRESSES_PUBLIC },
		{ { "8.8.8.8", "2606:4700::1", "1.1.1.1" }, EGRESS_ADDRESSES_PUBLIC },
		{ { "10.0.0.1" }, EGRESS_ADDRESSES_PRIVATE },
		{ { "10.0.0.1", "::1", "169.254.169.254" }, EGRESS_ADDRESSES_PRIVATE },
		{ { "10.0.0.1", "8.8.8.8" }, EGRESS_ADDRESSES_MIXED },
		{ { "8.8.8.8", "10.0.0.1" }, EGRESS_ADDRESSES_MIXED },
		{ { "8.8.8.8", "1.1.1.1", "2606:4700::1", "::1" }, EGRESS_ADDRESSES_MIXED },
		/* the host's own */
		{ { "5.6.7.8" }, EGRESS_ADDRESSES_PRIVATE },
		{ { "::ffff:5.6.7.8" }, EGRESS_ADDRESSES_PRIVATE },
		{ { "2a01:4f8::1" }, EGRESS_ADDRESSES_PRIVATE },
		{ { "5.6.7.9" }, EGRESS_ADDRESSES_PUBLIC },
		{ { "8.8.8.8", "2a01:4f8::1" }, EGRESS_ADDRESSES_MIXED },
		{ { "10.0.0.1", "5.6.7.8" }, EGRESS_ADDRESSES_PRIVATE },
	};
	struct inet_addr own[] = { addr_of("5.6.7.8"), addr_of("2a01:4f8::1") };

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct inet_addr addrs[4];
		size_t n = 0;
		for (; n < 4 && table[i].addrs[n]; n++)
			addrs[n] = addr_of(table[i].addrs[n]);
		assert_int_equal(egress_addresses_judge(addrs, n, own, ARRAY_SIZE(own)),
				 table[i].verdict);
	}
	struct inet_addr public = addr_of("5.6.7.8");
	assert_int_equal(egress_addresses_judge(&public, 1, NULL, 0), EGRESS_ADDRESSES_PUBLIC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(special_ranges_are_refused_to_their_edges),
		cmocka_unit_test(addresses_of_attacks_are_refused),
		cmocka_unit_test(addresses_of_the_internet_are_public),
		cmocka_unit_test(one_bad_address_spoils_the_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
