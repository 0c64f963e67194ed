// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/remove.h"
#include "cli/session.h"
#include "cli/show.h"
#include "cli/snapshots.h"

#define TIMEOUT_DEFAULT 15
#define EGRESS_LIMIT_DEFAULT 200
#define EGRESS_LIMIT_MAX 1000

static int sandbox_create(const struct cli_command *self, int argc, char **argv)
{
	_cleanup_free_ char *id = NULL;
	struct session_spec spec = { 0 };
	json_t *answer = NULL;
	bool json = false;
	const struct opt opts[] = {
		{ "json", 0, OPT_FLAG, &json, 0, 0 },
		{ "template", 0, OPT_TEXT, &spec.template_name, 0, 0 },
		{ "egress", 0, OPT_TEXT, &spec.egress, 0, 0 },
		{ "snapshot", 0, OPT_TEXT, &spec.snapshot, 0, 0 },
		{ "persistent", 0, OPT_FLAG, &spec.persistent, 0, 0 },
		{ "secret", 0, OPT_LIST, &spec.secrets, 0, 0 },
	};
	struct client client;
	struct err err;
	int at = opt_parse(opts, ARRAY_SIZE(opts), argc, argv, &err);

	if (at < 0)
		return cli_usage(self, "%s", err.text);
	if (at != argc)
		return cli_usage(self, NULL);
	if (client_open(&client, &err) < 0)
		return cli_fail(&err);
	int r = session_create(&client, &spec, &id, &answer, &err);
	client_close(&client);
	if (r < 0)
		return cli_fail(&err);
	if (json)
		show_json(answer);
	else
		puts(id);
	json_decref(answer);
	return 0;
}

static int sandbox_list(const struct cli_command *self, int argc, char **argv)
{
	static const struct show_column columns[] = {
		{ "SANDBOX", "session_id", 16 },	 { "CREATED", "created_at", 19 },
		{ "LAST USED", "last_accessed_at", 19 }, { "EXPIRES", "expires_at", 19 },
		{ "TEMPLATE", "template", 0 },
	};
	bool json = false;
	const struct opt opts[] = { { "json", 0, OPT_FLAG, &json, 0, 0 } };
	json_t *answer;
	struct err err;
	int at = opt_parse(opts, ARRAY_SIZE(opts), argc, argv, &err);

	if (at < 0)
		return cli_usage(self, "%s", err.text);
	if (at != argc)
		return cli_usage(self, NULL);
	if (client_get("/v1/sessions", &answer, &err) < 0)
		return cli_fail(&err);
	const json_t *list = json_object_get(answer, "sessions");
	if (json)
		show_json(answer);
	else if (json_array_size(list) == 0)
		puts("No sandboxes.");
	else
		show_table(list, columns, ARRAY_SIZE(columns));
	json_decref(answer);
	return 0;
}

static int sandbox_show(const struct cli_command *self, int argc, char **argv)
{
	bool json = false;
	const struct opt opts[] = { { "json", 0, OPT_FLAG, &json, 0, 0 } };
	json_t *answer;
	struct err err;
	int at = opt_parse(opts, ARRAY_SIZE(opts), argc, argv, &err);

	if (at < 0)
		return cli_usage(self, "%s", err.text);
	if (argc - at != 1)
		return cli_usage(self, NULL);
	_cleanup_free_ char *segment = client_escape(argv[at]);
	_cleanup_free_ char *path = mem_printf("/v1/sessions/%s", segment);
	if (client_get(path, &answer, &err) < 0)
		return cli_fail(&err);
	if (json)
		show_json(answer);
	else
		show_object(answer, 0);
	json_decref(answer);
	return 0;
}

