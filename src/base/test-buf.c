// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/buf.h"

static void what_is_put_is_there_with_a_nul_behind(void **state)
{
	_cleanup_buf_ struct buf b = BUF(1000);

	assert_true(buf_put(&b, "ab", 2));
	assert_true(buf_put_text(&b, "cd"));
	assert_true(buf_put_char(&b, 'e'));
	assert_true(buf_put_str(&b, STR("f\0g")));
	assert_true(buf_put(&b, NULL, 0));
	assert_true(buf_printf(&b, "<%d>", 42));
	assert_true(str_eq(buf_str(&b), STR("abcdef\0g<42>")));
	assert_int_equal(b.data[b.len], 0);
}

static void the_maximum_holds_exactly_and_what_was_there_stays(void **state)
{
	for (size_t max = 1; max < 200; max++) {
		_cleanup_buf_ struct buf b = BUF(max);
		for (size_t i = 0; i < max; i++)
			assert_true(buf_put_char(&b, 'x'));
		assert_false(buf_is_full(&b));
		assert_false(buf_put_char(&b, 'y'));
		assert_true(buf_is_full(&b));
		assert_int_equal(b.len, max);
		assert_int_equal(strlen(b.data), max);
		assert_null(memchr(b.data, 'y', b.len));
	}
}

static void a_full_buffer_takes_nothing_more_until_cleared(void **state)
{
	_cleanup_buf_ struct buf b = BUF(4);

	assert_true(buf_put_text(&b, "ab"));
	assert_false(buf_put_text(&b, "cde"));
	assert_false(buf_put_text(&b, "c")); /* or a text would have a hole */
	assert_null(buf_reserve(&b, 0));
	assert_true(str_eq(buf_str(&b), STR("ab")));
	buf_clear(&b);
	assert_true(buf_put_text(&b, "cdef"));
	assert_true(str_eq(buf_str(&b), STR("cdef")));
}

static void huge_lengths_do_not_overflow(void **state)
{
	_cleanup_buf_ struct buf b = BUF(100);

	assert_true(buf_put_text(&b, "abc"));
	assert_null(buf_reserve(&b, SIZE_MAX));
	buf_clear(&b);
	assert_null(buf_reserve(&b, SIZE_MAX - 2));
}

static void printing_more_than_fits_on_the_stack_works(void **state)
{
	_cleanup_buf_ struct buf b = BUF(2000);

	for (int n = 250; n < 260; n++) {
		buf_clear(&b);
		assert_true(buf_printf(&b, "%*d", n, 7));
		assert_int_equal(b.len, n);
		assert_int_equal(strlen(b.data), n);
		assert_int_equal(b.data[n - 1], '7');
	}
	assert_false(buf_printf(&b, "%*d", 1999, 7));
	assert_int_equal(b.len, 259);
}

static void reserved_room_is_filled_by_the_caller(void **state)
{
	_cleanup_buf_ struct buf b = BUF(100);
	char *at = buf_reserve(&b, 100);

	memset(at, 'x', 100);
	b.len += 100;
	assert_null(buf_reserve(&b, 1));
	assert_int_equal(b.len, 100);
}

static void consuming_drops_the_front(void **state)
{
	_cleanup_buf_ struct buf b = BUF(10);

	buf_consume(&b, 0);
	buf_put_text(&b, "abcdef");
	buf_consume(&b, 2);
	assert_true(str_eq(buf_str(&b), STR("cdef")));
	buf_consume(&b, 4);
	assert_int_equal(b.len, 0);
	assert_true(buf_put_text(&b, "0123456789"));
}

static void release_gives_memory_back_and_keeps_the_maximum(void **state)
{
	_cleanup_buf_ struct buf b = BUF(3);

	buf_put_text(&b, "abcd");
	buf_put_text(&b, "abc");
	buf_release(&b);
	assert_null(b.data);
	assert_false(buf_is_full(&b));
	assert_true(buf_put_text(&b, "abc"));
	assert_false(buf_put_text(&b, "d"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_put_is_there_with_a_nul_behind),
		cmocka_unit_test(the_maximum_holds_exactly_and_what_was_there_stays),
		cmocka_unit_test(a_full_buffer_takes_nothing_more_until_cleared),
		cmocka_unit_test(huge_lengths_do_not_overflow),
		cmocka_unit_test(printing_more_than_fits_on_the_stack_works),
		cmocka_unit_test(reserved_room_is_filled_by_the_caller),
		cmocka_unit_test(consuming_drops_the_front),
		cmocka_unit_test(release_gives_memory_back_and_keeps_the_maximum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
