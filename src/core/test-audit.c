// SPDX-License-Identifier: Apache-2.0
#include "core/audit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/repository.h"
#include "core/rig.h"
#include "core/snapshot.h"

#define DAY (86400 * RIG_SECOND)

/* ---- Commands ---- */

struct outcome {
	unsigned n;
	char slug[64];
	size_t recorded; /* what the log had when the answer came */
	struct rig *r;
};

static void on_done(void *data, struct exec_result *result, const struct err *err)
{
	struct outcome *o = data;

	o->n++;
	snprintf(o->slug, sizeof(o->slug), "%s", err ? err->slug : "");
}

static const struct exec_ops ops = { .done = on_done };

static struct exec *start(struct rig *r, struct session *s, struct str command, struct outcome *o)
{
	const struct exec_params p = { .command = command, .timeout_s = 15, .actor = "key abc" };
	struct exec *e;
	struct err err;

	*o = (struct outcome){ .r = r };
	if (exec_start(r->core, s, &p, &ops, o, &e, &err) < 0)
		fail_msg("%s", err.text);
	return e;
}

static struct outcome run(struct rig *r, struct session *s, struct str command)
{
	struct outcome o;

	start(r, s, command, &o);
	rig_settle(r);
	assert_int_equal(o.n, 1);
	return o;
}

/* ---- The log ---- */

struct row {
	struct store_audit row;
	char session[32], actor[32], kind[16], command[8 * AUDIT_COMMAND_MAX], detail[128];
};

struct log {
	unsigned n;
	size_t rows;
	bool more;
	struct row row[4];
};

static void on_page(void *data, const struct store_audit_page *page, const struct err *err)
{
	struct log *log = data;

	assert_null(err);
	log->n++;
	log->rows = page->n;
	log->more = page->more;
	for (size_t i = 0; i < page->n && i < ARRAY_SIZE(log->row); i++) {
		const struct store_audit *from = &page->rows[i];
		struct row *to = &log->row[i];
		to->row = *from;
		snprintf(to->session, sizeof(to->session), "%s", from->session);
		snprintf(to->actor, sizeof(to->actor), "%s", from->actor);
		snprintf(to->kind, sizeof(to->kind), "%s", from->kind);
		snprintf(to->command, sizeof(to->command), "%s", from->command);
		snprintf(to->detail, sizeof(to->detail), "%s", from->detail ? from->detail : "-");
	}
}

static struct log *log_of(struct rig *r, struct tenant *t)
{
	static struct log log;

	log = (struct log){ 0 };
	audit_page(r->core, t, INT64_MAX, 0, 100, on_page, &log);
	rig_settle(r);
	assert_int_equal(log.n, 1);
	return &log;
}

static void a_command_is_on_record_with_its_end(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	r->runtime.result.exit_code = 3;
	r->runtime.result.duration_us = 1500000;
	run(r, s, STR("echo hi"));
	r->runtime.result = (struct runtime_exec_result){ .exit_code = -1, .timed_out = true };
	run(r, s, STR("sleep 99"));
	struct log *log = log_of(r, r->a);
	assert_int_equal(log->rows, 2);
	const struct row *last = &log->row[0], *first = &log->row[1];
	assert_string_equal(first->command, "echo hi");
	assert_string_equal(first->session, s->id);
	assert_string_equal(first->actor, "key abc");
	assert_string_equal(first->kind, "exec");
	assert_string_equal(first->detail, "-");
	assert_false(first->row.failed);
	assert_int_equal(first->row.exit_code, 3);
	assert_int_equal(first->row.duration_ms, 1500);
	assert_false(first->row.truncated);
	assert_int_equal(last->row.exit_code, -1);
	assert_true(last->row.timed_out);
	assert_int_equal(log_of(r, r->b)->rows, 0);
}

static void what_a_stop_has_ended_has_failed(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o;

	r->runtime.hold[RIG_EXEC] = true;
	start(r, s, STR("sleep 50"), &o);
	rig_start_commands(r);
	core_stop(r->core);
	core_end_work(r->core);
	rig_answer(r);
	struct log *log = log_of(r, r->a);
	assert_int_equal(log->rows, 1);
	assert_true(log->row[0].row.failed);
	assert_string_equal(log->row[0].detail, "failed: the server was stopped while it ran");
}

