// SPDX-License-Identifier: Apache-2.0
/*
 * source: how many connections each client address holds. Of an IPv6 address the first 64 bits
 * count: the rest is the client's own to choose (RFC 4291 section 2.5.4). Entries exist while their
 * count is above zero. A connection holds at most one.
 */
#pragma once

#include "base/inet.h"
#include "base/list.h"

#define SOURCE_BUCKETS 256u

struct source {
	struct list node;
	struct inet_addr addr;
	unsigned n;
};

struct source_table {
	struct list buckets[SOURCE_BUCKETS];
};

void source_table_init(struct source_table *t);
/* The entry of that address with one more connection. */
struct source *source_take(struct source_table *t, const struct inet_addr *addr);
bool source_is_of(const struct source *source, const struct inet_addr *addr);
/* One less; source may be NULL. */
void source_release(struct source *source);
