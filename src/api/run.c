// SPDX-License-Identifier: Apache-2.0
#include "api/handlers.h"

#include "api/exec-answer.h"
#include "api/request.h"
#include "api/send.h"
#include "base/log.h"

bool exec_limit(struct request *r)
{
	const struct tenant *t = r->tenant;

	if (t->commands_running < t->limits.max_concurrent_exec)
		return true;
	request_failf(r, "exec_limit",
		      "Too many commands running at once: %u allowed. Wait for one to finish.",
		      t->limits.max_concurrent_exec);
	return false;
}

static void break_off(struct request *r, const struct err *err)
{
	log_event(LOG_ERROR, "answer_broken", LOG_STR("request", http_exchange_id(r->x)),
		  LOG_STR("why", err->text));
	http_abort(r->x);
	request_free(r);
}

static void on_started(void *data)
{
	struct request *r = data;

	if (!r->events.open)
		events_start(r);
}

/* The first bytes may be here before init's word that the shell has started. */
static void on_output(void *data, enum runtime_stream stream, struct str bytes)
{
	on_started(data);
	events_output(data, stream, bytes);
}

static void on_done(void *data, struct exec_result *result, const struct err *err)
{
	struct request *r = data;
	struct err why;

	r->exec = NULL;
	if (!err) {
		answer_init(&r->answer);
		if (exec_answer_make(&r->answer, r->values[EXEC_COMMAND].text, result,
				     r->events.open, &why) < 0)
			err = &why;
	}
	if (err && r->events.open)
		break_off(r, err);
	else if (err)
		request_fail_err(r, err);
	else if (r->events.open)
		events_finish(r);
	else
		send_answer(r);
}

/* Reserved names and the bounds of the whole are the core's to refuse. */
static void take_env(struct request *r, struct exec_params *params)
{
	const json_t *map = r->values[EXEC_ENV].json;
	size_t n = json_object_size(map);
	const char *name;
	json_t *value;

	if (!n)
		return;
	struct str *names = arena_alloc(&r->arena, n * sizeof(*names));
	struct str *values = arena_alloc(&r->arena, n * sizeof(*values));
	json_object_foreach((json_t *)(uintptr_t)map, name, value)
	{
		names[params->n_env] = str_of(name);
		values[params->n_env++] =
			(struct str){ json_string_value(value), json_string_length(value) };
	}
	params->env_names = names;
	params->env_values = values;
}

void handle_exec(struct request *r)
{
	static const struct exec_ops plain = { .done = on_done };
	static const struct exec_ops live = { on_started, on_output, on_done };
	const struct value *v = r->values;
	struct exec_params params = { .command = v[EXEC_COMMAND].text,
				      .cwd = v[EXEC_CWD].text,
				      .stdin_data = v[EXEC_STDIN].text,
				      .timeout_s = (uint32_t)v[EXEC_TIMEOUT].number };
	struct err err;

	params.actor = request_actor(r);
	take_env(r, &params);
	r->events.wanted =
		events_accepted(http_head_find(http_exchange_head(r->x), "accept", NULL));
	if (exec_start(r->api->core, r->session, &params, r->events.wanted ? &live : &plain, r,
		       &r->exec, &err) < 0)
		request_fail_err(r, &err);
}
