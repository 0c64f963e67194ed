// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/mem.h"
#include "egress/rule.h"

#define L57 "abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz_012"
#define L61 L57 "3456"
#define L63 L61 "78"

static void a_rule_allows_its_host_or_what_is_below(void **state)
{
	static const struct {
		struct str rule, host;
		bool allows;
	} table[] = {
		{ STR("example.com"), STR("example.com"), true },
		{ STR("example.com"), STR("a.example.com"), false },
		{ STR("example.com"), STR("badexample.com"), false },
		{ STR("example.com"), STR("example.co"), false },
		{ STR("example.com"), STR("example.comm"), false },
		{ STR("example.com"), STR("com"), false },
		{ STR("example.com"), STR(""), false },
		{ STR("example.com"), STR("exampleXcom"), false },
		{ STR("*.example.com"), STR("a.example.com"), true },
		{ STR("*.example.com"), STR("a.b.example.com"), true },
		{ STR("*.example.com"), STR("example.com"), false },
		{ STR("*.example.com"), STR(".example.com"), false },
		{ STR("*.example.com"), STR("badexample.com"), false },
		{ STR("*.example.com"), STR("a.badexample.com"), false },
		{ STR("*.example.com"), STR("a.example.com.evil"), false },
		{ STR("*.example.com"), STR("com"), false },
		{ STR("*.example.com"), STR(""), false },
		{ STR("*.example.com"), STR("a.example.com\0"), false },
		{ STR("*.huggingface.co"), STR("cdn-lfs.huggingface.co"), true },
		{ STR("*.huggingface.co"), STR("huggingface.co"), false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (egress_rule_allows(table[i].rule, table[i].host) != table[i].allows)
			fail_msg("%s, %s", table[i].rule.data, table[i].host.data);
	}
}

static void a_policy_covers_what_it_would_allow(void **state)
{
	static const struct {
		struct str policy, rule;
		bool covers;
	} table[] = {
		{ STR("example.com"), STR("example.com"), true },
		{ STR("example.com"), STR("a.example.com"), false },
		{ STR("example.com"), STR("*.example.com"), false },
		{ STR("*.example.com"), STR("a.example.com"), true },
		{ STR("*.example.com"), STR("a.b.example.com"), true },
		{ STR("*.example.com"), STR("example.com"), false },
		{ STR("*.example.com"), STR("badexample.com"), false },
		{ STR("*.example.com"), STR("*.example.com"), true },
		{ STR("*.example.com"), STR("*.a.example.com"), true },
		{ STR("*.example.com"), STR("*.a.b.example.com"), true },
		{ STR("*.example.com"), STR("*.badexample.com"), false },
		{ STR("*.example.com"), STR("*.com"), false },
		{ STR("*.example.com"), STR("com"), false },
		{ STR("*.a.example.com"), STR("*.example.com"), false },
		{ STR("*.a.example.com"), STR("a.example.com"), false },
		{ STR("*.example.com"), STR("http://x"), false },
		{ STR("*.example.com"), STR("10.0.0.1"), false },
		{ STR("*.example.com"), STR(""), false },
		{ STR("*.example.com"), STR("*."), false },
		{ STR("example.com"), STR("*."), false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (egress_rule_covers(table[i].policy, table[i].rule) != table[i].covers)
			fail_msg("%s, %s", table[i].policy.data, table[i].rule.data);
	}
}

/* Over all rules of three names: covered is exactly what adds no host. */
static void covered_means_that_no_host_is_added(void **state)
{
	static const char *const names[] = { "x.y",   "a.x.y",	 "b.a.x.y", "ax.y", "y.x",
					     "*.x.y", "*.a.x.y", "*.ax.y",  "*.y.x" };
	static const char *const hosts[] = { "y",	  "x.y",   "a.x.y",   "b.a.x.y",
					     "c.b.a.x.y", "ax.y",  "b.ax.y",  "y.x",
					     "a.y.x",	  "q.x.y", "q.a.x.y", "x",
					     "a.b.a.x.y" };

	for (size_t p = 0; p < ARRAY_SIZE(names); p++) {
		for (size_t r = 0; r < ARRAY_SIZE(names); r++) {
			bool adds = false;
			for (size_t h = 0; h < ARRAY_SIZE(hosts); h++)
				adds = adds ||
				       (egress_rule_allows(str_of(names[r]), str_of(hosts[h])) &&
					!egress_rule_allows(str_of(names[p]), str_of(hosts[h])));
			if (egress_rule_covers(str_of(names[p]), str_of(names[r])) == adds)
				fail_msg("%s, %s", names[p], names[r]);
		}
	}
}

static void a_rule_is_a_name_or_a_wildcard(void **state)
{
	static const struct {
		struct str rule;
		bool valid;
	} table[] = {
		{ STR("example.com"), true },
		{ STR("localhost"), true },
		{ STR("_a-b.example"), true },
		{ STR("xn--mnchen-3ya.example"), true },
		{ STR("*.example.com"), true },
		{ STR("*.com"), false },
		{ STR("*"), false },
		{ STR("*."), false },
		{ STR("*.*.com"), false },
		{ STR("a.*.com"), false },
		{ STR("a*.example.com"), false },
		{ STR(""), false },
		{ STR("."), false },
		{ STR(".example.com"), false },
		{ STR("a..example"), false },
		{ STR("example.com."), false },
		{ STR("Example.com"), false },
		{ STR("http://x"), false },
		{ STR("example.com:443"), false },
		{ STR("a b.example"), false },
		{ STR("a.example\0"), false },
		{ STR("caf\xc3\xa9.example"), false },
		{ STR("09az.az09"), true },
		{ STR("a.9z"), true },
		{ STR("a.9"), false },
		{ STR("9"), false },
		{ STR(L63 ".a"), true },
		{ STR(L63 "x.a"), false },
		{ STR("a." L63 "x"), false },
		{ STR(L63 "." L63 "." L63 "." L61), true },
		{ STR(L63 "." L63 "." L63 "." L61 "x"), false },
		{ STR("*." L63 "." L63 "." L63 ".a" L57 "b"), true },
		{ STR("*." L63 "." L63 "." L63 ".a" L57 "bc"), false },
		{ STR("10.0.0.1"), false },
		{ STR("*.0.0.1"), false },
		{ STR("::1"), false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		assert_int_equal(egress_rule_is_valid(table[i].rule), table[i].valid);
}

static void normal_form_is_trimmed_lowered_and_without_dots(void **state)
{
	_cleanup_buf_ struct buf out = BUF(512);

	assert_true(str_eq(egress_normalise(STR(" \tExample.COM.. \n"), &out), STR("example.com")));
	assert_true(str_eq(egress_normalise(STR("*.Example.COM"), &out), STR("*.example.com")));
	assert_true(str_eq(egress_normalise(STR(" . "), &out), STR("")));
	assert_true(str_eq(egress_normalise(STR("AZ@[az`{09"), &out), STR("az@[az`{09")));
	assert_true(str_eq(egress_normalise(STR("\xc3\x89"), &out), STR("\xc3\x89")));
}

static void every_host_of_a_preset_is_a_rule(void **state)
{
	static const struct {
		const char *name;
		size_t hosts;
	} table[] = {
		{ "pypi", 2 }, { "npm", 1 }, { "github", 4 }, { "huggingface", 3 }, { "llm", 10 }
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		const struct egress_preset *preset = egress_preset_find(str_of(table[i].name));
		size_t n = 0;
		assert_non_null(preset);
		for (; preset->hosts[n]; n++)
			assert_true(egress_rule_is_valid(str_of(preset->hosts[n])));
		assert_int_equal(n, table[i].hosts);
	}
	assert_null(egress_preset_find(STR("pyp")));
	assert_null(egress_preset_find(STR("")));
}

static void a_list_has_each_item_once(void **state)
{
	static const struct {
		struct str items[3];
		size_t n, max;
		const char *out;
	} table[] = {
		{ { { NULL, 0 } }, 0, 100, "[]" },
		{ { { "A.example.", 10 } }, 1, 100, "['a.example']" },
		{ { { "b", 1 }, { "a", 1 }, { "b", 1 } }, 3, 100, "['b', 'a']" },
		{ { { "pypi", 4 }, { "pypi.org", 8 }, { "npm", 3 } },
		  3,
		  100,
		  "['pypi.org', 'files.pythonhosted.org', 'registry.npmjs.org']" },
		{ { { "ab", 2 }, { "cd", 2 } }, 2, 10, "['ab', 'cd']" },
		{ { { "ab", 2 }, { "cd", 2 } }, 2, 9, "['ab', 'cd…]" },
		{ { { "ab", 2 } }, 1, 0, "[…]" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_buf_ struct buf out = BUF(512);
		egress_put_list(&out, table[i].items, table[i].n, table[i].max);
		assert_string_equal(out.data, table[i].out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rule_allows_its_host_or_what_is_below),
		cmocka_unit_test(a_policy_covers_what_it_would_allow),
		cmocka_unit_test(covered_means_that_no_host_is_added),
		cmocka_unit_test(a_rule_is_a_name_or_a_wildcard),
		cmocka_unit_test(normal_form_is_trimmed_lowered_and_without_dots),
		cmocka_unit_test(every_host_of_a_preset_is_a_rule),
		cmocka_unit_test(a_list_has_each_item_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
