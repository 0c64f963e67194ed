// SPDX-License-Identifier: Apache-2.0
/* listen: the sockets of SANDBOX_LISTEN and SANDBOX_METRICS_LISTEN, bound here so that they survive
 * restarts of airlockd. */
#pragma once

#include "base/err.h"

/* text: "host:port" or "unix:<path>". A socket file that nobody listens on any more is replaced.
 * variable: the name that a refusal begins with. */
int listen_open(const char *variable, const char *text, int *ret_fd, struct err *err);
/* How this machine itself reaches it, as a value of SANDBOX_API_URL; the caller frees it. */
char *listen_url(const char *text);
