// SPDX-License-Identifier: Apache-2.0
#include "api/fakes.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"

struct fake_core fake;

const struct tenant_limit_field tenant_limit_fields[] = {
	{ "max_sessions", offsetof(struct tenant_limits, max_sessions) },
	{ "requests_per_minute", offsetof(struct tenant_limits, requests_per_minute) },
};
const size_t tenant_limit_n_fields = ARRAY_SIZE(tenant_limit_fields);

static char key_name[] = "ci";
static char template_name[] = "sandbox-base:latest";
static char snapshot_texts[2][8] = { "before", "out" };

void fake_reset(void)
{
	fake = (struct fake_core){
		.config = { .runtime_name = "native" },
		.a = { .number = 1, .limits = TENANT_LIMITS_DEFAULT },
		.b = { .number = 2, .limits = TENANT_LIMITS_DEFAULT },
		.session = { .id = "sbx_0123456789ab",
			     .state = SESSION_READY,
			     .tenant = &fake.a,
			     .template_name = template_name,
			     .quota_bytes = 512u << 20,
			     .created_us = 1000000,
			     .accessed_us = 2000000 },
		.has_session = true,
		.key = { .id = "abcdefghij",
			 .tenant = &fake.a,
			 .name = key_name,
			 .created_us = 7000000 },
		.snapshot = { .id = "snap_0123456789abcdef",
			      .session_id = "sbx_0123456789ab",
			      .tenant = &fake.a,
			      .name = snapshot_texts[0],
			      .path = snapshot_texts[1],
			      .template_name = template_name,
			      .size_bytes = 1234,
			      .created_us = 3000000,
			      .expires_us = 5000000 },
		.has_snapshot = true,
	};
	clock_fake(1000000, 1700000000000000);
	fake.a.limits.requests_per_minute = fake.b.limits.requests_per_minute = 10;
	fake.a.rate.capacity = fake.b.rate.capacity = 10;
	static char names[2][2] = { "a", "b" };
	fake.a.name = names[0];
	fake.b.name = names[1];
}

static void note_call(char out[static 128], struct str text)
{
	snprintf(out, 128, "%.*s", (int)text.len, text.data ? text.data : "");
}

bool key_find(struct core *c, struct str text, struct caller *ret)
{
	bool stored = fake.has_key && str_eq(text, STR("key-stored"));

	*ret = (struct caller){ .tenant = &fake.a, .key = stored ? &fake.key : NULL };
	if (str_eq(text, STR("key-b")))
		ret->tenant = &fake.b;
	return stored || str_eq(text, STR("key-a")) || str_eq(text, STR("key-b"));
}

void caller_actor(const struct caller *who, char out[KEY_ACTOR_MAX])
{
	snprintf(out, KEY_ACTOR_MAX, "%s", who->key ? "key abcdefghij" : "static key");
}

bool audit_is_on(const struct core *c)
{
	return fake.has_audit;
}

void audit_page(struct core *c, const struct tenant *t, int64_t before_us, uint32_t before_id,
		size_t limit, store_audit_page_fn fn, void *data)
{
	fake.audit_before_us = before_us;
	fake.audit_before_id = before_id;
	fake.audit_limit = limit;
	fake.audit_done = fn;
	fake.data = data;
}

bool keys_are_stored(const struct core *c)
{
	return fake.has_key;
}

const struct key *key_next(const struct core *c, const struct tenant *tenant,
			   const struct key *prev)
{
	return !prev && fake.has_key && (!tenant || tenant == &fake.a) ? &fake.key : NULL;
}

struct tenant *tenant_find(struct core *c, struct str name)
{
	return str_eq(name, STR("a")) ? &fake.a : str_eq(name, STR("b")) ? &fake.b : NULL;
}

void key_issue(struct core *c, struct str tenant, struct str name, key_issued_fn fn, void *data)
{
	note_call(fake.path, tenant);
	note_call(fake.name, name);
	fake.key_issued = fn;
	fake.data = data;
}

