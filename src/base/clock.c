// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <stdbool.h>
#include <time.h>

static bool fake;
static int64_t fake_monotonic_us, fake_wall_us;

static int64_t read_us(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t clock_monotonic_us(void)
{
	return fake ? fake_monotonic_us : read_us(CLOCK_MONOTONIC);
}

int64_t clock_wall_us(void)
{
	return fake ? fake_wall_us : read_us(CLOCK_REALTIME);
}

void clock_fake(int64_t monotonic_us, int64_t wall_us)
{
	fake = true;
	fake_monotonic_us = monotonic_us;
	fake_wall_us = wall_us;
}

void clock_fake_advance(int64_t us)
{
	fake_monotonic_us += us;
	fake_wall_us += us;
}
