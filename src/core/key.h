// SPDX-License-Identifier: Apache-2.0
/*
 * key: who calls. Static keys come from the configuration, stored ones are issued and revoked while
 * the server runs (the contract, section 1) and lie in the store. All that are stored are kept in
 * memory, with the hash in the place of the secret, so a look-up asks nobody and what was issued or
 * revoked counts for the next one.
 *
 * Whoever was let in by a key may hold it until the listener hears that it is revoked. Later it may
 * be forgotten: a tenant that issues and revokes for ever costs no more than the last of them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct core;
struct tenant;

#define KEY_ID_LEN 10	  /* a-z, 2-7 */
#define KEY_SECRET_LEN 43 /* base64url of 32 bytes */
#define KEY_TEXT_LEN (4 + KEY_ID_LEN + 1 + KEY_SECRET_LEN)
#define KEY_HASH_LEN 32
#define KEYS_ACTIVE_MAX 10u   /* of a tenant */
#define KEYS_REVOKED_MAX 100u /* of a tenant, that are remembered */
#define KEY_ACTOR_MAX 32u     /* with the NUL */

struct key {
	char id[KEY_ID_LEN + 1];
	struct tenant *tenant;
	char *name; /* owned */
	int64_t created_us;
	int64_t revoked_us; /* 0: active */

	/* core/ only */
	unsigned char hash[KEY_HASH_LEN];
	unsigned revoking;	      /* calls that are about to revoke it */
	struct key *next, *hash_next; /* of all, oldest first */
};

struct caller {
	struct tenant *tenant;
	const struct key *key; /* NULL: a static key */
};

/* Compares with every static key in constant time, then, when it has the form of one, with the
 * stored key of its id. */
bool key_find(struct core *c, struct str text, struct caller *ret);
/* "static key" or "key <id>". */
void caller_actor(const struct caller *who, char out[KEY_ACTOR_MAX]);

/* Whether keys are stored at all (SANDBOX_KEYSTORE). */
bool keys_are_stored(const struct core *c);
/* Oldest first; prev NULL starts; tenant NULL: of all. */
const struct key *key_next(const struct core *c, const struct tenant *tenant,
			   const struct key *prev);

/* text: the whole key, which nobody can tell again; valid during the call. */
typedef void (*key_issued_fn)(void *data, const struct key *key, const char *text,
			      const struct err *err);
typedef void (*key_fn)(void *data, const struct key *key, const struct err *err);

/* For a tenant by its name, which is made when new. A blank name becomes "unnamed". Slugs:
 * bad_tenant, too_many_keys, internal. The key works when fn is called. */
void key_issue(struct core *c, struct str tenant, struct str name, key_issued_fn fn, void *data);
/* From now on it is refused, and when that is on the disk the listener hears of it, then fn. One
 * that is revoked already stays as it is. tenant: whose it must be, and not the last active one;
 * NULL: the operator asks. Slugs: key_not_found, last_key, internal. */
void key_revoke(struct core *c, const struct tenant *tenant, struct str id, key_fn fn, void *data);
/* One listener: whoever was let in by that key has to go. */
void keys_listen(struct core *c, void (*revoked)(void *data, const struct key *key), void *data);
