// SPDX-License-Identifier: Apache-2.0
#include "core/rig.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "core/parts.h"

struct runtime_output {
	uint64_t size, dropped;
};

struct rig_call {
	enum rig_kind kind;
	char volume[SESSION_ID_LEN + 1];
	union {
		const struct runtime_exec_ops *exec;
		runtime_read_fn read;
		runtime_write_fn write;
		runtime_volume_fn volume_fn;
		runtime_stat_fn stat;
		runtime_live_fn live;
		runtime_list_fn list;
		runtime_space_fn space;
		runtime_fetch_fn fetch;
	} fn;
	struct runtime_upload_ops up;
	struct runtime_download_ops down;
	void *data;
	bool detached, killed;
	bool fails; /* fail_at */
	uint32_t tenant;
	struct rig_call *next;
};

/* ---- The runtime ---- */

static struct rig_call *ask(struct runtime *rt, enum rig_kind kind, const char *volume, void *data);

/* Whose the jobs are that name no runtime. */
static struct runtime *only_runtime;

struct runtime_egress {
	char session[SESSION_ID_LEN + 1];
	char rules[512]; /* separated by blanks */
	struct runtime_egress *next;
};

struct runtime_egress *runtime_egress_open(struct runtime *rt,
					   const struct runtime_egress_spec *spec)
{
	struct runtime_egress *e = mem_new(1, sizeof(*e));
	size_t len = 0;

	snprintf(e->session, sizeof(e->session), "%s", spec->session);
	for (size_t i = 0; i < spec->n_rules; i++)
		len += (size_t)snprintf(e->rules + len, sizeof(e->rules) - len, "%s%s",
					i ? " " : "", spec->rules[i]);
	e->next = rt->egress;
	rt->egress = e;
	rt->n_egress++;
	return e;
}

void runtime_egress_close(struct runtime *rt, struct runtime_egress *e)
{
	struct runtime_egress **at = &rt->egress;

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	rt->n_egress--;
	free(e);
}

void runtime_egress_live(struct runtime *rt, struct runtime_egress *e, runtime_live_fn fn,
			 void *data)
{
	ask(rt, RIG_LIVE, e->session, data)->fn.live = fn;
}

const char *rig_egress(struct rig *r, const char *session)
{
	for (struct runtime_egress *e = r->runtime.egress; e; e = e->next) {
		if (strcmp(e->session, session) == 0)
			return e->rules;
	}
	return NULL;
}

uint64_t runtime_output_size(const struct runtime_output *o)
{
	return o->size;
}

uint64_t runtime_output_dropped(const struct runtime_output *o)
{
	return o->dropped;
}

uint64_t runtime_output_head(const struct runtime_output *o)
{
	return o->size;
}

ssize_t runtime_output_read(const struct runtime_output *o, uint64_t offset, void *data, size_t len)
{
	return 0;
}

void runtime_output_free(struct runtime_output *o)
{
	free(o);
}

static size_t find_volume(struct runtime *rt, const char *id)
{
	size_t i = 0;

	while (i < rt->disk->n_volumes && strcmp(rt->disk->volumes[i], id) != 0)
		i++;
	return i;
}

void rig_add_volume(struct runtime *rt, const char *id, uint32_t tenant)
{
	struct rig_disk *disk = rt->disk;

	assert_int_equal(find_volume(rt, id), disk->n_volumes);
	assert_true(disk->n_volumes < RIG_VOLUMES);
	disk->owners[disk->n_volumes] = tenant;
	snprintf(disk->volumes[disk->n_volumes++], SESSION_ID_LEN + 1, "%s", id);
}

static void remove_volume(struct runtime *rt, const char *id)
{
	struct rig_disk *disk = rt->disk;
	size_t i = find_volume(rt, id);

	if (i == disk->n_volumes)
		return;
	disk->n_volumes--;
	memmove(disk->volumes[i], disk->volumes[disk->n_volumes], SESSION_ID_LEN + 1);
	disk->owners[i] = disk->owners[disk->n_volumes];
}

static void answer_exec(struct runtime *rt, struct rig_call *call, const struct err *err)
{
	struct runtime_exec_result result = rt->result;

	if (call->killed)
		result.exit_code = 137;
	for (size_t i = 0; i < 2; i++) {
		result.streams[i] = mem_new(1, sizeof(struct runtime_output));
		result.streams[i]->dropped = rt->dropped[i];
	}
	result.denied = mem_dup_n(rt->denied, sizeof(rt->denied));
	result.n_denied = rt->n_denied;
	if (!call->detached)
		call->fn.exec->done(call->data, err ? NULL : &result, err);
	for (size_t i = 0; i < 2; i++)
		runtime_output_free(result.streams[i]);
	free(result.denied);
}

