// SPDX-License-Identifier: Apache-2.0
/*
 * metrics: numbers for a monitoring system, as text in the exposition format of Prometheus, version
 * 0.0.4. Counting is an addition: no lock, no heap. One thread counts and writes.
 *
 * Names, labels and help texts are literals of ours, so nothing is escaped.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

#define METRICS_BUCKETS_MAX 16u

/* Times that fell below each bound, and their sum. */
struct metrics_histogram {
	const uint32_t *bounds_us; /* borrowed; rising; a 0 ends them */
	uint64_t counts[METRICS_BUCKETS_MAX + 1];
	uint64_t sum_us;
};

/* Below 0 counts as 0. */
void metrics_observe(struct metrics_histogram *h, int64_t us);

/* type: "counter", "gauge", "histogram". The samples follow. */
void metrics_family(struct buf *out, const char *name, const char *type, const char *help);
/* labels: `a="b",c="d"`, or NULL. */
void metrics_sample(struct buf *out, const char *name, const char *labels, uint64_t value);
/* A family of its own, in seconds. */
void metrics_histogram_write(struct buf *out, const char *name, const char *help,
			     const struct metrics_histogram *h);
