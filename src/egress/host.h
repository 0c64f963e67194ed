// SPDX-License-Identifier: Apache-2.0
/*
 * host: from the bytes that a tenant sent to the one canonical form of a host name, or to the
 * statement that it is an address literal or no name at all. Used for the authority of a CONNECT,
 * for TLS server names and for DNS questions, so that one name has one form in every way in
 * (RFC 1123 2.1, RFC 5890 for A-labels; the numeric forms of WHATWG URL are what must not pass as
 * names). Length-counted; no NUL ends anything; no resolver or inet_aton is ever asked.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/inet.h"
#include "base/str.h"

#define EGRESS_HOST_MAX 253u

enum egress_host_kind {
	EGRESS_HOST_NAME,    /* text is the canonical name: lower case, no dot at the end */
	EGRESS_HOST_LITERAL, /* an IPv4 or IPv6 address, in brackets or not, with or without a zone,
				in any of the usual or unusual spellings */
	EGRESS_HOST_BAD,     /* neither */
};

struct egress_host {
	enum egress_host_kind kind;
	char text[EGRESS_HOST_MAX + 1]; /* NAME: canonical; LITERAL: as given; BAD: "" */
	size_t len;
};

/* At most one dot at the end is dropped. A name: labels 1-63 of a-z 0-9 - _ after ASCII
 * lower-casing, 253 in all, an "xn--" label must decode (RFC 3492); a last label that is numeric or
 * 0x-numeric makes it a LITERAL when the whole reads as a spelling of an IPv4 address, else BAD. */
void egress_host_parse(struct str raw, struct egress_host *ret);

/* Takes "host:port" apart (RFC 9112 3.2.3). The port is strict decimal without sign or leading
 * zero, 1-65535; anything else, or none, counts as 0. An IPv6 literal needs brackets; without them
 * the text behind the last colon is the port. */
void egress_authority_parse(struct str raw, struct egress_host *ret_host, uint16_t *ret_port);
