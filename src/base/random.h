// SPDX-License-Identifier: Apache-2.0
/*
 * random: unguessable bytes from the kernel (getrandom, random(7)). Cannot fail: a kernel without
 * randomness is an abort.
 */
#pragma once

#include <stddef.h>

void random_bytes(void *out, size_t len);
/* n_digits random lower-case hexadecimal digits and a NUL: out has room for n_digits + 1. */
void random_hex(char *out, size_t n_digits);
