// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"

static bool is_zero(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (p[i])
			return false;
	}
	return true;
}

static void pieces_are_zeroed_aligned_and_apart_even_after_reset(void **state)
{
	_cleanup_arena_ struct arena a = { .blocks = NULL };

	for (int round = 0; round < 3; round++) {
		char *last = NULL;
		for (size_t size = 0; size < 3000; size += 37) {
			char *p = arena_alloc(&a, size);
			assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
			assert_true(is_zero(p, size));
			assert_true(p != last || size == 0);
			memset(p, 0xaa, size);
			last = p;
		}
		arena_reset(&a);
	}
}

static void a_piece_may_be_larger_than_a_block(void **state)
{
	_cleanup_arena_ struct arena a = { .blocks = NULL };
	char *small = arena_alloc(&a, 16);
	char *large = arena_alloc(&a, 100000);

	memset(small, 1, 16);
	assert_true(is_zero(large, 100000));
	memset(large, 2, 100000);
	assert_int_equal(small[15], 1);
}

static void reset_keeps_one_ordinary_block(void **state)
{
	_cleanup_arena_ struct arena a = { .blocks = NULL };

	arena_alloc(&a, 10);
	size_t one = a.total;
	arena_alloc(&a, 100000);
	for (int i = 0; i < 100; i++)
		arena_alloc(&a, 1000);
	arena_reset(&a);
	assert_int_equal(a.total, one);
	arena_alloc(&a, 10);
	assert_int_equal(a.total, one);
}

static void text_is_copied_with_a_nul_behind(void **state)
{
	_cleanup_arena_ struct arena a = { .blocks = NULL };
	struct str copy = arena_str(&a, STR("abc"));
	struct str empty = arena_str(&a, (struct str){ NULL, 0 });

	assert_string_equal(copy.data, "abc");
	assert_int_equal(copy.len, 3);
	assert_string_equal(empty.data, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_are_zeroed_aligned_and_apart_even_after_reset),
		cmocka_unit_test(a_piece_may_be_larger_than_a_block),
		cmocka_unit_test(reset_keeps_one_ordinary_block),
		cmocka_unit_test(text_is_copied_with_a_nul_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
