// SPDX-License-Identifier: Apache-2.0
/*
 * egress-log: the file of events of one session, read from its end: protocol 7.4, egress/event.h.
 * For a thread of the work pool: it blocks, and touches nothing but its arguments.
 *
 * The gateway writes the file, and the gateway faces tenants, so each line is looked at as if a
 * stranger had written it: one JSON object with the fields of the contract in their types, of this
 * session and this tenant; anything else is skipped and counted. At most EGRESS_LOG_WINDOW bytes
 * from the end are looked at.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/runtime.h"

#define EGRESS_LOG_WINDOW (8u * 1024 * 1024)
#define EGRESS_LOG_LINE_MAX (16u * 1024)
#define EGRESS_LOG_EVENTS_MAX 1000u

struct egress_log_query {
	const char *path;
	const char *session, *tenant;
	size_t limit; /* 1 .. EGRESS_LOG_EVENTS_MAX */
	/* What the gateway said about open tunnels. */
	bool answered; /* false: it did not say, so what is open in the file is open */
	const struct runtime_live *live;
	size_t n_live;
	int64_t asked_ms; /* wall clock; what was decided later it may not have known yet */
};

/* Puts the last events onto out as a JSON list, oldest first. No file is an empty list.
 * *ret_skipped: lines that are none of ours, of those that were looked at. */
int egress_log_read(const struct egress_log_query *q, struct buf *out, size_t *ret_skipped,
		    struct err *err);
