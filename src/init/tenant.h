// SPDX-License-Identifier: Apache-2.0
/*
 * tenant: the process that will run a tenant's command, or serve file jobs. It is forked ahead of
 * need, gives up everything at once, then waits on a socket for its one order:
 *
 *   DI_EXEC  it puts the descriptors in place, locks itself in with landlock, and becomes bash. The
 *            socket closes at exec, which is how init knows; a failure is reported as ID_REFUSED.
 *   DI_FILE  it serves this and every later file job; no tenant code ever runs in such a sandbox.
 *
 * Between fork and exec: system calls only, no heap.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"

/* Forks the process; it is locked down before this returns, but for landlock, which needs the
 * workspace; *ret_landlock is the ABI that it will restrict itself with. *ret_sock is init's end. */
int tenant_spawn(pid_t *ret_pid, int *ret_sock, int *ret_landlock, struct err *err);
