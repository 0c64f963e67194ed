// SPDX-License-Identifier: Apache-2.0
/*
 * clock: the two clocks. Deadlines and durations use the monotonic one, records for people the wall
 * clock. Tests put a fake in place with clock_fake(); nothing else may call clock_gettime.
 */
#pragma once

#include <stdint.h>

int64_t clock_monotonic_us(void);
int64_t clock_wall_us(void);

static inline int64_t clock_monotonic_ms(void)
{
	return clock_monotonic_us() / 1000;
}

/* For unit tests: from now on both clocks stand still at the given values. */
void clock_fake(int64_t monotonic_us, int64_t wall_us);
void clock_fake_advance(int64_t us);
