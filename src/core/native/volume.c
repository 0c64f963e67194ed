// SPDX-License-Identifier: Apache-2.0
#include "core/native/volume.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/native/state.h"

/* FNV-1a. Names are random, made by ourselves: no need for a keyed hash. */
static size_t hash(const char *name)
{
	uint64_t h = UINT64_C(14695981039346656037);

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * UINT64_C(1099511628211);
	return (size_t)(h ^ h >> 32);
}

static struct volume **bucket(struct volume_table *t, const char *name)
{
	return &t->buckets[hash(name) & (t->n_buckets - 1)];
}

static struct volume *find(struct volume_table *t, const char *name)
{
	struct volume *v = t->n_buckets ? *bucket(t, name) : NULL;

	while (v && strcmp(v->name, name) != 0)
		v = v->next;
	return v;
}

static void grow(struct volume_table *t)
{
	struct volume_table bigger = { .n_buckets = t->n_buckets ? t->n_buckets * 2 : 64,
				       .n = t->n };

	bigger.buckets = mem_new(bigger.n_buckets, sizeof(struct volume *));
	for (size_t i = 0; i < t->n_buckets; i++) {
		struct volume *v, *next;
		for (v = t->buckets[i]; v; v = next) {
			struct volume **to = bucket(&bigger, v->name);
			next = v->next;
			v->next = *to;
			*to = v;
		}
	}
	free(t->buckets);
	*t = bigger;
}

struct volume *volume_add(struct runtime *rt, const char *name, uint32_t tenant)
{
	struct volume_table *t = &rt->volumes;
	size_t len = strlen(name);
	struct volume *v = find(t, name);

	if (v)
		return v;
	if (!len || len >= MSG_VOLUME_NAME)
		return NULL;
	if (t->n >= t->n_buckets)
		grow(t);
	v = mem_new(1, sizeof(*v));
	memcpy(v->name, name, len);
	v->tenant = tenant;
	TAILQ_INIT(&v->sandboxes);
	TAILQ_INIT(&v->readers);
	struct volume **to = bucket(t, name);
	v->next = *to;
	*to = v;
	t->n++;
	return v;
}

struct volume *volume_find(struct runtime *rt, const char *name)
{
	struct volume *v = find(&rt->volumes, name);

	return v && v->state == VOLUME_PRESENT ? v : NULL;
}

static void drop(struct runtime *rt, struct volume *v)
{
	struct volume **at = bucket(&rt->volumes, v->name);

	while (*at != v)
		at = &(*at)->next;
	*at = v->next;
	rt->volumes.n--;
	free(v);
}

void volume_table_fini(struct volume_table *t)
{
	for (size_t i = 0; i < t->n_buckets; i++) {
		struct volume *v, *next;
		for (v = t->buckets[i]; v; v = next) {
			next = v->next;
			free(v);
		}
	}
	free(t->buckets);
	*t = (struct volume_table){ 0 };
}

bool volume_failed(const struct wire_msg *msg, struct err *err)
{
	struct msg_done done;

	if (!msg) {
		err_slug(err, EAGAIN, "busy", "the launcher is gone");
		return true;
	}
	memcpy(&done, msg->body, sizeof(done));
	if (!done.code)
		return false;
	done.text[sizeof(done.text) - 1] = '\0';
	switch (done.code) {
	case ENOSPC:
	case EDQUOT:
	case EMFILE:
	case ENFILE:
	case ENOMEM:
		err_slug(err, link_errno(done.code), "no_capacity", "%s", done.text);
		break;
	case EAGAIN: /* a role of the launcher is being restarted */
		err_slug(err, EAGAIN, "busy", "%s", done.text);
		break;
	default:
		err_slug(err, link_errno(done.code), "internal", "%s", done.text);
	}
	return true;
}

bool volume_cannot_clone(const struct wire_msg *msg)
{
	struct msg_done done;

	if (!msg)
		return false;
	memcpy(&done, msg->body, sizeof(done));
	return done.code == EOPNOTSUPP;
}

/* ---- Create ---- */

