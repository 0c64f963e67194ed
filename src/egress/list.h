// SPDX-License-Identifier: Apache-2.0
/*
 * list: the rules that somebody named, as the contract wants them (7.2): normalised, presets
 * replaced by their hosts, in the order given, each once. Texts that are no rule are kept, so that
 * a refusal can name them; who wants rules alone asks egress_rule_is_valid.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* Of one list; duplicates are looked for one by one. */
#define EGRESS_LIST_MAX 4096u

struct egress_list {
	char **rules; /* owned */
	size_t n;
};

#define EGRESS_LIST ((struct egress_list){ NULL, 0 })
#define _cleanup_egress_list_ __attribute__((cleanup(egress_list_fini)))

void egress_list_fini(struct egress_list *list);
/* False when it would hold more than EGRESS_LIST_MAX; what fits is in it then. */
bool egress_list_add(struct egress_list *list, struct str raw);
/* Whether one of the policy's rules covers this one; never when it is no rule. */
bool egress_list_covers(const struct egress_list *policy, struct str rule);
