// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

void *mem_new(size_t n, size_t size)
{
	return must(calloc(n ? n : 1, size ? size : 1));
}

void *mem_grow(void *p, size_t n, size_t size)
{
	return must(reallocarray(p, n ? n : 1, size ? size : 1));
}

char *mem_dup(const char *text)
{
	return must(strdup(text));
}

char *mem_dup_n(const void *data, size_t len)
{
	char *copy = must(malloc(len + 1));

	if (len)
		memcpy(copy, data, len);
	copy[len] = '\0';
	return copy;
}

char *mem_printf(const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		abort();
	va_end(ap);
	return must(text);
}

void mem_cleanup(void *p)
{
	void **slot = p;

	free(*slot);
	*slot = NULL;
}
