// SPDX-License-Identifier: Apache-2.0
/*
 * plan: what the child does between clone and init, as an ordered list of steps, so that the look
 * of a sandbox can be printed, tested and reviewed apart from the code that walks it
 * (launcher/child.c). Order matters: /proc is mounted before it is masked, the limit on user
 * namespaces is written before /proc/sys becomes read-only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum plan_op {
	PLAN_PROC,	  /* a procfs of the new pid namespace on path */
	PLAN_TMPFS,	  /* path, text: options; noexec unless number is 1 */
	PLAN_DEVPTS,	  /* path, text: options */
	PLAN_WRITE,	  /* text into path */
	PLAN_MASK_FILE,	  /* /dev/null over path, when path exists */
	PLAN_MASK_FOLDER, /* an empty read-only folder over path, when path exists */
	PLAN_READ_ONLY,	  /* path, when it exists, becomes a read-only mount of itself */
	PLAN_HOSTNAME,	  /* text */
	PLAN_LOOPBACK,	  /* bring lo up */
	PLAN_LISTEN,	  /* routes and sockets of egress (launcher/net.h) */
	PLAN_RLIMIT,	  /* number: RLIMIT_..., soft, hard */
};

struct plan_step {
	enum plan_op op;
	const char *path;
	const char *text;
	uint64_t number;
	uint64_t soft, hard;
};

struct plan_spec {
	uint32_t tmp_mb;
	bool egress;
};

#define PLAN_STEPS_MAX 48

struct plan {
	struct plan_step steps[PLAN_STEPS_MAX];
	size_t n_steps;
	char tmp_options[96];
};

/* Fills *plan; it is self-contained and must not be copied. No heap. */
void plan_make(struct plan *plan, const struct plan_spec *spec);
/* One step as a line for people, into out. */
void plan_format(const struct plan_step *step, char *out, size_t size);

/* ---- The template, which every sandbox of one tenant and image starts from ---- */

/* Folders of the image that are never taken from it: ours stand in their place, or nothing. */
extern const char *const plan_image_skip[];
/* Empty folders of the root. */
extern const char *const plan_folders[];

struct plan_device {
	const char *name;
	unsigned major, minor;
};

extern const struct plan_device plan_devices[];
extern const size_t plan_n_devices;

struct plan_link {
	const char *name, *target;
};

extern const struct plan_link plan_dev_links[];
extern const size_t plan_n_dev_links;
