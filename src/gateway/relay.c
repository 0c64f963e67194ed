// SPDX-License-Identifier: Apache-2.0
#include "gateway/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "gateway/handle.h"

/* What one pipe is asked to hold. An unprivileged user has a soft limit of 16,384 pages in all his
 * pipes (pipe(7)); where the kernel refuses, the pipe holds what it holds. */
#define PIPE_BYTES (512 * 1024)
/* Bytes that one direction moves before others have their turn. */
#define TURN_BYTES (2 * 1024 * 1024)
#define KEPT_PIPES 32

struct pipe {
	int in, out; /* write end, read end */
};

/* One direction. */
struct flow {
	int from, to; /* borrowed */
	struct pipe pipe;
	struct buf first; /* owned; goes out before anything is read */
	bool has_pipe;
	size_t held; /* bytes in the pipe */
	bool ended;  /* nothing more comes from `from` */
	bool shut;   /* and that was passed on */
	uint64_t bytes;
	bool want_read, want_write;
};

struct relay {
	uv_loop_t *loop;
	uv_poll_t near, far;
	int near_events, far_events;
	uv_timer_t idle;
	uint64_t idle_ms, moved_ms;
	struct flow up, down;
	unsigned n_handles;
	relay_over_fn over;
	void *data;
};

static struct pipe kept[KEPT_PIPES];
static unsigned n_kept;

static bool take_pipe(struct flow *f)
{
	int ends[2];

	if (f->has_pipe)
		return true;
	if (n_kept > 0) {
		f->pipe = kept[--n_kept];
	} else {
		if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) < 0)
			return false;
		if (handle_is_reserved(&ends[1]) || handle_is_reserved(&ends[0])) {
			fd_close(&ends[0]);
			fd_close(&ends[1]);
			return false;
		}
		f->pipe = (struct pipe){ .in = ends[1], .out = ends[0] };
		fcntl(f->pipe.in, F_SETPIPE_SZ, PIPE_BYTES);
	}
	f->has_pipe = true;
	return true;
}

static void give_pipe(struct flow *f)
{
	if (!f->has_pipe)
		return;
	f->has_pipe = false;
	if (f->held == 0 && n_kept < KEPT_PIPES) {
		kept[n_kept++] = f->pipe;
		return;
	}
	fd_close(&f->pipe.in);
	fd_close(&f->pipe.out);
}

void relay_fini(void)
{
	while (n_kept > 0) {
		n_kept--;
		fd_close(&kept[n_kept].in);
		fd_close(&kept[n_kept].out);
	}
}

