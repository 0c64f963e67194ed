// SPDX-License-Identifier: Apache-2.0
/*
 * sse: server-sent events (HTML standard, section 9.2.6), as far as a client of ours needs them:
 * the fields event and data; id, retry and comments are skipped. Lines end with LF, CRLF or CR, and
 * may be cut anywhere between two calls of sse_feed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

/* One line and one event: a result carries both streams, up to 2 x 256 MiB, escaped. */
#define SSE_MAX (1u << 30)
#define SSE_EVENT_MAX 32

struct sse {
	void (*each)(void *user, const char *event, struct str data);
	void *user;
	struct buf line; /* owned */
	struct buf data; /* owned */
	char event[SSE_EVENT_MAX];
	bool has_data;
	bool after_cr;
};

void sse_init(struct sse *s, void (*each)(void *user, const char *event, struct str data),
	      void *user);
void sse_fini(struct sse *s);
/* False: a line or an event is longer than the maximum. */
bool sse_feed(struct sse *s, const char *bytes, size_t len);
