// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/native/output.h"

/* Byte i of the endless test stream: neighbours and pages differ. */
static char byte_at(uint64_t i)
{
	return (char)(i * 31 + i / 251 + i / 65521);
}

static void feed(struct runtime_output *o, uint64_t from, uint64_t n, size_t chunk)
{
	char *piece = mem_new(chunk, 1);

	while (n) {
		size_t now = n < chunk ? (size_t)n : chunk;
		for (size_t i = 0; i < now; i++)
			piece[i] = byte_at(from + i);
		output_add(o, (struct str){ piece, now });
		from += now;
		n -= now;
	}
	free(piece);
}

/* The rule in its plainest form: all of it, or the first 3/4 and the last 1/4 of max. */
static void check(struct runtime_output *o, uint64_t total, uint64_t max, size_t step)
{
	uint64_t head = total > max ? max / 4 * 3 : total;
	uint64_t size = total > max ? max : total, at = 0;
	char *data = mem_new(step, 1);
	ssize_t n;

	assert_int_equal(runtime_output_size(o), size);
	assert_int_equal(runtime_output_dropped(o), total - size);
	if (total > max)
		assert_int_equal(runtime_output_head(o), head);
	while ((n = runtime_output_read(o, at, data, step)) > 0) {
		for (ssize_t i = 0; i < n; i++, at++) {
			uint64_t source = at < head ? at : at + (total - size);
			if (data[i] != byte_at(source))
				fail_msg("byte %lu of %lu/%lu", at, total, max);
		}
	}
	assert_int_equal(n, 0);
	assert_int_equal(at, size);
	free(data);
}

static const struct {
	uint64_t max, total;
	size_t chunk;
} cases[] = {
	{ 1000, 0, 10 },
	{ 1000, 1, 1 },
	{ 1000, 999, 7 },
	{ 1000, 1000, 1000 },
	{ 1000, 1001, 1001 },
	{ 1000, 1001, 1 },
	{ 1000, 5000, 333 },
	{ 1000, 100000, 100000 },
	{ 3, 10, 2 },
	{ 1, 5, 5 },
	{ OUTPUT_MEMORY, OUTPUT_MEMORY, 65536 },
	{ OUTPUT_MEMORY, OUTPUT_MEMORY + 1, 65536 },
	{ OUTPUT_MEMORY + 1, OUTPUT_MEMORY + 1, 4096 },
	{ OUTPUT_MEMORY + 1000, OUTPUT_MEMORY * 3, 10007 },
	{ 1u << 20, 1u << 20, 65536 },
	{ 1u << 20, (1u << 20) + 1, 65536 },
	{ 1u << 20, 7u << 20, 262144 },
};

static void head_and_tail_are_kept_exactly(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct runtime_output *o = output_new((size_t)cases[i].max, "/tmp");
		feed(o, 0, cases[i].total, cases[i].chunk);
		check(o, cases[i].total, cases[i].max, 4096);
		check(o, cases[i].total, cases[i].max, 777);
		runtime_output_free(o);
	}
}

static void any_cutting_of_the_stream_gives_the_same(void **state)
{
	unsigned seed = 1;

	for (int round = 0; round < 200; round++) {
		uint64_t max = 1 + (uint64_t)rand_r(&seed) % 3000, total = 0;
		struct runtime_output *o = output_new((size_t)max, "/tmp");
		for (int i = 0; i < 20; i++) {
			size_t n = (size_t)rand_r(&seed) % 900;
			feed(o, total, n, n ? n : 1);
			total += n;
			check(o, total, max, 64);
		}
		runtime_output_free(o);
	}
}

static void without_a_file_the_beginning_stays_and_the_rest_counts_as_dropped(void **state)
{
	struct runtime_output *o = output_new(1u << 20, "/does/not/exist");
	const uint64_t total = 700000;
	char data[16];

	feed(o, 0, total, 65536);
	assert_int_equal(runtime_output_size(o), OUTPUT_MEMORY);
	assert_int_equal(runtime_output_dropped(o), total - OUTPUT_MEMORY);
	assert_int_equal(runtime_output_head(o), OUTPUT_MEMORY);
	assert_int_equal(runtime_output_read(o, OUTPUT_MEMORY - 3, data, sizeof(data)), 3);
	assert_int_equal(data[2], byte_at(OUTPUT_MEMORY - 1));
	assert_int_equal(runtime_output_read(o, OUTPUT_MEMORY, data, sizeof(data)), 0);
	runtime_output_free(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(head_and_tail_are_kept_exactly),
		cmocka_unit_test(any_cutting_of_the_stream_gives_the_same),
		cmocka_unit_test(without_a_file_the_beginning_stays_and_the_rest_counts_as_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
