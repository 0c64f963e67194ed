// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/state.h"

static const struct cli_command commands[] = {
	{ "serve", "[--config FILE] [--check] [--accept-lost]", "start the server (as root)",
	  cmd_serve },
	{ "run",
	  "[--timeout N] [--template T] [--egress LIST] [--secret NAME[=VALUE]]... [--cwd DIR] "
	  "[--env NAME[=VALUE]]... [--stdin] [--put LOCAL:REMOTE]... [--get REMOTE:LOCAL]... "
	  "[--keep] "
	  "[--json] -- COMMAND... (--secret: not in this version)",
	  "run one command isolated; without SANDBOX_API_URL on a server of its own", cmd_run },
	{ "sandbox", "create|list|show|exec|rm|egress|snapshot|restore|fork|import",
	  "sandboxes of a server", cmd_sandbox },
	{ "snapshots", "list|rm", "stored copies of files", cmd_snapshots },
	{ "files", "read|write|put|get|archive|list|rm|mv|mkdir", "files in a sandbox", cmd_files },
	{ "keys",
	  "[--admin] [--json] list [--tenant T] | create [--name N] [--tenant T] | revoke KEY_ID",
	  "keys of a server", cmd_keys },
	{ "audit", "[--json] [--limit N]", "what ran, newest first; --json has all of it",
	  cmd_audit },
	{ "usage", "[--json]", "limits and what is used of them", cmd_usage },
	{ "policy", "[--json]", "hosts that sandboxes may reach", cmd_policy },
	{ "health", "[--json]", "whether the server serves", cmd_health },
	{ "status", "[--json]", "sessions, pool, volume and last errors", cmd_status },
	{ "doctor", "[--json]", "what this host can enforce", cmd_doctor },
	{ "image", "ls|build|import|rm", "what sandboxes start from", cmd_image },
	{ "backup", "[" STATE_USAGE " | --database PATH] FILE",
	  "copy the database of a server, running or not (as root)", cmd_backup },
	{ "restore", "[" STATE_USAGE " | --database PATH] FILE",
	  "put such a copy in its place (as root)", cmd_restore },
	{ "volume", "show|grow|purge", "where workspaces lie (as root)", cmd_volume },
};

static int print_help(FILE *to)
{
	fputs("airlock - run untrusted code in isolated sandboxes\n\n", to);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(to, "  airlock %-9s %s\n", commands[i].name, commands[i].summary);
	fputs("\nClient commands read SANDBOX_API_URL (http://127.0.0.1:8000), SANDBOX_API_KEY,\n"
	      "SANDBOX_API_INSECURE and SANDBOX_API_CA. More: man airlock\n"
	      "or, where it is not installed, man deploy/airlock.1\n",
	      to);
	return to == stdout ? 0 : EXIT_USAGE;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return print_help(stderr);
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    strcmp(argv[1], "help") == 0)
		return print_help(stdout);
	if (strcmp(argv[1], "--version") == 0) {
		puts("airlock " AIRLOCK_VERSION);
		return 0;
	}
	return cli_dispatch(commands, ARRAY_SIZE(commands), "", argc - 1, argv + 1);
}
