// SPDX-License-Identifier: Apache-2.0
#include "core/key.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/rig.h"

struct outcome {
	unsigned n;
	const struct key *key;
	char text[KEY_TEXT_LEN + 1];
	const char *slug;
	char words[1024];
};

static void note(struct outcome *o, const struct key *key, const struct err *err)
{
	o->n++;
	o->key = key;
	o->slug = err ? err->slug : NULL;
	snprintf(o->words, sizeof(o->words), "%s", err ? err->text : "");
}

static void on_issued(void *data, const struct key *key, const char *text, const struct err *err)
{
	struct outcome *o = data;

	note(o, key, err);
	snprintf(o->text, sizeof(o->text), "%s", text ? text : "");
}

static void on_revoked(void *data, const struct key *key, const struct err *err)
{
	note(data, key, err);
}

static struct outcome issue(struct rig *r, const char *tenant, const char *name)
{
	struct outcome o = { 0 };

	key_issue(r->core, str_of(tenant), str_of(name), on_issued, &o);
	assert_int_equal(o.n, 0);
	rig_settle(r);
	assert_int_equal(o.n, 1);
	return o;
}

static struct outcome withdraw(struct rig *r, const struct tenant *tenant, const char *id)
{
	struct outcome o = { 0 };

	key_revoke(r->core, tenant, str_of(id), on_revoked, &o);
	assert_int_equal(o.n, 0);
	rig_settle(r);
	assert_int_equal(o.n, 1);
	return o;
}

static struct tenant *tenant_of(struct rig *r, const char *text)
{
	struct caller who = { 0 };

	return key_find(r->core, str_of(text), &who) ? who.tenant : NULL;
}

static void static_keys_find_their_tenant_and_nothing_else_does(void **state)
{
	struct rig *r = *state;
	struct caller who = { 0 };
	char actor[KEY_ACTOR_MAX];

	assert_true(key_find(r->core, STR("key-a"), &who));
	assert_ptr_equal(who.tenant, r->a);
	assert_null(who.key);
	caller_actor(&who, actor);
	assert_string_equal(actor, "static key");
	assert_ptr_equal(tenant_of(r, "key-b"), r->b);
	assert_null(tenant_of(r, "key-"));
	assert_null(tenant_of(r, "key-aa"));
	assert_null(tenant_of(r, ""));
	assert_false(key_find(r->core, (struct str){ NULL, 0 }, &who));
	assert_false(key_find(r->core, (struct str){ "key-a\0", 6 }, &who));
}

static void an_issued_key_works_until_it_is_revoked(void **state)
{
	struct rig *r = *state;
	struct outcome made = issue(r, "a", "  ci \t");
	struct caller who = { 0 };
	char actor[KEY_ACTOR_MAX], want[KEY_ACTOR_MAX];

	assert_string_equal(made.key->name, "ci");
	assert_int_equal(strlen(made.text), KEY_TEXT_LEN);
	assert_memory_equal(made.text, "asb_", 4);
	assert_memory_equal(made.text + 4, made.key->id, KEY_ID_LEN);
	assert_int_equal(strspn(made.key->id, "abcdefghijklmnopqrstuvwxyz234567"), KEY_ID_LEN);
	assert_true(key_find(r->core, str_of(made.text), &who));
	assert_ptr_equal(who.tenant, r->a);
	assert_ptr_equal(who.key, made.key);
	caller_actor(&who, actor);
	snprintf(want, sizeof(want), "key %s", made.key->id);
	assert_string_equal(actor, want);

	issue(r, "a", "another");
	assert_null(withdraw(r, r->a, made.key->id).slug);
	assert_null(tenant_of(r, made.text));
	assert_true(made.key->revoked_us > 0);
	int64_t first = made.key->revoked_us;
	rig_advance(r, RIG_SECOND);
	assert_null(withdraw(r, r->a, made.key->id).slug);
	assert_int_equal(made.key->revoked_us, first);
}