void key_revoke(struct core *c, const struct tenant *tenant, struct str id, key_fn fn, void *data)
{
	note_call(fake.path, str_of(tenant ? tenant->name : ""));
	note_call(fake.name, id);
	fake.key_revoked = fn;
	fake.data = data;
}

void keys_listen(struct core *c, void (*revoked)(void *data, const struct key *key), void *data)
{
	fake.on_revoked = revoked;
	fake.revoked_data = data;
}

void rate_init(struct rate *r, uint32_t capacity, int64_t now_us)
{
	*r = (struct rate){ .capacity = capacity };
}

/* micro_tokens counts what was taken. */
bool rate_take(struct rate *r, int64_t now_us, uint32_t *ret_wait_s)
{
	*ret_wait_s = 6;
	if (r->micro_tokens == r->capacity)
		return false;
	r->micro_tokens++;
	return true;
}

uint32_t rate_available(struct rate *r, int64_t now_us)
{
	return r->capacity - (uint32_t)r->micro_tokens;
}

const struct core_config *core_config_get(const struct core *c)
{
	return &fake.config;
}

struct runtime *core_runtime(const struct core *c)
{
	return NULL;
}

void core_on_behalf(struct core *c, const char *request)
{
	snprintf(fake.request, sizeof(fake.request), "%s", request);
}

bool core_is_stopping(const struct core *c)
{
	return fake.stopping;
}

struct session *session_find(struct core *c, struct str id)
{
	fake.lookups++;
	return fake.has_session && str_eq(id, str_of(fake.session.id)) ? &fake.session : NULL;
}

void session_touch(struct core *c, struct session *s)
{
	fake.touches++;
}

int64_t session_expires_us(const struct core *c, const struct session *s)
{
	return s->accessed_us + 1800000000;
}

struct session *session_next(struct core *c, const struct tenant *t, const struct session *prev)
{
	return fake.has_session && !prev && t == fake.session.tenant ? &fake.session : NULL;
}

uint32_t session_count(const struct core *c)
{
	return fake.has_session;
}

enum core_room core_room(const struct core *c)
{
	return fake.room;
}

unsigned core_lost_volumes(const struct core *c)
{
	return fake.lost_volumes;
}

const struct egress_list *core_egress(const struct core *c, const struct tenant *t)
{
	static const struct egress_list nothing;

	return t == &fake.a ? &fake.policy : &nothing;
}

void session_refusal(const struct core *c, const struct tenant *t, const struct session_params *p,
		     const char *slug, struct buf *out)
{
	if (slug && strcmp(slug, "egress_not_permitted") == 0)
		buf_printf(out, "%zu refused", p->n_egress);
	else if (slug && strcmp(slug, "template_not_permitted") == 0)
		buf_printf(out, "%.*s refused", (int)p->template_name.len, p->template_name.data);
}

void session_create(struct core *c, struct tenant *t, const struct session_params *p, session_fn fn,
		    void *data)
{
	fake.create = *p;
	snprintf(fake.create_template, sizeof(fake.create_template), "%.*s",
		 (int)p->template_name.len, p->template_name.data);
	fake.session_done = fn;
	fake.data = data;
}

void session_delete(struct core *c, struct session *s, session_fn fn, void *data)
{
	fake.has_session = false;
	fake.session_done = fn;
	fake.data = data;
}

void session_egress_live(struct core *c, struct session *s, runtime_live_fn fn, void *data)
{
	fake.live_done = fn;
	fake.data = data;
}

void session_disk_used(struct core *c, struct session *s, runtime_stat_fn fn, void *data)
{
	fake.stat_done = fn;
	fake.data = data;
}

static void take_path(struct str path)
{
	snprintf(fake.path, sizeof(fake.path), "%.*s", (int)path.len, path.data);
}

