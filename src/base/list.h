// SPDX-License-Identifier: Apache-2.0
/*
 * list: things in a ring, linked through a member of theirs (doubly, circular, with a head). A node
 * that is in no list points to itself, so list_remove may be called twice. Initialise heads and
 * nodes with list_init. Owns nothing.
 *
 *   struct thing *t = container_of(list_first(&head), struct thing, node);
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"

struct list {
	struct list *prev, *next;
};

static inline void list_init(struct list *l)
{
	l->prev = l->next = l;
}

/* For a head: no node. For a node: in no list. */
static inline bool list_is_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_append(struct list *head, struct list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

static inline void list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

/* NULL when the list is empty. */
static inline struct list *list_first(const struct list *head)
{
	return list_is_empty(head) ? NULL : head->next;
}

/* Every node; the body may remove the one it is at, no other. */
#define list_each(at, head) \
	for (struct list *at = (head)->next, *_next_##at = at->next; at != (head); \
	     at = _next_##at, _next_##at = at->next)
