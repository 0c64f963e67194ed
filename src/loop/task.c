// SPDX-License-Identifier: Apache-2.0
#include "loop/task.h"

void task_init(struct task *task, void (*run)(struct task *task))
{
	list_init(&task->node);
	task->run = run;
}

void task_cancel(struct task *task)
{
	list_remove(&task->node);
}

/* Runs the tasks that are queued now. */
static void run_turn(struct task_queue *q)
{
	struct list now, *node;

	list_init(&now);
	while ((node = list_first(&q->tasks))) {
		list_remove(node);
		list_append(&now, node);
	}
	while ((node = list_first(&now))) {
		struct task *task = container_of(node, struct task, node);
		list_remove(node);
		task->run(task);
	}
}

static void on_idle(uv_idle_t *idle)
{
	struct task_queue *q = container_of(idle, struct task_queue, idle);

	run_turn(q);
	if (list_is_empty(&q->tasks))
		uv_idle_stop(idle);
}

void task_queue_init(struct task_queue *q, uv_loop_t *loop)
{
	list_init(&q->tasks);
	uv_idle_init(loop, &q->idle);
}

void task_queue_close(struct task_queue *q, uv_close_cb closed)
{
	while (!list_is_empty(&q->tasks))
		run_turn(q);
	uv_close((uv_handle_t *)&q->idle, closed);
}

void task_queue_add(struct task_queue *q, struct task *task)
{
	if (!list_is_empty(&task->node))
		return;
	list_append(&q->tasks, &task->node);
	if (!uv_is_closing((uv_handle_t *)&q->idle))
		uv_idle_start(&q->idle, on_idle);
}
