// SPDX-License-Identifier: Apache-2.0
/*
 * stub: the name server that a sandbox sees at whatever address it asks. A names that the session
 * may reach get an answer, everything else "no such name" and one event per name and minute.
 *
 * The answer to A is synthetic: an address of 198.18.0.0/15 (RFC 2544) that depends on the name
 * alone. So no question of a tenant leaves this host, and none can carry anything out; the name is
 * resolved when a connection to it is judged. AAAA, HTTPS, SVCB and the rest are empty answers.
 */
#pragma once

#include "gateway/gateway.h"

/* The UDP socket of a sandbox has something. */
void stub_udp(struct sandbox *sb, int fd);
/* Writes the answer to one message; returns its length, 0: silence. */
size_t stub_answer(struct sandbox *sb, struct str message, bool tcp, unsigned char *out,
		   size_t size);
