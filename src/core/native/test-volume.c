// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "core/native/fake.h"

struct call {
	unsigned done;
	const char *slug;
	uint64_t used;
	int exit_code;
};

static void on_volume(void *data, const struct err *err)
{
	struct call *c = data;

	c->done++;
	c->slug = err ? err->slug : NULL;
}

static void on_stat(void *data, uint64_t used, const struct err *err)
{
	((struct call *)data)->used = used;
	on_volume(data, err);
}

static void on_done(void *data, struct runtime_exec_result *result, const struct err *err)
{
	struct call *c = data;

	c->exit_code = result ? result->exit_code : -1;
	on_volume(data, err);
}

static void on_read(void *data, const struct runtime_file_result *result, struct str bytes,
		    const struct err *err)
{
	on_volume(data, err);
}

static void start_command(struct fake *f, struct call *c)
{
	static const struct runtime_exec_ops ops = { .done = on_done };
	const struct runtime_exec_spec spec = { .volume = FAKE_VOLUME,
						.tenant = 1,
						.image = FAKE_IMAGE,
						.command = STR("true"),
						.timeout_ms = 60000,
						.output_max = 1000 };

	*c = (struct call){ 0 };
	runtime_exec_start(f->rt, &spec, &ops, c);
	fake_turn(f);
}

static void create_and_stat(void **state)
{
	struct fake f;
	struct call c = { 0 }, s = { 0 };

	fake_start(&f, &fake_config);
	runtime_volume_create(f.rt,
			      &(struct runtime_volume_spec){ .volume = "sbx_00000000beef",
							     .tenant = 1,
							     .limit_bytes = 1000 },
			      on_volume, &c);
	assert_int_equal(c.done, 0);
	assert_null(volume_find(f.rt, "sbx_00000000beef"));
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_null(c.slug);
	assert_non_null(volume_find(f.rt, "sbx_00000000beef"));
	runtime_volume_stat(f.rt, "sbx_00000000beef", on_stat, &s);
	fake_turn(&f);
	assert_int_equal(s.done, 1);
	assert_int_equal(s.used, 12345);
	fake_stop(&f);
}

static const struct {
	uint32_t code;
	const char *slug;
} failures[] = {
	{ ENOSPC, "no_capacity" },
	{ EDQUOT, "no_capacity" },
	{ EIO, "internal" },
};

static void a_failed_create_has_its_word_and_leaves_nothing(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(failures); i++) {
		struct fake f;
		struct call c = { 0 };
		fake_start(&f, &fake_config);
		f.volume_code = failures[i].code;
		runtime_volume_create(f.rt,
				      &(struct runtime_volume_spec){ .volume = "sbx_00000000beef",
								     .tenant = 1,
								     .limit_bytes = 1000 },
				      on_volume, &c);
		fake_turn(&f);
		assert_string_equal(c.slug, failures[i].slug);
		assert_null(volume_find(f.rt, "sbx_00000000beef"));
		fake_stop(&f);
	}
}

static void delete_waits_until_no_process_is_left(void **state)
{
	struct fake f;
	struct call running, file = { 0 }, deleted = { 0 };
	const struct runtime_file_spec spec = { FAKE_VOLUME, 1, FAKE_IMAGE, { "a", 1 } };

	fake_start(&f, &fake_config);
	f.kills = false;
	start_command(&f, &running);
	struct fake_sandbox *command = fake_busy(&f);
	fake_started(command);
	fake_turn(&f);
	runtime_file_read(f.rt, &spec, 100, on_read, &file);
	fake_turn(&f);
	struct fake_sandbox *worker = fake_busy(&f);
	runtime_volume_delete(f.rt, FAKE_VOLUME, on_volume, &deleted);
	assert_int_equal(deleted.done + running.done + file.done, 0); /* never from the call */
	fake_turn(&f);
	assert_true(command->killed && worker->killed);
	assert_string_equal(file.slug, "internal");
	assert_int_equal(f.deleted, 0);
	fake_gone(&f, command);
	fake_turn(&f);
	assert_int_equal(running.done, 1);
	assert_int_equal(running.exit_code, 137);
	assert_int_equal(f.deleted, 0);
	fake_gone(&f, worker);
	fake_turn(&f);
	assert_int_equal(f.deleted, 1);
	assert_int_equal(deleted.done, 1);
	assert_null(deleted.slug);
	fake_stop(&f);
}

