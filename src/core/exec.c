// SPDX-License-Identifier: Apache-2.0
/*
 * One command: take the tenant's slot, run, give the slot back, look at the disk, answer.
 *
 * [RECORDING, when the audit log is strict] -> RUNNING --runtime done--> MEASURING (only when the
 * quota could be exceeded), while the record goes to the disk --> answered. MEASURING ends in time
 * for the answer (the contract, section 0.6); then there is no warning about the disk.
 * The slot, the session's "running" and the usage are settled when the runtime is done, whether
 * anybody still listens or not.
 */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/audit.h"
#include "core/disk.h"
#include "core/files.h"
#include "core/parts.h"
#include "core/refusal.h"

#define ENV_MAX 64u
/* From the request to the answer, beside the time-out; and of it, what the tick and the way back
 * may take. */
#define ANSWER_US (20 * 1000000ll)
#define WAY_BACK_US (2 * 1000000ll)
/* What it waits for its turn in the workspace before it does without the warning. */
#define WALK_QUEUE_MS 5000

/* The whole environment of a command, section 6 of the contract; with egress also the next. */
static const char *const base_environment[] = {
	"HOME=/tmp",
	"PYTHONUSERBASE=/workspace/.local",
	"PATH=/workspace/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"PIP_USER=1",
	"PIP_NO_CACHE_DIR=1",
	"PIP_DISABLE_PIP_VERSION_CHECK=1",
	"PIP_BREAK_SYSTEM_PACKAGES=1",
	"LANG=C.UTF-8",
	"USER=sandbox",
	"LOGNAME=sandbox",
	"SHELL=/bin/bash",
	"PWD=/workspace",
};

/* The same names for every client's idea of them. A program must still reach its own server. */
static const char *const egress_environment[] = {
	"HTTPS_PROXY=http://127.0.0.1:3128",	  "https_proxy=http://127.0.0.1:3128",
	"HTTP_PROXY=http://127.0.0.1:3128",	  "http_proxy=http://127.0.0.1:3128",
	"NO_PROXY=localhost,127.0.0.1,[::1],::1", "no_proxy=localhost,127.0.0.1,[::1],::1",
};

/* Names that a caller may not set: they steer the shell, the loader, pip or the way out. */
static const char *const reserved_names[] = {
	"HOME",	   "PATH", "PWD",  "OLDPWD",	     "SHELL",	      "USER",
	"LOGNAME", "IFS",  "ENV",  "BASH_ENV",	     "SHELLOPTS",     "BASHOPTS",
	"PS4",	   "TERM", "LANG", "PYTHONUSERBASE", "PYTHONSTARTUP", "PROMPT_COMMAND",
};

/* In any letter case. */
static const char *const reserved_prefixes[] = { "LC_", "LD_", "PIP_", "BASH_FUNC_" };
static const char reserved_suffix[] = "_PROXY";

#define KILLED 137 /* by SIGKILL, as a shell would say */

static const char cut_off[] = "failed: the server was stopped while it ran";

struct exec {
	struct core *c;
	struct session *s; /* referenced */
	struct origin origin;
	struct exec_ops ops;
	void *data;
	bool detached, killed;
	bool started;
	bool stopped;	  /* it was ended because the server stops */
	int64_t since_us; /* monotonic */
	uint32_t timeout_s;
	char *cwd;			   /* owned; for the texts of errors */
	struct runtime_exec *run;	   /* NULL: done, or not started yet */
	struct held *held;		   /* owned; what will run, while its record is written */
	struct audit *audit;		   /* NULL: none, or it has been ended */
	bool recording;			   /* the end is on its way to the disk */
	bool answers;			   /* as soon as it is there */
	struct runtime_file *walk;	   /* MEASURING */
	struct err *err;		   /* owned; what to answer then, NULL: the result */
	struct runtime_exec_result result; /* streams owned */
	uint64_t pending_at_walk;
	bool over_quota;
	uint64_t used;
	struct exec *prev, *next; /* of the core, while it runs or is measured */
};

/* ---- What is asked for ---- */

static bool is_reserved(struct str name)
{
	size_t suffix = sizeof(reserved_suffix) - 1;

	for (size_t i = 0; i < ARRAY_SIZE(reserved_names); i++) {
		if (str_eq(name, str_of(reserved_names[i])))
			return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(reserved_prefixes); i++) {
		struct str prefix = str_of(reserved_prefixes[i]);
		if (name.len >= prefix.len &&
		    str_eq_nocase((struct str){ name.data, prefix.len }, prefix))
			return true;
	}
	return name.len >= suffix &&
	       str_eq_nocase(str_from(name, name.len - suffix), str_of(reserved_suffix));
}

