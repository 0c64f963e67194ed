// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/pct.h"

static const struct decode_case {
	struct str in, segment, query;
	bool ok;
} decode_cases[] = {
	{ STR(""), STR(""), STR(""), true },
	{ STR("abc"), STR("abc"), STR("abc"), true },
	{ STR("a+b"), STR("a+b"), STR("a b"), true },
	{ STR("a%2Bb%2bc"), STR("a+b+c"), STR("a+b+c"), true },
	{ STR("%2F%2f"), STR("//"), STR("//"), true },
	{ STR("%252e"), STR("%2e"), STR("%2e"), true }, /* decoded once */
	{ STR("%C3%BC"), STR("\xc3\xbc"), STR("\xc3\xbc"), true },
	{ STR("\xc3\xbc"), STR("\xc3\xbc"), STR("\xc3\xbc"), true },
	{ STR("%00"), STR("\0"), STR("\0"), true },
	{ STR("%"), .ok = false },
	{ STR("%4"), .ok = false },
	{ STR("a%4"), .ok = false },
	{ STR("%zz"), .ok = false },
	{ STR("%4g"), .ok = false },
	{ STR("% 41"), .ok = false },
	{ STR("%+1"), .ok = false },
	{ STR("%-1"), .ok = false },
	{ STR("%u0041"), .ok = false },
	{ STR("%FF"), .ok = false },
	{ STR("%C0%AE"), .ok = false }, /* overlong dot */
	{ STR("%ED%A0%80"), .ok = false },
	{ STR("\xff"), .ok = false },
};

static void decoding_is_strict_and_done_once(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(decode_cases); i++) {
		const struct decode_case *c = &decode_cases[i];
		char out[64];
		struct str got = STR("untouched");
		assert_int_equal(pct_decode_segment(c->in, out, &got), c->ok);
		assert_true(str_eq(got, c->ok ? c->segment : STR("untouched")));
		got = STR("untouched");
		assert_int_equal(pct_decode_query(c->in, out, &got), c->ok);
		assert_true(str_eq(got, c->ok ? c->query : STR("untouched")));
	}
}

static void decoding_in_place_works(void **state)
{
	char text[] = "a%20b%C3%BC+";
	struct str got;

	assert_true(pct_decode_query((struct str){ text, sizeof(text) - 1 }, text, &got));
	assert_true(str_eq(got, STR("a b\xc3\xbc ")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decoding_is_strict_and_done_once),
		cmocka_unit_test(decoding_in_place_works),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
