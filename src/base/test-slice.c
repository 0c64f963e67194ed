// SPDX-License-Identifier: Apache-2.0
#include "base/slice.h"

#include <linux/sched/types.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct sched_attr of_this_thread(void)
{
	struct sched_attr attr = { 0 };

	assert_int_equal(syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0), 0);
	return attr;
}

/* From 6.12 on. */
static bool has_slices(void)
{
	unsigned major = 0, minor = 0;
	struct utsname host;

	assert_int_equal(uname(&host), 0);
	assert_int_equal(sscanf(host.release, "%u.%u", &major, &minor), 2);
	return major > 6 || (major == 6 && minor >= 12);
}

static void it_is_short_for_what_is_started_later_too(void **state)
{
	struct sched_attr before = of_this_thread(), mine;
	int status;

	(void)state;
	assert_int_equal(slice_shorten(), 0);
	mine = of_this_thread();
	/* The share of the processor stays what it was. */
	assert_int_equal(mine.sched_policy, before.sched_policy);
	assert_int_equal(mine.sched_nice, before.sched_nice);
	if (!has_slices())
		return;
	assert_int_equal(mine.sched_runtime, SLICE_SHORT_NS);
	pid_t pid = fork();
	if (pid == 0)
		_exit(of_this_thread().sched_runtime == SLICE_SHORT_NS ? 0 : 1);
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_short_for_what_is_started_later_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
