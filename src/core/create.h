// SPDX-License-Identifier: Apache-2.0
/*
 * create: a session on its way to READY; shared by create.c, which does the steps for one, and
 * fork.c, which has several go together.
 */
#pragma once

#include "core/parts.h"
#include "core/snapshot.h"

struct fork;
struct store_session;

struct create {
	struct core *c;
	struct session *s; /* NULL: refused */
	session_fn fn;	   /* NULL: answered */
	void *data;
	struct err err;
	struct origin origin;
	struct later later;
	struct snapshot *from;		      /* referenced; NULL: none */
	char source[SESSION_ID_LEN + 1];      /* what its workspace is a copy of; "": nothing */
	struct fork *fork;		      /* NULL: it goes alone, or has settled */
	struct room_wait room;		      /* alone: waits for room on the volume */
	uint64_t taken;			      /* room for a volume that is not there yet */
	int64_t started_us;		      /* monotonic */
	struct create *next;		      /* while waiting for an id */
	struct create *open_prev, *open_next; /* while it has a session */
};

/* Takes the slot; the session is in the table. */
void create_open(struct create *cr);
/* The room on the volume that its workspace needs. */
uint64_t create_room(const struct create *cr);
/* There is room: asks for an id, then for its volume. */
void create_go(struct create *cr);
/* Its row as the store wants it; egress has room for the rules. */
int create_row(const struct create *cr, struct buf *egress, struct store_session *ret,
	       struct err *err);
/* The row is stored: READY. wanted: somebody still waits for it. *cr is gone. */
void create_ready(struct create *cr, bool wanted);
/* Gives everything back. *cr is gone, soon. */
void create_failed(struct create *cr, const struct err *err);
/* "stopping", "session_limit", "no_capacity" for so many more. */
int create_check_room(const struct core *c, const struct tenant *t, unsigned n, struct err *err);

/* ---- fork.c, for create.c ---- */

/* The volume of a member is there. */
void fork_made(struct fork *f, struct create *cr);
/* A member has become READY (err == NULL) or failed. */
void fork_settled(struct fork *f, struct create *cr, const struct err *err);
/* It takes too long. */
void fork_late(struct fork *f);
