// SPDX-License-Identifier: Apache-2.0
/*
 * peers: starting and ending the processes that the launcher supervises. airlockd and the gateway
 * are exec'd, each as its own user, with an empty environment and no descriptors but those named
 * here; roles are forked and keep only what was opened before the first sandbox.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "launcher/launcher.h"

struct peer {
	const char *name;
	pid_t pid;    /* 0: not running */
	int sock;     /* owned; -1: none */
	bool greeted; /* it has said hello */
	uint32_t restarts;
	int64_t started_ms;
	int64_t start_at_ms; /* 0: nothing is due */
	int64_t kill_at_ms;  /* 0: nothing is due; its socket has ended */
};

int peer_start_role(struct peer *p, struct launcher *l, void (*role)(struct launcher *l, int sock),
		    struct err *err);
/* 3: its socket, 4: configuration, 5: the listening socket, 6: that of the metrics, if there is. */
int peer_start_daemon(struct peer *p, struct launcher *l, struct err *err);
/* 3: its socket. */
int peer_start_gateway(struct peer *p, struct launcher *l, struct err *err);
/* A socket pair that takes a burst of messages. */
int peer_channel_open(int ret_socks[2], struct err *err);
/* Sends SIGKILL and closes the socket; the end is seen by reaping. */
void peer_kill(struct peer *p);
/* After it was reaped. */
void peer_close(struct peer *p);
