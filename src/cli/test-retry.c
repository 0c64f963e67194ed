// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cli/retry.h"

#define POST false
#define GET true
#define NONE -1

static void each_event_waits_as_the_contract_says(void **state)
{
	static const struct {
		struct retry_event e;
		long wait;
	} rows[] = {
		/* 429: the header, when it is short */
		{ { POST, 429, 20, 0 }, 20 },
		{ { POST, 429, 30, 0 }, 30 },
		{ { POST, 429, 31, 0 }, NONE },
		{ { POST, 429, 0, 2 }, 0 },
		{ { POST, 429, -1, 0 }, 1 },
		{ { POST, 429, -1, 1 }, 2 },
		{ { GET, 429, -1, 2 }, 4 },
		/* 503: whichever is longer */
		{ { POST, 503, 5, 0 }, 5 },
		{ { POST, 503, 1, 2 }, 4 },
		{ { POST, 503, 31, 1 }, 2 },
		{ { POST, 503, -1, 0 }, 1 },
		/* no answer: only what may be repeated */
		{ { GET, 0, -1, 0 }, 1 },
		{ { GET, 0, -1, 2 }, 4 },
		{ { POST, 0, -1, 0 }, NONE },
		/* anything else stands */
		{ { GET, 200, -1, 0 }, NONE },
		{ { GET, 404, 1, 0 }, NONE },
		{ { GET, 500, 1, 0 }, NONE },
		{ { GET, 502, -1, 0 }, NONE },
		/* at most three repeats */
		{ { GET, 429, 1, 3 }, NONE },
		{ { GET, 503, -1, 3 }, NONE },
		{ { GET, 0, -1, 3 }, NONE },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		long wait = retry_wait(&rows[i].e);
		if (wait != rows[i].wait)
			fail_msg("row %zu: status %ld, attempt %u: %ld, not %ld", i,
				 rows[i].e.status, rows[i].e.attempt, wait, rows[i].wait);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_event_waits_as_the_contract_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
