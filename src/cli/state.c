// SPDX-License-Identifier: Apache-2.0
#include "cli/state.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "daemon/config.h"

/* *ret (owned by the caller) is NULL when the file names no directory. */
static int from_file(const char *path, char **ret, struct err *err)
{
	struct config *config = config_new();
	int r = config_load_file(config, path, err);

	if (r == 0) {
		const char *dir = config_value(config, "SANDBOX_STATE_DIR");
		*ret = dir ? mem_dup(dir) : NULL;
	}
	config_free(config);
	return r;
}

char *state_find(const struct state_choice *choice, struct err *err)
{
	const char *variable = getenv("SANDBOX_STATE_DIR");
	const char *file = choice->config ? choice->config : STATE_CONFIG;
	char *dir = NULL;

	if (choice->dir)
		return mem_dup(choice->dir);
	if (variable && *variable)
		return mem_dup(variable);
	if (from_file(file, &dir, err) < 0 && (choice->config || err->code != ENOENT)) {
		_cleanup_free_ char *said = mem_dup(err->text);
		err_set(err, err->code,
			"%s; SANDBOX_STATE_DIR in the environment goes before that file", said);
		return NULL;
	}
	return dir ? dir : mem_dup(STATE_DIR);
}
