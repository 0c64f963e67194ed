// SPDX-License-Identifier: Apache-2.0
/* session-json: how answers show a session that has just been made. */
#pragma once

#include "api/json-out.h"
#include "core/core.h"

/* The members of an object that is open. snapshot_id.data == NULL: it began with none. */
void session_json_created(struct json_out *o, struct core *c, const struct session *s,
			  struct str snapshot_id);
