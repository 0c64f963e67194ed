// SPDX-License-Identifier: Apache-2.0
/* A file of its own: the configuration needs the table without the rest of the core. */
#include "base/mem.h"
#include "core/tenant.h"

#define FIELD(name) \
	{ \
#name, offsetof(struct tenant_limits, name) \
	}

const struct tenant_limit_field tenant_limit_fields[] = {
	FIELD(max_sessions),   FIELD(requests_per_minute), FIELD(max_concurrent_exec),
	FIELD(max_persistent), FIELD(max_snapshots),	   FIELD(max_snapshot_mb),
	FIELD(max_previews),
};

const size_t tenant_limit_n_fields = ARRAY_SIZE(tenant_limit_fields);
