// SPDX-License-Identifier: Apache-2.0
/* `airlock backup` and `airlock restore`: the server's database as a file (docs/operate.md). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/state.h"
#include "daemon/config.h"
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

/* What the server keeps elsewhere, as far as it is there. */
static void tell_elsewhere(const struct backup_opts *o, const char *path)
{
	static const struct {
		const char *variable, *what;
	} stores[] = {
		{ "SANDBOX_KEYSTORE", "keys" },
		{ "SANDBOX_AUDIT", "audit records" },
	};
	_cleanup_free_ char *folder = mem_dup_n(path, (size_t)(strrchr(path, '/') - path));
	struct err err;

	for (size_t i = 0; i < ARRAY_SIZE(stores); i++) {
		_cleanup_free_ char *value = NULL;
		if (state_variable(stores[i].variable, o->state.config, &value, &err) < 0) {
			printf("It is not known whether %s are elsewhere: %s.\n", stores[i].what,
			       err.text);
			continue;
		}
		_cleanup_free_ char *own = value ? config_database(folder, value) : NULL;
		if (own && strcmp(own, path) != 0 && access(own, F_OK) == 0)
			printf("Nor %s, which are in %s: airlock backup --database %s FILE\n",
			       stores[i].what, own, own);
	}
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
	printf("Copied %s. Not in the copy: workspaces and snapshots.\n", path);
	if (!o.database)
		tell_elsewhere(&o, path);
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
