// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "core/native/fake.h"

static void say_hello(struct fake *f, const char *build)
{
	struct ld_hello hello = { .cgroup_version = 1 };

	memcpy(hello.build, build, strlen(build));
	fake_tell(f, LD_HELLO, 0, &hello, sizeof(hello));
}

static void ready_comes_once_after_the_list(void **state)
{
	struct fake f;
	struct runtime_info info;

	fake_open(&f, &fake_config);
	fake_turn(&f);
	assert_false(f.ready);
	fake_greet(&f);
	assert_true(f.ready);
	assert_int_equal(f.err.code, 0);
	assert_int_equal(f.volumes_seen, 1);
	runtime_info_get(f.rt, &info);
	assert_true(info.ready);
	assert_true(info.hard_quota);
	assert_int_equal(info.layers, 0xff);
	assert_int_equal(info.missing, 0x100);
	fake_stop(&f);
}

static void the_status_is_fetched_behind_the_answer(void **state)
{
	struct fake f;
	struct runtime_info info;

	fake_start(&f, &fake_config);
	runtime_info_get(f.rt, &info);
	assert_int_equal(info.volume.bytes, 0);
	fake_turn(&f);
	runtime_info_get(f.rt, &info);
	assert_int_equal(info.volume.bytes, 1000);
	assert_int_equal(info.volume.free, 600);
	fake_turn(&f);
	assert_int_equal(f.statuses, 1);
	fake_advance(&f, 2000);
	runtime_info_get(f.rt, &info);
	fake_turn(&f);
	assert_int_equal(f.statuses, 2);
	fake_stop(&f);
}

struct told {
	unsigned n;
	struct runtime_space space;
	struct err err;
};

static void on_space(void *data, const struct runtime_space *space, const struct err *err)
{
	struct told *told = data;

	told->n++;
	if (space)
		told->space = *space;
	told->err = err ? *err : (struct err){ 0 };
}

static void room_is_asked_for_each_time(void **state)
{
	struct fake f;
	struct told told = { 0 };
	struct runtime_info info;

	fake_start(&f, &fake_config);
	for (unsigned i = 1; i <= 2; i++) {
		f.status.volume_promised = 700 * i;
		f.status.volume_frees = i - 1;
		runtime_volume_space(f.rt, on_space, &told);
		assert_int_equal(told.n, i - 1);
		fake_turn(&f);
		assert_int_equal(told.n, i);
		assert_int_equal(told.err.code, 0);
		assert_int_equal(told.space.bytes, 1000);
		assert_int_equal(told.space.free, 600);
		assert_int_equal(told.space.promised, 700 * i);
		assert_int_equal(told.space.frees, i == 2);
		assert_true(told.space.hard_quota);
	}
	/* Whoever looks behind it sees the same without asking. */
	runtime_info_get(f.rt, &info);
	assert_int_equal(info.volume.promised, 1400);
	assert_int_equal(f.statuses, 2);
	/* A launcher that cannot say it is none that breaks the rules. */
	f.says_nothing = true;
	runtime_volume_space(f.rt, on_space, &told);
	fake_advance(&f, 2000);
	runtime_info_get(f.rt, &info);
	fake_turn(&f);
	assert_int_equal(told.n, 3);
	assert_string_equal(told.err.slug, "busy");
	assert_false(f.lost);
	assert_int_equal(info.volume.promised, 1400);
	fake_stop(&f);
}

static void a_status_that_nobody_can_give_ends_nothing(void **state)
{
	struct fake f;
	struct runtime_info info;

	fake_start(&f, &fake_config);
	f.says_nothing = true;
	for (unsigned i = 1; i <= 2; i++) {
		runtime_info_get(f.rt, &info);
		fake_turn(&f);
		assert_int_equal(f.statuses, i);
		assert_false(f.lost);
		fake_advance(&f, 2000);
	}
	f.says_nothing = false;
	runtime_info_get(f.rt, &info);
	fake_turn(&f);
	runtime_info_get(f.rt, &info);
	assert_int_equal(info.volume.bytes, 1000);
	fake_stop(&f);
}

