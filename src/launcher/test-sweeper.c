// SPDX-License-Identifier: Apache-2.0
/* The sweeper as the hand-over role talks to it, while space is short. Needs what test-volume
 * needs. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/launcher.h"
#include "launcher/test-volume-rig.h"

#define TENANT 7u
#define A "sbx_00000000000a"
#define B "sbx_00000000000b"
#define C "sbx_00000000000c"
#define D "sbx_00000000000d"
#define E "sbx_00000000000e"
#define F "sbx_00000000000f"
#define G "sbx_0000000000aa"
#define MUCH (360 * MIB) /* then less than half of it all is free */
#define SOME (200 * MIB)
#define MANY 150u

static struct launcher launcher;
static int sock = -1;
static pid_t sweeper;

/* ---- the stage ------------------------------------------------------------------------------- */

static int open_stage(void **state)
{
	char mnt[300];
	int socks[2];

	if (rig_setup(state) < 0)
		return -1;
	if (v.root_fd < 0)
		return 0;
	log_init("test", (enum log_level) - 1);
	/* The file system's own commits come never: nothing comes back by itself. */
	path_of(mnt, "btrfs");
	snprintf(mnt + strlen(mnt), 8, "/mnt");
	if (mount("", mnt, NULL, MS_REMOUNT | MS_NOSUID | MS_NODEV, "commit=3600") < 0)
		return -1;
	launcher.volumes = v;
	ok(wire_pair_open(socks, &err));
	sweeper = fork();
	if (sweeper == 0) {
		close(socks[0]);
		sweeper_main(&launcher, socks[1]);
	}
	close(socks[1]);
	sock = socks[0];
	return 0;
}

static int close_stage(void **state)
{
	int status;

	if (v.root_fd >= 0) {
		fd_close(&sock);
		assert_int_equal(waitpid(sweeper, &status, 0), sweeper);
		assert_int_equal(status, 0);
	}
	return rig_teardown(state);
}

/* ---- the hand-over role ---------------------------------------------------------------------- */

static void say(uint8_t type, uint32_t id, const void *body, size_t len)
{
	int r;

	while ((r = wire_send(sock, type, id, body, len, NULL, 0)) == -EAGAIN) {
		struct pollfd p = { .fd = sock, .events = POLLOUT };
		assert_int_equal(poll(&p, 1, 60000), 1);
	}
	assert_int_equal(r, 0);
}

static struct wire_msg next_answer(void)
{
	struct wire_msg msg;
	int r;

	while ((r = wire_recv(sock, &wire_sl, &msg)) == -EAGAIN) {
		struct pollfd p = { .fd = sock, .events = POLLIN };
		assert_int_equal(poll(&p, 1, 60000), 1);
	}
	assert_int_equal(r, 1);
	return msg;
}

static uint32_t next_done(void)
{
	struct wire_msg msg = next_answer();
	struct msg_done body;

	assert_int_equal(msg.head.type, SL_DONE);
	memcpy(&body, msg.body, sizeof(body));
	if (body.code)
		fail_msg("%u: %s", body.code, body.text);
	return msg.head.id;
}

static void make(uint32_t id, const char *name, uint64_t limit)
{
	struct dl_volume_create body = { .tenant = TENANT, .limit_bytes = limit };

	snprintf(body.volume, sizeof(body.volume), "%s", name);
	say(LS_VOLUME_CREATE, id, &body, sizeof(body));
	assert_int_equal(next_done(), id);
}

static void ask_delete(uint32_t id, const char *name)
{
	struct dl_volume body = { 0 };

	snprintf(body.volume, sizeof(body.volume), "%s", name);
	say(LS_VOLUME_DELETE, id, &body, sizeof(body));
}

static struct ld_status status_now(void)
{
	struct ld_status body;

	say(LS_STATUS, 1, NULL, 0);
	struct wire_msg msg = next_answer();
	assert_int_equal(msg.head.type, SL_STATUS);
	memcpy(&body, msg.body, sizeof(body));
	return body;
}

static void make_with(uint32_t id, const char *name, uint64_t bytes)
{
	make(id, name, bytes);
	assert_int_equal(as_tenant(name, fill), EDQUOT);
}

static void wait_until_all_is_back(void)
{
	while (status_now().volume_frees || names_in(v.volumes_fd))
		poll(NULL, 0, 10);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void while_space_is_short_a_deletion_ends_with_its_space_back(void **state)
{
	static const char *const names[] = { C, D, E };

	need_host();
	for (uint32_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_false(volumes_short(&v));
		make_with(10 + i, names[i], MUCH);
		assert_true(volumes_short(&v));
		int64_t began = clock_monotonic_ms();
		ask_delete(20 + i, names[i]);
		assert_int_equal(next_done(), 20 + i);
		/* A disk that takes longer than it is waited for says nothing. */
		if (clock_monotonic_ms() - began < 9000)
			assert_false(volumes_short(&v));
		else
			wait_until_all_is_back();
	}
}

static void what_is_owed_comes_back_when_space_gets_short(void **state)
{
	need_host();
	make_with(30, A, SOME);
	ask_delete(31, A);
	assert_int_equal(next_done(), 31);
	make_with(32, B, SOME);
	/* Nobody deletes anything any more. */
	while (status_now().volume_frees)
		poll(NULL, 0, 10);
	assert_false(volumes_short(&v));
	ask_delete(33, B);
	assert_int_equal(next_done(), 33);
}

static void any_number_of_deletions_is_answered_once(void **state)
{
	char name[MSG_VOLUME_NAME];
	bool answered[MANY] = { 0 };

	need_host();
	for (uint32_t i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "sbx_%012x", 0x1000 + i);
		make(100 + i, name, MIB);
	}
	make_with(40, F, MUCH);
	for (uint32_t i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "sbx_%012x", 0x1000 + i);
		ask_delete(100 + i, name);
	}
	for (uint32_t i = 0; i < MANY; i++) {
		uint32_t id = next_done() - 100;
		assert_true(id < MANY && !answered[id]);
		answered[id] = true;
	}
	ask_delete(41, F);
	assert_int_equal(next_done(), 41);
	assert_int_equal(status_now().volume_promised, 0);
	/* One that is not there waits for nothing. */
	ask_delete(42, F);
	assert_int_equal(next_done(), 42);
	wait_until_all_is_back();
}

/* Something has it open, so that the kernel's cleaner waits, and so does the deleter, for 10 s. */
static void who_stops_is_not_kept_waiting(void **state)
{
	need_host();
	make_with(50, G, MUCH);
	_cleanup_fd_ int user = openat(v.volumes_fd, G "/big", O_RDONLY | O_CLOEXEC);
	assert_true(user >= 0);
	int64_t began = clock_monotonic_ms();
	ask_delete(51, G);
	assert_int_equal(status_now().volume_frees, 1); /* it is not answered before this */
	say(LS_STOP, 0, NULL, 0);
	assert_int_equal(next_done(), 51);
	assert_true(clock_monotonic_ms() - began < 8000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* The first: it takes room for metadata while there is some that data does not
		   have. */
		cmocka_unit_test(any_number_of_deletions_is_answered_once),
		cmocka_unit_test(while_space_is_short_a_deletion_ends_with_its_space_back),
		cmocka_unit_test(what_is_owed_comes_back_when_space_gets_short),
		cmocka_unit_test(who_stops_is_not_kept_waiting), /* the last: it stays stopped */
	};
	return cmocka_run_group_tests(tests, open_stage, close_stage);
}
