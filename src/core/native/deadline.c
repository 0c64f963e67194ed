// SPDX-License-Identifier: Apache-2.0
#include "core/native/deadline.h"

#include "base/clock.h"
#include "base/mem.h"

static void on_wake(uv_timer_t *timer)
{
	struct deadlines *ds = container_of(timer, struct deadlines, wake);

	ds->wake_ms = 0;
	deadlines_run(ds);
}

static void arm(struct deadlines *ds, int64_t at_ms)
{
	int64_t left = at_ms - clock_monotonic_ms();

	if (ds->wake_ms && ds->wake_ms <= at_ms)
		return;
	ds->wake_ms = at_ms;
	uv_timer_start(&ds->wake, on_wake, left > 0 ? (uint64_t)left : 0, 0);
}

void deadlines_init(struct deadlines *ds, uv_loop_t *loop)
{
	TAILQ_INIT(&ds->list);
	ds->wake_ms = 0;
	uv_timer_init(loop, &ds->wake);
}

void deadlines_stop(struct deadlines *ds)
{
	struct deadline *d;

	while ((d = TAILQ_FIRST(&ds->list)))
		deadline_clear(ds, d);
	uv_timer_stop(&ds->wake);
}

void deadline_set(struct deadlines *ds, struct deadline *d, int64_t at_ms, deadline_fn fn)
{
	deadline_clear(ds, d);
	d->at_ms = at_ms;
	d->fn = fn;
	d->set = true;
	TAILQ_INSERT_TAIL(&ds->list, d, link);
	arm(ds, at_ms);
}

void deadline_clear(struct deadlines *ds, struct deadline *d)
{
	if (!d->set)
		return;
	TAILQ_REMOVE(&ds->list, d, link);
	d->set = false;
}

static struct deadline *earliest(struct deadlines *ds)
{
	struct deadline *best = NULL, *d;

	TAILQ_FOREACH(d, &ds->list, link)
	{
		if (!best || d->at_ms < best->at_ms)
			best = d;
	}
	return best;
}

void deadlines_run(struct deadlines *ds)
{
	int64_t now = clock_monotonic_ms();
	struct deadline *d;

	/* Under a test's clock the timer's own time may have passed without it firing. */
	if (ds->wake_ms <= now)
		ds->wake_ms = 0;
	while ((d = earliest(ds)) && d->at_ms <= now) {
		deadline_clear(ds, d);
		d->fn(d);
	}
	if (d)
		arm(ds, d->at_ms);
}
