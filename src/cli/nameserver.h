// SPDX-License-Identifier: Apache-2.0
/*
 * nameserver: whom the gateway asks when the operator names nobody: the host's own name servers
 * (resolv.conf(5)), without those that listen on loopback. A local one (systemd-resolved, dnsmasq)
 * answers from the host's files and search lists, which are not for tenants; the servers that
 * systemd-resolved asks itself are in a file of its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define NAMESERVER_LIST_MAX 512

/* Adds the servers of one file to a comma list in out; false when it has none. */
bool nameserver_read(const char *path, char *out, size_t size);
/* Those of the host; false when there are none. */
bool nameserver_of_host(char *out, size_t size);
