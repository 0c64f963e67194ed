// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/num.h"

#define WHOLE(text, min, max, ok, value) \
	{ \
		STR(text), min, max, ok, value \
	}

static const struct {
	struct str text;
	uint64_t min, max;
	bool ok;
	uint64_t value;
} whole[] = {
	WHOLE("0", 0, 9, true, 0),
	WHOLE("9", 0, 9, true, 9),
	WHOLE("10", 0, 9, false, 0),
	WHOLE("1", 2, 9, false, 0),
	WHOLE("007", 0, 9, true, 7),
	WHOLE("18446744073709551615", 0, UINT64_MAX, true, UINT64_MAX),
	WHOLE("18446744073709551616", 0, UINT64_MAX, false, 0),
	WHOLE("99999999999999999999", 0, UINT64_MAX, false, 0),
	WHOLE("184467440737095516150", 0, UINT64_MAX, false, 0),
	WHOLE("", 0, 9, false, 0),
	WHOLE("+1", 0, 9, false, 0),
	WHOLE("-1", 0, 9, false, 0),
	WHOLE(" 1", 0, 9, false, 0),
	WHOLE("1 ", 0, 9, false, 0),
	WHOLE("1\0", 0, 9, false, 0),
	WHOLE("0x1", 0, 9, false, 0),
	WHOLE("1e1", 0, 99, false, 0),
	WHOLE("1.0", 0, 9, false, 0),
	WHOLE("\xd9\xa1", 0, 9, false, 0), /* a digit of another script */
}, milli[] = {
	WHOLE("1", 0, 9000, true, 1000),
	WHOLE("1.5", 0, 9000, true, 1500),
	WHOLE("0.1", 0, 9000, true, 100),
	WHOLE("1.05", 0, 9000, true, 1050),
	WHOLE("1.234", 0, 9000, true, 1234),
	WHOLE("1.2345", 0, 9000, false, 0),
	WHOLE("1.", 0, 9000, false, 0),
	WHOLE(".5", 0, 9000, false, 0),
	WHOLE(".", 0, 9000, false, 0),
	WHOLE("", 0, 9000, false, 0),
	WHOLE("1.2.3", 0, 9000, false, 0),
	WHOLE("1,5", 0, 9000, false, 0),
	WHOLE("-1.5", 0, 9000, false, 0),
	WHOLE("1.-5", 0, 9000, false, 0),
	WHOLE("9.001", 0, 9000, false, 0),
	WHOLE("0.099", 100, 9000, false, 0),
	WHOLE("18446744073709551.615", 0, UINT64_MAX, false, 0),
	WHOLE("99999999999999999999.9", 0, UINT64_MAX, false, 0),
};

static void only_whole_numbers_in_range_pass(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(whole); i++) {
		uint64_t value = 77;
		assert_int_equal(num_parse(whole[i].text, whole[i].min, whole[i].max, &value),
				 whole[i].ok);
		assert_int_equal(value, whole[i].ok ? whole[i].value : 77);
	}
	uint64_t value;
	assert_false(num_parse((struct str){ NULL, 0 }, 0, 9, &value));
}

static void only_short_fractions_in_range_pass(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(milli); i++) {
		uint64_t value = 77;
		assert_int_equal(num_parse_milli(milli[i].text, milli[i].min, milli[i].max, &value),
				 milli[i].ok);
		assert_int_equal(value, milli[i].ok ? milli[i].value : 77);
	}
	uint64_t value;
	assert_false(num_parse_milli((struct str){ NULL, 0 }, 0, 9, &value));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_whole_numbers_in_range_pass),
		cmocka_unit_test(only_short_fractions_in_range_pass),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
