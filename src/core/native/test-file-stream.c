// SPDX-License-Identifier: Apache-2.0
/* Uploads, downloads, archives against an init played by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/limits.h"
#include "base/mem.h"
#include "core/native/fake.h"

static const struct runtime_file_spec spec = { FAKE_VOLUME, 1, FAKE_IMAGE, { "dir/a.txt", 9 } };

/* Both ways; of each test one is used. */
struct call {
	struct fake *f;
	struct runtime_file *job;
	unsigned wanted, done, begun;
	size_t sent, len; /* up: of len; down: came */
	unsigned pieces;
	unsigned pause_at; /* the n-th piece says false; 0: none */
	unsigned detach_at;
	bool ends; /* up: says so when all was given */
	uint32_t sum;
	struct runtime_file_result result;
	const char *slug; /* NULL: good */
};

static char piece[RUNTIME_GIVE_MAX];

static uint32_t add(uint32_t sum, const char *data, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sum = sum * 31 + (unsigned char)data[i];
	return sum;
}

static void fill(size_t at, size_t n)
{
	for (size_t i = 0; i < n; i++)
		piece[i] = (char)((at + i) * 7 + (at + i) / 251);
}

/* Gives until the pipe is full or all is given. */
static void on_wanted(void *data)
{
	struct call *c = data;

	c->wanted++;
	while (c->sent < c->len) {
		size_t n = c->len - c->sent < sizeof(piece) ? c->len - c->sent : sizeof(piece);
		fill(c->sent, n);
		c->sum = add(c->sum, piece, n);
		c->sent += n;
		if (!runtime_upload_give(c->job, (struct str){ piece, n }))
			return;
	}
	if (c->ends)
		runtime_upload_end(c->job);
}

static void on_done(void *data, const struct runtime_file_result *result, const struct err *err)
{
	struct call *c = data;

	c->done++;
	c->result = *result;
	c->slug = err ? err->slug : NULL;
	if (err)
		assert_string_equal(err->text, "");
}

static void on_begun(void *data, const struct runtime_file_result *result)
{
	struct call *c = data;

	c->begun++;
	c->result = *result;
	assert_int_equal(c->len, 0);
}

static bool on_bytes(void *data, struct str bytes)
{
	struct call *c = data;

	assert_int_equal(c->begun, 1);
	assert_true(bytes.len > 0);
	c->sum = add(c->sum, bytes.data, bytes.len);
	c->len += bytes.len;
	c->pieces++;
	if (c->pieces == c->detach_at)
		runtime_file_detach(c->job);
	return c->pieces != c->pause_at;
}

static const struct runtime_upload_ops up_ops = { on_wanted, on_done };
static const struct runtime_download_ops down_ops = { on_begun, on_bytes, on_done };

static void start_upload(struct fake *f, struct call *c, uint64_t size, size_t len)
{
	const struct runtime_upload upload = { size, 8 * MIB, 5000 };

	*c = (struct call){ .f = f, .len = len, .ends = true };
	c->job = runtime_upload(f->rt, &spec, &upload, &up_ops, c);
	assert_int_equal(c->wanted + c->done, 0);
	fake_turn(f);
}

static void start_download(struct fake *f, struct call *c, uint64_t max)
{
	*c = (struct call){ .f = f };
	c->job = runtime_download(f->rt, &spec, max, &down_ops, c);
	assert_int_equal(c->begun + c->done, 0);
	fake_turn(f);
}

static void start_pack(struct fake *f, struct call *c, uint64_t max)
{
	*c = (struct call){ .f = f };
	c->job = runtime_pack(f->rt, &spec, max, &down_ops, c);
	fake_turn(f);
}

/* The file sandbox with a new job. */
static struct fake_sandbox *worker(struct fake *f)
{
	struct fake_sandbox *s = fake_busy(f);

	assert_non_null(s);
	assert_int_equal(s->got, DI_FILE);
	assert_int_equal(s->n_fds, 2);
	return s;
}

static struct di_file asked(const struct fake_sandbox *s)
{
	struct di_file body;

