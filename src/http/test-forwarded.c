// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "http/forwarded.h"

static const struct forwarded_case {
	const char *why;
	const char *fields[3];
	const char *client; /* NULL: none can be believed */
} cases[] = {
	{ "no field", { NULL }, NULL },
	{ "empty field", { "" }, NULL },
	{ "one address", { "203.0.113.7" }, "203.0.113.7" },
	{ "the right one counts", { "1.1.1.1, 203.0.113.7" }, "203.0.113.7" },
	{ "our own proxies are passed over", { "203.0.113.7, 10.1.1.1, 127.0.0.1" }, "203.0.113.7" },
	{ "what lies left of a stranger could be made up",
	  { "127.0.0.1, 203.0.113.7, 10.0.0.1" },
	  "203.0.113.7" },
	{ "only our own", { "10.0.0.9, 10.0.0.8" }, "10.0.0.9" },
	{ "several fields are one list", { "1.1.1.1", "203.0.113.7", "10.0.0.1" }, "203.0.113.7" },
	{ "garbage ends the walk", { "203.0.113.7, x, 10.0.0.1" }, "10.0.0.1" },
	{ "nothing but garbage", { "x" }, NULL },
	{ "unknown", { "unknown" }, NULL },
	{ "empty entries are passed over", { ", 203.0.113.7, ," }, "203.0.113.7" },
	{ "with a port", { "203.0.113.7:4711" }, "203.0.113.7" },
	{ "IPv6", { "2001:db8::1" }, "2001:db8::1" },
	{ "IPv6 in brackets", { "[2001:db8::1]" }, "2001:db8::1" },
	{ "IPv6 in brackets with port", { "[2001:db8::1]:4711" }, "2001:db8::1" },
	{ "an open bracket", { "[2001:db8::1" }, NULL },
	{ "IPv4 inside IPv6 is IPv4", { "203.0.113.7, ::ffff:10.0.0.1" }, "203.0.113.7" },
	{ "a range is no address", { "203.0.113.0/24" }, NULL },
};

static void the_client_is_the_first_stranger_from_the_right(void **state)
{
	struct proxies proxies;
	struct err err;

	assert_int_equal(inet_ranges_parse(STR("127.0.0.1, 10.0.0.0/8"), &proxies.ranges,
					   &proxies.n, &err),
			 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct http_header headers[4] = { { STR("Host"), STR("a") } };
		struct http_head head = { .headers = headers, .n_headers = 1 };
		struct inet_addr client;
		char text[INET6_ADDRSTRLEN] = "";
		for (size_t k = 0; k < 3 && cases[i].fields[k]; k++)
			headers[head.n_headers++] =
				(struct http_header){ STR("x-forwarded-for"),
						      str_of(cases[i].fields[k]) };
		bool found = forwarded_find(&proxies, &head, &client);
		if (found)
			inet_addr_format(&client, text);
		if (found != (cases[i].client != NULL) ||
		    (found && strcmp(text, cases[i].client) != 0))
			print_error("%s: '%s'\n", cases[i].why, text);
		assert_int_equal(found, cases[i].client != NULL);
		assert_string_equal(text, cases[i].client ? cases[i].client : "");
	}
	free(proxies.ranges);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_client_is_the_first_stranger_from_the_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
