// SPDX-License-Identifier: Apache-2.0
/*
 * resolver: names to addresses by c-ares, over the configured servers alone: no hosts file, no
 * search list, no resolv.conf. All A and AAAA answers of a name are given at once; whether they may
 * be dialled is not decided here.
 *
 * A name that is being asked for is not asked for again: whoever wants it too gets the same answer.
 * Questions for one name at the same time are what makes a forged answer likely to fit one of them
 * (RFC 5452 section 5), and a sandbox can ask as often as it likes.
 */
#pragma once

#include <uv.h>

#include "base/err.h"
#include "base/inet.h"

/* A name with more addresses does not resolve: each has to be judged. */
#define RESOLVER_ADDRESSES_MAX 256u
#define RESOLVER_TRY_MS 2000

struct resolver;
struct lookup;

/* n == 0: the name does not resolve. */
typedef void (*lookup_fn)(void *data, const struct inet_addr *addrs, size_t n);

/* servers: comma list of addresses. try_ms: how long the first try of one server may take. */
int resolver_open(uv_loop_t *loop, const char *servers, int try_ms, struct resolver **ret,
		  struct err *err);
/* Its lookups are answered with nothing. */
void resolver_close(struct resolver *r);
/* fn is called exactly once, from the loop, unless the lookup was dropped. name is copied. */
struct lookup *resolver_start(struct resolver *r, const char *name, lookup_fn fn, void *data);
/* No call follows. */
void lookup_drop(struct lookup *l);
