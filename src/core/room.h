// SPDX-License-Identifier: Apache-2.0
/*
 * room: whether the volume may take more workspaces. All hard limits together promise at most
 * volume_overcommit times its size, and a twentieth of it is free; else "no_capacity". The first
 * counts only where the back end has hard limits, the second always.
 *
 * The launcher knows what there is. What was admitted since it said so is counted here: in_flight
 * until the volume is there or failed, made until the next figures, which have it, because the
 * launcher answers in the order in which it counts. So any number of creates at once get no more
 * than there is. Figures up to two seconds old are good for a yes; nobody is refused but on figures
 * that were asked for afterwards, which know of every volume that had been deleted by then.
 *
 * When the launcher says nothing everybody is admitted: making the volume will tell. When too
 * little is free, but deleted volumes are about to give space back, it is asked again for
 * ROOM_WAIT_US before somebody is refused.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "core/runtime.h"

#define ROOM_WAIT_US 10000000

struct core;

struct room_wait {
	/* Once. err == NULL: bytes are taken, in_flight. */
	void (*fn)(struct room_wait *w, const struct err *err);
	uint64_t bytes;
	bool late;	  /* came while figures were under way, which may be too old for it */
	int64_t until_us; /* monotonic: waits no longer for space; 0: does not yet */
	struct room_wait *next;
};

struct room {
	struct runtime_space space;
	int64_t at_us; /* monotonic, of space; 0: unknown */
	bool asked;
	bool refuses; /* the last one did not fit; so that the log says it once */
	uint64_t in_flight, made;
	struct room_wait *first, *last;
};

/* Asks for bytes of hard limits. May call w->fn before it returns, but not to refuse. */
void room_take(struct core *c, struct room_wait *w, uint64_t bytes);
/* The volume for bytes that were taken is there, or will not be. */
void room_made(struct core *c, uint64_t bytes);
void room_give_back(struct core *c, uint64_t bytes);
/* Asks for those that wait for space; a core that stops keeps them no longer. */
void room_again(struct core *c);