/* Into the pipe. Returns whether something came; false with !ended: nothing now. -1: broken. */
static int fill(struct flow *f)
{
	ssize_t n = splice(f->from, NULL, f->pipe.in, NULL, PIPE_BYTES,
			   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	if (n > 0) {
		f->held += (size_t)n;
		return 1;
	}
	if (n == 0) {
		f->ended = true;
		return 0;
	}
	return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

/* Out of the pipe. */
static int drain(struct flow *f)
{
	ssize_t n =
		splice(f->pipe.out, NULL, f->to, NULL, f->held, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	if (n > 0) {
		f->held -= (size_t)n;
		f->bytes += (uint64_t)n;
		return 1;
	}
	return n == 0 || errno == EAGAIN || errno == EINTR ? 0 : -1;
}

static int send_first(struct flow *f)
{
	ssize_t n = send(f->to, f->first.data, f->first.len, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	f->bytes += (uint64_t)n;
	buf_consume(&f->first, (size_t)n);
	if (!f->first.len)
		buf_release(&f->first);
	return 0;
}

/* Moves what can be moved now and says what to wait for. -1: one side is broken. */
static int pump(struct flow *f)
{
	uint64_t until = f->bytes + TURN_BYTES;

	f->want_read = f->want_write = false;
	if (f->first.len && send_first(f) < 0)
		return -1;
	if (f->first.len) {
		f->want_write = true;
		return 0;
	}
	while (!f->shut && f->bytes < until) {
		int in = 0, out = 0;
		if (!f->ended) {
			if (!take_pipe(f))
				return -1;
			in = fill(f);
		}
		if (in >= 0 && f->held > 0)
			out = drain(f);
		if (in < 0 || out < 0)
			return -1;
		if (f->held > 0 && !out)
			break;
		if (f->held == 0 && f->ended) {
			f->shut = true;
			shutdown(f->to, SHUT_WR);
		} else if (!in && !out) {
			break;
		}
	}
	/* With bytes left in the pipe the reader is what is waited for, also at a turn's end. */
	f->want_write = f->held > 0;
	f->want_read = !f->ended && !f->want_write;
	if (f->held == 0)
		give_pipe(f);
	return 0;
}

static void on_event(uv_poll_t *poll, int status, int events);

static void watch(uv_poll_t *poll, int *now, int want)
{
	if (*now == want)
		return;
	*now = want;
	if (want)
		uv_poll_start(poll, want | UV_PRIORITIZED, on_event);
	else
		uv_poll_stop(poll);
}

static void over(struct relay *r)
{
	relay_over_fn fn = r->over;

	r->over = NULL;
	if (fn)
		fn(r->data);
}

static void step(struct relay *r)
{
	uint64_t before = r->up.bytes + r->down.bytes;

	if (pump(&r->up) < 0 || pump(&r->down) < 0 || (r->up.shut && r->down.shut)) {
		over(r);
		return;
	}
	if (r->up.bytes + r->down.bytes != before)
		r->moved_ms = uv_now(r->loop);
	watch(&r->near, &r->near_events,
	      (r->up.want_read ? UV_READABLE : 0) | (r->down.want_write ? UV_WRITABLE : 0));
	watch(&r->far, &r->far_events,
	      (r->down.want_read ? UV_READABLE : 0) | (r->up.want_write ? UV_WRITABLE : 0));
}

static void on_event(uv_poll_t *poll, int status, int events)
{
	struct relay *r = poll->data;

	/* splice(2) does not get past urgent data, while the socket stays readable. TLS knows none.
	 */
	if (status < 0 || (events & UV_PRIORITIZED))
		over(r);
	else if (r->over)
		step(r);
}

static void on_idle(uv_timer_t *timer)
{
	struct relay *r = timer->data;
	uint64_t quiet = uv_now(r->loop) - r->moved_ms;

	if (quiet >= r->idle_ms)
		over(r);
	else
		uv_timer_start(timer, on_idle, r->idle_ms - quiet, 0);
}

static void on_closed(uv_handle_t *handle)
{
	struct relay *r = handle->data;

	if (--r->n_handles == 0)
		free(r);
}

static bool open_poll(struct relay *r, uv_poll_t *poll, int fd)
{
	if (uv_poll_init(r->loop, poll, fd) < 0)
		return false;
	poll->data = r;
	r->n_handles++;
	return true;
}

struct relay *relay_start(uv_loop_t *loop, int near, int far, struct buf *first, uint64_t idle_ms,
			  relay_over_fn fn, void *data)
{
	struct relay *r = mem_new(1, sizeof(*r));

	*r = (struct relay){ .loop = loop,
			     .idle_ms = idle_ms,
			     .moved_ms = uv_now(loop),
			     .up = { .from = near, .to = far },
			     .down = { .from = far, .to = near },
			     .over = fn,
			     .data = data };
	if (!open_poll(r, &r->near, near)) {
		free(r);
		return NULL;
	}
	if (!open_poll(r, &r->far, far)) {
		uv_close((uv_handle_t *)&r->near, on_closed);
		return NULL;
	}
	uv_timer_init(loop, &r->idle);
	r->idle.data = r;
	r->n_handles++;
	r->up.first = *first;
	*first = BUF(first->max);
	uv_timer_start(&r->idle, on_idle, idle_ms, 0);
	watch(&r->near, &r->near_events, UV_READABLE);
	watch(&r->far, &r->far_events, UV_READABLE | (r->up.first.len ? UV_WRITABLE : 0));
	return r;
}

uint64_t relay_up(const struct relay *r)
{
	return r->up.bytes;
}

uint64_t relay_down(const struct relay *r)
{
	return r->down.bytes;
}

void relay_stop(struct relay *r)
{
	r->over = NULL;
	give_pipe(&r->up);
	give_pipe(&r->down);
	buf_fini(&r->up.first);
	uv_close((uv_handle_t *)&r->near, on_closed);
	uv_close((uv_handle_t *)&r->far, on_closed);
	uv_close((uv_handle_t *)&r->idle, on_closed);
}