static void a_launcher_that_says_nothing_at_all_is_silent(void **state)
{
	struct runtime_info info;
	struct fake f;

	fake_start(&f, &fake_config);
	f.hangs = true;
	runtime_info_get(f.rt, &info);
	assert_false(info.silent);
	fake_turn(&f);
	fake_advance(&f, 9999);
	runtime_info_get(f.rt, &info);
	assert_false(info.silent);
	fake_advance(&f, 1);
	runtime_info_get(f.rt, &info);
	assert_true(info.silent);
	assert_int_equal(f.statuses, 1);
	fake_answer_status(&f);
	fake_turn(&f);
	runtime_info_get(f.rt, &info);
	assert_false(info.silent);
	fake_stop(&f);
}

/* Sessions are asked for all the time, and each asks for room. */
static void a_launcher_is_silent_whoever_asks_it(void **state)
{
	struct told told = { 0 };
	struct runtime_info info;
	struct fake f;

	fake_start(&f, &fake_config);
	f.hangs = true;
	for (int s = 0; s <= 10; s++) {
		runtime_volume_space(f.rt, on_space, &told);
		fake_turn(&f);
		runtime_info_get(f.rt, &info);
		assert_int_equal(info.silent, s == 10);
		if (s < 10)
			fake_advance(&f, 1000);
	}
	/* No more room for questions is no answer. */
	f.says_nothing = true;
	f.hangs = false;
	runtime_volume_space(f.rt, on_space, &told);
	fake_turn(&f);
	assert_int_equal(told.n, 1);
	runtime_info_get(f.rt, &info);
	assert_true(info.silent);
	fake_stop(&f);
}

static void each_answer_is_one_for_all_who_asked(void **state)
{
	struct told told = { 0 };
	struct runtime_info info;
	struct fake f;

	fake_start(&f, &fake_config);
	f.hangs = true;
	runtime_volume_space(f.rt, on_space, &told);
	fake_turn(&f);
	uint32_t first = f.status_id;
	fake_advance(&f, 9000);
	runtime_volume_space(f.rt, on_space, &told);
	fake_turn(&f);
	fake_tell(&f, LD_STATUS, first, &f.status, sizeof(f.status));
	fake_turn(&f);
	fake_advance(&f, 9999);
	runtime_info_get(f.rt, &info);
	assert_false(info.silent);
	fake_advance(&f, 1);
	runtime_info_get(f.rt, &info);
	assert_true(info.silent);
	fake_answer_status(&f);
	fake_turn(&f);
	assert_int_equal(told.n, 2);
	runtime_info_get(f.rt, &info);
	assert_false(info.silent);
	fake_stop(&f);
}

static void a_launcher_of_another_build_is_refused(void **state)
{
	struct fake f;

	fake_open(&f, &fake_config);
	say_hello(&f, "another");
	fake_turn(&f);
	assert_true(f.ready);
	assert_true(f.lost);
	assert_int_equal(f.err.code, EPROTO);
	fake_stop(&f);
}

static const size_t lengths[] = {
	[LD_HELLO] = sizeof(struct ld_hello),
	[LD_SLOT] = sizeof(struct ld_slot),
	[LD_SANDBOX] = sizeof(struct ld_sandbox),
	[LD_BUILD_FAILED] = sizeof(struct msg_done),
	[LD_GONE] = sizeof(struct msg_sandbox),
	[LD_HANDOVER_FAILED] = sizeof(struct ld_handover_failed),
	[LD_DONE] = sizeof(struct msg_done),
	[LD_VOLUME_STAT] = sizeof(struct ld_volume_stat),
	[LD_POLICY] = sizeof(struct ld_policy),
	[LD_STATUS] = sizeof(struct ld_status),
};

/* Messages without descriptors, zeros inside, in each state: which leave the link alive? */
static void each_state_accepts_its_messages_and_no_others(void **state)
{
	static const uint64_t list = LINK_BIT(LD_GONE) | LINK_BIT(LD_READY);
	static const uint64_t ready = LINK_BIT(LD_BUILD_FAILED) | LINK_BIT(LD_GONE) |
				      LINK_BIT(LD_HANDOVER_FAILED) | LINK_BIT(LD_DONE) |
				      LINK_BIT(LD_VOLUME_STAT) | LINK_BIT(LD_STATUS);
	static const struct {
		enum link_state state;
		uint64_t good;
	} states[] = { { LINK_HELLO, 0 }, { LINK_LIST, list }, { LINK_READY, ready } };
	static const unsigned char zeros[WIRE_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		for (uint8_t type = LD_HELLO; type <= LD_STATUS; type++) {
			struct fake f;
			fake_open(&f, &fake_config);
			if (states[i].state != LINK_HELLO)
				say_hello(&f, ipc_build_id);
			if (states[i].state == LINK_READY)
				fake_list_end(&f, NULL, 0);
			fake_turn(&f);
			assert_int_equal(f.rt->link.state, states[i].state);
			if (type == LD_READY)
				fake_list_end(&f, NULL, 0);
			else
				fake_tell(&f, type, 0, zeros, lengths[type]);
			fake_turn(&f);
			if (f.lost == wire_allow(states[i].good, type))
				fail_msg("state %zu, type %u", i, type);
			fake_stop(&f);
		}
	}
}

