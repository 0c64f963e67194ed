// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

static void the_real_clocks_go_on(void **state)
{
	int64_t a = clock_monotonic_us(), b = clock_monotonic_us();

	assert_true(a > 0 && b >= a);
	assert_true(clock_wall_us() > 1600000000000000);
}

static void a_fake_stands_still_until_told(void **state)
{
	clock_fake(5000, 7000);
	assert_int_equal(clock_monotonic_us(), 5000);
	assert_int_equal(clock_monotonic_us(), 5000);
	assert_int_equal(clock_monotonic_ms(), 5);
	assert_int_equal(clock_wall_us(), 7000);
	clock_fake_advance(1500);
	assert_int_equal(clock_monotonic_us(), 6500);
	assert_int_equal(clock_monotonic_ms(), 6);
	assert_int_equal(clock_wall_us(), 8500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_real_clocks_go_on),
		cmocka_unit_test(a_fake_stands_still_until_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
