// SPDX-License-Identifier: Apache-2.0
/*
 * traffic: what was asked and how it was answered, counted by route and status, and a line of the
 * log for each answer: a warning when the server could not do what it was asked, else for those who
 * look closely (level debug). A route is a row of the table, so whatever is asked for, there is a
 * limited number of them. Outlives api and server; loop thread.
 */
#pragma once

#include "base/metrics.h"
#include "http/server.h"

#define TRAFFIC_ROUTES_MAX 64u
#define TRAFFIC_STATUSES_MAX 32u

struct traffic {
	uint64_t answers[TRAFFIC_ROUTES_MAX][TRAFFIC_STATUSES_MAX];
	struct metrics_histogram seconds;
};

void traffic_init(struct traffic *t);
/* For the http server (http_answered_fn); traffic is the struct traffic. */
void traffic_answered(void *traffic, const struct http_answered *a);
/* The families airlock_http_... */
void traffic_write(const struct traffic *t, struct buf *out);