	memcpy(&body, s->body, sizeof(body));
	return body;
}

static void say(struct fake *f, struct fake_sandbox *s, uint8_t type, struct id_file body)
{
	fake_say(s, type, s->job, &body, sizeof(body));
	fake_turn(f);
}

/* Reads the pipe to its end, as the worker does. */
static size_t drink(struct fake *f, struct fake_sandbox *s, uint32_t *ret_sum)
{
	static char bytes[MIB];
	size_t got = 0;
	unsigned still = 0;

	assert_int_equal(fcntl(s->fds[1], F_SETFL, O_NONBLOCK), 0);
	while (still < 50) {
		ssize_t n = read(s->fds[1], bytes, sizeof(bytes));
		if (n == 0)
			break;
		still = n < 0 ? still + 1 : 0;
		if (n > 0) {
			got += (size_t)n;
			*ret_sum = add(*ret_sum, bytes, (size_t)n);
		}
		fake_turn(f);
	}
	return got;
}

/* ---- Up ---- */

static void an_upload_reaches_the_worker_in_portions(void **state)
{
	static const size_t lens[] = { 0, 1, RUNTIME_GIVE_MAX, RUNTIME_GIVE_MAX + 1, 5 * MIB + 3 };
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		uint32_t sum = 0;
		start_upload(&f, &c, lens[i], lens[i]);
		struct fake_sandbox *s = worker(&f);
		assert_int_equal(asked(s).op, FILE_WRITE);
		assert_int_equal(asked(s).size, lens[i]);
		assert_int_equal(asked(s).mode, 0644);
		assert_int_equal(asked(s).quota, 5000);
		fake_turn(&f);
		assert_int_equal(drink(&f, s, &sum), lens[i]);
		assert_int_equal(sum, c.sum);
		assert_int_equal(c.done, 0);
		/* No word more: the length is known. */
		assert_false(fake_receive(s));
		say(&f, s, ID_FILE_END, (struct id_file){ .size = lens[i] });
		assert_int_equal(c.done, 1);
		assert_null(c.slug);
		assert_int_equal(c.result.size, lens[i]);
	}
	fake_stop(&f);
}

static void a_full_pipe_holds_the_giver_back(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	start_upload(&f, &c, 8 * MIB, 8 * MIB);
	struct fake_sandbox *s = worker(&f);
	fake_turn(&f);
	fake_turn(&f);
	assert_int_equal(c.wanted, 1);
	assert_true(c.sent <= FILE_PIPE_SIZE + 2 * RUNTIME_GIVE_MAX);
	uint32_t sum = 0;
	assert_int_equal(drink(&f, s, &sum), 8 * MIB);
	assert_true(c.wanted > 8);
	say(&f, s, ID_FILE_END, (struct id_file){ .size = 8 * MIB });
	assert_null(c.slug);
	assert_int_equal(c.done, 1);
	fake_stop(&f);
}

static void an_unknown_length_is_committed_before_the_pipe_ends(void **state)
{
	struct fake f;
	struct call c;
	char byte[16];
	struct di_commit commit;

	fake_start(&f, &fake_config);
	start_upload(&f, &c, RUNTIME_SIZE_UNKNOWN, 3);
	struct fake_sandbox *s = worker(&f);
	assert_true(asked(s).size == FILE_SIZE_UNKNOWN);
	assert_int_equal(asked(s).max, 8 * MIB);
	fake_turn(&f);
	int pipe = fcntl(s->fds[1], F_DUPFD_CLOEXEC, 0);
	uint32_t job = s->job;
	assert_int_equal(read(pipe, byte, sizeof(byte)), 3);
	assert_int_equal(read(pipe, byte, sizeof(byte)), 0);
	/* Whoever saw the end finds the word. */
	assert_true(fake_receive(s));
	assert_int_equal(s->got, DI_COMMIT);
	assert_int_equal(s->job, job);
	memcpy(&commit, s->body, sizeof(commit));
	assert_int_equal(commit.size, 3);
	close(pipe);
	say(&f, s, ID_FILE_END, (struct id_file){ .size = 3 });
	assert_int_equal(c.done, 1);
	assert_null(c.slug);
	fake_stop(&f);
}

