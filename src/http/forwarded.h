// SPDX-License-Identifier: Apache-2.0
/*
 * forwarded: who is behind a proxy. X-Forwarded-For is read from the right: each proxy appends the
 * address it was called from, so the entries that our own proxies wrote are believed, and the first
 * address that is not one of theirs is the client. What lies left of it could be made up.
 */
#pragma once

#include "base/inet.h"
#include "http/server.h"

struct proxies {
	struct inet_range *ranges; /* owned */
	size_t n;
};

bool proxies_have(const struct proxies *proxies, const struct inet_addr *addr);
/* The client of a request that came from a trusted proxy. False when no entry can be believed. */
bool forwarded_find(const struct proxies *proxies, const struct http_head *head,
		    struct inet_addr *ret);