static int check_env(const struct exec_params *p, struct err *err)
{
	size_t total = 0;

	for (size_t i = 0; i < p->n_env; i++) {
		if (is_reserved(p->env_names[i]))
			return err_slug(err, EINVAL, "secret_name_reserved",
					"'%.*s' can't be set in env.", (int)p->env_names[i].len,
					p->env_names[i].data);
		total += p->env_values[i].len;
	}
	if (p->n_env > LIMIT_ENV_VARS || total > LIMIT_ENV_TOTAL)
		return err_slug(err, E2BIG, "too_many_secrets",
				"Too many variables in env: at most 32, 64 KB together.");
	return 0;
}

struct environment {
	const char *strings[ENV_MAX];
	size_t n;
	char *owned[LIMIT_ENV_VARS]; /* the last of them */
	size_t n_owned;
};

static void environment_fini(struct environment *env)
{
	for (size_t i = 0; i < env->n_owned; i++)
		free(env->owned[i]);
}

static void environment_fill(struct environment *env, const struct session *s,
			     const struct exec_params *p)
{
	_Static_assert(ARRAY_SIZE(base_environment) + ARRAY_SIZE(egress_environment) +
				       LIMIT_ENV_VARS <=
			       ENV_MAX,
		       "the environment fits");

	for (; env->n < ARRAY_SIZE(base_environment); env->n++)
		env->strings[env->n] = base_environment[env->n];
	for (size_t i = 0; s->egress.n && i < ARRAY_SIZE(egress_environment); i++)
		env->strings[env->n++] = egress_environment[i];
	for (size_t i = 0; i < p->n_env; i++) {
		const struct str *name = &p->env_names[i], *value = &p->env_values[i];
		char *text = mem_new(name->len + value->len + 2, 1);
		memcpy(text, name->data, name->len);
		text[name->len] = '=';
		if (value->len)
			memcpy(text + name->len + 1, value->data, value->len);
		env->owned[env->n_owned++] = text;
		env->strings[env->n++] = text;
	}
}

/* ---- What is said ---- */

static void warn(struct exec_result *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void warn(struct exec_result *r, const char *fmt, ...)
{
	va_list ap;

	assert(r->n_warnings < EXEC_WARNINGS_MAX);
	va_start(ap, fmt);
	vsnprintf(r->warnings[r->n_warnings++], sizeof(r->warnings[0]), fmt, ap);
	va_end(ap);
}

static uint64_t dropped(const struct runtime_exec_result *run)
{
	uint64_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(run->streams); i++)
		n += run->streams[i] ? runtime_output_dropped(run->streams[i]) : 0;
	return n;
}

static void put_warnings(const struct exec *e, struct exec_result *r)
{
	const struct runtime_exec_result *run = &e->result;
	uint64_t n = dropped(run);

	if (run->timed_out) {
		warn(r, "Execution exceeded %us limit.", e->timeout_s);
		return;
	}
	if (e->stopped)
		warn(r, "The server was stopped before the command had ended.");
	else if (run->oom_killed)
		warn(r, "Process killed by cgroups (Memory limit exceeded).");
	else if (run->exit_code == KILLED)
		warn(r, "Process was killed (exit 137, SIGKILL), most likely for exceeding the "
			"memory limit.");
	if (e->over_quota)
		warn(r,
		     "Workspace uses %.1f MB, over its %llu MB disk quota. Delete files before "
		     "writing more.",
		     (double)e->used / MIB, (unsigned long long)(e->s->quota_bytes / MIB));
	if (n)
		warn(r, "Output exceeded %zu MB; %llu bytes were dropped.",
		     e->c->config.output_max / MIB, (unsigned long long)n);
}

/* ---- What waits for its record ---- */

/* A specification of its own. */
struct held {
	struct runtime_exec_spec spec;
	char *command, *cwd, *stdin_data; /* owned */
	char **env;			  /* owned, with its strings */
	bool streams;
};

static struct held *hold(const struct runtime_exec_spec *spec, bool streams)
{
	struct held *h = mem_new(1, sizeof(*h));

