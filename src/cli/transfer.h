// SPDX-License-Identifier: Apache-2.0
/*
 * transfer: files between this machine and a workspace. Text goes through write and read, which
 * every server has; anything else through upload and download. Uploads, downloads and archives of
 * any size are not held in memory; on a terminal stderr shows how far they are.
 */
#pragma once

#include "cli/client.h"

/* The URL of a call about a session's file; the caller frees it. */
char *transfer_route(const char *id, const char *what, const char *remote);

/* A local name of "-" is standard input or output. */
int transfer_put(struct client *c, const char *id, const char *local, const char *remote,
		 struct err *err);
/* Bytes as they are, whatever they are. A local file is there whole or, when it failed, as before. */
int transfer_upload(struct client *c, const char *id, const char *local, const char *remote,
		    struct err *err);
int transfer_download(struct client *c, const char *id, const char *remote, const char *local,
		      struct err *err);
/* A folder as a tar in gzip. */
int transfer_archive(struct client *c, const char *id, const char *remote, const char *local,
		     struct err *err);
int transfer_get(struct client *c, const char *id, const char *remote, const char *local,
		 struct err *err);
