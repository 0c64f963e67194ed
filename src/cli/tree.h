// SPDX-License-Identifier: Apache-2.0
/* tree: `airlock files list`, `rm`, `mv` and `mkdir`. */
#pragma once

#include "cli/cli.h"

int tree_list(const struct cli_command *self, int argc, char **argv);
int tree_rm(const struct cli_command *self, int argc, char **argv);
int tree_mv(const struct cli_command *self, int argc, char **argv);
int tree_mkdir(const struct cli_command *self, int argc, char **argv);
