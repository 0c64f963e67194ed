// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "base/mem.h"
#include "core/native/fake.h"
#include "ipc/posture.h"

struct call {
	struct runtime_exec *exec;
	unsigned started, done;
	char live[2][4096]; /* what output() delivered */
	size_t n_live[2];
	char out[2][4096]; /* what the result holds */
	size_t n_out[2];
	uint64_t dropped[2];
	struct runtime_exec_result result;
	struct err err; /* code 0: a result */
};

static void on_started(void *data)
{
	((struct call *)data)->started++;
}

static void on_output(void *data, enum runtime_stream i, struct str bytes)
{
	struct call *c = data;

	if (c->n_live[i] + bytes.len <= sizeof(c->live[i]))
		memcpy(c->live[i] + c->n_live[i], bytes.data, bytes.len);
	c->n_live[i] += bytes.len;
}

static void on_done(void *data, struct runtime_exec_result *result, const struct err *err)
{
	struct call *c = data;

	c->done++;
	c->exec = NULL;
	assert_true(!result != !err);
	if (err) {
		c->err = *err;
		return;
	}
	c->result = *result;
	for (unsigned i = 0; i < 2; i++) {
		ssize_t n =
			runtime_output_read(result->streams[i], 0, c->out[i], sizeof(c->out[i]));
		assert_true(n >= 0);
		c->n_out[i] = (size_t)n;
		c->dropped[i] = runtime_output_dropped(result->streams[i]);
	}
}

static const struct runtime_exec_ops ops = { on_started, on_output, on_done };
static const char *const env[] = { "HOME=/tmp", "LANG=C.UTF-8" };

static struct runtime_exec_spec spec_of(void)
{
	return (struct runtime_exec_spec){ .volume = FAKE_VOLUME,
					   .tenant = 1,
					   .image = FAKE_IMAGE,
					   .command = STR("echo hi"),
					   .cwd = STR("a/b"),
					   .env = env,
					   .n_env = 2,
					   .timeout_ms = 15000,
					   .output_max = 1000 };
}

static void start(struct fake *f, struct call *c, const struct runtime_exec_spec *spec)
{
	*c = (struct call){ 0 };
	c->exec = runtime_exec_start(f->rt, spec, &ops, c);
	assert_int_equal(c->done, 0);
	fake_turn(f);
}

/* Up to the moment where init has the job. */
static struct fake_sandbox *begin(struct fake *f, struct call *c)
{
	const struct runtime_exec_spec spec = spec_of();
	struct fake_sandbox *s;

	start(f, c, &spec);
	s = fake_busy(f);
	assert_non_null(s);
	assert_int_equal(s->got, DI_EXEC);
	return s;
}

static struct fake_sandbox *begin_running(struct fake *f, struct call *c)
{
	struct fake_sandbox *s = begin(f, c);

	fake_started(s);
	fake_turn(f);
	assert_int_equal(c->started, 1);
	return s;
}

static void print(struct fake_sandbox *s, enum runtime_stream i, const char *text)
{
	assert_int_equal(write(s->fds[1 + i], text, strlen(text)), strlen(text));
}

static void check_stream(const struct call *c, enum runtime_stream i, const char *text)
{
	assert_int_equal(c->n_out[i], strlen(text));
	assert_memory_equal(c->out[i], text, strlen(text));
}

/* ---- The ordinary way ---- */

static void a_command_runs_and_its_streams_stay_apart(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	struct fake_sandbox *s = begin_running(&f, &c);
	print(s, RUNTIME_STDOUT, "out 1\n");
	fake_turn(&f);
	assert_int_equal(c.n_live[0], 6);
	print(s, RUNTIME_STDERR, "err\n");
	print(s, RUNTIME_STDOUT, "out 2\n");
	fake_measure(s, SLOT_FD_CPU, "45000000\n");
	fake_measure(s, SLOT_FD_PEAK, "7000000\n");
	fake_exited(s, 7 << 8);
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_int_equal(c.err.code, 0);
	assert_int_equal(c.result.exit_code, 7);
	assert_false(c.result.timed_out);
	assert_false(c.result.oom_killed);
	assert_false(c.result.pids_limit_hit);
	check_stream(&c, RUNTIME_STDOUT, "out 1\nout 2\n");
	check_stream(&c, RUNTIME_STDERR, "err\n");
	assert_int_equal(c.n_live[0], 12);
	assert_int_equal(c.n_live[1], 4);
	assert_int_equal(c.result.cpu_ms, 43);
	assert_int_equal(c.result.peak_memory_bytes, 7000000);
	assert_int_equal(c.result.posture, FAKE_POSTURE | POSTURE_LANDLOCK);
	assert_int_equal(runtime_posture(f.rt, FAKE_VOLUME, 1), FAKE_POSTURE | POSTURE_LANDLOCK);
	fake_stop(&f);
}

