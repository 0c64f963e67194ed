// SPDX-License-Identifier: Apache-2.0
/* Archives, and the look before them, against an init played by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "core/native/fake.h"

#define QUEUE_MS 7000

static const struct runtime_file_spec spec = { FAKE_VOLUME, 1, FAKE_IMAGE, { "repo", 4 }, QUEUE_MS };

struct call {
	struct runtime_file *job;
	int fd; /* owned */
	unsigned done;
	struct runtime_file_result result;
	const char *slug; /* NULL: good */
};

static void on_done(void *data, const struct runtime_file_result *result, const struct err *err)
{
	struct call *c = data;

	c->done++;
	c->result = *result;
	c->slug = err ? err->slug : NULL;
}

static void start(struct fake *f, struct call *c, size_t len, uint64_t size)
{
	*c = (struct call){ .fd = memfd_create("archive", MFD_CLOEXEC) };
	for (size_t i = 0; i < len; i += 4) {
		uint32_t word = (uint32_t)i * 2654435761u;
		assert_int_equal(pwrite(c->fd, &word, sizeof(word), (off_t)i), sizeof(word));
	}
	c->job = runtime_unpack(f->rt, &spec, &(struct runtime_unpack){ c->fd, size, 5 * MIB },
				on_done, c);
	assert_int_equal(c->done, 0);
	fake_turn(f);
}

static struct fake_sandbox *worker(struct fake *f)
{
	struct fake_sandbox *s = fake_busy(f);

	assert_non_null(s);
	assert_int_equal(s->got, DI_FILE);
	return s;
}

/* Reads the pipe to its end, as the worker does, and compares. */
static size_t drink(struct fake *f, struct fake_sandbox *s)
{
	static uint32_t words[64 * 1024];
	size_t got = 0;
	unsigned still = 0;

	assert_int_equal(s->n_fds, 2);
	assert_int_equal(fcntl(s->fds[1], F_SETFL, O_NONBLOCK), 0);
	while (still < 50) {
		ssize_t n = read(s->fds[1], words, sizeof(words));
		if (n == 0)
			break;
		still = n < 0 ? still + 1 : 0;
		for (ssize_t i = 0; i + 4 <= n; i += 4)
			assert_int_equal(words[i / 4], (uint32_t)(got + (size_t)i) * 2654435761u);
		got += n > 0 ? (size_t)n : 0;
		fake_turn(f);
	}
	return got;
}

static void say(struct fake *f, struct fake_sandbox *s, struct id_file body)
{
	fake_say(s, ID_FILE_END, s->job, &body, sizeof(body));
	fake_turn(f);
}

static void an_archive_reaches_the_worker_whole(void **state)
{
	static const size_t lens[] = { 0, 4, 64 * KIB, 64 * KIB + 4, 5 * MIB };
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		/* The file may have more; that is not sent. */
		start(&f, &c, lens[i] + 8, lens[i]);
		struct fake_sandbox *s = worker(&f);
		struct di_file asked;
		memcpy(&asked, s->body, sizeof(asked));
		assert_int_equal(asked.op, FILE_UNPACK);
		assert_int_equal(asked.size, lens[i]);
		assert_int_equal(asked.quota, 5 * MIB);
		assert_int_equal(drink(&f, s), lens[i]);
		assert_int_equal(c.done, 0);
		say(&f, s, (struct id_file){ .size = 3, .used = 12345 });
		assert_int_equal(c.done, 1);
		assert_null(c.slug);
		assert_int_equal(c.result.size, 3);
		assert_int_equal(c.result.used_bytes, 12345);
		close(c.fd);
	}
	fake_stop(&f);
}