struct creation {
	struct runtime *rt;
	runtime_volume_fn fn;
	void *data;
	struct dl_volume_create body;
	char source[MSG_VOLUME_NAME]; /* "": empty, or cloned already */
	char *image;		      /* owned */
};

static void creation_end(struct creation *c, const struct err *err)
{
	c->fn(c->data, err);
	free(c->image);
	free(c);
}

static void on_filled(void *data, const struct runtime_file_result *result, struct str bytes,
		      const struct err *err)
{
	struct err full;

	/* What does not fit here does not fit on the disk. */
	if (err && strcmp(err->slug, "quota") == 0) {
		err_slug(&full, ENOSPC, "no_capacity", "there is no room for the copy");
		err = &full;
	}
	creation_end(data, err);
}

static void fill(struct creation *c)
{
	const struct runtime_file_spec spec = { .volume = c->body.volume,
						.tenant = c->body.tenant,
						.image = c->image,
						.path = STR(".") };

	runtime_file_merge(c->rt, &spec, c->source, 0, on_filled, c);
}

static void on_created(struct runtime *rt, void *data, struct wire_msg *msg)
{
	struct creation *c = data;
	struct err err;

	if (c->body.source[0] && volume_cannot_clone(msg)) {
		memcpy(c->source, c->body.source, sizeof(c->source));
		memset(c->body.source, 0, sizeof(c->body.source));
		link_ask(rt, DL_VOLUME_CREATE, &c->body, sizeof(c->body), LINK_BIT(LD_DONE),
			 on_created, c);
		return;
	}
	bool bad = volume_failed(msg, &err);
	if (!bad)
		volume_add(rt, c->body.volume, c->body.tenant);
	if (!bad && c->source[0])
		fill(c);
	else
		creation_end(c, bad ? &err : NULL);
}

void runtime_volume_create(struct runtime *rt, const struct runtime_volume_spec *spec,
			   runtime_volume_fn fn, void *data)
{
	struct creation *c = mem_new(1, sizeof(*c));
	uint64_t tenant_mb = spec->tenant_bytes / MIB + (spec->tenant_bytes % MIB != 0);

	*c = (struct creation){ .rt = rt, .fn = fn, .data = data };
	c->body.tenant = spec->tenant;
	c->body.limit_bytes = spec->limit_bytes;
	c->body.tenant_limit_mb = tenant_mb < UINT32_MAX ? (uint32_t)tenant_mb : UINT32_MAX;
	snprintf(c->body.volume, sizeof(c->body.volume), "%s", spec->volume);
	if (spec->source) {
		snprintf(c->body.source, sizeof(c->body.source), "%s", spec->source);
		c->image = mem_dup(spec->image);
	}
	link_ask(rt, DL_VOLUME_CREATE, &c->body, sizeof(c->body), LINK_BIT(LD_DONE), on_created, c);
}

/* ---- Limit ---- */

struct limit_call {
	runtime_volume_fn fn;
	void *data;
};

static void on_limited(struct runtime *rt, void *data, struct wire_msg *msg)
{
	_cleanup_free_ struct limit_call *c = data;
	struct err err;

	c->fn(c->data, volume_failed(msg, &err) ? &err : NULL);
}

void runtime_volume_limit(struct runtime *rt, const char *volume, uint64_t limit_bytes,
			  runtime_volume_fn fn, void *data)
{
	struct limit_call *c = mem_new(1, sizeof(*c));
	struct dl_volume_limit body = { .limit_bytes = limit_bytes };

	*c = (struct limit_call){ fn, data };
	snprintf(body.volume, sizeof(body.volume), "%s", volume);
	link_ask(rt, DL_VOLUME_LIMIT, &body, sizeof(body), LINK_BIT(LD_DONE), on_limited, c);
}

/* ---- Delete ---- */

static void on_deleted(struct runtime *rt, void *data, struct wire_msg *msg)
{
	struct volume *v = data;
	runtime_volume_fn fn = v->fn;
	void *fn_data = v->data;
	struct err err;
	bool bad = volume_failed(msg, &err);

	if (bad) {
		/* The name is still there, so that it can be deleted again. */
		v->state = VOLUME_PRESENT;
		v->fn = NULL;
	} else {
		drop(rt, v);
	}
	if (fn)
		fn(fn_data, bad ? &err : NULL);
}

