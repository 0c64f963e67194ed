// SPDX-License-Identifier: Apache-2.0
/*
 * net: what a sandbox with egress finds in its network namespace: two routes that make every
 * address one of its own (AnyIP: "local 0.0.0.0/0 dev lo"), and the sockets of enum net_fd that
 * answer there. No interface but loopback exists, so nothing else can answer and nothing leaves.
 *
 * The sockets are bound without SO_REUSEADDR and SO_REUSEPORT before any code of a tenant runs, by
 * root of the namespace: whoever comes later gets EADDRINUSE, and for ports below 1024 EACCES.
 *
 * Left to the kernel's defaults, because a tenant can open neither raw nor ping sockets:
 * icmp_echo_ignore_all, and ping_group_range, which is empty in a new namespace.
 */
#pragma once

#include "base/err.h"
#include "ipc/messages.h"

/* In the new namespaces, between clone and exec: system calls alone. Returns 0, or a negative errno
 * with the name of the step. */
int net_open(int ret_socks[NET_FDS], const char **ret_stage);

/* In the builder: are these the sockets that were asked for, all of one network namespace, and of
 * another one than ours is? own: any socket of ours. */
int net_check(const int socks[NET_FDS], int own, struct err *err);