static void an_upload_that_is_left_is_never_committed(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	for (unsigned i = 0; i < 2; i++) {
		uint32_t sum = 0;
		start_upload(&f, &c, i ? RUNTIME_SIZE_UNKNOWN : 2 * MIB, 2 * MIB);
		c.ends = false;
		struct fake_sandbox *s = worker(&f);
		fake_turn(&f);
		runtime_file_detach(c.job);
		fake_turn(&f);
		assert_true(drink(&f, s, &sum) < 2 * MIB);
		fake_drop_fds(s);
		assert_false(fake_receive(s));
		say(&f, s, ID_FILE_END, (struct id_file){ .code = FILE_ERR_SHORT });
		assert_int_equal(c.done, 0);
		assert_false(s->killed);
	}
	fake_stop(&f);
}

static void a_worker_that_refuses_early_says_why(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	start_upload(&f, &c, 8 * MIB, 8 * MIB);
	struct fake_sandbox *s = worker(&f);
	fake_drop_fds(s);
	fake_turn(&f);
	assert_int_equal(c.done, 0);
	say(&f, s, ID_FILE_END, (struct id_file){ .code = FILE_ERR_QUOTA, .used = 123456 });
	assert_int_equal(c.done, 1);
	assert_string_equal(c.slug, "quota");
	assert_int_equal(c.result.used_bytes, 123456);
	assert_false(s->killed);
	fake_stop(&f);
}

static void a_success_before_the_end_is_hostile(void **state)
{
	static const struct {
		bool ends;
		uint64_t size;
	} table[] = { { false, 100 }, { true, 99 }, { true, 101 } };
	struct fake f;
	struct call c;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		fake_start(&f, &fake_config);
		const struct runtime_upload upload = { 100, 100, 0 };
		c = (struct call){ .f = &f, .len = 100, .ends = table[i].ends };
		c.job = runtime_upload(f.rt, &spec, &upload, &up_ops, &c);
		fake_turn(&f);
		struct fake_sandbox *s = worker(&f);
		fake_turn(&f);
		say(&f, s, ID_FILE_END, (struct id_file){ .size = table[i].size });
		assert_int_equal(c.done, 1);
		assert_string_equal(c.slug, "internal");
		assert_true(s->killed);
		fake_stop(&f);
	}
}

static void a_client_without_hurry_has_its_time_and_no_more(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	const struct runtime_upload upload = { 100, 100, 0 };
	c = (struct call){ .f = &f, .len = 50 };
	c.job = runtime_upload(f.rt, &spec, &upload, &up_ops, &c);
	fake_turn(&f);
	struct fake_sandbox *s = worker(&f);
	fake_advance(&f, FILE_STREAM_MS - 1);
	assert_int_equal(c.done, 0);
	fake_advance(&f, 1);
	assert_int_equal(c.done, 1);
	assert_string_equal(c.slug, "internal");
	assert_true(s->killed);
	fake_stop(&f);
}

/* ---- Down ---- */

/* Writes as the worker does; false: nobody reads any more. */
static bool pour(struct fake *f, struct fake_sandbox *s, size_t len, uint32_t *sum)
{
	size_t at = 0;
	unsigned still = 0;

	assert_int_equal(fcntl(s->fds[1], F_SETFL, O_NONBLOCK), 0);
	while (at < len && still < 50) {
		size_t n = len - at < sizeof(piece) ? len - at : sizeof(piece);
		fill(at, n);
		ssize_t r = write(s->fds[1], piece, n);
		if (r < 0 && errno != EAGAIN)
			return false;
		still = r < 0 ? still + 1 : 0;
		if (r > 0) {
			*sum = add(*sum, piece, (size_t)r);
			at += (size_t)r;
		}
		fake_turn(f);
	}
	return at == len;
}

