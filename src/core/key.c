// SPDX-License-Identifier: Apache-2.0
/*
 * A candidate is compared with every static key there is, in time that depends on its length and
 * the number of keys alone: neither which key matches nor how far one matches can be measured. A
 * stored key is found by its id, which is no secret, and compared by hash.
 */
#include "core/key.h"

#include <assert.h>
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "core/parts.h"
#include "store/store.h"

#define BUCKETS 1024u
#define HEX_LEN (2 * KEY_HASH_LEN)

static const char prefix[] = "asb_";
static const char id_letters[] = "abcdefghijklmnopqrstuvwxyz234567";

struct keys {
	struct key *first, *last; /* owned */
	struct key *buckets[BUCKETS];
	void (*revoked)(void *data, const struct key *key); /* may be NULL */
	void *data;
};

/* ---- Static keys ---- */

int core_add_key(struct core *c, struct str tenant, struct str key, struct err *err)
{
	struct tenant *t;

	assert(key.len);
	int r = tenant_make(c, tenant, &t, err);
	if (r < 0)
		return r;
	struct static_key *k = mem_new(1, sizeof(*k));
	k->tenant = t;
	k->text = mem_dup_n(key.data, key.len);
	k->len = key.len;
	k->next = c->static_keys;
	c->static_keys = k;
	return 0;
}

static struct tenant *find_static(const struct core *c, struct str key)
{
	uintptr_t found = 0;

	for (const struct static_key *k = c->static_keys; k; k = k->next) {
		/* All ones or all zeroes, so that no branch depends on the comparison. */
		uintptr_t mask = (uintptr_t)0 -
				 (uintptr_t)str_eq_secret(key, (struct str){ k->text, k->len });
		found = (found & ~mask) | ((uintptr_t)k->tenant & mask);
	}
	return (struct tenant *)found;
}

/* ---- The table of stored ones ---- */

static size_t bucket_of(struct str id)
{
	size_t hash = 0;

	for (size_t i = 0; i < id.len; i++)
		hash = hash * 33 + (unsigned char)id.data[i];
	return hash % BUCKETS;
}

static void insert(struct core *c, struct key *k)
{
	struct keys *keys = c->keys;
	size_t at = bucket_of(str_of(k->id));

	if (keys->last)
		keys->last->next = k;
	else
		keys->first = k;
	keys->last = k;
	k->hash_next = keys->buckets[at];
	keys->buckets[at] = k;
	k->tenant->keys_active += !k->revoked_us;
}

static struct key *find_id(const struct core *c, struct str id)
{
	struct key *k = c->keys->buckets[bucket_of(id)];

	while (k && !str_eq(str_of(k->id), id))
		k = k->hash_next;
	return k;
}

static void key_free(struct key *k)
{
	free(k->name);
	free(k);
}

static void take_out(struct core *c, struct key *prev, struct key *k)
{
	struct key **at = &c->keys->buckets[bucket_of(str_of(k->id))];

	while (*at != k)
		at = &(*at)->hash_next;
	*at = k->hash_next;
	*(prev ? &prev->next : &c->keys->first) = k->next;
	if (!k->next)
		c->keys->last = prev;
}

/* The tenant's that was revoked first, when more than enough of them are remembered. */
static void forget_one(struct core *c, const struct tenant *t)
{
	struct key *found = NULL, *before_found = NULL;
	unsigned n = 0;

	for (struct key *prev = NULL, *k = c->keys->first; k; prev = k, k = k->next) {
		if (k->tenant != t || !k->revoked_us || k->revoking)
			continue;
		n++;
		if (found && found->revoked_us <= k->revoked_us)
			continue;
		found = k;
		before_found = prev;
	}
	if (n <= KEYS_REVOKED_MAX)
		return;
	take_out(c, before_found, found);
	store_drop_key(c->config.key_store, found->id);
	key_free(found);
}

void keys_free(struct core *c)
{
	for (struct static_key *k = c->static_keys, *next; k; k = next) {
		next = k->next;
		explicit_bzero(k->text, k->len);
		free(k->text);
		free(k);
	}
	for (struct key *k = c->keys->first, *next; k; k = next) {
		next = k->next;
		key_free(k);
	}
	free(c->keys);
	c->static_keys = NULL;
	c->keys = NULL;
}

/* ---- Loading ---- */

