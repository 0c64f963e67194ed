// SPDX-License-Identifier: Apache-2.0
/*
 * arena: memory that is given back all at once. Pieces come out zeroed and aligned for anything;
 * they live until arena_reset or arena_fini. {0} is an empty arena. Whoever takes lengths from
 * outside checks them against base/limits.h first, as for base/mem.h.
 */
#pragma once

#include <stddef.h>

#include "base/str.h"

struct arena_block;

struct arena {
	struct arena_block *blocks; /* owned; the newest first */
	size_t used;		    /* of the newest */
	size_t total;		    /* bytes of all blocks */
};

#define _cleanup_arena_ __attribute__((cleanup(arena_fini)))

void arena_fini(struct arena *a);
/* Forgets every piece; keeps one ordinary block for the next use. */
void arena_reset(struct arena *a);
void *arena_alloc(struct arena *a, size_t size) __attribute__((returns_nonnull));
/* A copy with a NUL behind it. */
struct str arena_str(struct arena *a, struct str s);
