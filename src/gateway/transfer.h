// SPDX-License-Identifier: Apache-2.0
/*
 * transfer: one GET by libcurl, on the gateway's loop: to addresses that the caller has judged and
 * to no other, with no redirect, proxy, cookie, netrc or cache, and nothing decompressed. HTTP/1.1
 * alone: HTTP/2 is a second parser before a hostile peer, for one file.
 *
 * Each transfer has a multi handle of its own, so that no name, connection or TLS session of one is
 * another's. The name is resolved by what is given (CURLOPT_RESOLVE), and each socket is made
 * here, after its address was looked for among the given ones.
 *
 *   head -> bytes, any number of times -> done
 *
 * Bounded: the head and trailers together by TRANSFER_HEAD_MAX, memory by libcurl's two buffers of
 * 16 KiB and one TLS record; time and body are the caller's to bound.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/inet.h"
#include "base/str.h"
#include "gateway/hop.h"
#include "loop/task.h"

#define TRANSFER_HEAD_MAX (64u * 1024)
#define TRANSFER_DIAL_MS 10000
#define TRANSFER_SIZE_UNKNOWN UINT64_MAX

struct transfer;

struct transfer_head {
	unsigned status; /* 200 and more */
	uint64_t size;	 /* as announced, or TRANSFER_SIZE_UNKNOWN */
	/* Of the one Location field; data == NULL: there is none. */
	struct str location;
};

struct transfer_ops {
	/* Both valid during the call; false: that is enough, done(NULL) follows. */
	bool (*head)(void *data, const struct transfer_head *head);
	bool (*bytes)(void *data, struct str bytes);
	/* Once, from the loop; drop it now or later. NULL: it is whole, or was ended by the other
	 * two; else a phrase that says what went wrong. */
	void (*done)(void *data, const char *why);
};

struct transfer_spec {
	uv_loop_t *loop;
	struct task_queue *tasks;      /* of the loop */
	const struct hop *hop;	       /* copied */
	const struct inet_addr *addrs; /* n_addrs >= 1; copied */
	size_t n_addrs;
	uint64_t dial_ms; /* for a connection that TLS goes over */
};

/* Once, before the process locks itself in: what the libraries read, they read here. */
int transfer_init(struct err *err);
void transfer_fini(void);

/* NULL: it cannot be, for want of memory or of certificates; *ret_why says why. */
struct transfer *transfer_start(const struct transfer_spec *spec, const struct transfer_ops *ops,
				void *data, const char **ret_why);
/* No call follows. Not from inside head or bytes. */
void transfer_drop(struct transfer *t);
