// SPDX-License-Identifier: Apache-2.0
/* serve-check: step 1 of serve.h. */
#pragma once

#include <limits.h>
#include <stdint.h>

#include "cli/serve.h"

#define SERVE_TEMPLATES_MAX 4096

/* "" is none; those of egress, and import_base, are empty without a gateway. */
enum serve_text {
	SERVE_STATE_DIR,
	SERVE_LISTEN,
	SERVE_METRICS_LISTEN,
	SERVE_VOLUMES,
	SERVE_MODE,
	SERVE_EGRESS_LOG_DIR,
	SERVE_EGRESS_DNS,	  /* comma list */
	SERVE_EGRESS_POLICY_FILE, /* none: the policy is a variable */
	SERVE_IMPORT_BASE,	  /* none: the contract's */
	SERVE_TENANT_LIMITS_FILE,
	SERVE_TEXTS
};

struct serve_settings {
	char text[SERVE_TEXTS][PATH_MAX];
	char templates[SERVE_TEMPLATES_MAX]; /* names, each with its NUL, then an empty one */
	uint64_t gateway;		     /* not 0: there is one */
	uint64_t egress_log_days;	     /* counts only with a gateway */
	uint64_t volume_size_mb, memory_mb, pids, cpu_milli, tmp_mb, stop_s;
};

/* Returns 0 with *ret and *ret_memfd (sealed) filled, or the exit status; it has been said why. */
int serve_check(const struct serve_request *request, struct serve_settings *ret, int *ret_memfd);