void volume_when_quiet(struct runtime *rt, struct volume *v, volume_quiet_fn fn, void *data)
{
	assert(!v->quiet);
	if (TAILQ_EMPTY(&v->sandboxes)) {
		fn(rt, v, data);
		return;
	}
	v->quiet = fn;
	v->quiet_data = data;
}

void volume_sandbox_gone(struct runtime *rt, struct volume *v)
{
	struct dl_volume body;

	if (v->quiet && TAILQ_EMPTY(&v->sandboxes))
		take_ptr(v->quiet)(rt, v, v->quiet_data);
	if (v->state != VOLUME_DELETING || !TAILQ_EMPTY(&v->sandboxes) ||
	    !TAILQ_EMPTY(&v->readers) || rt->strays)
		return;
	v->state = VOLUME_ASKED;
	memcpy(body.volume, v->name, sizeof(body.volume));
	link_ask(rt, DL_VOLUME_DELETE, &body, sizeof(body), LINK_BIT(LD_DONE), on_deleted, v);
}

void volume_strays_gone(struct runtime *rt)
{
	for (size_t i = 0; i < rt->volumes.n_buckets; i++) {
		for (struct volume *v = rt->volumes.buckets[i]; v; v = v->next)
			volume_sandbox_gone(rt, v);
	}
}

/* The same delete asked twice: both are told. */
struct second_delete {
	runtime_volume_fn fn[2];
	void *data[2];
};

static void tell_both(void *data, const struct err *err)
{
	_cleanup_free_ struct second_delete *both = data;

	for (int i = 0; i < 2; i++) {
		if (both->fn[i])
			both->fn[i](both->data[i], err);
	}
}

void runtime_volume_delete(struct runtime *rt, const char *volume, runtime_volume_fn fn, void *data)
{
	struct volume *v = find(&rt->volumes, volume);
	struct sandbox *s, *next;

	/* An unknown one is asked for all the same: the launcher may have it under way, and it
	 * makes the answer come later, as promised. */
	if (!v)
		v = volume_add(rt, volume, 0);
	assert(v); /* a session's id is a name */
	if (v->state != VOLUME_PRESENT) {
		struct second_delete *both = mem_new(1, sizeof(*both));
		*both = (struct second_delete){ { v->fn, fn }, { v->data, data } };
		v->fn = tell_both;
		v->data = both;
		return;
	}
	v->state = VOLUME_DELETING;
	v->fn = fn;
	v->data = data;
	exec_volume_ends(rt, v);
	file_volume_ends(rt, v);
	for (s = TAILQ_FIRST(&v->sandboxes); s; s = next) {
		next = TAILQ_NEXT(s, in_volume);
		sandbox_kill(s);
	}
	TAILQ_FOREACH(s, &v->readers, in_source)
	sandbox_kill(s);
	volume_sandbox_gone(rt, v);
}

/* ---- Stat ---- */

struct stat_call {
	runtime_stat_fn fn;
	void *data;
};

static void on_stat(struct runtime *rt, void *data, struct wire_msg *msg)
{
	_cleanup_free_ struct stat_call *c = data;
	struct ld_volume_stat body = { 0 };
	struct err err;

	if (msg)
		memcpy(&body, msg->body, sizeof(body));
	else
		body.code = EPIPE;
	if (body.code)
		err_slug(&err, link_errno(body.code), "internal",
			 "the workspace cannot be measured");
	c->fn(c->data, body.used_bytes, body.code ? &err : NULL);
}

void runtime_volume_stat(struct runtime *rt, const char *volume, runtime_stat_fn fn, void *data)
{
	struct stat_call *c = mem_new(1, sizeof(*c));
	struct dl_volume body = { 0 };

	*c = (struct stat_call){ fn, data };
	snprintf(body.volume, sizeof(body.volume), "%s", volume);
	link_ask(rt, DL_VOLUME_STAT, &body, sizeof(body), LINK_BIT(LD_VOLUME_STAT), on_stat, c);
}
