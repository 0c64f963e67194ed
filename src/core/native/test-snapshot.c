// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"
#include "core/native/fake.h"

#define SNAPSHOT "snp_0123456789ab"
#define QUEUE_MS 7000

struct call {
	unsigned done;
	const char *slug;
	struct runtime_file_result result;
	char path[64];
};

static void on_end(void *data, const struct runtime_file_result *result, const struct err *err)
{
	struct call *c = data;

	c->done++;
	c->result = *result;
	c->slug = err ? err->slug : NULL;
}

static void on_merged(void *data, const struct runtime_file_result *result, struct str bytes,
		      const struct err *err)
{
	struct call *c = data;

	on_end(data, result, err);
	snprintf(c->path, sizeof(c->path), "%.*s", (int)bytes.len, bytes.len ? bytes.data : "");
}

static void on_volume(void *data, const struct err *err)
{
	struct call *c = data;

	c->done++;
	c->slug = err ? err->slug : NULL;
}

static void start_snapshot(struct fake *f, struct call *c, struct str path)
{
	const struct runtime_snapshot_spec spec = { .volume = FAKE_VOLUME,
						    .snapshot = SNAPSHOT,
						    .tenant = 1,
						    .image = FAKE_IMAGE,
						    .path = path,
						    .queue_ms = QUEUE_MS };

	*c = (struct call){ 0 };
	runtime_snapshot_create(f->rt, &spec, on_end, c);
	assert_int_equal(c->done, 0);
	fake_turn(f);
}

static struct runtime_file *start_merge(struct fake *f, struct call *c)
{
	static const struct runtime_file_spec spec = { FAKE_VOLUME, 1, FAKE_IMAGE, { "dir", 3 } };

	*c = (struct call){ 0 };
	struct runtime_file *job = runtime_file_merge(f->rt, &spec, SNAPSHOT, 5000, on_merged, c);
	assert_int_equal(c->done, 0);
	fake_turn(f);
	return job;
}

static struct fake_sandbox *worker(struct fake *f, uint32_t op, const char *volume,
				   const char *source)
{
	struct fake_sandbox *s = fake_busy(f);
	struct di_file body;

	assert_non_null(s);
	assert_int_equal(s->got, DI_FILE);
	memcpy(&body, s->body, sizeof(body));
	assert_int_equal(body.op, op);
	assert_string_equal(s->volume, volume);
	assert_string_equal(s->source, source);
	return s;
}

static void end(struct fake *f, struct fake_sandbox *s, struct id_file body)
{
	fake_drop_fds(s);
	fake_say(s, ID_FILE_END, s->job, &body, sizeof(body));
	fake_turn(f);
}

static void copy_then_trim_then_quiet_then_seal(void **state)
{
	struct fake f;
	struct call c;
	char path[16];

	fake_start(&f, &fake_config);
	f.kills = false;
	start_snapshot(&f, &c, STR("out"));
	assert_int_equal(f.copied, 1);
	assert_string_equal(f.last_copy.volume, FAKE_VOLUME);
	assert_string_equal(f.last_copy.snapshot, SNAPSHOT);
	assert_int_equal(f.last_copy.tenant, 1);
	struct fake_sandbox *s = worker(&f, FILE_TRIM, SNAPSHOT, "");
	assert_int_equal(s->n_fds, 1);
	assert_int_equal(pread(s->fds[0], path, sizeof(path), 0), 4);
	assert_string_equal(path, "out");
	end(&f, s, (struct id_file){ .size = 4096, .used = 3 });
	/* As long as a process could still write to it, it is not sealed. */
	assert_true(s->killed);
	assert_int_equal(f.sealed, 0);
	assert_int_equal(c.done, 0);
	fake_gone(&f, s);
	fake_turn(&f);
	assert_int_equal(f.sealed, 1);
	assert_int_equal(c.done, 1);
	assert_null(c.slug);
	assert_int_equal(c.result.used_bytes, 4096);
	f.kills = true;
	fake_stop(&f);
}

static void a_copy_of_everything_needs_no_sandbox(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	start_snapshot(&f, &c, (struct str){ NULL, 0 });
	assert_int_equal(f.copied, 1);
	assert_int_equal(f.sealed, 1);
	assert_int_equal(f.n, 0);
	assert_int_equal(c.done, 1);
	assert_null(c.slug);
	fake_stop(&f);
}

