// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/parts.h"
#include "core/rig.h"

#define MB (1ull << 20)

struct outcome {
	unsigned n;
	unsigned running_at_answer;
	char slug[64], text[1024];
	size_t n_warnings;
	char warnings[EXEC_WARNINGS_MAX][200];
	int exit_code;
	bool egress;
	size_t n_denied;
	char denied[64];
	struct session *s;
};

static void on_done(void *data, struct exec_result *result, const struct err *err)
{
	struct outcome *o = data;

	o->n++;
	o->running_at_answer = o->s->tenant->commands_running;
	snprintf(o->slug, sizeof(o->slug), "%s", err ? err->slug : "");
	snprintf(o->text, sizeof(o->text), "%s", err ? err->text : "");
	if (!result)
		return;
	o->exit_code = result->run->exit_code;
	o->egress = result->egress;
	o->n_denied = result->run->n_denied;
	if (result->run->denied)
		memcpy(o->denied, result->run->denied, sizeof(o->denied));
	o->n_warnings = result->n_warnings;
	memcpy(o->warnings, result->warnings, sizeof(o->warnings));
}

static const struct exec_ops ops = { .done = on_done };

static int start(struct rig *r, struct session *s, struct outcome *o, struct exec **ret,
		 struct err *err)
{
	const struct exec_params p = { .command = STR("true"),
				       .timeout_s = 15,
				       .actor = "static key" };

	o->s = s;
	return exec_start(r->core, s, &p, &ops, o, ret, err);
}

static struct outcome run(struct rig *r, struct session *s, const struct exec_params *p)
{
	struct outcome o = { .s = s };
	struct exec *e;
	struct err err;