static void a_refusal_says_what_is_wrong(void **state)
{
	static const struct {
		struct id_file body;
		const char *slug;
	} rows[] = {
		{ { FILE_ERR_ARCHIVE, FILE_ARCHIVE_BROKEN }, "unpack_failed" },
		{ { FILE_ERR_ARCHIVE, FILE_ARCHIVE_TIME }, "unpack_failed" },
		{ { FILE_ERR_ARCHIVE, FILE_ARCHIVE_MEMORY }, "unpack_failed" },
		{ { FILE_ERR_ARCHIVE, FILE_ARCHIVE_KILLED }, "unpack_failed" },
		{ { FILE_ERR_ARCHIVE, FILE_ARCHIVE_CRASHED }, "unpack_failed" },
		{ { FILE_ERR_EXISTS, EEXIST }, "exists" },
		{ { FILE_ERR_QUOTA, EDQUOT, .used = 77 }, "quota" },
		{ { FILE_ERR_INODES, 0 }, "too_many_files" },
	};
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		start(&f, &c, 2 * MIB, 2 * MIB);
		/* Before it has taken the bytes. */
		say(&f, worker(&f), rows[i].body);
		assert_int_equal(c.done, 1);
		assert_string_equal(c.slug, rows[i].slug);
		if (rows[i].body.code == FILE_ERR_ARCHIVE)
			assert_int_equal(c.result.fault, rows[i].body.errno_code);
		assert_int_equal(c.result.used_bytes, rows[i].body.used);
		close(c.fd);
	}
	fake_stop(&f);
}

static void lies_of_the_worker_are_hostile(void **state)
{
	static const struct id_file lies[] = {
		{ FILE_OK, 0, .size = 1 }, /* not all bytes were taken */
		{ FILE_ERR_ARCHIVE, 0 },
		{ FILE_ERR_ARCHIVE, FILE_ARCHIVE_CRASHED + 1 },
		{ FILE_ERR_ARCHIVE, UINT32_MAX },
	};
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		start(&f, &c, 2 * MIB, 2 * MIB);
		struct fake_sandbox *s = worker(&f);
		say(&f, s, lies[i]);
		assert_int_equal(c.done, 1);
		assert_string_equal(c.slug, "internal");
		assert_true(s->killed);
		close(c.fd);
		fake_gone(&f, s);
		fake_turn(&f);
	}
	fake_stop(&f);
}

/* One process of it, or all of it. */
static void what_was_killed_is_told_apart_from_what_took_too_much_memory(void **state)
{
	static const struct {
		bool whole, memory;
		enum runtime_archive_fault fault;
	} rows[] = {
		{ false, false, RUNTIME_ARCHIVE_KILLED },
		{ false, true, RUNTIME_ARCHIVE_MEMORY },
		{ true, false, RUNTIME_ARCHIVE_KILLED },
		{ true, true, RUNTIME_ARCHIVE_MEMORY },
	};
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		start(&f, &c, 2 * MIB, 2 * MIB);
		struct fake_sandbox *s = worker(&f);
		if (rows[i].memory)
			fake_measure(s, SLOT_FD_OOM, "oom_kill 1\n");
		if (rows[i].whole)
			fake_die(s);
		else
			fake_say(s, ID_FILE_END, s->job,
				 &(struct id_file){ FILE_ERR_ARCHIVE, FILE_ARCHIVE_KILLED },
				 sizeof(struct id_file));
		fake_turn(&f);
		assert_int_equal(c.done, 1);
		assert_string_equal(c.slug, "unpack_failed");
		assert_int_equal(c.result.fault, rows[i].fault);
		fake_measure(s, SLOT_FD_OOM, "oom_kill 0\n");
		close(c.fd);
	}
	fake_stop(&f);
}

static void a_file_that_is_shorter_fails(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	start(&f, &c, 100, 104);
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_string_equal(c.slug, "internal");
	close(c.fd);
	fake_stop(&f);
}

