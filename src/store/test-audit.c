// SPDX-License-Identifier: Apache-2.0
/* Records of commands. */
#include "store/test-rig.h"

static struct store_audit record(uint64_t id, int64_t at_us)
{
	return (struct store_audit){ .id = id,
				     .at_us = at_us,
				     .tenant = "a",
				     .session = "sbx_000000000001",
				     .actor = "static key",
				     .kind = "exec",
				     .command = "echo \xc3\xbc",
				     .exit_code = 3,
				     .duration_ms = 1500 };
}

struct pages {
	unsigned n;	 /* answers */
	uint64_t ids[8]; /* of the last page */
	size_t rows;
	bool more;
	struct store_audit last; /* its texts are gone */
	char detail[64];
};

static void on_page(void *data, const struct store_audit_page *page, const struct err *err)
{
	struct pages *pages = data;

	assert_null(err);
	pages->n++;
	pages->rows = page->n;
	pages->more = page->more;
	for (size_t i = 0; i < page->n; i++) {
		pages->ids[i % 8] = page->rows[i].id;
		pages->last = page->rows[i];
		assert_string_equal(page->rows[i].command, "echo \xc3\xbc");
		assert_string_equal(page->rows[i].session, "sbx_000000000001");
		snprintf(pages->detail, sizeof(pages->detail), "%s",
			 page->rows[i].detail ? page->rows[i].detail : "none");
	}
}

static void page(struct fixture *f, struct store_audit_query query, struct pages *pages)
{
	unsigned want = pages->n + 1;

	store_page_audit(f->store, &query, on_page, pages);
	run_until(f, &pages->n, want);
}

static void a_page_follows_the_one_before(void **state)
{
	struct fixture *f = *state;
	static const int64_t times[] = { 10, 20, 20, 20, 30 };
	struct store_audit_query query = { "a", 0, INT64_MAX, 0, 2 };
	struct pages pages = { 0 };
	uint64_t want = 5;

	must_open(f);
	for (uint64_t id = 1; id <= 5; id++) {
		struct store_audit row = record(id, times[id - 1]);
		store_put_audit(f->store, &row, NULL, NULL);
	}
	struct store_audit other = record(6, 40);
	other.tenant = "b";
	store_put_audit(f->store, &other, NULL, NULL);
	do {
		page(f, query, &pages);
		for (size_t i = 0; i < pages.rows; i++)
			assert_int_equal(pages.ids[i], want--);
		query.before_us = pages.last.at_us;
		query.before_id = (uint32_t)pages.last.id;
	} while (pages.more);
	assert_int_equal(want, 0);
	assert_int_equal(pages.n, 3);
	assert_false(pages.last.failed);
	assert_int_equal(pages.last.exit_code, 3);
	assert_int_equal(pages.last.duration_ms, 1500);
	assert_string_equal(pages.detail, "none");
	/* What is past its time is not shown, whether it is still there or not. */
	query = (struct store_audit_query){ "a", 20, INT64_MAX, 0, 100 };
	page(f, query, &pages);
	assert_int_equal(pages.rows, 4);
	must_close(f);
}

static void an_open_record_is_not_shown_and_becomes_a_failed_one(void **state)
{
	struct fixture *f = *state;
	struct store_audit_query query = { "a", 0, INT64_MAX, 0, 10 };
	struct store_audit first = record(1, 10), second = record(2, 11);
	struct pages pages = { 0 };
	struct err err;
	uint64_t last;

	must_open(f);
	assert_int_equal(store_audit_recover(f->store, 1, "x", &last, &err), 0);
	assert_int_equal(last, 0);
	first.open = second.open = true;
	first.failed = second.failed = true;
	store_put_audit(f->store, &first, NULL, NULL);
	store_put_audit(f->store, &second, NULL, NULL);
	second = record(2, 15);
	store_put_audit(f->store, &second, NULL, NULL);
	page(f, query, &pages);
	assert_int_equal(pages.rows, 1);
	assert_int_equal(pages.ids[0], 2);
	must_close(f);
	must_open(f);
	assert_int_equal(store_audit_recover(f->store, 99, "killed", &last, &err), 0);
	assert_int_equal(last, 2);
	page(f, query, &pages);
	assert_int_equal(pages.rows, 2);
	assert_int_equal(pages.ids[0], 1);
	query.limit = 1;
	page(f, query, &pages);
	assert_true(pages.last.failed);
	assert_int_equal(pages.last.at_us, 99);
	assert_string_equal(pages.detail, "killed");
	must_close(f);
}

static void old_records_are_forgotten_a_part_at_a_time(void **state)
{
	struct fixture *f = *state;
	struct store_audit_query query = { "a", 0, INT64_MAX, 0, 10 };
	struct number number = { 0 };
	struct pages pages = { 0 };

	must_open(f);
	for (uint64_t id = 1; id <= 1003; id++) {
		struct store_audit row = record(id, (int64_t)id);
		store_put_audit(f->store, &row, NULL, NULL);
	}
	store_prune_audit(f->store, 1002, on_number, &number);
	run_until(f, &number.n, 1);
	assert_int_equal(number.value, 1000);
	store_prune_audit(f->store, 1002, on_number, &number);
	run_until(f, &number.n, 2);
	assert_int_equal(number.value, 1);
	page(f, query, &pages);
	assert_int_equal(pages.rows, 2);
	must_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_page_follows_the_one_before),
		T(an_open_record_is_not_shown_and_becomes_a_failed_one),
		T(old_records_are_forgotten_a_part_at_a_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
