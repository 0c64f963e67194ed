// SPDX-License-Identifier: Apache-2.0
/*
 * rate: a token bucket. Capacity tokens, refilled continuously at capacity/60 per second, full at
 * start. Time is the monotonic clock in microseconds, given by the caller.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct rate {
	uint32_t capacity;     /* tokens; also tokens per minute */
	uint64_t micro_tokens; /* in the bucket as of at_us, in sixtieths of a millionth of a token:
				  each microsecond brings exactly capacity of them */
	int64_t at_us;
};

void rate_init(struct rate *r, uint32_t capacity, int64_t now_us);
/* Takes a token. When the bucket is empty returns false and sets *ret_wait_s to the whole seconds,
 * rounded up and at least 1, until there is one. */
bool rate_take(struct rate *r, int64_t now_us, uint32_t *ret_wait_s);
/* Whole tokens in the bucket now. */
uint32_t rate_available(struct rate *r, int64_t now_us);
