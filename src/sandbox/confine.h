// SPDX-License-Identifier: Apache-2.0
/*
 * confine: how a daemon of ours locks itself in. In this order, each step before there is a second
 * thread:
 *
 *   confine_identity  not root, no capability in any set, no_new_privs, not dumpable, no core file
 *   confine_files     landlock: nothing but the named directories; TCP connects to the named ports
 *   filter_load       seccomp (sandbox/filter.h)
 *
 * Sources: capabilities(7), prctl(2), landlock(7), Documentation/userspace-api/landlock.rst.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* who: the program's name, for the sentence of a refusal. */
int confine_identity(const char *who, struct err *err);

struct confine_dir {
	const char *path;
	/* Files may be read, not listed, and it need not exist. Else files may also be made,
	 * written, and removed. */
	bool read_only;
};

/* Binding TCP ports is refused, connecting to others than the given ones too (where the kernel's
 * landlock knows ports: ABI 4). /dev/null may be read. optional: a kernel without landlock leaves
 * the step out with a warning, else it is an error. */
int confine_files(const struct confine_dir *dirs, size_t n_dirs, const uint16_t *ports,
		  size_t n_ports, bool optional, struct err *err);
