// SPDX-License-Identifier: Apache-2.0
/*
 * attempt: one connection that a sandbox made, from accept to its last byte.
 *
 *   WAIT    its sandbox is not bound yet
 *   HEAD    PROXY, HTTP: the head of the request is read
 *   HELLO   TLS: the ClientHello is read, for its server name
 *   LOOKUP  the name is being resolved
 *   DIAL    the checked addresses are tried in order
 *   FIRST   PROXY: "200" was said, the ClientHello is read
 *   TUNNEL  bytes are moved (gateway/relay.h)
 *   LINGER  a refusal was written; the client's end is awaited
 *
 * An attempt that began has one event in the log at most: a denial, or an allowed connection with
 * its two lines.
 *
 * What is judged is a copy of our own, and that copy is what is passed on. Bytes that are only
 * looked at (MSG_PEEK) can still change: sendfile(2) over loopback leaves the sender's own pages in
 * the receiver's queue, and he may write to their file until they are read.
 */
#pragma once

#include "gateway/gateway.h"

/* fd is owned. */
void attempt_start(struct sandbox *sb, enum net_fd kind, int fd);
/* Its sandbox was bound. */
struct attempt;
void attempt_bound(struct attempt *a);
/* Ends it now; an open tunnel gets its line. */
void attempt_end(struct attempt *a);

struct attempt *attempt_of_sandbox_node(struct list *node);
struct attempt *attempt_of_session_node(struct list *node);
/* Fills in what an open tunnel has moved so far; false: it is none. */
bool attempt_live(const struct attempt *a, struct egress_live *ret);
