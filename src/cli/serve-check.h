// SPDX-License-Identifier: Apache-2.0
/* serve-check: step 1 of serve.h. */
#pragma once

#include <limits.h>
#include <stdint.h>

#include "cli/serve.h"

#define SERVE_TEMPLATES_MAX 4096

struct serve_settings {
	char state_dir[PATH_MAX];
	char listen[PATH_MAX];
	char volumes[16];
	char mode[16];
	char templates[SERVE_TEMPLATES_MAX]; /* names, each with its NUL, then an empty one */
	uint64_t volume_size_mb, memory_mb, pids, cpu_milli, tmp_mb;
};

/* Returns 0 with *ret and *ret_memfd (sealed) filled, or the exit status; it has been said why. */
int serve_check(const struct serve_request *request, struct serve_settings *ret, int *ret_memfd);
