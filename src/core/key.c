// SPDX-License-Identifier: Apache-2.0
/*
 * Static keys. A candidate is compared with every key there is, in time that depends on its length
 * and the number of keys alone: neither which key matches nor how far one matches can be measured.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "core/parts.h"

int core_add_key(struct core *c, struct str tenant, struct str key, struct err *err)
{
	struct tenant *t;

	assert(key.len);
	int r = tenant_make(c, tenant, &t, err);
	if (r < 0)
		return r;
	struct static_key *k = mem_new(1, sizeof(*k));
	k->tenant = t;
	k->text = mem_dup_n(key.data, key.len);
	k->len = key.len;
	k->next = c->keys;
	c->keys = k;
	return 0;
}

struct tenant *key_find(struct core *c, struct str key, const char **ret_actor)
{
	uintptr_t found = 0;

	for (const struct static_key *k = c->keys; k; k = k->next) {
		/* All ones or all zeroes, so that no branch depends on the comparison. */
		uintptr_t mask = (uintptr_t)0 -
				 (uintptr_t)str_eq_secret(key, (struct str){ k->text, k->len });
		found = (found & ~mask) | ((uintptr_t)k->tenant & mask);
	}
	if (!found)
		return NULL;
	*ret_actor = "static key";
	return (struct tenant *)found;
}

void keys_free(struct core *c)
{
	for (struct static_key *k = c->keys, *next; k; k = next) {
		next = k->next;
		explicit_bzero(k->text, k->len);
		free(k->text);
		free(k);
	}
	c->keys = NULL;
}
