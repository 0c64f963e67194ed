// SPDX-License-Identifier: Apache-2.0
#include "gateway/logs.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/gateway.h"

#define SAY_MS 60000

struct logs {
	struct gateway *g;
	bool low;
	int64_t looked_ms, said_ms; /* 0: never */
};

struct logs *logs_new(struct gateway *g)
{
	struct logs *l = mem_new(1, sizeof(*l));

	l->g = g;
	return l;
}

void logs_free(struct logs *l)
{
	free(l);
}

/* Tenants whose files lie beside the logs can make it come and go. */
static void say(struct logs *l, int64_t now, uint64_t free_bytes)
{
	if (l->said_ms && now - l->said_ms < SAY_MS)
		return;
	l->said_ms = now;
	log_event(LOG_WARN, "log_low", LOG_STR("directory", l->g->options.log_dir),
		  LOG_INT("free_bytes", free_bytes));
}

bool logs_are_low(struct logs *l)
{
	int64_t now = clock_monotonic_ms();
	struct statvfs fs;

	if (l->looked_ms && now - l->looked_ms < LOGS_LOOK_MS)
		return l->low;
	l->looked_ms = now;
	if (fstatvfs(l->g->log_dir, &fs) < 0)
		return l->low;
	bool low = (uint64_t)fs.f_bavail * LOGS_LOW_PART < fs.f_blocks;
	if (low && !l->low)
		say(l, now, (uint64_t)fs.f_bavail * fs.f_frsize);
	l->low = low;
	return low;
}
