// SPDX-License-Identifier: Apache-2.0
/* Numbers of tenants. */
#include "store/test-rig.h"

static void tenant_numbers_never_change(void **state)
{
	struct fixture *f = *state;
	uint32_t a, b, again;
	struct err err;

	must_open(f);
	assert_int_equal(store_tenant_number(f->store, "a", &a, &err), 0);
	assert_int_equal(store_tenant_number(f->store, "b", &b, &err), 0);
	assert_int_not_equal(a, b);
	assert_int_not_equal(a, 0);
	must_close(f);
	must_open(f);
	assert_int_equal(store_tenant_number(f->store, "b", &again, &err), 0);
	assert_int_equal(b, again);
	must_close(f);
}

static void a_tenant_that_comes_later_keeps_its_number(void **state)
{
	struct fixture *f = *state;
	struct number first = { 0 }, again = { 0 };
	struct err err;
	uint32_t at_start;

	must_open(f);
	store_add_tenant(f->store, "late", on_number, &first);
	store_add_tenant(f->store, "late", on_number, &again);
	run_until(f, &again.n, 1);
	assert_true(first.value > 0);
	assert_int_equal(first.value, again.value);
	must_close(f);
	must_open(f);
	assert_int_equal(store_tenant_number(f->store, "late", &at_start, &err), 0);
	assert_int_equal(at_start, first.value);
	must_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(tenant_numbers_never_change),
		T(a_tenant_that_comes_later_keeps_its_number),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