	if (exec_start(r->core, s, p, &ops, &o, &e, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(o.n, 0);
	rig_settle(r);
	assert_int_equal(o.n, 1);
	assert_int_equal(o.running_at_answer, 0);
	return o;
}

static struct outcome run_true(struct rig *r, struct session *s)
{
	const struct exec_params p = { .command = STR("true"),
				       .timeout_s = 15,
				       .actor = "static key" };

	return run(r, s, &p);
}

static void the_environment_is_the_contracts_and_nothing_else(void **state)
{
	static const char *const want[] = {
		"HOME=/tmp",
		"PYTHONUSERBASE=/workspace/.local",
		"PATH=/workspace/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/"
		"sbin:"
		"/bin",
		"PIP_USER=1",
		"PIP_NO_CACHE_DIR=1",
		"PIP_DISABLE_PIP_VERSION_CHECK=1",
		"PIP_BREAK_SYSTEM_PACKAGES=1",
		"LANG=C.UTF-8",
		"USER=sandbox",
		"LOGNAME=sandbox",
		"SHELL=/bin/bash",
		"PWD=/workspace",
		"A=1=2",
		"B=",
	};
	const struct str names[] = { STR("A"), STR("B") };
	const struct str values[] = { STR("1=2"), STR("") };
	const struct exec_params p = { .command = STR("true"),
				       .cwd = STR("x/y"),
				       .env_names = names,
				       .env_values = values,
				       .n_env = 2,
				       .timeout_s = 1,
				       .actor = "static key" };
	struct rig *r = *state;

	run(r, rig_session(r, r->a), &p);
	assert_int_equal(r->runtime.n_env, ARRAY_SIZE(want));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		assert_string_equal(r->runtime.env[i], want[i]);
	assert_string_equal(r->runtime.cwd, "x/y");
}

static void egress_adds_the_proxy_and_tells_what_was_refused(void **state)
{
	static const char *const want[] = {
		"HTTPS_PROXY=http://127.0.0.1:3128",	  "https_proxy=http://127.0.0.1:3128",
		"HTTP_PROXY=http://127.0.0.1:3128",	  "http_proxy=http://127.0.0.1:3128",
		"NO_PROXY=localhost,127.0.0.1,[::1],::1", "no_proxy=localhost,127.0.0.1,[::1],::1",
	};
	_cleanup_egress_list_ struct egress_list rules = EGRESS_LIST;
	const struct core_egress policy = { NULL, &rules };
	const struct str egress[] = { STR("pypi") };
	struct rig *r = *state;

	egress_list_add(&rules, STR("pypi"));
	core_set_egress(r->core, &policy, 1);
	memcpy(r->runtime.denied, "b.org\0a.org", 12);
	r->runtime.n_denied = 2;
	struct outcome o = run_true(r, rig_session_egress(r, r->a, egress, 1));
	assert_true(o.egress && r->runtime.with_egress);
	assert_int_equal(o.n_denied, 2);
	assert_memory_equal(o.denied, "b.org\0a.org", 12);
	assert_int_equal(r->runtime.n_env, 12 + ARRAY_SIZE(want));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		assert_string_equal(r->runtime.env[12 + i], want[i]);

	o = run_true(r, rig_session(r, r->a));
	assert_false(o.egress || r->runtime.with_egress);
	assert_int_equal(r->runtime.n_env, 12);
}

static void reserved_names_and_too_many_are_refused(void **state)
{
	static const char *const reserved[] = { "HOME",		 "PATH",       "PWD",
						"IFS",		 "LD_PRELOAD", "ld_preload",
						"Pip_Index_Url", "LC_ALL",     "ENV",
						"PS4",		 "TERM",       "https_proxy",
						"HTTP_PROXY",	 "_PROXY",     "BASH_FUNC_x" };
	static const char *const fine[] = { "home", "MYPATH", "PROXY", "LD", "PROXY_X", "_" };
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct str names[33], values[33];
	struct exec_params p = { .command = STR("true"),
				 .env_names = names,
				 .env_values = values,
				 .n_env = 1,
				 .timeout_s = 1,
				 .actor = "static key" };
	struct outcome o = { .s = s };
	struct exec *e;
	struct err err;

	values[0] = STR("x");
	for (size_t i = 0; i < ARRAY_SIZE(reserved); i++) {
		char text[100];
		names[0] = str_of(reserved[i]);
		snprintf(text, sizeof(text), "'%s' can't be set in env.", reserved[i]);
		assert_true(exec_start(r->core, s, &p, &ops, &o, &e, &err) < 0);
		assert_string_equal(err.slug, "secret_name_reserved");
		assert_string_equal(err.text, text);
	}
	for (size_t i = 0; i < ARRAY_SIZE(fine); i++) {
		names[0] = str_of(fine[i]);
		run(r, s, &p);
	}
	for (size_t i = 0; i < 33; i++) {
		names[i] = STR("A");
		values[i] = STR("x");
	}
	p.n_env = 33;
	assert_true(exec_start(r->core, s, &p, &ops, &o, &e, &err) < 0);
	assert_string_equal(err.slug, "too_many_secrets");
	assert_string_equal(err.text, "Too many variables in env: at most 32, 64 KB together.");
	assert_int_equal(r->a->commands_running, 0);
}

static void the_command_slot_is_given_back_on_every_path(void **state)
{
	static const char *const fails[] = { NULL, "no_capacity", "internal" };
	const struct tenant_limits limits = { 10, 120, 1, 3, 20, 10240, 5 };
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a), *other = rig_session(r, r->b);
	struct err err;
	struct exec *e;

	core_set_limits(r->core, STR("a"), &limits);
	for (size_t i = 0; i < ARRAY_SIZE(fails); i++) {
		struct outcome first = { 0 }, second = { 0 }, third = { 0 };
		r->runtime.hold[RIG_EXEC] = true;
		r->runtime.fail[RIG_EXEC] = fails[i];
		assert_int_equal(start(r, s, &first, &e, &err), 0);
		assert_int_equal(r->a->commands_running, 1);
		assert_true(start(r, s, &second, &e, &err) < 0);
		assert_string_equal(err.slug, "exec_limit");
		assert_string_equal(err.text, "Too many commands running at once: 1 allowed. Wait "
					      "for one to finish.");
		assert_int_equal(start(r, other, &third, &e, &err), 0);
		rig_answer(r);
		assert_int_equal(first.n, 1);
		assert_int_equal(first.running_at_answer, 0);
		assert_int_equal(r->a->commands_running, 0);
		assert_int_equal(s->running, 0);
	}
}

static void what_the_runtime_says_becomes_the_contracts_words(void **state)
{
	static const struct {
		const char *from, *slug, *text;
	} cases[] = {
		{ "no_capacity", "no_capacity",
		  "All sandbox workspaces are in use; try again shortly." },
		{ "busy", "busy", "The server is busy; try again shortly." },
		{ "file_not_found", "file_not_found", "Folder 'x' does not exist." },
		{ "path_outside", "path_outside",
		  "Access denied: symlink/path traversal outside workspace for 'x'" },
		{ "not_folder", "not_folder", "'x' is not a folder." },
		{ "permission_denied", "permission_denied", "Permission denied for 'x'." },
		{ "internal", "internal", "Internal Server Error" },
	};
	const struct exec_params p = {
		.command = STR("true"), .cwd = STR("x"), .timeout_s = 1, .actor = "static key"
	};
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		r->runtime.fail[RIG_EXEC] = cases[i].from;
		struct outcome o = run(r, s, &p);
		assert_string_equal(o.slug, cases[i].slug);
		assert_string_equal(o.text, cases[i].text);
	}
	struct usage_month month;
	usage_get(r->core, r->a, &month);
	assert_int_equal(month.commands, 0);
}

