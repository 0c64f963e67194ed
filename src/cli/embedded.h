// SPDX-License-Identifier: Apache-2.0
/*
 * embedded: a server of one's own for `airlock run`: the same programs and the same checks as
 * `airlock serve`, on a unix socket in a state directory that is kept between runs (its volume
 * holds the image already, so a later start is short), with a random key, without kept sessions.
 * Needs root.
 *
 * Several at once use /var/lib/airlock-run/0, 1, …; each is locked by its user. The server ends
 * with this process, however that ends.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "cli/client.h"

struct embedded {
	pid_t pid;    /* 0: none; leads a process group of its own, so that Ctrl-C is ours alone */
	int lock_fd;  /* owned */
	char *socket; /* owned */
	char *key;    /* owned */
	char *log;    /* owned: file with what the server said */
};

#define EMBEDDED_NONE \
	{ \
		.lock_fd = -1 \
	}

/* egress: what its only session asks for, a comma list, NULL: nothing. Without a policy in the
 * environment that is what it may reach: who asks is who allows. */
int embedded_start(struct embedded *e, const char *egress, struct err *err);
/* Until it answers; -ECANCELED when a signal came. */
int embedded_wait(struct embedded *e, struct client *client, struct err *err);
/* Ends it and waits for the end. */
void embedded_stop(struct embedded *e);
