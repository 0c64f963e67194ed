// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "core/native/fake.h"

struct call {
	struct runtime_file *job;
	unsigned done;
	char bytes[256]; /* the first ones */
	size_t n_bytes;
	struct runtime_file_result result;
	const char *slug; /* NULL: good */
};

static void on_read(void *data, const struct runtime_file_result *result, struct str bytes,
		    const struct err *err)
{
	struct call *c = data;

	c->done++;
	c->result = *result;
	c->slug = err ? err->slug : NULL;
	if (err)
		assert_string_equal(err->text, "");
	c->n_bytes = bytes.len;
	if (!err && bytes.len)
		memcpy(c->bytes, bytes.data,
		       bytes.len < sizeof(c->bytes) ? bytes.len : sizeof(c->bytes));
}

static void on_write(void *data, const struct runtime_file_result *result, const struct err *err)
{
	on_read(data, result, (struct str){ NULL, 0 }, err);
}

static const struct runtime_file_spec spec = { FAKE_VOLUME, 1, FAKE_IMAGE, { "dir/a.txt", 9 } };

static void start_read(struct fake *f, struct call *c, uint64_t max)
{
	*c = (struct call){ 0 };
	c->job = runtime_file_read(f->rt, &spec, max, on_read, c);
	assert_int_equal(c->done, 0);
	fake_turn(f);
}

static void start_write(struct fake *f, struct call *c, struct str bytes)
{
	*c = (struct call){ 0 };
	c->job = runtime_file_write(f->rt, &spec, bytes, 5000, on_write, c);
	assert_int_equal(c->done, 0);
	fake_turn(f);
}

/* The file sandbox with a new job. */
static struct fake_sandbox *worker(struct fake *f)
{
	struct fake_sandbox *s = fake_busy(f);

	assert_non_null(s);
	assert_int_equal(s->got, DI_FILE);
	return s;
}

static struct di_file asked(const struct fake_sandbox *s)
{
	struct di_file body;

	memcpy(&body, s->body, sizeof(body));
	return body;
}

static void say(struct fake_sandbox *s, uint8_t type, struct id_file body)
{
	fake_say(s, type, s->job, &body, sizeof(body));
}

/* Answers a read job properly. */
static void give(struct fake *f, struct fake_sandbox *s, const char *text)
{
	const struct id_file body = { .size = strlen(text), .mode = 0640 };

	say(s, ID_FILE, body);
	assert_int_equal(write(s->fds[1], text, strlen(text)), strlen(text));
	fake_drop_fds(s);
	say(s, ID_FILE_END, body);
	fake_turn(f);
}

static void end(struct fake *f, struct fake_sandbox *s, enum file_code code)
{
	fake_drop_fds(s);
	say(s, ID_FILE_END,
	    (struct id_file){ .code = code, .errno_code = 5, .size = 77, .used = 88 });
	fake_turn(f);
}

/* ---- Reading ---- */

