// SPDX-License-Identifier: Apache-2.0
/*
 * stores: the databases of airlockd. There is one for the state; keys and the audit log are in it,
 * too, or in files of their own, or nowhere, as SANDBOX_KEYSTORE and SANDBOX_AUDIT say ("sqlite",
 * "sqlite:<path>", unset). A path that does not begin with "/" is meant from the folder of the
 * state. Two variables with the same path share one database.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "store/store.h"

enum stores_use { STORES_STATE, STORES_KEYS, STORES_AUDIT, STORES_USES };

struct stores {
	char *paths[STORES_USES]; /* owned; NULL: off */
	struct store *stores[STORES_USES];
	unsigned open; /* while they are closed: that are not closed yet */
	void (*closed)(void *data);
	void *data;
};

/* folder: of the state; values: of the variables, NULL where one is not set; that of the state
 * does not count. Opens nothing. */
void stores_init(struct stores *s, const char *folder, const char *const values[STORES_USES]);
/* "SANDBOX_KEYSTORE" and the like. */
const char *stores_variable(enum stores_use use);
/* The folder of a database that is not in folder, owned by the caller; NULL: it is there, or off. */
char *stores_folder(const struct stores *s, enum stores_use use, const char *folder);
/* On failure, what is open stays open until stores_close. */
int stores_open(struct stores *s, uv_loop_t *loop, struct err *err);
/* All of them, each once; then closed is called. */
void stores_close(struct stores *s, void (*closed)(void *data), void *data);
void stores_fini(struct stores *s);
/* Failed writes of all of them since the start. */
uint64_t stores_errors(const struct stores *s);
/* Whether the last write of one of them failed. */
bool stores_failing(const struct stores *s);
