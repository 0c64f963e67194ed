// SPDX-License-Identifier: Apache-2.0
/*
 * dns: the messages of the stub name server that faces a sandbox (RFC 1035, RFC 6891 for EDNS,
 * RFC 9460 for HTTPS and SVCB). Reads one question and writes the answer; knows no other message.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/inet.h"
#include "base/str.h"
#include "egress/host.h"

#define EGRESS_DNS_TTL 60u
#define EGRESS_DNS_MAX 512u /* of an answer over UDP without EDNS; larger ones are truncated */
#define EGRESS_DNS_EDNS_MAX 1232u

enum egress_dns_type {
	EGRESS_DNS_A = 1,
	EGRESS_DNS_AAAA = 28,
	EGRESS_DNS_SVCB = 64,
	EGRESS_DNS_HTTPS = 65
};

enum egress_dns_verdict {
	EGRESS_DNS_DROP,     /* not a query, or too short to answer: silence */
	EGRESS_DNS_REFUSE,   /* well-formed head, but not one IN question: answer with rcode */
	EGRESS_DNS_QUESTION, /* one question of class IN */
};

struct egress_dns_query {
	uint16_t id;
	uint16_t flags;		 /* as sent */
	uint16_t type;		 /* QTYPE, any number */
	struct egress_host host; /* the name of the question */
	size_t question_len;	 /* bytes of the question section, which follow the head */
	size_t max;		 /* bytes that the answer may have over UDP */
	bool edns;
	bool dnssec_ok; /* the DO bit, which the answer repeats */
	unsigned rcode; /* REFUSE: what to say (FORMERR, NOTIMP, BADVERS) */
};

enum egress_dns_verdict egress_dns_read(struct str message, struct egress_dns_query *ret);

/* What the answer says. */
enum egress_dns_rcode {
	EGRESS_DNS_NOERROR = 0,
	EGRESS_DNS_FORMERR = 1,
	EGRESS_DNS_SERVFAIL = 2,
	EGRESS_DNS_NXDOMAIN = 3,
	EGRESS_DNS_NOTIMP = 4,
	EGRESS_DNS_BADVERS = 16, /* EDNS of a version that does not exist */
};

/* Writes the answer to the message that query was read from: addresses of the asked family (others
 * are left out), TTL at most 60, the truncation bit when they do not fit into max. max: q->max over
 * UDP, 65535 over TCP. Returns the length, at most size; 0 when not even the head fits. */
size_t egress_dns_write(struct str message, const struct egress_dns_query *q,
			enum egress_dns_rcode rcode, const struct inet_addr *addrs, size_t n_addrs,
			uint32_t ttl, size_t max, unsigned char *out, size_t size);
