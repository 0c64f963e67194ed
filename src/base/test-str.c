// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"

static const struct str none = { NULL, 0 };

static void equality_knows_empty_and_nul(void **state)
{
	assert_true(str_eq(none, STR("")));
	assert_true(str_eq(STR("a\0b"), STR("a\0b")));
	assert_false(str_eq(STR("a\0b"), STR("a\0c")));
	assert_false(str_eq(STR("a"), STR("ab")));
	assert_false(str_eq(STR("a"), STR("A")));
	assert_int_equal(str_of(NULL).len, 0);
}

static void case_is_ignored_for_ascii_letters_only(void **state)
{
	assert_true(str_eq_nocase(STR("Content-Length"), STR("cONTENT-lENGTH")));
	assert_true(str_eq_nocase(none, STR("")));
	assert_false(str_eq_nocase(STR("a"), STR("ab")));
	assert_false(str_eq_nocase(STR("a\0b"), STR("a\0c")));
	for (unsigned a = 0; a < 256; a++) {
		for (unsigned b = 0; b < 256; b++) {
			char ca = (char)a, cb = (char)b;
			bool letters = (a | 0x20) == (b | 0x20) && (a | 0x20) >= 'a' &&
				       (a | 0x20) <= 'z';
			assert_int_equal(str_eq_nocase((struct str){ &ca, 1 },
						       (struct str){ &cb, 1 }),
					 a == b || letters);
		}
	}
}

static void starts_looks_at_the_front(void **state)
{
	assert_true(str_starts(STR("abc"), STR("ab")));
	assert_true(str_starts(STR("abc"), STR("")));
	assert_true(str_starts(none, none));
	assert_false(str_starts(STR("ab"), STR("abc")));
	assert_false(str_starts(STR("abc"), STR("bc")));
}

static void trim_takes_blanks_only(void **state)
{
	assert_true(str_eq(str_trim(STR(" \t a b \t ")), STR("a b")));
	assert_true(str_eq(str_trim(STR(" \t ")), STR("")));
	assert_true(str_eq(str_trim(STR("\na\r")), STR("\na\r")));
	assert_int_equal(str_trim(none).len, 0);
}

static void split_gives_every_part_once(void **state)
{
	static const struct {
		struct str in;
		const char *parts[4];
	} table[] = {
		{ STR("a,,b"), { "a", "", "b" } },
		{ STR("a"), { "a" } },
		{ STR(""), { "" } },
		{ STR(","), { "", "" } },
		{ STR("a,b,"), { "a", "b", "" } },
		{ { NULL, 0 }, { NULL } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct str rest = table[i].in, part;
		size_t n = 0;
		while (str_split(&rest, ',', &part)) {
			assert_true(n < 3 && table[i].parts[n]);
			assert_true(str_eq(part, str_of(table[i].parts[n])));
			n++;
		}
		assert_null(table[i].parts[n]);
	}
}

static void secrets_are_equal_only_as_a_whole(void **state)
{
	assert_true(str_eq_secret(STR("abc"), STR("abc")));
	assert_true(str_eq_secret(none, STR("")));
	assert_false(str_eq_secret(STR("abc"), STR("abd")));
	assert_false(str_eq_secret(STR("bbc"), STR("abc")));
	assert_false(str_eq_secret(STR("abcabc"), STR("abc"))); /* the shorter one is gone round */
	assert_false(str_eq_secret(STR("abc"), STR("abcabc")));
	assert_false(str_eq_secret(STR("aaa"), STR("a")));
	assert_false(str_eq_secret(STR("abc"), none));
	assert_false(str_eq_secret(none, STR("abc")));
	assert_false(str_eq_secret(STR("\0\0"), none));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equality_knows_empty_and_nul),
		cmocka_unit_test(case_is_ignored_for_ascii_letters_only),
		cmocka_unit_test(starts_looks_at_the_front),
		cmocka_unit_test(trim_takes_blanks_only),
		cmocka_unit_test(split_gives_every_part_once),
		cmocka_unit_test(secrets_are_equal_only_as_a_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