static bool from_hex(const char *text, unsigned char out[KEY_HASH_LEN])
{
	size_t n;

	return OPENSSL_hexstr2buf_ex(out, KEY_HASH_LEN, &n, text, '\0') && n == KEY_HASH_LEN;
}

/* Rows are copied before tenants are made, as for sessions. */
struct load {
	struct key *first, **last; /* without tenants */
	char **tenants;		   /* owned; their names */
	size_t n;
};

static void on_row(void *data, const struct store_key *row)
{
	struct load *load = data;
	struct key *k = mem_new(1, sizeof(*k));

	snprintf(k->id, sizeof(k->id), "%s", row->key_id);
	k->name = mem_dup(row->name);
	k->created_us = row->created_us;
	k->revoked_us = row->revoked_us;
	/* No text has the hash that is all zeroes. */
	if (!from_hex(row->hash, k->hash)) {
		memset(k->hash, 0, sizeof(k->hash));
		log_event(LOG_ERROR, "key_damaged", LOG_STR("key", k->id));
	}
	load->tenants = mem_grow(load->tenants, load->n + 1, sizeof(*load->tenants));
	load->tenants[load->n++] = mem_dup(row->tenant);
	*load->last = k;
	load->last = &k->next;
}

int keys_load(struct core *c, struct err *err)
{
	struct load load = { .last = &load.first };
	int r = 0;

	c->keys = mem_new(1, sizeof(*c->keys));
	if (c->config.key_store)
		r = store_load_keys(c->config.key_store, on_row, &load, err);
	size_t i = 0;
	for (struct key *k = load.first, *next; k; k = next, i++) {
		next = k->next;
		k->next = NULL;
		if (r >= 0)
			r = tenant_make(c, str_of(load.tenants[i]), &k->tenant, err);
		if (r >= 0)
			insert(c, k);
		else
			key_free(k);
		free(load.tenants[i]);
	}
	free(load.tenants);
	return r;
}

/* ---- Finding ---- */

static bool is_of(struct str text, const char *letters)
{
	for (size_t i = 0; i < text.len; i++) {
		if (!text.data[i] || !strchr(letters, text.data[i]))
			return false;
	}
	return true;
}

/* The id of a text that has the form of a stored key; data NULL: it has not. */
static struct str id_of(struct str text)
{
	static const char secret_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					     "0123456789_-";
	const size_t start = sizeof(prefix) - 1;

	if (text.len != KEY_TEXT_LEN || memcmp(text.data, prefix, start) != 0)
		return (struct str){ NULL, 0 };
	struct str id = { text.data + start, KEY_ID_LEN };
	struct str rest = str_from(text, start + KEY_ID_LEN);
	if (!is_of(id, id_letters) || rest.data[0] != '_' ||
	    !is_of(str_from(rest, 1), secret_letters))
		return (struct str){ NULL, 0 };
	return id;
}

static const struct key *find_stored(const struct core *c, struct str text)
{
	unsigned char hash[KEY_HASH_LEN];
	struct str id = id_of(text);
	const struct key *k = id.data ? find_id(c, id) : NULL;

	if (!k || k->revoked_us)
		return NULL;
	SHA256((const unsigned char *)text.data, text.len, hash);
	if (!str_eq_secret((struct str){ (const char *)hash, sizeof(hash) },
			   (struct str){ (const char *)k->hash, sizeof(k->hash) }))
		return NULL;
	return k;
}

bool key_find(struct core *c, struct str text, struct caller *ret)
{
	struct tenant *t = find_static(c, text);
	const struct key *k = t ? NULL : find_stored(c, text);

	if (!t && !k)
		return false;
	*ret = (struct caller){ .tenant = t ? t : k->tenant, .key = k };
	return true;
}

void caller_actor(const struct caller *who, char out[KEY_ACTOR_MAX])
{
	if (who->key)
		snprintf(out, KEY_ACTOR_MAX, "key %s", who->key->id);
	else
		snprintf(out, KEY_ACTOR_MAX, "static key");
}

bool keys_are_stored(const struct core *c)
{
	return c->config.key_store;
}

const struct key *key_next(const struct core *c, const struct tenant *tenant,
			   const struct key *prev)
{
	const struct key *k = prev ? prev->next : c->keys->first;

	while (k && tenant && k->tenant != tenant)
		k = k->next;
	return k;
}

