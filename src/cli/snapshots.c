// SPDX-License-Identifier: Apache-2.0
#include "cli/snapshots.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/client.h"
#include "cli/remove.h"
#include "cli/retry.h"
#include "cli/show.h"

#define FORKS_MAX 16

static void set_text(json_t *body, const char *name, const char *text)
{
	if (text)
		json_object_set_new(body, name, json_string(text));
}

/* POSTs to a sandbox what takes as long as its files are many. body is the callee's. waiting: for a
 * terminal, or NULL. */
static int ask_shown(const char *id, const char *what, json_t *body, const char *waiting,
		     json_t **ret, struct err *err)
{
	_cleanup_free_ char *segment = client_escape(id);
	_cleanup_free_ char *path = mem_printf("/v1/sessions/%s/%s", segment, what);
	struct client client;
	int r = client_open(&client, err);

	if (r >= 0) {
		/* What is made must not be lost because nobody waited for its id. */
		client.patient = true;
		client.waiting = isatty(STDERR_FILENO) ? waiting : NULL;
		r = client_call_with(&client, "POST", path, body, RETRY_MAX, CLIENT_SLOW_SECONDS,
				     ret, err);
		client_close(&client);
	}
	json_decref(body);
	return r;
}

static int ask(const char *id, const char *what, json_t *body, json_t **ret, struct err *err)
{
	return ask_shown(id, what, body, NULL, ret, err);
}

static int print_member(json_t *answer, bool json, const char *member)
{
	const char *text = json_string_value(json_object_get(answer, member));

	if (json)
		show_json(answer);
	else
		puts(text ? text : "");
	json_decref(answer);
	return 0;
}

int snapshots_take(const struct cli_command *self, int argc, char **argv)
{
	const char *name = NULL, *path = NULL, *id;
	bool json = false;
	const struct opt opts[] = {
		{ "json", 0, OPT_FLAG, &json, 0, 0 },
		{ "name", 0, OPT_TEXT, &name, 0, 0 },
		{ "path", 0, OPT_TEXT, &path, 0, 0 },
	};
	json_t *answer, *body;
	struct err err;
	int status = opt_words(self, opts, ARRAY_SIZE(opts), argc, argv, 1, 1, &id);

	if (status)
		return status;
	body = json_object();
	set_text(body, "name", name);
	set_text(body, "path", path);
	if (ask(id, "snapshots", body, &answer, &err) < 0)
		return cli_fail(&err);
	return print_member(answer, json, "id");
}

int snapshots_restore(const struct cli_command *self, int argc, char **argv)
{
	const char *path = NULL, *words[2];
	bool json = false;
	const struct opt opts[] = {
		{ "json", 0, OPT_FLAG, &json, 0, 0 },
		{ "path", 0, OPT_TEXT, &path, 0, 0 },
	};
	json_t *answer, *body;
	struct err err;
	int status = opt_words(self, opts, ARRAY_SIZE(opts), argc, argv, 2, 2, words);

	if (status)
		return status;
	body = json_object();
	set_text(body, "snapshot_id", words[1]);
	set_text(body, "path", path);
	if (ask(words[0], "restore", body, &answer, &err) < 0)
		return cli_fail(&err);
	return print_member(answer, json, "path");
}

int snapshots_import(const struct cli_command *self, int argc, char **argv)
{
	const char *ref = NULL, *path = NULL, *words[2];
	bool json = false;
	const struct opt opts[] = {
		{ "json", 0, OPT_FLAG, &json, 0, 0 },
		{ "ref", 0, OPT_TEXT, &ref, 0, 0 },
		{ "path", 0, OPT_TEXT, &path, 0, 0 },
	};
	json_t *answer, *body;
	struct err err;
	int status = opt_words(self, opts, ARRAY_SIZE(opts), argc, argv, 2, 2, words);

	if (status)
		return status;
	body = json_object();
	set_text(body, "repo", words[1]);
	set_text(body, "ref", ref);
	set_text(body, "path", path);
	/* The server says nothing before all of it is there. */
	_cleanup_free_ char *waiting = mem_printf("downloading and unpacking %s", words[1]);
	if (ask_shown(words[0], "import", body, waiting, &answer, &err) < 0)
		return cli_fail(&err);
	return print_member(answer, json, "path");
}

int snapshots_fork(const struct cli_command *self, int argc, char **argv)
{
	uint64_t count = 1;
	const char *id;
	bool json = false;
	const struct opt opts[] = {
		{ "json", 0, OPT_FLAG, &json, 0, 0 },
		{ "count", 'n', OPT_NUMBER, &count, 1, FORKS_MAX },
	};
	json_t *answer, *entry;
	struct err err;
	size_t i;
	int status = opt_words(self, opts, ARRAY_SIZE(opts), argc, argv, 1, 1, &id);

	if (status)
		return status;
	json_t *body = json_pack("{s:I}", "count", (json_int_t)count);
	if (ask(id, "fork", body, &answer, &err) < 0)
		return cli_fail(&err);
	if (json)
		show_json(answer);
	json_array_foreach(json_object_get(answer, "sessions"), i, entry)
	{
		const char *made = json_string_value(json_object_get(entry, "session_id"));
		if (!json)
			puts(made ? made : "");
	}
	json_decref(answer);
	return 0;
}

static int snapshots_list(const struct cli_command *self, int argc, char **argv)
{
	static const struct show_column columns[] = {
		{ "SNAPSHOT", "id", 21 },	 { "SIZE", "size_bytes", 10 },
		{ "CREATED", "created_at", 19 }, { "EXPIRES", "expires_at", 19 },
		{ "SANDBOX", "session_id", 16 }, { "NAME", "name", 0 },
	};
	bool json = false;
	const struct opt opts[] = { { "json", 0, OPT_FLAG, &json, 0, 0 } };
	json_t *answer;
	struct err err;
	int status = opt_words(self, opts, ARRAY_SIZE(opts), argc, argv, 0, 0, NULL);

	if (status)
		return status;
	if (client_get("/v1/snapshots", &answer, &err) < 0)
		return cli_fail(&err);
	const json_t *list = json_object_get(answer, "snapshots");
	if (json)
		show_json(answer);
	else if (json_array_size(list) == 0)
		puts("No snapshots.");
	else
		show_table(list, columns, ARRAY_SIZE(columns));
	json_decref(answer);
	return 0;
}

static int snapshots_rm(const struct cli_command *self, int argc, char **argv)
{
	return remove_each(self, "/v1/snapshots/", argc, argv);
}

int cmd_snapshots(const struct cli_command *self, int argc, char **argv)
{
	static const struct cli_command table[] = {
		{ "snapshots list", "[--json]", "", snapshots_list },
		{ "snapshots rm", "ID...", "", snapshots_rm },
	};

	(void)self;
	return cli_dispatch(table, ARRAY_SIZE(table), "snapshots ", argc, argv);
}
