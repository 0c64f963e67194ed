// SPDX-License-Identifier: Apache-2.0
#include "core/rate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"

#define SECOND 1000000ll
#define START (77 * SECOND + 3)

static void empty_it(struct rate *r, uint32_t capacity, int64_t now)
{
	uint32_t wait;

	rate_init(r, capacity, now);
	for (uint32_t i = 0; i < capacity; i++)
		assert_true(rate_take(r, now, &wait));
}

static void an_emptied_bucket_says_when_the_next_token_comes(void **state)
{
	static const struct {
		uint32_t capacity, wait;
	} cases[] = { { 1, 60 }, { 2, 30 },  { 3, 20 },	   { 7, 9 },
		      { 60, 1 }, { 120, 1 }, { 100000, 1 } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rate r;
		uint32_t wait = 0;
		empty_it(&r, cases[i].capacity, START);
		assert_false(rate_take(&r, START, &wait));
		assert_int_equal(wait, cases[i].wait);
		/* It was not a lie, and nothing came before. */
		int64_t due = START + wait * SECOND;
		assert_true(rate_take(&r, due, &wait));
	}
}

static void waiting_part_of_the_time_shortens_the_wait_rounded_up(void **state)
{
	struct rate r;
	uint32_t wait = 0;

	empty_it(&r, 3, START);
	assert_false(rate_take(&r, START + SECOND / 2, &wait));
	assert_int_equal(wait, 20);
	assert_false(rate_take(&r, START + 5 * SECOND, &wait));
	assert_int_equal(wait, 15);
	assert_false(rate_take(&r, START + 20 * SECOND - 1, &wait));
	assert_int_equal(wait, 1);
	assert_true(rate_take(&r, START + 20 * SECOND, &wait));
}

static void it_refills_continuously_and_never_over_its_capacity(void **state)
{
	struct rate r;

	empty_it(&r, 120, START);
	assert_int_equal(rate_available(&r, START), 0);
	assert_int_equal(rate_available(&r, START + SECOND / 2 - 1), 0);
	assert_int_equal(rate_available(&r, START + SECOND / 2), 1);
	assert_int_equal(rate_available(&r, START + 10 * SECOND), 20);
	assert_int_equal(rate_available(&r, START + 3600 * SECOND), 120);
}

/* However often it is looked at, a minute brings exactly its capacity. */
static void looking_often_loses_nothing(void **state)
{
	static const uint32_t capacities[] = { 1, 3, 7, 120, 999 };

	for (size_t i = 0; i < ARRAY_SIZE(capacities); i++) {
		struct rate r;
		uint32_t wait, got = 0;
		empty_it(&r, capacities[i], START);
		for (int64_t t = 0; t <= 60 * SECOND; t += 777)
			got += rate_take(&r, START + t, &wait);
		got += rate_take(&r, START + 60 * SECOND, &wait);
		assert_int_equal(got, capacities[i]);
	}
}

static void a_clock_that_steps_back_gives_nothing(void **state)
{
	struct rate r;
	uint32_t wait = 0;

	empty_it(&r, 2, START);
	assert_false(rate_take(&r, START - 50 * SECOND, &wait));
	assert_int_equal(wait, 30);
	assert_int_equal(rate_available(&r, START - 50 * SECOND), 0);
}

static void the_largest_capacity_does_not_overflow(void **state)
{
	struct rate r;
	uint32_t wait;

	rate_init(&r, 1000000000, START);
	assert_true(rate_take(&r, START, &wait));
	assert_int_equal(rate_available(&r, START), 999999999);
	assert_int_equal(rate_available(&r, START + 59 * SECOND), 1000000000);
	assert_int_equal(rate_available(&r, INT64_MAX / 2), 1000000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_emptied_bucket_says_when_the_next_token_comes),
		cmocka_unit_test(waiting_part_of_the_time_shortens_the_wait_rounded_up),
		cmocka_unit_test(it_refills_continuously_and_never_over_its_capacity),
		cmocka_unit_test(looking_often_loses_nothing),
		cmocka_unit_test(a_clock_that_steps_back_gives_nothing),
		cmocka_unit_test(the_largest_capacity_does_not_overflow),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
