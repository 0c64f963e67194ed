// SPDX-License-Identifier: Apache-2.0
/*
 * confine: airlockd locks itself in. In this order, each step before there is a second thread:
 *
 *   confine_identity  not root, no capability in any set, no_new_privs, not dumpable, no core file
 *   confine_files     landlock: nothing but the state directory and, for reading, that of the egress
 *                     log; no TCP of its own
 *   confine_calls     seccomp: what a server of requests needs and nothing that starts or connects
 *
 * A kernel without landlock leaves that step out when single is true, else it is an error.
 * Sources: capabilities(7), prctl(2), landlock(7), Documentation/userspace-api/landlock.rst.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

int confine_identity(struct err *err);
/* log_dir may be missing; then it stays so for this process. */
int confine_files(const char *state_dir, const char *log_dir, bool single, struct err *err);
int confine_calls(struct err *err);