static void a_file_comes_down_with_its_size_first(void **state)
{
	static const size_t lens[] = { 0, 1, 5 * MIB + 3 };
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		uint32_t sum = 0;
		start_download(&f, &c, 8 * MIB);
		struct fake_sandbox *s = worker(&f);
		assert_int_equal(asked(s).op, FILE_READ);
		assert_int_equal(asked(s).max, 8 * MIB);
		say(&f, s, ID_FILE, (struct id_file){ .size = lens[i], .mode = 0640 });
		assert_int_equal(c.begun, 1);
		assert_int_equal(c.result.size, lens[i]);
		assert_true(pour(&f, s, lens[i], &sum));
		fake_drop_fds(s);
		say(&f, s, ID_FILE_END, (struct id_file){ .size = lens[i] });
		fake_turn(&f);
		assert_int_equal(c.done, 1);
		assert_null(c.slug);
		assert_int_equal(c.len, lens[i]);
		assert_int_equal(c.sum, sum);
	}
	fake_stop(&f);
}

static void bytes_wait_in_the_pipe_while_nobody_takes_them(void **state)
{
	struct fake f;
	struct call c;
	uint32_t sum = 0;

	fake_start(&f, &fake_config);
	start_download(&f, &c, 8 * MIB);
	struct fake_sandbox *s = worker(&f);
	c.pause_at = 1;
	say(&f, s, ID_FILE, (struct id_file){ .size = 100000 });
	assert_true(pour(&f, s, 100000, &sum));
	fake_drop_fds(s);
	say(&f, s, ID_FILE_END, (struct id_file){ .size = 100000 });
	fake_turn(&f);
	assert_int_equal(c.pieces, 1);
	assert_int_equal(c.done, 0);
	runtime_download_resume(c.job);
	assert_int_equal(c.pieces, 1);
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_null(c.slug);
	assert_int_equal(c.sum, sum);
	fake_stop(&f);
}

static void a_pause_stops_the_worker(void **state)
{
	struct fake f;
	struct call c;
	uint32_t sum = 0;

	fake_start(&f, &fake_config);
	start_download(&f, &c, 8 * MIB);
	struct fake_sandbox *s = worker(&f);
	c.pause_at = 1;
	say(&f, s, ID_FILE, (struct id_file){ .size = 8 * MIB });
	assert_false(pour(&f, s, 8 * MIB, &sum));
	assert_int_equal(c.pieces, 1);
	runtime_file_detach(c.job);
	fake_turn(&f);
	assert_int_equal(write(s->fds[1], "x", 1), -1);
	assert_int_equal(errno, EPIPE);
	fake_drop_fds(s);
	say(&f, s, ID_FILE_END, (struct id_file){ .code = FILE_ERR_SYSTEM, .errno_code = EPIPE });
	assert_int_equal(c.done, 0);
	assert_false(s->killed);
	fake_stop(&f);
}

static void letting_go_inside_a_piece_is_the_last_of_it(void **state)
{
	struct fake f;
	struct call c;
	uint32_t sum = 0;

	fake_start(&f, &fake_config);
	for (unsigned i = 0; i < 2; i++) {
		start_download(&f, &c, 8 * MIB);
		struct fake_sandbox *s = worker(&f);
		c.detach_at = 2;
		say(&f, s, ID_FILE, (struct id_file){ .size = 8 * MIB });
		pour(&f, s, 8 * MIB, &sum);
		assert_int_equal(c.pieces, 2);
		fake_drop_fds(s);
		/* Whatever it says then. */
		say(&f, s, ID_FILE_END,
		    (struct id_file){ .code = i ? FILE_ERR_SYSTEM : FILE_OK, .size = 8 * MIB });
		assert_int_equal(c.done, 0);
		assert_false(s->killed);
	}
	fake_stop(&f);
}

static void a_file_that_shrinks_breaks_off(void **state)
{
	struct fake f;
	struct call c;
	uint32_t sum = 0;

	fake_start(&f, &fake_config);
	start_download(&f, &c, 1000);
	struct fake_sandbox *s = worker(&f);
	say(&f, s, ID_FILE, (struct id_file){ .size = 500 });
	assert_true(pour(&f, s, 100, &sum));
	fake_drop_fds(s);
	say(&f, s, ID_FILE_END, (struct id_file){ .code = FILE_ERR_SHORT });
	assert_int_equal(c.done, 1);
	assert_non_null(c.slug);
	assert_int_equal(c.begun, 1);
	assert_false(s->killed);
	fake_stop(&f);
}

