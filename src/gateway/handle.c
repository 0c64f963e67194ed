// SPDX-License-Identifier: Apache-2.0
#include "gateway/handle.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/fd.h"
#include "base/mem.h"

/* One in so many. */
#define RESERVED_PART 8

static int first_reserved = INT_MAX;

void handle_limit_init(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < INT_MAX)
		first_reserved = (int)(limit.rlim_cur - limit.rlim_cur / RESERVED_PART);
}

bool handle_is_reserved(int *fd)
{
	if (*fd < first_reserved)
		return false;
	fd_close(fd);
	return true;
}

uv_poll_t *handle_poll(uv_loop_t *loop, int fd, void *data)
{
	uv_poll_t *poll = mem_new(1, sizeof(*poll));

	if (uv_poll_init(loop, poll, fd) < 0) {
		free(poll);
		return NULL;
	}
	poll->data = data;
	return poll;
}

uv_timer_t *handle_timer(uv_loop_t *loop, void *data)
{
	uv_timer_t *timer = mem_new(1, sizeof(*timer));

	uv_timer_init(loop, timer);
	timer->data = data;
	return timer;
}

static void on_closed(uv_handle_t *handle)
{
	free(handle);
}

void handle_drop_poll(uv_poll_t **poll)
{
	if (*poll)
		uv_close((uv_handle_t *)*poll, on_closed);
	*poll = NULL;
}

void handle_drop_timer(uv_timer_t **timer)
{
	if (*timer)
		uv_close((uv_handle_t *)*timer, on_closed);
	*timer = NULL;
}