static void keys_and_what_was_revoked_survive_a_restart(void **state)
{
	struct rig *r = *state;
	struct outcome kept = issue(r, "newcomer", ""), gone;
	char id[KEY_ID_LEN + 1];

	rig_advance(r, 1);
	gone = issue(r, "newcomer", "x");

	assert_string_equal(kept.key->name, "unnamed");
	memcpy(id, gone.key->id, sizeof(id));
	uint32_t number = kept.key->tenant->number;
	withdraw(r, NULL, id);
	rig_close(r);
	rig_open(r);
	struct tenant *t = tenant_of(r, kept.text);
	assert_non_null(t);
	assert_string_equal(t->name, "newcomer");
	assert_int_equal(t->number, number);
	assert_int_equal(t->keys_active, 1);
	assert_null(tenant_of(r, gone.text));
	const struct key *k = key_next(r->core, t, NULL);
	k = key_next(r->core, t, k);
	assert_string_equal(k->id, id);
	assert_true(k->revoked_us > 0);
	assert_null(key_next(r->core, t, k));
	assert_null(key_next(r->core, r->a, NULL));
}

static void one_wrong_letter_is_another_key(void **state)
{
	struct rig *r = *state;
	struct outcome made = issue(r, "a", "");

	for (size_t i = 0; i < KEY_TEXT_LEN; i++) {
		char text[KEY_TEXT_LEN + 1];
		memcpy(text, made.text, sizeof(text));
		text[i] = text[i] == 'a' ? 'b' : 'a';
		assert_null(tenant_of(r, text));
	}
	char longer[KEY_TEXT_LEN + 2];
	snprintf(longer, sizeof(longer), "%sa", made.text);
	assert_null(tenant_of(r, longer));
	longer[KEY_TEXT_LEN - 1] = '\0';
	assert_null(tenant_of(r, longer));
	assert_ptr_equal(tenant_of(r, made.text), r->a);
}

static void ten_keys_are_enough_and_revoked_ones_do_not_count(void **state)
{
	struct rig *r = *state;
	struct outcome all[KEYS_ACTIVE_MAX + 2] = { 0 };
	struct outcome made;

	/* Asked for together, so that those under way have to count. */
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		key_issue(r->core, STR("a"), STR(""), on_issued, &all[i]);
	rig_settle(r);
	for (size_t i = 0; i < KEYS_ACTIVE_MAX; i++)
		assert_null(all[i].slug);
	assert_string_equal(all[KEYS_ACTIVE_MAX].slug, "too_many_keys");
	assert_string_equal(all[KEYS_ACTIVE_MAX + 1].slug, "too_many_keys");
	made = issue(r, "a", "");
	assert_string_equal(made.words,
			    "Tenant 'a' already has 10 active keys (max 10). Revoke one first.");
	assert_null(withdraw(r, r->a, all[3].key->id).slug);
	assert_null(issue(r, "a", "").slug);
	assert_null(issue(r, "b", "").slug);
}

static void only_the_last_revoked_ones_are_remembered(void **state)
{
	struct rig *r = *state;
	struct outcome kept = issue(r, "a", "kept"), other = issue(r, "b", "other");
	char first[KEY_ID_LEN + 1] = "", last[KEY_ID_LEN + 1] = "";
	unsigned n = 0;

	withdraw(r, NULL, other.key->id);
	for (unsigned i = 0; i < KEYS_REVOKED_MAX + 5; i++) {
		struct outcome made = issue(r, "a", "short-lived");
		snprintf(i ? last : first, sizeof(last), "%s", made.key->id);
		rig_advance(r, 1);
		assert_null(withdraw(r, r->a, made.key->id).slug);
	}
	for (const struct key *k = NULL; (k = key_next(r->core, r->a, k));)
		n++;
	assert_int_equal(n, 1 + KEYS_REVOKED_MAX);
	assert_string_equal(withdraw(r, r->a, first).slug, "key_not_found");
	assert_null(withdraw(r, r->a, last).slug);
	assert_ptr_equal(tenant_of(r, kept.text), r->a);
	assert_ptr_equal(key_next(r->core, r->b, NULL), other.key);
	/* Nor are the others on the disk. */
	rig_close(r);
	rig_open(r);
	for (const struct key *k = NULL; (k = key_next(r->core, r->a, k));)
		n--;
	assert_int_equal(n, 0);
	assert_ptr_equal(tenant_of(r, kept.text), r->a);
	assert_null(issue(r, "a", "").slug);
}

