// SPDX-License-Identifier: Apache-2.0
/* serve-check: step 1 of serve.h. */
#pragma once

#include <limits.h>
#include <stdint.h>

#include "cli/nameserver.h"
#include "cli/serve.h"

#define SERVE_TEMPLATES_MAX 4096

struct serve_settings {
	char state_dir[PATH_MAX];
	char listen[PATH_MAX];
	char metrics_listen[PATH_MAX]; /* "": there is none */
	char volumes[16];
	char mode[16];
	char templates[SERVE_TEMPLATES_MAX]; /* names, each with its NUL, then an empty one */
	bool gateway;			     /* the rest of it counts only then */
	char egress_log_dir[PATH_MAX];
	char egress_dns[NAMESERVER_LIST_MAX]; /* comma list */
	char egress_policy_file[PATH_MAX];    /* "": the policy is a variable */
	uint64_t egress_log_days;
	char import_base[PATH_MAX];	   /* "": the contract's */
	char tenant_limits_file[PATH_MAX]; /* "": there is none */
	uint64_t volume_size_mb, memory_mb, pids, cpu_milli, tmp_mb, stop_s;
};

/* Returns 0 with *ret and *ret_memfd (sealed) filled, or the exit status; it has been said why. */
int serve_check(const struct serve_request *request, struct serve_settings *ret, int *ret_memfd);
