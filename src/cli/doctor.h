// SPDX-License-Identifier: Apache-2.0
/*
 * doctor: what this host can enforce, layer by layer. Every probe runs in a child of its own that
 * may make and lose namespaces, mounts and filters, and that is ended after PROBE_SECONDS. Nothing
 * stays behind. Without root the probes that need it say so, and count as not known.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define PROBE_SECONDS 20
#define PROBE_TEXT 240

enum probe_verdict {
	PROBE_GOOD,
	PROBE_NOTE, /* works, but the operator should know */
	PROBE_MISSING,
	PROBE_UNKNOWN, /* needs root, or the probe itself failed */
};

struct probe_finding {
	enum probe_verdict verdict;
	char found[PROBE_TEXT];
	char advice[PROBE_TEXT]; /* "" when there is nothing to do */
};

struct probe {
	const char *layer;
	const char *what_for;
	bool required; /* multi-tenant mode is refused without it */
	void (*run)(struct probe_finding *f);
};

extern const struct probe doctor_kernel_probes[], doctor_mount_probes[], doctor_host_probes[],
	doctor_net_probes[];
extern const size_t n_doctor_kernel_probes, n_doctor_mount_probes, n_doctor_host_probes,
	n_doctor_net_probes;

/* Fills the finding; advice may be NULL. */
void probe_say(struct probe_finding *f, enum probe_verdict verdict, const char *advice,
	       const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* False, and the finding filled, when we are not root. */
bool probe_needs_root(struct probe_finding *f);
/* The text of a small file without its line end; "" when it cannot be read. */
void probe_read(const char *path, char *ret, size_t size);