/* The text of the runtime as one piece. */
static void answer_download(struct runtime *rt, struct rig_call *call, const struct err *err)
{
	struct err broken = { .code = 5, .slug = rt->breaks };
	struct runtime_file_result file = { .size = strlen(rt->text) };

	if (!err) {
		call->down.begun(call->data, &file);
		call->down.bytes(call->data, str_of(rt->text));
	}
	/* The caller may have let go in there. */
	if (!call->detached)
		call->down.done(call->data, &file, !err && rt->breaks ? &broken : err);
}

static void answer_list(struct runtime *rt, struct rig_call *call, const struct err *err)
{
	const struct runtime_entry entry = { .path = str_of(rt->text) };

	call->fn.list(call->data, &entry, err ? 0 : 1, false, err);
}

static struct runtime_space rig_space(const struct runtime *rt)
{
	struct runtime_space space = rt->space;

	space.hard_quota = rt->hard_quota;
	for (size_t i = 0; i < rt->disk->n_volumes; i++)
		space.promised += strncmp(rt->disk->volumes[i], "sbx_", 4) == 0 ? rt->limit : 0;
	return space;
}

static void answer(struct runtime *rt, struct rig_call *call)
{
	const char *slug = call->fails ? "no_capacity" : rt->fail[call->kind];
	struct err failed = { .code = 5, .slug = slug, .text = "the test says so" };
	const struct err *err = slug ? &failed : NULL;
	struct runtime_file_result file = { .used_bytes = rt->used,
					    .size = rt->number,
					    .fault = rt->fault };
	struct runtime_space space;

	switch (call->kind) {
	case RIG_EXEC:
		answer_exec(rt, call, err);
		break;
	case RIG_READ:
		if (!call->detached)
			call->fn.read(call->data, &file, str_of(rt->text), err);
		break;
	case RIG_WRITE:
	case RIG_USAGE:
		if (!call->detached)
			call->fn.write(call->data, &file, err);
		break;
	case RIG_UPLOAD:
		if (!call->detached)
			call->up.done(call->data, &file, err);
		break;
	case RIG_DOWNLOAD:
	case RIG_PACK:
		if (!call->detached)
			answer_download(rt, call, err);
		break;
	case RIG_LIST:
		if (!call->detached)
			answer_list(rt, call, err);
		break;
	case RIG_CHANGE:
		if (!call->detached)
			call->fn.write(call->data, &file, err);
		break;
	case RIG_CREATE:
		if (!err)
			rig_add_volume(rt, call->volume, call->tenant);
		call->fn.volume_fn(call->data, err);
		break;
	case RIG_DELETE:
		if (!err)
			remove_volume(rt, call->volume);
		call->fn.volume_fn(call->data, err);
		break;
	case RIG_LIMIT:
		call->fn.volume_fn(call->data, err);
		break;
	case RIG_SPACE:
		space = rig_space(rt);
		call->fn.space(call->data, err ? NULL : &space, err);
		break;
	case RIG_STAT:
		call->fn.stat(call->data, rt->counter, err);
		break;
	case RIG_LIVE:
		call->fn.live(call->data, err ? NULL : rt->live, rt->n_live);
		break;
	case RIG_COPY:
		/* Something is left of one that failed. */
		if (find_volume(rt, call->volume) == rt->disk->n_volumes)
			rig_add_volume(rt, call->volume, call->tenant);
		call->fn.write(call->data, &file, err);
		break;
	case RIG_MERGE:
		call->fn.read(call->data, &file, str_of(err ? rt->in_the_way : ""), err);
		break;
	case RIG_LOOK:
	case RIG_UNPACK:
		if (!call->detached)
			call->fn.write(call->data, &file, err);
		break;
	case RIG_FETCH:
		if (!call->detached)
			call->fn.fetch(call->data, &rt->fetched);
		break;
	case RIG_KINDS:
		break;
	}
	free(call);
}

