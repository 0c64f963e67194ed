// SPDX-License-Identifier: Apache-2.0
#include "http/source.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void source_table_init(struct source_table *t)
{
	for (size_t i = 0; i < SOURCE_BUCKETS; i++)
		list_init(&t->buckets[i]);
}

/* What is counted together. */
static struct inet_addr network_of(const struct inet_addr *addr)
{
	struct inet_addr network = *addr;

	if (!inet_addr_is_v4(addr))
		memset(network.bytes + 8, 0, 8);
	return network;
}

/* Whoever can choose addresses to collide here holds that many addresses anyway; the table never
 * has more entries than there are connections. */
static struct list *bucket_of(struct source_table *t, const struct inet_addr *addr)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < sizeof(addr->bytes); i++)
		hash = (hash ^ addr->bytes[i]) * 16777619u;
	return &t->buckets[(hash ^ hash >> 16) % SOURCE_BUCKETS];
}

struct source *source_take(struct source_table *t, const struct inet_addr *addr)
{
	struct inet_addr network = network_of(addr);
	struct list *bucket = bucket_of(t, &network);

	list_each(at, bucket)
	{
		struct source *source = container_of(at, struct source, node);
		if (inet_addr_eq(&source->addr, &network)) {
			source->n++;
			return source;
		}
	}
	struct source *source = mem_new(1, sizeof(*source));
	source->addr = network;
	source->n = 1;
	list_append(bucket, &source->node);
	return source;
}

bool source_is_of(const struct source *source, const struct inet_addr *addr)
{
	struct inet_addr network = network_of(addr);

	return inet_addr_eq(&source->addr, &network);
}

void source_release(struct source *source)
{
	if (!source || --source->n)
		return;
	list_remove(&source->node);
	free(source);
}