#define MANY 5000u

static void a_long_list_of_volumes_is_one_message(void **state)
{
	static struct ld_volume volumes[MANY];
	struct runtime_info info;
	struct fake f;

	for (uint32_t i = 0; i < MANY; i++) {
		volumes[i].tenant = i % 7;
		snprintf(volumes[i].volume, sizeof(volumes[i].volume), "sbx_%012x", i);
	}
	fake_open(&f, &fake_config);
	say_hello(&f, ipc_build_id);
	fake_list_end(&f, volumes, MANY);
	fake_turn(&f);
	assert_true(f.ready);
	assert_int_equal(f.volumes_seen, MANY);
	for (uint32_t i = 0; i < MANY; i++) {
		const struct volume *v = volume_find(f.rt, volumes[i].volume);
		assert_non_null(v);
		assert_int_equal(v->tenant, i % 7);
	}
	runtime_info_get(f.rt, &info);
	assert_true(info.ready);
	fake_stop(&f);
}

static int volume_file(const struct ld_volume *records, size_t len)
{
	int fd = memfd_create("volumes", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(write(fd, records, len), len);
	return fd;
}

static void a_list_that_is_not_as_long_as_it_says_is_a_fault(void **state)
{
	struct ld_volume records[3] = { { .volume = FAKE_VOLUME },
					{ .volume = "sbx_aaaaaaaaaaaa" },
					{ .volume = "sbx_bbbbbbbbbbbb" } };
	const size_t one = sizeof(records[0]);

	for (int i = 0; i < 7; i++) {
		struct ld_ready body = { .n = i == 0 ? 2 : i == 1 ? 4 : i == 2 ? UINT32_MAX : 3 };
		struct fake f;
		int fd, r;
		if (i == 6)
			memset(records[2].volume, 'x', sizeof(records[2].volume));
		fd = i == 3   ? volume_file(records, 3 * one - 1)
		     : i == 4 ? volume_file(records, 0)
		     : i == 5 ? open("/dev/null", O_RDONLY | O_CLOEXEC)
			      : volume_file(records, 3 * one);
		fake_open(&f, &fake_config);
		say_hello(&f, ipc_build_id);
		r = wire_send(f.launcher, LD_READY, 0, &body, sizeof(body), &fd, 1);
		assert_int_equal(r, 0);
		close(fd);
		fake_turn(&f);
		assert_true(f.lost);
		assert_int_equal(f.err.code, EPROTO);
		fake_stop(&f);
	}
}

static void an_answer_of_the_wrong_type_is_a_fault(void **state)
{
	const struct msg_done done = { 0 };
	struct fake f;

	fake_start(&f, &fake_config);
	f.builds = false;
	runtime_warm(f.rt, 1, FAKE_IMAGE, false);
	fake_turn(&f);
	fake_tell(&f, LD_DONE, f.build_ids[0], &done, sizeof(done));
	fake_turn(&f);
	assert_true(f.lost);
	fake_stop(&f);
}

static void an_answer_to_an_earlier_airlockd_is_void(void **state)
{
	const struct msg_done done = { .code = ENOENT };
	struct fake f;

	fake_start(&f, &fake_config);
	fake_tell(&f, LD_DONE, 4711, &done, sizeof(done));
	fake_tell(&f, LD_BUILD_FAILED, 4712, &done, sizeof(done));
	fake_turn(&f);
	assert_false(f.lost);
	fake_stop(&f);
}

static void a_sandbox_of_an_earlier_request_is_taken_over(void **state)
{
	struct runtime_info info;
	struct fake f;

	fake_start(&f, &fake_config);
	/* The fake answers a build that this airlockd never asked for. */
	f.build_ids[0] = 4711;
	f.build_tenants[0] = 9;
	f.building = 1;
	fake_build(&f);
	fake_turn(&f);
	assert_false(f.lost);
	runtime_info_get(f.rt, &info);
	assert_int_equal(info.pool_ready, 1);
	fake_stop(&f);
}

static void noise_from_the_launcher_is_its_end(void **state)
{
	for (size_t len = 1; len < WIRE_MAX + 40; len += 37) {
		char raw[WIRE_MAX + 40] = { WIRE_VERSION, 99 };
		struct fake f;
		fake_start(&f, &fake_config);
		assert_int_equal(send(f.launcher, raw, len, 0), len);
		fake_turn(&f);
		assert_true(f.lost);
		fake_stop(&f);
	}
}

static void a_slot_of_a_mad_number_is_a_fault(void **state)
{
	const struct ld_slot slot = { .slot = UINT32_MAX, .cgroup_version = 1 };
	struct fake f;

	fake_start(&f, &fake_config);
	assert_int_equal(wire_send(f.launcher, LD_SLOT, 0, &slot, sizeof(slot),
				   (int[]){ f.launcher, f.launcher, f.launcher, f.launcher }, 4),
			 0);
	fake_turn(&f);
	assert_true(f.lost);
	fake_stop(&f);
}

struct counter {
	unsigned n, failed;
};

static void on_volume(void *data, const struct err *err)
{
	struct counter *c = data;

	c->n++;
	c->failed += err != NULL;
}

static void a_full_socket_keeps_messages_in_order(void **state)
{
	struct counter c = { 0 };
	const unsigned many = 2000;
	struct wire_msg msg;
	struct fake f;
	char name[MSG_VOLUME_NAME];

	fake_start(&f, &fake_config);
	for (unsigned i = 0; i < many; i++) {
		snprintf(name, sizeof(name), "sbx_%012x", i);
		runtime_volume_create(f.rt,
				      &(struct runtime_volume_spec){
					      .volume = name, .tenant = 1, .limit_bytes = 0 },
				      on_volume, &c);
	}
	assert_true(link_is_congested(&f.rt->link));
	for (unsigned i = 0; i < many;) {
		struct dl_volume_create body;
		const struct msg_done done = { 0 };
		if (wire_recv(f.launcher, &wire_dl, &msg) != 1) {
			uv_run(&f.loop, UV_RUN_NOWAIT);
			continue;
		}
		assert_int_equal(msg.head.type, DL_VOLUME_CREATE);
		memcpy(&body, msg.body, sizeof(body));
		snprintf(name, sizeof(name), "sbx_%012x", i++);
		assert_string_equal(body.volume, name);
		fake_tell(&f, LD_DONE, msg.head.id, &done, sizeof(done));
		uv_run(&f.loop, UV_RUN_NOWAIT);
	}
	fake_turn(&f);
	assert_int_equal(c.n, many);
	assert_int_equal(c.failed, 0);
	assert_false(link_is_congested(&f.rt->link));
	fake_stop(&f);
}

struct waiting {
	unsigned done;
	const char *slug;
};

static void on_done(void *data, struct runtime_exec_result *result, const struct err *err)
{
	struct waiting *w = data;

	w->done++;
	w->slug = err ? err->slug : NULL;
}

static void a_command_waits_until_the_socket_has_room(void **state)
{
	static const struct runtime_exec_ops ops = { .done = on_done };
	const struct runtime_exec_spec spec = { .volume = FAKE_VOLUME,
						.tenant = 1,
						.image = FAKE_IMAGE,
						.command = STR("true"),
						.timeout_ms = 1000,
						.output_max = 1000 };
	struct counter c = { 0 };
	struct waiting w = { 0 };
	struct fake f;

	fake_start(&f, &fake_config);
	runtime_warm(f.rt, 1, FAKE_IMAGE, false);
	fake_turn(&f);
	while (!link_is_congested(&f.rt->link))
		runtime_volume_create(f.rt,
				      &(struct runtime_volume_spec){ .volume = FAKE_VOLUME,
								     .tenant = 1,
								     .limit_bytes = 0 },
				      on_volume, &c);
	runtime_exec_start(f.rt, &spec, &ops, &w);
	/* Nothing reaches init before the launcher can know. */
	assert_false(fake_receive(&f.sandboxes[0]));
	fake_turn(&f);
	assert_true(fake_receive(&f.sandboxes[0]));
	fake_started(&f.sandboxes[0]);
	fake_turn(&f);
	fake_exited(&f.sandboxes[0], 0);
	fake_turn(&f);
	assert_int_equal(w.done, 1);
	assert_null(w.slug);
	fake_stop(&f);
}

/* Nothing new can be opened until the old limit is back. */
static struct rlimit exhaust_descriptors(void)
{
	struct rlimit old, none;
	int next = dup(0);

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){ (rlim_t)next, old.rlim_max };
	close(next);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	return old;
}

