// SPDX-License-Identifier: Apache-2.0
#include "base/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>

void metrics_observe(struct metrics_histogram *h, int64_t us)
{
	uint64_t time = us > 0 ? (uint64_t)us : 0;
	size_t i = 0;

	while (h->bounds_us[i] && time > h->bounds_us[i])
		i++;
	assert(i <= METRICS_BUCKETS_MAX);
	h->counts[i]++;
	h->sum_us += time;
}

void metrics_family(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metrics_sample(struct buf *out, const char *name, const char *labels, uint64_t value)
{
	buf_printf(out, labels ? "%s{%s} %" PRIu64 "\n" : "%s%s %" PRIu64 "\n", name,
		   labels ? labels : "", value);
}

void metrics_histogram_write(struct buf *out, const char *name, const char *help,
			     const struct metrics_histogram *h)
{
	uint64_t sum = 0;
	size_t i = 0;

	metrics_family(out, name, "histogram", help);
	for (; h->bounds_us[i]; i++) {
		sum += h->counts[i];
		buf_printf(out, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, h->bounds_us[i] / 1e6,
			   sum);
	}
	sum += h->counts[i];
	buf_printf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, sum);
	buf_printf(out, "%s_sum %" PRIu64 ".%06" PRIu64 "\n", name, h->sum_us / 1000000,
		   h->sum_us % 1000000);
	buf_printf(out, "%s_count %" PRIu64 "\n", name, sum);
}
