// SPDX-License-Identifier: Apache-2.0
/*
 * tenant: the accounts, their limits and what they hold right now. A tenant exists as soon as it has
 * a key. Counters live in memory; numbers (for the launcher) come from the store and never change.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "core/rate.h"

struct tenant_limits {
	uint32_t max_sessions;
	uint32_t requests_per_minute;
	uint32_t max_concurrent_exec;
	uint32_t max_persistent;
	uint32_t max_snapshots;
	uint32_t max_snapshot_mb;
	uint32_t max_previews;
};

#define TENANT_LIMITS_DEFAULT ((struct tenant_limits){ 10, 120, 4, 3, 20, 10240, 5 })

/* The fields in the order of the contract, for configuration, usage and OpenAPI alike. */
struct tenant_limit_field {
	const char *name;
	size_t offset; /* of a uint32_t in struct tenant_limits */
};

extern const struct tenant_limit_field tenant_limit_fields[];
extern const size_t tenant_limit_n_fields;

/* File calls: those that are over soon, and those that go at the pace of a client. */
enum { FILES_QUICK, FILES_SLOW, FILES_LINES };

struct files_line {
	uint32_t running;		 /* in flight, at most 8; more wait */
	struct files_call *first, *last; /* that wait, in order; core/ only */
};

struct tenant {
	uint32_t number;
	char *name; /* owned */
	struct tenant_limits limits;
	struct rate rate;
	uint32_t sessions_open;
	uint32_t commands_running;
	uint32_t imports; /* that have a place: at most 2 */
	struct files_line files[FILES_LINES];
	struct snapshot *snapshots; /* owned, newest first; see snapshot.h */
	uint32_t snapshots_stored;
	uint32_t snapshots_making;  /* they count towards the limit, too */
	uint64_t snapshot_bytes;    /* of both, as far as their size is known */
	uint32_t keys_active;	    /* stored ones; see key.h */
	uint32_t keys_making;	    /* they count towards the limit, too */
	struct tenant_usage *usage; /* owned; core/ only */
	struct tenant *next;
};
