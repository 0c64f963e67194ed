// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "loop/task.h"

struct job {
	struct task task;
	struct task_queue *q;
	struct task *also; /* queued when this one runs */
	struct task *cancels;
	int ran;
	int turn;
};

static int turn;

static void run(struct task *task)
{
	struct job *job = container_of(task, struct job, task);

	job->ran++;
	job->turn = turn;
	if (job->also)
		task_queue_add(job->q, job->also);
	if (job->cancels)
		task_cancel(job->cancels);
}

struct rig {
	uv_loop_t loop;
	struct task_queue q;
	struct job jobs[3];
};

static void open_rig(struct rig *rig)
{
	*rig = (struct rig){ .jobs[0].ran = 0 };
	turn = 0;
	uv_loop_init(&rig->loop);
	task_queue_init(&rig->q, &rig->loop);
	for (size_t i = 0; i < 3; i++) {
		task_init(&rig->jobs[i].task, run);
		rig->jobs[i].q = &rig->q;
	}
}

static void next_turn(struct rig *rig)
{
	turn++;
	uv_run(&rig->loop, UV_RUN_NOWAIT);
}

static void close_rig(struct rig *rig)
{
	task_queue_close(&rig->q, NULL);
	uv_run(&rig->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&rig->loop), 0);
}

static void a_task_runs_once_and_never_at_once(void **state)
{
	struct rig rig;

	open_rig(&rig);
	task_queue_add(&rig.q, &rig.jobs[0].task);
	task_queue_add(&rig.q, &rig.jobs[0].task);
	assert_int_equal(rig.jobs[0].ran, 0);
	next_turn(&rig);
	assert_int_equal(rig.jobs[0].ran, 1);
	next_turn(&rig);
	assert_int_equal(rig.jobs[0].ran, 1);
	assert_false(uv_is_active((uv_handle_t *)&rig.q.idle)); /* the loop may sleep again */
	close_rig(&rig);
}

static void what_a_task_queues_waits_for_the_next_turn(void **state)
{
	struct rig rig;

	open_rig(&rig);
	rig.jobs[0].also = &rig.jobs[0].task;
	rig.jobs[1].also = &rig.jobs[2].task;
	task_queue_add(&rig.q, &rig.jobs[0].task);
	task_queue_add(&rig.q, &rig.jobs[1].task);
	next_turn(&rig);
	assert_int_equal(rig.jobs[0].ran, 1);
	assert_int_equal(rig.jobs[1].ran, 1);
	assert_int_equal(rig.jobs[2].ran, 0);
	next_turn(&rig);
	assert_int_equal(rig.jobs[0].ran, 2);
	assert_int_equal(rig.jobs[2].ran, 1);
	task_cancel(&rig.jobs[0].task);
	close_rig(&rig);
}

static void a_cancelled_task_does_not_run(void **state)
{
	struct rig rig;

	open_rig(&rig);
	rig.jobs[0].cancels = &rig.jobs[1].task; /* also in the middle of a turn */
	for (size_t i = 0; i < 3; i++)
		task_queue_add(&rig.q, &rig.jobs[i].task);
	task_cancel(&rig.jobs[2].task);
	next_turn(&rig);
	assert_int_equal(rig.jobs[0].ran, 1);
	assert_int_equal(rig.jobs[1].ran, 0);
	assert_int_equal(rig.jobs[2].ran, 0);
	close_rig(&rig);
}

static void closing_runs_what_is_queued(void **state)
{
	struct rig rig;

	open_rig(&rig);
	rig.jobs[0].also = &rig.jobs[1].task;
	task_queue_add(&rig.q, &rig.jobs[0].task);
	close_rig(&rig);
	assert_int_equal(rig.jobs[0].ran, 1);
	assert_int_equal(rig.jobs[1].ran, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_task_runs_once_and_never_at_once),
		cmocka_unit_test(what_a_task_queues_waits_for_the_next_turn),
		cmocka_unit_test(a_cancelled_task_does_not_run),
		cmocka_unit_test(closing_runs_what_is_queued),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
