// SPDX-License-Identifier: Apache-2.0
/*
 * transfer: files between this machine and a workspace. Text goes through write and read, which
 * every server has; anything else through upload and download.
 */
#pragma once

#include "cli/client.h"

/* A local name of "-" is standard input or output. */
int transfer_put(struct client *c, const char *id, const char *local, const char *remote,
		 struct err *err);
int transfer_get(struct client *c, const char *id, const char *remote, const char *local,
		 struct err *err);
