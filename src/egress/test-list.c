// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/mem.h"
#include "egress/list.h"

#define ITEMS_MAX 6

static void a_list_is_normalised_expanded_and_without_duplicates(void **state)
{
	static const struct {
		const char *items[ITEMS_MAX], *rules[ITEMS_MAX];
	} cases[] = {
		{ { "pypi" }, { "pypi.org", "files.pythonhosted.org" } },
		{ { " PyPI. " }, { "pypi.org", "files.pythonhosted.org" } },
		{ { "files.pythonhosted.org", "pypi", "PYPI.org" },
		  { "files.pythonhosted.org", "pypi.org" } },
		{ { "*.Example.com", "b.example.com..", "*.example.com" },
		  { "*.example.com", "b.example.com" } },
		{ { "http://x", " ", "http://X" }, { "http://x", "" } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_egress_list_ struct egress_list list = EGRESS_LIST;
		size_t n = 0;
		for (size_t k = 0; k < ITEMS_MAX && cases[i].items[k]; k++)
			assert_true(egress_list_add(&list, str_of(cases[i].items[k])));
		for (; n < ITEMS_MAX && cases[i].rules[n]; n++) {
			assert_true(n < list.n);
			assert_string_equal(list.rules[n], cases[i].rules[n]);
		}
		assert_int_equal(list.n, n);
	}
}

static void only_a_rule_can_be_covered(void **state)
{
	static const struct {
		const char *rule;
		bool covered;
	} cases[] = {
		{ "sub.example.com", true },
		{ "*.example.com", true },
		{ "*.deep.example.com", true },
		{ "a.b.example.com", true },
		{ "example.com", false },
		{ "*.com", false },
		{ "badexample.com", false },
		{ "http://sub.example.com", false },
		{ "10.0.0.1", false },
		{ "", false },
		{ "one.org", true },
		{ "*.one.org", false },
	};
	_cleanup_egress_list_ struct egress_list policy = EGRESS_LIST;

	assert_true(egress_list_add(&policy, STR("one.org")));
	assert_true(egress_list_add(&policy, STR("*.example.com")));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (egress_list_covers(&policy, str_of(cases[i].rule)) != cases[i].covered)
			fail_msg("%s", cases[i].rule);
	}
}

static void a_list_has_an_end(void **state)
{
	_cleanup_egress_list_ struct egress_list list = EGRESS_LIST;
	char name[32];

	for (unsigned i = 0; i < EGRESS_LIST_MAX; i++) {
		snprintf(name, sizeof(name), "h%u.example.com", i);
		assert_true(egress_list_add(&list, str_of(name)));
	}
	assert_false(egress_list_add(&list, STR("one-more.example.com")));
	assert_true(egress_list_add(&list, STR("h7.example.com")));
	assert_int_equal(list.n, EGRESS_LIST_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_is_normalised_expanded_and_without_duplicates),
		cmocka_unit_test(only_a_rule_can_be_covered),
		cmocka_unit_test(a_list_has_an_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
