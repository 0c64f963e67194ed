// SPDX-License-Identifier: Apache-2.0
#include "cli/state.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "daemon/config.h"

static int from_file(const char *path, const char *name, char **ret, struct err *err)
{
	struct config *config = config_new();
	int r = config_load_file(config, path, err);

	if (r == 0) {
		const char *value = config_value(config, name);
		*ret = value ? mem_dup(value) : NULL;
	}
	config_free(config);
	return r;
}

int state_variable(const char *name, const char *file, char **ret, struct err *err)
{
	const char *variable = getenv(name);

	*ret = NULL;
	if (variable && *variable) {
		*ret = mem_dup(variable);
		return 0;
	}
	if (from_file(file ? file : STATE_CONFIG, name, ret, err) < 0 &&
	    (file || err->code != ENOENT)) {
		_cleanup_free_ char *said = mem_dup(err->text);
		return err_set(err, err->code, "%s; %s in the environment goes before that file",
			       said, name);
	}
	return 0;
}

char *state_find(const struct state_choice *choice, struct err *err)
{
	char *dir;

	if (choice->dir)
		return mem_dup(choice->dir);
	if (state_variable("SANDBOX_STATE_DIR", choice->config, &dir, err) < 0)
		return NULL;
	return dir ? dir : mem_dup(STATE_DIR);
}
