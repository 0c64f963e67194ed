// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/signals.h"

static void on_signal(int number)
{
	(void)number;
}

/* handler, flags, restorer, set */
static uintptr_t handler_of(int number)
{
	uintptr_t now[4] = { 0 };

	assert_int_equal(syscall(SYS_rt_sigaction, number, NULL, now, 8), 0);
	return now[0];
}

static void what_is_ignored_is_heeded_and_nothing_else_changes(void **state)
{
	static const int numbers[] = { SIGHUP, SIGCHLD, SIGPIPE, 32, 33, 64 };
	const uintptr_t ignore[4] = { (uintptr_t)SIG_IGN };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		assert_int_equal(syscall(SYS_rt_sigaction, numbers[i], ignore, NULL, 8), 0);
		assert_int_equal(handler_of(numbers[i]), (uintptr_t)SIG_IGN);
	}
	signal(SIGUSR1, on_signal);
	signals_heed();
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		assert_int_equal(handler_of(numbers[i]), (uintptr_t)SIG_DFL);
	assert_int_equal(handler_of(SIGUSR1), (uintptr_t)on_signal);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_ignored_is_heeded_and_nothing_else_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
