// SPDX-License-Identifier: Apache-2.0
/* listen: the socket of SANDBOX_LISTEN, bound here so that it survives restarts of airlockd. */
#pragma once

#include "base/err.h"

/* text: "host:port" or "unix:<path>". A socket file that nobody listens on any more is replaced.
 * The sentence begins with "SANDBOX_LISTEN: ". */
int listen_open(const char *text, int *ret_fd, struct err *err);
/* How this machine itself reaches it, as a value of SANDBOX_API_URL; the caller frees it. */
char *listen_url(const char *text);