static void what_did_not_start_has_failed(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	r->runtime.fail[RIG_EXEC] = "no_capacity";
	assert_string_equal(run(r, s, STR("true")).slug, "no_capacity");
	struct log *log = log_of(r, r->a);
	assert_int_equal(log->rows, 1);
	assert_true(log->row[0].row.failed);
	assert_int_equal(log->row[0].row.duration_ms, -1);
}

static void what_is_refused_at_its_start_has_failed(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	const struct str name = STR("PATH"), value = STR("/tmp");
	struct exec_params p = { .command = STR("make"), .timeout_s = 15, .actor = "key abc" };
	struct exec *e;
	struct err err;

	p.env_names = &name;
	p.env_values = &value;
	p.n_env = 1;
	assert_true(exec_start(r->core, s, &p, &ops, NULL, &e, &err) < 0);
	assert_string_equal(err.slug, "secret_name_reserved");
	p.n_env = 0;
	core_stop(r->core);
	assert_true(exec_start(r->core, s, &p, &ops, NULL, &e, &err) < 0);
	assert_string_equal(err.slug, "stopping");
	rig_settle(r);
	struct log *log = log_of(r, r->a);
	assert_int_equal(log->rows, 2);
	for (size_t i = 0; i < log->rows; i++) {
		assert_string_equal(log->row[i].kind, "exec");
		assert_string_equal(log->row[i].command, "make");
		assert_string_equal(log->row[i].actor, "key abc");
		assert_true(log->row[i].row.failed);
		assert_int_equal(log->row[i].row.duration_ms, -1);
	}
	assert_int_equal(r->a->commands_running, 0);
}

static void what_waits_for_a_slot_in_vain_leaves_no_record(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	const struct exec_params p = { .command = STR("make"), .timeout_s = 15, .actor = "key a" };
	struct outcome o;
	struct exec *e;
	struct err err;

	r->a->limits.max_concurrent_exec = 1;
	start(r, s, STR("sleep"), &o);
	assert_true(exec_start(r->core, s, &p, &ops, NULL, &e, &err) < 0);
	assert_string_equal(err.slug, "exec_limit");
	rig_settle(r);
	assert_int_equal(log_of(r, r->a)->rows, 1);
}

