// SPDX-License-Identifier: Apache-2.0
/* The audit log: a table of its newest entries, or all of it as JSON lines. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/show.h"

#define PAGE_MAX 500
#define TABLE_ENTRIES 100

static void print_lines(const json_t *entries)
{
	const json_t *entry;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)entries, i, entry) show_json_line(entry);
}

/* One page; *cursor (owned) becomes that of the next, NULL when there is none. */
static int get_page(struct client *c, uint64_t limit, char **cursor, json_t **ret, struct err *err)
{
	_cleanup_free_ char *escaped = *cursor ? client_escape(*cursor) : NULL;
	_cleanup_free_ char *path = mem_printf("/v1/audit?limit=%llu%s%s",
					       (unsigned long long)limit, escaped ? "&before=" : "",
					       escaped ? escaped : "");
	int r = client_call(c, "GET", path, NULL, ret, err);

	if (r < 0)
		return r;
	const char *next = json_string_value(json_object_get(*ret, "next"));
	free(*cursor);
	*cursor = next ? mem_dup(next) : NULL;
	return 0;
}

/* limit 0: all. */
static int export(struct client *c, uint64_t limit, struct err *err)
{
	uint64_t left = limit ? limit : UINT64_MAX;
	char *cursor = NULL;
	json_t *page;
	int r = 0;

	do {
		r = get_page(c, left < PAGE_MAX ? left : PAGE_MAX, &cursor, &page, err);
		if (r < 0)
			break;
		const json_t *entries = json_object_get(page, "entries");
		size_t n = json_array_size(entries);
		print_lines(entries);
		json_decref(page);
		/* An answer that says nothing and promises more would never end. */
		left = n && n <= left ? left - n : 0;
	} while (cursor && left);
	free(cursor);
	return r;
}

static int show(struct client *c, uint64_t limit, struct err *err)
{
	static const struct show_column columns[] = {
		{ "ENDED", "ts", 19 },	     { "SANDBOX", "session_id", 16 },
		{ "ACTOR", "actor", 14 },    { "KIND", "kind", 8 },
		{ "EXIT", "exit_code", 6 },  { "SECONDS", "duration_s", 8 },
		{ "COMMAND", "command", 0 },
	};
	char *cursor = NULL;
	json_t *page;
	int r = get_page(c, limit ? limit : TABLE_ENTRIES, &cursor, &page, err);

	if (r < 0)
		return r;
	const json_t *entries = json_object_get(page, "entries");
	if (json_array_size(entries) == 0)
		puts("No entries.");
	else
		show_table(entries, columns, ARRAY_SIZE(columns));
	json_decref(page);
	free(cursor);
	return 0;
}

int cmd_audit(const struct cli_command *self, int argc, char **argv)
{
	uint64_t limit = 0;
	bool json = false;
	const struct opt opts[] = {
		{ "json", 0, OPT_FLAG, &json, 0, 0 },
		{ "limit", 'n', OPT_NUMBER, &limit, 1, UINT32_MAX },
	};
	struct client client;
	struct err err;
	int at = opt_parse(opts, ARRAY_SIZE(opts), argc, argv, &err);

	if (at < 0)
		return cli_usage(self, "%s", err.text);
	if (at != argc)
		return cli_usage(self, NULL);
	if (limit > PAGE_MAX && !json)
		return cli_usage(self, "a table has at most %d entries; --json has all", PAGE_MAX);
	int r = client_open(&client, &err);
	if (r >= 0) {
		r = json ? export(&client, limit, &err) : show(&client, limit, &err);
		client_close(&client);
	}
	return r < 0 ? cli_fail(&err) : 0;
}
