// SPDX-License-Identifier: Apache-2.0
#include "core/native/volume.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
		err_slug(err, EPIPE, "internal", "the launcher is gone");
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
	default:
		err_slug(err, link_errno(done.code), "internal", "%s", done.text);
	}
	return true;
}

/* ---- Create ---- */

struct creation {
	runtime_volume_fn fn;
	void *data;
	uint32_t tenant;
	char name[MSG_VOLUME_NAME];
};

static void on_created(struct runtime *rt, void *data, struct wire_msg *msg)
{
	_cleanup_free_ struct creation *c = data;
	struct err err;
	bool bad = volume_failed(msg, &err);

	if (!bad)
		volume_add(rt, c->name, c->tenant);
	c->fn(c->data, bad ? &err : NULL);
}

void runtime_volume_create(struct runtime *rt, const struct runtime_volume_spec *spec,
			   runtime_volume_fn fn, void *data)
{
	struct creation *c = mem_new(1, sizeof(*c));
	struct dl_volume_create body = { .tenant = spec->tenant, .limit_bytes = spec->limit_bytes };

	*c = (struct creation){ .fn = fn, .data = data, .tenant = spec->tenant };
	snprintf(c->name, sizeof(c->name), "%s", spec->volume);
	memcpy(body.volume, c->name, sizeof(body.volume));
	if (spec->source)
		snprintf(body.source, sizeof(body.source), "%s", spec->source);
	link_ask(rt, DL_VOLUME_CREATE, &body, sizeof(body), LINK_BIT(LD_DONE), on_created, c);
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
