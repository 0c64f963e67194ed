// SPDX-License-Identifier: Apache-2.0
#include "core/tenant.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/parts.h"
#include "store/store.h"

struct tenant *tenant_find(struct core *c, struct str name)
{
	for (struct tenant *t = c->tenants; t; t = t->next) {
		if (str_eq(str_of(t->name), name))
			return t;
	}
	return NULL;
}

static const struct tenant_limits *limits_of(struct core *c, struct str name)
{
	for (struct limits_entry *e = c->limits; e; e = e->next) {
		if (str_eq(str_of(e->tenant), name))
			return &e->limits;
	}
	return &c->limits_all;
}

static void apply_limits(struct tenant *t, const struct tenant_limits *limits)
{
	t->limits = *limits;
	/* A bucket starts full when its capacity changes, else it stays as it is. */
	if (t->rate.capacity != limits->requests_per_minute)
		rate_init(&t->rate, limits->requests_per_minute, clock_monotonic_us());
}

struct tenant *tenant_add(struct core *c, struct str name, uint32_t number)
{
	struct tenant *t = tenant_find(c, name);

	if (t)
		return t;
	t = mem_new(1, sizeof(*t));
	t->number = number;
	t->name = mem_dup_n(name.data, name.len);
	apply_limits(t, limits_of(c, name));
	t->next = c->tenants;
	c->tenants = t;
	return t;
}

int tenant_make(struct core *c, struct str name, struct tenant **ret, struct err *err)
{
	struct tenant *t = tenant_find(c, name);
	uint32_t number;

	if (t) {
		*ret = t;
		return 0;
	}
	_cleanup_free_ char *text = mem_dup_n(name.data, name.len);
	int r = store_tenant_number(c->store, text, &number, err);
	if (r < 0)
		return r;
	*ret = tenant_add(c, name, number);
	return 0;
}

void core_clear_limits(struct core *c)
{
	for (struct limits_entry *e = c->limits, *next; e; e = next) {
		next = e->next;
		free(e->tenant);
		free(e);
	}
	c->limits = NULL;
}

void core_set_limits(struct core *c, struct str tenant, const struct tenant_limits *limits)
{
	if (!tenant.data) {
		c->limits_all = *limits;
	} else {
		struct limits_entry *e = mem_new(1, sizeof(*e));
		e->tenant = mem_dup_n(tenant.data, tenant.len);
		e->limits = *limits;
		e->next = c->limits;
		c->limits = e;
	}
	for (struct tenant *t = c->tenants; t; t = t->next)
		apply_limits(t, limits_of(c, str_of(t->name)));
}

void tenants_free(struct core *c)
{
	for (struct tenant *t = c->tenants, *next; t; t = next) {
		next = t->next;
		assert(!t->files[FILES_QUICK].first && !t->files[FILES_SLOW].first);
		usage_free(t);
		free(t->name);
		free(t);
	}
	c->tenants = NULL;
	core_clear_limits(c);
}
