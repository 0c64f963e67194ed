// SPDX-License-Identifier: Apache-2.0
#include "daemon/drain.h"

#include "base/clock.h"
#include "base/log.h"

static void say(const struct drain *d, enum log_level level, const char *event,
		const struct drain_work *w)
{
	int64_t left_ms = d->until_ms - clock_monotonic_ms();

	log_event(level, event, LOG_INT("commands", w->commands), LOG_INT("imports", w->imports),
		  LOG_INT("transfers", w->transfers), LOG_INT("requests", w->requests),
		  LOG_INT("seconds_left", left_ms > 0 ? (left_ms + 999) / 1000 : 0));
}

static void end(struct drain *d, const struct drain_work *w)
{
	uv_timer_stop(&d->timer);
	if (w->any)
		say(d, LOG_WARN, "stop_ends_work", w);
	d->over(d->data);
}

static void look(struct drain *d)
{
	struct drain_work w;
	int64_t now = clock_monotonic_ms();

	d->look(d->data, &w);
	if (!w.any || now >= d->until_ms) {
		end(d, &w);
	} else if (now >= d->say_ms) {
		d->say_ms = now + DRAIN_SAY_MS;
		say(d, LOG_INFO, "stop_waits", &w);
	}
}

static void on_timer(uv_timer_t *timer)
{
	look(timer->data);
}

void drain_init(struct drain *d, uv_loop_t *loop)
{
	uv_timer_init(loop, &d->timer);
	d->timer.data = d;
}

void drain_start(struct drain *d, int64_t max_ms)
{
	struct drain_work w;
	int64_t now = clock_monotonic_ms();

	d->until_ms = now + max_ms;
	d->say_ms = now + DRAIN_SAY_MS;
	d->look(d->data, &w);
	say(d, LOG_INFO, "stopping", &w);
	uv_timer_start(&d->timer, on_timer, DRAIN_LOOK_MS, DRAIN_LOOK_MS);
	look(d);
}

void drain_cut(struct drain *d)
{
	if (!uv_is_active((uv_handle_t *)&d->timer))
		return;
	d->until_ms = clock_monotonic_ms();
	look(d);
}

void drain_close(struct drain *d)
{
	uv_close((uv_handle_t *)&d->timer, NULL);
}