void keys_listen(struct core *c, void (*revoked)(void *data, const struct key *key), void *data)
{
	c->keys->revoked = revoked;
	c->keys->data = data;
}

/* ---- Issuing: the tenant's number, when it is new -> room for one more -> the row -> the table
 * --- */

struct issue {
	struct later later;
	struct core *c;
	struct origin origin;
	struct key *key; /* owned until it is in the table */
	char *tenant;	 /* owned; its name */
	bool counted;	 /* among the tenant's keys that are being made */
	char text[KEY_TEXT_LEN + 1];
	struct err err;
	key_issued_fn fn;
	void *data;
};

static void issue_end(struct issue *i, const struct err *err)
{
	struct core *c = i->c;
	struct key *k = i->key;

	if (i->counted)
		k->tenant->keys_making--;
	if (!err)
		insert(c, k);
	i->fn(i->data, err ? NULL : k, err ? NULL : i->text, err);
	if (err)
		key_free(k);
	explicit_bzero(i->text, sizeof(i->text));
	free(i->tenant);
	free(i);
	core_release(c);
}

static void issue_refused(struct later *l)
{
	struct issue *i = container_of(l, struct issue, later);

	issue_end(i, &i->err);
}

static void issue_refuse(struct issue *i)
{
	i->later.fn = issue_refused;
	core_later(i->c, &i->later);
}

static void issue_failed(struct issue *i, const struct err *why)
{
	struct err err;

	log_event(LOG_ERROR, "key_not_stored", LOG_STR("request", i->origin.request),
		  LOG_STR("why", why->text));
	err_slug(&err, why->code, "internal", "%s", why->text);
	issue_end(i, &err);
}

static void on_stored(void *data, const struct err *err)
{
	struct issue *i = data;

	if (err)
		issue_failed(i, err);
	else
		issue_end(i, NULL);
}

static void base64url(const unsigned char *bytes, size_t n, char *out)
{
	EVP_EncodeBlock((unsigned char *)out, bytes, (int)n);
	for (char *at = out; *at; at++) {
		if (*at == '+')
			*at = '-';
		else if (*at == '/')
			*at = '_';
		else if (*at == '=')
			*at = '\0';
	}
}

static void make_text(struct issue *i)
{
	unsigned char bytes[KEY_HASH_LEN];
	char secret[4 * (KEY_HASH_LEN / 3 + 1) + 1];
	struct key *k = i->key;

	do {
		random_bytes(bytes, KEY_ID_LEN);
		for (size_t n = 0; n < KEY_ID_LEN; n++)
			k->id[n] = id_letters[bytes[n] % 32];
	} while (find_id(i->c, str_of(k->id)));
	random_bytes(bytes, sizeof(bytes));
	base64url(bytes, sizeof(bytes), secret);
	snprintf(i->text, sizeof(i->text), "%s%s_%s", prefix, k->id, secret);
	SHA256((const unsigned char *)i->text, KEY_TEXT_LEN, k->hash);
	explicit_bzero(bytes, sizeof(bytes));
	explicit_bzero(secret, sizeof(secret));
}

/* The tenant is there. */
static void store_one(struct issue *i)
{
	struct tenant *t = i->key->tenant;
	char hash[HEX_LEN + 1];

	if (t->keys_active + t->keys_making >= KEYS_ACTIVE_MAX) {
		err_slug(&i->err, EAGAIN, "too_many_keys",
			 "Tenant '%s' already has %u active keys (max %u). Revoke one first.",
			 t->name, t->keys_active, KEYS_ACTIVE_MAX);
		issue_refuse(i);
		return;
	}
	t->keys_making++;
	i->counted = true;
	make_text(i);
	for (size_t n = 0; n < KEY_HASH_LEN; n++)
		snprintf(hash + 2 * n, 3, "%02x", i->key->hash[n]);
	const struct store_key row = {
		.key_id = i->key->id,
		.tenant = t->name,
		.name = i->key->name,
		.hash = hash,
		.created_us = i->key->created_us,
	};
	store_put_key(i->c->config.key_store, &row, on_stored, i);
}

static void on_tenant(void *data, uint32_t number, const struct err *err)
{
	struct issue *i = data;

	if (err) {
		issue_failed(i, err);
		return;
	}
	i->key->tenant = tenant_add(i->c, str_of(i->tenant), number);
	store_one(i);
}