static void the_last_key_is_the_operators_to_revoke(void **state)
{
	struct rig *r = *state;
	struct outcome only = issue(r, "a", ""), other = issue(r, "b", "");

	assert_string_equal(withdraw(r, r->a, only.key->id).slug, "last_key");
	assert_ptr_equal(tenant_of(r, only.text), r->a);
	assert_string_equal(withdraw(r, r->a, other.key->id).slug, "key_not_found");
	struct outcome o = withdraw(r, r->a, "aaaaaaaaaa");
	assert_string_equal(o.words, "No key 'aaaaaaaaaa' for this tenant.");
	o = withdraw(r, NULL, "nonsense");
	assert_string_equal(o.words, "No key 'nonsense'.");
	assert_null(withdraw(r, NULL, only.key->id).slug);
	assert_null(tenant_of(r, only.text));
}

static void names_of_tenants_are_checked(void **state)
{
	static const char *const bad[] = { "", "A", "-a", "_a", "a.b", "a b", "\xc3\xbc", "a/b" };
	struct rig *r = *state;
	char name[65];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_string_equal(issue(r, bad[i], "").slug, "bad_tenant");
	memset(name, 'a', sizeof(name));
	name[64] = '\0';
	assert_string_equal(issue(r, name, "").slug, "bad_tenant");
	name[63] = '\0';
	assert_null(issue(r, name, "").slug);
}

static void on_gone(void *data, const struct key *key)
{
	*(const struct key **)data = key;
}

static void a_broken_store_issues_and_revokes_nothing(void **state)
{
	struct rig *r = *state;
	struct outcome made = issue(r, "a", "");
	const struct key *gone = NULL;

	issue(r, "a", "");
	keys_listen(r->core, on_gone, &gone);
	rig_break_store(r, true);
	assert_string_equal(issue(r, "a", "").slug, "internal");
	assert_string_equal(issue(r, "newcomer", "").slug, "internal");
	assert_string_equal(withdraw(r, r->a, made.key->id).slug, "internal");
	rig_break_store(r, false);
	assert_null(gone);
	assert_ptr_equal(tenant_of(r, made.text), r->a);
	assert_int_equal(r->a->keys_active, 2);
	assert_int_equal(r->a->keys_making, 0);
	assert_null(withdraw(r, r->a, made.key->id).slug);
	assert_ptr_equal(gone, made.key);
}

/* What it is told must hold after a crash as well. */
static void who_revokes_what_is_being_revoked_is_told_what_came_of_it(void **state)
{
	struct rig *r = *state;
	struct outcome made = issue(r, "a", ""), first = { 0 }, second = { 0 };

	issue(r, "a", "");
	for (int broken = 1; broken >= 0; broken--) {
		first = second = (struct outcome){ 0 };
		rig_break_store(r, broken);
		key_revoke(r->core, r->a, str_of(made.key->id), on_revoked, &first);
		key_revoke(r->core, r->a, str_of(made.key->id), on_revoked, &second);
		rig_settle(r);
		assert_int_equal(first.n, 1);
		assert_int_equal(second.n, 1);
		assert_int_equal(first.slug != NULL, broken);
		assert_int_equal(second.slug != NULL, broken);
		assert_int_equal(r->a->keys_active, 1 + broken);
		assert_int_equal(tenant_of(r, made.text) != NULL, broken);
	}
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(static_keys_find_their_tenant_and_nothing_else_does),
		T(an_issued_key_works_until_it_is_revoked),
		T(keys_and_what_was_revoked_survive_a_restart),
		T(one_wrong_letter_is_another_key),
		T(ten_keys_are_enough_and_revoked_ones_do_not_count),
		T(only_the_last_revoked_ones_are_remembered),
		T(the_last_key_is_the_operators_to_revoke),
		T(names_of_tenants_are_checked),
		T(a_broken_store_issues_and_revokes_nothing),
		T(who_revokes_what_is_being_revoked_is_told_what_came_of_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
