// SPDX-License-Identifier: Apache-2.0
/* Stored keys and the admin key, against the fakes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/fakes.h"
#include "api/request.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"

#define ADMIN "0123456789abcdef0123456789abcdef"

static uv_loop_t loop;
static struct api *api;

static const char *const as_a[] = { "X-Api-Key: key-a", "Content-Type: application/json", NULL };
static const char *const as_stored[] = { "X-Api-Key: key-stored", "Content-Type: application/json",
					 NULL };
static const char *const as_admin[] = { "X-Api-Key: " ADMIN, "Content-Type: application/json",
					NULL };

static int start(void **state)
{
	struct api_config config = {
		.loop = &loop, .write_max = 64u * MIB, .upload_max = 50u * MIB, .admin_key = ADMIN
	};
	struct err err;

	fake_reset();
	fake.has_key = true;
	uv_loop_init(&loop);
	return api_open(&config, NULL, &api, &err);
}

static void on_closed(void *data)
{
	*(bool *)data = true;
}

static int stop(void **state)
{
	bool closed = false;

	api_close(api, on_closed, &closed);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_true(closed);
	return uv_loop_close(&loop);
}

static void send_to_api(struct http_exchange *x, const char *method, const char *target,
			const char *const *headers, const char *body)
{
	fake_request(x, method, target, headers, str_of(body));
	api_handle(api, x);
	if (x->wants_body)
		fake_body(x);
}

/* Sends, and answers for the core when it was asked. */
static json_t *call(struct http_exchange *x, const char *method, const char *target,
		    const char *const *headers, const char *body)
{
	fake.key_issued = NULL;
	fake.key_revoked = NULL;
	send_to_api(x, method, target, headers, body);
	if (fake.key_issued)
		fake.key_issued(fake.data, &fake.key, "asb_secret", NULL);
	else if (fake.key_revoked)
		fake.key_revoked(fake.data, &fake.key, NULL);
	return fake_json(x);
}

static const char *text(json_t *json, const char *key)
{
	return json_string_value(json_object_get(json, key));
}

static void a_key_is_told_once_and_never_listed(void **state)
{
	struct http_exchange x;
	json_t *json = call(&x, "POST", "/v1/keys", as_a, "{\"name\":\"ci\"}");

	assert_int_equal(x.status, 201);
	assert_string_equal(fake.path, "a");
	assert_string_equal(fake.name, "ci");
	assert_string_equal(text(json, "api_key"), "asb_secret");
	assert_non_null(strstr(text(json, "note"), "shown only once"));
	assert_string_equal(text(json, "prefix"), "asb_abcdefghij_\xe2\x80\xa6");
	assert_true(json_is_null(json_object_get(json, "revoked_at")));
	json_decref(json);
	fake_exchange_fini(&x);

	fake.key.revoked_us = 9500000;
	json = call(&x, "GET", "/v1/keys", as_a, "");
	assert_int_equal(x.status, 200);
	assert_string_equal(text(json, "tenant_id"), "a");
	json_t *row = json_array_get(json_object_get(json, "keys"), 0);
	assert_int_equal(json_object_size(row), 7);
	assert_true(json_is_false(json_object_get(row, "active")));
	assert_float_equal(json_number_value(json_object_get(row, "revoked_at")), 9.5, 1e-6);
	json_decref(json);
	fake_exchange_fini(&x);
}

/* What was written for an answer with a key in it is not in the buffer any more. */
static void a_key_does_not_stay_in_memory(void **state)
{
	struct http_exchange x;

	json_decref(call(&x, "POST", "/v1/keys", as_a, ""));
	assert_null(memmem(api->scratch.data, api->scratch.cap, "asb_secret", 10));
	fake_exchange_fini(&x);
}

