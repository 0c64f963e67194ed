// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/mem.h"
#include "egress/decide.h"

static const struct str rules[] = { { "allowed.example", 15 }, { "*.wild.example", 14 } };
static const struct egress_policy policy = { rules, ARRAY_SIZE(rules) };
static const struct egress_policy empty = { NULL, 0 };

static const struct egress_host *host_of(const char *text)
{
	static struct egress_host hosts[8];
	static unsigned n;
	struct egress_host *host = &hosts[n++ % ARRAY_SIZE(hosts)];

	egress_host_parse(str_of(text), host);
	return host;
}

static struct inet_addr addr_of(const char *text)
{
	struct inet_addr addr;

	assert_true(inet_addr_parse(str_of(text), &addr));
	return addr;
}

/* A question of which nothing fails, as a whole. */
static struct egress_question good(enum egress_via via)
{
	static struct inet_addr public;
	struct egress_question q = {
		.via = via,
		.is_connect = true,
		.policy = &policy,
		.port = 443,
		.host = host_of("allowed.example"),
		.resolved = true,
		.addrs = &public,
		.n_addrs = 1,
		.counted = true,
		.tunnels_session = EGRESS_TUNNELS_SESSION - 1,
		.tunnels_all = EGRESS_TUNNELS_ALL - 1,
		.first_bytes = EGRESS_BYTES_NAME,
		.sni = host_of("Allowed.Example."),
	};

	public = addr_of("8.8.8.8");
	return q;
}

static void outcomes_are_those_of_the_contract(void **state)
{
	static const struct {
		enum egress_code code;
		const char *name;
		unsigned status;
		const char *reason;
	} table[] = {
		{ EGRESS_NOT_CONNECT, "not_connect", 405, "only HTTPS (CONNECT) is supported" },
		{ EGRESS_POLICY_MISSING, "policy_missing", 403, "no policy for this sandbox" },
		{ EGRESS_PORT, "port", 403, "port 8443 not allowed" },
		{ EGRESS_NO_RULE, "no_rule", 403, "host not on allowlist" },
		{ EGRESS_LITERAL, "literal", 403, "host not on allowlist" },
		{ EGRESS_BAD_HOST, "bad_host", 403, "host not on allowlist" },
		{ EGRESS_DNS_FAIL, "dns_fail", 502, "DNS lookup failed" },
		{ EGRESS_ADDR_CLASS, "addr_class", 403,
		  "resolves to a private or reserved address" },
		{ EGRESS_REBIND_SUSPECTED, "rebind_suspected", 403,
		  "resolves to a private or reserved address" },
		{ EGRESS_LIMIT, "limit", 503, "too many connections" },
		{ EGRESS_CONNECT_FAIL, "connect_fail", 502, "upstream connection failed" },
		{ EGRESS_NOT_TLS, "not_tls", 0, "not TLS" },
		{ EGRESS_NO_SNI, "no_sni", 0, "no TLS server name" },
		{ EGRESS_SNI_MISMATCH, "sni_mismatch", 0, "TLS name does not match the host" },
		{ EGRESS_ERROR, "error", 0, "proxy error: splice" },
		{ EGRESS_LOG_UNAVAILABLE, "log_unavailable", 503, "proxy error: splice" },
	};

	assert_int_equal(ARRAY_SIZE(table), EGRESS_CODES - 1);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		char reason[64];
		egress_reason(table[i].code, 8443, "splice", reason, sizeof(reason));
		assert_string_equal(reason, table[i].reason);
		assert_string_equal(egress_code_name(table[i].code), table[i].name);
		assert_int_equal(egress_proxy_status(table[i].code), table[i].status);
	}
}

static void a_reason_is_cut_to_its_room(void **state)
{
	char small[8], reason[64];

	egress_reason(EGRESS_PORT, 0, NULL, reason, sizeof(reason));
	assert_string_equal(reason, "port 0 not allowed");
	egress_reason(EGRESS_ERROR, 0, NULL, reason, sizeof(reason));
	assert_string_equal(reason, "proxy error: error");
	egress_reason(EGRESS_OK, 0, NULL, reason, sizeof(reason));
	assert_string_equal(reason, "");
	egress_reason(EGRESS_DNS_FAIL, 0, NULL, small, sizeof(small));
	assert_string_equal(small, "DNS loo");
}

