// SPDX-License-Identifier: Apache-2.0
/*
 * sibling: where our other binaries are: beside this one (the build directory and
 * libexec/airlock alike).
 */
#pragma once

#include <stddef.h>

/*
 * Writes the directory of this program into out. To be asked before the mount namespace is left:
 * afterwards the kernel gives the path of the mount of before, which from within a changed root is
 * another one. Returns 0 or a negative errno.
 */
int own_directory(char *out, size_t size);

/* Writes the path of a program of that directory into out. Returns 0 or a negative errno. */
int sibling_path(const char *directory, const char *program, char *out, size_t size);