/* The options may stand before and after the id; the command follows them or "--". */
static int sandbox_exec(const struct cli_command *self, int argc, char **argv)
{
	struct session_command command = { .timeout = TIMEOUT_DEFAULT };
	const struct opt opts[] = {
		{ "timeout", 't', OPT_NUMBER, &command.timeout, 1, SESSION_TIMEOUT_MAX },
		{ "cwd", 0, OPT_TEXT, &command.cwd, 0, 0 },
		{ "env", 'e', OPT_LIST, &command.env, 0, 0 },
		{ "stdin", 'i', OPT_FLAG, &command.with_stdin, 0, 0 },
		{ "json", 0, OPT_FLAG, &command.json, 0, 0 },
	};
	struct client client;
	struct err err;
	int at = opt_parse(opts, ARRAY_SIZE(opts), argc, argv, &err);

	if (at < 0)
		return cli_usage(self, "%s", err.text);
	if (at == argc)
		return cli_usage(self, NULL);
	const char *id = argv[at++];
	int more = opt_parse(opts, ARRAY_SIZE(opts), argc - at, argv + at, &err);
	if (more < 0)
		return cli_usage(self, "%s", err.text);
	at += more;
	if (at == argc)
		return cli_usage(self, "there is no command to run");
	command.words = argv + at;
	command.n_words = argc - at;
	if (client_open(&client, &err) < 0)
		return cli_fail(&err);
	session_catch_signals();
	int r = session_exec(&client, id, &command, &err);
	client_close(&client);
	if (r == -ECANCELED) {
		fputs("airlock: the command goes on until it ends or times out\n", stderr);
		return EXIT_INTERRUPTED;
	}
	return r < 0 ? cli_fail(&err) : r;
}

static int sandbox_rm(const struct cli_command *self, int argc, char **argv)
{
	return remove_each(self, "/v1/sessions/", argc, argv);
}

static int sandbox_egress(const struct cli_command *self, int argc, char **argv)
{
	static const struct show_column columns[] = {
		{ "TIME", "ts", 19 },	      { "DECISION", "decision", 8 },
		{ "HOST", "host", 32 },	      { "PORT", "port", 5 },
		{ "OPEN", "open", 4 },	      { "UP", "bytes_up", 10 },
		{ "DOWN", "bytes_down", 10 }, { "REASON", "reason", 0 },
	};
	uint64_t limit = EGRESS_LIMIT_DEFAULT;
	bool json = false;
	const struct opt opts[] = {
		{ "json", 0, OPT_FLAG, &json, 0, 0 },
		{ "limit", 'n', OPT_NUMBER, &limit, 1, EGRESS_LIMIT_MAX },
	};
	json_t *answer;
	struct err err;
	int at = opt_parse(opts, ARRAY_SIZE(opts), argc, argv, &err);

	if (at < 0)
		return cli_usage(self, "%s", err.text);
	if (argc - at != 1)
		return cli_usage(self, NULL);
	_cleanup_free_ char *segment = client_escape(argv[at]);
	_cleanup_free_ char *path =
		mem_printf("/v1/sessions/%s/egress?limit=%llu", segment, (unsigned long long)limit);
	if (client_get(path, &answer, &err) < 0)
		return cli_fail(&err);
	const json_t *events = json_object_get(answer, "events");
	if (json)
		show_json(answer);
	else if (json_array_size(events) == 0)
		puts("No attempts.");
	else
		show_table(events, columns, ARRAY_SIZE(columns));
	json_decref(answer);
	return 0;
}

int cmd_sandbox(const struct cli_command *self, int argc, char **argv)
{
	static const struct cli_command table[] = {
		{ "sandbox create",
		  "[--template T] [--egress LIST] [--persistent] [--snapshot ID] [--secret "
		  "NAME[=VALUE]]... [--json] (--persistent, --secret: not in this version)",
		  "", sandbox_create },
		{ "sandbox list", "[--json]", "", sandbox_list },
		{ "sandbox show", "[--json] ID", "", sandbox_show },
		{ "sandbox exec",
		  "ID [--timeout N] [--cwd DIR] [--env NAME[=VALUE]]... [--stdin] [--json] -- "
		  "COMMAND...",
		  "", sandbox_exec },
		{ "sandbox rm", "ID...", "", sandbox_rm },
		{ "sandbox egress", "[--limit N] [--json] ID", "", sandbox_egress },
		{ "sandbox snapshot", "ID [--name N] [--path P] [--json]", "", snapshots_take },
		{ "sandbox restore", "ID SNAPSHOT [--path P] [--json]", "", snapshots_restore },
		{ "sandbox import", "ID OWNER/REPO [--ref R] [--path P] [--json]", "",
		  snapshots_import },
		{ "sandbox fork", "ID [--count N] [--json]", "", snapshots_fork },
	};

	(void)self;
	return cli_dispatch(table, ARRAY_SIZE(table), "sandbox ", argc, argv);
}