static void the_admin_key_opens_the_admin_calls_and_nothing_else(void **state)
{
	static const struct {
		const char *method, *target;
		const char *const *headers;
		int status;
		const char *code;
	} cases[] = {
		{ "GET", "/v1/usage", as_admin, 401, "unauthenticated" },
		{ "GET", "/v1/keys", as_admin, 401, "unauthenticated" },
		{ "GET", "/v1/admin/keys", as_a, 401, "bad_admin_key" },
		{ "GET", "/v1/admin/keys", as_stored, 401, "bad_admin_key" },
		{ "GET", "/v1/admin/keys", NULL, 401, "bad_admin_key" },
		{ "GET", "/v1/admin/keys", as_admin, 200, NULL },
		{ "GET", "/v1/admin/keys?tenant=a", as_admin, 200, NULL },
		{ "DELETE", "/v1/admin/keys/abcdefghij", as_admin, 200, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct http_exchange x;
		json_t *json = call(&x, cases[i].method, cases[i].target, cases[i].headers, "");
		assert_int_equal(x.status, cases[i].status);
		if (cases[i].code)
			assert_string_equal(text(json, "code"), cases[i].code);
		json_decref(json);
		fake_exchange_fini(&x);
	}
	assert_string_equal(fake.path, "");
	assert_string_equal(fake.name, "abcdefghij");
	assert_int_equal(fake.a.rate.micro_tokens, 0);
}

static void the_operator_lists_one_tenant_or_all(void **state)
{
	static const struct {
		const char *target;
		size_t n;
	} cases[] = { { "/v1/admin/keys", 1 },
		      { "/v1/admin/keys?tenant=a", 1 },
		      { "/v1/admin/keys?tenant=b", 0 },
		      { "/v1/admin/keys?tenant=%20nobody", 0 } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct http_exchange x;
		json_t *json = call(&x, "GET", cases[i].target, as_admin, "");
		assert_int_equal(json_array_size(json_object_get(json, "keys")), cases[i].n);
		assert_int_equal(json_object_size(json), 1);
		json_decref(json);
		fake_exchange_fini(&x);
	}
}

static void the_operator_issues_for_a_tenant(void **state)
{
	struct http_exchange x;
	json_t *json = call(&x, "POST", "/v1/admin/keys", as_admin,
			    "{\"tenant\":\"new\",\"name\":\" x \"}");

	assert_int_equal(x.status, 201);
	assert_string_equal(fake.path, "new");
	assert_string_equal(fake.name, " x ");
	json_decref(json);
	fake_exchange_fini(&x);
	json = call(&x, "POST", "/v1/admin/keys", as_admin, "{\"name\":\"x\"}");
	assert_int_equal(x.status, 422);
	json_decref(json);
	fake_exchange_fini(&x);
}

static int wrong_admin_key(void)
{
	struct http_exchange x;

	json_decref(call(&x, "GET", "/v1/admin/keys", as_a, ""));
	int status = x.status;
	if (status == 429)
		assert_true(fake_has_field(&x, "Retry-After: 6"));
	fake_exchange_fini(&x);
	return status;
}

static void ten_wrong_admin_keys_are_answered_and_a_right_one_always(void **state)
{
	struct http_exchange x;

	for (int i = 0; i < 10; i++)
		assert_int_equal(wrong_admin_key(), 401);
	assert_int_equal(wrong_admin_key(), 429);
	json_decref(call(&x, "GET", "/v1/admin/keys", as_admin, ""));
	assert_int_equal(x.status, 200);
	fake_exchange_fini(&x);
}

static void addresses_are_counted_apart_and_the_quietest_is_forgotten(void **state)
{
	struct failures *f = mem_new(1, sizeof(*f));
	char address[48];
	uint32_t wait_s;

	for (int i = 0; i < 10; i++)
		assert_true(failures_take(f, "2001:db8::1", 1, &wait_s));
	/* One customer's network is one address. */
	assert_false(failures_take(f, "2001:db8::ffff", 2, &wait_s));
	assert_true(failures_take(f, "2001:db8:0:1::1", 3, &wait_s));
	for (unsigned i = 0; i < FAILURES_ADDRESSES - 2; i++) {
		snprintf(address, sizeof(address), "192.0.%u.%u", i / 256, i % 256);
		assert_true(failures_take(f, address, 10, &wait_s));
	}
	assert_false(failures_take(f, "2001:db8::1", 11, &wait_s));
	assert_true(failures_take(f, "198.51.100.1", 12, &wait_s));
	assert_false(failures_take(f, "2001:db8::1", 13, &wait_s));
	free(f);
}

static void whoever_came_with_a_revoked_key_is_thrown_out(void **state)
{
	struct http_exchange with, without, revoking;

	send_to_api(&with, "POST", "/v1/sessions/sbx_0123456789ab/exec", as_stored,
		    "{\"command\":\"sleep 9\"}");
	send_to_api(&without, "GET", "/v1/sessions/sbx_0123456789ab/read?path=f", as_a, "");
	void *reading = fake.data;
	send_to_api(&revoking, "DELETE", "/v1/keys/abcdefghij", as_stored, "");
	fake.on_revoked(fake.revoked_data, &fake.key);
	assert_true(fake.exec_killed);
	assert_true(fake.exec_detached);
	assert_true(with.aborted);
	assert_false(without.aborted);
	assert_false(fake.file_detached);
	/* The one that asked for it hears that it worked. */
	fake.key_revoked(fake.data, &fake.key, NULL);
	assert_int_equal(revoking.status, 200);
	fake.read_done(reading, false, STR("x"), NULL);
	assert_int_equal(without.status, 200);
	fake_exchange_fini(&with);
	fake_exchange_fini(&without);
	fake_exchange_fini(&revoking);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, start, stop)
	const struct CMUnitTest tests[] = {
		T(a_key_is_told_once_and_never_listed),
		T(a_key_does_not_stay_in_memory),
		T(the_admin_key_opens_the_admin_calls_and_nothing_else),
		T(the_operator_lists_one_tenant_or_all),
		T(the_operator_issues_for_a_tenant),
		T(ten_wrong_admin_keys_are_answered_and_a_right_one_always),
		T(addresses_are_counted_apart_and_the_quietest_is_forgotten),
		T(whoever_came_with_a_revoked_key_is_thrown_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
