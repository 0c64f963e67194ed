// SPDX-License-Identifier: Apache-2.0
#include "gateway/handle.h"

#include <stdlib.h>

#include "base/mem.h"

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
