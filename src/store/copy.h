// SPDX-License-Identifier: Apache-2.0
/*
 * copy: databases as files, for backups. Blocks; for programs that are not the server.
 */
#pragma once

#include "base/err.h"

/* Makes to (0600, which must not exist) a copy of the database at path as it is at one instant, and
 * puts it on the disk. A server may use path meanwhile and waits for nothing. */
int store_copy(const char *path, const char *to, struct err *err);
/* Puts a copy, which must be a state database that passes its checks, in the place of the one at
 * path, which no server may use. What was there is kept as <path>.replaced. Owner: that of the
 * folder. At any time path is one of the two. */
int store_restore(const char *copy, const char *path, struct err *err);