static void a_file_is_read_whole(void **state)
{
	struct fake f;
	struct call c;
	char path[32];

	fake_start(&f, &fake_config);
	start_read(&f, &c, 1000);
	struct fake_sandbox *s = worker(&f);
	assert_int_equal(asked(s).op, FILE_READ);
	assert_int_equal(asked(s).max, 1000);
	assert_int_equal(s->n_fds, 2);
	assert_int_equal(pread(s->fds[0], path, sizeof(path), 0), 10);
	assert_string_equal(path, "dir/a.txt");
	assert_int_equal(fcntl(s->fds[0], F_GET_SEALS),
			 F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
	give(&f, s, "hello");
	assert_int_equal(c.done, 1);
	assert_null(c.slug);
	assert_int_equal(c.n_bytes, 5);
	assert_memory_equal(c.bytes, "hello", 5);
	assert_int_equal(c.result.size, 5);
	assert_int_equal(c.result.mode, 0640);
	fake_stop(&f);
}

static void an_empty_file_is_empty(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	start_read(&f, &c, 1000);
	give(&f, worker(&f), "");
	assert_int_equal(c.done, 1);
	assert_null(c.slug);
	assert_int_equal(c.n_bytes, 0);
	fake_stop(&f);
}

static void a_large_file_comes_through_a_full_pipe(void **state)
{
	const struct id_file body = { .size = 3 * MIB };
	struct fake f;
	struct call c;
	char *block = mem_new(MIB, 1);
	size_t sent = 0;

	fake_start(&f, &fake_config);
	start_read(&f, &c, 4 * MIB);
	struct fake_sandbox *s = worker(&f);
	say(s, ID_FILE, body);
	assert_int_equal(fcntl(s->fds[1], F_SETFL, O_NONBLOCK), 0);
	while (sent < body.size) {
		size_t left = body.size - sent < MIB ? body.size - sent : MIB;
		ssize_t n = write(s->fds[1], block, left);
		if (n > 0)
			sent += (size_t)n;
		fake_turn(&f);
	}
	fake_drop_fds(s);
	say(s, ID_FILE_END, body);
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_null(c.slug);
	assert_int_equal(c.n_bytes, body.size);
	free(block);
	fake_stop(&f);
}

static void a_file_that_shrank_meanwhile_is_read_again(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	start_read(&f, &c, 1000);
	struct fake_sandbox *s = worker(&f);
	say(s, ID_FILE, (struct id_file){ .size = 100 });
	assert_int_equal(write(s->fds[1], "half", 4), 4);
	end(&f, s, FILE_ERR_SHORT);
	assert_int_equal(c.done, 0);
	assert_true(fake_receive(s));
	give(&f, s, "now");
	assert_int_equal(c.done, 1);
	assert_null(c.slug);
	assert_int_equal(c.n_bytes, 3);
	fake_stop(&f);
}

/* ---- Writing ---- */

static void a_small_file_is_in_the_pipe_before_init_looks(void **state)
{
	struct fake f;
	struct call c;
	char bytes[16];

	fake_start(&f, &fake_config);
	runtime_warm(f.rt, 1, FAKE_IMAGE, false);
	fake_turn(&f);
	c = (struct call){ 0 };
	runtime_file_write(f.rt, &spec, STR("content"), 5000, on_write, &c);
	struct fake_sandbox *s = &f.sandboxes[0];
	assert_true(fake_receive(s)); /* without a turn of the loop */
	assert_int_equal(asked(s).op, FILE_WRITE);
	assert_int_equal(asked(s).size, 7);
	assert_int_equal(asked(s).mode, 0644);
	assert_int_equal(asked(s).quota, 5000);
	assert_int_equal(read(s->fds[1], bytes, sizeof(bytes)), 7);
	assert_memory_equal(bytes, "content", 7);
	assert_int_equal(read(s->fds[1], bytes, sizeof(bytes)), 0);
	say(s, ID_FILE_END, (struct id_file){ .size = 7 });
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_null(c.slug);
	assert_int_equal(c.result.size, 7);
	fake_stop(&f);
}

static void a_large_file_is_written_in_portions(void **state)
{
	struct fake f;
	struct call c;
	const size_t len = 5 * MIB;
	char *bytes = mem_new(len, 1), *piece = mem_new(MIB, 1);
	size_t got = 0;
	ssize_t n;

	fake_start(&f, &fake_config);
	start_write(&f, &c, (struct str){ bytes, len });
	struct fake_sandbox *s = worker(&f);
	while ((n = read(s->fds[1], piece, MIB)) > 0) {
		got += (size_t)n;
		if (got < len)
			fake_turn(&f);
	}
	assert_int_equal(got, len);
	say(s, ID_FILE_END, (struct id_file){ .size = len });
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_null(c.slug);
	free(bytes);
	free(piece);
	fake_stop(&f);
}

static void a_worker_that_stops_reading_says_why(void **state)
{
	struct fake f;
	struct call c;
	const size_t len = 5 * MIB;
	char *bytes = mem_new(len, 1);

	fake_start(&f, &fake_config);
	start_write(&f, &c, (struct str){ bytes, len });
	struct fake_sandbox *s = worker(&f);
	fake_drop_fds(s);
	fake_turn(&f);
	assert_int_equal(c.done, 0);
	say(s, ID_FILE_END, (struct id_file){ .code = FILE_ERR_QUOTA, .used = 123456 });
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_string_equal(c.slug, "quota");
	assert_int_equal(c.result.used_bytes, 123456);
	assert_false(s->killed);
	free(bytes);
	fake_stop(&f);
}

static void detaching_breaks_a_write_off_so_that_nothing_changes(void **state)
{
	struct fake f;
	struct call c;
	const size_t len = 5 * MIB;
	char *bytes = mem_new(len, 1), *piece = mem_new(MIB, 1);
	size_t got = 0;
	ssize_t n;

	fake_start(&f, &fake_config);
	start_write(&f, &c, (struct str){ bytes, len });
	runtime_file_detach(c.job);
	free(bytes); /* borrowed no longer */
	struct fake_sandbox *s = worker(&f);
	fake_turn(&f);
	while ((n = read(s->fds[1], piece, MIB)) > 0)
		got += (size_t)n;
	assert_true(got < len);
	end(&f, s, FILE_ERR_SHORT);
	assert_int_equal(c.done, 0);
	assert_false(s->killed);
	free(piece);
	fake_stop(&f);
}

static void usage_is_what_the_walk_found(void **state)
{
	struct fake f;
	struct call c = { 0 };

	fake_start(&f, &fake_config);
	runtime_file_usage(f.rt, &spec, on_write, &c);
	fake_turn(&f);
	struct fake_sandbox *s = worker(&f);
	assert_int_equal(asked(s).op, FILE_USAGE);
	assert_int_equal(s->n_fds, 1);
	say(s, ID_FILE_END, (struct id_file){ .size = 40960, .used = 12 });
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_int_equal(c.result.used_bytes, 40960);
	assert_int_equal(c.result.size, 12);
	fake_stop(&f);
}

/* ---- Refusals ---- */

static const struct {
	uint32_t code;
	const char *slug;
} refusals[] = {
	{ FILE_ERR_MISSING, "file_not_found" },
	{ FILE_ERR_OUTSIDE, "path_outside" },
	{ FILE_ERR_FOLDER, "is_folder" },
	{ FILE_ERR_NOT_REGULAR, "not_regular_file" },
	{ FILE_ERR_NOT_IN_FOLDER, "not_in_folder" },
	{ FILE_ERR_DENIED, "permission_denied" },
	{ FILE_ERR_TOO_LARGE, "file_too_large" },
	{ FILE_ERR_QUOTA, "quota" },
	{ FILE_ERR_INODES, "too_many_files" },
	{ FILE_ERR_CHANGED, "changed" },
	{ FILE_ERR_DEEP, "too_deep" },
	{ FILE_ERR_SYSTEM, "internal" },
	{ 4711, "internal" },
};

static void a_refusal_has_the_word_of_its_cause_and_the_sandbox_stays(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		start_read(&f, &c, 1000);
		struct fake_sandbox *s = worker(&f);
		end(&f, s, (enum file_code)refusals[i].code);
		assert_int_equal(c.done, 1);
		assert_string_equal(c.slug, refusals[i].slug);
		assert_false(s->killed);
	}
	fake_stop(&f);
}