	h->spec = *spec;
	h->streams = streams;
	h->command = mem_dup_n(spec->command.data, spec->command.len);
	h->spec.command.data = h->command;
	h->cwd = mem_dup_n(spec->cwd.data, spec->cwd.len);
	h->spec.cwd.data = h->cwd;
	if (spec->stdin_data.data) {
		h->stdin_data = mem_dup_n(spec->stdin_data.data, spec->stdin_data.len);
		h->spec.stdin_data.data = h->stdin_data;
	}
	h->env = mem_new(spec->n_env + 1, sizeof(*h->env));
	for (size_t i = 0; i < spec->n_env; i++)
		h->env[i] = mem_dup(spec->env[i]);
	h->spec.env = (const char *const *)h->env;
	return h;
}

static void held_free(struct held *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < h->spec.n_env; i++)
		free(h->env[i]);
	free(h->env);
	free(h->command);
	free(h->cwd);
	free(h->stdin_data);
	free(h);
}

/* ---- The end ---- */

static void exec_free(struct exec *e)
{
	struct core *c = e->c;

	for (size_t i = 0; i < ARRAY_SIZE(e->result.streams); i++)
		runtime_output_free(e->result.streams[i]);
	free(e->result.denied);
	session_unref(e->s);
	held_free(e->held);
	free(e->err);
	free(e->cwd);
	free(e);
	core_release(c);
}

/* From a shell that says one word to the longest time-out, 60 s; 15 s is the default. */
static const uint32_t seconds_us[] = { 2500,	 5000,	   10000,    25000,   50000,   100000,
				       250000,	 500000,   1000000,  2500000, 5000000, 10000000,
				       15000000, 30000000, 60000000, 0 };
/* A command with a ready sandbox costs some milliseconds; without one about as many again; then
 * comes the waiting of a crowd, 20 s at most. */
static const uint32_t overhead_us[] = { 1000,	 2000,	  3000,	    4000,     6000,
					10000,	 20000,	  50000,    100000,   250000,
					1000000, 5000000, 10000000, 20000000, 0 };

void exec_counts_init(struct core *c)
{
	c->exec_counts.seconds.bounds_us = seconds_us;
	c->exec_counts.overhead.bounds_us = overhead_us;
}

const struct exec_counts *exec_counts_get(const struct core *c)
{
	return &c->exec_counts;
}

static enum exec_outcome outcome_of(const struct exec *e)
{
	if (e->result.timed_out)
		return EXEC_OUTCOME_TIMEOUT;
	if (e->result.oom_killed)
		return EXEC_OUTCOME_OOM;
	return e->err || e->killed ? EXEC_OUTCOME_FAILED : EXEC_OUTCOME_OK;
}

static void count(const struct exec *e)
{
	struct exec_counts *counts = &e->c->exec_counts;
	int64_t whole_us = clock_monotonic_us() - e->since_us;

	counts->outcomes[outcome_of(e)]++;
	metrics_observe(&counts->overhead, whole_us - e->result.duration_us);
	if (!e->err)
		metrics_observe(&counts->seconds, e->result.duration_us);
}

static void tell(struct exec *e)
{
	struct exec_result result = { .run = &e->result,
				      .timeout_s = e->timeout_s,
				      .egress = e->s->egress.n > 0 };

	count(e);
	if (!e->detached && e->err) {
		e->ops.done(e->data, NULL, e->err);
	} else if (!e->detached) {
		put_warnings(e, &result);
		e->ops.done(e->data, &result, NULL);
	}
	exec_free(e);
}

static void answer(struct exec *e, const struct err *err)
{
	if (err) {
		e->err = mem_new(1, sizeof(*e->err));
		*e->err = *err;
	}
	e->answers = true;
	if (!e->recording)
		tell(e);
}

static void on_recorded(void *data)
{
	struct exec *e = data;

	e->recording = false;
	if (e->answers)
		tell(e);
}

/* Before the answer, and beside whatever is still to be found out for it. */
static void record(struct exec *e, const struct audit_outcome *outcome)
{
	if (!e->audit)
		return;
	e->recording = true;
	audit_end(take_ptr(e->audit), outcome, on_recorded, e);
}

/* ---- The disk ---- */

static void list_put(struct exec **first, struct exec *e)
{
	e->prev = NULL;
	e->next = *first;
	if (e->next)
		e->next->prev = e;
	*first = e;
}

static void list_take(struct exec **first, struct exec *e)
{
	*(e->prev ? &e->prev->next : first) = e->next;
	if (e->next)
		e->next->prev = e->prev;
}

static int64_t measured_until_us(const struct exec *e)
{
	return e->since_us + e->timeout_s * 1000000ll + ANSWER_US - WAY_BACK_US;
}

