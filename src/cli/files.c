// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/transfer.h"
#include "cli/tree.h"

typedef int transfer_fn(struct client *c, const char *id, const char *from, const char *to,
			struct err *err);

static int transfer(transfer_fn *move, const char *id, const char *from, const char *to)
{
	struct client client;
	struct err err;

	if (client_open(&client, &err) < 0)
		return cli_fail(&err);
	int r = move(&client, id, from, to, &err);
	client_close(&client);
	return r < 0 ? cli_fail(&err) : 0;
}

static int files_read(const struct cli_command *self, int argc, char **argv)
{
	if (argc < 2 || argc > 3)
		return cli_usage(self, NULL);
	return transfer(transfer_get, argv[0], argv[1], argc == 3 ? argv[2] : "-");
}

static int files_write(const struct cli_command *self, int argc, char **argv)
{
	if (argc < 2 || argc > 3)
		return cli_usage(self, NULL);
	return transfer(transfer_put, argv[0], argc == 3 ? argv[2] : "-", argv[1]);
}

static int files_put(const struct cli_command *self, int argc, char **argv)
{
	if (argc < 2 || argc > 3)
		return cli_usage(self, NULL);
	return transfer(transfer_upload, argv[0], argc == 3 ? argv[2] : "-", argv[1]);
}

static int files_get(const struct cli_command *self, int argc, char **argv)
{
	if (argc < 2 || argc > 3)
		return cli_usage(self, NULL);
	return transfer(transfer_download, argv[0], argv[1], argc == 3 ? argv[2] : "-");
}

static int files_archive(const struct cli_command *self, int argc, char **argv)
{
	if (argc < 2 || argc > 3)
		return cli_usage(self, NULL);
	return transfer(transfer_archive, argv[0], argv[1], argc == 3 ? argv[2] : "-");
}

int cmd_files(const struct cli_command *self, int argc, char **argv)
{
	static const struct cli_command table[] = {
		{ "files read", "ID PATH [LOCAL]", "", files_read },
		{ "files write", "ID PATH [LOCAL]", "", files_write },
		{ "files put", "ID PATH [LOCAL]", "", files_put },
		{ "files get", "ID PATH [LOCAL]", "", files_get },
		{ "files archive", "ID PATH [LOCAL]", "", files_archive },
		{ "files list", "[--depth N] [--json] ID [PATH]", "", tree_list },
		{ "files rm", "[-r] [-f] ID PATH", "", tree_rm },
		{ "files mv", "[--replace] ID FROM TO", "", tree_mv },
		{ "files mkdir", "[-p] ID PATH", "", tree_mkdir },
	};

	(void)self;
	return cli_dispatch(table, ARRAY_SIZE(table), "files ", argc, argv);
}