static void the_hand_over_is_sent_before_the_command(void **state)
{
	struct fake f;
	struct call c;
	const struct runtime_exec_spec spec = spec_of();
	struct wire_msg msg;

	fake_start(&f, &fake_config);
	runtime_warm(f.rt, 1, FAKE_IMAGE, false);
	fake_turn(&f);
	assert_int_equal(f.n, 1);
	c = (struct call){ .exec = NULL };
	runtime_exec_start(f.rt, &spec, &ops, &c);
	/* Without a turn of the loop: both are on their way when the call returns. */
	assert_int_equal(wire_recv(f.launcher, &wire_dl, &msg), 1);
	assert_int_equal(msg.head.type, DL_HANDOVER);
	struct dl_handover body;
	memcpy(&body, msg.body, sizeof(body));
	assert_string_equal(body.volume, FAKE_VOLUME);
	assert_int_equal(body.sandbox.generation, 1);
	assert_true(fake_receive(&f.sandboxes[0]));
	assert_int_equal(f.sandboxes[0].got, DI_EXEC);
	fake_stop(&f);
	assert_int_equal(c.done, 1);
}

static void the_specification_is_exact_and_sealed(void **state)
{
	struct fake f;
	struct call c;
	struct exec_spec head;
	char text[256];

	fake_start(&f, &fake_config);
	struct fake_sandbox *s = begin(&f, &c);
	assert_int_equal(s->n_fds, 3);
	assert_int_equal(fcntl(s->fds[0], F_GET_SEALS),
			 F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
	assert_int_equal(pread(s->fds[0], &head, sizeof(head), 0), sizeof(head));
	assert_int_equal(head.magic, EXEC_SPEC_MAGIC);
	assert_int_equal(head.n_env, 2);
	assert_int_equal(head.cwd_len, 3);
	assert_int_equal(head.env_len, 23);
	assert_int_equal(head.command_len, 7);
	static const char rest[] = "a/b\0HOME=/tmp\0LANG=C.UTF-8\0echo hi";
	assert_int_equal(pread(s->fds[0], text, sizeof(text), sizeof(head)), sizeof(rest));
	assert_memory_equal(text, rest, sizeof(rest));
	fake_stop(&f);
}

static void the_write_ends_may_be_opened_again_by_another_uid_and_block(void **state)
{
	struct fake f;
	struct call c;
	struct stat st;

	fake_start(&f, &fake_config);
	struct fake_sandbox *s = begin(&f, &c);
	for (int i = 1; i <= 2; i++) {
		assert_int_equal(fstat(s->fds[i], &st), 0);
		assert_true(S_ISFIFO(st.st_mode));
		assert_int_equal(st.st_mode & 07777, 0222);
		assert_int_equal(fcntl(s->fds[i], F_GETFL) & (O_NONBLOCK | O_ACCMODE), O_WRONLY);
	}
	fake_stop(&f);
}

static void stdin_is_a_sealed_copy(void **state)
{
	struct runtime_exec_spec spec = spec_of();
	struct fake f;
	struct call c;
	char text[16];

	fake_start(&f, &fake_config);
	spec.stdin_data = STR("two\nlines");
	start(&f, &c, &spec);
	struct fake_sandbox *s = fake_busy(&f);
	assert_int_equal(s->n_fds, 4);
	assert_int_equal(read(s->fds[3], text, sizeof(text)), 9);
	assert_memory_equal(text, "two\nlines", 9);
	assert_int_equal(read(s->fds[3], text, sizeof(text)), 0);
	assert_true(pwrite(s->fds[3], "x", 1, 0) < 0);
	fake_stop(&f);
}

static void output_beyond_the_limit_keeps_head_and_tail(void **state)
{
	struct fake f;
	struct call c;
	char line[2500];

	for (size_t i = 0; i < sizeof(line); i++)
		line[i] = (char)('a' + i % 26);
	fake_start(&f, &fake_config);
	struct fake_sandbox *s = begin_running(&f, &c);
	assert_int_equal(write(s->fds[1], line, sizeof(line)), sizeof(line));
	fake_exited(s, 0);
	fake_turn(&f);
	assert_int_equal(c.n_out[0], 750);
	assert_memory_equal(c.out[0], line, 750);
	assert_int_equal(c.dropped[0], 1500);
	assert_int_equal(c.n_live[0], sizeof(line)); /* callers see it before the cut */
	fake_stop(&f);
}

/* ---- How it can end ---- */

static const struct {
	uint32_t status;
	int exit_code;
} statuses[] = {
	{ 0, 0 }, { 1 << 8, 1 }, { 255 << 8, 255 }, { 9, 137 }, { 15, 143 }, { 11 | 0x80, 139 },
};

static void a_death_by_signal_is_128_and_the_signal(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
		struct fake f;
		struct call c;
		fake_start(&f, &fake_config);
		fake_exited(begin_running(&f, &c), statuses[i].status);
		fake_turn(&f);
		assert_int_equal(c.done, 1);
		assert_int_equal(c.result.exit_code, statuses[i].exit_code);
		assert_false(c.result.oom_killed);
		fake_stop(&f);
	}
}

