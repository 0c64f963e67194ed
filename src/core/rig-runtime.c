// SPDX-License-Identifier: Apache-2.0
/* The runtime of the rig: it answers what it was told to, from a timer of the loop. */
#include "core/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

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

void rig_start_commands(struct rig *r)
{
	for (struct rig_call *call = r->runtime.first; call; call = call->next) {
		if (call->kind == RIG_EXEC)
			call->fn.exec->started(call->data);
	}
}

void runtime_exec_kill(struct runtime_exec *exec)
{
	((struct rig_call *)exec)->killed = true;
}

static struct rig_call *ask_file(struct runtime *rt, enum rig_kind kind,
				 const struct runtime_file_spec *spec, void *data)
{
	rt->queue_ms = spec->queue_ms;
	return ask(rt, kind, spec->volume, data);
}

struct runtime_file *runtime_file_read(struct runtime *rt, const struct runtime_file_spec *spec,
				       uint64_t max, runtime_read_fn fn, void *data)
{
	struct rig_call *call = ask_file(rt, RIG_READ, spec, data);

	call->fn.read = fn;
	rt->max = max;
	return (struct runtime_file *)call;
}

struct runtime_file *runtime_file_write(struct runtime *rt, const struct runtime_file_spec *spec,
					struct str bytes, uint64_t quota_bytes, runtime_write_fn fn,
					void *data)
{
	struct rig_call *call = ask_file(rt, RIG_WRITE, spec, data);

	call->fn.write = fn;
	rt->quota = quota_bytes;
	return (struct runtime_file *)call;
}

struct runtime_file *runtime_file_usage(struct runtime *rt, const struct runtime_file_spec *spec,
					runtime_write_fn fn, void *data)
{
	struct rig_call *call = ask_file(rt, RIG_USAGE, spec, data);

	call->fn.write = fn;
	return (struct runtime_file *)call;
}

struct runtime_file *runtime_upload(struct runtime *rt, const struct runtime_file_spec *spec,
				    const struct runtime_upload *upload,
				    const struct runtime_upload_ops *ops, void *data)
{
	struct rig_call *call = ask_file(rt, RIG_UPLOAD, spec, data);

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
	struct rig_call *call = ask_file(rt, kind, spec, data);

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
	struct rig_call *call = ask_file(rt, RIG_LIST, spec, data);

	call->fn.list = fn;
	rt->depth = depth;
	snprintf(rt->second, sizeof(rt->second), "%.*s", (int)after.len, after.data);
	return (struct runtime_file *)call;
}

static struct runtime_file *ask_change(struct runtime *rt, const struct runtime_file_spec *spec,
				       bool flag, runtime_write_fn fn, void *data)
{
	struct rig_call *call = ask_file(rt, RIG_CHANGE, spec, data);

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
	struct rig_call *call = ask_file(rt, RIG_LOOK, spec, data);

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
	struct rig_call *call = ask_file(rt, RIG_UNPACK, spec, data);
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

	rt->queue_ms = spec->queue_ms;
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
	struct rig_call *call = ask_file(rt, RIG_MERGE, spec, data);

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

bool rig_has_volume(struct rig *r, const char *id)
{
	return find_volume(&r->runtime, id) < r->runtime.disk->n_volumes;
}

/* ---- Life ---- */

static void on_spin(uv_timer_t *timer)
{
}

void rig_runtime_open(struct runtime *rt, uv_loop_t *loop)
{
	rt->loop = loop;
	rt->disk = mmap(NULL, sizeof(struct rig_disk), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(rt->disk, MAP_FAILED);
	rt->text = "";
	rt->fail[RIG_LOOK] = "file_not_found";
	rt->fetched = (struct runtime_fetch_result){ .host = "", .reason = "" };
	rt->result.cpu_ms = 1;
	uv_timer_init(loop, &rt->timer);
	rt->timer.data = rt;
	uv_timer_start(&rt->timer, on_spin, 0, 0);
}

void rig_runtime_close(struct runtime *rt)
{
	uv_close((uv_handle_t *)&rt->timer, NULL);
	munmap(rt->disk, sizeof(struct rig_disk));
}

void rig_runtime_go(struct runtime *rt)
{
	uv_timer_start(&rt->timer, on_timer, 0, 0);
}