static void after_a_restart_delete_waits_for_what_the_earlier_airlockd_ran(void **state)
{
	struct ld_hello hello = { .cgroup_version = 1 };
	struct ld_volume volume = { .tenant = 1, .volume = FAKE_VOLUME };
	struct call c = { 0 };
	struct fake f;

	fake_open(&f, &fake_config);
	f.kills = false;
	memcpy(hello.build, ipc_build_id, strlen(ipc_build_id));
	fake_tell(&f, LD_HELLO, 0, &hello, sizeof(hello));
	struct fake_sandbox *used[2] = { fake_report(&f, 1, true), fake_report(&f, 2, true) };
	fake_list_end(&f, &volume, 1);
	fake_turn(&f);
	assert_true(used[0]->killed && used[1]->killed);
	runtime_volume_delete(f.rt, FAKE_VOLUME, on_volume, &c);
	fake_turn(&f);
	assert_int_equal(f.deleted, 0);
	fake_gone(&f, used[0]);
	fake_turn(&f);
	assert_int_equal(f.deleted, 0);
	fake_gone(&f, used[1]);
	fake_turn(&f);
	assert_int_equal(f.deleted, 1);
	assert_int_equal(c.done, 1);
	fake_stop(&f);
}

static void nothing_new_starts_once_the_end_has_begun(void **state)
{
	struct fake f;
	struct call running, queued, late, deleted = { 0 };
	struct native_config config = fake_config;

	config.running_max = 1;
	fake_start(&f, &config);
	f.answers = false;
	start_command(&f, &running);
	fake_started(fake_busy(&f));
	fake_turn(&f);
	start_command(&f, &queued);
	runtime_volume_delete(f.rt, FAKE_VOLUME, on_volume, &deleted);
	start_command(&f, &late);
	fake_turn(&f);
	assert_int_equal(running.exit_code, 137);
	assert_string_equal(queued.slug, "internal");
	assert_string_equal(late.slug, "internal");
	assert_int_equal(deleted.done, 0);
	fake_stop(&f);
	assert_int_equal(deleted.done, 1); /* answered, though badly */
}

static void an_unknown_one_is_deleted_all_the_same(void **state)
{
	struct fake f;
	struct call c = { 0 };

	fake_start(&f, &fake_config);
	runtime_volume_delete(f.rt, "sbx_00000000beef", on_volume, &c);
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_null(c.slug);
	assert_int_equal(f.deleted, 1);
	assert_int_equal(f.rt->volumes.n, 1);
	fake_stop(&f);
}

static void deleting_twice_asks_once_and_tells_both(void **state)
{
	struct fake f;
	struct call a = { 0 }, b = { 0 };

	fake_start(&f, &fake_config);
	runtime_volume_delete(f.rt, FAKE_VOLUME, on_volume, &a);
	runtime_volume_delete(f.rt, FAKE_VOLUME, on_volume, &b);
	fake_turn(&f);
	assert_int_equal(f.deleted, 1);
	assert_int_equal(a.done, 1);
	assert_int_equal(b.done, 1);
	fake_stop(&f);
}

static void a_failed_delete_can_be_tried_again(void **state)
{
	struct fake f;
	struct call c = { 0 };

	fake_start(&f, &fake_config);
	f.volume_code = EIO;
	runtime_volume_delete(f.rt, FAKE_VOLUME, on_volume, &c);
	fake_turn(&f);
	assert_string_equal(c.slug, "internal");
	f.volume_code = 0;
	runtime_volume_delete(f.rt, FAKE_VOLUME, on_volume, &c);
	fake_turn(&f);
	assert_int_equal(c.done, 2);
	assert_null(c.slug);
	fake_stop(&f);
}

static void thousands_are_found_by_name(void **state)
{
	char name[MSG_VOLUME_NAME];
	struct fake f;

	fake_start(&f, &fake_config);
	for (unsigned i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "sbx_%012x", i);
		assert_non_null(volume_add(f.rt, name, i));
	}
	for (unsigned i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "sbx_%012x", i);
		assert_int_equal(volume_find(f.rt, name)->tenant, i);
	}
	assert_null(volume_find(f.rt, "sbx_ffffffffffff"));
	assert_null(volume_add(f.rt, "", 1));
	assert_null(volume_add(f.rt, "a-name-that-is-much-too-long", 1));
	fake_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(create_and_stat),
		cmocka_unit_test(a_failed_create_has_its_word_and_leaves_nothing),
		cmocka_unit_test(delete_waits_until_no_process_is_left),
		cmocka_unit_test(after_a_restart_delete_waits_for_what_the_earlier_airlockd_ran),
		cmocka_unit_test(nothing_new_starts_once_the_end_has_begun),
		cmocka_unit_test(an_unknown_one_is_deleted_all_the_same),
		cmocka_unit_test(deleting_twice_asks_once_and_tells_both),
		cmocka_unit_test(a_failed_delete_can_be_tried_again),
		cmocka_unit_test(thousands_are_found_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