static void an_unknown_workspace_is_refused(void **state)
{
	const struct runtime_file_spec other = { "sbx_ffffffffffff", 1, FAKE_IMAGE, { "a", 1 } };
	struct call c = { 0 };
	struct fake f;

	fake_start(&f, &fake_config);
	runtime_file_read(f.rt, &other, 10, on_read, &c);
	assert_int_equal(c.done, 0);
	fake_turn(&f);
	assert_string_equal(c.slug, "internal");
	fake_stop(&f);
}

/* ---- The worker is hostile ---- */

static void check_hostile(struct fake *f, struct call *c, struct fake_sandbox *s)
{
	fake_turn(f);
	assert_int_equal(c->done, 1);
	assert_string_equal(c->slug, "internal");
	assert_true(s->killed);
	assert_true(f->rt->link.state == LINK_READY);
	/* The next job gets another sandbox. */
	start_read(f, c, 100);
	give(f, worker(f), "fine");
	assert_null(c->slug);
}

static void more_bytes_than_announced(struct fake_sandbox *s)
{
	say(s, ID_FILE, (struct id_file){ .size = 3 });
	assert_int_equal(write(s->fds[1], "four", 4), 4);
}

static void more_bytes_than_allowed_before_announcing(struct fake_sandbox *s)
{
	char many[1001] = { 0 };

	assert_int_equal(write(s->fds[1], many, sizeof(many)), sizeof(many));
}