static void a_time_out_kills_at_once_and_keeps_what_was_printed(void **state)
{
	struct runtime_exec_spec spec = spec_of();
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	f.kills = false;
	spec.timeout_ms = 1000;
	start(&f, &c, &spec);
	struct fake_sandbox *s = fake_busy(&f);
	/* The clock starts with the shell, not with the request. */
	fake_advance(&f, 1500);
	assert_false(s->killed);
	fake_started(s);
	fake_turn(&f);
	print(s, RUNTIME_STDOUT, "early\n");
	fake_advance(&f, 999);
	assert_false(s->killed);
	fake_advance(&f, 1);
	assert_true(s->killed);
	assert_int_equal(c.done, 0); /* not before everything is gone */
	print(s, RUNTIME_STDERR, "last words\n");
	fake_gone(&f, s);
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_true(c.result.timed_out);
	assert_int_equal(c.result.exit_code, -1);
	assert_false(c.result.oom_killed);
	check_stream(&c, RUNTIME_STDOUT, "early\n");
	check_stream(&c, RUNTIME_STDERR, "last words\n");
	fake_stop(&f);
}

static struct fake_sandbox *run_for_a_second(struct fake *f, struct call *c)
{
	struct runtime_exec_spec spec = spec_of();

	fake_start(f, &fake_config);
	spec.timeout_ms = 1000;
	start(f, c, &spec);
	struct fake_sandbox *s = fake_busy(f);
	fake_started(s);
	fake_turn(f);
	return s;
}

static void who_ended_in_time_did_so_however_late_it_is_heard(void **state)
{
	struct fake f;
	struct call c;
	struct fake_sandbox *s = run_for_a_second(&f, &c);

	print(s, RUNTIME_STDOUT, "all of it\n");
	fake_exited(s, 3 << 8);
	fake_advance(&f, 3000);
	assert_int_equal(c.done, 1);
	assert_false(c.result.timed_out);
	assert_int_equal(c.result.exit_code, 3);
	assert_int_equal(c.result.duration_us, 1500);
	check_stream(&c, RUNTIME_STDOUT, "all of it\n");
	fake_stop(&f);
}

static void who_ended_too_late_did_not(void **state)
{
	struct fake f;
	struct call c;
	struct fake_sandbox *s = run_for_a_second(&f, &c);
	const struct id_exited body = { .wall_us = 1000001 };

	fake_drop_fds(s);
	fake_say(s, ID_EXITED, s->job, &body, sizeof(body));
	fake_advance(&f, 3000);
	assert_int_equal(c.done, 1);
	assert_true(c.result.timed_out);
	assert_int_equal(c.result.exit_code, -1);
	fake_stop(&f);
}

static void who_has_not_ended_is_killed_at_once(void **state)
{
	struct fake f;
	struct call c;
	struct fake_sandbox *s = run_for_a_second(&f, &c);

	fake_advance(&f, 3000);
	assert_true(s->killed);
	assert_int_equal(c.done, 1);
	assert_true(c.result.timed_out);
	fake_stop(&f);
}

static void a_sandbox_that_does_not_go_delays_the_answer_only_so_long(void **state)
{
	struct runtime_exec_spec spec = spec_of();
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	f.kills = false;
	spec.timeout_ms = 1000;
	start(&f, &c, &spec);
	fake_started(fake_busy(&f));
	fake_turn(&f);
	fake_advance(&f, 1000);
	fake_advance(&f, EXEC_GONE_MS - 1);
	assert_int_equal(c.done, 0);
	fake_advance(&f, 1);
	assert_int_equal(c.done, 1);
	assert_true(c.result.timed_out);
	fake_stop(&f);
}