static void warnings_come_in_order_each_only_when_true(void **state)
{
	static const struct {
		struct runtime_exec_result result;
		uint64_t dropped[2], used;
		const char *warnings[EXEC_WARNINGS_MAX];
	} cases[] = {
		{ { .exit_code = 0 } },
		{ { .exit_code = 3 } },
		{ { .exit_code = 137, .oom_killed = true },
		  .warnings = { "Process killed by cgroups (Memory limit exceeded)." } },
		{ { .exit_code = 137 },
		  .warnings = { "Process was killed (exit 137, SIGKILL), most likely for exceeding "
				"the memory limit." } },
		{ { .exit_code = -1, .timed_out = true },
		  { 5, 0 },
		  .used = 600 * MB,
		  .warnings = { "Execution exceeded 15s limit." } },
		{ { .exit_code = 0, .cpu_ms = 1000000 }, .used = 512 * MB, .warnings = { NULL } },
		{ { .exit_code = 0, .cpu_ms = 1000000 },
		  .used = 513 * MB + MB / 2,
		  .warnings = { "Workspace uses 513.5 MB, over its 512 MB disk quota. Delete files "
				"before writing more." } },
		{ { .exit_code = 0 },
		  { 100, 23 },
		  .warnings = { "Output exceeded 16 MB; 123 bytes were dropped." } },
		{ { .exit_code = 137, .oom_killed = true, .cpu_ms = 1000000 },
		  { 1, 0 },
		  .used = 600 * MB,
		  .warnings = { "Process killed by cgroups (Memory limit exceeded).",
				"Workspace uses 600.0 MB, over its 512 MB disk quota. Delete files "
				"before writing more.",
				"Output exceeded 16 MB; 1 bytes were dropped." } },
	};
	struct rig *r = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct session *s = rig_session(r, r->a);
		r->runtime.result = cases[i].result;
		memcpy(r->runtime.dropped, cases[i].dropped, sizeof(r->runtime.dropped));
		r->runtime.used = cases[i].used;
		struct outcome o = run_true(r, s);
		size_t n = 0;
		while (n < EXEC_WARNINGS_MAX && cases[i].warnings[n])
			n++;
		assert_int_equal(o.n_warnings, n);
		for (size_t k = 0; k < n; k++)
			assert_string_equal(o.warnings[k], cases[i].warnings[k]);
		session_delete(r->core, s, NULL, NULL);
		rig_settle(r);
	}
}

static void a_tree_of_nearly_too_many_files_is_walked_every_time(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	r->runtime.result.cpu_ms = 200;
	r->runtime.number = 899999;
	run_true(r, s);
	r->runtime.result.cpu_ms = 1;
	run_true(r, s);
	assert_int_equal(r->runtime.calls[RIG_USAGE], 1);
	r->runtime.result.cpu_ms = 200;
	r->runtime.number = 900000;
	run_true(r, s);
	r->runtime.result.cpu_ms = 1;
	run_true(r, s);
	assert_int_equal(r->runtime.calls[RIG_USAGE], 3);
	r->runtime.number = 899999;
	run_true(r, s);
	run_true(r, s);
	assert_int_equal(r->runtime.calls[RIG_USAGE], 4);
}

