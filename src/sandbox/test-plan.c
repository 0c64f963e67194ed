// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "sandbox/layout.h"
#include "sandbox/plan.h"

static struct plan plan;

static int make(void **state)
{
	(void)state;
	plan_make(&plan, &(struct plan_spec){ .tmp_mb = 64 });
	return 0;
}

static size_t find(enum plan_op op, const char *path)
{
	for (size_t i = 0; i < plan.n_steps; i++)
		if (plan.steps[i].op == op && plan.steps[i].path &&
		    !strcmp(plan.steps[i].path, path))
			return i;
	fail_msg("no step %d for %s", op, path);
	return 0;
}

static void proc_is_mounted_before_it_is_masked(void **state)
{
	(void)state;
	size_t proc = find(PLAN_PROC, "/proc");
	for (size_t i = 0; i < plan.n_steps; i++)
		if (plan.steps[i].op == PLAN_MASK_FILE || plan.steps[i].op == PLAN_MASK_FOLDER ||
		    plan.steps[i].op == PLAN_READ_ONLY)
			assert_true(i > proc);
}

static void namespace_limit_is_written_before_sysctls_become_read_only(void **state)
{
	(void)state;
	assert_true(find(PLAN_WRITE, "/proc/sys/user/max_user_namespaces") <
		    find(PLAN_READ_ONLY, "/proc/sys"));
}

static void tmp_has_a_size_and_an_inode_limit_and_no_exec(void **state)
{
	(void)state;
	const struct plan_step *tmp = &plan.steps[find(PLAN_TMPFS, "/tmp")];
	assert_string_equal(tmp->text, "mode=1777,size=64m,nr_inodes=16384");
	assert_int_equal(tmp->number, 0);
}

static void what_shows_the_whole_machine_is_masked(void **state)
{
	static const char *const files[] = { "/proc/kcore", "/proc/keys", "/proc/kallsyms",
					     "/proc/diskstats", "/proc/sysrq-trigger" };
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		find(PLAN_MASK_FILE, files[i]);
	find(PLAN_MASK_FOLDER, "/proc/pressure");
}

static void no_core_files(void **state)
{
	char line[128];
	bool found = false;

	(void)state;
	for (size_t i = 0; i < plan.n_steps; i++) {
		plan_format(&plan.steps[i], line, sizeof(line));
		found |= !strcmp(line, "rlimit 4 0 0");
	}
	assert_true(found);
}

static void a_plan_made_twice_is_the_same(void **state)
{
	size_t n = plan.n_steps;

	(void)state;
	plan_make(&plan, &(struct plan_spec){ .tmp_mb = 64 });
	assert_int_equal(plan.n_steps, n);
}

static void only_egress_listens_and_only_after_loopback_is_up(void **state)
{
	struct plan with;
	size_t up = 0, listens = 0;

	(void)state;
	plan_make(&with, &(struct plan_spec){ .tmp_mb = 64, .egress = true });
	assert_int_equal(with.n_steps, plan.n_steps + 1);
	for (size_t i = 0; i < with.n_steps; i++) {
		if (with.steps[i].op == PLAN_LOOPBACK)
			up = i;
		if (with.steps[i].op == PLAN_LISTEN)
			listens = i;
	}
	assert_true(up > 0 && listens > up);
	for (size_t i = 0; i < plan.n_steps; i++)
		assert_int_not_equal(plan.steps[i].op, PLAN_LISTEN);
}

static void images_never_bring_their_own_proc_dev_or_tmp(void **state)
{
	static const char *const ours[] = { "proc", "dev", "sys", "tmp", "run", "workspace" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(ours); i++) {
		bool skipped = false;
		for (const char *const *s = plan_image_skip; *s; s++)
			skipped |= !strcmp(*s, ours[i]);
		assert_true(skipped);
	}
}

static void no_two_slots_of_a_host_share_an_id(void **state)
{
	(void)state;
	assert_int_equal(layout_tenant_id(0, LAYOUT_SLOTS - 1) + 1,
			 LAYOUT_ID_FIRST + LAYOUT_SLOTS * 2);
	assert_true(layout_tenant_id(0, LAYOUT_SLOTS - 1) < layout_init_id(1, 0));
	assert_int_not_equal(layout_init_id(3, 7), layout_tenant_id(3, 7));
	assert_int_equal(layout_init_id(3, 8), layout_tenant_id(3, 7) + 1);
	/* The whole range stays below 2^31, which some programs take for the end of ids. */
	assert_true(layout_tenant_id(LAYOUT_SERVERS - 1, LAYOUT_SLOTS - 1) < INT32_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(proc_is_mounted_before_it_is_masked, make),
		cmocka_unit_test_setup(namespace_limit_is_written_before_sysctls_become_read_only,
				       make),
		cmocka_unit_test_setup(tmp_has_a_size_and_an_inode_limit_and_no_exec, make),
		cmocka_unit_test_setup(what_shows_the_whole_machine_is_masked, make),
		cmocka_unit_test_setup(no_core_files, make),
		cmocka_unit_test_setup(only_egress_listens_and_only_after_loopback_is_up, make),
		cmocka_unit_test_setup(a_plan_made_twice_is_the_same, make),
		cmocka_unit_test(images_never_bring_their_own_proc_dev_or_tmp),
		cmocka_unit_test(no_two_slots_of_a_host_share_an_id),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
