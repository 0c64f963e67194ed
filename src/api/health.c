// SPDX-License-Identifier: Apache-2.0
#include "api/handlers.h"

#include "api/json-out.h"
#include "api/request.h"

/* Things that want an operator's eye; absent while all is well. */
static void put_concerns(struct json_out *o, struct api *a, const struct runtime_info *info)
{
	unsigned lost = core_lost_volumes(a->core);
	uint64_t errors = a->config.store_errors ? a->config.store_errors(a->config.store_data) : 0;

	/* What keeps sessions from being made. */
	static const char *const rooms[] = {
		[CORE_ROOM_FULL] = "full", [CORE_ROOM_PROMISED] = "promised"
	};
	const char *room = rooms[core_room(a->core)];

	if (room)
		json_out_text(o, "volume", room);
	if (lost)
		json_out_int(o, "lost_volumes", lost);
	if (errors)
		json_out_int(o, "store_errors", (int64_t)errors);
	if (info->has_gateway && !info->gateway)
		json_out_bool(o, "gateway", false);
	if (info->gateway_restarts)
		json_out_int(o, "gateway_restarts", info->gateway_restarts);
}

void handle_health(struct request *r)
{
	struct api *a = r->api;
	struct runtime_info info;
	bool stopping = core_is_stopping(a->core);
	struct json_out o = request_json(r);

	runtime_info_get(core_runtime(a->core), &info);
	bool healthy = info.ready && !stopping;
	json_out_object(&o, NULL);
	json_out_text(&o, "status", stopping ? "stopping" : healthy ? "healthy" : "starting");
	json_out_int(&o, "active_sessions", session_count(a->core));
	put_concerns(&o, a, &info);
	json_out_end_object(&o);
	request_reply(r, healthy ? 200 : 503, buf_str(o.buf));
}

void handle_description(struct request *r)
{
	request_reply(r, 200, buf_str(&r->api->description));
}