static void the_step_that_fails_ends_it(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	f.volume_code = ENOSPC;
	start_snapshot(&f, &c, STR("."));
	assert_string_equal(c.slug, "no_capacity");
	assert_null(volume_find(f.rt, SNAPSHOT));

	f.volume_code = 0;
	start_snapshot(&f, &c, STR("none"));
	end(&f, worker(&f, FILE_TRIM, SNAPSHOT, ""), (struct id_file){ .code = FILE_ERR_MISSING });
	assert_int_equal(c.done, 1);
	assert_string_equal(c.slug, "file_not_found");
	assert_int_equal(f.sealed, 0);
	/* What is left goes like a workspace, its sandbox first. */
	runtime_volume_delete(f.rt, SNAPSHOT, on_volume, &c);
	fake_turn(&f);
	assert_int_equal(c.done, 2);
	assert_int_equal(f.deleted, 1);
	assert_null(volume_find(f.rt, SNAPSHOT));

	start_snapshot(&f, &c, STR("a"));
	f.volume_code = EIO;
	end(&f, worker(&f, FILE_TRIM, SNAPSHOT, ""), (struct id_file){ .code = FILE_OK });
	assert_int_equal(c.done, 1);
	assert_string_equal(c.slug, "internal");
	fake_stop(&f);
}

static void a_folder_that_is_none_has_its_word(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	start_snapshot(&f, &c, STR("file"));
	end(&f, worker(&f, FILE_TRIM, SNAPSHOT, ""),
	    (struct id_file){ .code = FILE_ERR_NOT_FOLDER });
	assert_string_equal(c.slug, "not_folder");
	fake_stop(&f);
}

static void a_lost_launcher_fails_it_once_at_every_step(void **state)
{
	for (int at = 0; at < 3; at++) {
		struct fake f;
		struct call c;

		fake_start(&f, &fake_config);
		f.answers = at > 0;
		f.kills = false;
		start_snapshot(&f, &c, STR("."));
		if (at == 2)
			end(&f, worker(&f, FILE_TRIM, SNAPSHOT, ""), (struct id_file){ 0 });
		assert_int_equal(c.done, 0);
		close(f.launcher);
		f.launcher = -1;
		fake_turn(&f);
		assert_int_equal(c.done, 1);
		/* What the file sandbox had done by then, it does not say. */
		assert_string_equal(c.slug, at == 1 ? "internal" : "busy");
		fake_stop(&f);
	}
}

/* ---- Restoring ---- */

static void start(struct fake *f)
{
	fake_start(f, &fake_config);
	assert_non_null(volume_add(f->rt, SNAPSHOT, 1));
}

static void a_merge_has_the_snapshot_beside_the_workspace(void **state)
{
	static const struct runtime_file_spec spec = { FAKE_VOLUME, 1, FAKE_IMAGE, { "a", 1 } };
	struct fake f;
	struct call usage[2] = { 0 }, c;
	struct di_file body;

	start(&f);
	runtime_file_usage(f.rt, &spec, on_end, &usage[0]);
	fake_turn(&f);
	struct fake_sandbox *plain = worker(&f, FILE_USAGE, FAKE_VOLUME, "");
	start_merge(&f, &c);
	runtime_file_usage(f.rt, &spec, on_end, &usage[1]);
	end(&f, plain, (struct id_file){ 0 });
	assert_int_equal(usage[0].done, 1);

	struct fake_sandbox *merger = worker(&f, FILE_MERGE, FAKE_VOLUME, SNAPSHOT);
	assert_ptr_not_equal(merger, plain);
	assert_true(plain->killed);
	memcpy(&body, merger->body, sizeof(body));
	assert_int_equal(body.quota, 5000);
	assert_int_equal(merger->n_fds, 2);
	end(&f, merger, (struct id_file){ .size = 700 });
	assert_int_equal(c.done, 1);
	assert_null(c.slug);
	assert_int_equal(c.result.size, 700);

	/* Nobody else gets that sandbox. */
	assert_true(merger->killed);
	end(&f, worker(&f, FILE_USAGE, FAKE_VOLUME, ""), (struct id_file){ 0 });
	assert_int_equal(usage[1].done, 1);
	fake_stop(&f);
}

static void a_merger_that_has_nothing_to_do_is_not_kept(void **state)
{
	struct fake f;
	struct call c, gone = { 0 };

	start(&f);
	f.kills = false;
	start_merge(&f, &c);
	struct fake_sandbox *s = worker(&f, FILE_MERGE, FAKE_VOLUME, SNAPSHOT);
	end(&f, s, (struct id_file){ 0 });
	assert_true(s->killed);
	/* It may read until it is gone, so the snapshot stays until then. */
	runtime_volume_delete(f.rt, SNAPSHOT, on_volume, &gone);
	fake_turn(&f);
	assert_int_equal(f.deleted, 0);
	fake_gone(&f, s);
	fake_turn(&f);
	assert_int_equal(f.deleted, 1);
	assert_int_equal(gone.done, 1);
	f.kills = true;
	fake_stop(&f);
}

