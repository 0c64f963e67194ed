// SPDX-License-Identifier: Apache-2.0
/*
 * journal: the log file of one session, <log dir>/<session id>.jsonl: one line per event
 * (egress/event.h), appended with one write(2). Opened at the first event.
 *
 * Bounded under floods, with exact counts: of identical denials (same host, port, way in and code)
 * JOURNAL_SAME_MAX are written in a minute, of denials of all kinds JOURNAL_DENIALS_MAX; the rest
 * is counted, and the minute's end writes one event with "repeat" for each kind. DNS denials have
 * one line per name and minute.
 *
 * No session and no tenant can fill the disk on which all the others have their logs too. A file of
 * JOURNAL_SIZE_MAX takes allowed connections only, and counts by code and way in; so does every
 * file of a tenant whose files take JOURNAL_TENANT_MAX, and every file while there is little room
 * (gateway/logs.h). A file of JOURNAL_FULL and a tenant of JOURNAL_TENANT_SHUT take no new
 * connection, and a tenant of JOURNAL_TENANT_FULL not even counts. The end of a connection is
 * always written.
 */
#pragma once

#include "egress/event.h"
#include "gateway/gateway.h"

#define JOURNAL_SAME_MAX 100u
#define JOURNAL_DENIALS_MAX 1000u
#define JOURNAL_WINDOW_MS 60000
#define JOURNAL_KINDS 256u
#define JOURNAL_SIZE_MAX (32u * 1024 * 1024)
#define JOURNAL_FULL (256u * 1024 * 1024)
#define JOURNAL_TENANT_MAX (UINT64_C(1024) * 1024 * 1024)
#define JOURNAL_TENANT_SHUT (8 * JOURNAL_TENANT_MAX)
#define JOURNAL_TENANT_FULL (JOURNAL_TENANT_SHUT + UINT64_C(256) * 1024 * 1024)

struct journal;

struct journal *journal_new(struct gateway *g, const char *session, const char *tenant);
/* Writes what is still counted, closes the file. */
void journal_close(struct journal *j);

/* session, tenant and ts_ms are filled in. False: it could not be written, which for an allowed
 * connection means that it is not allowed. A denial that is counted instead counts as written. */
bool journal_write(struct journal *j, struct egress_event *e);
