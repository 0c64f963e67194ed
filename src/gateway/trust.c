// SPDX-License-Identifier: Apache-2.0
#include "gateway/trust.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <stdbool.h>
#include <sys/stat.h>

static X509_STORE *store; /* owned */
static struct stat seen;

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

X509_STORE *trust_store(void)
{
	struct stat now;

	if (stat(TRUST_FILE, &now) < 0) {
		trust_fini();
		return NULL;
	}
	if (store && is_same(&seen, &now))
		return store;
	trust_fini();
	store = X509_STORE_new();
	if (store && !X509_STORE_load_file(store, TRUST_FILE))
		trust_fini();
	ERR_clear_error();
	seen = now;
	return store;
}

void trust_fini(void)
{
	X509_STORE_free(store);
	store = NULL;
}
