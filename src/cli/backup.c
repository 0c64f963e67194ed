// SPDX-License-Identifier: Apache-2.0
/* `airlock backup` and `airlock restore`: the server's database as a file (docs/operate.md). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/state.h"
#include "store/copy.h"

struct backup_opts {
	struct state_choice state;
	const char *database;
};

/* The one file name of the command; 0, or the exit status of wrong use. */
static int take_file(const struct cli_command *self, struct backup_opts *o, int argc, char **argv,
		     const char **ret)
{
	const struct opt opts[] = {
		STATE_OPTS(o->state),
		{ "database", 0, OPT_TEXT, &o->database, 0, 0 },
	};
	struct err err;
	int at = opt_parse(opts, ARRAY_SIZE(opts), argc, argv, &err);

	if (at < 0)
		return cli_usage(self, "%s", err.text);
	if (argc - at != 1 || (o->database && (o->state.dir || o->state.config)))
		return cli_usage(self, NULL);
	*ret = argv[at];
	return 0;
}

/* Owned by the caller; NULL: *err says why. */
static char *database_of(const struct backup_opts *o, struct err *err)
{
	_cleanup_free_ char *dir = o->database ? NULL : state_find(&o->state, err);
	_cleanup_free_ char *path = NULL;

	if (!dir && !o->database)
		return NULL;
	path = dir ? mem_printf("%s/state/airlock.db", dir) : mem_dup(o->database);
	if (path[0] != '/') {
		err_set(err, EINVAL, "'%s' is not an absolute path", path);
		return NULL;
	}
	return take_ptr(path);
}

int cmd_backup(const struct cli_command *self, int argc, char **argv)
{
	struct backup_opts o = { 0 };
	const char *file;
	struct err err;
	int status = take_file(self, &o, argc, argv, &file);

	if (status)
		return status;
	_cleanup_free_ char *path = database_of(&o, &err);
	if (!path || store_copy(path, file, &err) < 0)
		return cli_fail(&err);
	return 0;
}

int cmd_restore(const struct cli_command *self, int argc, char **argv)
{
	struct backup_opts o = { 0 };
	const char *file;
	struct err err;
	int status = take_file(self, &o, argc, argv, &file);

	if (status)
		return status;
	_cleanup_free_ char *path = database_of(&o, &err);
	if (!path || store_restore(file, path, &err) < 0)
		return cli_fail(&err);
	printf("%s is in its place", path);
	_cleanup_free_ char *replaced = mem_printf("%s.replaced", path);
	if (access(replaced, F_OK) == 0)
		printf("; what was there is %s", replaced);
	puts("");
	return 0;
}