static void an_answer_after_the_time_out_does_not_undo_it(void **state)
{
	struct runtime_exec_spec spec = spec_of();
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	f.kills = false;
	spec.timeout_ms = 1000;
	start(&f, &c, &spec);
	struct fake_sandbox *s = fake_busy(&f);
	fake_started(s);
	fake_turn(&f);
	fake_advance(&f, 1000);
	fake_exited(s, 0);
	fake_turn(&f);
	assert_int_equal(c.done, 0);
	fake_gone(&f, s);
	fake_turn(&f);
	assert_true(c.result.timed_out);
	assert_int_equal(c.result.exit_code, -1);
	fake_stop(&f);
}

static void init_gone_without_a_word_is_137(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	f.kills = false;
	struct fake_sandbox *s = begin_running(&f, &c);
	print(s, RUNTIME_STDOUT, "so far");
	fake_die(s);
	fake_turn(&f);
	assert_int_equal(c.done, 0);
	assert_true(s->killed);
	fake_gone(&f, s);
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_int_equal(c.result.exit_code, 137);
	assert_false(c.result.oom_killed);
	check_stream(&c, RUNTIME_STDOUT, "so far");
	fake_stop(&f);
}

static void init_gone_with_an_oom_kill_is_memory(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	struct fake_sandbox *s = begin_running(&f, &c);
	fake_measure(s, SLOT_FD_OOM, "oom_kill 1\n");
	fake_die(s);
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_int_equal(c.result.exit_code, 137);
	assert_true(c.result.oom_killed);
	fake_stop(&f);
}

static void an_oom_kill_in_a_command_that_ended_well_counts_for_all_of_it(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	struct fake_sandbox *s = begin_running(&f, &c);
	fake_measure(s, SLOT_FD_OOM, "oom_kill 3\n");
	fake_measure(s, SLOT_FD_PIDS, "max 12\n");
	fake_exited(s, 0);
	fake_turn(&f);
	assert_int_equal(c.result.exit_code, 137);
	assert_true(c.result.oom_killed);
	assert_true(c.result.pids_limit_hit);
	fake_stop(&f);
}

static void an_oom_kill_while_it_runs_ends_the_rest_soon(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	struct fake_sandbox *s = begin_running(&f, &c);
	fake_advance(&f, EXEC_OOM_POLL_MS);
	assert_false(s->killed);
	fake_measure(s, SLOT_FD_OOM, "oom_kill 1\n");
	fake_advance(&f, EXEC_OOM_POLL_MS);
	assert_true(s->killed);
	assert_int_equal(c.done, 1);
	assert_true(c.result.oom_killed);
	assert_int_equal(c.result.exit_code, 137);
	fake_stop(&f);
}

static void pipes_held_open_are_read_for_a_quarter_second_more(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	struct fake_sandbox *s = begin_running(&f, &c);
	int held = dup(s->fds[1]);
	fake_exited(s, 0);
	fake_turn(&f);
	assert_int_equal(c.done, 0);
	assert_int_equal(write(held, "late", 4), 4);
	fake_advance(&f, EXEC_DRAIN_MS - 1);
	assert_int_equal(c.done, 0);
	fake_advance(&f, 1);
	assert_int_equal(c.done, 1);
	assert_int_equal(c.result.exit_code, 0);
	check_stream(&c, RUNTIME_STDOUT, "late");
	close(held);
	fake_stop(&f);
}

static void what_came_in_that_time_is_read_however_late(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	struct fake_sandbox *s = begin_running(&f, &c);
	int held = dup(s->fds[1]);
	fake_exited(s, 0);
	fake_turn(&f);
	assert_int_equal(write(held, "late", 4), 4);
	fake_advance(&f, EXEC_DRAIN_MS);
	assert_int_equal(c.done, 1);
	check_stream(&c, RUNTIME_STDOUT, "late");
	close(held);
	fake_stop(&f);
}

static void early_end_of_output_does_not_end_the_command(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	struct fake_sandbox *s = begin_running(&f, &c);
	fake_drop_fds(s);
	fake_turn(&f);
	assert_int_equal(c.done, 0);
	fake_exited(s, 0);
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	fake_stop(&f);
}

static void a_sandbox_that_stays_after_its_command_is_killed(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	struct fake_sandbox *s = begin_running(&f, &c);
	fake_exited(s, 0);
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_false(s->killed);
	fake_advance(&f, SANDBOX_LINGER_MS - 1);
	assert_false(s->killed);
	fake_advance(&f, 1);
	assert_true(s->killed);
	fake_stop(&f);
}

