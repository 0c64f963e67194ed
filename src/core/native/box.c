// SPDX-License-Identifier: Apache-2.0
#include "core/native/box.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/native/state.h"

void boxes_init(struct boxes *all)
{
	TAILQ_INIT(&all->want);
	TAILQ_INIT(&all->idle);
}

struct box *box_get(struct runtime *rt, struct volume *v, struct pool *pool, bool slow)
{
	struct box **where = slow ? &v->slow_box : &v->box, *box = *where;

	if (box)
		return box;
	box = mem_new(1, sizeof(*box));
	box->rt = rt;
	box->volume = v;
	box->pool = pool;
	TAILQ_INIT(&box->jobs);
	box->where = where;
	*where = box;
	return box;
}

/* ---- Lists and places ---- */

static void want(struct box *box)
{
	if (box->wants)
		return;
	box->wants = true;
	TAILQ_INSERT_TAIL(&box->rt->boxes.want, box, link);
}

static void unwant(struct box *box)
{
	if (box->wants)
		TAILQ_REMOVE(&box->rt->boxes.want, box, link);
	box->wants = false;
}

static void on_keep_over(struct deadline *d)
{
	box_lose_sandbox(container_of(d, struct box, keep));
}

static void rest(struct box *box)
{
	if (box->idle)
		return;
	box->idle = true;
	TAILQ_INSERT_TAIL(&box->rt->boxes.idle, box, link);
	deadline_set(&box->rt->deadlines, &box->keep, clock_monotonic_ms() + BOX_KEEP_MS,
		     on_keep_over);
}

static void unrest(struct box *box)
{
	if (box->idle)
		TAILQ_REMOVE(&box->rt->boxes.idle, box, link);
	box->idle = false;
	deadline_clear(&box->rt->deadlines, &box->keep);
}

static void leave_place(struct box *box)
{
	if (box->has_place)
		box->rt->boxes.places--;
	box->has_place = false;
}

static void drop_sandbox(struct box *box)
{
	struct sandbox *s = take_ptr(box->sandbox);

	if (!s)
		return;
	box->source[0] = '\0';
	sandbox_kill(s);
	sandbox_retire(s);
}

static void box_free(struct box *box)
{
	unwant(box);
	unrest(box);
	pool_wait_cancel(&box->wait);
	drop_sandbox(box);
	leave_place(box);
	*box->where = NULL;
	free(box);
}

static bool take_place(struct box *box)
{
	struct boxes *all = &box->rt->boxes;

	if (all->places >= BOXES_MAX && !TAILQ_EMPTY(&all->idle))
		box_free(TAILQ_FIRST(&all->idle)); /* idle means that it has no jobs */
	if (all->places >= BOXES_MAX)
		return false;
	all->places++;
	box->has_place = true;
	return true;
}

static bool may_take_place(const struct boxes *all)
{
	return all->places < BOXES_MAX || !TAILQ_EMPTY(&all->idle);
}

void boxes_pump(struct runtime *rt)
{
	struct box *box;

	while ((box = TAILQ_FIRST(&rt->boxes.want)) && may_take_place(&rt->boxes) &&
	       rt->link.state == LINK_READY && !link_is_congested(&rt->link)) {
		unwant(box);
		box_step(box);
	}
}

void box_lose_sandbox(struct box *box)
{
	struct runtime *rt = box->rt;

	unrest(box);
	drop_sandbox(box);
	box->busy = false;
	leave_place(box);
	box_step(box);
	boxes_pump(rt);
}

/* ---- Its sandbox ---- */

static void on_message(struct sandbox *s, const struct wire_msg *msg)
{
	file_message(s->user, msg);
}

static void on_ended(struct sandbox *s)
{
	file_sandbox_ended(s->user);
}

static void on_handover_failed(struct sandbox *s, uint32_t code)
{
	file_handover_failed(s->user, code);
}

static void on_readable(struct sandbox *s, enum runtime_stream i)
{
	/* The pipes of a command are given back before this can be. */
	sandbox_pipe_close(s, i);
}

static const struct sandbox_ops box_ops = {
	.message = on_message,
	.ended = on_ended,
	.gone = on_ended,
	.handover_failed = on_handover_failed,
	.readable = on_readable,
};

static void take_sandbox(struct box *box, struct sandbox *s)
{
	const char *name = file_source(box);
	struct volume *source = *name ? volume_find(box->rt, name) : NULL;
	int r = *name && !source ? -ENOENT : sandbox_attach(s, box->volume, source);

	if (r < 0) {
		pool_return(box->pool, s);
		leave_place(box);
		if (r == -EAGAIN)
			want(box);
		else
			/* A source that is not there, or the launcher: then nothing has happened. */
			file_fail_all(box, r == -ENOENT ? "internal" : "busy");
		return;
	}
	box->sandbox = s;
	memcpy(box->source, name, strlen(name) + 1);
	sandbox_set_user(s, &box_ops, box);
	file_start(box);
	/* What a command would have used, after the job is on its way. */
	if (s->ops == &box_ops && s->user == box)
		sandbox_unprepare(s);
}

static void on_sandbox(struct pool_wait *w, struct sandbox *s, const struct err *err)
{
	struct box *box = container_of(w, struct box, wait);

	if (s) {
		take_sandbox(box, s);
		return;
	}
	leave_place(box);
	file_fail_all(box, err->slug);
}

static void obtain(struct box *box)
{
	struct sandbox *s;

	if (!box->has_place && !take_place(box)) {
		want(box);
		return;
	}
	s = pool_take(box->pool);
	if (s)
		take_sandbox(box, s);
	else
		pool_wait(box->pool, &box->wait, on_sandbox);
}

void box_step(struct box *box)
{
	if (box->busy)
		return;
	if (TAILQ_EMPTY(&box->jobs)) {
		if (!box->sandbox) {
			box_free(box);
			return;
		}
		if (box->source[0]) {
			box_lose_sandbox(box);
			return;
		}
		rest(box);
		/* Somebody may have waited for just this place. */
		boxes_pump(box->rt);
		return;
	}
	unrest(box);
	if (box->sandbox && strcmp(box->source, file_source(box)) != 0)
		drop_sandbox(box);
	if (box->sandbox)
		file_start(box);
	else if (!box->wait.pool && !box->wants)
		obtain(box);
}
