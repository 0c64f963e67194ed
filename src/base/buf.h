// SPDX-License-Identifier: Apache-2.0
/*
 * buf: bytes that grow, up to a maximum that the owner must name. Going over the maximum is not an
 * abort: the buffer becomes "full", keeps what it had, and buf_is_full() says so; callers that take
 * input check it. `_cleanup_(buf_fini)`-style use: `_cleanup_buf_ struct buf b = BUF(LIMIT);`
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct buf {
	char *data; /* owned; NULL while empty; always NUL-terminated when not NULL */
	size_t len;
	size_t cap;
	size_t max;
	bool full;
};

#define BUF(limit) ((struct buf){ .max = (limit) })
#define _cleanup_buf_ __attribute__((cleanup(buf_fini)))

void buf_fini(struct buf *b);
/* Empties it, keeps the memory. */
void buf_clear(struct buf *b);
/* Gives the memory back and keeps the maximum. */
void buf_release(struct buf *b);

/* Each returns false (and marks the buffer full) when the maximum would be passed. */
bool buf_put(struct buf *b, const void *data, size_t len);
bool buf_put_str(struct buf *b, struct str s);
bool buf_put_text(struct buf *b, const char *text);
bool buf_put_char(struct buf *b, char c);
bool buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Room for at least len more bytes at data + len; the caller then adds to ->len. NULL when full. */
char *buf_reserve(struct buf *b, size_t len);
/* Drops the first n bytes. */
void buf_consume(struct buf *b, size_t n);

static inline bool buf_is_full(const struct buf *b)
{
	return b->full;
}

static inline struct str buf_str(const struct buf *b)
{
	return (struct str){ b->data, b->len };
}
