// SPDX-License-Identifier: Apache-2.0
/* The commands that show one answer of the server. */
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/retry.h"
#include "cli/show.h"

static int ask(const char *path, unsigned retries, json_t **ret, struct err *err)
{
	struct client client;
	int r = client_open(&client, err);

	if (r < 0)
		return r;
	r = client_call_with(&client, "GET", path, NULL, retries, CLIENT_SECONDS, ret, err);
	client_close(&client);
	return r;
}

static int show_route(const struct cli_command *self, int argc, char **argv, const char *path,
		      unsigned retries)
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
	if (ask(path, retries, &answer, &err) < 0)
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
	return show_route(self, argc, argv, "/v1/usage", RETRY_MAX);
}

int cmd_policy(const struct cli_command *self, int argc, char **argv)
{
	return show_route(self, argc, argv, "/v1/egress/policy", RETRY_MAX);
}

int cmd_health(const struct cli_command *self, int argc, char **argv)
{
	/* How it is now, and not how it will be. */
	return show_route(self, argc, argv, "/healthz", 0);
}
