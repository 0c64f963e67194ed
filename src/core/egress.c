// SPDX-License-Identifier: Apache-2.0
/*
 * What tenants may be allowed to reach, and what a session is. The policy counts when a session is
 * made; what it was allowed then it keeps, whatever the policy becomes.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "core/parts.h"
#include "egress/rule.h"

/* Of both lists in a refusal, by the contract (3.1). */
#define LIST_CHARS 2000u
/* So many rules are longer than that in any case. */
#define LIST_RULES 700u

/* ---- The policy ---- */

static void free_entries(struct egress_entry *entries, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		egress_list_fini(&entries[i].rules);
		free(entries[i].tenant);
	}
	free(entries);
}

void egress_free(struct core *c)
{
	free_entries(c->egress, c->n_egress);
	c->egress = NULL;
	c->n_egress = 0;
}

void core_set_egress(struct core *c, const struct core_egress *entries, size_t n)
{
	egress_free(c);
	c->egress = mem_new(n + 1, sizeof(*c->egress));
	for (size_t i = 0; i < n; i++) {
		struct egress_entry *e = &c->egress[c->n_egress++];
		if (entries[i].tenant)
			e->tenant = mem_dup(entries[i].tenant);
		for (size_t k = 0; k < entries[i].rules->n; k++)
			egress_list_add(&e->rules, str_of(entries[i].rules->rules[k]));
	}
}

const struct egress_list *core_egress(const struct core *c, const struct tenant *t)
{
	static const struct egress_list nothing;
	const struct egress_list *all = &nothing;

	for (size_t i = 0; i < c->n_egress; i++) {
		const struct egress_entry *e = &c->egress[i];
		if (!e->tenant)
			all = &e->rules;
		else if (strcmp(e->tenant, t->name) == 0)
			return &e->rules;
	}
	return all;
}

/* ---- A request ---- */

static void put_rules(struct buf *out, const struct egress_list *list, size_t chars)
{
	struct str items[LIST_RULES];
	size_t n = list->n < LIST_RULES ? list->n : LIST_RULES;

	for (size_t i = 0; i < n; i++)
		items[i] = str_of(list->rules[i]);
	egress_put_list(out, items, n, chars);
}

/* The rules of the request that the policy does not cover. */
static void pick_refused(const struct egress_list *policy, const struct egress_list *wanted,
			 struct egress_list *refused)
{
	for (size_t i = 0; i < wanted->n; i++) {
		if (!egress_list_covers(policy, str_of(wanted->rules[i])))
			egress_list_add(refused, str_of(wanted->rules[i]));
	}
}

static void put_refusal(struct buf *out, const struct egress_list *refused,
			const struct egress_list *policy, size_t chars)
{
	buf_clear(out);
	buf_put_text(out, "Egress not permitted for this tenant: ");
	put_rules(out, refused, chars);
	buf_put_text(out, ". Allowed: ");
	put_rules(out, policy, chars);
}

void egress_expand(const struct session_params *p, struct egress_list *ret)
{
	for (size_t i = 0; i < p->n_egress; i++)
		egress_list_add(ret, p->egress[i]);
}

void egress_put_refusal(const struct core *c, const struct tenant *t,
			const struct session_params *p, struct buf *out)
{
	_cleanup_egress_list_ struct egress_list wanted = EGRESS_LIST, refused = EGRESS_LIST;
	const struct egress_list *policy = core_egress(c, t);

	egress_expand(p, &wanted);
	pick_refused(policy, &wanted, &refused);
	put_refusal(out, &refused, policy, LIST_CHARS);
}

int egress_check(const struct core *c, const struct tenant *t, const struct session_params *p,
		 struct err *err)
{
	_cleanup_egress_list_ struct egress_list wanted = EGRESS_LIST, refused = EGRESS_LIST;
	_cleanup_buf_ struct buf text = BUF(64 * KIB);
	const struct egress_list *policy = core_egress(c, t);

	egress_expand(p, &wanted);
	pick_refused(policy, &wanted, &refused);
	if (!refused.n)
		return 0;
	/* The sentence must fit struct err, and whole characters of it. */
	for (size_t chars = LIST_CHARS; chars; chars -= chars / 4 + 1) {
		put_refusal(&text, &refused, policy, chars);
		if (text.len < sizeof(err->text))
			break;
	}
	return err_slug(err, EACCES, "egress_not_permitted", "%s", text.data);
}

/* ---- A session ---- */

void egress_open(struct core *c, struct session *s)
{
	const struct runtime_egress_spec spec = {
		.session = s->id,
		.tenant = s->tenant->name,
		.rules = (const char *const *)s->egress.rules,
		.n_rules = s->egress.n,
	};

	assert(!s->net);
	if (s->egress.n)
		s->net = runtime_egress_open(c->runtime, &spec);
}

void egress_close(struct core *c, struct session *s)
{
	if (s->net)
		runtime_egress_close(c->runtime, take_ptr(s->net));
}

/* ---- Tunnels ---- */

struct live_call {
	struct core *c;
	runtime_live_fn fn;
	void *data;
};

static void on_live(void *data, const struct runtime_live *live, size_t n)
{
	struct live_call *call = data;
	struct core *c = call->c;

	call->fn(call->data, live, n);
	free(call);
	core_release(c);
}

void session_egress_live(struct core *c, struct session *s, runtime_live_fn fn, void *data)
{
	struct live_call *call = mem_new(1, sizeof(*call));

	assert(s->net);
	*call = (struct live_call){ c, fn, data };
	core_hold(c);
	runtime_egress_live(c->runtime, s->net, on_live, call);
}
