// SPDX-License-Identifier: Apache-2.0
/*
 * task: "call this soon, from the loop": how a start keeps its promise never to call back before it
 * returns. A task is a member of the thing it works for; it is queued at most once at a time and
 * runs once per queueing, in order, in the next turn of the loop. Tasks queued while tasks run wait
 * for the turn after, so that sockets are looked at in between. One queue per loop thread.
 */
#pragma once

#include <uv.h>

#include "base/list.h"

struct task {
	struct list node;
	void (*run)(struct task *task);
};

struct task_queue {
	uv_idle_t idle;	   /* its data is the owner's */
	struct list tasks; /* borrowed, in order */
};

void task_init(struct task *task, void (*run)(struct task *task));
/* No call follows. */
void task_cancel(struct task *task);

void task_queue_init(struct task_queue *q, uv_loop_t *loop);
/* Runs what is queued, and what that queues, then closes; closed may be NULL. */
void task_queue_close(struct task_queue *q, uv_close_cb closed);
void task_queue_add(struct task_queue *q, struct task *task);