static bool answer_first(struct runtime *rt)
{
	for (struct rig_call **at = &rt->first, *before = NULL; *at; at = &(*at)->next) {
		struct rig_call *call = *at;
		if (!rt->hold[call->kind] || call->killed) {
			*at = call->next;
			if (rt->last == call)
				rt->last = before;
			answer(rt, call);
			return true;
		}
		before = call;
	}
	return false;
}

static void on_timer(uv_timer_t *timer)
{
	struct runtime *rt = timer->data;

	while (answer_first(rt))
		;
}

static struct rig_call *ask(struct runtime *rt, enum rig_kind kind, const char *volume, void *data)
{
	struct rig_call *call = mem_new(1, sizeof(*call));

	only_runtime = rt;
	call->kind = kind;
	call->data = data;
	snprintf(call->volume, sizeof(call->volume), "%s", volume);
	if (rt->last)
		rt->last->next = call;
	else
		rt->first = call;
	rt->last = call;
	rt->calls[kind]++;
	call->fails = rt->calls[kind] == rt->fail_at[kind];
	uv_timer_start(&rt->timer, on_timer, 0, 0);
	return call;
}

struct runtime_exec *runtime_exec_start(struct runtime *rt, const struct runtime_exec_spec *spec,
					const struct runtime_exec_ops *ops, void *data)
{
	struct rig_call *call = ask(rt, RIG_EXEC, spec->volume, data);

	call->fn.exec = ops;
	rt->with_egress = spec->egress != NULL;
	rt->n_env = spec->n_env;
	for (size_t i = 0; i < spec->n_env; i++)
		snprintf(rt->env[i], sizeof(rt->env[i]), "%s", spec->env[i]);
	snprintf(rt->cwd, sizeof(rt->cwd), "%.*s", (int)spec->cwd.len, spec->cwd.data);
	return (struct runtime_exec *)call;
}

void runtime_exec_kill(struct runtime_exec *exec)
{
	((struct rig_call *)exec)->killed = true;
}

struct runtime_file *runtime_file_read(struct runtime *rt, const struct runtime_file_spec *spec,
				       uint64_t max, runtime_read_fn fn, void *data)
{
	struct rig_call *call = ask(rt, RIG_READ, spec->volume, data);

	call->fn.read = fn;
	rt->max = max;
	return (struct runtime_file *)call;
}

struct runtime_file *runtime_file_write(struct runtime *rt, const struct runtime_file_spec *spec,
					struct str bytes, uint64_t quota_bytes, runtime_write_fn fn,
					void *data)
{
	struct rig_call *call = ask(rt, RIG_WRITE, spec->volume, data);

	call->fn.write = fn;
	rt->quota = quota_bytes;
	return (struct runtime_file *)call;
}

struct runtime_file *runtime_file_usage(struct runtime *rt, const struct runtime_file_spec *spec,
					runtime_write_fn fn, void *data)
{
	struct rig_call *call = ask(rt, RIG_USAGE, spec->volume, data);

	call->fn.write = fn;
	return (struct runtime_file *)call;
}

struct runtime_file *runtime_upload(struct runtime *rt, const struct runtime_file_spec *spec,
				    const struct runtime_upload *upload,
				    const struct runtime_upload_ops *ops, void *data)
{
	struct rig_call *call = ask(rt, RIG_UPLOAD, spec->volume, data);

	call->up = rt->up = *ops;
	rt->upload = *upload;
	rt->up_data = data;
	rt->given[0] = '\0';
	rt->given_end = false;
	return (struct runtime_file *)call;
}

bool runtime_upload_give(struct runtime_file *job, struct str bytes)
{
	size_t at = strlen(only_runtime->given);

	snprintf(only_runtime->given + at, sizeof(only_runtime->given) - at, "%.*s", (int)bytes.len,
		 bytes.data);
	return bytes.len < 4;
}

void runtime_upload_end(struct runtime_file *job)
{
	only_runtime->given_end = true;
}

static struct runtime_file *ask_download(struct runtime *rt, enum rig_kind kind,
					 const struct runtime_file_spec *spec, uint64_t max,
					 const struct runtime_download_ops *ops, void *data)
{
	struct rig_call *call = ask(rt, kind, spec->volume, data);

	call->down = *ops;
	rt->max = max;
	return (struct runtime_file *)call;
}

struct runtime_file *runtime_download(struct runtime *rt, const struct runtime_file_spec *spec,
				      uint64_t max, const struct runtime_download_ops *ops,
				      void *data)
{
	return ask_download(rt, RIG_DOWNLOAD, spec, max, ops, data);
}

