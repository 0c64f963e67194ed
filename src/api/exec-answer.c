// SPDX-License-Identifier: Apache-2.0
#include "api/exec-answer.h"

#include "api/json-out.h"
#include "base/limits.h"
#include "base/mem.h"
#include "core/core.h"

/* One stream under its marker, stripped; nothing when it is blank. */
static int put_stream(struct answer *a, const char *marker, const struct answer_source *s,
		      struct err *err)
{
	struct answer_range range;

	if (answer_source_strip(s, &range, err) < 0)
		return -err->code;
	if (range.from == range.to)
		return 0;
	buf_put_text(&a->literals, marker);
	answer_text(a, s, range);
	buf_put_text(&a->literals, "\\n");
	return 0;
}

static void put_line(struct answer *a, const char *marker, const char *text)
{
	buf_put_text(&a->literals, marker);
	json_escape(&a->literals, str_of(text));
	buf_put_text(&a->literals, "\\n");
}

/* The inside of the string "output". */
static int put_text_form(struct answer *a, const struct exec_result *result, struct err *err)
{
	const struct runtime_exec_result *run = result->run;

	if (run->timed_out) {
		put_line(a, "[TIMEOUT]: ", result->n_warnings ? result->warnings[0] : "");
	} else {
		if (put_stream(a, "[STDOUT]:\\n", &a->sources[RUNTIME_STDOUT], err) < 0 ||
		    put_stream(a, "[STDERR]:\\n", &a->sources[RUNTIME_STDERR], err) < 0)
			return -err->code;
		for (size_t i = 0; i < result->n_warnings; i++)
			put_line(a, "[WARNING]: ", result->warnings[i]);
	}
	buf_printf(&a->literals, "[EXIT CODE]: %d", run->exit_code);
	return 0;
}

static void put_whole(struct answer *a, const char *key, enum runtime_stream stream, bool empty)
{
	const struct answer_source *s = &a->sources[stream];

	buf_printf(&a->literals, ",\"%s\":\"", key);
	if (!empty)
		answer_text(a, s, (struct answer_range){ 0, answer_source_size(s) });
	buf_put_char(&a->literals, '"');
}

static int put_partial(struct answer *a, const char *key, enum runtime_stream stream,
		       struct err *err)
{
	struct answer_range range;

	if (answer_source_tail(&a->sources[stream], LIMIT_PARTIAL_OUTPUT, &range, err) < 0)
		return -err->code;
	buf_printf(&a->literals, ",\"%s\":\"", key);
	answer_text(a, &a->sources[stream], range);
	buf_put_char(&a->literals, '"');
	return 0;
}

/* Sizes and times; negative: the runtime cannot tell. */
static void put_measured(struct json_out *o, const char *key, int64_t value)
{
	if (value < 0)
		json_out_null(o, key);
	else
		json_out_int(o, key, value);
}

static void put_denied(struct json_out *o, const struct runtime_exec_result *run)
{
	const char *host = run->denied;

	json_out_list(o, "egress_denied");
	for (size_t i = 0; i < run->n_denied; i++, host += strlen(host) + 1)
		json_out_text(o, NULL, host);
	json_out_end_list(o);
}

static void put_numbers(struct json_out *o, const struct exec_result *result)
{
	const struct runtime_exec_result *run = result->run;

	json_out_int(o, "exit_code", run->exit_code);
	json_out_bool(o, "timed_out", run->timed_out);
	json_out_bool(o, "oom_killed", run->oom_killed);
	json_out_bool(o, "pids_limit_hit", run->pids_limit_hit);
	json_out_list(o, "warnings");
	for (size_t i = 0; i < result->n_warnings; i++)
		json_out_text(o, NULL, result->warnings[i]);
	json_out_end_list(o);
	put_measured(o, "duration_ms", run->duration_us / 1000);
	put_measured(o, "cpu_ms", run->cpu_ms);
	put_measured(o, "peak_memory_bytes", run->peak_memory_bytes);
	if (result->egress)
		put_denied(o, run);
}

int exec_answer_make(struct answer *a, struct str command, struct exec_result *result, bool event,
		     struct err *err)
{
	struct json_out o = JSON_OUT(&a->literals);
	bool timed_out = result->run->timed_out;

	for (unsigned i = 0; i < 2; i++)
		answer_source_output(&a->sources[i], take_ptr(result->run->streams[i]));
	if (event)
		buf_put_text(&a->literals, "event: result\ndata: ");
	json_out_object(&o, NULL);
	json_out_str(&o, "command", command);
	buf_put_text(&a->literals, ",\"output\":\"");
	if (put_text_form(a, result, err) < 0)
		return -err->code;
	buf_put_char(&a->literals, '"');
	put_whole(a, "stdout", RUNTIME_STDOUT, timed_out);
	put_whole(a, "stderr", RUNTIME_STDERR, timed_out);
	if (timed_out && (put_partial(a, "partial_stdout", RUNTIME_STDOUT, err) < 0 ||
			  put_partial(a, "partial_stderr", RUNTIME_STDERR, err) < 0))
		return -err->code;
	put_numbers(&o, result);
	json_out_end_object(&o);
	if (event)
		buf_put_text(&a->literals, "\n\n");
	answer_literal(a);
	return 0;
}
