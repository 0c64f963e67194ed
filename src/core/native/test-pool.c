// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/native/exec.h"
#include "core/native/fake.h"

struct call {
	unsigned done;
	bool good;
	const char *slug;
};

static void on_done(void *data, struct runtime_exec_result *result, const struct err *err)
{
	struct call *c = data;

	c->done++;
	c->good = !err;
	c->slug = err ? err->slug : NULL;
}

static void start(struct fake *f, struct call *c, uint32_t tenant)
{
	static const struct runtime_exec_ops ops = { .done = on_done };
	const struct runtime_exec_spec spec = { .volume = FAKE_VOLUME,
						.tenant = tenant,
						.image = FAKE_IMAGE,
						.command = STR("true"),
						.timeout_ms = 60000,
						.output_max = 1000 };

	*c = (struct call){ 0 };
	runtime_exec_start(f->rt, &spec, &ops, c);
	fake_turn(f);
}

/* The sandbox with a job goes through it to the end. */
static void complete(struct fake *f)
{
	struct fake_sandbox *s = fake_busy(f);

	assert_non_null(s);
	fake_started(s);
	fake_turn(f);
	fake_exited(s, 0);
	fake_turn(f);
	fake_gone(f, s);
	fake_turn(f);
}

static unsigned ready(struct fake *f)
{
	struct runtime_info info;

	runtime_info_get(f->rt, &info);
	return info.pool_ready;
}

static void warm(struct fake *f, uint32_t tenant)
{
	runtime_warm(f->rt, tenant, FAKE_IMAGE, false);
	fake_turn(f);
}

static void warming_builds_one_ahead(void **state)
{
	struct fake f;

	fake_start(&f, &fake_config);
	assert_int_equal(f.n, 0); /* nobody, nothing */
	warm(&f, 1);
	assert_int_equal(ready(&f), 1);
	warm(&f, 1);
	assert_int_equal(ready(&f), 1);
	assert_int_equal(runtime_posture(f.rt, FAKE_VOLUME, 1), FAKE_POSTURE);
	assert_int_equal(runtime_posture(f.rt, FAKE_VOLUME, 2), 0);
	fake_stop(&f);
}

static void a_command_takes_a_ready_one_and_the_refill_comes_a_moment_later(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	warm(&f, 1);
	start(&f, &c, 1);
	assert_int_equal(f.n, 1);
	struct fake_sandbox *s = fake_busy(&f);
	assert_ptr_equal(s, &f.sandboxes[0]);
	fake_started(s);
	fake_turn(&f);
	assert_int_equal(f.n, 1); /* a short command has the processors for itself */
	fake_advance(&f, POOL_REFILL_MS);
	assert_int_equal(f.n, 3); /* one in use: two are wanted */
	assert_int_equal(ready(&f), 2);
	fake_stop(&f);
}

/* Its answer may have to wait for its record, which takes a processor, too. */
static void nothing_is_built_in_the_moment_after_a_command_either(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	warm(&f, 1);
	start(&f, &c, 1);
	complete(&f);
	fake_advance(&f, POOL_REFILL_MS);
	unsigned built = f.n;
	start(&f, &c, 1);
	complete(&f);
	fake_advance(&f, POOL_REFILL_MS - 1);
	assert_int_equal(f.n, built);
	fake_advance(&f, 1);
	assert_int_equal(f.n, built + 1);
	fake_stop(&f);
}

static void the_pool_grows_with_demand_up_to_its_bound(void **state)
{
	struct native_config config = fake_config;
	struct call calls[6];
	struct fake f;

	config.pool = 4;
	fake_start(&f, &config);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		start(&f, &calls[i], 1);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		complete(&f);
	fake_advance(&f, POOL_REFILL_MS);
	assert_int_equal(ready(&f), 4);
	fake_stop(&f);
}

static void the_pool_shrinks_when_demand_falls(void **state)
{
	struct native_config config = fake_config;
	struct call calls[3];
	struct fake f;

	config.pool = 4;
	fake_start(&f, &config);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		start(&f, &calls[i], 1);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		complete(&f);
	fake_advance(&f, POOL_REFILL_MS);
	assert_int_equal(ready(&f), 4);
	for (int i = 0; i < 3; i++)
		fake_advance(&f, POOL_WINDOW_MS);
	assert_int_equal(ready(&f), 1);
	fake_stop(&f);
}

