// SPDX-License-Identifier: Apache-2.0
/*
 * catch: the all-ports catch. A BPF program of type sk_lookup in the sandbox's network namespace
 * gives every TCP connection to an address outside loopback to the listener NET_TLS, whatever its
 * port, so that the gateway can say who was called. The accepted socket's own address is what was
 * dialled. Ports 53 and 80 keep their listeners; loopback is the sandbox's own business.
 *
 * The program cannot tell namespaces apart, so each slot has one of its own with a map of one
 * socket. They are loaded at the slot's first use and used again; what is made for each sandbox is
 * the link between program and namespace. Whoever holds the link's descriptor holds the catch: it
 * must be closed before the slot is used again, so that no connection of an earlier sandbox can
 * reach the next one's listener.
 *
 * docs/decisions/all-ports.md has the alternatives and the figures.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct catch
{
	int map, program; /* owned */
};

#define CATCH_NONE ((struct catch){ -1, -1 })

/* Whether this host lets us. */
bool catch_works(void);
/* network: descriptor of the namespace; listener: a TCP socket of it. */
int catch_attach(struct catch *c, int network, int listener, int *ret_link, struct err *err);