static void letting_go_cuts_the_archive_short(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	start(&f, &c, 2 * MIB, 2 * MIB);
	struct fake_sandbox *s = worker(&f);
	runtime_file_detach(c.job);
	close(c.fd);
	assert_true(drink(&f, s) < 2 * MIB);
	say(&f, s, (struct id_file){ FILE_ERR_ARCHIVE, FILE_ARCHIVE_BROKEN });
	assert_int_equal(c.done, 0);
	assert_false(s->killed);
	fake_stop(&f);
}

static void a_dead_sandbox_is_replaced_and_the_archive_begins_again(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	for (unsigned detached = 0; detached < 2; detached++) {
		start(&f, &c, 2 * MIB, 2 * MIB);
		struct fake_sandbox *s = worker(&f);
		fake_turn(&f);
		if (detached) {
			runtime_file_detach(c.job);
			close(c.fd);
		}
		const struct ld_handover_failed body = { s->id, EPIPE };
		fake_tell(&f, LD_HANDOVER_FAILED, 0, &body, sizeof(body));
		fake_gone(&f, s);
		fake_turn(&f);
		s = worker(&f);
		assert_int_equal(drink(&f, s), detached ? 0 : 2 * MIB);
		say(&f, s, (struct id_file){ detached ? FILE_ERR_ARCHIVE : FILE_OK, detached });
		assert_int_equal(c.done, !detached);
		if (!detached)
			close(c.fd);
	}
	fake_stop(&f);
}

static void it_waits_as_long_as_it_was_told(void **state)
{
	struct fake f;
	struct call first, second;

	fake_start(&f, &fake_config);
	start(&f, &first, 2 * MIB, 2 * MIB);
	struct fake_sandbox *s = worker(&f);
	start(&f, &second, 4, 4);
	fake_advance(&f, QUEUE_MS - 1);
	assert_int_equal(second.done, 0);
	fake_advance(&f, 1);
	assert_int_equal(second.done, 1);
	assert_string_equal(second.slug, "busy");
	/* What runs has the worker's own time, and a while more. */
	fake_advance(&f, FILE_LONG_JOB_MS - QUEUE_MS - 1);
	assert_int_equal(first.done, 0);
	fake_advance(&f, 1);
	assert_int_equal(first.done, 1);
	assert_string_equal(first.slug, "unpack_failed");
	assert_int_equal(first.result.fault, RUNTIME_ARCHIVE_TIME);
	assert_true(s->killed);
	close(first.fd);
	close(second.fd);
	fake_stop(&f);
}

static void a_look_is_not_worth_waiting_for(void **state)
{
	struct fake f;
	struct call one = { 0 }, two = { 0 };

	fake_start(&f, &fake_config);
	runtime_look(f.rt, &spec, on_done, &one);
	fake_turn(&f);
	struct fake_sandbox *s = worker(&f);
	struct di_file asked;
	memcpy(&asked, s->body, sizeof(asked));
	assert_int_equal(asked.op, FILE_STAT);
	assert_int_equal(asked.flags, FILE_NO_FOLLOW);
	runtime_look(f.rt, &spec, on_done, &two);
	fake_advance(&f, FILE_LOOK_MS);
	assert_int_equal(two.done, 1);
	assert_string_equal(two.slug, "busy");
	say(&f, s, (struct id_file){ FILE_ERR_MISSING, ENOENT });
	assert_int_equal(one.done, 1);
	assert_string_equal(one.slug, "file_not_found");
	fake_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_archive_reaches_the_worker_whole),
		cmocka_unit_test(a_refusal_says_what_is_wrong),
		cmocka_unit_test(lies_of_the_worker_are_hostile),
		cmocka_unit_test(what_was_killed_is_told_apart_from_what_took_too_much_memory),
		cmocka_unit_test(a_file_that_is_shorter_fails),
		cmocka_unit_test(letting_go_cuts_the_archive_short),
		cmocka_unit_test(a_dead_sandbox_is_replaced_and_the_archive_begins_again),
		cmocka_unit_test(it_waits_as_long_as_it_was_told),
		cmocka_unit_test(a_look_is_not_worth_waiting_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
