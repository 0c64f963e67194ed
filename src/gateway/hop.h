// SPDX-License-Identifier: Apache-2.0
/*
 * hop: one step of a download: from an URL, or from a Location and the step that it came with, to
 * what may be asked for next. Pure: no socket, no clock, no resolver. Text is taken apart by
 * libcurl's URL parser (RFC 3986 with its 5.2 for relative ones) and put together again from what
 * was judged, so that what is judged is what is asked for.
 *
 * What is allowed: https, port 443, a name, no user. Which names, and which of their addresses, is
 * for gateway_decide.
 *
 * The base is what the operator wrote into SANDBOX_GITHUB_BASE. A step is at the base when its
 * scheme, host and port are the base's, and so were all the steps before: whoever has led away
 * from it does not lead back. At the base its port is allowed, and where its host is written as an
 * address, or is localhost, so is that address, whatever its class, and http where that is
 * loopback. There alone an address is dialled that egress/address.h was not asked about: it is the
 * operator's word, and nobody resolves it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/inet.h"
#include "base/str.h"
#include "egress/host.h"
#include "ipc/messages.h"

/* Of an URL that is asked for, with its NUL. */
#define HOP_URL_SIZE 4096u
/* "elsewhere" in a few words, with its NUL. */
#define HOP_WHERE_SIZE MSG_TEXT

struct hop_base {
	bool given; /* else there is none */
	bool https;
	struct egress_host host;
	uint16_t port;
	/* Where the host is an address or localhost; else n_addrs is 0. */
	struct inet_addr addrs[2];
	size_t n_addrs;
};

struct hop {
	char url[HOP_URL_SIZE]; /* scheme, host, port, path and query */
	bool https;
	struct egress_host host; /* a literal is without brackets */
	uint16_t port;
	bool at_base;
};

/* False: not https, nor http to a loopback address; or no URL without user, query and fragment. */
bool hop_base_parse(struct str url, struct hop_base *ret);

enum hop_verdict {
	HOP_OK,
	HOP_ELSEWHERE, /* well-formed, and not allowed: where to is in where */
	HOP_MALFORMED,
};

/* from: the step that had this as its Location; NULL: url is the first one, and absolute. */
enum hop_verdict hop_parse(const struct hop_base *base, const struct hop *from, struct str url,
			   struct hop *ret, char where[static HOP_WHERE_SIZE]);