static void kill_ends_it_with_137_in_every_state(void **state)
{
	struct fake f;
	struct call c;

	/* Running. */
	fake_start(&f, &fake_config);
	begin_running(&f, &c);
	runtime_exec_kill(c.exec);
	assert_int_equal(c.done, 0);
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_int_equal(c.result.exit_code, 137);
	fake_stop(&f);

	/* Waiting for a sandbox. */
	const struct runtime_exec_spec spec = spec_of();
	fake_start(&f, &fake_config);
	f.builds = false;
	start(&f, &c, &spec);
	runtime_exec_kill(c.exec);
	assert_int_equal(c.done, 0);
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_int_equal(c.err.code, 0);
	assert_int_equal(c.result.exit_code, 137);
	fake_stop(&f);
}

/* ---- What prevents it ---- */

static const struct {
	uint32_t stage, code;
	const char *slug;
} refusals[] = {
	{ EXEC_STAGE_CWD, ENOENT, "file_not_found" },
	{ EXEC_STAGE_CWD, ENAMETOOLONG, "file_not_found" },
	{ EXEC_STAGE_CWD, ENOTDIR, "not_folder" },
	{ EXEC_STAGE_CWD, EXDEV, "path_outside" },
	{ EXEC_STAGE_CWD, ELOOP, "path_outside" },
	{ EXEC_STAGE_CWD, EACCES, "permission_denied" },
	{ EXEC_STAGE_CWD, EIO, "internal" },
	{ EXEC_STAGE_EXEC, ENOENT, "internal" },
	{ EXEC_STAGE_FORK, EAGAIN, "internal" },
	{ 77, 77, "internal" },
};

static void a_refusal_has_the_word_of_its_cause(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		const struct id_refused body = { refusals[i].stage, refusals[i].code };
		struct fake f;
		struct call c;
		fake_start(&f, &fake_config);
		struct fake_sandbox *s = begin(&f, &c);
		fake_say(s, ID_REFUSED, s->job, &body, sizeof(body));
		fake_turn(&f);
		assert_int_equal(c.done, 1);
		assert_string_equal(c.err.slug, refusals[i].slug);
		assert_true(s->killed);
		fake_stop(&f);
	}
}

static void what_fails_at_the_hand_over(struct fake *f, struct fake_sandbox *s, uint32_t code)
{
	const struct ld_handover_failed body = { s->id, code };

	fake_tell(f, LD_HANDOVER_FAILED, 0, &body, sizeof(body));
	fake_gone(f, s);
	fake_turn(f);
}

static void a_sandbox_that_was_dead_already_is_replaced(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	what_fails_at_the_hand_over(&f, begin(&f, &c), ESRCH);
	assert_int_equal(c.done, 0);
	struct fake_sandbox *s = fake_busy(&f);
	assert_non_null(s);
	fake_started(s);
	fake_turn(&f);
	fake_exited(s, 0);
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_int_equal(c.err.code, 0);
	fake_stop(&f);
}

static void but_not_for_ever(void **state)
{
	struct fake f;
	struct call c;
	unsigned tries = 0;

	fake_start(&f, &fake_config);
	struct fake_sandbox *s = begin(&f, &c);
	for (; s && tries < 10; tries++) {
		what_fails_at_the_hand_over(&f, s, ESRCH);
		s = fake_busy(&f);
	}
	assert_int_equal(tries, EXEC_TRIES);
	assert_int_equal(c.done, 1);
	assert_string_equal(c.err.slug, "internal");
	fake_stop(&f);
}

static void a_missing_workspace_is_not_tried_again(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	what_fails_at_the_hand_over(&f, begin(&f, &c), ENOENT);
	assert_int_equal(c.done, 1);
	assert_string_equal(c.err.slug, "internal");
	assert_null(fake_busy(&f));
	fake_stop(&f);
}

static void an_init_that_dies_before_the_start_is_an_error_not_a_result(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	fake_die(begin(&f, &c));
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_string_equal(c.err.slug, "internal");
	fake_stop(&f);
}

static void an_init_that_says_nothing_is_given_up(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	begin(&f, &c);
	fake_advance(&f, EXEC_START_MS);
	assert_int_equal(c.done, 1);
	assert_string_equal(c.err.slug, "internal");
	fake_stop(&f);
}

