// SPDX-License-Identifier: Apache-2.0
#include "egress/list.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "egress/rule.h"

#define TEXT_MAX (1u * 1024 * 1024) /* of one text before it is looked at; requests are shorter */

void egress_list_fini(struct egress_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->rules[i]);
	free(list->rules);
	*list = EGRESS_LIST;
}

static bool put(struct egress_list *list, struct str rule)
{
	for (size_t i = 0; i < list->n; i++) {
		if (str_eq(str_of(list->rules[i]), rule))
			return true;
	}
	if (list->n == EGRESS_LIST_MAX)
		return false;
	list->rules = mem_grow(list->rules, list->n + 1, sizeof(list->rules[0]));
	list->rules[list->n++] = mem_dup_n(rule.data, rule.len);
	return true;
}

bool egress_list_add(struct egress_list *list, struct str raw)
{
	_cleanup_buf_ struct buf text = BUF(TEXT_MAX);
	struct str rule = egress_normalise(raw, &text);
	const struct egress_preset *preset = egress_preset_find(rule);
	bool fits = true;

	if (!preset)
		return put(list, rule);
	for (size_t i = 0; preset->hosts[i] && fits; i++)
		fits = put(list, str_of(preset->hosts[i]));
	return fits;
}

bool egress_list_covers(const struct egress_list *policy, struct str rule)
{
	if (!egress_rule_is_valid(rule))
		return false;
	for (size_t i = 0; i < policy->n; i++) {
		if (egress_rule_covers(str_of(policy->rules[i]), rule))
			return true;
	}
	return false;
}
