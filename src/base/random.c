// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

void random_bytes(void *out, size_t len)
{
	char *at = out;

	while (len) {
		ssize_t n = getrandom(at, len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			abort();
		at += n;
		len -= (size_t)n;
	}
}

void random_hex(char *out, size_t n_digits)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char raw[32];

	for (size_t i = 0; i < n_digits; i++) {
		size_t at = i / 2 % sizeof(raw);
		size_t left = (n_digits - i + 1) / 2;
		if (i % 2 == 0 && at == 0)
			random_bytes(raw, left < sizeof(raw) ? left : sizeof(raw));
		out[i] = digits[i % 2 ? raw[at] & 15 : raw[at] >> 4];
	}
	out[n_digits] = '\0';
}
