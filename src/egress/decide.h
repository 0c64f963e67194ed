// SPDX-License-Identifier: Apache-2.0
/*
 * decide: the one decision function of egress, for every way in. Pure: no socket, no clock, no
 * resolver; what was found out is put into the question, the answer is the first rung of the
 * contract's ladder (7.3) that fails. The caller asks once before it resolves, once with the
 * addresses, once with the tunnel counts, once with the first bytes: each time the whole question,
 * as far as it is known.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/inet.h"
#include "egress/host.h"

enum egress_via {
	EGRESS_PROXY,
	EGRESS_DIRECT,
	EGRESS_DNS,
	EGRESS_FETCH, /* a download of airlockd's: its names and their addresses are judged, the
			 rest is gateway/hop.h's */
};

enum egress_code {
	EGRESS_OK = 0,
	EGRESS_NOT_CONNECT,
	EGRESS_POLICY_MISSING,
	EGRESS_PORT,
	EGRESS_NO_RULE,
	EGRESS_LITERAL,
	EGRESS_BAD_HOST,
	EGRESS_DNS_FAIL,
	EGRESS_ADDR_CLASS,
	EGRESS_REBIND_SUSPECTED,
	EGRESS_LIMIT,
	EGRESS_CONNECT_FAIL,
	EGRESS_NOT_TLS,
	EGRESS_NO_SNI,
	EGRESS_SNI_MISMATCH,
	EGRESS_ERROR,
	EGRESS_LOG_UNAVAILABLE,
	EGRESS_CODES,
};

/* The word of the log ("no_rule"). */
const char *egress_code_name(enum egress_code code);
/* The sentence of the log, into out; port and word ("proxy error: <word>") where it has one. */
void egress_reason(enum egress_code code, uint16_t port, const char *word, char *out, size_t size);
/* Status of the reply to a proxy client: 403, 405, 502, 503, or 0: the connection is closed. */
unsigned egress_proxy_status(enum egress_code code);

/* The rules of one session. Strings live as long as the policy; owned by whoever made it. */
struct egress_policy {
	const struct str *rules; /* expanded, normalised, valid */
	size_t n_rules;
};

bool egress_policy_allows(const struct egress_policy *p, struct str host);

#define EGRESS_TUNNELS_SESSION 64u
#define EGRESS_TUNNELS_ALL 4096u

enum egress_first_bytes {
	EGRESS_BYTES_UNKNOWN, /* not seen yet */
	EGRESS_BYTES_NOT_TLS,
	EGRESS_BYTES_NO_NAME, /* TLS without a server name */
	EGRESS_BYTES_NAME,    /* TLS with one: question.sni */
};

struct egress_question {
	enum egress_via via;
	bool is_connect; /* PROXY: the method is CONNECT. DIRECT to port 80: false */
	const struct egress_policy *policy; /* NULL: session ended or policy not loaded */
	uint16_t port;			    /* 0: unreadable. DNS, FETCH: not looked at */
	/* NULL: not known yet (DIRECT before the ClientHello): rung 4 is left out. DIRECT: the TLS
	 * server name once it is known. */
	const struct egress_host *host;
	/* Rungs 5 and 6, when resolved. */
	bool resolved;
	const struct inet_addr *addrs; /* n_addrs == 0: the name does not resolve */
	size_t n_addrs;
	const struct inet_addr *own; /* the host's own addresses */
	size_t n_own;
	/* Rung 7, when counted: tunnels that are open already. */
	bool counted;
	unsigned tunnels_session, tunnels_all;
	/* Rung 10, PROXY: the server name must be the CONNECT host. */
	enum egress_first_bytes first_bytes;
	const struct egress_host *sni;
};

enum egress_code egress_decide(const struct egress_question *q);
