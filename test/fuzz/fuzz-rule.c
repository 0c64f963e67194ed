// SPDX-License-Identifier: Apache-2.0
/*
 * Any text as rules of a policy and of a request, and as a host.
 *
 * Whatever the input: a valid rule is its own normal form; a rule allows a host exactly when a
 * comparison label by label (this file's own) says so; a rule that is covered allows no host that
 * the policy does not, and whatever is allowed is covered as a rule of its own. A list is never
 * longer than it may be.
 *
 * Input: lines. Policy, two rules, host; the list is made of all of them.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "egress/host.h"
#include "egress/rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LABELS 256u

struct labels {
	struct str at[LABELS];
	size_t n;
};

static void split(struct str text, struct labels *ret)
{
	ret->n = 0;
	while (ret->n < LABELS && str_split(&text, '.', &ret->at[ret->n]))
		ret->n++;
}

static bool allows(struct str rule, struct str host)
{
	static struct labels r, h;
	size_t first;

	split(rule, &r);
	split(host, &h);
	first = str_eq(r.at[0], STR("*"));
	if (first ? h.n < r.n : h.n != r.n)
		return false;
	for (size_t i = 0; i < r.n - first; i++) {
		if (!str_eq(r.at[r.n - 1 - i], h.at[h.n - 1 - i]))
			return false;
	}
	return true;
}

static void check_pair(struct str policy, struct str rule, struct str host)
{
	bool wide = str_starts(rule, STR("*."));

	assert(egress_rule_covers(rule, rule));
	assert(egress_rule_allows(rule, host) == allows(rule, host));
	if (!egress_rule_covers(policy, rule))
		assert(wide || !egress_rule_allows(policy, rule));
	else if (egress_rule_allows(rule, host))
		assert(egress_rule_allows(policy, host));
	if (!wide)
		assert(egress_rule_covers(policy, rule) == allows(policy, rule));
	assert(egress_rule_covers(policy, host) == egress_rule_allows(policy, host));
}

static void check_valid(struct str rule)
{
	bool wide = str_starts(rule, STR("*."));
	struct str name = wide ? str_from(rule, 2) : rule;

	assert(name.len && rule.len <= EGRESS_HOST_MAX && !memchr(name.data, '*', name.len));
	assert(egress_rule_covers(rule, rule));
	assert(!wide || !egress_rule_allows(rule, name));
	assert(wide || egress_rule_allows(rule, name));
}

static void check_list(const struct str *items, size_t n, size_t max_chars)
{
	_cleanup_buf_ struct buf out = BUF(1u << 20);

	egress_put_list(&out, items, n, max_chars);
	assert(out.len >= 2 && out.data[0] == '[' && out.data[out.len - 1] == ']');
	assert(utf8_valid(buf_str(&out)) && utf8_count(buf_str(&out)) <= max_chars + 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf forms[4] = { BUF(1u << 20), BUF(1u << 20), BUF(1u << 20), BUF(1u << 20) };
	struct str rest = { (const char *)data, size }, items[4];
	struct egress_host host;
	size_t n = 0;

	/* Text of rules comes out of JSON, which has checked that. */
	if (!utf8_valid(rest))
		return 0;
	while (n < 4 && str_split(&rest, '\n', &items[n]))
		n++;
	for (size_t i = 0; i < n; i++) {
		_cleanup_buf_ struct buf again = BUF(1u << 20);
		struct str form = egress_normalise(items[i], &forms[i]);
		if (!egress_rule_is_valid(form))
			continue;
		assert(str_eq(egress_normalise(form, &again), form));
		check_valid(form);
	}
	if (n == 4)
		egress_host_parse(items[3], &host);
	for (size_t p = 0; n == 4 && p < 3 && host.kind == EGRESS_HOST_NAME; p++) {
		for (size_t r = 0; r < 3; r++) {
			struct str policy = buf_str(&forms[p]), rule = buf_str(&forms[r]);
			if (egress_rule_is_valid(policy) && egress_rule_is_valid(rule))
				check_pair(policy, rule, (struct str){ host.text, host.len });
		}
	}
	check_list(items, n, size % 300);
	for (size_t i = 0; i < 4; i++)
		buf_fini(&forms[i]);
	return 0;
}