static void a_long_command_is_cut_between_characters(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	char text[2 * 3000];

	for (size_t i = 0; i < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xbc", 2);
	run(r, s, (struct str){ text, sizeof(text) });
	run(r, s, (struct str){ text, 2 * AUDIT_COMMAND_MAX });
	struct log *log = log_of(r, r->a);
	assert_false(log->row[0].row.truncated);
	assert_true(log->row[1].row.truncated);
	assert_int_equal(strlen(log->row[1].command), 2 * AUDIT_COMMAND_MAX);
}

static void whoever_hangs_up_is_on_record_all_the_same(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	struct outcome o;

	exec_detach(start(r, s, STR("true"), &o));
	rig_settle(r);
	assert_int_equal(o.n, 0);
	assert_int_equal(log_of(r, r->a)->rows, 1);
}

static void killed_in_the_middle(struct rig *r)
{
	static struct outcome o;
	struct session *s = rig_session(r, r->a);

	r->runtime.hold[RIG_EXEC] = true;
	start(r, s, STR("make"), &o);
	/* The record of the beginning is on the disk when this is. */
	rig_session(r, r->a);
}

static void what_ran_when_the_server_was_killed_has_failed(void **state)
{
	struct rig *r = *state;

	rig_crash(r, killed_in_the_middle);
	struct log *log = log_of(r, r->a);
	assert_int_equal(log->rows, 1);
	assert_string_equal(log->row[0].command, "make");
	assert_true(log->row[0].row.failed);
	assert_string_equal(log->row[0].detail, "failed: the server was restarted while it ran");
	/* Ids go on. */
	run(r, rig_session(r, r->a), STR("next"));
	assert_int_equal(log_of(r, r->a)->rows, 2);
}

static void records_that_are_too_old_are_not_shown(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	run(r, s, STR("old"));
	rig_advance(r, 89 * DAY);
	s = rig_session(r, r->a);
	run(r, s, STR("new"));
	assert_int_equal(log_of(r, r->a)->rows, 2);
	rig_advance(r, 2 * DAY);
	struct log *log = log_of(r, r->a);
	assert_int_equal(log->rows, 1);
	assert_string_equal(log->row[0].command, "new");
}

/* Page after page as a client asks for it; a letter for each record, in the order of the pages. */
static void read_pages(struct rig *r, size_t limit, char letters[32])
{
	static struct log log;
	int64_t before_us = INT64_MAX;
	uint32_t before_id = 0;
	size_t n = 0;

	do {
		log = (struct log){ 0 };
		audit_page(r->core, r->a, before_us, before_id, limit, on_page, &log);
		rig_settle(r);
		assert_int_equal(log.n, 1);
		for (size_t i = 0; i < log.rows; i++) {
			assert_true(n < 31);
			assert_true(log.row[i].row.at_us <= before_us);
			before_us = log.row[i].row.at_us;
			before_id = (uint32_t)log.row[i].row.id;
			letters[n++] = log.row[i].command[0];
		}
	} while (log.more);
	letters[n] = '\0';
}

static void a_clock_that_is_set_loses_and_doubles_no_record(void **state)
{
	/* Before each command; those that stand still and those that come back meet. */
	static const int64_t seconds[] = { 0, 10, 10, -20, 0, 5, 5, 0, 3600, -3600, 0, -86400 };
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	char letters[32];

	for (size_t i = 0; i < ARRAY_SIZE(seconds); i++) {
		const char letter = (char)('a' + i);
		clock_fake(clock_monotonic_us(), clock_wall_us() + seconds[i] * RIG_SECOND);
		run(r, s, (struct str){ &letter, 1 });
	}
	clock_fake(clock_monotonic_us(), clock_wall_us() + 2 * DAY);
	for (size_t limit = 1; limit <= ARRAY_SIZE(((struct log *)NULL)->row); limit++) {
		read_pages(r, limit, letters);
		assert_string_equal(letters, "ickjhgbfedal");
	}
}

static void a_log_that_cannot_be_written_stops_nobody(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	rig_break_store(r, true);
	assert_string_equal(run(r, s, STR("unseen")).slug, "");
	rig_break_store(r, false);
	assert_int_equal(r->runtime.calls[RIG_EXEC], 1);
	assert_int_equal(log_of(r, r->a)->rows, 0);
	assert_true(store_errors(r->store) > 0);
	run(r, s, STR("seen"));
	assert_int_equal(log_of(r, r->a)->rows, 1);
}

static void strict(struct rig *r)
{
	rig_close(r);
	r->config.audit_strict = true;
	rig_open(r);
}

static void strict_means_that_nothing_runs_unrecorded(void **state)
{
	struct rig *r = *state;

	strict(r);
	struct session *s = rig_session(r, r->a);
	rig_break_store(r, true);
	assert_string_equal(run(r, s, STR("unseen")).slug, "busy");
	rig_break_store(r, false);
	assert_int_equal(r->runtime.calls[RIG_EXEC], 0);
	assert_int_equal(r->a->commands_running, 0);
	assert_int_equal(s->running, 0);
	assert_string_equal(run(r, s, STR("seen")).slug, "");
	assert_int_equal(r->runtime.calls[RIG_EXEC], 1);
	assert_int_equal(log_of(r, r->a)->rows, 1);
}

static void strict_runs_what_was_asked_for(void **state)
{
	struct rig *r = *state;
	const struct str names[] = { STR("A") }, values[] = { STR("1") };
	char command[] = "first", cwd[] = "sub";
	struct exec_params p = { .command = STR(""),
				 .env_names = names,
				 .env_values = values,
				 .n_env = 1,
				 .timeout_s = 15,
				 .actor = "static key" };
	struct outcome o = { .r = r };
	struct exec *e;
	struct err err;

	strict(r);
	struct session *s = rig_session(r, r->a);
	p.command = str_of(command);
	p.cwd = str_of(cwd);
	assert_int_equal(exec_start(r->core, s, &p, &ops, &o, &e, &err), 0);
	memset(command, 'x', 5);
	memset(cwd, 'x', 3);
	rig_settle(r);
	assert_string_equal(o.slug, "");
	assert_string_equal(r->runtime.cwd, "sub");
	assert_string_equal(r->runtime.env[r->runtime.n_env - 1], "A=1");
	assert_string_equal(log_of(r, r->a)->row[0].command, "first");
}

static void strict_and_deleted_or_killed_meanwhile_does_not_run(void **state)
{
	struct rig *r = *state;
	struct outcome o;

	strict(r);
	struct session *s = rig_session(r, r->a);
	start(r, s, STR("late"), &o);
	session_delete(r->core, s, NULL, NULL);
	rig_settle(r);
	assert_int_equal(o.n, 1);
	assert_string_equal(o.slug, "session_not_found");
	s = rig_session(r, r->a);
	exec_kill(start(r, s, STR("late"), &o));
	rig_settle(r);
	assert_int_equal(o.n, 1);
	assert_int_equal(r->runtime.calls[RIG_EXEC], 0);
	assert_int_equal(r->a->commands_running, 0);
}

static void strict_and_cut_off_by_a_stop_says_so(void **state)
{
	struct rig *r = *state;
	struct outcome o;

	strict(r);
	start(r, rig_session(r, r->a), STR("late"), &o);
	core_stop(r->core);
	core_end_work(r->core);
	rig_settle(r);
	assert_int_equal(o.n, 1);
	assert_string_equal(o.slug, "stopping");
	assert_int_equal(r->runtime.calls[RIG_EXEC], 0);
}

/* ---- What is no command ---- */

struct answer {
	unsigned n;
	char slug[64], id[SNAPSHOT_ID_LEN + 1];
	size_t sessions;
};

static void note(struct answer *a, const struct err *err)
{
	a->n++;
	snprintf(a->slug, sizeof(a->slug), "%s", err ? err->slug : "");
}

static void on_snapshot(void *data, const struct snapshot *snap, const struct err *err)
{
	struct answer *a = data;

	note(a, err);
	if (snap)
		memcpy(a->id, snap->id, sizeof(a->id));
}

static void on_fork(void *data, struct session *const *sessions, size_t n, const struct err *err)
{
	struct answer *a = data;

	note(a, err);
	a->sessions = n;
	for (size_t i = 0; i < n; i++)
		assert_true(sessions[i]->state == SESSION_READY);
}

static void on_import(void *data, const struct import_result *result, const struct err *err)
{
	note(data, err);
	if (result)
		assert_string_equal(result->repository->name, "r");
}

static struct answer take(struct rig *r, struct session *s, struct str name)
{
	struct answer a = { 0 };

	snapshot_create(r->core, s, name, STR("out"), "key k", on_snapshot, &a);
	rig_settle(r);
	assert_int_equal(a.n, 1);
	return a;
}

static struct answer restore(struct rig *r, struct session *s, const char *id)
{
	struct answer a = { 0 };

	snapshot_restore(r->core, s, str_of(id), STR(""), "key k", on_snapshot, &a);
	rig_settle(r);
	assert_int_equal(a.n, 1);
	return a;
}

static struct answer fork_it(struct rig *r, struct session *s, unsigned count)
{
	struct answer a = { 0 };

	session_fork(r->core, s, count, "key k", on_fork, &a);
	rig_settle(r);
	assert_int_equal(a.n, 1);
	return a;
}

static struct answer import(struct rig *r, struct session *s, struct str repo)
{
	const struct import_params p = { repo, STR("v1"), { NULL, 0 }, "key k" };
	struct answer a = { 0 };
	struct import *im;
	struct err err;

	if (import_start(r->core, s, &p, on_import, &a, &im, &err) < 0)
		note(&a, &err);
	rig_settle(r);
	assert_int_equal(a.n, 1);
	return a;
}

static void assert_row(const struct row *row, const char *kind, const char *command,
		       const char *detail)
{
	assert_string_equal(row->kind, kind);
	assert_string_equal(row->command, command);
	assert_string_equal(row->detail, detail);
	assert_string_equal(row->actor, "key k");
	assert_int_equal(row->row.failed, strncmp(detail, "failed", 6) == 0);
	assert_int_equal(row->row.exit_code, 0);
	assert_true(row->row.duration_ms >= 0);
}

static void copies_and_imports_are_on_record(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);
	char command[64];

	r->runtime.archive = "archive!";
	r->runtime.fetched.bytes = 8;
	r->runtime.number = 12;
	assert_string_equal(import(r, s, STR("o/r")).slug, "");
	struct answer made = take(r, s, STR(" one "));
	assert_string_equal(made.slug, "");
	assert_string_equal(restore(r, s, made.id).slug, "");
	assert_int_equal(fork_it(r, s, 2).sessions, 2);
	struct log *log = log_of(r, r->a);
	assert_int_equal(log->rows, 4);
	assert_row(&log->row[3], "import", "import o/r @v1", "12 files into /workspace/r");
	assert_row(&log->row[2], "snapshot", "snapshot out as one", "-");
	snprintf(command, sizeof(command), "restore %s into .", made.id);
	assert_row(&log->row[1], "restore", command, "-");
	assert_row(&log->row[0], "fork", "fork 2", "-");
}

