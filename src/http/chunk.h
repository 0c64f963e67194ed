// SPDX-License-Identifier: Apache-2.0
/*
 * chunk: the chunked body (RFC 9112 section 7.1), strictly: every line ends with CR LF, sizes are
 * one to fifteen hexadecimal digits, extensions are skipped up to LIMIT_CHUNK_EXTENSIONS bytes a
 * body, and a trailer field is refused. The same bytes give the same body wherever the input is
 * cut.
 */
#pragma once

#include <stdint.h>

#include "base/str.h"

struct chunk {
	uint64_t left; /* of the present chunk */
	unsigned digits;
	unsigned extension; /* bytes in this body */
	unsigned piece;	    /* bytes of the present name or value */
	unsigned char state;
};

enum chunk_result { CHUNK_BAD = -1, CHUNK_MORE, CHUNK_DATA, CHUNK_END };

/* Takes bytes from the front of *in. CHUNK_DATA: *ret_data is a piece of the body (within in), call
 * again. CHUNK_MORE: *in is used up. CHUNK_END: what is left in *in is not the body's. {0} is the
 * start; after CHUNK_BAD and CHUNK_END no more calls. */
enum chunk_result chunk_take(struct chunk *chunk, struct str *in, struct str *ret_data);
