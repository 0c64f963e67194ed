// SPDX-License-Identifier: Apache-2.0
#include "cli/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/client.h"
#include "cli/show.h"
#include "cli/transfer.h"

#define DEPTH_MAX 16

/* What to do about a refusal that ends with these words. */
static void advise(struct err *err, const char *end, const char *advice)
{
	size_t n = strlen(err->text), m = strlen(end);
	_cleanup_free_ char *said = NULL;

	if (n < m || strcmp(err->text + n - m, end) != 0)
		return;
	said = mem_dup_n(err->text, n - 1); /* without the full stop */
	err_set(err, err->code, "%s; %s", said, advice);
}

/* ---- list ------------------------------------------------------------------------------------ */

struct listing {
	bool json;
	size_t n; /* entries so far */
};

/* As `ls -l` writes it. */
static void set_mode(json_t *entry)
{
	static const struct {
		const char *type;
		char letter;
	} types[] = { { "file", '-' }, { "folder", 'd' }, { "link", 'l' } };
	const char *type = json_string_value(json_object_get(entry, "type"));
	unsigned mode = (unsigned)json_integer_value(json_object_get(entry, "mode"));
	char text[] = "?rwxrwxrwx";

	for (size_t i = 0; type && i < ARRAY_SIZE(types); i++)
		if (strcmp(types[i].type, type) == 0)
			text[0] = types[i].letter;
	for (unsigned i = 0; i < 9; i++)
		if (!(mode & (0400u >> i)))
			text[1 + i] = '-';
	json_object_set_new(entry, "mode", json_string(text));
}

static void set_name(json_t *entry)
{
	const char *path = json_string_value(json_object_get(entry, "path"));
	const char *target = json_string_value(json_object_get(entry, "target"));
	_cleanup_free_ char *name = target && path ? mem_printf("%s -> %s", path, target)
						   : mem_dup(path ? path : "-");

	json_object_set_new(entry, "name", json_string(name));
}

static void print_rows(json_t *entries, bool first)
{
	static const struct show_column columns[] = {
		{ "MODE", "mode", 10 },
		{ "SIZE", "size_bytes", 12 },
		{ "MODIFIED", "modified_at", 19 },
		{ "PATH", "name", 0 },
	};
	json_t *entry;
	size_t i;

	json_array_foreach(entries, i, entry)
	{
		set_mode(entry);
		set_name(entry);
		json_object_set(entry, "modified_at", json_object_get(entry, "mtime"));
	}
	if (first)
		show_table(entries, columns, ARRAY_SIZE(columns));
	else
		show_rows(entries, columns, ARRAY_SIZE(columns));
}

/* The object that an answer without pages would be, an entry on each line. */
static void print_json(const json_t *page, const json_t *entries, bool first)
{
	const json_t *entry;
	size_t i;

	if (first) {
		fputs("{\"path\":", stdout);
		show_json_part(json_object_get(page, "path"));
		fputs(",\"entries\":[", stdout);
	}
	json_array_foreach((json_t *)(uintptr_t)entries, i, entry)
	{
		fputs(first && i == 0 ? "\n" : ",\n", stdout);
		show_json_part(entry);
	}
}

/* *after (owned) becomes that of the next page, NULL when there is none. */
static int list_page(struct client *c, const char *route, struct listing *l, char **after,
		     struct err *err)
{
	_cleanup_free_ char *cursor = *after ? client_escape(*after) : NULL;
	_cleanup_free_ char *path =
		mem_printf("%s%s%s", route, cursor ? "&after=" : "", cursor ? cursor : "");
	json_t *page = NULL;
	int r = client_call(c, "GET", path, NULL, &page, err);

	if (r < 0)
		return r;
	json_t *entries = json_object_get(page, "entries");
	const char *next = json_string_value(json_object_get(page, "next"));
	size_t n = json_array_size(entries);
	if (!json_is_array(entries) || !json_is_string(json_object_get(page, "path")))
		r = err_set(err, EPROTO, "the server did not answer with a list");
	else if (l->json)
		print_json(page, entries, !cursor);
	else if (n)
		print_rows(entries, l->n == 0);
	l->n += n;
	/* An answer that says nothing and promises more would never end. */
	if (r == 0 && next && n == 0)
		r = err_set(err, EPROTO, "the server's list does not end");
	free(*after);
	*after = next ? mem_dup(next) : NULL;
	json_decref(page);
	return r;
}

static int list(struct client *c, const char *route, struct listing *l, struct err *err)
{
	char *after = NULL;
	int r;

	do
		r = list_page(c, route, l, &after, err);
	while (r == 0 && after);
	free(after);
	if (r < 0)
		return r;
	if (l->json)
		puts("\n],\"next\":null}");
	else if (l->n == 0)
		puts("No files.");
	return 0;
}

