// SPDX-License-Identifier: Apache-2.0
/*
 * hello: the server name in a TLS ClientHello (RFC 8446 4.1.2, RFC 6066 3), from bytes that may
 * come one by one and in several records. Looks, never decrypts, keeps nothing but offsets: the
 * caller gives all bytes from the first one each time. At most EGRESS_HELLO_MAX of them.
 *
 * Strict: handshake records of TLS 1.0-1.3 only, the first message a ClientHello that fills its
 * lengths exactly and ends with its last record; one server_name extension with exactly one entry
 * of type host_name. Anything else is EGRESS_HELLO_NOT_TLS or EGRESS_HELLO_NO_NAME, never a guess.
 * An answer other than MORE is final: bytes that come later change nothing. With Encrypted
 * ClientHello the outer name is what counts.
 */
#pragma once

#include "base/str.h"

#define EGRESS_HELLO_MAX (16u * 1024u)

enum egress_hello {
	EGRESS_HELLO_MORE,    /* not whole yet */
	EGRESS_HELLO_NOT_TLS, /* no ClientHello can come of this; also when it is too long */
	EGRESS_HELLO_NO_NAME, /* whole, without a usable server name */
	EGRESS_HELLO_NAME,    /* *ret_name holds the name as sent */
};

/* ret_name needs 256 bytes; *ret_len is its length (a name may hold any byte). */
enum egress_hello egress_hello_parse(struct str bytes, char ret_name[256], size_t *ret_len);
