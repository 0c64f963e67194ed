// SPDX-License-Identifier: Apache-2.0
/* The commands that show one answer of the server. */
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/show.h"

static int show_route(const struct cli_command *self, int argc, char **argv, const char *path)
{
	bool json = false;
	const struct opt opts[] = { { "json", 0, OPT_FLAG, &json, 0, 0 } };
	json_t *answer;
	struct err err;
	int at = opt_parse(opts, ARRAY_SIZE(opts), argc, argv, &err);

	if (at < 0)
		return cli_usage(self, "%s", err.text);
	if (at != argc)
		return cli_usage(self, NULL);
	if (client_get(path, &answer, &err) < 0)
		return cli_fail(&err);
	if (json)
		show_json(answer);
	else
		show_object(answer, 0);
	json_decref(answer);
	return 0;
}

int cmd_usage(const struct cli_command *self, int argc, char **argv)
{
	return show_route(self, argc, argv, "/v1/usage");
}

int cmd_policy(const struct cli_command *self, int argc, char **argv)
{
	return show_route(self, argc, argv, "/v1/egress/policy");
}

int cmd_health(const struct cli_command *self, int argc, char **argv)
{
	return show_route(self, argc, argv, "/healthz");
}
