// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/mem.h"
#include "core/parts.h"
#include "core/rig.h"
#include "core/snapshot.h"

static char snapshot_id[32];

static void on_exec(void *data, struct exec_result *result, const struct err *err)
{
	assert_string_equal(err->slug, "internal");
}

static void on_read(void *data, bool missing, struct str bytes, const struct err *err)
{
	assert_string_equal(err->slug, "internal");
}

static void on_session(void *data, struct session *s, const struct err *err)
{
	assert_string_equal(err->slug, "internal");
}

static void on_snapshot(void *data, const struct snapshot *snapshot, const struct err *err)
{
	if (snapshot)
		snprintf(snapshot_id, sizeof(snapshot_id), "%s", snapshot->id);
	else
		assert_string_equal(err->slug, "internal");
}

static void on_import(void *data, const struct import_result *result, const struct err *err)
{
	assert_string_equal(err->slug, "internal");
}

static void on_issued(void *data, const struct key *key, const char *text, const struct err *err)
{
	assert_string_equal(err->slug, "internal");
}

static void run(struct rig *r, struct session *s)
{
	static const struct exec_ops ops = { .done = on_exec };
	const struct exec_params p = { .command = STR("true"), .timeout_s = 15, .actor = "key k" };
	struct exec *e;
	struct err err;

	r->runtime.fail[RIG_EXEC] = "internal";
	assert_int_equal(exec_start(r->core, s, &p, &ops, NULL, &e, &err), 0);
}

static void read_file(struct rig *r, struct session *s)
{
	r->runtime.fail[RIG_READ] = "internal";
	files_read(r->core, s, STR("a"), on_read, NULL);
}

static void create(struct rig *r, struct session *s)
{
	const struct session_params p = { .template_name = STR("sandbox-base:latest") };

	r->runtime.fail[RIG_CREATE] = "internal";
	session_create(r->core, r->a, &p, on_session, NULL);
}

static void keep(struct rig *r, struct session *s)
{
	r->runtime.fail[RIG_COPY] = "internal";
	snapshot_create(r->core, s, STR("s"), STR(""), "key k", on_snapshot, NULL);
}

static void put_back(struct rig *r, struct session *s)
{
	r->runtime.fail[RIG_MERGE] = "internal";
	snapshot_restore(r->core, s, str_of(snapshot_id), STR("x"), "key k", on_snapshot, NULL);
}

static void import(struct rig *r, struct session *s)
{
	const struct import_params p = { STR("o/r"), STR("v1"), { NULL, 0 }, "key k" };
	struct import *im;
	struct err err;

	r->runtime.fail[RIG_UNPACK] = "internal";
	r->runtime.archive = "archive!";
	r->runtime.fetched.bytes = 8;
	assert_int_equal(import_start(r->core, s, &p, on_import, NULL, &im, &err), 0);
}

static void issue(struct rig *r, struct session *s)
{
	rig_break_store(r, true);
	key_issue(r->core, STR("a"), STR("k"), on_issued, NULL);
}

/* What is logged while f runs for a request and everything that it began comes to its end. */
static const char *logged(struct rig *r, struct session *s, const char *request,
			  void (*f)(struct rig *r, struct session *s))
{
	static char text[16384];
	_cleanup_fd_ int old = dup(STDERR_FILENO);
	int ends[2]; /* a pipe: no file can be written while the store is broken */

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	dup2(ends[1], STDERR_FILENO);
	fd_close(&ends[1]);
	core_on_behalf(r->core, request);
	f(r, s);
	core_on_behalf(r->core, "");
	rig_settle(r);
	if (f == issue)
		rig_break_store(r, false);
	dup2(old, STDERR_FILENO);
	ssize_t n = read(ends[0], text, sizeof(text) - 1);
	fd_close(&ends[0]);
	assert_true(n >= 0);
	text[n] = '\0';
	return text;
}

static void a_failure_names_the_request_however_late_it_comes(void **state)
{
	static const struct {
		const char *event;
		void (*begin)(struct rig *r, struct session *s);
	} cases[] = {
		{ "command_failed", run },	     { "file_call_failed", read_file },
		{ "session_create_failed", create }, { "snapshot_failed", keep },
		{ "restore_failed", put_back },	     { "import_failed", import },
		{ "key_not_stored", issue },
	};
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	snapshot_create(r->core, s, STR("s"), STR(""), "key k", on_snapshot, NULL);
	rig_settle(r);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *want =
			mem_printf("\"event\":\"%s\",\"request\":\"req_0123456789abcdef\"",
				   cases[i].event);
		const char *text = logged(r, s, "req_0123456789abcdef", cases[i].begin);
		if (!strstr(text, want))
			fail_msg("no %s in: %s", want, text);
	}
}

static void what_nobody_asked_for_names_none(void **state)
{
	struct rig *r = *state;
	struct session *s = rig_session(r, r->a);

	const char *text = logged(r, s, "", run);
	assert_non_null(strstr(text, "command_failed"));
	assert_null(strstr(text, "\"request\""));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(a_failure_names_the_request_however_late_it_comes),
		T(what_nobody_asked_for_names_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
