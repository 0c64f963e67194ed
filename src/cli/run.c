// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/embedded.h"
#include "cli/session.h"
#include "cli/transfer.h"

struct run {
	struct session_spec session;
	struct session_command command;
	struct opt_list put, get;
	bool keep;
};

/* "LOCAL:REMOTE": the parts are cut at the last colon of put, at the first of get, because only a
 * local name is likely to have more. */
static int split_pair(const char *text, bool last, char **ret_left, const char **ret_right,
		      struct err *err)
{
	const char *colon = last ? strrchr(text, ':') : strchr(text, ':');

	if (!colon || colon == text || !colon[1])
		return err_set(err, EINVAL, "'%s' is not of the form FROM:TO", text);
	*ret_left = mem_dup_n(text, (size_t)(colon - text));
	*ret_right = colon + 1;
	return 0;
}

static int copy_in(struct client *c, const char *id, const struct opt_list *put, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < put->n && r >= 0; i++) {
		_cleanup_free_ char *local = NULL;
		const char *remote;
		r = split_pair(put->items[i], true, &local, &remote, err);
		if (r >= 0)
			r = transfer_put(c, id, local, remote, err);
	}
	return r;
}

static int copy_out(struct client *c, const char *id, const struct opt_list *get, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < get->n && r >= 0; i++) {
		_cleanup_free_ char *remote = NULL;
		const char *local;
		r = split_pair(get->items[i], false, &remote, &local, err);
		if (r >= 0)
			r = transfer_get(c, id, remote, local, err);
	}
	return r;
}

/* Returns the exit status, or negative with *err. */
static int run_in(struct client *c, const char *id, const struct run *run, struct err *err)
{
	int r = copy_in(c, id, &run->put, err);

	if (r < 0)
		return r;
	int status = session_exec(c, id, &run->command, err);
	if (status >= 0) {
		r = copy_out(c, id, &run->get, err);
		if (r < 0)
			return r;
	}
	return status;
}

static int run_session(struct client *c, const struct run *run)
{
	_cleanup_free_ char *id = NULL;
	struct err err, delete_err;
	int status = session_create(c, &run->session, &id, NULL, &err);

	if (status >= 0)
		status = run_in(c, id, run, &err);
	/* Also what kills the command after Ctrl-C. */
	if (id && (!run->keep || status == -ECANCELED) && session_delete(c, id, &delete_err) < 0)
		cli_fail(&delete_err);
	else if (id && run->keep)
		fprintf(stderr, "airlock: the sandbox stays: %s\n", id);
	if (status == -ECANCELED)
		return EXIT_INTERRUPTED;
	return status < 0 ? cli_fail(&err) : status;
}

static int run_embedded(const struct run *run)
{
	struct embedded server = EMBEDDED_NONE;
	struct client client = { 0 };
	struct err err;
	int status, r = embedded_start(&server, run->session.egress, &err);

	if (r >= 0)
		r = client_open_socket(&client, server.socket, server.key, &err);
	if (r >= 0)
		r = embedded_wait(&server, &client, &err);
	if (r >= 0)
		status = run_session(&client, run);
	else
		status = r == -ECANCELED ? EXIT_INTERRUPTED : cli_fail(&err);
	client_close(&client);
	embedded_stop(&server);
	return status;
}

static int run_remote(const struct run *run)
{
	struct client client;
	struct err err;
	int status;

	if (client_open(&client, &err) < 0)
		return cli_fail(&err);
	status = run_session(&client, run);
	client_close(&client);
	return status;
}

int cmd_run(const struct cli_command *self, int argc, char **argv)
{
	struct run run = { .command = { .timeout = SESSION_TIMEOUT_MAX } };
	const struct opt opts[] = {
		{ "egress", 0, OPT_TEXT, &run.session.egress, 0, 0 },
		{ "template", 0, OPT_TEXT, &run.session.template_name, 0, 0 },
		{ "secret", 0, OPT_LIST, &run.session.secrets, 0, 0 },
		{ "timeout", 't', OPT_NUMBER, &run.command.timeout, 1, SESSION_TIMEOUT_MAX },
		{ "cwd", 0, OPT_TEXT, &run.command.cwd, 0, 0 },
		{ "env", 'e', OPT_LIST, &run.command.env, 0, 0 },
		{ "stdin", 'i', OPT_FLAG, &run.command.with_stdin, 0, 0 },
		{ "json", 0, OPT_FLAG, &run.command.json, 0, 0 },
		{ "put", 0, OPT_LIST, &run.put, 0, 0 },
		{ "get", 0, OPT_LIST, &run.get, 0, 0 },
		{ "keep", 0, OPT_FLAG, &run.keep, 0, 0 },
	};
	const char *url = getenv("SANDBOX_API_URL");
	struct err err;
	int at = opt_parse(opts, ARRAY_SIZE(opts), argc, argv, &err);

	if (at < 0)
		return cli_usage(self, "%s", err.text);
	if (at == argc)
		return cli_usage(self, "there is no command to run");
	run.command.words = argv + at;
	run.command.n_words = argc - at;
	session_catch_signals();
	if (url && *url)
		return run_remote(&run);
	if (run.keep)
		return cli_usage(self, "--keep needs a server: set SANDBOX_API_URL");
	return run_embedded(&run);
}