static void wrong_counts_are_hostile(void **state)
{
	static const struct {
		uint64_t size;	   /* ID_FILE */
		size_t sent;	   /* in the pipe */
		uint64_t end_size; /* ID_FILE_END */
		unsigned begun;
	} table[] = {
		{ 1001, 0, 1001, 0 }, /* more than asked for */
		{ 10, 11, 10, 1 },    { 10, 9, 10, 1 }, { 10, 10, 11, 1 }, { UINT64_MAX, 0, 0, 0 },
	};
	struct fake f;
	struct call c;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		uint32_t sum = 0;
		fake_start(&f, &fake_config);
		start_download(&f, &c, 1000);
		struct fake_sandbox *s = worker(&f);
		say(&f, s, ID_FILE, (struct id_file){ .size = table[i].size });
		if (table[i].sent)
			pour(&f, s, table[i].sent, &sum);
		fake_drop_fds(s);
		say(&f, s, ID_FILE_END, (struct id_file){ .size = table[i].end_size });
		fake_turn(&f);
		assert_int_equal(c.done, 1);
		assert_string_equal(c.slug, "internal");
		assert_int_equal(c.begun, table[i].begun);
		assert_true(c.len <= 10);
		assert_true(s->killed);
		fake_stop(&f);
	}
}

static void an_end_without_a_beginning_is_hostile(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	start_download(&f, &c, 1000);
	struct fake_sandbox *s = worker(&f);
	say(&f, s, ID_FILE_END, (struct id_file){ .size = 0 });
	assert_string_equal(c.slug, "internal");
	assert_int_equal(c.begun, 0);
	assert_true(s->killed);
	fake_stop(&f);
}

static void refusals_come_before_the_beginning(void **state)
{
	static const struct {
		uint32_t code;
		const char *slug;
	} table[] = {
		{ FILE_ERR_MISSING, "file_not_found" },
		{ FILE_ERR_FOLDER, "is_folder" },
		{ FILE_ERR_NOT_FOLDER, "not_folder" },
		{ FILE_ERR_TOO_LARGE, "file_too_large" },
		{ FILE_ERR_EXISTS, "exists" },
		{ FILE_ERR_NOT_EMPTY, "not_empty" },
		{ 999, "internal" },
	};
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		start_download(&f, &c, 1000);
		struct fake_sandbox *s = worker(&f);
		fake_drop_fds(s);
		say(&f, s, ID_FILE_END, (struct id_file){ .code = table[i].code });
		assert_int_equal(c.done, 1);
		assert_string_equal(c.slug, table[i].slug);
		assert_int_equal(c.begun, 0);
		assert_false(s->killed);
	}
	fake_stop(&f);
}

/* ---- Archives ---- */

static void an_archive_has_its_size_at_the_end(void **state)
{
	struct fake f;
	struct call c;
	uint32_t sum = 0;

	fake_start(&f, &fake_config);
	start_pack(&f, &c, 8 * MIB);
	struct fake_sandbox *s = worker(&f);
	assert_int_equal(asked(s).op, FILE_PACK);
	assert_int_equal(asked(s).max, 8 * MIB);
	say(&f, s, ID_FILE, (struct id_file){ .size = 0 });
	assert_int_equal(c.begun, 1);
	assert_true(pour(&f, s, 3 * MIB, &sum));
	fake_drop_fds(s);
	say(&f, s, ID_FILE_END, (struct id_file){ .size = 3 * MIB });
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_null(c.slug);
	assert_int_equal(c.len, 3 * MIB);
	assert_int_equal(c.sum, sum);
	fake_stop(&f);
}

