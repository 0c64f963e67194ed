// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "core/parts.h"
#include "core/rig.h"

#define HOUR (3600 * RIG_SECOND)
#define DAY (24 * HOUR)
#define LOST "sbx_00000000dead"
#define OTHER "sbx_00000000beef"

static char list[] = "/tmp/airlock-lost-XXXXXX";

static void say(const char *text)
{
	_cleanup_fd_ int fd = open(list, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void assert_listed(const char *text)
{
	char found[4096] = "";
	_cleanup_fd_ int fd = open(list, O_RDONLY | O_CLOEXEC);

	assert_true(read(fd, found, sizeof(found) - 1) >= 0);
	assert_string_equal(found, text);
}

static int setup(void **state)
{
	rig_setup(state);
	struct rig *r = *state;
	r->config.lost_file = list;
	say("");
	rig_close(r);
	rig_add_volume(&r->runtime, LOST, 7);
	rig_open(r);
	return 0;
}

static void restart(struct rig *r)
{
	rig_close(r);
	rig_open(r);
}

/* A server that runs for so long sweeps every hour at least; sessions are of no matter here. */
static void run_for(struct rig *r, int64_t us)
{
	for (; us > 0; us -= HOUR) {
		clock_fake(clock_monotonic_us() + HOUR, clock_wall_us() + HOUR);
		core_sweep(r->core, clock_monotonic_us());
		rig_settle(r);
	}
}

static void it_is_deleted_when_a_server_ran_for_seven_days_with_it(void **state)
{
	struct rig *r = *state;

	assert_listed(LOST " 0\n");
	run_for(r, 3 * DAY);
	assert_listed(LOST " 259200\n");
	restart(r);
	assert_listed(LOST " 259200\n");
	run_for(r, 4 * DAY - HOUR);
	assert_true(rig_has_volume(r, LOST));
	assert_int_equal(core_lost_volumes(r->core), 1);
	run_for(r, 2 * HOUR);
	assert_false(rig_has_volume(r, LOST));
	assert_int_equal(core_lost_volumes(r->core), 0);
	assert_listed("");
	restart(r);
	assert_int_equal(core_lost_volumes(r->core), 0);
}

static void the_clock_on_the_wall_deletes_nothing(void **state)
{
	struct rig *r = *state;

	clock_fake(clock_monotonic_us() + 2 * HOUR, clock_wall_us() + 9000 * DAY);
	core_sweep(r->core, clock_monotonic_us());
	restart(r);
	rig_settle(r);
	assert_true(rig_has_volume(r, LOST));
	assert_listed(LOST " 7200\n");
}

static void what_is_explained_again_is_not_listed_any_more(void **state)
{
	struct rig *r = *state;

	run_for(r, 6 * DAY);
	rig_close(r);
	r->runtime.disk->n_volumes--;
	rig_open(r);
	assert_listed("");
	rig_close(r);
	rig_add_volume(&r->runtime, LOST, 7);
	rig_open(r);
	assert_listed(LOST " 0\n");
}

/* Also the list of a version that wrote names alone. */
static void a_damaged_list_begins_anew(void **state)
{
	static const char *const texts[] = {
		"",
		"\n\n",
		LOST,
		LOST "\n",
		LOST " \n",
		LOST " x\n",
		LOST " -5\n",
		LOST " 99999999999999999999\n",
		LOST " 5 6\n",
		" 700000\n",
		OTHER " 700000\n",
		LOST "x 700000\n",
		"\xff\xfe",
	};
	struct rig *r = *state;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		rig_close(r);
		say(texts[i]);
		rig_open(r);
		assert_listed(LOST " 0\n");
		assert_true(rig_has_volume(r, LOST));
	}
}

static int start_with(struct rig *r, unsigned volumes, struct err *err)
{
	char name[SESSION_ID_LEN + 1];

	rig_close(r);
	for (unsigned i = 0; i < volumes; i++) {
		snprintf(name, sizeof(name), "sbx_%012x", i);
		rig_add_volume(&r->runtime, name, 7);
	}
	return rig_try_open(r, err);
}

static void more_than_a_few_new_ones_are_no_start(void **state)
{
	struct rig *r = *state;
	struct err err;

	r->config.lost_max = 3;
	/* With the one that is known already. */
	assert_int_equal(start_with(r, 3, &err), 0);
	assert_int_equal(core_lost_volumes(r->core), 4);
	assert_int_equal(start_with(r, 0, &err), 0);
	rig_close(r);
	say("");
	/* Said again and again, until somebody says that it is so. */
	for (unsigned i = 0; i < 2; i++) {
		assert_true(rig_try_open(r, &err) < 0);
		assert_non_null(strstr(err.text, " 4 workspaces"));
		assert_non_null(strstr(err.text, "--accept-lost"));
		assert_listed("");
		rig_close(r);
	}
	r->config.lost_max = 0;
	rig_open(r);
	rig_close(r);
	r->config.lost_max = 3;
	rig_open(r);
	assert_int_equal(core_lost_volumes(r->core), 4);
}

static void beside_a_database_that_was_emptied_one_is_no_start(void **state)
{
	struct rig *r = *state;
	struct err err;

	rig_close(r);
	say("");
	assert_int_equal(truncate(r->path, 0), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(rig_try_open(r, &err) < 0);
		assert_non_null(strstr(err.text, " 1 workspaces"));
		assert_non_null(strstr(err.text, "airlock restore"));
		assert_non_null(strstr(err.text, "--accept-lost"));
		assert_listed("");
		rig_close(r);
	}
	r->config.accept_lost = true;
	rig_open(r);
	rig_close(r);
	r->config.accept_lost = false;
	rig_open(r);
	assert_int_equal(core_lost_volumes(r->core), 1);
	rig_close(r);
	/* Where there is nothing to lose, nothing was. */
	r->runtime.disk->n_volumes--;
	assert_int_equal(truncate(r->path, 0), 0);
	rig_open(r);
}

static int remove_list(void **state)
{
	(void)state;
	return unlink(list);
}

static int make_list(void **state)
{
	int fd = mkstemp(list);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(it_is_deleted_when_a_server_ran_for_seven_days_with_it),
		T(the_clock_on_the_wall_deletes_nothing),
		T(what_is_explained_again_is_not_listed_any_more),
		T(a_damaged_list_begins_anew),
		T(more_than_a_few_new_ones_are_no_start),
		T(beside_a_database_that_was_emptied_one_is_no_start),
	};

	return cmocka_run_group_tests(tests, make_list, remove_list);
}
