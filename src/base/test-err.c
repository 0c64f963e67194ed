// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/err.h"

static void setting_fills_all_and_returns_minus_the_code(void **state)
{
	struct err err;

	assert_int_equal(err_set(&err, ENOENT, "no %s", "file"), -ENOENT);
	assert_int_equal(err.code, ENOENT);
	assert_null(err.slug);
	assert_string_equal(err.text, "no file");
	assert_int_equal(err_slug(&err, EDQUOT, "quota", "%d MB", 5), -EDQUOT);
	assert_string_equal(err.slug, "quota");
	assert_string_equal(err.text, "5 MB");
}

static void errno_is_told_in_words(void **state)
{
	struct err err;

	errno = EACCES;
	assert_int_equal(err_errno(&err, "open %s", "x"), -EACCES);
	assert_string_equal(err.text, "open x: Permission denied");
	errno = 0; /* a caller that had none */
	assert_int_equal(err_errno(&err, "x"), -EIO);
	errno = 4095;
	assert_int_equal(err_errno(&err, "x"), -4095);
	assert_string_equal(err.text, "x: error 4095");
}

static void wrapping_keeps_code_and_word(void **state)
{
	struct err err;

	err_slug(&err, ENOSPC, "quota", "disk full");
	assert_int_equal(err_wrap(&err, "write %s", "a"), -ENOSPC);
	assert_string_equal(err.text, "write a: disk full");
	assert_string_equal(err.slug, "quota");
}

static void the_old_text_may_be_an_argument(void **state)
{
	struct err err;

	err_set(&err, EIO, "inner");
	err_set(&err, EINVAL, "outer (%s)", err.text);
	assert_string_equal(err.text, "outer (inner)");
	err_wrap(&err, "more (%s)", err.text);
	assert_string_equal(err.text, "more (outer (inner)): outer (inner)");
}

static void long_texts_are_cut(void **state)
{
	char big[3000];
	struct err err;

	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	err_set(&err, EIO, "%s", big);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	err_wrap(&err, "%s", big);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	errno = EIO;
	err_errno(&err, "%s", big);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(setting_fills_all_and_returns_minus_the_code),
		cmocka_unit_test(errno_is_told_in_words),
		cmocka_unit_test(wrapping_keeps_code_and_word),
		cmocka_unit_test(the_old_text_may_be_an_argument),
		cmocka_unit_test(long_texts_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
