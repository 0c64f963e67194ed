// SPDX-License-Identifier: Apache-2.0
/*
 * fetch: a download for airlockd: GET an URL into a file of its, with at most five redirects.
 *
 *   LOOKUP   the host of this step is being resolved
 *   GET      a transfer runs; a redirect begins the next LOOKUP, anything else is the answer
 *   ANSWERED GD_FETCHED is said, or waits for room in the socket
 *
 * Each step goes through hop_parse (form), gateway_decide (name, then addresses) and is dialled at
 * what was judged. No session has a part in it. Whatever the other end does, a fetch is over after
 * its time, its file has never more than max_bytes, and there are at most FETCH_MAX of them: more
 * are answered as failed.
 */
#pragma once

#include <stdint.h>

#include "ipc/wire.h"

#define FETCH_MAX 16u
#define FETCH_REDIRECTS_MAX 5u
/* What a full socket has no room for is said again after. */
#define FETCH_RETRY_MS 100

struct gateway;

/* A DG_FETCH. Takes its descriptors. Returns 0 or -EPROTO: not as it must be. */
int fetch_start(struct gateway *g, struct wire_msg *msg);
/* Nothing is said, nothing is written any more. It may be over. */
void fetch_end(struct gateway *g, uint32_t id);
/* All: the airlockd that asked is gone. */
void fetches_end(struct gateway *g);