static void fewer_bytes_than_announced(struct fake_sandbox *s)
{
	say(s, ID_FILE, (struct id_file){ .size = 10 });
	assert_int_equal(write(s->fds[1], "four", 4), 4);
	fake_drop_fds(s);
	say(s, ID_FILE_END, (struct id_file){ .size = 10 });
}

static void a_size_beyond_the_maximum(struct fake_sandbox *s)
{
	say(s, ID_FILE, (struct id_file){ .size = 1001 });
}

static void the_largest_size_there_is(struct fake_sandbox *s)
{
	say(s, ID_FILE, (struct id_file){ .size = UINT64_MAX });
}

static void an_end_without_a_beginning(struct fake_sandbox *s)
{
	say(s, ID_FILE_END, (struct id_file){ .size = 0 });
}

static void a_second_beginning(struct fake_sandbox *s)
{
	say(s, ID_FILE, (struct id_file){ .size = 3 });
	say(s, ID_FILE, (struct id_file){ .size = 5 });
}

static void an_answer_to_another_job(struct fake_sandbox *s)
{
	const struct id_file body = { .size = 0 };

	fake_say(s, ID_FILE_END, s->job + 1, &body, sizeof(body));
}

static void the_start_of_a_command(struct fake_sandbox *s)
{
	fake_started(s);
}

static void silence_and_death(struct fake_sandbox *s)
{
	fake_die(s);
}

static void lies_cost_the_sandbox_and_that_job_alone(void **state)
{
	static void (*const lies[])(struct fake_sandbox * s) = {
		more_bytes_than_announced,  more_bytes_than_allowed_before_announcing,
		fewer_bytes_than_announced, a_size_beyond_the_maximum,
		the_largest_size_there_is,  an_end_without_a_beginning,
		a_second_beginning,	    an_answer_to_another_job,
		the_start_of_a_command,	    silence_and_death,
	};

	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		struct fake f;
		struct call c;
		fake_start(&f, &fake_config);
		start_read(&f, &c, 1000);
		struct fake_sandbox *s = worker(&f);
		lies[i](s);
		check_hostile(&f, &c, s);
		fake_stop(&f);
	}
}

static void a_write_confirmed_with_another_size_is_no_success(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	start_write(&f, &c, STR("content"));
	struct fake_sandbox *s = worker(&f);
	say(s, ID_FILE_END, (struct id_file){ .size = 6 });
	check_hostile(&f, &c, s);
	fake_stop(&f);
}

static void an_answer_nobody_asked_for_costs_an_idle_file_sandbox(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	start_read(&f, &c, 1000);
	struct fake_sandbox *s = worker(&f);
	give(&f, s, "fine");
	say(s, ID_FILE_END, (struct id_file){ .size = 0 });
	fake_turn(&f);
	assert_true(s->killed);
	fake_stop(&f);
}

static void a_job_that_never_ends_is_given_up(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	start_read(&f, &c, 1000);
	struct fake_sandbox *s = worker(&f);
	fake_advance(&f, FILE_JOB_MS - 1);
	assert_int_equal(c.done, 0);
	fake_advance(&f, 1);
	check_hostile(&f, &c, s);
	fake_stop(&f);
}

/* ---- Order and places ---- */

static void jobs_of_one_workspace_run_one_at_a_time_in_order(void **state)
{
	struct fake f;
	struct call a, b, c;

	fake_start(&f, &fake_config);
	start_read(&f, &a, 1000);
	start_read(&f, &b, 1000);
	start_read(&f, &c, 1000);
	struct fake_sandbox *s = worker(&f);
	assert_null(fake_busy(&f));
	runtime_file_detach(b.job);
	give(&f, s, "first");
	assert_int_equal(a.done, 1);
	assert_int_equal(c.done, 0);
	assert_ptr_equal(worker(&f), s); /* the same one goes on */
	give(&f, s, "third");
	assert_int_equal(c.done, 1);
	assert_memory_equal(c.bytes, "third", 5);
	assert_int_equal(b.done, 0);
	fake_stop(&f);
}

