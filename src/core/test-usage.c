// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/parts.h"
#include "core/rig.h"

#define DAY (86400 * RIG_SECOND)

static void is_month(struct rig *r, const char *period, uint64_t sessions, uint64_t commands)
{
	struct usage_month month;

	usage_get(r->core, r->a, &month);
	assert_string_equal(month.period, period);
	assert_int_equal(month.sessions, sessions);
	assert_int_equal(month.commands, commands);
	assert_int_equal(month.command_ms, 1500 * commands);
}

static void use(struct rig *r, unsigned commands)
{
	for (unsigned i = 0; i < commands; i++)
		usage_add(r->core, r->a, 0, 1, 1500);
}

static void restart(struct rig *r)
{
	rig_close(r);
	rig_open(r);
}

static void set_clock(int64_t by_us)
{
	clock_fake(clock_monotonic_us(), clock_wall_us() + by_us);
}

static void what_the_store_could_not_write_for_long_is_written_in_the_end(void **state)
{
	struct rig *r = *state;

	rig_break_store(r, true);
	for (unsigned i = 0; i < 500; i++) {
		use(r, 1);
		usage_flush(r->core);
		rig_settle(r);
	}
	rig_break_store(r, false);
	is_month(r, "2001-09", 0, 500);
	restart(r);
	is_month(r, "2001-09", 0, 500);
}

static void each_month_has_its_sums_whenever_the_clock_comes_back_to_it(void **state)
{
	struct rig *r = *state;

	use(r, 3);
	/* A machine may start with a clock that is years behind. */
	set_clock(-9000 * DAY);
	restart(r);
	is_month(r, "1977-01", 0, 0);
	use(r, 1);
	set_clock(9000 * DAY);
	is_month(r, "2001-09", 0, 3);
	use(r, 1);
	set_clock(31 * DAY);
	is_month(r, "2001-10", 0, 0);
	use(r, 5);
	set_clock(-31 * DAY);
	is_month(r, "2001-09", 0, 4);
	restart(r);
	is_month(r, "2001-09", 0, 4);
	set_clock(31 * DAY);
	is_month(r, "2001-10", 0, 5);
}

/* ---- A kill ---- */

static void on_done(void *data, struct exec_result *result, const struct err *err)
{
	*(bool *)data = result && !err;
}

static void killed_after_the_answer(struct rig *r)
{
	static const struct exec_ops ops = { .done = on_done };
	const struct exec_params p = { .command = STR("true"), .timeout_s = 15, .actor = "key a" };
	struct session *s = rig_session(r, r->a);
	bool done = false;
	struct exec *e;
	struct err err;

	r->runtime.result.duration_us = 1500000;
	assert_int_equal(exec_start(r->core, s, &p, &ops, &done, &e, &err), 0);
	while (!done)
		uv_run(&r->loop, UV_RUN_ONCE);
}

static void a_command_that_was_recorded_is_counted(void **state)
{
	struct rig *r = *state;

	rig_crash(r, killed_after_the_answer);
	is_month(r, "2001-09", 1, 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(what_the_store_could_not_write_for_long_is_written_in_the_end),
		T(each_month_has_its_sums_whenever_the_clock_comes_back_to_it),
		T(a_command_that_was_recorded_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
