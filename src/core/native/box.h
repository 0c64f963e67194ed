// SPDX-License-Identifier: Apache-2.0
/*
 * box: the file sandbox of one workspace and the jobs that wait for it.
 *
 * A workspace with jobs has a box, and another one for jobs that go at the pace of a client, so
 * that a slow client holds up nothing but its like. Jobs of one box run one at a time, in order. At
 * most BOXES_MAX boxes hold a place, that is a sandbox or a claim to the pool's next one; the
 * others stand in the want list. What a box does next follows from what it has, and box_step alone
 * decides:
 *
 *   busy                     nothing, the running job goes on
 *   jobs, sandbox            the first job starts
 *   jobs, no sandbox         takes a place (that of the box which has been idle longest, when all
 * are taken), then a sandbox or waits for one; without a place: the want list no jobs, sandbox
 * idle: kept BOX_KEEP_MS after the last job no jobs, no sandbox      the box ends
 *
 * A job that reads from a second volume (its source) needs a sandbox that has it attached, which is
 * of no use to any other job: it is dropped as soon as its jobs are done.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "core/native/deadline.h"
#include "core/native/pool.h"

#define BOXES_MAX 32u
#define BOX_KEEP_MS 5000

struct runtime_file;

TAILQ_HEAD(file_list, runtime_file);

struct box {
	struct runtime *rt;
	struct volume *volume; /* borrowed: a volume's box ends before it */
	struct box **where;    /* the volume's pointer to it */
	struct pool *pool;
	struct file_list jobs; /* the first one runs while busy */
	bool busy, has_place, wants, idle;
	struct sandbox *sandbox;      /* NULL: none */
	char source[MSG_VOLUME_NAME]; /* what the sandbox has beside the workspace; "": nothing */
	struct pool_wait wait;
	struct deadline keep;  /* while idle */
	TAILQ_ENTRY(box) link; /* in boxes.want or boxes.idle */
};

TAILQ_HEAD(box_list, box);

struct boxes {
	struct box_list want; /* first come first */
	struct box_list idle; /* longest idle first */
	unsigned places;      /* taken */
};

void boxes_init(struct boxes *all);
/* The volume's box, made when there is none. Its sandboxes come from pool. */
struct box *box_get(struct runtime *rt, struct volume *v, struct pool *pool, bool slow);
/* Does what is next. *box may be gone afterwards. */
void box_step(struct box *box);
/* The sandbox is of no use any more: kills it, then box_step. */
void box_lose_sandbox(struct box *box);
/* Boxes that want a place try again. */
void boxes_pump(struct runtime *rt);
