// SPDX-License-Identifier: Apache-2.0
#include "daemon/drain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fd.h"

struct rig {
	uv_loop_t loop;
	struct drain drain;
	struct drain_work work;
	unsigned overs;
	int log, stderr_fd;
	char said[8192];
};

static void on_look(void *data, struct drain_work *ret)
{
	const struct rig *r = data;

	*ret = r->work;
}

static void on_over(void *data)
{
	struct rig *r = data;

	r->overs++;
}

static struct rig rig;

static int setup(void **state)
{
	clock_fake(1000000000, 1700000000000000);
	rig = (struct rig){ .drain = { .look = on_look, .over = on_over, .data = &rig } };
	rig.work = (struct drain_work){ .commands = 2, .transfers = 1, .requests = 3, .any = true };
	rig.log = memfd_create("log", MFD_CLOEXEC);
	rig.stderr_fd = dup(STDERR_FILENO);
	dup2(rig.log, STDERR_FILENO);
	uv_loop_init(&rig.loop);
	drain_init(&rig.drain, &rig.loop);
	return 0;
}

static int teardown(void **state)
{
	dup2(rig.stderr_fd, STDERR_FILENO);
	fd_close(&rig.stderr_fd);
	fd_close(&rig.log);
	drain_close(&rig.drain);
	uv_run(&rig.loop, UV_RUN_DEFAULT);
	return uv_loop_close(&rig.loop);
}

/* So much later the timer looks. */
static void pass(int64_t ms)
{
	clock_fake_advance(ms * 1000);
	rig.drain.timer.timer_cb(&rig.drain.timer);
}

/* What the log has of an event. */
static unsigned said(const char *event)
{
	char word[64];
	unsigned n = 0;
	ssize_t len = pread(rig.log, rig.said, sizeof(rig.said) - 1, 0);

	assert_true(len >= 0);
	rig.said[len] = '\0';
	snprintf(word, sizeof(word), "\"event\":\"%s\"", event);
	for (const char *at = rig.said; (at = strstr(at, word)); at++)
		n++;
	return n;
}

static void without_work_it_is_over_at_once(void **state)
{
	rig.work = (struct drain_work){ .any = false };
	drain_start(&rig.drain, 30000);
	assert_int_equal(rig.overs, 1);
	assert_int_equal(said("stopping"), 1);
	assert_int_equal(said("stop_ends_work"), 0);
	drain_cut(&rig.drain);
	assert_int_equal(rig.overs, 1);
}

static void it_waits_for_what_runs_and_says_so(void **state)
{
	drain_start(&rig.drain, 30000);
	assert_int_equal(said("stopping"), 1);
	assert_non_null(strstr(rig.said, "\"commands\":2,\"imports\":0,\"transfers\":1,"
					 "\"requests\":3,\"seconds_left\":30}"));
	pass(4999);
	assert_int_equal(said("stop_waits"), 0);
	pass(1);
	assert_int_equal(said("stop_waits"), 1);
	assert_non_null(strstr(rig.said, "\"seconds_left\":25}"));
	pass(4999);
	assert_int_equal(said("stop_waits"), 1);
	pass(1);
	assert_int_equal(said("stop_waits"), 2);
	assert_int_equal(rig.overs, 0);
	rig.work.any = false;
	pass(50);
	assert_int_equal(rig.overs, 1);
	assert_int_equal(said("stop_ends_work"), 0);
	assert_false(uv_is_active((uv_handle_t *)&rig.drain.timer));
}

static void what_takes_too_long_is_ended(void **state)
{
	drain_start(&rig.drain, 30000);
	pass(29999);
	assert_int_equal(rig.overs, 0);
	pass(1);
	assert_int_equal(rig.overs, 1);
	assert_int_equal(said("stop_ends_work"), 1);
	assert_non_null(strstr(rig.said, "\"level\":\"warn\""));
	assert_non_null(strstr(rig.said, "\"seconds_left\":0}"));
}

static void it_can_be_cut_short(void **state)
{
	drain_start(&rig.drain, 30000);
	pass(1000);
	drain_cut(&rig.drain);
	assert_int_equal(rig.overs, 1);
	assert_int_equal(said("stop_ends_work"), 1);
	drain_cut(&rig.drain);
	assert_int_equal(rig.overs, 1);
}

static void no_time_is_no_waiting(void **state)
{
	drain_start(&rig.drain, 0);
	assert_int_equal(rig.overs, 1);
	assert_int_equal(said("stop_ends_work"), 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(without_work_it_is_over_at_once), T(it_waits_for_what_runs_and_says_so),
		T(what_takes_too_long_is_ended),    T(it_can_be_cut_short),
		T(no_time_is_no_waiting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