static void end_measuring(struct exec *e)
{
	list_take(&e->c->measuring, e);
	e->walk = NULL;
	answer(e, NULL);
}

void execs_expire(struct core *c, int64_t now_us)
{
	for (struct exec *e = c->measuring, *next; e; e = next) {
		next = e->next;
		if (now_us < measured_until_us(e))
			continue;
		runtime_file_detach(e->walk);
		end_measuring(e);
	}
}

static void on_walked(void *data, const struct runtime_file_result *walked, const struct err *err)
{
	struct exec *e = data;

	/* A walk that failed says nothing: the answer goes without the warning. */
	if (!err) {
		disk_measured(e->s, walked->used_bytes, e->pending_at_walk);
		disk_crowd(e->s, walked->size);
		e->used = walked->used_bytes;
		e->over_quota = e->used > e->s->quota_bytes;
	}
	end_measuring(e);
}

static void walk(struct exec *e, int64_t left_ms)
{
	const struct runtime_file_spec spec = {
		.volume = e->s->id,
		.tenant = e->s->tenant->number,
		.image = e->s->image,
		.path = STR(""),
		.queue_ms = left_ms < WALK_QUEUE_MS ? left_ms : WALK_QUEUE_MS,
	};

	list_put(&e->c->measuring, e);
	core_wait(e->c);
	e->pending_at_walk = e->s->disk.pending;
	e->walk = runtime_file_usage(e->c->runtime, &spec, on_walked, e);
}

static void on_disk(void *data, bool needs_walk)
{
	struct exec *e = data;
	int64_t left_ms = (measured_until_us(e) - clock_monotonic_us()) / 1000;

	if (needs_walk && left_ms > 0 && !e->detached && e->s->state == SESSION_READY)
		walk(e, left_ms);
	else
		answer(e, NULL);
}

/* ---- The end of the command ---- */

/* The slot goes back before anything else happens, and before the answer. */
static void settle(struct exec *e)
{
	struct core *c = e->c;

	e->run = NULL;
	e->s->tenant->commands_running--;
	e->s->running--;
	if (e->s->state == SESSION_READY)
		session_touch(c, e->s);
	list_take(&c->execs, e);
}

static const struct audit_outcome not_begun = { .failed = true, .duration_ms = -1 };

static void not_started(struct exec *e, const struct err *err)
{
	struct err said, gone = { .slug = "session_not_found" };
	const struct files_matter matter = { e->s, FILES_FOLDER, str_of(e->cwd), 0 };

	/* Whatever broke a command whose session was deleted meanwhile, that is the reason. */
	files_say(&said, e->c, e->s->state == SESSION_READY ? err : &gone, &matter);
	if (said.slug && strcmp(said.slug, "internal") == 0)
		log_event(LOG_ERROR, "command_failed", LOG_STR("request", e->origin.request),
			  LOG_STR("session", e->s->id), LOG_STR("tenant", e->s->tenant->name),
			  LOG_STR("why", err->text));
	record(e, &not_begun);
	answer(e, &said);
}

static const struct err stopping = { .slug = "stopping" };

static void on_done(void *data, struct runtime_exec_result *run, const struct err *err)
{
	struct exec *e = data;

	settle(e);
	if (err || (e->stopped && !e->started)) {
		not_started(e, err ? err : &stopping);
		return;
	}
	/* One that ended by itself just before is not cut off. */
	e->stopped &= run->exit_code == KILLED && !run->timed_out && !run->oom_killed;
	e->result = *run;
	run->streams[0] = run->streams[1] = NULL; /* taken */
	run->denied = NULL;
	usage_add(e->c, e->s->tenant, 0, 1, run->duration_us / 1000);
	record(e, &(struct audit_outcome){ .failed = e->stopped,
					   .detail = e->stopped ? cut_off : NULL,
					   .exit_code = run->exit_code,
					   .duration_ms = run->duration_us / 1000,
					   .timed_out = run->timed_out,
					   .oom_killed = run->oom_killed });
	disk_add(e->s, disk_bound_of_run(e->c, run));
	if (run->timed_out)
		answer(e, NULL);
	else
		disk_ask(e->c, e->s, 0, on_disk, e);
}

static void on_started(void *data)
{
	struct exec *e = data;

	e->started = true;
	if (!e->detached && e->ops.started)
		e->ops.started(e->data);
}

static void on_output(void *data, enum runtime_stream stream, struct str bytes)
{
	struct exec *e = data;

	if (!e->detached)
		e->ops.output(e->data, stream, bytes);
}

