// SPDX-License-Identifier: Apache-2.0
/*
 * state: the native runtime's one object, shared by the files of this folder and nobody else.
 *
 *   link     the socket to the launcher, and what has been asked there
 *   slot     measuring descriptors per slot       (owned by slots)
 *   sandbox  one living sandbox, its control socket and pipes
 *   pool     blank sandboxes per tenant and image
 *   volume   what is known about a workspace
 *   exec     commands
 *   box      file sandboxes and their queues
 *   file     file jobs
 *   gateway  the socket to the gateway: sessions with egress and who works for them
 *   fetch    downloads that the gateway does
 *
 * Everything runs on the loop thread. A callback to the outside is always the last thing that a
 * function does with what it is about, because the callee may start, detach, delete or close.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "core/native/box.h"
#include "core/native/deadline.h"
#include "core/native/exec.h"
#include "core/native/file.h"
#include "core/native/gateway.h"
#include "core/native/link.h"
#include "core/native/native.h"
#include "core/native/pool.h"
#include "core/native/sandbox.h"
#include "core/native/slot.h"
#include "core/native/volume.h"

struct runtime {
	uv_loop_t *loop; /* borrowed, outlives the runtime */
	struct native_config config;
	char *tmp_dir; /* owned; config.tmp_dir points here */
	native_volume_fn on_volume;
	native_ready_fn on_ready; /* NULL after it was called */
	void *data;

	struct deadlines deadlines;
	struct link link;
	struct ld_hello host; /* zero until the launcher said hello */
	struct ld_status status;
	unsigned status_open;	 /* questions about status that wait for an answer */
	int64_t status_ms;	 /* when one was asked last; 0: never */
	int64_t status_since_ms; /* since when those that wait have heard nothing */

	struct slot_entry *slots; /* owned, grows to the highest number seen */
	size_t n_slots;
	struct sandbox_list sandboxes; /* all that are not known to be gone */
	unsigned strays; /* of them, those that an earlier airlockd used, with who knows which
			    workspace */
	struct pools pools;
	struct volume_table volumes;
	struct execs execs;
	struct boxes boxes;
	struct files files;
	struct gateway gateway;

	char *chunk; /* owned: what one read of a pipe goes through, RUNTIME_CHUNK bytes */

	unsigned handles; /* libuv handles not yet closed */
	bool closing, closing_handles;
	struct deadline close_deadline;
	void (*on_closed)(void *data);
	void *closed_data;
};

#define RUNTIME_CHUNK (256u * 1024u)

/* The launcher is gone or broke the rules: every sandbox ends with it. */
void runtime_lost(struct runtime *rt, const struct err *err);
/* Called whenever something ended while closing. */
void runtime_close_step(struct runtime *rt);
/* The close callback of the runtime's own libuv handles; their data is the runtime. */
void runtime_handle_closed(uv_handle_t *handle);
