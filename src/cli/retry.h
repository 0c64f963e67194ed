// SPDX-License-Identifier: Apache-2.0
/*
 * retry: when a request is repeated and after how long. Pure; the rules of protocol section 18.3.
 * A 429 or 503 promises that nothing happened, so every method is repeated; after a lost connection
 * only those that are harmless to repeat.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define RETRY_MAX 3
#define RETRY_WAIT_MAX 30

struct retry_event {
	bool repeatable;  /* GET, PUT or DELETE */
	long status;	  /* 0: no answer came */
	long retry_after; /* seconds of a digits-only header, -1: none */
	unsigned attempt; /* how often it was repeated already */
};

/* Seconds to wait before the next attempt, -1: the event stands. */
long retry_wait(const struct retry_event *e);