static void their_failures_say_what_the_client_was_told(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	assert_string_equal(import(r, s, STR("nonsense")).slug, "bad_repo");
	r->runtime.fail[RIG_COPY] = "file_not_found";
	assert_string_equal(take(r, s, STR("")).slug, "file_not_found");
	assert_string_equal(restore(r, s, "x").slug, "snapshot_not_found");
	r->runtime.fail[RIG_COPY] = "no_capacity";
	assert_string_equal(fork_it(r, s, 2).slug, "no_capacity");
	struct log *log = log_of(r, r->a);
	assert_int_equal(log->rows, 4);
	assert_row(&log->row[3], "import", "import nonsense @v1",
		   "failed (409): Give the repository as owner/repo or "
		   "https://github.com/owner/repo.");
	assert_row(&log->row[2], "snapshot", "snapshot out as unnamed",
		   "failed (409): Folder 'out' does not exist.");
	assert_row(&log->row[1], "restore", "restore x into .", "failed (409): Snapshot not found");
	assert_string_equal(log->row[0].kind, "fork");
	assert_true(log->row[0].row.failed);
}

static void what_a_limit_refuses_leaves_no_record(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	r->a->limits.max_snapshots = 0;
	assert_string_equal(take(r, s, STR("")).slug, "snapshot_limit");
	assert_string_equal(fork_it(r, s, 16).slug, "session_limit");
	r->a->limits.max_concurrent_exec = 0;
	r->runtime.archive = "archive!";
	r->runtime.fetched.bytes = 8;
	assert_string_equal(import(r, s, STR("o/r")).slug, "exec_limit");
	assert_int_equal(log_of(r, r->a)->rows, 0);
	/* Not even an open one, which the next start would make a failure. */
	rig_close(r);
	rig_open(r);
	assert_int_equal(log_of(r, r->a)->rows, 0);
}