struct runtime_file *runtime_pack(struct runtime *rt, const struct runtime_file_spec *spec,
				  uint64_t max, const struct runtime_download_ops *ops, void *data)
{
	return ask_download(rt, RIG_PACK, spec, max, ops, data);
}

void runtime_download_resume(struct runtime_file *job)
{
	only_runtime->resumed++;
}

struct runtime_file *runtime_list(struct runtime *rt, const struct runtime_file_spec *spec,
				  struct str after, uint32_t depth, runtime_list_fn fn, void *data)
{
	struct rig_call *call = ask(rt, RIG_LIST, spec->volume, data);

	call->fn.list = fn;
	rt->depth = depth;
	snprintf(rt->second, sizeof(rt->second), "%.*s", (int)after.len, after.data);
	return (struct runtime_file *)call;
}

static struct runtime_file *ask_change(struct runtime *rt, const struct runtime_file_spec *spec,
				       bool flag, runtime_write_fn fn, void *data)
{
	struct rig_call *call = ask(rt, RIG_CHANGE, spec->volume, data);

	call->fn.write = fn;
	rt->flag = flag;
	return (struct runtime_file *)call;
}

struct runtime_file *runtime_remove(struct runtime *rt, const struct runtime_file_spec *spec,
				    bool recursive, runtime_write_fn fn, void *data)
{
	return ask_change(rt, spec, recursive, fn, data);
}

struct runtime_file *runtime_move(struct runtime *rt, const struct runtime_file_spec *spec,
				  struct str to, bool replace, runtime_write_fn fn, void *data)
{
	snprintf(rt->second, sizeof(rt->second), "%.*s", (int)to.len, to.data);
	return ask_change(rt, spec, replace, fn, data);
}

struct runtime_file *runtime_mkdir(struct runtime *rt, const struct runtime_file_spec *spec,
				   runtime_write_fn fn, void *data)
{
	return ask_change(rt, spec, false, fn, data);
}

struct runtime_file *runtime_look(struct runtime *rt, const struct runtime_file_spec *spec,
				  runtime_write_fn fn, void *data)
{
	struct rig_call *call = ask(rt, RIG_LOOK, spec->volume, data);

	call->fn.write = fn;
	snprintf(rt->path, sizeof(rt->path), "%.*s", (int)spec->path.len, spec->path.data);
	return (struct runtime_file *)call;
}

struct runtime_fetch *runtime_fetch_start(struct runtime *rt, const struct runtime_fetch_spec *spec,
					  runtime_fetch_fn fn, void *data)
{
	struct rig_call *call = ask(rt, RIG_FETCH, "", data);
	size_t len = 0;

	call->fn.fetch = fn;
	rt->max = spec->max_bytes;
	rt->fetch_fd = spec->fd;
	snprintf(rt->url, sizeof(rt->url), "%s", spec->url);
	for (size_t i = 0; i < spec->n_hosts; i++)
		len += (size_t)snprintf(rt->hosts + len, sizeof(rt->hosts) - len, "%s%s",
					i ? " " : "", spec->hosts[i]);
	if (rt->archive)
		assert_int_equal(pwrite(spec->fd, rt->archive, strlen(rt->archive), 0),
				 strlen(rt->archive));
	return (struct runtime_fetch *)call;
}

void runtime_fetch_cancel(struct runtime_fetch *fetch)
{
	((struct rig_call *)fetch)->detached = true;
	only_runtime->cancelled++;
}

struct runtime_file *runtime_unpack(struct runtime *rt, const struct runtime_file_spec *spec,
				    const struct runtime_unpack *unpack, runtime_write_fn fn,
				    void *data)
{
	struct rig_call *call = ask(rt, RIG_UNPACK, spec->volume, data);
	size_t len = unpack->size < sizeof(rt->unpacked) ? unpack->size : sizeof(rt->unpacked) - 1;

	call->fn.write = fn;
	rt->unpack = *unpack;
	memset(rt->unpacked, 0, sizeof(rt->unpacked));
	assert_true(pread(unpack->fd, rt->unpacked, len, 0) >= 0);
	snprintf(rt->path, sizeof(rt->path), "%.*s", (int)spec->path.len, spec->path.data);
	return (struct runtime_file *)call;
}

void runtime_file_detach(struct runtime_file *job)
{
	((struct rig_call *)job)->detached = true;
}