/* What makes a good question fail on one rung. */
static void spoil_method(struct egress_question *q)
{
	q->is_connect = false;
}

static void spoil_policy(struct egress_question *q)
{
	q->policy = NULL;
}

static void spoil_port(struct egress_question *q)
{
	q->port = 8443;
}

static void spoil_host(struct egress_question *q)
{
	q->host = host_of("other.example");
}

static void spoil_literal(struct egress_question *q)
{
	q->host = host_of("0x7f.1");
}

static void spoil_grammar(struct egress_question *q)
{
	q->host = host_of("a b");
}

static void spoil_lookup(struct egress_question *q)
{
	q->addrs = NULL;
	q->n_addrs = 0;
}

static void spoil_address(struct egress_question *q)
{
	static struct inet_addr private;

	private = addr_of("10.0.0.1");
	q->addrs = &private;
	q->n_addrs = 1;
}

static void spoil_mixed(struct egress_question *q)
{
	static struct inet_addr mixed[2];

	mixed[0] = addr_of("8.8.8.8");
	mixed[1] = addr_of("169.254.169.254");
	q->addrs = mixed;
	q->n_addrs = 2;
}

static void spoil_own(struct egress_question *q)
{
	q->own = q->addrs;
	q->n_own = q->n_addrs;
}

static void spoil_limit_of_session(struct egress_question *q)
{
	q->tunnels_session = EGRESS_TUNNELS_SESSION;
}

static void spoil_limit_of_all(struct egress_question *q)
{
	q->tunnels_all = EGRESS_TUNNELS_ALL;
}

static void spoil_bytes(struct egress_question *q)
{
	q->first_bytes = EGRESS_BYTES_NOT_TLS;
}

static void spoil_no_name(struct egress_question *q)
{
	q->first_bytes = EGRESS_BYTES_NO_NAME;
}

static void spoil_other_name(struct egress_question *q)
{
	q->sni = host_of("a.wild.example");
}

enum { PROXY_ONLY = 1, DIRECT_TOO = 2, ALL_WAYS = 3 };

static const struct rung {
	int rung;
	void (*spoil)(struct egress_question *q);
	enum egress_code code;
	int ways;
} rungs[] = {
	{ 1, spoil_method, EGRESS_NOT_CONNECT, DIRECT_TOO },
	{ 2, spoil_policy, EGRESS_POLICY_MISSING, ALL_WAYS },
	{ 3, spoil_port, EGRESS_PORT, DIRECT_TOO },
	{ 4, spoil_host, EGRESS_NO_RULE, ALL_WAYS },
	{ 4, spoil_literal, EGRESS_LITERAL, ALL_WAYS },
	{ 4, spoil_grammar, EGRESS_BAD_HOST, ALL_WAYS },
	{ 5, spoil_lookup, EGRESS_DNS_FAIL, ALL_WAYS },
	{ 6, spoil_address, EGRESS_ADDR_CLASS, ALL_WAYS },
	{ 6, spoil_mixed, EGRESS_REBIND_SUSPECTED, ALL_WAYS },
	{ 6, spoil_own, EGRESS_ADDR_CLASS, ALL_WAYS },
	{ 7, spoil_limit_of_session, EGRESS_LIMIT, DIRECT_TOO },
	{ 7, spoil_limit_of_all, EGRESS_LIMIT, DIRECT_TOO },
	{ 10, spoil_bytes, EGRESS_NOT_TLS, DIRECT_TOO },
	{ 10, spoil_no_name, EGRESS_NO_SNI, DIRECT_TOO },
	{ 10, spoil_other_name, EGRESS_SNI_MISMATCH, PROXY_ONLY },
};

static bool counts(const struct rung *rung, enum egress_via via)
{
	if (via == EGRESS_PROXY)
		return true;
	return via == EGRESS_DIRECT ? rung->ways >= DIRECT_TOO : rung->ways == ALL_WAYS;
}