static void what_is_in_the_way_is_named(void **state)
{
	struct fake f;
	struct call c;

	start(&f);
	start_merge(&f, &c);
	struct fake_sandbox *s = worker(&f, FILE_MERGE, FAKE_VOLUME, SNAPSHOT);
	assert_int_equal(write(s->fds[1], "dir/\xff x", 7), 7);
	fake_turn(&f);
	assert_int_equal(c.done, 0);
	end(&f, s, (struct id_file){ .code = FILE_ERR_CONFLICT });
	assert_int_equal(c.done, 1);
	assert_string_equal(c.slug, "restore_conflict");
	assert_string_equal(c.path, "dir/\xff x");
	fake_stop(&f);
}

static void what_does_not_fit_is_told_with_its_size(void **state)
{
	struct fake f;
	struct call c;

	start(&f);
	start_merge(&f, &c);
	end(&f, worker(&f, FILE_MERGE, FAKE_VOLUME, SNAPSHOT),
	    (struct id_file){ .code = FILE_ERR_QUOTA, .size = 4000, .used = 9000 });
	assert_string_equal(c.slug, "quota");
	assert_int_equal(c.result.size, 4000);
	assert_int_equal(c.result.used_bytes, 9000);
	fake_stop(&f);
}

static void a_lie_about_a_path_costs_the_sandbox(void **state)
{
	static char large[LIMIT_PATH + 1];
	static const struct {
		const char *bytes;
		size_t len;
		uint32_t code;
	} lies[] = {
		{ "", 0, FILE_ERR_CONFLICT },
		{ "a", 1, FILE_OK },
		{ "a", 1, FILE_ERR_QUOTA },
		{ "a\0b", 3, FILE_ERR_CONFLICT },
		{ large, sizeof(large), FILE_ERR_CONFLICT },
	};

	memset(large, 'x', sizeof(large));
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		struct fake f;
		struct call c;

		start(&f);
		start_merge(&f, &c);
		struct fake_sandbox *s = worker(&f, FILE_MERGE, FAKE_VOLUME, SNAPSHOT);
		assert_int_equal(write(s->fds[1], lies[i].bytes, lies[i].len), lies[i].len);
		end(&f, s, (struct id_file){ .code = lies[i].code });
		assert_int_equal(c.done, 1);
		assert_string_equal(c.slug, "internal");
		assert_true(s->killed);
		fake_stop(&f);
	}
}

static void a_merge_from_nothing_fails(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	start_merge(&f, &c);
	assert_int_equal(c.done, 1);
	assert_string_equal(c.slug, "internal");
	fake_stop(&f);
}

static void a_workspace_begins_as_a_copy(void **state)
{
	const struct runtime_volume_spec spec = { .volume = "sbx_00000000beef",
						  .tenant = 1,
						  .limit_bytes = 9,
						  .source = SNAPSHOT,
						  .image = FAKE_IMAGE };
	struct fake f;
	struct call c = { 0 };

	start(&f);
	runtime_volume_create(f.rt, &spec, on_volume, &c);
	fake_turn(&f);
	assert_int_equal(c.done, 1);
	assert_string_equal(f.last_create.source, SNAPSHOT);
	assert_int_equal(f.last_create.limit_bytes, 9);
	fake_stop(&f);
}

/* ---- Without copy-on-write ---- */

static void where_nothing_is_cloned_a_snapshot_is_filled(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	f.plain = true;
	start_snapshot(&f, &c, STR("out"));
	assert_int_equal(f.created, 1);
	assert_string_equal(f.last_create.volume, SNAPSHOT);
	assert_string_equal(f.last_create.source, "");
	end(&f, worker(&f, FILE_MERGE, SNAPSHOT, FAKE_VOLUME), (struct id_file){ .size = 5 });
	end(&f, worker(&f, FILE_TRIM, SNAPSHOT, ""), (struct id_file){ .size = 4096 });
	assert_int_equal(f.sealed, 1);
	assert_int_equal(c.done, 1);
	assert_null(c.slug);
	assert_int_equal(c.result.used_bytes, 4096);
	fake_stop(&f);
}

