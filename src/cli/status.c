// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/servers.h"
#include "cli/show.h"

#define ERRORS 5

/* What the server itself says; without a key only its health. */
static void ask(json_t *report)
{
	static const struct {
		const char *name, *path;
		bool needs_key;
	} routes[] = {
		{ "health", "/healthz", false },
		{ "usage", "/v1/usage", true },
	};
	struct client client;
	struct err err;

	if (client_open(&client, &err) < 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
		json_t *answer = NULL;
		if (routes[i].needs_key && !client.key)
			continue;
		if (client_call_with(&client, "GET", routes[i].path, NULL, 0, 5, &answer, &err) ==
		    0)
			json_object_set_new(report, routes[i].name, answer);
		else
			json_object_set_new(report, routes[i].name,
					    json_pack("{s:s}", "problem", err.text));
	}
	client_close(&client);
}

static void print_servers(const json_t *servers)
{
	const json_t *s;
	size_t i;

	if (json_array_size(servers) == 0)
		puts("on this host            no server");
	json_array_foreach((json_t *)(uintptr_t)servers, i, s)
	{
		const char *named = json_string_value(json_object_get(s, "state_dir"));
		_cleanup_free_ char *dir = cli_plain(named ? named : "-");
		double size = json_number_value(json_object_get(s, "volume_size_bytes"));
		double left = json_number_value(json_object_get(s, "volume_free_bytes"));
		printf("server %-5lld            %s\n",
		       (long long)json_integer_value(json_object_get(s, "pid")), dir);
		printf("  sandboxes             %lld ready, %lld running something\n",
		       (long long)json_integer_value(json_object_get(s, "ready")),
		       (long long)json_integer_value(json_object_get(s, "running")));
		if (!json_integer_value(json_object_get(s, "daemon_pid")))
			puts("  airlockd              not running");
		if (size > 0)
			printf("  volume                %.0f %% full, %.1f GB free\n",
			       100 * (size - left) / size, left / (1u << 30));
		else
			printf("  volume                %s\n",
			       geteuid() == 0 ? "(not there)" : "(seen by root only)");
	}
}

static void print_errors(const json_t *errors)
{
	const json_t *e;
	size_t i;

	if (!errors) {
		puts("last errors             a server that is no service writes them to its "
		     "stderr");
		return;
	}
	printf("last errors             %s\n", json_array_size(errors) ? "" : "none");
	json_array_foreach((json_t *)(uintptr_t)errors, i, e)
	{
		fputs("  ", stdout);
		show_json_line(e);
	}
}

static int print(const json_t *report)
{
	const json_t *health = json_object_get(report, "health");

	puts("health");
	show_object(health, 2);
	if (json_object_get(report, "usage")) {
		puts("usage");
		show_object(json_object_get(report, "usage"), 2);
	}
	print_servers(json_object_get(report, "servers"));
	print_errors(json_object_get(report, "errors"));
	return json_object_get(health, "problem") ? EXIT_FAILED : 0;
}

int cmd_status(const struct cli_command *self, int argc, char **argv)
{
	bool json = false;
	const struct opt opts[] = { { "json", 0, OPT_FLAG, &json, 0, 0 } };
	struct err err;
	int at = opt_parse(opts, ARRAY_SIZE(opts), argc, argv, &err);
	int status = 0;

	if (at < 0)
		return cli_usage(self, "%s", err.text);
	if (at != argc)
		return cli_usage(self, NULL);
	json_t *report = json_object();
	json_t *errors = servers_errors(ERRORS);
	ask(report);
	json_object_set_new(report, "servers", servers_find());
	if (errors)
		json_object_set_new(report, "errors", errors);
	if (json)
		show_json(report);
	else
		status = print(report);
	json_decref(report);
	return status;
}
