// SPDX-License-Identifier: Apache-2.0
/*
 * sibling: where our other binaries are: beside this one (the build directory and
 * libexec/airlock alike).
 */
#pragma once

#include <stddef.h>

/* Writes the absolute path of the program into out. Returns 0 or a negative errno. */
int sibling_path(const char *program, char *out, size_t size);
