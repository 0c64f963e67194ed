// SPDX-License-Identifier: Apache-2.0
#include "core/room.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "core/disk.h"
#include "core/parts.h"
#include "core/refusal.h"

#define FRESH_US 2000000
#define FREE_PART 20u
#define AGAIN_MS 100u

/* ---- Deciding ---- */

/* With what was admitted and is not in the launcher's figures. */
static uint64_t promised(const struct room *room, uint64_t more)
{
	uint64_t sum = room->space.promised;

	if (__builtin_add_overflow(sum, room->in_flight, &sum) ||
	    __builtin_add_overflow(sum, room->made, &sum) ||
	    __builtin_add_overflow(sum, more, &sum))
		return UINT64_MAX;
	return sum;
}

static enum core_room judge(const struct core *c, const struct runtime_space *space,
			    uint64_t promise)
{
	uint64_t most;

	if (space->bytes && space->free < space->bytes / FREE_PART)
		return CORE_ROOM_FULL;
	if (!space->bytes || !space->hard_quota ||
	    __builtin_mul_overflow(space->bytes, c->config.volume_overcommit, &most))
		return CORE_ROOM_OPEN;
	return promise > most ? CORE_ROOM_PROMISED : CORE_ROOM_OPEN;
}

static enum core_room judge_more(const struct core *c, uint64_t more)
{
	return judge(c, &c->room.space, promised(&c->room, more));
}

enum core_room core_room(const struct core *c)
{
	struct runtime_info info;

	/* The runtime's own figures may be newer, so nothing is added that they may have. */
	runtime_info_get(c->runtime, &info);
	const struct room now = { .space = info.volume };
	return judge(c, &now.space, promised(&now, disk_hard_limit(c, c->config.quota_bytes)));
}

static void say_refused(const struct core *c, enum core_room why)
{
	const struct runtime_space *space = &c->room.space;

	if (why == CORE_ROOM_FULL)
		log_event(LOG_WARN, "volume_full", LOG_INT("mb", (int64_t)(space->bytes / MIB)),
			  LOG_INT("free_mb", (int64_t)(space->free / MIB)),
			  LOG_STR("why", "less than 5 % of the volume is free; delete sessions or "
					 "snapshots, or enlarge it: airlock volume grow"));
	else
		log_event(LOG_WARN, "volume_promised", LOG_INT("mb", (int64_t)(space->bytes / MIB)),
			  LOG_INT("promised_mb", (int64_t)(promised(&c->room, 0) / MIB)),
			  LOG_STR("why", "the workspaces' hard limits together would exceed "
					 "SANDBOX_VOLUME_OVERCOMMIT times the volume; delete "
					 "sessions, or enlarge it: airlock volume grow"));
}

static void admit(struct core *c, struct room_wait *w)
{
	c->room.refuses = false;
	c->room.in_flight += w->bytes;
	w->fn(w, NULL);
}

static void refuse(struct core *c, struct room_wait *w, enum core_room why)
{
	struct err err;

	if (!c->room.refuses)
		say_refused(c, why);
	c->room.refuses = true;
	refusal_no_capacity(&err);
	w->fn(w, &err);
}

/* ---- Waiting ---- */

static void append(struct room *room, struct room_wait *w)
{
	w->next = NULL;
	if (room->last)
		room->last->next = w;
	else
		room->first = w;
	room->last = w;
}

static void ask(struct core *c);

static void on_again(uv_timer_t *timer)
{
	room_again(timer->data);
}

/* Deleted volumes give their space back after commits of the file system. */
static bool may_wait(const struct core *c, struct room_wait *w, enum core_room verdict)
{
	int64_t now = clock_monotonic_us();

	if (verdict != CORE_ROOM_FULL || !c->room.space.frees || c->stopping)
		return false;
	if (!w->until_us)
		w->until_us = now + ROOM_WAIT_US;
	return now < w->until_us;
}

static void on_space(void *data, const struct runtime_space *space, const struct err *err)
{
	struct core *c = data;
	struct room *room = &c->room;
	struct room_wait *w = room->first;
	bool soon = false;

	room->asked = false;
	room->first = room->last = NULL;
	if (!err) {
		room->space = *space;
		room->at_us = clock_monotonic_us();
		room->made = 0;
	}
	for (struct room_wait *next; w; w = next) {
		next = w->next;
		/* Who waits is known not to fit. */
		enum core_room verdict = !err	       ? judge_more(c, w->bytes)
					 : w->until_us ? CORE_ROOM_FULL
						       : CORE_ROOM_OPEN;
		if (verdict == CORE_ROOM_OPEN) {
			admit(c, w);
		} else if (w->late) {
			w->late = false;
			append(room, w);
			soon = true;
		} else if (may_wait(c, w, verdict)) {
			append(room, w);
		} else {
			refuse(c, w, verdict);
		}
	}
	if (soon && !room->asked)
		ask(c);
	else if (room->first && !room->asked)
		uv_timer_start(&c->timers[TIMER_ROOM], on_again, AGAIN_MS, 0);
	core_release(c);
}

static void ask(struct core *c)
{
	c->room.asked = true;
	uv_timer_stop(&c->timers[TIMER_ROOM]);
	core_hold(c);
	runtime_volume_space(c->runtime, on_space, c);
}

void room_take(struct core *c, struct room_wait *w, uint64_t bytes)
{
	struct room *room = &c->room;

	w->bytes = bytes;
	w->late = room->asked;
	if (room->at_us && clock_monotonic_us() - room->at_us <= FRESH_US &&
	    judge_more(c, bytes) == CORE_ROOM_OPEN) {
		admit(c, w);
		return;
	}
	append(room, w);
	if (!room->asked)
		ask(c);
}

void room_again(struct core *c)
{
	if (c->room.first && !c->room.asked)
		ask(c);
}

void room_made(struct core *c, uint64_t bytes)
{
	c->room.in_flight -= bytes;
	c->room.made += bytes;
}

void room_give_back(struct core *c, uint64_t bytes)
{
	c->room.in_flight -= bytes;
}
