// SPDX-License-Identifier: Apache-2.0
/*
 * event: one attempt to reach something, as it stands in the log: protocol 7.4. The gateway writes
 * lines, airlockd reads them back and folds those of one connection. The names of the fields are
 * the contract's; times are wall clock seconds with three decimals.
 *
 * A line is written with one write(2) to a file opened O_APPEND. An allowed connection has two,
 * with the same "conn": one with "open": true before the 200, one at its end with "open": false,
 * "bytes_up", "bytes_down", "duration_ms"; when rung 10 refuses afterwards the second is a denial.
 * A refusal has one line, without "conn". "open" is in every line of a connection. "repeat": this
 * line stands for so many more attempts.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "egress/decide.h"

#define EGRESS_TARGET_MAX 200u
#define EGRESS_IPS_MAX 4u

struct egress_event {
	int64_t ts_ms;	       /* wall clock, of the decision */
	enum egress_code code; /* EGRESS_OK: allow */
	enum egress_via via;
	const char *session, *tenant;
	const char *host;   /* canonical name, or the literal as given; "" when none is known */
	int port;	    /* -1: not known */
	const char *reason; /* deny */
	struct str target;  /* requests that are not CONNECT; data == NULL: none */
	struct inet_addr ips[EGRESS_IPS_MAX]; /* looked at */
	unsigned n_ips;
	bool dialled;
	struct inet_addr ip; /* dialled */
	bool has_dest;
	struct inet_addr dest; /* original address on the direct path */
	uint64_t conn;	       /* 0: none */
	bool open;
	bool closed; /* second line of a connection */
	uint64_t bytes_up, bytes_down;
	int64_t duration_ms;
	uint64_t repeat; /* 0: none */
};

/* The word of the log ("direct"). */
const char *egress_via_name(enum egress_via via);

/* Adds one line of JSON, printable ASCII and the line end. Text that is not UTF-8 is repaired.
 * False when out is full: what it held before is still there, and buf_is_full(out). */
bool egress_event_write(const struct egress_event *e, struct buf *out);