static void the_sandbox_is_kept_for_five_seconds_after_the_last_job(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	start_read(&f, &c, 1000);
	struct fake_sandbox *s = worker(&f);
	give(&f, s, "one");
	fake_advance(&f, BOX_KEEP_MS - 1);
	assert_false(s->killed);
	start_read(&f, &c, 1000);
	assert_ptr_equal(worker(&f), s);
	give(&f, s, "two");
	fake_advance(&f, BOX_KEEP_MS - 1);
	assert_false(s->killed);
	fake_advance(&f, 1);
	assert_true(s->killed);
	assert_null(volume_find(f.rt, FAKE_VOLUME)->box);
	fake_stop(&f);
}

static void name_of(char name[MSG_VOLUME_NAME], unsigned i)
{
	snprintf(name, MSG_VOLUME_NAME, "sbx_%012x", i);
}

static void start_on(struct fake *f, struct call *c, unsigned i)
{
	char name[MSG_VOLUME_NAME];
	const struct runtime_file_spec on = { name, 1, FAKE_IMAGE, { "a", 1 } };

	name_of(name, i);
	volume_add(f->rt, name, 1);
	*c = (struct call){ 0 };
	c->job = runtime_file_read(f->rt, &on, 1000, on_read, c);
	fake_turn(f);
}

static void at_most_so_many_are_alive_and_the_longest_idle_makes_room(void **state)
{
	struct call calls[BOXES_MAX + 2];
	struct fake_sandbox *sandboxes[BOXES_MAX];
	struct fake f;

	fake_start(&f, &fake_config);
	for (unsigned i = 0; i < BOXES_MAX; i++) {
		start_on(&f, &calls[i], i);
		sandboxes[i] = worker(&f);
	}
	/* All busy: the next ones wait. */
	start_on(&f, &calls[BOXES_MAX], BOXES_MAX);
	start_on(&f, &calls[BOXES_MAX + 1], BOXES_MAX + 1);
	assert_null(fake_busy(&f));
	assert_int_equal(f.rt->boxes.places, BOXES_MAX);
	/* The first that becomes idle gives its place to the first that waits. */
	give(&f, sandboxes[7], "seven");
	assert_int_equal(calls[7].done, 1);
	assert_true(sandboxes[7]->killed);
	struct fake_sandbox *s = worker(&f);
	char name[MSG_VOLUME_NAME];
	name_of(name, BOXES_MAX);
	assert_string_equal(s->volume, name);
	assert_null(fake_busy(&f));
	/* Of several idle ones the longest idle goes. */
	runtime_file_detach(calls[BOXES_MAX + 1].job);
	give(&f, sandboxes[3], "three");
	fake_advance(&f, 10);
	give(&f, sandboxes[1], "one");
	start_on(&f, &calls[BOXES_MAX + 1], BOXES_MAX + 1);
	assert_true(sandboxes[3]->killed);
	assert_false(sandboxes[1]->killed);
	assert_non_null(worker(&f));
	fake_stop(&f);
}

static void who_waits_too_long_is_told_that_the_server_is_busy(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	f.builds = false;
	start_read(&f, &c, 1000);
	fake_advance(&f, FILE_QUEUE_MS);
	assert_int_equal(c.done, 1);
	assert_string_equal(c.slug, "busy");
	fake_stop(&f);
}

static void a_second_try_has_no_time_of_its_own(void **state)
{
	struct runtime_file_spec soon = spec;
	struct fake f;
	struct call c = { 0 };

	fake_start(&f, &fake_config);
	soon.queue_ms = 7000;
	runtime_file_read(f.rt, &soon, 1000, on_read, &c);
	fake_turn(&f);
	f.builds = false;
	for (unsigned i = 1; i < FILE_TRIES; i++) {
		struct fake_sandbox *s = worker(&f);
		const struct ld_handover_failed body = { s->id, EPIPE };
		fake_advance(&f, 3000);
		fake_tell(&f, LD_HANDOVER_FAILED, 0, &body, sizeof(body));
		fake_gone(&f, s);
		fake_turn(&f);
	}
	assert_null(fake_busy(&f));
	fake_advance(&f, 999);
	assert_int_equal(c.done, 0);
	fake_advance(&f, 1);
	assert_int_equal(c.done, 1);
	assert_string_equal(c.slug, "busy");
	fake_stop(&f);
}