static void an_idle_tenant_keeps_nothing(void **state)
{
	struct fake f;

	fake_start(&f, &fake_config);
	warm(&f, 1);
	for (int64_t t = 0; t < fake_config.idle_ms - POOL_WINDOW_MS; t += POOL_WINDOW_MS)
		fake_advance(&f, POOL_WINDOW_MS);
	assert_int_equal(ready(&f), 1);
	for (int i = 0; i < 2; i++)
		fake_advance(&f, POOL_WINDOW_MS);
	assert_int_equal(ready(&f), 0);
	assert_true(f.sandboxes[0].killed);
	/* And then nothing wakes us for it. */
	assert_true(TAILQ_EMPTY(&f.rt->deadlines.list));
	fake_stop(&f);
}

static void all_tenants_together_keep_no_more_than_pool_all(void **state)
{
	struct native_config config = fake_config;
	struct fake f;

	config.pool_all = 3;
	fake_start(&f, &config);
	for (uint32_t t = 1; t <= 5; t++) {
		warm(&f, t);
		assert_true(ready(&f) <= 3);
		fake_advance(&f, 1000);
	}
	assert_int_equal(ready(&f), 3);
	/* Later the ones that were not used make room. */
	fake_advance(&f, POOL_WINDOW_MS);
	warm(&f, 6);
	assert_int_equal(ready(&f), 3);
	assert_int_equal(f.sandboxes[f.n - 1].tenant, 6);
	assert_true(f.sandboxes[0].killed);
	fake_stop(&f);
}

static void without_a_pool_every_command_builds_its_own(void **state)
{
	struct native_config config = fake_config;
	struct fake f;
	struct call c;

	config.pool = 0;
	fake_start(&f, &config);
	warm(&f, 1);
	assert_int_equal(f.n, 0);
	start(&f, &c, 1);
	complete(&f);
	assert_true(c.good);
	assert_int_equal(f.n, 1);
	assert_int_equal(ready(&f), 0);
	fake_stop(&f);
}

static void waiters_take_whatever_comes_first_in_order(void **state)
{
	struct fake f;
	struct call a, b;

	fake_start(&f, &fake_config);
	f.builds = false;
	start(&f, &a, 1);
	start(&f, &b, 1);
	assert_true(f.building >= 2);
	fake_build(&f);
	fake_turn(&f);
	complete(&f);
	assert_int_equal(a.done, 1);
	assert_int_equal(b.done, 0);
	fake_build(&f);
	fake_turn(&f);
	complete(&f);
	assert_int_equal(b.done, 1);
	fake_stop(&f);
}

static void a_failed_build_fails_the_first_waiter_alone(void **state)
{
	struct fake f;
	struct call a, b;

	fake_start(&f, &fake_config);
	f.builds = false;
	start(&f, &a, 1);
	start(&f, &b, 1);
	fake_fail_build(&f);
	fake_turn(&f);
	assert_int_equal(a.done, 1);
	assert_string_equal(a.slug, "no_capacity");
	assert_int_equal(b.done, 0);
	fake_build(&f);
	fake_turn(&f);
	complete(&f);
	assert_true(b.good);
	fake_stop(&f);
}

static void after_a_failed_build_the_next_try_is_delayed(void **state)
{
	struct runtime_info info;
	unsigned failed = 0;
	struct fake f;

	fake_start(&f, &fake_config);
	f.builds = false;
	warm(&f, 1);
	assert_int_equal(f.building, 1);
	for (int64_t delay = POOL_RETRY_MS; delay < POOL_RETRY_MAX_MS; delay *= 2) {
		fake_fail_build(&f);
		fake_turn(&f);
		fake_advance(&f, delay - 1);
		assert_int_equal(f.building, 0);
		fake_advance(&f, 1);
		assert_int_equal(f.building, 1);
		runtime_info_get(f.rt, &info);
		assert_int_equal(info.builds_fail, ++failed >= POOL_FAILS);
	}
	/* Success forgets the failures. */
	fake_build(&f);
	fake_turn(&f);
	runtime_info_get(f.rt, &info);
	assert_false(info.builds_fail);
	assert_int_equal(f.rt->pools.list.tqh_first->retry_ms, POOL_RETRY_MS);
	fake_stop(&f);
}

