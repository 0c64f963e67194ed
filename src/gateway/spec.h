// SPDX-License-Identifier: Apache-2.0
/* spec: the specification memfds that airlockd sends. */
#pragma once

#include <stddef.h>

/* The whole of it, NUL-terminated, the caller's to free. NULL: not a file with all four seals, of
 * at most max bytes, or not readable. */
char *spec_read(int fd, size_t max, size_t *ret_len);