static void the_tree_is_walked_only_when_it_could_be_over(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	r->runtime.result.cpu_ms = 12;
	for (unsigned i = 0; i < 5; i++)
		run_true(r, s);
	assert_int_equal(r->runtime.calls[RIG_USAGE], 0);
	assert_int_equal(r->runtime.calls[RIG_STAT], 0);
	/* So much CPU time could have filled it: one walk, and after it the bound is exact again. */
	r->runtime.result.cpu_ms = 200;
	run_true(r, s);
	assert_int_equal(r->runtime.calls[RIG_USAGE], 1);
	r->runtime.result.cpu_ms = 12;
	run_true(r, s);
	assert_int_equal(r->runtime.calls[RIG_USAGE], 1);
	/* Over its quota it is walked every time, until it is not over any more. */
	r->runtime.used = 513 * MB;
	r->runtime.result.cpu_ms = 200;
	assert_int_equal(run_true(r, s).n_warnings, 1);
	r->runtime.result.cpu_ms = 1;
	assert_int_equal(run_true(r, s).n_warnings, 1);
	r->runtime.used = 100 * MB;
	assert_int_equal(run_true(r, s).n_warnings, 0);
	assert_int_equal(r->runtime.calls[RIG_USAGE], 4);
	run_true(r, s);
	assert_int_equal(r->runtime.calls[RIG_USAGE], 4);
	assert_int_equal(r->runtime.calls[RIG_STAT], 0);
}

static void low_peak_memory_says_that_little_was_written(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	r->runtime.result.cpu_ms = 1000;
	r->runtime.result.peak_memory_bytes = 100 * MB;
	for (unsigned i = 0; i < 5; i++)
		run_true(r, s);
	assert_int_equal(r->runtime.calls[RIG_USAGE], 0);
	run_true(r, s);
	assert_int_equal(r->runtime.calls[RIG_USAGE], 1);
	/* Near the limit it says nothing. */
	r->runtime.result.peak_memory_bytes = 200 * MB;
	run_true(r, s);
	assert_int_equal(r->runtime.calls[RIG_USAGE], 2);
}

static void a_walk_that_fails_costs_the_warning_and_nothing_else(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	r->runtime.result.cpu_ms = 1000;
	r->runtime.used = 600 * MB;
	r->runtime.fail[RIG_USAGE] = "busy";
	struct outcome o = run_true(r, s);
	assert_string_equal(o.slug, "");
	assert_int_equal(o.n_warnings, 0);
}

static void begin_over_quota(struct rig *r, struct session *s, struct outcome *o)
{
	struct exec *e;
	struct err err;

	*o = (struct outcome){ 0 };
	r->runtime.result.cpu_ms = 1000;
	r->runtime.used = 600 * MB;
	assert_int_equal(start(r, s, o, &e, &err), 0);
	rig_settle(r);
	assert_int_equal(o->n, 0);
}

static void a_walk_that_never_ends_costs_the_warning_and_nothing_else(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o;

	r->runtime.hold[RIG_USAGE] = true;
	begin_over_quota(r, s, &o);
	assert_int_equal(r->runtime.calls[RIG_USAGE], 1);
	assert_int_equal(r->runtime.queue_ms, 5000);
	/* 15 s for the command, 20 s besides, 2 s before that. */
	rig_advance(r, 33 * RIG_SECOND - 1);
	execs_expire(r->core, clock_monotonic_us());
	rig_settle(r);
	assert_int_equal(o.n, 0);
	rig_advance(r, 1);
	execs_expire(r->core, clock_monotonic_us());
	rig_settle(r);
	assert_int_equal(o.n, 1);
	assert_string_equal(o.slug, "");
	assert_int_equal(o.n_warnings, 0);
	rig_answer(r);
	assert_int_equal(o.n, 1);
	/* It has told nothing. */
	assert_int_equal(run_true(r, s).n_warnings, 1);
}

static void a_walk_waits_no_longer_than_there_is_time(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o;

	r->runtime.hold[RIG_EXEC] = r->runtime.hold[RIG_USAGE] = true;
	begin_over_quota(r, s, &o);
	rig_advance(r, 32 * RIG_SECOND);
	r->runtime.hold[RIG_EXEC] = false;
	rig_runtime_go(&r->runtime);
	rig_settle(r);
	assert_int_equal(r->runtime.queue_ms, 1000);
	rig_answer(r);
	assert_int_equal(o.n_warnings, 1);

	r->runtime.hold[RIG_EXEC] = true;
	begin_over_quota(r, s, &o);
	rig_advance(r, 33 * RIG_SECOND);
	rig_answer(r);
	assert_int_equal(o.n, 1);
	assert_int_equal(o.n_warnings, 0);
	assert_int_equal(r->runtime.calls[RIG_USAGE], 1);
}

