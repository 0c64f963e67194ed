// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/egress-log.h"
#include "base/mem.h"

#define ID "sbx_0123456789ab"
#define WHO "\"session\":\"" ID "\",\"tenant\":\"acme\""
#define ALLOW(ts, host) \
	"{\"ts\":" ts ",\"decision\":\"allow\"," WHO ",\"host\":\"" host "\",\"port\":443"
#define DENY(ts, host) \
	"{\"ts\":" ts ",\"decision\":\"deny\"," WHO ",\"host\":\"" host \
	"\",\"reason\":\"host not on allowlist\",\"code\":\"no_rule\"}"
#define OPEN(ts, host, conn) ALLOW(ts, host) ",\"open\":true,\"conn\":" conn "}\n"
#define CLOSED(ts, host, conn) \
	ALLOW(ts, host) \
	",\"bytes_up\":5,\"bytes_down\":7,\"duration_ms\":9,\"open\":false,\"conn\":" conn "}\n"

struct place {
	char path[64];
};

static int setup(void **state)
{
	struct place *p = mem_new(1, sizeof(*p));

	snprintf(p->path, sizeof(p->path), "/tmp/airlock-test-log-XXXXXX");
	int fd = mkstemp(p->path);
	assert_true(fd >= 0);
	close(fd);
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct place *p = *state;

	unlink(p->path);
	free(p);
	return 0;
}

