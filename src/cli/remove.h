// SPDX-License-Identifier: Apache-2.0
/* remove: what `sandbox rm` and `snapshots rm` do. */
#pragma once

#include "cli/cli.h"

/* DELETE of the path with each id behind it. What fails is said, and the others are removed all the
 * same. Returns the exit status. */
int remove_each(const struct cli_command *self, const char *path, int argc, char **argv);