static void a_copy_and_its_trimming_share_their_time(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	f.plain = true;
	start_snapshot(&f, &c, STR("out"));
	struct fake_sandbox *s = worker(&f, FILE_MERGE, SNAPSHOT, FAKE_VOLUME);
	fake_advance(&f, FILE_LONG_JOB_MS - 1);
	end(&f, s, (struct id_file){ .size = 5 });
	worker(&f, FILE_TRIM, SNAPSHOT, "");
	fake_advance(&f, QUEUE_MS);
	assert_int_equal(c.done, 0);
	fake_advance(&f, 1);
	assert_int_equal(c.done, 1);
	assert_string_equal(c.slug, "internal");
	fake_stop(&f);
}

static void trimming_waits_as_long_as_it_was_told(void **state)
{
	struct fake f;
	struct call c;

	fake_start(&f, &fake_config);
	f.builds = false;
	start_snapshot(&f, &c, STR("out"));
	fake_advance(&f, QUEUE_MS - 1);
	assert_int_equal(c.done, 0);
	fake_advance(&f, 1);
	assert_int_equal(c.done, 1);
	assert_string_equal(c.slug, "busy");
	fake_stop(&f);
}

static void where_nothing_is_cloned_a_workspace_is_filled(void **state)
{
	static const struct runtime_volume_spec beef = { .volume = "sbx_00000000beef",
							 .tenant = 1,
							 .limit_bytes = 9,
							 .source = SNAPSHOT,
							 .image = FAKE_IMAGE };
	struct fake f;
	struct call c = { 0 };

	start(&f);
	f.plain = true;
	runtime_volume_create(f.rt, &beef, on_volume, &c);
	fake_turn(&f);
	assert_int_equal(f.created, 2);
	assert_string_equal(f.last_create.source, "");
	assert_int_equal(f.last_create.limit_bytes, 9);
	assert_int_equal(c.done, 0);
	end(&f, worker(&f, FILE_MERGE, "sbx_00000000beef", SNAPSHOT), (struct id_file){ 0 });
	assert_int_equal(c.done, 1);
	assert_null(c.slug);

	c = (struct call){ 0 };
	runtime_volume_create(f.rt, &beef, on_volume, &c);
	fake_turn(&f);
	end(&f, worker(&f, FILE_MERGE, "sbx_00000000beef", SNAPSHOT),
	    (struct id_file){ .code = FILE_ERR_QUOTA });
	assert_int_equal(c.done, 1);
	assert_string_equal(c.slug, "no_capacity");
	fake_stop(&f);
}

static void limits_are_changed_and_those_of_a_tenant_rounded_up(void **state)
{
	static const struct runtime_volume_spec beef = { .volume = "sbx_00000000beef",
							 .tenant = 1,
							 .tenant_bytes = MIB + 1 };
	struct fake f;
	struct call c = { 0 };

	start(&f);
	runtime_volume_create(f.rt, &beef, on_volume, &c);
	runtime_volume_limit(f.rt, FAKE_VOLUME, 77, on_volume, &c);
	assert_int_equal(c.done, 0);
	fake_turn(&f);
	assert_int_equal(c.done, 2);
	assert_null(c.slug);
	assert_int_equal(f.last_create.tenant_limit_mb, 2);
	assert_int_equal(f.limited, 1);
	assert_string_equal(f.last_limit.volume, FAKE_VOLUME);
	assert_int_equal(f.last_limit.limit_bytes, 77);
	fake_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copy_then_trim_then_quiet_then_seal),
		cmocka_unit_test(a_copy_of_everything_needs_no_sandbox),
		cmocka_unit_test(the_step_that_fails_ends_it),
		cmocka_unit_test(a_folder_that_is_none_has_its_word),
		cmocka_unit_test(a_lost_launcher_fails_it_once_at_every_step),
		cmocka_unit_test(a_merge_has_the_snapshot_beside_the_workspace),
		cmocka_unit_test(a_merger_that_has_nothing_to_do_is_not_kept),
		cmocka_unit_test(what_is_in_the_way_is_named),
		cmocka_unit_test(what_does_not_fit_is_told_with_its_size),
		cmocka_unit_test(a_lie_about_a_path_costs_the_sandbox),
		cmocka_unit_test(a_merge_from_nothing_fails),
		cmocka_unit_test(a_workspace_begins_as_a_copy),
		cmocka_unit_test(where_nothing_is_cloned_a_snapshot_is_filled),
		cmocka_unit_test(a_copy_and_its_trimming_share_their_time),
		cmocka_unit_test(trimming_waits_as_long_as_it_was_told),
		cmocka_unit_test(where_nothing_is_cloned_a_workspace_is_filled),
		cmocka_unit_test(limits_are_changed_and_those_of_a_tenant_rounded_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