static bool is_tenant_name(struct str name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	static const char later_letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";

	return name.len > 0 && name.len <= 63 && is_of((struct str){ name.data, 1 }, letters) &&
	       is_of(str_from(name, 1), later_letters);
}

void key_issue(struct core *c, struct str tenant, struct str name, key_issued_fn fn, void *data)
{
	struct issue *i = mem_new(1, sizeof(*i));

	name = str_trim(name);
	if (!name.len)
		name = STR("unnamed");
	*i = (struct issue){ .c = c, .origin = c->origin, .fn = fn, .data = data };
	i->key = mem_new(1, sizeof(*i->key));
	i->key->name = mem_dup_n(name.data, name.len);
	i->key->created_us = clock_wall_us();
	i->tenant = mem_dup_n(tenant.data, tenant.len);
	i->key->tenant = tenant_find(c, tenant);
	core_hold(c);
	if (!is_tenant_name(tenant)) {
		err_slug(&i->err, EINVAL, "bad_tenant", "%s", "");
		issue_refuse(i);
	} else if (i->key->tenant) {
		store_one(i);
	} else {
		store_add_tenant(c->store, i->tenant, on_tenant, i);
	}
}

/* ---- Revoking ---- */

struct revoke {
	struct later later;
	struct core *c;
	struct origin origin;
	struct key *key; /* NULL: refused with err */
	int64_t at_us;
	struct err err;
	key_fn fn;
	void *data;
};

static void revoke_end(struct revoke *v, const struct err *err)
{
	struct core *c = v->c;

	v->fn(v->data, err ? NULL : v->key, err);
	if (v->key) {
		v->key->revoking--;
		forget_one(c, v->key->tenant);
	}
	free(v);
	core_release(c);
}

static void revoke_later(struct later *l)
{
	struct revoke *v = container_of(l, struct revoke, later);

	revoke_end(v, v->key ? NULL : &v->err);
}

/* at_us 0: it counts again. Two may be about to revoke one key, and one of them fail. */
static void mark_revoked(struct key *k, int64_t at_us)
{
	k->tenant->keys_active += !at_us;
	k->tenant->keys_active -= !k->revoked_us;
	k->revoked_us = at_us;
}

static void on_revoked(void *data, const struct err *why)
{
	struct revoke *v = data;
	struct core *c = v->c;
	struct err err;

	if (!why) {
		mark_revoked(v->key, v->at_us);
		if (c->keys->revoked)
			c->keys->revoked(c->keys->data, v->key);
		revoke_end(v, NULL);
		return;
	}
	/* It would work again after the next start, so it is not called revoked. */
	mark_revoked(v->key, 0);
	log_event(LOG_ERROR, "key_not_revoked", LOG_STR("request", v->origin.request),
		  LOG_STR("key", v->key->id), LOG_STR("why", why->text));
	err_slug(&err, why->code, "internal", "%s", why->text);
	revoke_end(v, &err);
}

static int check_revoke(struct revoke *v, const struct tenant *tenant, struct str id)
{
	struct key *k = id.len == KEY_ID_LEN ? find_id(v->c, id) : NULL;

	if (!k || (tenant && k->tenant != tenant))
		return err_slug(&v->err, ENOENT, "key_not_found", "No key '%.*s'%s.",
				(int)(id.len < 200 ? id.len : 200), id.data,
				tenant ? " for this tenant" : "");
	if (tenant && !k->revoked_us && tenant->keys_active == 1)
		return err_slug(&v->err, EBUSY, "last_key", "%s", "");
	v->key = k;
	k->revoking++;
	return 0;
}

void key_revoke(struct core *c, const struct tenant *tenant, struct str id, key_fn fn, void *data)
{
	struct revoke *v = mem_new(1, sizeof(*v));

	*v = (struct revoke){ .c = c, .origin = c->origin, .fn = fn, .data = data };
	core_hold(c);
	/* One that another call is about to revoke is not on the disk yet: it is written again. */
	if (check_revoke(v, tenant, id) < 0 || (v->key->revoked_us && v->key->revoking == 1)) {
		v->later.fn = revoke_later;
		core_later(c, &v->later);
		return;
	}
	v->at_us = v->key->revoked_us ? v->key->revoked_us : clock_wall_us();
	mark_revoked(v->key, v->at_us);
	store_revoke_key(c->config.key_store, v->key->id, v->at_us, on_revoked, v);
}
