// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define BLOCK_SIZE 4096u
#define ALIGN _Alignof(max_align_t)

struct arena_block {
	struct arena_block *next;
	size_t size; /* of data */
	_Alignas(max_align_t) char data[];
};

static struct arena_block *block_new(struct arena *a, size_t size)
{
	if (size > SIZE_MAX - sizeof(struct arena_block))
		abort();
	struct arena_block *block = mem_grow(NULL, 1, sizeof(*block) + size);

	block->size = size;
	block->next = a->blocks;
	a->blocks = block;
	a->used = 0;
	a->total += size;
	return block;
}

void arena_fini(struct arena *a)
{
	while (a->blocks) {
		struct arena_block *block = a->blocks;
		a->blocks = block->next;
		free(block);
	}
	*a = (struct arena){ .blocks = NULL };
}

void arena_reset(struct arena *a)
{
	struct arena_block *keep = NULL;

	for (struct arena_block *block = a->blocks, *next; block; block = next) {
		next = block->next;
		if (!keep && block->size == BLOCK_SIZE)
			keep = block;
		else
			free(block);
	}
	if (keep)
		keep->next = NULL;
	*a = (struct arena){ .blocks = keep, .total = keep ? BLOCK_SIZE : 0 };
}

void *arena_alloc(struct arena *a, size_t size)
{
	if (size > SIZE_MAX - ALIGN)
		abort();
	size_t need = (size + !size + ALIGN - 1) / ALIGN * ALIGN;

	if (!a->blocks || need > a->blocks->size - a->used)
		block_new(a, need > BLOCK_SIZE ? need : BLOCK_SIZE);
	void *piece = a->blocks->data + a->used;
	a->used += need;
	memset(piece, 0, need);
	return piece;
}

struct str arena_str(struct arena *a, struct str s)
{
	char *copy = arena_alloc(a, s.len + 1);

	if (s.len)
		memcpy(copy, s.data, s.len);
	return (struct str){ copy, s.len };
}
