// SPDX-License-Identifier: Apache-2.0
/*
 * serve: from a configuration to a running launcher, in this order:
 *
 *   1. A child without rights (user airlock, or nobody) reads environment and file, checks every
 *      value, writes what airlockd gets into a memfd, and sends the few values that the launcher
 *      needs in a fixed struct. No text of the configuration is parsed with rights.
 *   2. State directory: <dir> root 0755, <dir>/state airlock 0700, <dir>/state/tmp airlock 0700.
 *   3. The listening socket.
 *   4. This process becomes airlock-launcher, with an empty environment.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct serve_request {
	const char *config_file; /* NULL: none */
	bool check_only;
	bool accept_lost; /* serve without volumes that the database does not explain */
};

/* Returns the exit status; does not return when the launcher was started. */
int serve_become(const struct serve_request *request);
