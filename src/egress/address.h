// SPDX-License-Identifier: Apache-2.0
/*
 * address: whether an address may be dialled for a tenant. Everything that is not globally
 * routable unicast is not (IANA IPv4 and IPv6 Special-Purpose Address Registries, RFC 6890 and its
 * updates), nor are the forms that carry an IPv4 address inside (NAT64, 6to4, Teredo,
 * IPv4-compatible); IPv4-mapped is judged as its IPv4. The host's own addresses are a second list.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/inet.h"

/* Globally routable unicast. */
bool egress_address_is_public(const struct inet_addr *addr);

enum egress_addresses {
	EGRESS_ADDRESSES_PUBLIC,  /* all of them may be dialled */
	EGRESS_ADDRESSES_PRIVATE, /* none may */
	EGRESS_ADDRESSES_MIXED,	  /* some may, which is how rebinding looks */
};

/* The verdict over a whole answer (n >= 1). own: n_own addresses of the host itself. */
enum egress_addresses egress_addresses_judge(const struct inet_addr *addrs, size_t n,
					     const struct inet_addr *own, size_t n_own);
