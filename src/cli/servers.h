// SPDX-License-Identifier: Apache-2.0
/* servers: the servers that run on this host, seen from outside through /proc. As root also how
 * full their volumes are. */
#pragma once

#include <jansson.h>

/* A list of objects: pid, state_dir, daemon_pid, ready, running, and volume_size_bytes,
 * volume_free_bytes when they can be seen. The caller owns it. */
json_t *servers_find(void);

/* The newest lines of level error or warn that the service airlock wrote to the journal, at most n.
 * NULL: there is no journal, or it is not for us. */
json_t *servers_errors(size_t n);
