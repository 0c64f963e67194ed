// SPDX-License-Identifier: Apache-2.0
#include "api/handlers.h"

#include "api/json-out.h"
#include "api/request.h"
#include "base/clock.h"

static void put_limits(struct json_out *o, const struct tenant_limits *limits)
{
	json_out_object(o, "limits");
	for (size_t i = 0; i < tenant_limit_n_fields; i++) {
		uint32_t value;
		memcpy(&value, (const char *)limits + tenant_limit_fields[i].offset, sizeof(value));
		json_out_int(o, tenant_limit_fields[i].name, value);
	}
	json_out_end_object(o);
}

static void put_month(struct json_out *o, struct core *c, const struct tenant *t)
{
	struct usage_month month;

	usage_get(c, t, &month);
	json_out_object(o, "month");
	json_out_text(o, "period", month.period);
	json_out_int(o, "sessions", (int64_t)month.sessions);
	json_out_int(o, "commands", (int64_t)month.commands);
	json_out_seconds(o, "command_seconds", month.command_ms);
	json_out_end_object(o);
}

static uint32_t count_persistent(struct core *c, const struct tenant *t)
{
	uint32_t n = 0;

	for (struct session *s = session_next(c, t, NULL); s; s = session_next(c, t, s))
		n += s->persistent;
	return n;
}

void handle_usage(struct request *r)
{
	struct core *c = r->api->core;
	struct tenant *t = r->tenant;
	struct json_out o = request_json(r);

	json_out_object(&o, NULL);
	json_out_text(&o, "tenant_id", t->name);
	put_limits(&o, &t->limits);
	json_out_int(&o, "sessions_open", t->sessions_open);
	json_out_int(&o, "commands_running", t->commands_running);
	json_out_int(&o, "requests_available", rate_available(&t->rate, clock_monotonic_us()));
	json_out_int(&o, "persistent_open", count_persistent(c, t));
	json_out_int(&o, "snapshots_stored", t->snapshots_stored);
	json_out_int(&o, "snapshot_bytes", (int64_t)t->snapshot_bytes);
	put_month(&o, c, t);
	json_out_end_object(&o);
	request_reply(r, 200, buf_str(o.buf));
}

void handle_egress_policy(struct request *r)
{
	const struct egress_list *policy = core_egress(r->api->core, r->tenant);
	struct json_out o = request_json(r);

	json_out_object(&o, NULL);
	json_out_text(&o, "tenant_id", r->tenant->name);
	json_out_list(&o, "allowed");
	for (size_t i = 0; i < policy->n; i++)
		json_out_text(&o, NULL, policy->rules[i]);
	json_out_end_list(&o);
	json_out_end_object(&o);
	request_reply(r, 200, buf_str(o.buf));
}