static void an_unknown_workspace_and_an_endless_command_are_refused(void **state)
{
	struct runtime_exec_spec spec = spec_of();
	struct fake f;
	struct call c;
	char *long_command = mem_new(EXEC_SPEC_MAX, 1);

	fake_start(&f, &fake_config);
	spec.volume = "sbx_ffffffffffff";
	start(&f, &c, &spec);
	assert_string_equal(c.err.slug, "internal");
	spec = spec_of();
	memset(long_command, 'x', EXEC_SPEC_MAX);
	spec.command = (struct str){ long_command, EXEC_SPEC_MAX };
	start(&f, &c, &spec);
	assert_string_equal(c.err.slug, "internal");
	free(long_command);
	fake_stop(&f);
}

/* ---- Init is hostile ---- */

static void out_of_turn(struct fake *f, struct call *c, struct fake_sandbox *s, const char *what)
{
	fake_turn(f);
	if (!s->killed || c->done != 1)
		fail_msg("%s did not end the sandbox", what);
	assert_true(f->rt->link.state == LINK_READY); /* never the server */
}

static void a_message_out_of_turn_ends_the_sandbox_alone(void **state)
{
	static const struct {
		bool running;
		uint8_t type;
		int job; /* added to the right id */
		size_t len;
	} cases[] = {
		{ false, ID_EXITED, 0, sizeof(struct id_exited) },
		{ false, ID_HELLO, 0, sizeof(struct msg_hello) },
		{ false, ID_FILE, 0, sizeof(struct id_file) },
		{ false, ID_FILE_END, 0, sizeof(struct id_file) },
		{ false, ID_STARTED, 1, sizeof(struct id_started) },
		{ false, ID_STARTED, 0, sizeof(struct id_started) - 1 },
		{ false, 0, 0, 0 },
		{ false, 63, 0, 0 },
		{ true, ID_STARTED, 0, sizeof(struct id_started) },
		{ true, ID_REFUSED, 0, sizeof(struct id_refused) },
		{ true, ID_EXITED, -1, sizeof(struct id_exited) },
		{ true, ID_EXITED, 0, sizeof(struct id_exited) + 1 },
	};
	static const unsigned char zeros[WIRE_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char what[40];
		struct fake f;
		struct call c;
		fake_start(&f, &fake_config);
		struct fake_sandbox *s = cases[i].running ? begin_running(&f, &c) : begin(&f, &c);
		fake_say(s, cases[i].type, s->job + (uint32_t)cases[i].job, zeros, cases[i].len);
		snprintf(what, sizeof(what), "case %zu", i);
		out_of_turn(&f, &c, s, what);
		fake_stop(&f);
	}
}

static void a_datagram_that_is_no_message_ends_the_sandbox_alone(void **state)
{
	struct fake f;
	struct call c;
	char raw[WIRE_MAX * 2] = { 0 };

	for (size_t len = 1; len <= sizeof(raw); len += 85) {
		fake_start(&f, &fake_config);
		struct fake_sandbox *s = begin_running(&f, &c);
		assert_int_equal(send(s->init, raw, len, 0), len);
		out_of_turn(&f, &c, s, "noise");
		assert_int_equal(c.result.exit_code, 137);
		fake_stop(&f);
	}
}

static void descriptors_from_init_are_refused(void **state)
{
	const struct id_exited body = { 0 };
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	struct fake_sandbox *s = begin_running(&f, &c);
	assert_int_equal(wire_send(s->init, ID_EXITED, s->job, &body, sizeof(body), s->fds, 1), 0);
	out_of_turn(&f, &c, s, "a descriptor");
	fake_stop(&f);
}

static void a_lying_clock_does_not_lengthen_the_command(void **state)
{
	const struct id_exited body = { .wall_us = UINT64_MAX };
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	struct fake_sandbox *s = begin_running(&f, &c);
	fake_advance(&f, 20);
	fake_drop_fds(s);
	fake_say(s, ID_EXITED, s->job, &body, sizeof(body));
	fake_turn(&f);
	assert_int_equal(c.result.duration_us, 20000);
	fake_stop(&f);
}

/* ---- Many ---- */