static void put(const struct place *p, const char *text, size_t len)
{
	FILE *f = fopen(p->path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static struct egress_log_query query(const struct place *p)
{
	return (struct egress_log_query){
		.path = p->path, .session = ID, .tenant = "acme", .limit = 200, .asked_ms = 500000
	};
}

/* want: the list, and how many lines were none. */
static void assert_log(const struct egress_log_query *q, const char *want, size_t want_skipped)
{
	_cleanup_buf_ struct buf out = BUF(64u << 20);
	size_t skipped = 0;
	struct err err;

	if (egress_log_read(q, &out, &skipped, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(out.data, want);
	assert_int_equal(skipped, want_skipped);
}

#define SHOWN(ts, decision, host) \
	"{\"ts\":" ts ",\"decision\":\"" decision "\"," WHO ",\"host\":\"" host "\""
#define SHOWN_DENY(ts, host) \
	SHOWN(ts, "deny", host) ",\"reason\":\"host not on allowlist\",\"code\":\"no_rule\"}"
#define SHOWN_ALLOW(ts, host, up, down, rest) \
	SHOWN(ts, "allow", host) ",\"port\":443,\"bytes_up\":" up ",\"bytes_down\":" down rest "}"
#define SHOWN_CLOSED(ts, host) SHOWN_ALLOW(ts, host, "5", "7", ",\"duration_ms\":9,\"open\":false")

static void lines_of_one_connection_become_one_event(void **state)
{
	static const struct {
		const char *file, *want;
		size_t skipped;
	} cases[] = {
		{ "", "[]", 0 },
		{ DENY("1.25", "x.org") "\n", "[" SHOWN_DENY("1.250", "x.org") "]", 0 },
		{ OPEN("1", "a.org", "1") DENY("2", "x.org") "\n" CLOSED("1", "a.org", "1"),
		  "[" SHOWN_CLOSED("1.000", "a.org") "," SHOWN_DENY("2.000", "x.org") "]", 0 },
		/* Still open, as far as the file knows. */
		{ OPEN("1", "a.org", "1"),
		  "[" SHOWN_ALLOW("1.000", "a.org", "0", "0", ",\"open\":true") "]", 0 },
		/* Refused after all. */
		{ OPEN("1", "a.org",
		       "1") "{\"ts\":1,\"decision\":\"deny\"," WHO
			    ",\"host\":\"a.org\",\"port\":443,\"reason\":\"not TLS\",\"code\":"
			    "\"not_tls\",\"conn\":1,\"bytes_up\":3,\"open\":false}\n",
		  "[" SHOWN("1.000", "deny",
			    "a.org") ",\"port\":443,\"reason\":\"not TLS\",\"code\":\"not_tls\"}]",
		  0 },
		/* The number again, by a later gateway. */
		{ OPEN("1", "a.org", "1") CLOSED("1", "a.org", "1") OPEN("2", "b.org", "1"),
		  "[" SHOWN_CLOSED("1.000", "a.org") "," SHOWN_ALLOW("2.000", "b.org", "0", "0",
								     ",\"open\":true") "]",
		  0 },
		{ OPEN("1", "a.org", "1") CLOSED("1", "a.org", "1") OPEN("2", "b.org", "1")
			  CLOSED("2", "b.org", "1"),
		  "[" SHOWN_CLOSED("1.000", "a.org") "," SHOWN_CLOSED("2.000", "b.org") "]", 0 },
		/* Its first line is gone. */
		{ DENY("2", "x.org") "\n" CLOSED("1", "a.org", "1"),
		  "[" SHOWN_CLOSED("1.000", "a.org") "," SHOWN_DENY("2.000", "x.org") "]", 0 },
		/* Every field, in the order of the contract. */
		{ "{\"dest\":\"1.2.3.4\",\"via\":\"direct\",\"repeat\":12,\"ips\":[\"10.0.0.1\",\":"
		  ":1\"],"
		  "\"ip\":\"9.9.9.9\",\"target\":\"/"
		  "\\u00e4\",\"port\":80,\"host\":\"\",\"code\":\"c\","
		  "\"reason\":\"r\"," WHO
		  ",\"decision\":\"deny\",\"ts\":1700000000.0004,\"more\":{}}\n",
		  "[" SHOWN("1700000000.000", "deny",
			    "") ",\"port\":80,\"target\":\"/\u00e4\",\"reason\":\"r\","
				"\"code\":\"c\",\"ips\":[\"10.0.0.1\",\"::1\"],\"ip\":\"9.9.9.9\","
				"\"via\":\"direct\",\"dest\":\"1.2.3.4\",\"repeat\":12}]",
		  0 },
		/* A line that is being written. */
		{ DENY("1", "x.org") "\n" DENY("2", "y.org"), "[" SHOWN_DENY("1.000", "x.org") "]",
		  0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct egress_log_query q = query(*state);
		put(*state, cases[i].file, strlen(cases[i].file));
		assert_log(&q, cases[i].want, cases[i].skipped);
	}
}

static void what_is_no_event_is_skipped_and_counted(void **state)
{
#define BAD(rest) "{\"ts\":1,\"decision\":\"deny\"," WHO rest "}"
	static const char *const lines[] = {
		"",
		"x",
		"[]",
		"\"text\"",
		"{}",
		DENY("1", "a.org") DENY("1", "a.org"),
		DENY("\"1\"", "a.org"),
		DENY("-1", "a.org"),
		DENY("1e300", "a.org"),
		"{\"ts\":1,\"ts\":1,\"decision\":\"deny\"," WHO
		",\"host\":\"\",\"reason\":\"\",\"code\":\"\"}",
		BAD(",\"host\":\"\""),
		BAD(",\"host\":1,\"reason\":\"\",\"code\":\"\""),
		BAD(",\"host\":\"\\ud800\",\"reason\":\"\",\"code\":\"\""),
		BAD(",\"host\":\"a\\u0000b\",\"reason\":\"\",\"code\":\"\""),
		BAD(",\"host\":\"\xff\",\"reason\":\"\",\"code\":\"\""),
		BAD(",\"host\":\"\",\"reason\":\"\",\"code\":\"\",\"port\":\"443\""),
		BAD(",\"host\":\"\",\"reason\":\"\",\"code\":\"\",\"port\":-1"),
		BAD(",\"host\":\"\",\"reason\":\"\",\"code\":\"\",\"port\":1.5"),
		BAD(",\"host\":\"\",\"reason\":\"\",\"code\":\"\",\"ips\":\"1.2.3.4\""),
		BAD(",\"host\":\"\",\"reason\":\"\",\"code\":\"\",\"ips\":[1]"),
		BAD(",\"host\":\"\",\"reason\":\"\",\"code\":\"\",\"ips\":[\"\",\"\",\"\",\"\","
		    "\"\"]"),
		BAD(",\"host\":\"\",\"reason\":\"\",\"code\":\"\",\"conn\":0"),
		BAD(",\"host\":\"\",\"reason\":\"\",\"code\":\"\",\"conn\":\"1\""),
		"{\"ts\":1,\"decision\":\"maybe\"," WHO
		",\"host\":\"\",\"reason\":\"\",\"code\":\"\"}",
		ALLOW("1", "a.org") "}",
		ALLOW("1", "a.org") ",\"open\":1}",
		/* Somebody else's. */
		"{\"ts\":1,\"decision\":\"deny\",\"session\":\"sbx_ffffffffffff\",\"tenant\":"
		"\"acme\","
		"\"host\":\"\",\"reason\":\"\",\"code\":\"\"}",
		"{\"ts\":1,\"decision\":\"deny\",\"session\":\"" ID "\",\"tenant\":\"other\","
		"\"host\":\"\",\"reason\":\"\",\"code\":\"\"}",
	};
	const struct egress_log_query q = query(*state);
	_cleanup_buf_ struct buf text = BUF(1u << 20);

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		buf_clear(&text);
		buf_printf(&text, "%s\n%s\n", lines[i], DENY("1", "x.org"));
		put(*state, text.data, text.len);
		assert_log(&q, "[" SHOWN_DENY("1.000", "x.org") "]", 1);
	}
	/* A NUL, and a line without an end. */
	buf_clear(&text);
	buf_put(&text, "{\0}\n", 4);
	for (unsigned i = 0; i < 5000; i++)
		buf_put_text(&text, "[[[[[[[[[[");
	buf_put_text(&text, "\n");
	put(*state, text.data, text.len);
	assert_log(&q, "[]", 2);
}

static void the_gateway_knows_what_is_open(void **state)
{
	static const struct runtime_live live[] = { { 2, 100, UINT64_MAX }, { 3, 1, 2 } };
	struct egress_log_query q = query(*state);
	static const char file[] = OPEN("1", "dead.org", "1") OPEN("2", "open.org", "2")
		CLOSED("3", "closed.org", "3") OPEN("500", "new.org", "4");

	put(*state, file, sizeof(file) - 1);
	q.answered = true;
	q.live = live;
	q.n_live = 2;
	assert_log(
		&q,
		"[" SHOWN_CLOSED("3.000", "closed.org") "," SHOWN_ALLOW(
			"1.000", "dead.org", "0", "0",
			",\"open\":false") "," SHOWN_ALLOW("2.000", "open.org", "100",
							   "9223372036854775807",
							   ",\"open\":true") "," SHOWN_ALLOW("500."
											     "000",
											     "new."
											     "org",
											     "0",
											     "0",
											     ",\"op"
											     "en\":"
											     "true") "]",
		0);
	q.answered = false;
	q.n_live = 0;
	assert_log(
		&q,
		"[" SHOWN_CLOSED("3.000", "closed.org") "," SHOWN_ALLOW(
			"1.000", "dead.org", "0", "0",
			",\"open\":true") "," SHOWN_ALLOW("2.000", "open.org", "0", "0",
							  ",\"open\":true") "," SHOWN_ALLOW("500."
											    "000",
											    "new."
											    "org",
											    "0",
											    "0",
											    ",\"ope"
											    "n\":"
											    "true") "]",
		0);
}

/* n refusals, each of about 200 bytes, with a time of its own. */
static void put_many(struct place *p, unsigned n)
{
	FILE *f = fopen(p->path, "w");

	assert_non_null(f);
	fputs(OPEN("0", "first.org", "1"), f);
	for (unsigned i = 1; i <= n; i++)
		fprintf(f,
			"{\"ts\":%u,\"decision\":\"deny\"," WHO
			",\"host\":\"a-host-of-some-length.example.org\",\"reason\":\"host not on "
			"allowlist\",\"code\":\"no_rule\"}\n",
			i);
	fputs(CLOSED("0", "first.org", "1"), f);
	assert_int_equal(fclose(f), 0);
}

static void assert_ends(const struct egress_log_query *q, const char *first, const char *last)
{
	_cleanup_buf_ struct buf out = BUF(64u << 20);
	size_t skipped = 0;
	struct err err;

	assert_int_equal(egress_log_read(q, &out, &skipped, &err), 0);
	assert_int_equal(skipped, 0);
	if (strncmp(out.data, first, strlen(first)) != 0)
		fail_msg("%.100s", out.data);
	const char *at = strrchr(out.data, '{');
	if (strncmp(at, last, strlen(last)) != 0)
		fail_msg("%.100s", at);
}

static void the_last_events_are_found_in_a_file_of_any_length(void **state)
{
	struct egress_log_query q = query(*state);

	put_many(*state, 3000);
	q.limit = 1;
	assert_ends(&q, "[{\"ts\":3000.000", "{\"ts\":3000.000");
	q.limit = 1000;
	assert_ends(&q, "[{\"ts\":2001.000", "{\"ts\":3000.000");
	/* Beyond what is looked at: the connection is there by its end alone, and is the oldest. */
	put_many(*state, 60000);
	struct stat st;
	assert_int_equal(stat(q.path, &st), 0);
	assert_true(st.st_size > EGRESS_LOG_WINDOW);
	assert_ends(&q, "[{\"ts\":59001.000", "{\"ts\":60000.000");
	put_many(*state, 500);
	assert_ends(&q, "[{\"ts\":0.000", "{\"ts\":500.000");
}

/* Nearly no event, so that all that may be looked at is. */
static void what_is_looked_at_has_an_end(void **state)
{
	_cleanup_free_ char *noise = mem_new(EGRESS_LOG_WINDOW + 4096, 1);
	struct egress_log_query q = query(*state);
	static const char early[] = DENY("1", "early.org") "\n";
	static const char late[] = "\n" CLOSED("2", "late.org", "7");
	size_t len = EGRESS_LOG_WINDOW + 4096;

	memset(noise, 'x', len);
	memcpy(noise, early, sizeof(early) - 1);
	memcpy(noise + len - (sizeof(late) - 1), late, sizeof(late) - 1);
	put(*state, noise, len);
	assert_log(&q, "[" SHOWN_CLOSED("2.000", "late.org") "]", 0);
	/* A line end each: as many lines as can be. */
	memset(noise, '\n', len);
	put(*state, noise, len);
	assert_log(&q, "[]", EGRESS_LOG_WINDOW - 1);
}

static void no_file_is_no_event_and_no_other_file_is_read(void **state)
{
	struct egress_log_query q = query(*state);
	_cleanup_buf_ struct buf out = BUF(1024);
	size_t skipped = 0;
	struct err err;

	unlink(q.path);
	assert_log(&q, "[]", 0);
	assert_int_equal(mkfifo(q.path, 0600), 0);
	assert_true(egress_log_read(&q, &out, &skipped, &err) < 0);
	unlink(q.path);
	assert_int_equal(symlink("/etc/passwd", q.path), 0);
	assert_true(egress_log_read(&q, &out, &skipped, &err) < 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(lines_of_one_connection_become_one_event),
		T(what_is_no_event_is_skipped_and_counted),
		T(the_gateway_knows_what_is_open),
		T(the_last_events_are_found_in_a_file_of_any_length),
		T(what_is_looked_at_has_an_end),
		T(no_file_is_no_event_and_no_other_file_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