int snapshot_check_limit(struct core *c, struct tenant *t, struct err *err)
{
	return fake.snapshots_full ? err_slug(err, EDQUOT, "snapshot_limit", "full") : 0;
}

void snapshot_create(struct core *c, struct session *s, struct str name, struct str path,
		     const char *actor, snapshot_fn fn, void *data)
{
	fake.named = name.data != NULL;
	snprintf(fake.name, sizeof(fake.name), "%.*s", (int)name.len, name.data ? name.data : "");
	take_path(path);
	fake.snapshot_done = fn;
	fake.data = data;
}

struct snapshot *snapshot_find(struct core *c, const struct tenant *t, struct str id)
{
	return snapshot_next(c, t, NULL) && str_eq(id, str_of(fake.snapshot.id)) ? &fake.snapshot
										 : NULL;
}

struct snapshot *snapshot_next(struct core *c, const struct tenant *t, const struct snapshot *prev)
{
	return fake.has_snapshot && !prev && t == fake.snapshot.tenant ? &fake.snapshot : NULL;
}

void snapshot_delete(struct core *c, struct snapshot *snapshot, snapshot_fn fn, void *data)
{
	fake.has_snapshot = false;
	fake.snapshot_done = fn;
	fake.data = data;
}

void snapshot_restore(struct core *c, struct session *s, struct str id, struct str path,
		      const char *actor, snapshot_fn fn, void *data)
{
	snprintf(fake.name, sizeof(fake.name), "%.*s", (int)id.len, id.data);
	take_path(path);
	fake.snapshot_done = fn;
	fake.data = data;
}

void session_fork(struct core *c, struct session *s, unsigned count, const char *actor, fork_fn fn,
		  void *data)
{
	fake.fork_count = count;
	fake.fork_done = fn;
	fake.data = data;
}

int exec_start(struct core *c, struct session *s, const struct exec_params *p,
	       const struct exec_ops *ops, void *data, struct exec **ret, struct err *err)
{
	if (fake.exec_fails)
		return err_slug(err, EINVAL, "secret_name_reserved", "'PATH' is reserved.");
	fake.execs++;
	memcpy(fake.exec_request, fake.request, sizeof(fake.request));
	fake.exec = *p;
	note_call(fake.actor, str_of(p->actor));
	fake.exec_ops = *ops;
	fake.data = data;
	snprintf(fake.command, sizeof(fake.command), "%.*s", (int)p->command.len, p->command.data);
	*ret = (struct exec *)&fake;
	return 0;
}

void exec_detach(struct exec *e)
{
	fake.exec_detached = true;
}

void exec_kill(struct exec *e)
{
	fake.exec_killed = true;
}

struct files_call *files_read(struct core *c, struct session *s, struct str path, files_read_fn fn,
			      void *data)
{
	take_path(path);
	fake.read_done = fn;
	fake.data = data;
	return (struct files_call *)&fake;
}

struct files_call *files_write(struct core *c, struct session *s, struct str path, struct str bytes,
			       files_write_fn fn, void *data)
{
	take_path(path);
	fake.content = bytes;
	fake.write_done = fn;
	fake.data = data;
	return (struct files_call *)&fake;
}

struct files_call *files_upload(struct core *c, struct session *s, struct str path, uint64_t size,
				const struct files_upload_ops *ops, void *data)
{
	take_path(path);
	fake.upload = *ops;
	fake.upload_size = size;
	fake.upload_full = fake.upload_ended = false;
	buf_fini(&fake.uploaded);
	fake.uploaded = BUF(1u << 30);
	fake.data = data;
	return (struct files_call *)&fake;
}

bool files_give(struct files_call *call, struct str bytes)
{
	assert(!fake.file_detached && !fake.upload_ended);
	buf_put_str(&fake.uploaded, bytes);
	return !fake.upload_full;
}

void files_give_end(struct files_call *call)
{
	fake.upload_ended = true;
}

