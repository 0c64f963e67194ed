// SPDX-License-Identifier: Apache-2.0
#include "core/disk.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/parts.h"
#include "store/store.h"

/* No file system here takes 4 GB from one CPU in a second. */
#define BYTES_PER_CPU_MS (4u * 1024 * 1024)
/* A commit every 30 s is the default of btrfs; one may be in progress. */
#define SETTLED_US (40 * 1000000ll)
/* A workspace may have 1,000,000 files and folders. */
#define CROWD 900000u

uint64_t disk_bound_of_run(const struct core *c, const struct runtime_exec_result *run)
{
	int64_t ms = run->cpu_ms >= 0 ? run->cpu_ms : run->duration_us / 1000;
	uint64_t bound = ((uint64_t)(ms > 0 ? ms : 0) + 1) * BYTES_PER_CPU_MS;
	uint64_t peak = run->peak_memory_bytes > 0 ? (uint64_t)run->peak_memory_bytes : UINT64_MAX;

	/* Near the limit the kernel takes written pages back, and the peak says nothing. */
	if (peak < c->config.memory_bytes / 4 * 3 && peak < bound)
		bound = peak;
	return bound;
}

void disk_add(struct session *s, uint64_t bytes)
{
	s->disk.at_us = clock_monotonic_us();
	if (__builtin_add_overflow(s->disk.pending, bytes, &s->disk.pending))
		s->disk.pending = UINT64_MAX;
}

uint64_t disk_hard_limit(const struct core *c, uint64_t quota)
{
	uint64_t single = c->config.write_max > c->config.upload_max ? c->config.write_max
								     : c->config.upload_max;

	return quota + (quota < single ? quota : single);
}

/* More than the hard limit cannot be there, whatever was put in and deleted again. */
void disk_share(const struct core *c, struct session *s, uint64_t bytes)
{
	uint64_t limit = disk_hard_limit(c, s->quota_bytes);

	if (__builtin_add_overflow(s->disk.shared, bytes, &s->disk.shared) ||
	    s->disk.shared > limit)
		s->disk.shared = limit;
}

void disk_share_all(const struct core *c, struct session *s)
{
	disk_share(c, s, s->disk.known);
	disk_share(c, s, s->disk.pending);
}

uint64_t disk_counted(const struct core *c, const struct session *s, uint64_t counter)
{
	struct runtime_info info;

	if (!s->disk.shared)
		return counter;
	runtime_info_get(c->runtime, &info);
	return info.counts_shared ? counter : counter + s->disk.shared;
}

void disk_measured(struct session *s, uint64_t used, uint64_t before)
{
	s->disk.known = used;
	s->disk.pending -= before;
}

void disk_crowd(struct session *s, uint64_t inodes)
{
	s->disk.crowded = inodes >= CROWD;
}

/* Step 1. */
static bool may_exceed(const struct session *s, uint64_t more)
{
	uint64_t bound;

	if (s->disk.crowded)
		return true;
	if (__builtin_add_overflow(s->disk.known, s->disk.pending, &bound) ||
	    __builtin_add_overflow(bound, more, &bound))
		return true;
	return bound > s->quota_bytes;
}

/* ---- The hard limit ---- */

uint64_t disk_tenant_limit(const struct core *c, const struct tenant *t)
{
	uint64_t one = disk_hard_limit(c, c->config.quota_bytes);

	return (t->limits.max_sessions + (uint64_t)1) * one +
	       (uint64_t)t->limits.max_snapshot_mb * MIB;
}

struct limit_call {
	struct core *c;
	char session[SESSION_ID_LEN + 1];
};

static void on_limited(void *data, const struct err *err)
{
	_cleanup_free_ struct limit_call *call = data;

	if (err)
		log_event(LOG_WARN, "limit_not_changed", LOG_STR("session", call->session),
			  LOG_STR("why", err->text));
	core_release(call->c);
}

