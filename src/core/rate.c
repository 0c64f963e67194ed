// SPDX-License-Identifier: Apache-2.0
#include "core/rate.h"

#include <assert.h>

#define TOKEN 1000000u /* in micro tokens */
#define MINUTE_US 60000000

/* capacity tokens in 60 s are capacity micro tokens in 60 us: whole numbers lose nothing when the
 * time of the last refill moves on by exactly what was paid out. */
static void refill(struct rate *r, int64_t now_us)
{
	uint64_t full = (uint64_t)r->capacity * TOKEN;
	int64_t elapsed = now_us - r->at_us;

	if (elapsed <= 0)
		return;
	if (elapsed >= MINUTE_US) {
		r->micro_tokens = full;
		r->at_us = now_us;
		return;
	}
	uint64_t earned = (uint64_t)elapsed * r->capacity / 60;
	if (!earned)
		return;
	r->micro_tokens += earned;
	if (r->micro_tokens >= full) {
		r->micro_tokens = full;
		r->at_us = now_us;
		return;
	}
	r->at_us += (int64_t)(earned * 60 / r->capacity);
}

void rate_init(struct rate *r, uint32_t capacity, int64_t now_us)
{
	assert(capacity);
	*r = (struct rate){
		.capacity = capacity,
		.micro_tokens = (uint64_t)capacity * TOKEN,
		.at_us = now_us,
	};
}

bool rate_take(struct rate *r, int64_t now_us, uint32_t *ret_wait_s)
{
	refill(r, now_us);
	if (r->micro_tokens >= TOKEN) {
		r->micro_tokens -= TOKEN;
		return true;
	}
	/* Time until the missing part has come, counted from the last refill, in whole seconds up. */
	uint64_t missing = TOKEN - r->micro_tokens;
	uint64_t due_us = (missing * 60 + r->capacity - 1) / r->capacity;
	uint64_t gone_us = now_us > r->at_us ? (uint64_t)(now_us - r->at_us) : 0;
	uint64_t wait_us = due_us > gone_us ? due_us - gone_us : 1;
	*ret_wait_s = (uint32_t)((wait_us + 999999) / 1000000);
	return false;
}

uint32_t rate_available(struct rate *r, int64_t now_us)
{
	refill(r, now_us);
	return (uint32_t)(r->micro_tokens / TOKEN);
}
