// SPDX-License-Identifier: Apache-2.0
/*
 * native: the runtime that Airlock carries itself. Speaks to the launcher (sandboxes, volumes) and
 * to each sandbox's init (commands, file jobs).
 */
#pragma once

#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "core/runtime.h"

struct native_config {
	int launcher_fd;      /* owned after success */
	unsigned pool;	      /* SANDBOX_POOL: blank sandboxes per active tenant */
	unsigned pool_all;    /* over all tenants */
	unsigned running_max; /* commands at once, server-wide */
	int64_t idle_ms;      /* a tenant without commands for so long keeps no pool */
	const char *tmp_dir;  /* for captured output beyond 256 KiB (O_TMPFILE); copied */
	/* The launcher closed its socket or broke the protocol: every sandbox is gone, nothing can
	 * be run any more, the process should end. At most once, with the data of native_open. May
	 * be NULL. */
	void (*lost)(void *data, const struct err *err);
	/* The operator wants one of the files (enum policy_file) read anew. fd is borrowed and open
	 * for reading, or -1 when the launcher could not open it, which code (an errno) explains.
	 * Returns 0 when the new text counts from now on, else an errno. May be NULL. */
	uint32_t (*policy)(void *data, uint32_t which, int fd, uint32_t code);
};

/* Volumes that the launcher reported at start, for reconciling with the store. */
typedef void (*native_ready_fn)(void *data, const struct err *err);
typedef void (*native_volume_fn)(void *data, const char *volume, uint32_t tenant);

/* Says hello and waits for the list. ready is called once, when LD_READY came (err NULL) or the
 * launcher refused. volume is called for each existing volume before ready. */
int native_open(uv_loop_t *loop, const struct native_config *config, native_volume_fn volume,
		native_ready_fn ready, void *data, struct runtime **ret, struct err *err);
/* Ends every sandbox; closed is called when nothing of it is left on the loop. */
void native_close(struct runtime *rt, void (*closed)(void *data), void *data);