static void without_a_sandbox_there_is_no_capacity(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	f.builds = false;
	start_read(&f, &c, 1000);
	fake_fail_build(&f);
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_string_equal(c.slug, "no_capacity");
	fake_stop(&f);
}

static void a_sandbox_that_was_dead_already_is_replaced(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	start_read(&f, &c, 1000);
	struct fake_sandbox *s = worker(&f);
	const struct ld_handover_failed body = { s->id, EPIPE };
	fake_tell(&f, LD_HANDOVER_FAILED, 0, &body, sizeof(body));
	fake_gone(&f, s);
	fake_turn(&f);
	assert_int_equal(c.done, 0);
	give(&f, worker(&f), "second");
	assert_int_equal(c.done, 1);
	assert_null(c.slug);
	fake_stop(&f);
}

static void init_dead_between_two_jobs_is_not_noticed_by_the_second(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	start_read(&f, &c, 1000);
	struct fake_sandbox *s = worker(&f);
	give(&f, s, "one");
	fake_die(s);
	/* Before the loop could see it. */
	c = (struct call){ 0 };
	runtime_file_read(f.rt, &spec, 1000, on_read, &c);
	fake_turn(&f);
	give(&f, worker(&f), "two");
	assert_int_equal(c.done, 1);
	assert_null(c.slug);
	fake_stop(&f);
}

static void a_lost_launcher_fails_jobs_once(void **state)
{
	struct fake f;
	struct call a, b;

	fake_start(&f, &fake_config);
	start_read(&f, &a, 1000);
	start_read(&f, &b, 1000);
	close(f.launcher);
	f.launcher = -1;
	fake_turn(&f);
	assert_int_equal(a.done, 1);
	assert_int_equal(b.done, 1);
	start_read(&f, &a, 1000);
	assert_int_equal(a.done, 1);
	assert_string_equal(a.slug, "busy");
	fake_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_read_whole),
		cmocka_unit_test(an_empty_file_is_empty),
		cmocka_unit_test(a_large_file_comes_through_a_full_pipe),
		cmocka_unit_test(a_file_that_shrank_meanwhile_is_read_again),
		cmocka_unit_test(a_small_file_is_in_the_pipe_before_init_looks),
		cmocka_unit_test(a_large_file_is_written_in_portions),
		cmocka_unit_test(a_worker_that_stops_reading_says_why),
		cmocka_unit_test(detaching_breaks_a_write_off_so_that_nothing_changes),
		cmocka_unit_test(usage_is_what_the_walk_found),
		cmocka_unit_test(a_refusal_has_the_word_of_its_cause_and_the_sandbox_stays),
		cmocka_unit_test(an_unknown_workspace_is_refused),
		cmocka_unit_test(lies_cost_the_sandbox_and_that_job_alone),
		cmocka_unit_test(a_write_confirmed_with_another_size_is_no_success),
		cmocka_unit_test(an_answer_nobody_asked_for_costs_an_idle_file_sandbox),
		cmocka_unit_test(a_job_that_never_ends_is_given_up),
		cmocka_unit_test(jobs_of_one_workspace_run_one_at_a_time_in_order),
		cmocka_unit_test(the_sandbox_is_kept_for_five_seconds_after_the_last_job),
		cmocka_unit_test(at_most_so_many_are_alive_and_the_longest_idle_makes_room),
		cmocka_unit_test(who_waits_too_long_is_told_that_the_server_is_busy),
		cmocka_unit_test(a_second_try_has_no_time_of_its_own),
		cmocka_unit_test(without_a_sandbox_there_is_no_capacity),
		cmocka_unit_test(a_sandbox_that_was_dead_already_is_replaced),
		cmocka_unit_test(init_dead_between_two_jobs_is_not_noticed_by_the_second),
		cmocka_unit_test(a_lost_launcher_fails_jobs_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