static void strict_means_the_same_for_them(void **state)
{
	struct rig *r = *state;

	strict(r);
	struct session *s = rig_session(r, r->a);
	struct answer made = take(r, s, STR("one"));
	assert_string_equal(made.slug, "");
	unsigned copies = r->runtime.calls[RIG_COPY];
	rig_break_store(r, true);
	assert_string_equal(take(r, s, STR("")).slug, "busy");
	assert_string_equal(restore(r, s, made.id).slug, "busy");
	assert_string_equal(fork_it(r, s, 2).slug, "busy");
	assert_string_equal(import(r, s, STR("o/r")).slug, "busy");
	rig_break_store(r, false);
	assert_int_equal(r->runtime.calls[RIG_COPY], copies);
	assert_int_equal(r->runtime.calls[RIG_MERGE], 0);
	assert_int_equal(r->runtime.calls[RIG_FETCH], 0);
	assert_int_equal(s->running, 0);
	assert_string_equal(restore(r, s, made.id).slug, "");
	assert_int_equal(fork_it(r, s, 1).sessions, 1);
	r->runtime.archive = "archive!";
	r->runtime.fetched.bytes = 8;
	assert_string_equal(import(r, s, STR("o/r")).slug, "");
	assert_int_equal(log_of(r, r->a)->rows, 4);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_command_is_on_record_with_its_end),
		T(what_a_stop_has_ended_has_failed),
		T(what_did_not_start_has_failed),
		T(what_is_refused_at_its_start_has_failed),
		T(what_waits_for_a_slot_in_vain_leaves_no_record),
		T(a_long_command_is_cut_between_characters),
		T(whoever_hangs_up_is_on_record_all_the_same),
		T(what_ran_when_the_server_was_killed_has_failed),
		T(records_that_are_too_old_are_not_shown),
		T(a_clock_that_is_set_loses_and_doubles_no_record),
		T(a_log_that_cannot_be_written_stops_nobody),
		T(strict_means_that_nothing_runs_unrecorded),
		T(strict_runs_what_was_asked_for),
		T(strict_and_deleted_or_killed_meanwhile_does_not_run),
		T(strict_and_cut_off_by_a_stop_says_so),
		T(copies_and_imports_are_on_record),
		T(their_failures_say_what_the_client_was_told),
		T(what_a_limit_refuses_leaves_no_record),
		T(strict_means_the_same_for_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
