// SPDX-License-Identifier: Apache-2.0
#include "core/rig.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/parts.h"

static void on_closed(void *data)
{
	*(bool *)data = true;
}

/* The store's thread answers when it likes: what was asked of it is over when an empty write is. */
static void on_stored(void *data, const struct err *err)
{
	*(bool *)data = true;
}

void rig_settle(struct rig *r)
{
	for (unsigned round = 0; round < 4; round++) {
		bool stored = false;
		store_add_journal(r->store, "", 0, on_stored, &stored);
		while (!stored)
			uv_run(&r->loop, UV_RUN_ONCE);
		uv_run(&r->loop, UV_RUN_NOWAIT);
		uv_run(&r->loop, UV_RUN_NOWAIT);
	}
}

void rig_answer(struct rig *r)
{
	memset(r->runtime.hold, 0, sizeof(r->runtime.hold));
	rig_runtime_go(&r->runtime);
	rig_settle(r);
}

/* No file may grow, which is what a full disk does to the write-ahead log. */
void rig_break_store(struct rig *r, bool broken)
{
	static rlim_t before;
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	if (broken) {
		before = limit.rlim_cur;
		signal(SIGXFSZ, SIG_IGN);
	}
	limit.rlim_cur = broken ? 0 : before;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

void rig_advance(struct rig *r, int64_t us)
{
	clock_fake_advance(us);
}

static void open_core(struct rig *r)
{
	struct err err;

	if (store_open(&r->loop, r->path, &r->store, &err) < 0)
		fail_msg("%s", err.text);
	r->config.key_store = r->config.audit_store = r->store;
	if (core_open(&r->loop, &r->config, r->store, &r->runtime, &r->core, &err) < 0 ||
	    core_add_key(r->core, STR("a"), STR("key-a"), &err) < 0 ||
	    core_add_key(r->core, STR("b"), STR("key-b"), &err) < 0)
		fail_msg("%s", err.text);
	r->a = tenant_find(r->core, STR("a"));
	r->b = tenant_find(r->core, STR("b"));
}

int rig_try_open(struct rig *r, struct err *err)
{
	open_core(r);
	const struct rig_disk *disk = r->runtime.disk;
	for (size_t i = 0; i < disk->n_volumes; i++)
		core_found_volume(r->core, disk->volumes[i], disk->owners[i]);
	int result = core_start(r->core, err);
	rig_settle(r);
	return result;
}

void rig_open(struct rig *r)
{
	struct err err;

	if (rig_try_open(r, &err) < 0)
		fail_msg("%s", err.text);
}

static void close_store(struct rig *r)
{
	bool closed = false;

	store_close(r->store, on_closed, &closed);
	while (!closed)
		uv_run(&r->loop, UV_RUN_ONCE);
	r->store = NULL;
}

void rig_close(struct rig *r)
{
	bool closed = false;

	core_close(r->core, on_closed, &closed);
	while (!closed)
		uv_run(&r->loop, UV_RUN_ONCE);
	r->core = NULL;
	/* The runtime ends with the process: what it knew is told anew. */
	while (r->runtime.egress)
		runtime_egress_close(&r->runtime, r->runtime.egress);
	close_store(r);
}

void rig_crash(struct rig *r, void (*scene)(struct rig *r))
{
	int status;

	rig_close(r);
	pid_t child = fork();
	if (child == 0) {
		if (uv_loop_fork(&r->loop) < 0)
			_exit(1);
		rig_open(r);
		scene(r);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	rig_open(r);
}

static unsigned error_words(const struct err *err, const char **ret_text)
{
	size_t n = strlen(err->slug);

	(void)ret_text;
	return n > 6 && strcmp(err->slug + n - 6, "_limit") == 0 ? 429 : 409;
}

int rig_setup(void **state)
{
	static const char *const templates[] = { "sandbox-base:latest", "python:3.11-slim" };
	struct rig *r = mem_new(1, sizeof(*r));

	clock_fake(RIG_START_US / 2, RIG_START_US);
	uv_loop_init(&r->loop);
	snprintf(r->dir, sizeof(r->dir), "/tmp/airlock-test-core-XXXXXX");
	assert_non_null(mkdtemp(r->dir));
	snprintf(r->path, sizeof(r->path), "%s/airlock.db", r->dir);
	rig_runtime_open(&r->runtime, &r->loop);
	r->config = (struct core_config){
		.session_ttl_ms = 1800 * 1000,
		.quota_bytes = 512ull << 20,
		.max_sessions = 20,
		.output_max = 16u << 20,
		.write_max = 64ull << 20,
		.upload_max = 50ull << 20,
		.download_max = 512ull << 20,
		.memory_bytes = 256ull << 20,
		.templates = templates,
		.n_templates = 2,
		.runtime_name = "native",
		.tmp_dir = "/tmp",
		.import_base = "https://github.com",
		.import_host = "github.com",
		.import_max = 10u << 20,
		.error_words = error_words,
		.audit_keep_us = 90 * 86400 * RIG_SECOND,
		.snapshot_keep_us = 30 * 86400 * RIG_SECOND,
		.volume_overcommit = 2,
	};
	rig_open(r);
	*state = r;
	return 0;
}

int rig_teardown(void **state)
{
	static const char *const ends[] = { "", "-wal", "-shm" };
	struct rig *r = *state;

	if (r->core)
		rig_close(r);
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		_cleanup_free_ char *path = mem_printf("%s%s", r->path, ends[i]);
		unlink(path);
	}
	assert_int_equal(rmdir(r->dir), 0);
	rig_runtime_close(&r->runtime);
	uv_run(&r->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&r->loop), 0);
	free(r);
	return 0;
}

static void on_session(void *data, struct session *s, const struct err *err)
{
	if (err)
		fail_msg("%s", err->text);
	*(struct session **)data = s;
}

struct session *rig_session_egress(struct rig *r, struct tenant *t, const struct str *egress,
				   size_t n)
{
	const struct session_params p = { .template_name = STR("sandbox-base:latest"),
					  .egress = egress,
					  .n_egress = n };
	struct session *s = NULL;

	session_create(r->core, t, &p, on_session, &s);
	assert_null(s);
	rig_settle(r);
	assert_non_null(s);
	return s;
}

struct session *rig_session(struct rig *r, struct tenant *t)
{
	return rig_session_egress(r, t, NULL, 0);
}