static void an_archive_beyond_its_limit_is_hostile(void **state)
{
	struct fake f;
	struct call c;
	uint32_t sum = 0;

	for (unsigned i = 0; i < 2; i++) {
		fake_start(&f, &fake_config);
		start_pack(&f, &c, 1000);
		struct fake_sandbox *s = worker(&f);
		say(&f, s, ID_FILE, (struct id_file){ .size = 0 });
		pour(&f, s, i ? 1001 : 500, &sum);
		fake_drop_fds(s);
		say(&f, s, ID_FILE_END, (struct id_file){ .size = i ? 1001 : 501 });
		fake_turn(&f);
		assert_int_equal(c.done, 1);
		assert_string_equal(c.slug, "internal");
		assert_true(s->killed);
		fake_stop(&f);
	}
}

static void on_whole(void *data, const struct runtime_file_result *result, struct str bytes,
		     const struct err *err)
{
	on_done(data, result, err);
}

static void a_slow_client_holds_up_only_its_like(void **state)
{
	struct fake f;
	struct call up, down, quick;

	fake_start(&f, &fake_config);
	const struct runtime_upload upload = { 100, 100, 0 };
	up = (struct call){ .f = &f, .len = 50 };
	up.job = runtime_upload(f.rt, &spec, &upload, &up_ops, &up);
	fake_turn(&f);
	struct fake_sandbox *slow = worker(&f);
	start_download(&f, &down, 1000);
	assert_null(fake_busy(&f));
	quick = (struct call){ .f = &f };
	runtime_file_read(f.rt, &spec, 1000, on_whole, &quick);
	fake_turn(&f);
	struct fake_sandbox *s = worker(&f);
	assert_ptr_not_equal(s, slow);
	assert_string_equal(s->volume, slow->volume);
	say(&f, s, ID_FILE, (struct id_file){ .size = 0 });
	fake_drop_fds(s);
	say(&f, s, ID_FILE_END, (struct id_file){ .size = 0 });
	assert_int_equal(quick.done, 1);
	assert_null(quick.slug);
	assert_int_equal(up.done + down.done, 0);
	/* Both go with the workspace. */
	files_end(f.rt);
	fake_advance(&f, 0);
	assert_int_equal(up.done + down.done, 2);
	fake_stop(&f);
}

static void the_end_of_a_workspace_ends_its_transfers(void **state)
{
	struct fake f;
	struct call up, down;

	fake_start(&f, &fake_config);
	start_upload(&f, &up, 8 * MIB, 8 * MIB);
	start_download(&f, &down, 1000);
	worker(&f);
	fake_turn(&f);
	files_end(f.rt);
	fake_advance(&f, 0);
	assert_int_equal(up.done, 1);
	assert_int_equal(down.done, 1);
	fake_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_upload_reaches_the_worker_in_portions),
		cmocka_unit_test(a_full_pipe_holds_the_giver_back),
		cmocka_unit_test(an_unknown_length_is_committed_before_the_pipe_ends),
		cmocka_unit_test(an_upload_that_is_left_is_never_committed),
		cmocka_unit_test(a_worker_that_refuses_early_says_why),
		cmocka_unit_test(a_success_before_the_end_is_hostile),
		cmocka_unit_test(a_client_without_hurry_has_its_time_and_no_more),
		cmocka_unit_test(a_file_comes_down_with_its_size_first),
		cmocka_unit_test(bytes_wait_in_the_pipe_while_nobody_takes_them),
		cmocka_unit_test(a_pause_stops_the_worker),
		cmocka_unit_test(letting_go_inside_a_piece_is_the_last_of_it),
		cmocka_unit_test(a_file_that_shrinks_breaks_off),
		cmocka_unit_test(wrong_counts_are_hostile),
		cmocka_unit_test(an_end_without_a_beginning_is_hostile),
		cmocka_unit_test(refusals_come_before_the_beginning),
		cmocka_unit_test(an_archive_has_its_size_at_the_end),
		cmocka_unit_test(an_archive_beyond_its_limit_is_hostile),
		cmocka_unit_test(a_slow_client_holds_up_only_its_like),
		cmocka_unit_test(the_end_of_a_workspace_ends_its_transfers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