static void without_descriptors_the_server_goes_on(void **state)
{
	static const struct runtime_exec_ops ops = { .done = on_done };
	const struct runtime_exec_spec spec = { .volume = FAKE_VOLUME,
						.tenant = 1,
						.image = FAKE_IMAGE,
						.command = STR("true"),
						.timeout_ms = 1000,
						.output_max = 1000 };
	struct waiting running = { 0 }, refused = { 0 };
	struct fake f;

	fake_start(&f, &fake_config);
	f.builds = false;
	runtime_exec_start(f.rt, &spec, &ops, &running);
	fake_turn(&f);
	fake_build(&f);
	fake_turn(&f);
	assert_true(fake_receive(&f.sandboxes[0]));
	fake_started(&f.sandboxes[0]);
	fake_turn(&f);
	assert_int_equal(f.building, 2);
	while (f.building)
		fake_build(&f); /* the refill lies in the socket */
	struct rlimit old = exhaust_descriptors();
	fake_turn(&f);
	assert_false(f.lost);
	assert_true(f.sandboxes[1].killed && f.sandboxes[2].killed);
	runtime_exec_start(f.rt, &spec, &ops, &refused);
	fake_exited(&f.sandboxes[0], 0);
	fake_turn(&f);
	assert_int_equal(running.done, 1);
	assert_null(running.slug);
	setrlimit(RLIMIT_NOFILE, &old);
	f.builds = true;
	fake_build(&f);
	fake_turn(&f);
	assert_int_equal(refused.done, 0);
	assert_true(fake_receive(&f.sandboxes[3]));
	fake_stop(&f);
}

