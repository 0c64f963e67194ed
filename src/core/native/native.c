// SPDX-License-Identifier: Apache-2.0
#include "core/native/native.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/native/state.h"

/* How long native_close waits for the sandboxes to go. */
#define CLOSE_MS 500
/* The launcher's figures are asked for again when they are older. */
#define STATUS_MS 2000
/* A sweeper that deletes a large volume answers later than that, but not so late. */
#define SILENT_MS 10000

/* ---- Open ---- */

static void free_state(struct runtime *rt)
{
	for (size_t i = 0; i < rt->n_slots; i++)
		slot_close(&rt->slots[i].slot);
	free(rt->slots);
	pools_fini(rt);
	volume_table_fini(&rt->volumes);
	free(rt->chunk);
	free(rt->tmp_dir);
	free(rt);
}

/* A pipe whose reader went away is an error of that write, not the end of the process. */
static void ignore_sigpipe(void)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };

	sigaction(SIGPIPE, &ignore, NULL);
}

static void on_failed_timer_closed(uv_handle_t *handle)
{
	free_state(handle->data);
}

int native_open(uv_loop_t *loop, const struct native_config *config, native_volume_fn volume,
		native_ready_fn ready, void *data, struct runtime **ret, struct err *err)
{
	struct runtime *rt = mem_new(1, sizeof(*rt));
	int r;

	ignore_sigpipe();
	rt->loop = loop;
	rt->config = *config;
	rt->config.tmp_dir = rt->tmp_dir = mem_dup(config->tmp_dir);
	rt->on_volume = volume;
	rt->on_ready = ready;
	rt->data = data;
	rt->chunk = mem_new(RUNTIME_CHUNK, 1);
	TAILQ_INIT(&rt->sandboxes);
	TAILQ_INIT(&rt->pools.list);
	execs_init(rt);
	boxes_init(&rt->boxes);
	files_init(&rt->files);
	gateway_init(rt);
	deadlines_init(&rt->deadlines, loop);
	r = link_open(rt, config->launcher_fd, err);
	if (r < 0) {
		rt->deadlines.wake.data = rt;
		uv_close((uv_handle_t *)&rt->deadlines.wake, on_failed_timer_closed);
		return r;
	}
	rt->handles++; /* the timer */
	*ret = rt;
	return 0;
}

/* ---- The launcher is lost ---- */

void runtime_lost(struct runtime *rt, const struct err *err)
{
	native_ready_fn ready = take_ptr(rt->on_ready);
	struct sandbox *s;

	log_event(LOG_ERROR, "launcher_lost", LOG_STR("why", err->text));
	/* Every init holds the launcher's lifeline: no sandbox outlives it. */
	while ((s = TAILQ_FIRST(&rt->sandboxes)))
		sandbox_gone(s);
	execs_end(rt);
	files_end(rt);
	if (ready)
		ready(rt->data, err);
	if (rt->config.lost)
		rt->config.lost(rt->data, err);
	runtime_close_step(rt);
}

/* ---- Close ---- */

static void on_all_closed(struct runtime *rt)
{
	void (*closed)(void *data) = rt->on_closed;
	void *data = rt->closed_data;

	free_state(rt);
	if (closed)
		closed(data);
}

void runtime_handle_closed(uv_handle_t *handle)
{
	struct runtime *rt = handle->data;

	rt->handles--;
	runtime_close_step(rt);
}

static bool is_quiet(const struct runtime *rt)
{
	return TAILQ_EMPTY(&rt->sandboxes) && TAILQ_EMPTY(&rt->execs.active) &&
	       TAILQ_EMPTY(&rt->execs.ending) && TAILQ_EMPTY(&rt->files.ending);
}

/* What the loop still does for us when nothing is left: the socket and the timer. */
static void close_handles(struct runtime *rt)
{
	link_close(rt);
	gateway_close(rt);
	deadlines_stop(&rt->deadlines);
	rt->deadlines.wake.data = rt;
	uv_close((uv_handle_t *)&rt->deadlines.wake, runtime_handle_closed);
}

void runtime_close_step(struct runtime *rt)
{
	if (!rt->closing)
		return;
	if (rt->closing_handles) {
		if (!rt->handles)
			on_all_closed(rt);
		return;
	}
	if (!is_quiet(rt))
		return;
	rt->closing_handles = true;
	close_handles(rt);
}

static void on_close_late(struct deadline *d)
{
	struct runtime *rt = container_of(d, struct runtime, close_deadline);
	struct sandbox *s;

	log_event(LOG_WARN, "sandboxes_left_at_close");
	while ((s = TAILQ_FIRST(&rt->sandboxes)))
		sandbox_gone(s);
	execs_abandon(rt);
	files_abandon(rt);
	runtime_close_step(rt);
}

