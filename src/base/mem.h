// SPDX-License-Identifier: Apache-2.0
/*
 * mem: memory that cannot fail. No memory is an abort, which is honest only because every length
 * that an outsider controls is checked against a named limit in base/limits.h first.
 * Not for the launcher or init, which have no heap after start.
 */
#pragma once

#include <stddef.h>

#define _cleanup_free_ __attribute__((cleanup(mem_cleanup)))

/* Zeroed memory for n things of the given size. */
void *mem_new(size_t n, size_t size) __attribute__((returns_nonnull, malloc));
/* p may be NULL; new bytes are not zeroed. */
void *mem_grow(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
char *mem_dup(const char *text) __attribute__((returns_nonnull));
/* A NUL-terminated copy of len bytes. */
char *mem_dup_n(const void *data, size_t len) __attribute__((returns_nonnull));
char *mem_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2), returns_nonnull));

void mem_cleanup(void *p);

#define take_ptr(p) \
	({ \
		__auto_type _taken = (p); \
		(p) = NULL; \
		_taken; \
	})

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