void runtime_volume_create(struct runtime *rt, const struct runtime_volume_spec *spec,
			   runtime_volume_fn fn, void *data)
{
	struct rig_call *call = ask(rt, RIG_CREATE, spec->volume, data);

	call->fn.volume_fn = fn;
	call->tenant = spec->tenant;
	rt->limit = spec->limit_bytes;
	rt->tenant_limit = spec->tenant_bytes;
	snprintf(rt->source, sizeof(rt->source), "%s", spec->source ? spec->source : "");
}

void runtime_volume_limit(struct runtime *rt, const char *volume, uint64_t limit_bytes,
			  runtime_volume_fn fn, void *data)
{
	ask(rt, RIG_LIMIT, volume, data)->fn.volume_fn = fn;
	rt->limit = limit_bytes;
}

void runtime_snapshot_create(struct runtime *rt, const struct runtime_snapshot_spec *spec,
			     runtime_write_fn fn, void *data)
{
	struct rig_call *call = ask(rt, RIG_COPY, spec->snapshot, data);

	call->fn.write = fn;
	call->tenant = spec->tenant;
	snprintf(rt->source, sizeof(rt->source), "%s", spec->volume);
	snprintf(rt->copied, sizeof(rt->copied), "%s", spec->snapshot);
	snprintf(rt->path, sizeof(rt->path), "%.*s", spec->path.data ? (int)spec->path.len : 1,
		 spec->path.data ? spec->path.data : "*");
}

struct runtime_file *runtime_file_merge(struct runtime *rt, const struct runtime_file_spec *spec,
					const char *source, uint64_t quota_bytes,
					runtime_read_fn fn, void *data)
{
	struct rig_call *call = ask(rt, RIG_MERGE, spec->volume, data);

	call->fn.read = fn;
	rt->quota = quota_bytes;
	snprintf(rt->source, sizeof(rt->source), "%s", source);
	snprintf(rt->path, sizeof(rt->path), "%.*s", (int)spec->path.len, spec->path.data);
	return (struct runtime_file *)call;
}

void runtime_volume_delete(struct runtime *rt, const char *volume, runtime_volume_fn fn, void *data)
{
	/* Every command in it ends. */
	for (struct rig_call *call = rt->first; call; call = call->next) {
		if (call->kind == RIG_EXEC && strcmp(call->volume, volume) == 0)
			call->killed = true;
	}
	ask(rt, RIG_DELETE, volume, data)->fn.volume_fn = fn;
}

void runtime_volume_stat(struct runtime *rt, const char *volume, runtime_stat_fn fn, void *data)
{
	ask(rt, RIG_STAT, volume, data)->fn.stat = fn;
}

void runtime_volume_space(struct runtime *rt, runtime_space_fn fn, void *data)
{
	ask(rt, RIG_SPACE, "", data)->fn.space = fn;
}

void runtime_warm(struct runtime *rt, uint32_t tenant, const char *image, bool egress)
{
	rt->warmed = tenant;
}

void runtime_info_get(struct runtime *rt, struct runtime_info *ret)
{
	*ret = (struct runtime_info){ .name = "test",
				      .ready = true,
				      .hard_quota = rt->hard_quota,
				      .counts_shared = rt->counts_shared,
				      .volume = rig_space(rt) };
}

/* ---- The rig ---- */

static void on_closed(void *data)
{
	*(bool *)data = true;
}

static void on_spin(uv_timer_t *timer)
{
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
	uv_timer_start(&r->runtime.timer, on_timer, 0, 0);
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
	r->runtime.loop = &r->loop;
	r->runtime.disk = mmap(NULL, sizeof(struct rig_disk), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(r->runtime.disk, MAP_FAILED);
	r->runtime.text = "";
	r->runtime.fail[RIG_LOOK] = "file_not_found";
	r->runtime.fetched = (struct runtime_fetch_result){ .host = "", .reason = "" };
	r->runtime.result.cpu_ms = 1;
	uv_timer_init(&r->loop, &r->runtime.timer);
	r->runtime.timer.data = &r->runtime;
	uv_timer_start(&r->runtime.timer, on_spin, 0, 0);
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
	uv_close((uv_handle_t *)&r->runtime.timer, NULL);
	uv_run(&r->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&r->loop), 0);
	munmap(r->runtime.disk, sizeof(struct rig_disk));
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

bool rig_has_volume(struct rig *r, const char *id)
{
	return find_volume(&r->runtime, id) < r->runtime.disk->n_volumes;
}