static void run_with(struct rig *r, struct session *s, struct runtime_exec_result result)
{
	r->runtime.result = result;
	run_true(r, s);
}

static void commands_are_counted_by_how_they_ended(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	const struct exec_counts *counts = exec_counts_get(r->core);
	struct outcome o = { 0 };
	struct exec *e;
	struct err err;

	run_with(r, s, (struct runtime_exec_result){ .exit_code = 3, .duration_us = 4000 });
	run_with(r, s, (struct runtime_exec_result){ .exit_code = -1, .timed_out = true });
	run_with(r, s, (struct runtime_exec_result){ .exit_code = 137, .oom_killed = true });
	r->runtime.fail[RIG_EXEC] = "busy";
	assert_int_equal(start(r, s, &o, &e, &err), 0);
	rig_settle(r);
	r->runtime.fail[RIG_EXEC] = NULL;
	static const uint64_t want[EXEC_OUTCOMES] = { 1, 1, 1, 1 };
	assert_memory_equal(counts->outcomes, want, sizeof(want));
	/* The one that did not run took no time, but cost some. */
	assert_int_equal(counts->seconds.sum_us, 4000);
	uint64_t ran = 0, cost = 0;
	for (size_t i = 0; i <= METRICS_BUCKETS_MAX; i++) {
		ran += counts->seconds.counts[i];
		cost += counts->overhead.counts[i];
	}
	assert_int_equal(ran, 3);
	assert_int_equal(cost, 4);
	/* What is counted as cost is what is not the command's. */
	uint64_t before = counts->overhead.sum_us;
	r->runtime.result = (struct runtime_exec_result){ .duration_us = 30000 };
	r->runtime.hold[RIG_EXEC] = true;
	assert_int_equal(start(r, s, &o, &e, &err), 0);
	exec_detach(e);
	rig_advance(r, 70000);
	rig_answer(r);
	assert_int_equal(counts->overhead.sum_us - before, 40000);
	assert_int_equal(counts->outcomes[EXEC_OUTCOME_OK], 2);
}

static void usage_counts_every_command_that_ran(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct usage_month month;

	r->runtime.result.duration_us = 1250000;
	run_true(r, s);
	run_true(r, s);
	usage_get(r->core, r->a, &month);
	assert_string_equal(month.period, "2001-09");
	assert_int_equal(month.sessions, 1);
	assert_int_equal(month.commands, 2);
	assert_int_equal(month.command_ms, 2500);
	usage_get(r->core, r->b, &month);
	assert_int_equal(month.commands, 0);
	rig_close(r);
	rig_open(r);
	usage_get(r->core, r->a, &month);
	assert_int_equal(month.commands, 2);
	s = session_next(r->core, r->a, NULL);
	run_true(r, s);
	/* A month later the counters start again. */
	rig_advance(r, 31 * 86400 * RIG_SECOND);
	usage_get(r->core, r->a, &month);
	assert_string_equal(month.period, "2001-10");
	assert_int_equal(month.commands, 0);
	run_true(r, s);
	usage_get(r->core, r->a, &month);
	assert_int_equal(month.commands, 1);
	assert_int_equal(month.command_ms, 1250);
}

static void a_running_command_keeps_its_session_alive(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o = { 0 };
	struct exec *e;
	struct err err;

	r->runtime.hold[RIG_EXEC] = true;
	assert_int_equal(start(r, s, &o, &e, &err), 0);
	rig_advance(r, 3600 * RIG_SECOND);
	core_sweep(r->core, clock_monotonic_us());
	assert_ptr_equal(session_find(r->core, str_of(s->id)), s);
	rig_answer(r);
	/* Its end restarts the idle clock. */
	assert_int_equal(s->accessed_us, RIG_START_US + 3600 * RIG_SECOND);
	rig_advance(r, 1799 * RIG_SECOND);
	core_sweep(r->core, clock_monotonic_us());
	assert_ptr_equal(session_next(r->core, r->a, NULL), s);
	rig_advance(r, 1 * RIG_SECOND);
	core_sweep(r->core, clock_monotonic_us());
	assert_null(session_next(r->core, r->a, NULL));
}

