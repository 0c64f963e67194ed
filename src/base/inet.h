// SPDX-License-Identifier: Apache-2.0
/*
 * inet: internet addresses and ranges as values. IPv4 is kept as ::ffff:a.b.c.d (RFC 4291 2.5.5.2),
 * so that one address has one form whatever socket it came from. Text is read strictly: dotted
 * quads of decimal numbers, no scope, no port.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/str.h"

struct inet_addr {
	unsigned char bytes[16];
};

struct inet_range {
	struct inet_addr base;
	unsigned bits; /* 0..128 leading bits that count */
};

bool inet_addr_parse(struct str text, struct inet_addr *ret);
/* False for sockets that are neither IPv4 nor IPv6. */
bool inet_addr_of(const struct sockaddr *sa, struct inet_addr *ret);
void inet_addr_format(const struct inet_addr *addr, char out[INET6_ADDRSTRLEN]);
bool inet_addr_is_v4(const struct inet_addr *addr);
bool inet_addr_eq(const struct inet_addr *a, const struct inet_addr *b);

/* "10.0.0.0/8", "fd00::/8" or one address. Bits behind the prefix must be zero. */
bool inet_range_parse(struct str text, struct inet_range *ret);
bool inet_range_has(const struct inet_range *range, const struct inet_addr *addr);
/* A comma list, blanks and empty entries allowed. *ret_ranges is the caller's to free. */
int inet_ranges_parse(struct str text, struct inet_range **ret_ranges, size_t *ret_n,
		      struct err *err);