int tree_list(const struct cli_command *self, int argc, char **argv)
{
	const char *words[2] = { NULL, "." };
	struct listing l = { 0 };
	uint64_t depth = 1;
	const struct opt opts[] = {
		{ "json", 0, OPT_FLAG, &l.json, 0, 0 },
		{ "depth", 0, OPT_NUMBER, &depth, 1, DEPTH_MAX },
	};
	struct client client;
	struct err err;
	int status = opt_words(self, opts, ARRAY_SIZE(opts), argc, argv, 1, 2, words);

	if (status)
		return status;
	_cleanup_free_ char *folder = transfer_route(words[0], "list", words[1]);
	_cleanup_free_ char *route = mem_printf("%s&depth=%u", folder, (unsigned)depth);
	if (client_open(&client, &err) < 0)
		return cli_fail(&err);
	int r = list(&client, route, &l, &err);
	client_close(&client);
	return r < 0 ? cli_fail(&err) : 0;
}

/* ---- rm, mv, mkdir --------------------------------------------------------------------------- */

/* body is the callee's; NULL: none. ret may be NULL. */
static int ask(const char *method, const char *path, json_t *body, json_t **ret, struct err *err)
{
	struct client client;
	int r = client_open(&client, err);

	if (r >= 0) {
		r = client_call(&client, method, path, body, ret, err);
		client_close(&client);
	}
	json_decref(body);
	return r;
}

static int set_path(json_t *body, const char *name, const char *path, struct err *err)
{
	if (json_object_set_new(body, name, json_string(path)) < 0)
		return err_set(err, EILSEQ, "the path is not UTF-8 text");
	return 0;
}

int tree_rm(const struct cli_command *self, int argc, char **argv)
{
	bool recursive = false, force = false;
	const struct opt opts[] = {
		{ "recursive", 'r', OPT_FLAG, &recursive, 0, 0 },
		{ "force", 'f', OPT_FLAG, &force, 0, 0 },
	};
	const char *words[2];
	json_t *answer = NULL;
	struct err err;
	int status = opt_words(self, opts, ARRAY_SIZE(opts), argc, argv, 2, 2, words);

	if (status)
		return status;
	_cleanup_free_ char *route = transfer_route(words[0], "files", words[1]);
	_cleanup_free_ char *path = mem_printf("%s%s", route, recursive ? "&recursive=1" : "");
	int r = ask("DELETE", path, NULL, &answer, &err);
	if (r < 0)
		advise(&err, "' is not empty.", "-r deletes all that is in it");
	else if (!force && json_integer_value(json_object_get(answer, "deleted")) == 0)
		r = err_set(&err, ENOENT, "File '%s' does not exist.", words[1]);
	json_decref(answer);
	return r < 0 ? cli_fail(&err) : 0;
}

int tree_mv(const struct cli_command *self, int argc, char **argv)
{
	bool replace = false;
	const struct opt opts[] = { { "replace", 0, OPT_FLAG, &replace, 0, 0 } };
	const char *words[3];
	struct err err;
	int status = opt_words(self, opts, ARRAY_SIZE(opts), argc, argv, 3, 3, words);

	if (status)
		return status;
	_cleanup_free_ char *path = transfer_route(words[0], "move", NULL);
	json_t *body = json_pack("{s:b}", "replace", replace);
	int r = set_path(body, "from", words[1], &err);
	if (r == 0)
		r = set_path(body, "to", words[2], &err);
	if (r < 0)
		json_decref(body);
	else
		r = ask("POST", path, body, NULL, &err);
	if (r == 0)
		return 0;
	advise(&err, "' already exists.",
	       replace ? "delete it first" : "--replace puts this in its place");
	return cli_fail(&err);
}

/* The server makes the parents, and minds no folder that is there. */
int tree_mkdir(const struct cli_command *self, int argc, char **argv)
{
	bool parents = false;
	const struct opt opts[] = { { "parents", 'p', OPT_FLAG, &parents, 0, 0 } };
	const char *words[2];
	struct err err;
	int status = opt_words(self, opts, ARRAY_SIZE(opts), argc, argv, 2, 2, words);

	if (status)
		return status;
	_cleanup_free_ char *path = transfer_route(words[0], "mkdir", NULL);
	json_t *body = json_object();
	int r = set_path(body, "path", words[1], &err);
	if (r < 0)
		json_decref(body);
	else
		r = ask("POST", path, body, NULL, &err);
	return r < 0 ? cli_fail(&err) : 0;
}
