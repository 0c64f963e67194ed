// SPDX-License-Identifier: Apache-2.0
#include "core/rate.h"

#include <assert.h>

#define MINUTE_US 60000000
#define TOKEN ((uint64_t)MINUTE_US)

static void refill(struct rate *r, int64_t now_us)
{
	uint64_t full = r->capacity * TOKEN;
	int64_t elapsed = now_us - r->at_us;

	if (elapsed <= 0)
		return;
	r->at_us = now_us;
	if (elapsed >= MINUTE_US) {
		r->micro_tokens = full;
		return;
	}
	r->micro_tokens += (uint64_t)elapsed * r->capacity;
	if (r->micro_tokens > full)
		r->micro_tokens = full;
}

void rate_init(struct rate *r, uint32_t capacity, int64_t now_us)
{
	assert(capacity);
	*r = (struct rate){ .capacity = capacity,
			    .micro_tokens = capacity * TOKEN,
			    .at_us = now_us };
}

bool rate_take(struct rate *r, int64_t now_us, uint32_t *ret_wait_s)
{
	refill(r, now_us);
	if (r->micro_tokens >= TOKEN) {
		r->micro_tokens -= TOKEN;
		return true;
	}
	uint64_t wait_us = (TOKEN - r->micro_tokens + r->capacity - 1) / r->capacity;
	*ret_wait_s = (uint32_t)((wait_us + 999999) / 1000000);
	return false;
}

uint32_t rate_available(struct rate *r, int64_t now_us)
{
	refill(r, now_us);
	return (uint32_t)(r->micro_tokens / TOKEN);
}
