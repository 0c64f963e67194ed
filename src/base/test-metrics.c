// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/metrics.h"

static const uint32_t bounds[] = { 500, 1000, 2500000, 0 };

static void a_time_counts_below_each_bound_it_does_not_pass(void **state)
{
	struct metrics_histogram h = { .bounds_us = bounds };
	_cleanup_buf_ struct buf out = BUF(4096);

	metrics_observe(&h, -3);
	metrics_observe(&h, 500);
	metrics_observe(&h, 501);
	metrics_observe(&h, 2500000);
	metrics_observe(&h, 2500001);
	metrics_histogram_write(&out, "wait_seconds", "How long.", &h);
	assert_string_equal(out.data, "# HELP wait_seconds How long.\n"
				      "# TYPE wait_seconds histogram\n"
				      "wait_seconds_bucket{le=\"0.0005\"} 2\n"
				      "wait_seconds_bucket{le=\"0.001\"} 3\n"
				      "wait_seconds_bucket{le=\"2.5\"} 4\n"
				      "wait_seconds_bucket{le=\"+Inf\"} 5\n"
				      "wait_seconds_sum 5.001002\n"
				      "wait_seconds_count 5\n");
}

static void a_sample_has_labels_or_none(void **state)
{
	_cleanup_buf_ struct buf out = BUF(4096);

	metrics_family(&out, "things_total", "counter", "All of them.");
	metrics_sample(&out, "things_total", NULL, 0);
	metrics_sample(&out, "things_total", "kind=\"odd\"", UINT64_MAX);
	assert_string_equal(out.data, "# HELP things_total All of them.\n"
				      "# TYPE things_total counter\n"
				      "things_total 0\n"
				      "things_total{kind=\"odd\"} 18446744073709551615\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_time_counts_below_each_bound_it_does_not_pass),
		cmocka_unit_test(a_sample_has_labels_or_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