/* A server that keeps none ready, or that nobody uses, learns that it can make them again. */
static void what_failed_is_tried_again_though_nobody_asks(void **state)
{
	struct native_config config = fake_config;
	struct runtime_info info;
	struct call calls[POOL_FAILS];
	struct fake f;

	config.pool = 0;
	fake_start(&f, &config);
	f.builds = false;
	for (unsigned i = 0; i < POOL_FAILS; i++) {
		start(&f, &calls[i], 1);
		fake_fail_build(&f);
		fake_turn(&f);
		assert_string_equal(calls[i].slug, "no_capacity");
	}
	for (unsigned i = 0; i < 3; i++) {
		for (int64_t ms = 0; ms < POOL_PROBE_MS - 1000; ms += 1000)
			fake_advance(&f, 1000);
		assert_int_equal(f.building, 0);
		fake_advance(&f, POOL_WINDOW_MS + 1000);
		assert_int_equal(f.building, 1);
		runtime_info_get(f.rt, &info);
		assert_true(info.builds_fail);
		if (i < 2)
			fake_fail_build(&f);
		else
			fake_build(&f);
		fake_turn(&f);
	}
	runtime_info_get(f.rt, &info);
	assert_false(info.builds_fail);
	/* It is not kept. */
	assert_int_equal(ready(&f), 0);
	fake_advance(&f, 4 * POOL_PROBE_MS);
	assert_int_equal(f.building, 0);
	fake_stop(&f);
}

static void a_command_does_not_wait_for_that_delay(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	f.builds = false;
	warm(&f, 1);
	fake_fail_build(&f);
	fake_turn(&f);
	start(&f, &c, 1);
	assert_int_equal(f.building, 1);
	fake_build(&f);
	fake_turn(&f);
	complete(&f);
	assert_true(c.good);
	fake_stop(&f);
}

static void a_blank_sandbox_that_dies_is_replaced_but_not_at_once(void **state)
{
	struct fake f;

	fake_start(&f, &fake_config);
	warm(&f, 1);
	fake_die(&f.sandboxes[0]);
	fake_turn(&f);
	assert_int_equal(ready(&f), 0);
	assert_true(f.sandboxes[0].killed);
	assert_int_equal(f.n, 1);
	fake_advance(&f, POOL_RETRY_MS);
	assert_int_equal(ready(&f), 1);
	fake_stop(&f);
}

static void a_blank_sandbox_that_speaks_is_killed(void **state)
{
	const struct id_started body = { 0 };
	struct fake f;

	fake_start(&f, &fake_config);
	warm(&f, 1);
	fake_say(&f.sandboxes[0], ID_STARTED, 1, &body, sizeof(body));
	fake_turn(&f);
	assert_true(f.sandboxes[0].killed);
	assert_int_equal(ready(&f), 0);
	fake_stop(&f);
}

static void an_init_of_another_build_is_not_used(void **state)
{
	struct msg_hello hello = { .build = "another" };
	struct fake f;

	fake_start(&f, &fake_config);
	f.builds = false;
	warm(&f, 1);
	struct fake_sandbox *s = fake_build(&f);
	/* The fake has said hello properly; say it again, wrongly, in a sandbox of before. */
	fake_turn(&f);
	assert_int_equal(ready(&f), 1);
	assert_false(s->killed);
	fake_say(s, ID_HELLO, 0, &hello, sizeof(hello));
	fake_turn(&f);
	assert_true(s->killed);
	fake_stop(&f);
}

