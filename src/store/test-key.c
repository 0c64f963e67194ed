// SPDX-License-Identifier: Apache-2.0
/* Issued keys. */
#include "store/test-rig.h"

struct keys_seen {
	unsigned n;
	char ids[4][16];
	int64_t revoked_us[4];
};

static void see_key(void *data, const struct store_key *row)
{
	struct keys_seen *seen = data;

	assert_string_equal(row->tenant, "a");
	assert_string_equal(row->name, "for \"tests\"");
	assert_string_equal(row->hash, "00ff");
	snprintf(seen->ids[seen->n % 4], 16, "%s", row->key_id);
	seen->revoked_us[seen->n++ % 4] = row->revoked_us;
}

static void keys_come_back_oldest_first_and_are_revoked_once(void **state)
{
	struct fixture *f = *state;
	struct store_key row = { "bbbbbbbbbb", "a", "for \"tests\"", "00ff", 1, 0 };
	struct keys_seen seen = { 0 };
	struct err err;
	unsigned n = 0;

	must_open(f);
	store_put_key(f->store, &row, count, &n);
	row.key_id = "aaaaaaaaaa";
	row.created_us = 2;
	store_put_key(f->store, &row, count, &n);
	store_revoke_key(f->store, "bbbbbbbbbb", 7, count, &n);
	store_revoke_key(f->store, "bbbbbbbbbb", 9, count, &n);
	run_until(f, &n, 4);
	must_close(f);
	must_open(f);
	assert_int_equal(store_load_keys(f->store, see_key, &seen, &err), 0);
	assert_int_equal(seen.n, 2);
	assert_string_equal(seen.ids[0], "bbbbbbbbbb");
	assert_int_equal(seen.revoked_us[0], 7);
	assert_int_equal(seen.revoked_us[1], 0);
	must_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(keys_come_back_oldest_first_and_are_revoked_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