static void each_rung_fails_alone(void **state)
{
	for (enum egress_via via = EGRESS_PROXY; via <= EGRESS_DNS; via++) {
		struct egress_question whole = good(via);
		assert_int_equal(egress_decide(&whole), EGRESS_OK);
		for (size_t i = 0; i < ARRAY_SIZE(rungs); i++) {
			struct egress_question q = good(via);
			rungs[i].spoil(&q);
			assert_int_equal(egress_decide(&q),
					 counts(&rungs[i], via) ? rungs[i].code : EGRESS_OK);
		}
	}
}

static void the_first_rung_that_fails_is_the_answer(void **state)
{
	for (enum egress_via via = EGRESS_PROXY; via <= EGRESS_DNS; via++) {
		for (size_t i = 0; i < ARRAY_SIZE(rungs); i++) {
			for (size_t k = i + 1; k < ARRAY_SIZE(rungs); k++) {
				struct egress_question q = good(via);
				if (rungs[i].rung == rungs[k].rung || !counts(&rungs[i], via))
					continue;
				rungs[i].spoil(&q);
				rungs[k].spoil(&q);
				/* No addresses at all cannot be bad ones as well. */
				if (rungs[i].spoil == spoil_lookup)
					spoil_lookup(&q);
				assert_int_equal(egress_decide(&q), rungs[i].code);
			}
		}
	}
}

/* What is not known yet fails nothing: the question grows from call to call. */
static void a_question_may_be_asked_early(void **state)
{
	struct egress_question q = { .via = EGRESS_PROXY,
				     .is_connect = true,
				     .policy = &policy,
				     .port = 443,
				     .host = host_of("a.wild.example") };

	assert_int_equal(egress_decide(&q), EGRESS_OK);
	/* Not counted, not resolved: what stands in these is not looked at. */
	q.tunnels_session = q.tunnels_all = 1000000;
	assert_int_equal(egress_decide(&q), EGRESS_OK);
	q.counted = true;
	assert_int_equal(egress_decide(&q), EGRESS_LIMIT);
}

static void the_direct_path_has_no_host_before_the_hello(void **state)
{
	struct egress_question q = {
		.via = EGRESS_DIRECT, .is_connect = true, .policy = &policy, .port = 443
	};

	assert_int_equal(egress_decide(&q), EGRESS_OK);
	q.first_bytes = EGRESS_BYTES_NOT_TLS;
	assert_int_equal(egress_decide(&q), EGRESS_NOT_TLS);
	q.first_bytes = EGRESS_BYTES_NO_NAME;
	assert_int_equal(egress_decide(&q), EGRESS_NO_SNI);
	q.first_bytes = EGRESS_BYTES_NAME;
	q.host = q.sni = host_of("allowed.example");
	assert_int_equal(egress_decide(&q), EGRESS_OK);
	q.host = q.sni = host_of("other.example");
	assert_int_equal(egress_decide(&q), EGRESS_NO_RULE);
	q.host = q.sni = host_of("127.0.0.1");
	assert_int_equal(egress_decide(&q), EGRESS_LITERAL);
	/* Plain HTTP and other ports, before anything was read. */
	q = (struct egress_question){ .via = EGRESS_DIRECT, .policy = &policy, .port = 80 };
	assert_int_equal(egress_decide(&q), EGRESS_NOT_CONNECT);
	q.is_connect = true;
	q.port = 22;
	assert_int_equal(egress_decide(&q), EGRESS_PORT);
}

static void a_host_that_was_forgotten_is_a_refusal(void **state)
{
	struct egress_question q = good(EGRESS_PROXY);

	q.host = NULL;
	assert_int_equal(egress_decide(&q), EGRESS_BAD_HOST);
	q.via = EGRESS_DNS;
	assert_int_equal(egress_decide(&q), EGRESS_BAD_HOST);
	q.via = EGRESS_DIRECT;
	assert_int_equal(egress_decide(&q), EGRESS_BAD_HOST);
	q = (struct egress_question){ .via = EGRESS_DIRECT,
				      .is_connect = true,
				      .policy = &policy,
				      .port = 443,
				      .first_bytes = EGRESS_BYTES_NAME };
	assert_int_equal(egress_decide(&q), EGRESS_BAD_HOST);
	q.first_bytes = EGRESS_BYTES_UNKNOWN;
	q.resolved = true;
	assert_int_equal(egress_decide(&q), EGRESS_BAD_HOST);
}

