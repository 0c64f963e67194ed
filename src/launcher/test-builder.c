// SPDX-License-Identifier: Apache-2.0
/*
 * Slots as a builder knows them, on the host's own cgroups; needs root. Server number 15 is the one
 * of tests. Nothing is built.
 */
#include "launcher/builder.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "launcher/cgroup-backend.h"

#define SERVER 15
#define OLD 7u
#define NEW 8u

static struct launcher launcher;
static struct err err;
static const char *skip_reason;

/* A launcher that starts meanwhile clears the numbers that nobody has. */
static bool take_number(void)
{
	char path[64];

	mkdir("/run/airlock", 0755);
	snprintf(path, sizeof(path), "/run/airlock/%d", SERVER);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

static int open_all(void **state)
{
	static const struct cgroup_config config = {
		.server = SERVER, .memory_bytes = 32 << 20, .pids = 6, .cpu_milli = 200
	};

	(void)state;
	if (geteuid() != 0)
		skip_reason = "cgroups need root";
	else if (!take_number())
		skip_reason = "the server's number of these tests is taken";
	else if (cgroup_open(&launcher.cgroup, &config, &err) < 0)
		skip_reason = err.text;
	b.l = &launcher;
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	if (!skip_reason) {
		cgroup_remove_all(&launcher.cgroup);
		cgroup_close(&launcher.cgroup);
	}
	return 0;
}

static bool exists(uint32_t tenant, int slot)
{
	char path[64];

	if (slot < 0)
		snprintf(path, sizeof(path), "tenants/t%u", tenant);
	else
		snprintf(path, sizeof(path), "tenants/t%u/s%d", tenant, slot);
	return faccessat(launcher.cgroup.roots[0].fd, path, F_OK, 0) == 0;
}

static void use(uint32_t tenant, uint32_t slot)
{
	const struct lb_build want = { .sandbox = { slot, 1 }, .tenant = tenant };

	if (slot_prepare(&want, &err) < 0)
		fail_msg("%s", err.text);
	assert_true(exists(tenant, (int)slot));
}

static void retire(uint32_t tenant)
{
	const struct lb_retire body = { tenant };
	struct wire_msg msg = { .body_len = sizeof(body) };

	memcpy(msg.body, &body, sizeof(body));
	on_retire(&msg);
	wait_retired();
}

/* Killed, and another one started. */
static void restart(void)
{
	for (size_t i = 0; i < LAYOUT_SLOTS; i++)
		cgroup_slot_close(&b.slots[i].cgroup);
	memset(&b, 0, sizeof(b));
	b.l = &launcher;
	find_slots();
}

static void begin(void)
{
	if (skip_reason) {
		print_message("skipped: %s\n", skip_reason);
		skip();
	}
	restart();
	assert_false(exists(OLD, -1));
	assert_false(exists(NEW, -1));
}

static void a_tenant_that_lost_every_slot_leaves_nothing(void **state)
{
	(void)state;
	begin();
	use(OLD, 3);
	use(OLD, 4);
	use(NEW, 3);
	assert_false(exists(OLD, 3));
	assert_true(exists(OLD, 4));
	use(NEW, 4);
	assert_false(exists(OLD, -1));
	retire(NEW);
	assert_false(exists(NEW, -1));
}

static void a_new_builder_retires_what_it_did_not_make(void **state)
{
	(void)state;
	begin();
	use(OLD, 3);
	use(OLD, 511);
	use(NEW, 5);
	restart();
	use(OLD, 4);
	retire(OLD);
	assert_false(exists(OLD, -1));
	assert_true(exists(NEW, 5));
	restart();
	retire(NEW);
	assert_false(exists(NEW, -1));
}

static void a_new_builder_clears_a_slot_for_the_next_tenant(void **state)
{
	(void)state;
	begin();
	use(OLD, 3);
	use(OLD, 4);
	restart();
	use(NEW, 3);
	assert_false(exists(OLD, 3));
	restart();
	use(NEW, 4);
	assert_false(exists(OLD, -1));
	retire(NEW);
	assert_false(exists(NEW, -1));
}

static void a_new_builder_goes_on_with_a_slot(void **state)
{
	(void)state;
	begin();
	use(OLD, 3);
	restart();
	use(OLD, 3);
	assert_true(b.slots[3].cgroup.fresh);
	retire(OLD);
	assert_false(exists(OLD, -1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tenant_that_lost_every_slot_leaves_nothing),
		cmocka_unit_test(a_new_builder_retires_what_it_did_not_make),
		cmocka_unit_test(a_new_builder_clears_a_slot_for_the_next_tenant),
		cmocka_unit_test(a_new_builder_goes_on_with_a_slot),
	};

	return cmocka_run_group_tests(tests, open_all, close_all);
}
