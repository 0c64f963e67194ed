// SPDX-License-Identifier: Apache-2.0
#include "egress/decide.h"

#include <assert.h>
#include <stdio.h>

#include "base/mem.h"
#include "egress/address.h"
#include "egress/rule.h"

/* The contract's table (7.3). Status 0: closed without a reply. */
static const struct outcome {
	const char *name;
	unsigned status;
	const char *reason; /* NULL: made in egress_reason */
} outcomes[EGRESS_CODES] = {
	[EGRESS_OK] = { "ok", 200, "" },
	[EGRESS_NOT_CONNECT] = { "not_connect", 405, "only HTTPS (CONNECT) is supported" },
	[EGRESS_POLICY_MISSING] = { "policy_missing", 403, "no policy for this sandbox" },
	[EGRESS_PORT] = { "port", 403, NULL },
	[EGRESS_NO_RULE] = { "no_rule", 403, "host not on allowlist" },
	[EGRESS_LITERAL] = { "literal", 403, "host not on allowlist" },
	[EGRESS_BAD_HOST] = { "bad_host", 403, "host not on allowlist" },
	[EGRESS_DNS_FAIL] = { "dns_fail", 502, "DNS lookup failed" },
	[EGRESS_ADDR_CLASS] = { "addr_class", 403, "resolves to a private or reserved address" },
	[EGRESS_REBIND_SUSPECTED] = { "rebind_suspected", 403,
				      "resolves to a private or reserved address" },
	[EGRESS_LIMIT] = { "limit", 503, "too many connections" },
	[EGRESS_CONNECT_FAIL] = { "connect_fail", 502, "upstream connection failed" },
	[EGRESS_NOT_TLS] = { "not_tls", 0, "not TLS" },
	[EGRESS_NO_SNI] = { "no_sni", 0, "no TLS server name" },
	[EGRESS_SNI_MISMATCH] = { "sni_mismatch", 0, "TLS name does not match the host" },
	[EGRESS_ERROR] = { "error", 0, NULL },
	[EGRESS_LOG_UNAVAILABLE] = { "log_unavailable", 503, NULL },
};

static const struct outcome *outcome_get(enum egress_code code)
{
	assert((unsigned)code < EGRESS_CODES);
	return &outcomes[code];
}

const char *egress_code_name(enum egress_code code)
{
	return outcome_get(code)->name;
}

void egress_reason(enum egress_code code, uint16_t port, const char *word, char *out, size_t size)
{
	const struct outcome *outcome = outcome_get(code);

	if (outcome->reason)
		snprintf(out, size, "%s", outcome->reason);
	else if (code == EGRESS_PORT)
		snprintf(out, size, "port %u not allowed", (unsigned)port);
	else
		snprintf(out, size, "proxy error: %s", word ? word : outcome->name);
}

unsigned egress_proxy_status(enum egress_code code)
{
	return outcome_get(code)->status;
}

static struct str text_of(const struct egress_host *host)
{
	return (struct str){ host->text, host->len };
}

bool egress_policy_allows(const struct egress_policy *p, struct str host)
{
	for (size_t i = 0; i < p->n_rules; i++) {
		if (egress_rule_allows(p->rules[i], host))
			return true;
	}
	return false;
}

/* Rung 4. Without a host nothing may come of the question but what the first bytes say, and only on
 * the direct path: elsewhere a host that was forgotten is a refusal. */
static enum egress_code judge_host(const struct egress_question *q)
{
	if (!q->host) {
		bool early = q->via == EGRESS_DIRECT && !q->resolved && !q->counted &&
			     q->first_bytes != EGRESS_BYTES_NAME;
		return early ? EGRESS_OK : EGRESS_BAD_HOST;
	}
	if (q->host->kind == EGRESS_HOST_LITERAL)
		return EGRESS_LITERAL;
	if (q->host->kind != EGRESS_HOST_NAME)
		return EGRESS_BAD_HOST;
	return egress_policy_allows(q->policy, text_of(q->host)) ? EGRESS_OK : EGRESS_NO_RULE;
}

/* Rungs 5 and 6. */
static enum egress_code judge_addresses(const struct egress_question *q)
{
	if (!q->resolved)
		return EGRESS_OK;
	if (!q->n_addrs)
		return EGRESS_DNS_FAIL;
	switch (egress_addresses_judge(q->addrs, q->n_addrs, q->own, q->n_own)) {
	case EGRESS_ADDRESSES_PUBLIC:
		return EGRESS_OK;
	case EGRESS_ADDRESSES_MIXED:
		return EGRESS_REBIND_SUSPECTED;
	case EGRESS_ADDRESSES_PRIVATE:
		break;
	}
	return EGRESS_ADDR_CLASS;
}

/* Rung 7. */
static enum egress_code judge_tunnels(const struct egress_question *q)
{
	bool over = q->tunnels_session >= EGRESS_TUNNELS_SESSION ||
		    q->tunnels_all >= EGRESS_TUNNELS_ALL;

	return q->counted && over ? EGRESS_LIMIT : EGRESS_OK;
}

/* Rung 10. On the direct path the server name is the host and went through rung 4. */
static enum egress_code judge_first_bytes(const struct egress_question *q)
{
	switch (q->first_bytes) {
	case EGRESS_BYTES_UNKNOWN:
		return EGRESS_OK;
	case EGRESS_BYTES_NOT_TLS:
		return EGRESS_NOT_TLS;
	case EGRESS_BYTES_NO_NAME:
		return EGRESS_NO_SNI;
	case EGRESS_BYTES_NAME:
		break;
	}
	if (q->via == EGRESS_DIRECT)
		return EGRESS_OK;
	bool same = q->sni && q->sni->kind == EGRESS_HOST_NAME &&
		    str_eq(text_of(q->sni), text_of(q->host));
	return same ? EGRESS_OK : EGRESS_SNI_MISMATCH;
}

/* Whether bytes of a tenant would follow. */
static bool is_tunnel(const struct egress_question *q)
{
	return q->via == EGRESS_PROXY || q->via == EGRESS_DIRECT;
}

enum egress_code egress_decide(const struct egress_question *q)
{
	enum egress_code code;

	if (is_tunnel(q) && !q->is_connect)
		return EGRESS_NOT_CONNECT;
	if (!q->policy)
		return EGRESS_POLICY_MISSING;
	if (is_tunnel(q) && q->port != 443)
		return EGRESS_PORT;
	code = judge_host(q);
	if (!code)
		code = judge_addresses(q);
	if (!code && is_tunnel(q))
		code = judge_tunnels(q);
	if (!code && is_tunnel(q))
		code = judge_first_bytes(q);
	return code;
}