static void the_server_name_is_the_connect_host_in_any_spelling(void **state)
{
	static const struct {
		const char *sni;
		enum egress_code code;
	} table[] = {
		{ "allowed.example", EGRESS_OK },
		{ "ALLOWED.EXAMPLE", EGRESS_OK },
		{ "allowed.example.", EGRESS_OK },
		{ "allowed.example..", EGRESS_SNI_MISMATCH },
		{ "a.allowed.example", EGRESS_SNI_MISMATCH },
		{ "allowed.exampl", EGRESS_SNI_MISMATCH },
		{ "a.wild.example", EGRESS_SNI_MISMATCH },
		{ "8.8.8.8", EGRESS_SNI_MISMATCH },
		{ "", EGRESS_SNI_MISMATCH },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct egress_question q = good(EGRESS_PROXY);
		q.sni = host_of(table[i].sni);
		assert_int_equal(egress_decide(&q), table[i].code);
	}
	struct egress_question q = good(EGRESS_PROXY);
	q.sni = NULL;
	assert_int_equal(egress_decide(&q), EGRESS_SNI_MISMATCH);
}

static void an_empty_policy_allows_nothing(void **state)
{
	struct egress_question q = good(EGRESS_PROXY);

	q.policy = &empty;
	assert_int_equal(egress_decide(&q), EGRESS_NO_RULE);
	assert_false(egress_policy_allows(&empty, STR("allowed.example")));
	assert_false(egress_policy_allows(&policy, STR("")));
	assert_true(egress_policy_allows(&policy, STR("allowed.example")));
	assert_true(egress_policy_allows(&policy, STR("a.b.wild.example")));
	assert_false(egress_policy_allows(&policy, STR("wild.example")));
}

static void of_a_download_names_and_addresses_are_judged(void **state)
{
	static const struct {
		const char *host, *addr;
		enum egress_code code;
	} table[] = {
		{ "allowed.example", "8.8.8.8", EGRESS_OK },
		{ "other.example", "8.8.8.8", EGRESS_NO_RULE },
		{ "8.8.8.8", "8.8.8.8", EGRESS_LITERAL },
		{ "allowed.example", "10.0.0.1", EGRESS_ADDR_CLASS },
		{ "allowed.example", "169.254.169.254", EGRESS_ADDR_CLASS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct inet_addr addr = addr_of(table[i].addr);
		struct egress_question q = { .via = EGRESS_FETCH,
					     .policy = &policy,
					     .host = host_of(table[i].host),
					     .resolved = true,
					     .addrs = &addr,
					     .n_addrs = 1 };
		assert_int_equal(egress_decide(&q), table[i].code);
		q.policy = NULL;
		assert_int_equal(egress_decide(&q), EGRESS_POLICY_MISSING);
	}
	struct egress_question forgotten = { .via = EGRESS_FETCH, .policy = &policy };
	assert_int_equal(egress_decide(&forgotten), EGRESS_BAD_HOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(outcomes_are_those_of_the_contract),
		cmocka_unit_test(a_reason_is_cut_to_its_room),
		cmocka_unit_test(each_rung_fails_alone),
		cmocka_unit_test(the_first_rung_that_fails_is_the_answer),
		cmocka_unit_test(a_question_may_be_asked_early),
		cmocka_unit_test(the_direct_path_has_no_host_before_the_hello),
		cmocka_unit_test(a_host_that_was_forgotten_is_a_refusal),
		cmocka_unit_test(the_server_name_is_the_connect_host_in_any_spelling),
		cmocka_unit_test(an_empty_policy_allows_nothing),
		cmocka_unit_test(of_a_download_names_and_addresses_are_judged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