static void tenants_take_turns(void **state)
{
	struct native_config config = fake_config;
	struct runtime_exec_spec spec = spec_of();
	struct fake f;
	struct call calls[6];
	/* Tenant 1 asks four times, then 2 and 3 once each. One runs at a time. */
	static const uint32_t asked[] = { 1, 1, 1, 1, 2, 3 }, served[] = { 1, 1, 2, 3, 1, 1 };

	config.running_max = 1;
	fake_start(&f, &config);
	for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
		spec.tenant = asked[i];
		start(&f, &calls[i], &spec);
	}
	struct runtime_info info;
	runtime_info_get(f.rt, &info);
	assert_int_equal(info.running, 1);
	assert_int_equal(info.queued, 5);
	for (size_t i = 0; i < ARRAY_SIZE(served); i++) {
		struct fake_sandbox *s = fake_busy(&f);
		assert_non_null(s);
		assert_int_equal(s->tenant, served[i]);
		assert_null(fake_busy(&f));
		fake_started(s);
		fake_turn(&f);
		fake_exited(s, 0);
		fake_turn(&f);
	}
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		assert_int_equal(calls[i].done, 1);
	fake_stop(&f);
}

static void no_more_run_than_the_host_has_memory_for(void **state)
{
	/* Also a host that is too small for one runs one. */
	static const uint32_t offered[] = { 0, 1, 2, 3, 100 }, most[] = { 1, 1, 2, 3, 3 };
	struct native_config config = fake_config;

	config.running_max = 3;
	for (size_t i = 0; i < ARRAY_SIZE(offered); i++) {
		const struct runtime_exec_spec spec = spec_of();
		struct runtime_info info;
		struct call calls[4];
		struct fake f;

		fake_open(&f, &config);
		f.at_once = offered[i];
		fake_greet(&f);
		for (size_t k = 0; k < ARRAY_SIZE(calls); k++)
			start(&f, &calls[k], &spec);
		runtime_info_get(f.rt, &info);
		assert_int_equal(info.running_max, most[i]);
		assert_int_equal(info.running, most[i]);
		assert_int_equal(info.queued, 4 - most[i]);
		fake_stop(&f);
	}
}

static void who_waits_too_long_is_told_that_the_server_is_busy(void **state)
{
	struct native_config config = fake_config;
	struct runtime_exec_spec spec = spec_of();
	struct fake f;
	struct call first, second;

	config.running_max = 1;
	fake_start(&f, &config);
	spec.timeout_ms = 60000;
	start(&f, &first, &spec);
	fake_started(fake_busy(&f));
	fake_turn(&f);
	start(&f, &second, &spec);
	fake_advance(&f, EXEC_QUEUE_MS - 1);
	assert_int_equal(second.done, 0);
	fake_advance(&f, 1);
	assert_int_equal(second.done, 1);
	assert_string_equal(second.err.slug, "busy");
	assert_int_equal(second.started, 0);
	assert_int_equal(first.done, 0);
	fake_stop(&f);
}

static void who_waited_long_has_less_time_to_start(void **state)
{
	struct native_config config = fake_config;
	struct runtime_exec_spec spec = spec_of();
	struct fake f;
	struct call first, second;

	config.running_max = 1;
	fake_start(&f, &config);
	spec.timeout_ms = 60000;
	start(&f, &first, &spec);
	struct fake_sandbox *s = fake_busy(&f);
	fake_started(s);
	fake_turn(&f);
	start(&f, &second, &spec);
	fake_advance(&f, EXEC_QUEUE_MS - 1);
	fake_exited(s, 0);
	fake_turn(&f);
	assert_int_equal(first.done, 1);
	fake_advance(&f, EXEC_LATE_MS);
	assert_int_equal(second.done, 0);
	fake_advance(&f, 1);
	assert_int_equal(second.done, 1);
	assert_string_equal(second.err.slug, "internal");
	fake_stop(&f);
}

static void the_end_of_the_launcher_ends_everything_once(void **state)
{
	const struct runtime_exec_spec spec = spec_of();
	struct native_config config = fake_config;
	struct fake f;
	struct call running, queued, later;
	struct runtime_info info;

	config.running_max = 1;
	fake_start(&f, &config);
	begin_running(&f, &running);
	start(&f, &queued, &spec);
	close(f.launcher);
	f.launcher = -1;
	fake_turn(&f);
	assert_true(f.lost);
	assert_int_equal(running.done, 1);
	assert_int_equal(running.result.exit_code, 137);
	assert_int_equal(queued.done, 1);
	assert_string_equal(queued.err.slug, "busy");
	start(&f, &later, &spec);
	assert_string_equal(later.err.slug, "busy");
	runtime_info_get(f.rt, &info);
	assert_false(info.ready);
	fake_stop(&f);
}