static void a_client_that_hangs_up_hears_nothing_and_the_command_is_accounted(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o = { 0 };
	struct usage_month month;
	struct exec *e;
	struct err err;

	r->runtime.hold[RIG_EXEC] = true;
	assert_int_equal(start(r, s, &o, &e, &err), 0);
	exec_detach(e);
	rig_answer(r);
	assert_int_equal(o.n, 0);
	assert_int_equal(r->a->commands_running, 0);
	usage_get(r->core, r->a, &month);
	assert_int_equal(month.commands, 1);
}

static void deleting_a_session_ends_its_commands(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o = { 0 };
	struct exec *e;
	struct err err;

	r->runtime.hold[RIG_EXEC] = true;
	assert_int_equal(start(r, s, &o, &e, &err), 0);
	session_delete(r->core, s, NULL, NULL);
	rig_settle(r);
	assert_int_equal(o.n, 1);
	assert_int_equal(o.exit_code, 137);
	assert_int_equal(r->a->sessions_open, 0);
	assert_int_equal(r->a->commands_running, 0);
}

static void closing_ends_what_runs(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o = { 0 };
	struct exec *e;
	struct err err;

	r->runtime.hold[RIG_EXEC] = true;
	assert_int_equal(start(r, s, &o, &e, &err), 0);
	exec_detach(e);
	uv_timer_start(&r->runtime.timer, r->runtime.timer.timer_cb, 0, 0);
	rig_close(r);
	assert_int_equal(o.n, 0);
	rig_open(r);
}

static void a_stop_waits_for_what_is_under_way(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o = { 0 };
	struct core_work work;
	struct exec *e;
	struct err err;

	core_work_get(r->core, &work);
	assert_false(work.any);
	r->runtime.hold[RIG_EXEC] = true;
	assert_int_equal(start(r, s, &o, &e, &err), 0);
	exec_detach(e);
	core_stop(r->core);
	core_work_get(r->core, &work);
	assert_int_equal(work.commands, 1);
	assert_true(work.any);
	/* What began goes on, and nothing else begins. */
	assert_true(start(r, s, &o, &e, &err) < 0);
	assert_string_equal(err.slug, "stopping");
	rig_answer(r);
	core_work_get(r->core, &work);
	assert_int_equal(work.commands, 0);
	assert_false(work.any);
}

static void a_stop_ends_what_runs_and_says_so(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome ran = { 0 }, waited = { 0 };
	struct exec *e;
	struct err err;

	r->runtime.hold[RIG_EXEC] = true;
	assert_int_equal(start(r, s, &ran, &e, &err), 0);
	rig_start_commands(r);
	assert_int_equal(start(r, s, &waited, &e, &err), 0);
	core_stop(r->core);
	core_end_work(r->core);
	rig_answer(r);
	assert_int_equal(ran.exit_code, 137);
	assert_int_equal(ran.n_warnings, 1);
	assert_string_equal(ran.warnings[0],
			    "The server was stopped before the command had ended.");
	/* Of the one that had not begun it can be promised that nothing happened. */
	assert_int_equal(waited.n, 1);
	assert_string_equal(waited.slug, "stopping");
	assert_int_equal(exec_counts_get(r->core)->outcomes[EXEC_OUTCOME_FAILED], 2);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(the_environment_is_the_contracts_and_nothing_else),
		T(egress_adds_the_proxy_and_tells_what_was_refused),
		T(reserved_names_and_too_many_are_refused),
		T(the_command_slot_is_given_back_on_every_path),
		T(what_the_runtime_says_becomes_the_contracts_words),
		T(warnings_come_in_order_each_only_when_true),
		T(the_tree_is_walked_only_when_it_could_be_over),
		T(a_tree_of_nearly_too_many_files_is_walked_every_time),
		T(low_peak_memory_says_that_little_was_written),
		T(a_walk_that_fails_costs_the_warning_and_nothing_else),
		T(a_walk_that_never_ends_costs_the_warning_and_nothing_else),
		T(a_walk_waits_no_longer_than_there_is_time),
		T(commands_are_counted_by_how_they_ended),
		T(usage_counts_every_command_that_ran),
		T(a_running_command_keeps_its_session_alive),
		T(a_client_that_hangs_up_hears_nothing_and_the_command_is_accounted),
		T(deleting_a_session_ends_its_commands),
		T(closing_ends_what_runs),
		T(a_stop_waits_for_what_is_under_way),
		T(a_stop_ends_what_runs_and_says_so),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