static void a_new_sandbox_without_a_hello_is_given_up(void **state)
{
	const struct ld_slot slot = { .slot = 0, .cgroup_version = 1 };
	struct ld_sandbox body = { .sandbox = { 0, 1 }, .tenant = 1, .image = FAKE_IMAGE };
	struct wire_msg msg;
	struct fake f;
	struct call c;
	struct err err;
	int socks[2];

	fake_start(&f, &fake_config);
	f.builds = false;
	start(&f, &c, 1);
	assert_int_equal(wire_pair_open(socks, &err), 0);
	int fds[4] = { socks[0], socks[0], socks[0], socks[0] };
	assert_int_equal(wire_send(f.launcher, LD_SLOT, 0, &slot, sizeof(slot), fds, 4), 0);
	assert_int_equal(wire_send(f.launcher, LD_SANDBOX, f.build_ids[0], &body, sizeof(body),
				   &socks[1], 1),
			 0);
	uv_run(&f.loop, UV_RUN_NOWAIT);
	clock_fake_advance(SANDBOX_HELLO_MS * 1000);
	deadlines_run(&f.rt->deadlines);
	/* Both the kill and the order for another one. */
	bool killed = false;
	while (wire_recv(f.launcher, &wire_dl, &msg) == 1)
		killed |= msg.head.type == DL_KILL;
	assert_true(killed);
	const struct msg_sandbox gone = { 0, 1 };
	fake_tell(&f, LD_GONE, 0, &gone, sizeof(gone));
	uv_run(&f.loop, UV_RUN_NOWAIT);
	uv_run(&f.loop, UV_RUN_NOWAIT);
	assert_int_equal(c.done, 1);
	assert_string_equal(c.slug, "no_capacity");
	close(socks[0]);
	close(socks[1]);
	fake_stop(&f);
}

static void what_was_not_asked_for_is_not_used(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	f.builds = false;
	start(&f, &c, 1);
	f.build_tenants[0] = 2; /* the answer is for another tenant */
	struct fake_sandbox *s = fake_build(&f);
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_string_equal(c.slug, "no_capacity");
	assert_true(s->killed);
	fake_stop(&f);
}

static void after_a_restart_unused_ones_serve_and_used_ones_end(void **state)
{
	struct ld_hello hello = { .cgroup_version = 1 };
	struct ld_volume volume = { .tenant = 1, .volume = FAKE_VOLUME };
	struct fake f;
	struct call c;

	fake_open(&f, &fake_config);
	memcpy(hello.build, ipc_build_id, strlen(ipc_build_id));
	fake_tell(&f, LD_HELLO, 0, &hello, sizeof(hello));
	struct fake_sandbox *unused = fake_report(&f, 1, false);
	struct fake_sandbox *used = fake_report(&f, 1, true);
	fake_list_end(&f, &volume, 1);
	fake_turn(&f);
	assert_true(f.ready);
	assert_true(used->killed);
	assert_false(unused->killed);
	assert_int_equal(ready(&f), 1);
	start(&f, &c, 1);
	assert_true(fake_receive(unused));
	fake_started(unused);
	fake_turn(&f);
	fake_exited(unused, 0);
	fake_turn(&f);
	assert_true(c.good);
	fake_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(warming_builds_one_ahead),
		cmocka_unit_test(a_command_takes_a_ready_one_and_the_refill_comes_a_moment_later),
		cmocka_unit_test(nothing_is_built_in_the_moment_after_a_command_either),
		cmocka_unit_test(the_pool_grows_with_demand_up_to_its_bound),
		cmocka_unit_test(the_pool_shrinks_when_demand_falls),
		cmocka_unit_test(an_idle_tenant_keeps_nothing),
		cmocka_unit_test(all_tenants_together_keep_no_more_than_pool_all),
		cmocka_unit_test(without_a_pool_every_command_builds_its_own),
		cmocka_unit_test(waiters_take_whatever_comes_first_in_order),
		cmocka_unit_test(a_failed_build_fails_the_first_waiter_alone),
		cmocka_unit_test(after_a_failed_build_the_next_try_is_delayed),
		cmocka_unit_test(what_failed_is_tried_again_though_nobody_asks),
		cmocka_unit_test(a_command_does_not_wait_for_that_delay),
		cmocka_unit_test(a_blank_sandbox_that_dies_is_replaced_but_not_at_once),
		cmocka_unit_test(a_blank_sandbox_that_speaks_is_killed),
		cmocka_unit_test(an_init_of_another_build_is_not_used),
		cmocka_unit_test(a_new_sandbox_without_a_hello_is_given_up),
		cmocka_unit_test(what_was_not_asked_for_is_not_used),
		cmocka_unit_test(after_a_restart_unused_ones_serve_and_used_ones_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
