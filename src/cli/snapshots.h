// SPDX-License-Identifier: Apache-2.0
/* snapshots: what `airlock sandbox` has that brings many files at once: snapshots, forks, imports
 * of repositories; `airlock snapshots` is in cli.h. */
#pragma once

#include "cli/cli.h"

int snapshots_take(const struct cli_command *self, int argc, char **argv);
int snapshots_restore(const struct cli_command *self, int argc, char **argv);
int snapshots_import(const struct cli_command *self, int argc, char **argv);
int snapshots_fork(const struct cli_command *self, int argc, char **argv);
