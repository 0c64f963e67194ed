// SPDX-License-Identifier: Apache-2.0
#include "egress/address.h"

#include <assert.h>

#include "base/mem.h"

/* A range by the groups that its prefix reaches into; the others are zero. */
#define V4(a, b, c, prefix) \
	{ \
		{ { [10] = 0xff, 0xff, a, b, c } }, 96 + (prefix) \
	}
#define V6(a, b, prefix) \
	{ \
		{ { (a) >> 8, (a)&0xff, (b) >> 8, (b)&0xff } }, prefix \
	}

/*
 * IPv4 is public unless listed. The list is the IANA IPv4 Special-Purpose Address Registry without
 * the entries that are globally reachable (192.31.196/24, 192.52.193/24, 192.175.48/24: anycast
 * services on the internet), and multicast.
 */
static const struct inet_range special_v4[] = {
	V4(0, 0, 0, 8),	      /* this network: RFC 791 3.2 */
	V4(10, 0, 0, 8),      /* private use: RFC 1918 */
	V4(100, 64, 0, 10),   /* shared address space, also metadata services: RFC 6598 */
	V4(127, 0, 0, 8),     /* loopback: RFC 1122 3.2.1.3 */
	V4(169, 254, 0, 16),  /* link-local, also metadata services: RFC 3927 */
	V4(172, 16, 0, 12),   /* private use: RFC 1918 */
	V4(192, 0, 0, 24),    /* IETF protocol assignments: RFC 6890 2.1 */
	V4(192, 0, 2, 24),    /* documentation, TEST-NET-1: RFC 5737 */
	V4(192, 88, 99, 24),  /* 6to4 relay anycast, withdrawn: RFC 7526 */
	V4(192, 168, 0, 16),  /* private use: RFC 1918 */
	V4(198, 18, 0, 15),   /* benchmarking: RFC 2544 */
	V4(198, 51, 100, 24), /* documentation, TEST-NET-2: RFC 5737 */
	V4(203, 0, 113, 24),  /* documentation, TEST-NET-3: RFC 5737 */
	V4(224, 0, 0, 4),     /* multicast: RFC 5771 */
	V4(240, 0, 0, 4),     /* reserved: RFC 1112 4; limited broadcast: RFC 8190 */
};

/*
 * IPv6 is public only inside of what IANA hands out as global unicast. Outside of it lie, among
 * others, :: and ::1 and the IPv4-compatible ::/96 (RFC 4291 2.5.5.1), NAT64 64:ff9b::/96 and
 * 64:ff9b:1::/48 (RFC 6052, RFC 8215), discard-only 100::/64 and dummy 100:0:0:1::/64 (RFC 6666,
 * RFC 9780), SRv6 5f00::/16 (RFC 9602), unique local fc00::/7 (RFC 4193), link-local fe80::/10,
 * site-local fec0::/10 (RFC 3879) and multicast ff00::/8 (RFC 4291).
 */
static const struct inet_range global_unicast_v6 = V6(0x2000, 0, 3); /* RFC 4291 2.4, RFC 3587 */

/*
 * What is not public within. The first one has Teredo 2001::/32 (RFC 4380), benchmarking
 * 2001:2::/48 (RFC 5180), AMT, AS112, ORCHID and ORCHIDv2 (RFC 4843, RFC 7343) and drone
 * identifiers (RFC 9374): some of these are reachable, none is where the server of a name would be.
 */
static const struct inet_range special_v6[] = {
	V6(0x2001, 0, 23),	/* IETF protocol assignments: RFC 2928 */
	V6(0x2001, 0x0db8, 32), /* documentation: RFC 3849 */
	V6(0x2002, 0, 16),	/* 6to4, carries any IPv4 address: RFC 3056 */
	V6(0x3ffe, 0, 16),	/* 6bone, given back: RFC 3701 */
	V6(0x3fff, 0, 20),	/* documentation: RFC 9637 */
};

static bool is_in(const struct inet_range *ranges, size_t n, const struct inet_addr *addr)
{
	for (size_t i = 0; i < n; i++) {
		if (inet_range_has(&ranges[i], addr))
			return true;
	}
	return false;
}

bool egress_address_is_public(const struct inet_addr *addr)
{
	if (inet_addr_is_v4(addr))
		return !is_in(special_v4, ARRAY_SIZE(special_v4), addr);
	return inet_range_has(&global_unicast_v6, addr) &&
	       !is_in(special_v6, ARRAY_SIZE(special_v6), addr);
}

static bool may_be_dialled(const struct inet_addr *addr, const struct inet_addr *own, size_t n_own)
{
	for (size_t i = 0; i < n_own; i++) {
		if (inet_addr_eq(addr, &own[i]))
			return false;
	}
	return egress_address_is_public(addr);
}

enum egress_addresses egress_addresses_judge(const struct inet_addr *addrs, size_t n,
					     const struct inet_addr *own, size_t n_own)
{
	size_t good = 0;

	assert(n >= 1);
	for (size_t i = 0; i < n; i++)
		good += may_be_dialled(&addrs[i], own, n_own);
	if (good == n)
		return EGRESS_ADDRESSES_PUBLIC;
	return good ? EGRESS_ADDRESSES_MIXED : EGRESS_ADDRESSES_PRIVATE;
}
