// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"

static void hex_ids_have_the_length_asked_for_and_only_lower_case_digits(void **state)
{
	for (size_t n = 0; n <= 200; n++) {
		char id[202];
		memset(id, '?', sizeof(id));
		random_hex(id, n);
		assert_int_equal(strlen(id), n);
		assert_int_equal(strspn(id, "0123456789abcdef"), n);
		assert_int_equal(id[n + 1], '?');
	}
}

static void hex_ids_differ_and_use_every_digit_everywhere(void **state)
{
	char id[101], other[101];
	unsigned seen[100] = { 0 };

	for (int round = 0; round < 400; round++) {
		random_hex(id, 100);
		random_hex(other, 100);
		assert_string_not_equal(id, other);
		for (size_t i = 0; i < 100; i++)
			seen[i] |= 1u << (id[i] <= '9' ? id[i] - '0' : id[i] - 'a' + 10);
	}
	for (size_t i = 0; i < 100; i++)
		assert_int_equal(seen[i], 0xffff);
}

static void bytes_fill_all_of_the_buffer_and_no_more(void **state)
{
	unsigned char b[600] = { 0 };
	unsigned char any[512] = { 0 };

	for (int round = 0; round < 64; round++) {
		random_bytes(b, 512);
		for (size_t i = 0; i < 512; i++)
			any[i] |= b[i];
	}
	for (size_t i = 0; i < 512; i++)
		assert_int_equal(any[i], 0xff);
	for (size_t i = 512; i < sizeof(b); i++)
		assert_int_equal(b[i], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hex_ids_have_the_length_asked_for_and_only_lower_case_digits),
		cmocka_unit_test(hex_ids_differ_and_use_every_digit_everywhere),
		cmocka_unit_test(bytes_fill_all_of_the_buffer_and_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
