// SPDX-License-Identifier: Apache-2.0
#include "cli/retry.h"

static long back_off(unsigned attempt)
{
	long wait = attempt < 5 ? 1L << attempt : RETRY_WAIT_MAX;

	return wait < RETRY_WAIT_MAX ? wait : RETRY_WAIT_MAX;
}

long retry_wait(const struct retry_event *e)
{
	long wait = back_off(e->attempt);

	if (e->attempt >= RETRY_MAX)
		return -1;
	switch (e->status) {
	case 429:
		if (e->retry_after < 0)
			return wait;
		return e->retry_after <= RETRY_WAIT_MAX ? e->retry_after : -1;
	case 503:
		return e->retry_after > wait && e->retry_after <= RETRY_WAIT_MAX ? e->retry_after
										 : wait;
	case 0:
		return e->repeatable ? wait : -1;
	default:
		return -1;
	}
}
