// SPDX-License-Identifier: Apache-2.0
/*
 * rule: names that a sandbox may be allowed to reach, as pure text. A rule is a host name or
 * "*." and a host name; a preset stands for a list of rules. Shared by the configuration (policy)
 * and by sessions (request).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

struct egress_preset {
	const char *name;
	const char *const *hosts; /* NULL-terminated, in the order of the contract */
};

/* NULL: not the name of a preset. */
const struct egress_preset *egress_preset_find(struct str name);

/* Trims, lowers ASCII letters, drops dots at the end; into out (emptied first). */
struct str egress_normalise(struct str raw, struct buf *out);
/* Whether a normalised text is a rule: labels 1-63 of a-z 0-9 - _, at most 253 in all, the last
 * label not numeric; at least two labels after "*.". */
bool egress_rule_is_valid(struct str rule);

/* Whether a rule allows a canonical host name (egress/host.h): the exact name, or for "*.x" any
 * depth below x but not x. Both valid and normalised. */
bool egress_rule_allows(struct str rule, struct str host);
/* Whether a policy rule covers a requested one: the same rule; an exact host that the policy's
 * wildcard allows; a wildcard that lies under the policy's wildcard. */
bool egress_rule_covers(struct str policy, struct str rule);

/* Puts ['a', 'b'] into out, cut with an ellipsis after max_chars characters; items as given,
 * presets as their hosts, duplicates left out. */
void egress_put_list(struct buf *out, const struct str *items, size_t n, size_t max_chars);