struct files_call *files_download(struct core *c, struct session *s, struct str path,
				  const struct files_download_ops *ops, void *data)
{
	take_path(path);
	fake.download = *ops;
	fake.data = data;
	return (struct files_call *)&fake;
}

struct files_call *files_archive(struct core *c, struct session *s, struct str path,
				 const struct files_download_ops *ops, void *data)
{
	fake.archives = true;
	return files_download(c, s, path, ops, data);
}

void files_resume(struct files_call *call)
{
	assert(!fake.file_detached);
	fake.resumed++;
}

static void take_second(struct str text)
{
	snprintf(fake.second, sizeof(fake.second), "%.*s", (int)text.len, text.data);
}

struct files_call *files_list(struct core *c, struct session *s, struct str path, struct str after,
			      uint32_t depth, files_list_fn fn, void *data)
{
	take_path(path);
	take_second(after);
	fake.depth = depth;
	fake.list_done = fn;
	fake.data = data;
	return (struct files_call *)&fake;
}

static struct files_call *change(struct str path, bool flag, files_change_fn fn, void *data)
{
	take_path(path);
	fake.flag = flag;
	fake.change_done = fn;
	fake.data = data;
	return (struct files_call *)&fake;
}

struct files_call *files_remove(struct core *c, struct session *s, struct str path, bool recursive,
				files_change_fn fn, void *data)
{
	return change(path, recursive, fn, data);
}

struct files_call *files_move(struct core *c, struct session *s, struct str from, struct str to,
			      bool replace, files_change_fn fn, void *data)
{
	take_second(to);
	return change(from, replace, fn, data);
}

struct files_call *files_mkdir(struct core *c, struct session *s, struct str path,
			       files_change_fn fn, void *data)
{
	return change(path, false, fn, data);
}

void files_detach(struct files_call *call)
{
	fake.file_detached = true;
}

int import_start(struct core *c, struct session *s, const struct import_params *p, import_fn fn,
		 void *data, struct import **ret, struct err *err)
{
	fake.import = *p;
	if (fake.import_refusal.code) {
		*err = fake.import_refusal;
		return -err->code;
	}
	fake.import_done = fn;
	fake.data = data;
	*ret = (struct import *)&fake;
	return 0;
}

void import_detach(struct import *im)
{
	fake.import_detached = true;
}

void usage_get(struct core *c, const struct tenant *t, struct usage_month *ret)
{
	*ret = (struct usage_month){ "2023-11", 3, 4, 5006 };
}

void runtime_info_get(struct runtime *rt, struct runtime_info *ret)
{
	*ret = (struct runtime_info){ .name = "native",
				      .ready = !fake.starting,
				      .silent = fake.silent,
				      .builds_fail = fake.builds_fail,
				      .has_gateway = fake.gateway_missing,
				      .gateway_restarts = fake.gateway_restarts };
}

uint32_t runtime_posture(struct runtime *rt, const char *volume, uint32_t tenant)
{
	return fake.posture;
}

/* ---- captured output ---- */

struct runtime_output *fake_output(struct str data, uint64_t head, uint64_t dropped)
{
	struct runtime_output *o = mem_new(1, sizeof(*o));

	*o = (struct runtime_output){ mem_dup_n(data.data, data.len), data.len, (size_t)head,
				      dropped, false };
	fake.outputs++;
	return o;
}

void runtime_output_free(struct runtime_output *o)
{
	if (!o)
		return;
	fake.outputs--;
	free(o->data);
	free(o);
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
	return o->head;
}

ssize_t runtime_output_read(const struct runtime_output *o, uint64_t offset, void *data, size_t len)
{
	if (o->broken)
		return -EIO;
	if (offset >= o->size)
		return 0;
	if (len > o->size - offset)
		len = o->size - (size_t)offset;
	memcpy(data, o->data + offset, len);
	return (ssize_t)len;
}
