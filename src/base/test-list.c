// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/list.h"

struct thing {
	int value;
	struct list node;
};

static void things_come_out_in_order(void **state)
{
	struct thing things[3] = { { .value = 1 }, { .value = 2 }, { .value = 3 } };
	struct list head;
	int want = 1;

	list_init(&head);
	assert_true(list_is_empty(&head));
	assert_null(list_first(&head));
	for (size_t i = 0; i < 3; i++)
		list_append(&head, &things[i].node);
	list_each(at, &head) assert_int_equal(container_of(at, struct thing, node)->value, want++);
	assert_int_equal(want, 4);
	list_remove(&things[0].node);
	assert_ptr_equal(list_first(&head), &things[1].node);
}

static void the_present_node_may_be_removed_and_removing_twice_is_no_harm(void **state)
{
	struct thing things[5];
	struct list head;
	int n = 0;

	list_init(&head);
	for (size_t i = 0; i < 5; i++)
		list_append(&head, &things[i].node);
	list_each(at, &head)
	{
		list_remove(at);
		list_remove(at);
		assert_true(list_is_empty(at));
		n++;
	}
	assert_int_equal(n, 5);
	assert_true(list_is_empty(&head));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(things_come_out_in_order),
		cmocka_unit_test(the_present_node_may_be_removed_and_removing_twice_is_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