static void what_was_asked_of_a_dead_launcher_fails(void **state)
{
	struct counter c = { 0 };
	struct fake f;

	fake_start(&f, &fake_config);
	f.answers = false;
	runtime_volume_create(f.rt,
			      &(struct runtime_volume_spec){
				      .volume = "sbx_aaaaaaaaaaaa", .tenant = 1, .limit_bytes = 0 },
			      on_volume, &c);
	fake_turn(&f);
	assert_int_equal(c.n, 0);
	close(f.launcher);
	f.launcher = -1;
	fake_turn(&f);
	assert_int_equal(c.n, 1);
	assert_int_equal(c.failed, 1);
	runtime_volume_create(f.rt,
			      &(struct runtime_volume_spec){
				      .volume = "sbx_bbbbbbbbbbbb", .tenant = 1, .limit_bytes = 0 },
			      on_volume, &c);
	assert_int_equal(c.n, 1);
	fake_turn(&f);
	assert_int_equal(c.failed, 2);
	fake_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ready_comes_once_after_the_list),
		cmocka_unit_test(the_status_is_fetched_behind_the_answer),
		cmocka_unit_test(room_is_asked_for_each_time),
		cmocka_unit_test(a_status_that_nobody_can_give_ends_nothing),
		cmocka_unit_test(a_launcher_that_says_nothing_at_all_is_silent),
		cmocka_unit_test(a_launcher_is_silent_whoever_asks_it),
		cmocka_unit_test(each_answer_is_one_for_all_who_asked),
		cmocka_unit_test(a_launcher_of_another_build_is_refused),
		cmocka_unit_test(each_state_accepts_its_messages_and_no_others),
		cmocka_unit_test(a_long_list_of_volumes_is_one_message),
		cmocka_unit_test(a_list_that_is_not_as_long_as_it_says_is_a_fault),
		cmocka_unit_test(an_answer_of_the_wrong_type_is_a_fault),
		cmocka_unit_test(an_answer_to_an_earlier_airlockd_is_void),
		cmocka_unit_test(a_sandbox_of_an_earlier_request_is_taken_over),
		cmocka_unit_test(noise_from_the_launcher_is_its_end),
		cmocka_unit_test(a_slot_of_a_mad_number_is_a_fault),
		cmocka_unit_test(a_full_socket_keeps_messages_in_order),
		cmocka_unit_test(a_command_waits_until_the_socket_has_room),
		cmocka_unit_test(without_descriptors_the_server_goes_on),
		cmocka_unit_test(what_was_asked_of_a_dead_launcher_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
