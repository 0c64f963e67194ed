// SPDX-License-Identifier: Apache-2.0
/*
 * failures: how often an address has tried an admin key that was wrong: ten a minute are answered,
 * then it is told to wait. Only failures count, so nobody can lock the operator out. Addresses are
 * forgotten when there are more than the table holds, the one that was quiet longest first; of an
 * IPv6 address the first 64 bits count, which are one customer's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/rate.h"

#define FAILURES_ADDRESSES 256u
#define FAILURES_PER_MINUTE 10u

struct failures {
	struct failure {
		char address[48];
		int64_t last_us; /* 0: no address */
		struct rate rate;
	} rows[FAILURES_ADDRESSES];
};

/* False: one more than ten; *ret_wait_s says when to come again. */
bool failures_take(struct failures *f, const char *address, int64_t now_us, uint32_t *ret_wait_s);
