// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/utf8.h"

#define R "\xef\xbf\xbd"

/* What Python's bytes.decode("utf-8", "replace") gives. */
static const struct fix_case {
	struct str in, out;
} fix_cases[] = {
	{ STR(""), STR("") },
	{ STR("plain ascii, longer than eight"), STR("plain ascii, longer than eight") },
	{ STR("a\0b"), STR("a\0b") },
	{ STR("\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80"),
	  STR("\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80") },
	{ STR("\xff\xfe"), STR(R R) },
	{ STR("\x80"), STR(R) },
	{ STR("\xc0\x80"), STR(R R) }, /* overlong */
	{ STR("\xc1\xbf"), STR(R R) },
	{ STR("\xe0\x80\x80"), STR(R R R) },
	{ STR("\xe0\x9f\xbf"), STR(R R R) },
	{ STR("\xf0\x8f\xbf\xbf"), STR(R R R R) },
	{ STR("\xed\xa0\x80"), STR(R R R) }, /* surrogate */
	{ STR("\xed\x9f\xbf"), STR("\xed\x9f\xbf") },
	{ STR("\xf4\x90\x80\x80"), STR(R R R R) }, /* above U+10FFFF */
	{ STR("\xf4\x8f\xbf\xbf"), STR("\xf4\x8f\xbf\xbf") },
	{ STR("\xf5\x80\x80\x80"), STR(R R R R) },
	{ STR("\xe2\x82"), STR(R) }, /* cut: one maximal subpart */
	{ STR("\xf0\x9f\x98"), STR(R) },
	{ STR("\xe2\x82"
	      "A"),
	  STR(R "A") },
	{ STR("\xf0\x9f\x98\xc3\xbc"), STR(R "\xc3\xbc") },
	{ STR("\xe2\xe2\x82\xac"), STR(R "\xe2\x82\xac") },
	{ STR("\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64"),
	  STR("a" R R R "b" R "c" R R "d") }, /* Unicode 15, table 3-8 */
	{ STR("12345678\xff"
	      "12345678"),
	  STR("12345678" R "12345678") },
};

static void fix_gives_the_same_text_for_every_way_to_cut(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(fix_cases); i++) {
		const struct fix_case *c = &fix_cases[i];
		for (size_t a = 0; a <= c->in.len; a++) {
			for (size_t b = a; b <= c->in.len; b++) {
				_cleanup_buf_ struct buf out = BUF(1000);
				struct utf8_fix fix = { .n_held = 0 };
				assert_true(
					utf8_fix_put(&fix, (struct str){ c->in.data, a }, &out));
				assert_true(utf8_fix_put(&fix,
							 (struct str){ c->in.data + a, b - a },
							 &out));
				assert_true(utf8_fix_put(&fix, str_from(c->in, b), &out));
				assert_true(utf8_fix_end(&fix, &out));
				assert_true(str_eq(buf_str(&out), c->out));
			}
		}
	}
}

static void valid_is_what_fix_leaves_alone(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(fix_cases); i++)
		assert_int_equal(utf8_valid(fix_cases[i].in),
				 str_eq(fix_cases[i].in, fix_cases[i].out));
	assert_true(utf8_valid((struct str){ NULL, 0 }));
}

/* Independent check of every code point and its neighbours by arithmetic instead of the table. */
static void every_code_point_but_surrogates_is_valid(void **state)
{
	for (uint32_t cp = 0; cp <= 0x110fff; cp++) {
		char b[4];
		size_t n = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
		for (size_t k = n - 1; k > 0; k--)
			b[k] = (char)(0x80 | (cp >> (6 * (n - 1 - k)) & 0x3f));
		b[0] = (char)(n == 1 ? cp : ((0xf0u << (4 - n)) & 0xff) | cp >> (6 * (n - 1)));
		bool want = cp <= 0x10ffff && (cp < 0xd800 || cp > 0xdfff);
		assert_int_equal(utf8_valid((struct str){ b, n }), want);
	}
}

