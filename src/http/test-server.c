// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/rig.h"

/* ---- A handler: echoes the body; the path says how ---- */

static const struct http_reply ok = { .status = 200, .content_type = "text/plain" };

static void on_body(void *data, struct http_exchange *x, int status, struct str body)
{
	struct http_reply reply = ok;

	if (status)
		reply.status = status;
	http_reply(x, &reply, status ? STR("no") : body);
}

static void handle(void *data, struct http_exchange *x)
{
	const struct http_body_want want = { .max = 1000, .fn = on_body };

	if (str_eq(http_exchange_head(x)->path, STR("/refuse")))
		http_reply(x, &(struct http_reply){ .status = 401, .content_type = "text/plain" },
			   STR("no key"));
	else
		http_body_read(x, &want);
}

static const struct http_config config = {
	.max_connections = 100,
	.write_max = 65536,
	.trusted_proxies = "127.0.0.1",
	.handler = handle,
};

static void a_body_comes_back(void **state)
{
	struct rig rig;
	struct client c;

	rig_open(&rig, &config);
	client_open(&c, &rig);
	assert_true(
		client_say(&c, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"));
	assert_true(client_expect(&c, "\r\n\r\nhello"));
	assert_true(
		client_expect(&c, "HTTP/1.1 200 OK\r\nDate: Tue, 14 Nov 2023 22:13:20 GMT\r\n"));
	assert_true(client_expect(&c, "\r\nX-Request-Id: req_"));
	assert_true(client_is_quiet(&c));
	client_close(&c);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_body_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