/* Nothing has run, so that it may be asked for again. */
static void a_launcher_that_has_just_gone_is_no_failure(void **state)
{
	const struct runtime_exec_spec spec = spec_of();
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	runtime_warm(f.rt, 1, FAKE_IMAGE, false);
	fake_turn(&f);
	assert_int_equal(f.n, 1);
	close(f.launcher);
	f.launcher = -1;
	start(&f, &c, &spec);
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_int_equal(c.started, 0);
	assert_string_equal(c.err.slug, "busy");
	fake_stop(&f);
}

/* A flood is taken in bounded portions; the time-out strikes meanwhile. */
static void a_flood_does_not_hold_up_the_time_out(void **state)
{
	struct runtime_exec_spec spec = spec_of();
	struct fake f;
	struct call c;
	char *flood = mem_new(MIB, 1);

	fake_start(&f, &fake_config);
	spec.timeout_ms = 1000;
	start(&f, &c, &spec);
	struct fake_sandbox *s = fake_busy(&f);
	fake_started(s);
	fake_turn(&f);
	assert_int_equal(fcntl(s->fds[1], F_SETFL, O_NONBLOCK), 0);
	for (int i = 0; i < 64; i++) {
		assert_true(write(s->fds[1], flood, MIB) > 0);
		fake_turn(&f);
	}
	assert_true(c.n_live[0] > 2 * MIB);
	fake_advance(&f, 1000);
	assert_true(s->killed);
	assert_int_equal(c.done, 1);
	free(flood);
	fake_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_command_runs_and_its_streams_stay_apart),
		cmocka_unit_test(the_hand_over_is_sent_before_the_command),
		cmocka_unit_test(the_specification_is_exact_and_sealed),
		cmocka_unit_test(the_write_ends_may_be_opened_again_by_another_uid_and_block),
		cmocka_unit_test(stdin_is_a_sealed_copy),
		cmocka_unit_test(output_beyond_the_limit_keeps_head_and_tail),
		cmocka_unit_test(a_death_by_signal_is_128_and_the_signal),
		cmocka_unit_test(a_time_out_kills_at_once_and_keeps_what_was_printed),
		cmocka_unit_test(who_ended_in_time_did_so_however_late_it_is_heard),
		cmocka_unit_test(who_ended_too_late_did_not),
		cmocka_unit_test(who_has_not_ended_is_killed_at_once),
		cmocka_unit_test(a_sandbox_that_does_not_go_delays_the_answer_only_so_long),
		cmocka_unit_test(an_answer_after_the_time_out_does_not_undo_it),
		cmocka_unit_test(init_gone_without_a_word_is_137),
		cmocka_unit_test(init_gone_with_an_oom_kill_is_memory),
		cmocka_unit_test(an_oom_kill_in_a_command_that_ended_well_counts_for_all_of_it),
		cmocka_unit_test(an_oom_kill_while_it_runs_ends_the_rest_soon),
		cmocka_unit_test(pipes_held_open_are_read_for_a_quarter_second_more),
		cmocka_unit_test(what_came_in_that_time_is_read_however_late),
		cmocka_unit_test(early_end_of_output_does_not_end_the_command),
		cmocka_unit_test(a_sandbox_that_stays_after_its_command_is_killed),
		cmocka_unit_test(kill_ends_it_with_137_in_every_state),
		cmocka_unit_test(a_refusal_has_the_word_of_its_cause),
		cmocka_unit_test(a_sandbox_that_was_dead_already_is_replaced),
		cmocka_unit_test(but_not_for_ever),
		cmocka_unit_test(a_missing_workspace_is_not_tried_again),
		cmocka_unit_test(an_init_that_dies_before_the_start_is_an_error_not_a_result),
		cmocka_unit_test(an_init_that_says_nothing_is_given_up),
		cmocka_unit_test(an_unknown_workspace_and_an_endless_command_are_refused),
		cmocka_unit_test(a_message_out_of_turn_ends_the_sandbox_alone),
		cmocka_unit_test(a_datagram_that_is_no_message_ends_the_sandbox_alone),
		cmocka_unit_test(descriptors_from_init_are_refused),
		cmocka_unit_test(a_lying_clock_does_not_lengthen_the_command),
		cmocka_unit_test(tenants_take_turns),
		cmocka_unit_test(no_more_run_than_the_host_has_memory_for),
		cmocka_unit_test(who_waits_too_long_is_told_that_the_server_is_busy),
		cmocka_unit_test(who_waited_long_has_less_time_to_start),
		cmocka_unit_test(the_end_of_the_launcher_ends_everything_once),
		cmocka_unit_test(a_launcher_that_has_just_gone_is_no_failure),
		cmocka_unit_test(a_flood_does_not_hold_up_the_time_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