/* ---- The start ---- */

static const struct runtime_exec_ops quiet_ops = { .started = on_started, .done = on_done };
static const struct runtime_exec_ops stream_ops = {
	.started = on_started,
	.output = on_output,
	.done = on_done,
};

int exec_check_slot(const struct tenant *t, struct err *err)
{
	if (t->commands_running < t->limits.max_concurrent_exec)
		return 0;
	return err_slug(err, EAGAIN, "exec_limit",
			"Too many commands running at once: %u allowed. Wait for one to finish.",
			t->limits.max_concurrent_exec);
}

static void run(struct exec *e, const struct runtime_exec_spec *spec, bool streams)
{
	e->run = runtime_exec_start(e->c->runtime, spec, streams ? &stream_ops : &quiet_ops, e);
}

/* Nothing runs that is not on record. */
static void on_begun(void *data, bool on_disk)
{
	static const struct err busy = { .slug = "busy" };
	struct exec *e = data;
	struct held *h = take_ptr(e->held);

	/* The session's name for the runtime may be gone with it. */
	bool goes = on_disk && !e->killed && e->s->state == SESSION_READY;
	h->spec.egress = e->s->net;
	if (goes)
		run(e, &h->spec, h->streams);
	held_free(h);
	if (goes)
		return;
	settle(e);
	not_started(e, e->stopped ? &stopping : &busy);
}

/* e: what waits for the record where that has to be; NULL: nothing. */
static struct audit *begin_record(struct core *c, const struct session *s,
				  const struct exec_params *p, struct exec *e)
{
	const struct audit_start start = {
		.tenant = s->tenant,
		.session = s->id,
		.actor = p->actor,
		.kind = "exec",
		.command = p->command,
	};

	return audit_begin(c, &start, e && audit_is_strict(c) ? on_begun : NULL, e);
}

/* Nobody waits for the record of what never began; a 429 has none. */
static int check_start(struct core *c, const struct session *s, const struct exec_params *p,
		       struct err *err)
{
	struct audit *audit;
	int r = c->stopping ? refusal_stopping(err) : check_env(p, err);

	if (r >= 0)
		return exec_check_slot(s->tenant, err);
	audit = begin_record(c, s, p, NULL);
	if (audit)
		audit_end(audit, &not_begun, NULL, NULL);
	return r;
}

int exec_start(struct core *c, struct session *s, const struct exec_params *p,
	       const struct exec_ops *ops, void *data, struct exec **ret, struct err *err)
{
	__attribute__((cleanup(environment_fini))) struct environment env = { .n = 0 };
	int r = check_start(c, s, p, err);

	if (r < 0)
		return r;
	environment_fill(&env, s, p);
	struct exec *e = mem_new(1, sizeof(*e));
	*e = (struct exec){ .c = c,
			    .s = s,
			    .origin = c->origin,
			    .ops = *ops,
			    .data = data,
			    .since_us = clock_monotonic_us(),
			    .timeout_s = p->timeout_s };
	core_hold(c);
	session_ref(s);
	s->tenant->commands_running++;
	s->running++;
	list_put(&c->execs, e);
	const struct runtime_exec_spec spec = {
		.volume = s->id,
		.tenant = s->tenant->number,
		.image = s->image,
		.egress = s->net,
		.command = p->command,
		.cwd = p->cwd.data ? p->cwd : STR(""),
		.env = env.strings,
		.n_env = env.n,
		.stdin_data = p->stdin_data,
		.timeout_ms = (int64_t)p->timeout_s * 1000,
		.output_max = c->config.output_max,
	};
	e->cwd = mem_dup_n(spec.cwd.data, spec.cwd.len);
	e->audit = begin_record(c, s, p, e);
	if (audit_is_strict(c))
		e->held = hold(&spec, ops->output);
	else
		run(e, &spec, ops->output);
	*ret = e;
	return 0;
}

void exec_detach(struct exec *e)
{
	e->detached = true;
}

void exec_kill(struct exec *e)
{
	e->killed = true;
	if (e->run)
		runtime_exec_kill(e->run);
}

void execs_kill(struct core *c)
{
	for (struct exec *e = c->execs, *next; e; e = next) {
		next = e->next;
		e->stopped = true;
		exec_kill(e);
	}
}

unsigned execs_count(const struct core *c)
{
	unsigned n = 0;

	for (const struct exec *e = c->execs; e; e = e->next)
		n++;
	return n;
}
