// SPDX-License-Identifier: Apache-2.0
/*
 * relay: moves bytes between two stream sockets, both ways, without copying them: socket to pipe to
 * socket by splice(2). A direction that ended is passed on as a half-close; the relay is over when
 * both have ended, when one side fails or sends urgent data, or when nothing moved in either
 * direction for the idle time. A side that does not read stops the other: at most a pipe of bytes
 * is held per direction. Pipes are kept only while they hold bytes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"

struct relay;

/* Called once, from the loop. */
typedef void (*relay_over_fn)(void *data);

/* Both sockets are borrowed, non-blocking, and watched until relay_stop. near is the client; first
 * is what it has said already, and is emptied. NULL: the sockets cannot be watched. */
struct relay *relay_start(uv_loop_t *loop, int near, int far, struct buf *first, uint64_t idle_ms,
			  relay_over_fn over, void *data);
uint64_t relay_up(const struct relay *r);   /* bytes near to far */
uint64_t relay_down(const struct relay *r); /* bytes far to near */
/* No call follows. The sockets may be closed when this returns; memory is freed by the loop. */
void relay_stop(struct relay *r);
/* Closes the pipes that are kept for reuse. */
void relay_fini(void);
