// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void buf_fini(struct buf *b)
{
	free(b->data);
	*b = (struct buf){ .max = b->max };
}

void buf_release(struct buf *b)
{
	buf_fini(b);
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	b->full = false;
	if (b->data)
		b->data[0] = '\0';
}

char *buf_reserve(struct buf *b, size_t len)
{
	/* Half the address space: sums and doubling below cannot overflow. */
	assert(b->max && b->max < SIZE_MAX / 2);
	if (b->full || len > b->max - b->len) {
		b->full = true;
		return NULL;
	}
	size_t need = b->len + len + 1;
	if (need > b->cap) {
		size_t cap = b->cap ? b->cap : 64;
		while (cap < need)
			cap *= 2;
		if (cap > b->max + 1)
			cap = b->max + 1;
		b->data = mem_grow(b->data, cap, 1);
		b->cap = cap;
	}
	return b->data + b->len;
}

bool buf_put(struct buf *b, const void *data, size_t len)
{
	char *at = buf_reserve(b, len);

	if (!at)
		return false;
	if (len)
		memcpy(at, data, len);
	b->len += len;
	b->data[b->len] = '\0';
	return true;
}

bool buf_put_str(struct buf *b, struct str s)
{
	return buf_put(b, s.data, s.len);
}

bool buf_put_text(struct buf *b, const char *text)
{
	return buf_put(b, text, strlen(text));
}

bool buf_put_char(struct buf *b, char c)
{
	return buf_put(b, &c, 1);
}

bool buf_printf(struct buf *b, const char *fmt, ...)
{
	char small[256];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(small, sizeof(small), fmt, ap);
	va_end(ap);
	if (n < 0)
		abort();
	if ((size_t)n < sizeof(small))
		return buf_put(b, small, (size_t)n);
	char *at = buf_reserve(b, (size_t)n);
	if (!at)
		return false;
	va_start(ap, fmt);
	vsnprintf(at, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
	return true;
}

void buf_consume(struct buf *b, size_t n)
{
	assert(n <= b->len);
	if (!n)
		return;
	memmove(b->data, b->data + n, b->len - n);
	b->len -= n;
	b->data[b->len] = '\0';
}
