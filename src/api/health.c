// SPDX-License-Identifier: Apache-2.0
#include "api/handlers.h"

#include "api/json-out.h"
#include "api/request.h"
#include "base/mem.h"

#define PROBLEMS_MAX 8u

/* Of what health says, that which the core and the api know and the runtime does not. */
struct state {
	struct runtime_info runtime;
	enum core_room room;
	uint64_t store_errors;
	bool store_fails;
	unsigned lost_volumes;
};

static struct state state_get(struct api *a)
{
	const struct api_config *config = &a->config;
	struct state s = { .room = core_room(a->core), .lost_volumes = core_lost_volumes(a->core) };

	runtime_info_get(core_runtime(a->core), &s.runtime);
	if (config->store_errors) {
		s.store_errors = config->store_errors(config->store_data);
		s.store_fails = config->store_fails(config->store_data);
	}
	return s;
}

/* What the server cannot do now, in the words for an operator. */
static unsigned find_problems(const struct state *s, const char **ret)
{
	const struct {
		bool is;
		const char *text;
	} rows[] = {
		{ s->runtime.silent, "the launcher does not answer: no session can be made or "
				     "deleted" },
		{ s->runtime.builds_fail, "sandboxes cannot be made: commands fail" },
		{ s->runtime.has_gateway && !s->runtime.gateway,
		  "the gateway is down: sandboxes reach nothing" },
		{ s->store_fails, "a database cannot be written" },
		{ s->room == CORE_ROOM_FULL, "the volume is full: no session can be made" },
		{ s->room == CORE_ROOM_PROMISED,
		  "the volume is promised away: no session can be made" },
	};
	unsigned n = 0;

	_Static_assert(ARRAY_SIZE(rows) <= PROBLEMS_MAX, "fits");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].is)
			ret[n++] = rows[i].text;
	}
	return n;
}

/* Figures behind the problems, and things that want an operator's eye; absent while all is well. */
static void put_concerns(struct json_out *o, const struct state *s)
{
	static const char *const rooms[] = {
		[CORE_ROOM_FULL] = "full", [CORE_ROOM_PROMISED] = "promised"
	};

	if (rooms[s->room])
		json_out_text(o, "volume", rooms[s->room]);
	if (s->lost_volumes)
		json_out_int(o, "lost_volumes", s->lost_volumes);
	if (s->store_errors)
		json_out_int(o, "store_errors", (int64_t)s->store_errors);
	if (s->runtime.has_gateway && !s->runtime.gateway)
		json_out_bool(o, "gateway", false);
	if (s->runtime.gateway_restarts)
		json_out_int(o, "gateway_restarts", s->runtime.gateway_restarts);
}

/* A server with problems does what it can: 200, so that nobody takes it out of service for that. */
void handle_health(struct request *r)
{
	struct api *a = r->api;
	struct state s = state_get(a);
	const char *problems[PROBLEMS_MAX];
	unsigned n = find_problems(&s, problems);
	bool stopping = core_is_stopping(a->core);
	bool serves = s.runtime.ready && !stopping;
	struct json_out o = request_json(r);

	json_out_object(&o, NULL);
	json_out_text(&o, "status",
		      stopping	? "stopping"
		      : !serves ? "starting"
		      : n	? "degraded"
				: "healthy");
	json_out_int(&o, "active_sessions", session_count(a->core));
	if (serves && n) {
		json_out_list(&o, "problems");
		for (unsigned i = 0; i < n; i++)
			json_out_text(&o, NULL, problems[i]);
		json_out_end_list(&o);
	}
	if (!stopping)
		put_concerns(&o, &s);
	json_out_end_object(&o);
	request_reply(r, serves ? 200 : 503, buf_str(o.buf));
}

void handle_description(struct request *r)
{
	request_reply(r, 200, buf_str(&r->api->description));
}
