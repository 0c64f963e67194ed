// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

static char line[8192];

/* What f writes to stderr. */
static const char *logged(void (*f)(void))
{
	_cleanup_fd_ int file = memfd_create("log", MFD_CLOEXEC);
	_cleanup_fd_ int old = dup(STDERR_FILENO);

	dup2(file, STDERR_FILENO);
	f();
	dup2(old, STDERR_FILENO);
	ssize_t n = pread(file, line, sizeof(line) - 1, 0);
	assert_true(n >= 0);
	line[n] = '\0';
	return line;
}

static void log_plain(void)
{
	log_event(LOG_WARN, "thing_happened", LOG_STR("nothing", ""),
		  LOG_STR("why", "say \"no\"\\"), LOG_INT("n", -5));
}

static void log_nothing_else(void)
{
	log_event(LOG_ERROR, "bare");
}

static void log_debug(void)
{
	log_event(LOG_DEBUG, "detail");
}

static void log_odd(void)
{
	log_event(LOG_INFO, "odd", LOG_STR("a", "\n\t\x1b[2J\x7f"), LOG_STR("b", "\xc3\xbc"),
		  LOG_STR("c", "\xc3(\xff"));
}

static void log_long(void)
{
	static char big[3000];

	memset(big, 'x', sizeof(big) - 1);
	log_event(LOG_INFO, "long", LOG_STR("one", big), LOG_STR("two", big), LOG_INT("three", 3));
}

static void log_failing(void)
{
	close(STDERR_FILENO);
	errno = ENOENT;
	log_event(LOG_INFO, "lost");
	assert_int_equal(errno, ENOENT);
}

static void a_line_is_one_object(void **state)
{
	clock_fake(0, 1700000000000007);
	log_init("tester", LOG_INFO);
	assert_string_equal(
		logged(log_plain),
		"{\"time\":1700000000.000007,\"level\":\"warn\",\"process\":\"tester\","
		"\"event\":\"thing_happened\",\"why\":\"say \\\"no\\\"\\\\\",\"n\":-5}\n");
	assert_string_equal(
		logged(log_nothing_else),
		"{\"time\":1700000000.000007,\"level\":\"error\",\"process\":\"tester\","
		"\"event\":\"bare\"}\n");
}

static void below_the_threshold_nothing_is_written(void **state)
{
	log_init("tester", LOG_INFO);
	assert_string_equal(logged(log_debug), "");
	log_init("tester", LOG_DEBUG);
	assert_non_null(strstr(logged(log_debug), "\"level\":\"debug\""));
}

static void no_text_can_end_the_line_or_move_the_cursor(void **state)
{
	log_init("tester", LOG_INFO);
	assert_non_null(strstr(logged(log_odd), "\"a\":\"\\u000a\\u0009\\u001b[2J\\u007f\","
						"\"b\":\"\xc3\xbc\",\"c\":\"\\u00c3(\\u00ff\"}\n"));
}

static void a_line_that_is_too_long_is_cut_at_a_field(void **state)
{
	log_init("tester", LOG_INFO);
	const char *got = logged(log_long);
	assert_in_range(strlen(got), 3000, 4000);
	assert_non_null(strstr(got, "\"one\":\"xxx"));
	assert_null(strstr(got, "two"));
	assert_string_equal(got + strlen(got) - 3, "\"}\n");
}

static void errno_is_kept_and_a_closed_stderr_is_no_harm(void **state)
{
	log_init("tester", LOG_INFO);
	assert_string_equal(logged(log_failing), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_one_object),
		cmocka_unit_test(below_the_threshold_nothing_is_written),
		cmocka_unit_test(no_text_can_end_the_line_or_move_the_cursor),
		cmocka_unit_test(a_line_that_is_too_long_is_cut_at_a_field),
		cmocka_unit_test(errno_is_kept_and_a_closed_stderr_is_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
