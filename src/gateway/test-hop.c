// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "gateway/hop.h"

static struct hop_base base_of(const char *url)
{
	struct hop_base base = { 0 };

	if (url && !hop_base_parse(str_of(url), &base))
		fail_msg("%s", url);
	return base;
}

/* url, or its Location from another one. NULL: no such base, no such step before. */
struct row {
	const char *base, *from, *url;
	enum hop_verdict verdict;
	const char *expected; /* the URL that is asked for, or where */
};

static void check(const struct row *row)
{
	struct hop_base base = base_of(row->base);
	char where[HOP_WHERE_SIZE];
	struct hop from, h;

	if (row->from)
		assert_int_equal(hop_parse(&base, NULL, str_of(row->from), &from, where), HOP_OK);
	enum hop_verdict verdict =
		hop_parse(&base, row->from ? &from : NULL, str_of(row->url), &h, where);
	const char *got = verdict == HOP_OK ? h.url : where;
	if (verdict != row->verdict || strcmp(got, row->expected) != 0)
		fail_msg("%s: %d '%s' instead of %d '%s'", row->url, verdict, got, row->verdict,
			 row->expected);
}

#define GITHUB "https://github.com/a/b/archive/main.tar.gz"
#define HERE "http://127.0.0.1:9000"

static void https_to_a_name_is_a_step(void **state)
{
	static const struct row rows[] = {
		{ NULL, NULL, GITHUB, HOP_OK, GITHUB },
		{ NULL, NULL, "HTTPS://GitHub.Com/a", HOP_OK, "https://github.com/a" },
		{ NULL, NULL, "https://github.com:443/a?b=c", HOP_OK, "https://github.com/a?b=c" },
		{ NULL, NULL, "https://github.com./a", HOP_OK, "https://github.com/a" },
		{ NULL, NULL, "https://github.com/a#b", HOP_OK, "https://github.com/a" },
		{ NULL, NULL, "https://github.com", HOP_OK, "https://github.com/" },
		{ NULL, NULL, "https://github.com/a/../b", HOP_OK, "https://github.com/b" },
		{ NULL, NULL, "https://github.com/%2e%2e/%00", HOP_OK,
		  "https://github.com/%2e%2e/%00" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(&rows[i]);
}

static void a_location_may_be_relative(void **state)
{
	static const struct row rows[] = {
		{ NULL, GITHUB, "https://codeload.github.com/x?t=1", HOP_OK,
		  "https://codeload.github.com/x?t=1" },
		{ NULL, GITHUB, "/x", HOP_OK, "https://github.com/x" },
		{ NULL, GITHUB, "x", HOP_OK, "https://github.com/a/b/archive/x" },
		{ NULL, GITHUB, "?x", HOP_OK, "https://github.com/a/b/archive/main.tar.gz?x" },
		{ NULL, GITHUB, "//codeload.github.com/x", HOP_OK,
		  "https://codeload.github.com/x" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(&rows[i]);
}

static void nothing_but_https_443_to_a_name_without_user(void **state)
{
	static const struct row rows[] = {
		{ NULL, GITHUB, "http://github.com/a", HOP_ELSEWHERE, "http://github.com" },
		{ NULL, GITHUB, "ftp://github.com/a", HOP_ELSEWHERE, "ftp://github.com" },
		{ NULL, GITHUB, "file:///etc/passwd", HOP_ELSEWHERE, "file://" },
		{ NULL, GITHUB, "gopher://github.com/", HOP_ELSEWHERE, "gopher://github.com" },
		{ NULL, GITHUB, "https://github.com:22/a", HOP_ELSEWHERE, "github.com:22" },
		{ NULL, GITHUB, "https://github.com:80/a", HOP_ELSEWHERE, "github.com:80" },
		{ NULL, GITHUB, "https://x@github.com/a", HOP_ELSEWHERE, "github.com" },
		{ NULL, GITHUB, "https://x:y@github.com/a", HOP_ELSEWHERE, "github.com" },
		{ NULL, GITHUB, "https://github.com@evil.test/a", HOP_ELSEWHERE, "evil.test" },
		{ NULL, GITHUB, "https://github.com:x@evil.test/", HOP_ELSEWHERE, "evil.test" },
		{ NULL, GITHUB, "https://127.0.0.1/a", HOP_ELSEWHERE, "127.0.0.1" },
		{ NULL, GITHUB, "https://2130706433/a", HOP_ELSEWHERE, "127.0.0.1" },
		{ NULL, GITHUB, "https://0x7f.1/a", HOP_ELSEWHERE, "127.0.0.1" },
		{ NULL, GITHUB, "https://93.184.216.34/a", HOP_ELSEWHERE, "93.184.216.34" },
		{ NULL, GITHUB, "https://[::1]/a", HOP_ELSEWHERE, "[::1]" },
		{ NULL, GITHUB, "https://[fe80::1%25eth0]/a", HOP_ELSEWHERE, "[fe80::1]" },
		{ NULL, NULL, "https://169.254.169.254/", HOP_ELSEWHERE, "169.254.169.254" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(&rows[i]);
}

static void what_is_no_url_is_malformed(void **state)
{
	static const struct row rows[] = {
		{ NULL, NULL, "", HOP_MALFORMED, "" },
		{ NULL, NULL, "/a", HOP_MALFORMED, "" },
		{ NULL, NULL, "https://", HOP_MALFORMED, "" },
		{ NULL, GITHUB, "", HOP_MALFORMED, "" },
		{ NULL, GITHUB, "https://github.com/a b", HOP_MALFORMED, "" },
		{ NULL, GITHUB, "https://github.com/\xc3\xa4", HOP_MALFORMED, "" },
		{ NULL, GITHUB, "https://git\thub.com/", HOP_MALFORMED, "" },
		{ NULL, GITHUB, "https://github.com:99999/", HOP_MALFORMED, "" },
		{ NULL, GITHUB, "https://[::1/", HOP_MALFORMED, "" },
	};
	char url[HOP_URL_SIZE + 1] = "https://github.com/", where[HOP_WHERE_SIZE];
	struct hop_base none = { 0 };
	struct hop h;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(&rows[i]);
	assert_int_equal(hop_parse(&none, NULL, (struct str){ "https://a\0.b/", 13 }, &h, where),
			 HOP_MALFORMED);
	memset(url + strlen(url), 'a', sizeof(url) - 1 - strlen(url));
	url[HOP_URL_SIZE] = '\0';
	assert_int_equal(hop_parse(&none, NULL, str_of(url), &h, where), HOP_MALFORMED);
	url[HOP_URL_SIZE - 1] = '\0';
	assert_int_equal(hop_parse(&none, NULL, str_of(url), &h, where), HOP_OK);
	assert_string_equal(h.url, url);
}

static void the_base_alone_may_have_a_port_or_be_an_address(void **state)
{
	static const struct row rows[] = {
		{ HERE, NULL, HERE "/a", HOP_OK, HERE "/a" },
		{ HERE, HERE "/a", "/b", HOP_OK, HERE "/b" },
		{ HERE, HERE "/a", "http://127.0.0.1:9001/", HOP_ELSEWHERE, "http://127.0.0.1" },
		{ HERE, HERE "/a", "http://127.0.0.2:9000/", HOP_ELSEWHERE, "http://127.0.0.2" },
		{ HERE, HERE "/a", "https://127.0.0.1:9000/", HOP_ELSEWHERE, "127.0.0.1:9000" },
		{ HERE, HERE "/a", "http://x@127.0.0.1:9000/", HOP_ELSEWHERE, "http://127.0.0.1" },
		{ HERE, HERE "/a", GITHUB, HOP_OK, GITHUB },
		{ HERE, HERE "/a", "dttp://127.0.0.1:9000/", HOP_ELSEWHERE, "dttp://127.0.0.1" },
		{ HERE, HERE "/a", "ftp://127.0.0.1:9000/", HOP_ELSEWHERE, "ftp://127.0.0.1" },
		/* Whoever has left does not come back. */
		{ HERE, GITHUB, HERE "/a", HOP_ELSEWHERE, "http://127.0.0.1" },
		{ "https://mirror.test:8443", GITHUB, "https://mirror.test:8443/", HOP_ELSEWHERE,
		  "mirror.test:8443" },
		{ "https://mirror.test:8443", NULL, "https://mirror.test:8443/a", HOP_OK,
		  "https://mirror.test:8443/a" },
		{ "https://mirror.test:8443", NULL, "https://mirror.test/a", HOP_OK,
		  "https://mirror.test/a" },
		{ "https://10.0.0.1", NULL, "https://10.0.0.1/a", HOP_OK, "https://10.0.0.1/a" },
		{ "https://[fd00::1]:8443", NULL, "https://[fd00::1]:8443/a", HOP_OK,
		  "https://[fd00::1]:8443/a" },
		{ "http://localhost:80", NULL, "http://localhost/a", HOP_OK, "http://localhost/a" },
		{ "http://[::1]:9000/git", NULL, "http://[::1]:9000/git/a", HOP_OK,
		  "http://[::1]:9000/git/a" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(&rows[i]);
}

static void a_base_names_its_addresses_or_none(void **state)
{
	struct hop_base name = base_of("https://mirror.test"), here = base_of("https://localhost");
	struct hop_base private = base_of("https://10.0.0.1");

	assert_true(name.given && name.https && name.port == 443 && !name.n_addrs);
	assert_int_equal(here.n_addrs, 2);
	assert_int_equal(private.n_addrs, 1);
	assert_int_equal(private.addrs[0].bytes[12], 10);
}

static void a_base_is_https_or_http_to_loopback(void **state)
{
	static const char *const refused[] = {
		"",
		"github.com",
		"http://mirror.test",
		"http://10.0.0.1",
		"http://[fd00::1]",
		"ftp://127.0.0.1",
		"https://x@mirror.test",
		"https://mirror.test?x",
		"https://[fe80::1%25lo]",
		"https://mi rror.test",
	};
	struct hop_base base;

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		if (hop_base_parse(str_of(refused[i]), &base))
			fail_msg("%s", refused[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(https_to_a_name_is_a_step),
		cmocka_unit_test(a_location_may_be_relative),
		cmocka_unit_test(nothing_but_https_443_to_a_name_without_user),
		cmocka_unit_test(what_is_no_url_is_malformed),
		cmocka_unit_test(the_base_alone_may_have_a_port_or_be_an_address),
		cmocka_unit_test(a_base_names_its_addresses_or_none),
		cmocka_unit_test(a_base_is_https_or_http_to_loopback),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