static void a_full_buffer_is_cut_between_characters(void **state)
{
	static const struct {
		struct str in;
		size_t max;
		struct str out;
	} cases[] = {
		{ STR("a\xc3\xbc"), 2, STR("a") },
		{ STR("a\xc3\xbc"), 3, STR("a\xc3\xbc") },
		{ STR("ab\xff"), 4, STR("ab") },
		{ STR("\xe2\x82\xac\xe2\x82\xac"), 5, STR("\xe2\x82\xac") },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf out = BUF(cases[i].max);
		struct utf8_fix fix = { .n_held = 0 };
		bool fits = utf8_fix_put(&fix, cases[i].in, &out) && utf8_fix_end(&fix, &out);
		assert_int_equal(fits, i == 1);
		assert_true(str_eq(buf_str(&out), cases[i].out));
	}
}

static void count_and_cut_are_in_characters(void **state)
{
	struct str s = STR("a\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80z");
	static const size_t bytes[] = { 0, 1, 3, 6, 10, 11, 11 };

	assert_int_equal(utf8_count(s), 5);
	assert_int_equal(utf8_count((struct str){ NULL, 0 }), 0);
	for (size_t n = 0; n < ARRAY_SIZE(bytes); n++)
		assert_int_equal(utf8_cut(s, n).len, bytes[n]);
}

static void strip_removes_unicode_white_space_at_both_ends(void **state)
{
	static const struct {
		struct str in, out;
	} cases[] = {
		{ STR(""), STR("") },
		{ STR(" \t\r\n\v\f\x1c\x1d\x1e\x1f"), STR("") },
		{ STR(" a b "), STR("a b") },
		{ STR("\xc2\x85\xc2\xa0x\xe3\x80\x80"), STR("x") },
		{ STR("\xe1\x9a\x80\xe2\x80\x80\xe2\x80\x8ax\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaf"
		      "\xe2\x81\x9f"),
		  STR("x") },
		{ STR("\xe2\x80\x8bx\xe2\x80\x8b"),
		  STR("\xe2\x80\x8bx\xe2\x80\x8b") },		/* U+200B stays */
		{ STR("\xef\xbb\xbfx"), STR("\xef\xbb\xbfx") }, /* U+FEFF stays */
		{ STR("\x1bx\x7f"), STR("\x1bx\x7f") },
		{ STR("\xc2\x86"), STR("\xc2\x86") },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_true(str_eq(utf8_strip(cases[i].in), cases[i].out));
	assert_int_equal(utf8_strip((struct str){ NULL, 0 }).len, 0);
}

static void controls_are_those_of_ascii_and_of_latin_1(void **state)
{
	static const struct {
		struct str in;
		size_t n;
	} cases[] = {
		{ STR(""), 0 },
		{ STR("\0"), 1 },
		{ STR("\x1f"), 1 },
		{ STR(" "), 0 },
		{ STR("~"), 0 },
		{ STR("\x7f"), 1 },
		{ STR("\xc2\x80"), 2 },
		{ STR("\xc2\x9f"), 2 },
		{ STR("\xc2\xa0"), 0 },
		{ STR("\xc3\x9b"), 0 },
		{ STR("\xe2\x80\x9b"), 0 },
		{ STR("\xc2"), 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(utf8_control(cases[i].in), cases[i].n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fix_gives_the_same_text_for_every_way_to_cut),
		cmocka_unit_test(valid_is_what_fix_leaves_alone),
		cmocka_unit_test(every_code_point_but_surrogates_is_valid),
		cmocka_unit_test(a_full_buffer_is_cut_between_characters),
		cmocka_unit_test(count_and_cut_are_in_characters),
		cmocka_unit_test(controls_are_those_of_ascii_and_of_latin_1),
		cmocka_unit_test(strip_removes_unicode_white_space_at_both_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