static void set_limit(struct core *c, struct session *s)
{
	struct runtime_info info;

	s->disk.stale = false;
	runtime_info_get(c->runtime, &info);
	if (!info.hard_quota || info.counts_shared || s->state != SESSION_READY)
		return;
	struct limit_call *call = mem_new(1, sizeof(*call));
	call->c = c;
	memcpy(call->session, s->id, sizeof(call->session));
	core_hold(c);
	runtime_volume_limit(c->runtime, s->id,
			     disk_hard_limit(c, s->quota_bytes) + s->disk.held + s->disk.forked,
			     on_limited, call);
}

void disk_hold(struct core *c, struct session *s, uint64_t bytes)
{
	s->disk.held += bytes;
	set_limit(c, s);
}

/* The forks hold at most all that is there now, and together only once. */
void disk_fork(struct core *c, struct session *s)
{
	uint64_t limit = disk_hard_limit(c, s->quota_bytes), bytes;

	if (__builtin_add_overflow(s->disk.known, s->disk.pending, &bytes) || bytes > limit)
		bytes = limit;
	s->disk.forked += bytes;
	set_limit(c, s);
}

/* What the tenant's workspaces and snapshots share with any other, at most. */
static uint64_t all_shared(const struct core *c, const struct tenant *t)
{
	uint64_t sum = t->snapshot_bytes;

	for (const struct session *s = c->newest; s; s = s->next)
		sum += s->tenant == t ? s->disk.shared : 0;
	return sum;
}

/* Forks, and what was made of them, hold no more of a session's files than they share. */
void disk_gone(struct core *c, const struct session *gone)
{
	uint64_t all = all_shared(c, gone->tenant);

	for (struct session *s = c->newest; s && gone->disk.shared; s = s->next) {
		uint64_t most = all - s->disk.shared;
		if (s->tenant != gone->tenant || s->state != SESSION_READY ||
		    s->disk.forked <= most)
			continue;
		s->disk.forked = most;
		s->disk.stale = true;
		store_share_session(c->store, s->id, s->disk.shared, most);
	}
}

void disk_let_go(struct session *s, uint64_t bytes)
{
	s->disk.held -= bytes < s->disk.held ? bytes : s->disk.held;
	s->disk.stale = true;
}

void disk_settle(struct core *c, struct session *s)
{
	if (s->disk.stale)
		set_limit(c, s);
}

/* ---- Asking ---- */

struct disk_question {
	struct core *c;
	struct session *s; /* referenced */
	uint64_t more;
	disk_fn answer;
	void *data;
	struct disk asked; /* as it was when the counter was asked for */
};

static void on_stat(void *data, uint64_t used_bytes, const struct err *err)
{
	struct disk_question *q = data;
	struct session *s = q->s;
	bool walk = true;

	/* What was written while the question was under way is not in the answer. */
	bool quiet = s->disk.at_us == q->asked.at_us && s->disk.pending == q->asked.pending;
	if (!err && quiet && clock_monotonic_us() - s->disk.at_us > SETTLED_US) {
		disk_measured(s, disk_counted(q->c, s, used_bytes), s->disk.pending);
		walk = may_exceed(s, q->more);
	}
	q->answer(q->data, walk);
	session_unref(s);
	free(q);
}

void disk_ask(struct core *c, struct session *s, uint64_t more, disk_fn answer, void *data)
{
	if (!may_exceed(s, more)) {
		answer(data, false);
		return;
	}
	/* Recently written: the counter could not say no, so it is not asked. */
	if (s->disk.at_us && clock_monotonic_us() - s->disk.at_us <= SETTLED_US) {
		answer(data, true);
		return;
	}
	struct disk_question *q = mem_new(1, sizeof(*q));
	*q = (struct disk_question){ c, s, more, answer, data, s->disk };
	session_ref(s);
	runtime_volume_stat(c->runtime, s->id, on_stat, q);
}
