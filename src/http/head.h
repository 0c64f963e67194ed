// SPDX-License-Identifier: Apache-2.0
/*
 * head: from bytes to a request head, in two readings that must agree.
 *
 * head_scan is the pre-scan: it looks at every byte once, as it arrives, and refuses what a strict
 * server must not let pass: a line end that is not CR LF, control characters, folded and nameless
 * fields, too long a target or block, anything but an origin-form target (RFC 9112 sections 2.2, 3,
 * 5; the contract's table of limits). It keeps offsets only, so the bytes may move between calls.
 * head_parse is for a head that the scan found whole: llhttp splits it into fields, and the rules
 * that need fields are applied: one Host, one length, Transfer-Encoding exactly "chunked", the
 * version.
 *
 * Both answer an HTTP status for what is wrong: 400, 414, 431, 505. No I/O, no clock.
 */
#pragma once

#include "base/arena.h"
#include "http/server.h"

struct head_scan {
	size_t at;	/* bytes looked at */
	size_t target;	/* where the target begins */
	size_t version; /* where the version begins */
	size_t fields;	/* where the first field begins */
	unsigned n_fields;
	unsigned char state;
	bool any_target; /* a proxy's: the target need not begin with a slash */
};

/* in starts with the first byte of the head each time and has at least as many bytes as before.
 * Returns 0 when more is needed, the length of the head when it is whole, or minus the status. {0}
 * is the start; after an answer other than 0 the scan is at its end. */
int head_scan(struct head_scan *scan, struct str in);

/* What only the server looks at. */
struct head_info {
	struct http_head head;
	bool expect_continue;
	bool is_http10;
};

/* in is the whole head; everything in *ret lives in the arena. Returns 0 or the status; *ret is
 * filled on 0 alone. */
int head_parse(const struct head_scan *scan, struct str in, struct arena *arena,
	       struct head_info *ret);

/* What a proxy looks at; points into the head. */
struct head_proxy {
	struct str method;
	struct str target; /* CONNECT: the authority */
	struct str host;   /* value of the only Host field; data == NULL: none, or several */
};

/* The same for a head that a proxy received (any_target). A CONNECT with a body, whatever way it
 * is announced, a repeated Host, or a version that is not 1.0 or 1.1 is not well-formed; of other
 * methods nothing is looked at but what is returned. False: not well-formed. */
bool head_parse_proxy(const struct head_scan *scan, struct str in, struct arena *arena,
		      struct head_proxy *ret);
