// SPDX-License-Identifier: Apache-2.0
/*
 * handle: libuv handles whose owner may go at once: dropping one stops it now and frees it when the
 * loop has let go of it. No call comes after the drop.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

/* Raises the limit of descriptors to what may be had. A part of them is kept for what the launcher
 * and airlockd send: whoever runs out there has to start again, which ends every tunnel. */
void handle_limit_init(void);
/* Whether a descriptor that a tenant caused is one of the kept ones; then it is closed and -1. The
 * kernel gives the lowest free number, so a high one means that there are few left. */
bool handle_is_reserved(int *fd);

/* NULL: the descriptor cannot be watched. */
uv_poll_t *handle_poll(uv_loop_t *loop, int fd, void *data);
uv_timer_t *handle_timer(uv_loop_t *loop, void *data);
/* Both take NULL; the pointer becomes NULL. The descriptor may be closed afterwards. */
void handle_drop_poll(uv_poll_t **poll);
void handle_drop_timer(uv_timer_t **timer);