static void on_close_soon(struct deadline *d)
{
	struct runtime *rt = container_of(d, struct runtime, close_deadline);

	deadline_set(&rt->deadlines, d, clock_monotonic_ms() + CLOSE_MS, on_close_late);
	runtime_close_step(rt);
}

void native_close(struct runtime *rt, void (*closed)(void *data), void *data)
{
	struct sandbox *s;

	assert(!rt->closing);
	rt->on_closed = closed;
	rt->closed_data = data;
	execs_end(rt);
	files_end(rt);
	pools_drain(rt);
	TAILQ_FOREACH(s, &rt->sandboxes, link)
	sandbox_kill(s);
	rt->closing = true;
	deadline_set(&rt->deadlines, &rt->close_deadline, clock_monotonic_ms(), on_close_soon);
}

/* ---- What it says about itself ---- */

static void ask_status(struct runtime *rt, link_answer_fn fn, void *data)
{
	rt->status_ms = clock_monotonic_ms();
	if (rt->status_open++ == 0)
		rt->status_since_ms = rt->status_ms;
	link_ask(rt, DL_STATUS, NULL, 0, LINK_BIT(LD_STATUS) | LINK_BIT(LD_DONE), fn, data);
}

/* LD_DONE instead: the launcher is busy and does not say. That is no answer to those that wait. */
static bool keep_status(struct runtime *rt, const struct wire_msg *msg)
{
	rt->status_open--;
	if (!msg || msg->head.type != LD_STATUS)
		return false;
	rt->status_since_ms = clock_monotonic_ms();
	memcpy(&rt->status, msg->body, sizeof(rt->status));
	return true;
}

static bool is_silent(const struct runtime *rt)
{
	return rt->status_open > 0 && clock_monotonic_ms() - rt->status_since_ms >= SILENT_MS;
}

static void on_status(struct runtime *rt, void *data, struct wire_msg *msg)
{
	keep_status(rt, msg);
}

static void refresh_status(struct runtime *rt)
{
	bool is_old = !rt->status_ms || clock_monotonic_ms() - rt->status_ms >= STATUS_MS;

	if (is_old && !rt->status_open && rt->link.state == LINK_READY)
		ask_status(rt, on_status, NULL);
}

static struct runtime_space space_of(const struct runtime *rt)
{
	return (struct runtime_space){ .bytes = rt->status.volume_bytes,
				       .free = rt->status.volume_free,
				       .promised = rt->status.volume_promised,
				       .hard_quota = rt->host.quota != MSG_QUOTA_NONE,
				       .frees = rt->status.volume_frees != 0 };
}

struct space_call {
	runtime_space_fn fn;
	void *data;
};

static void on_space(struct runtime *rt, void *data, struct wire_msg *msg)
{
	_cleanup_free_ struct space_call *call = data;
	bool is_known = keep_status(rt, msg);
	struct runtime_space space = space_of(rt);
	struct err err;

	if (!is_known)
		err_slug(&err, EAGAIN, "busy", "the launcher does not say how full the volume is");
	call->fn(call->data, is_known ? &space : NULL, is_known ? NULL : &err);
}

void runtime_volume_space(struct runtime *rt, runtime_space_fn fn, void *data)
{
	struct space_call *call = mem_new(1, sizeof(*call));

	*call = (struct space_call){ fn, data };
	ask_status(rt, on_space, call);
}

void runtime_info_get(struct runtime *rt, struct runtime_info *ret)
{
	refresh_status(rt);
	*ret = (struct runtime_info){
		.name = "native",
		.ready = rt->link.state == LINK_READY && !rt->closing,
		.silent = is_silent(rt),
		.builds_fail = rt->pools.failed_in_row >= POOL_FAILS,
		.hard_quota = rt->host.quota != MSG_QUOTA_NONE,
		.counts_shared = rt->host.quota == MSG_QUOTA_FULL,
		.layers = rt->host.layers,
		.missing = rt->host.required & ~rt->host.layers,
		.pool_ready = rt->pools.n_ready,
		.running = rt->execs.running,
		.queued = rt->execs.queued,
		.running_max = rt->config.running_max,
		.has_gateway = rt->host.gateway != 0,
		.gateway = rt->gateway.state == GATEWAY_READY,
		.gateway_restarts = rt->status.gateway_restarts,
		.volume = space_of(rt),
	};
}

uint32_t runtime_posture(struct runtime *rt, const char *volume, uint32_t tenant)
{
	struct volume *v = volume_find(rt, volume);
	struct pool *p;

	if (v && v->posture)
		return v->posture;
	TAILQ_FOREACH(p, &rt->pools.list, link)
	{
		if (p->tenant == tenant && p->posture)
			return p->posture;
	}
	return 0;
}

void runtime_warm(struct runtime *rt, uint32_t tenant, const char *image, bool egress)
{
	struct pool *p = pool_get(rt, tenant, image, egress);

	if (p)
		pool_warm(p);
}
