// SPDX-License-Identifier: Apache-2.0
/* The keys of a server: one's own, or with --admin those of all tenants (the contract, 18.5). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/show.h"

#define NAME_WIDTH 20

struct keys_opts {
	bool admin, json;
	const char *tenant, *name;
};

static int open_client(struct client *c, bool admin, struct err *err)
{
	const char *key = getenv("SANDBOX_ADMIN_KEY");

	if (admin && (!key || !*key))
		return err_set(err, EINVAL, "SANDBOX_ADMIN_KEY is not set; --admin asks with it");
	int r = client_open(c, err);
	if (r >= 0 && admin) {
		free(c->key);
		c->key = mem_dup(key);
	}
	return r;
}

static int ask(bool admin, const char *method, const char *rest, json_t *body, json_t **ret)
{
	_cleanup_free_ char *path = mem_printf("/v1/%skeys%s", admin ? "admin/" : "", rest);
	struct client client;
	struct err err;
	int r = open_client(&client, admin, &err);

	if (r >= 0) {
		r = client_call(&client, method, path, body, ret, &err);
		client_close(&client);
	}
	json_decref(body);
	return r < 0 ? cli_fail(&err) : 0;
}

/* Owned by the caller. */
static char *text(const json_t *record, const char *member)
{
	const char *value = json_string_value(json_object_get(record, member));

	return cli_plain(value ? value : "");
}

/* So many characters of a text. */
static void print_cut(const char *name)
{
	const char *at = name;
	int n = 0;

	for (; *at && n < NAME_WIDTH; n++)
		for (at++; ((unsigned char)*at & 0xc0) == 0x80;)
			at++;
	printf("%.*s%*s ", (int)(at - name), name, NAME_WIDTH - n, "");
}

static void print_list(const json_t *list)
{
	const json_t *record;
	size_t i;

	if (json_array_size(list) == 0) {
		puts("No keys.");
		return;
	}
	printf("%-12s %-16s %-*s %-8s %s\n", "KEY ID", "TENANT", NAME_WIDTH, "NAME", "STATUS",
	       "PREFIX");
	json_array_foreach((json_t *)(uintptr_t)list, i, record)
	{
		bool active = json_is_true(json_object_get(record, "active"));
		_cleanup_free_ char *id = text(record, "key_id");
		_cleanup_free_ char *tenant = text(record, "tenant_id");
		_cleanup_free_ char *name = text(record, "name");
		_cleanup_free_ char *prefix = text(record, "prefix");
		printf("%-12s %-16s ", id, tenant);
		print_cut(name);
		printf("%-8s %s\n", active ? "active" : "revoked", prefix);
	}
}

static int keys_list(const struct keys_opts *o)
{
	_cleanup_free_ char *tenant = o->tenant ? client_escape(o->tenant) : NULL;
	_cleanup_free_ char *query = mem_printf(tenant ? "?tenant=%s" : "", tenant);
	json_t *answer;
	int status = ask(o->admin, "GET", query, NULL, &answer);

	if (status)
		return status;
	if (o->json)
		show_json(answer);
	else
		print_list(json_object_get(answer, "keys"));
	json_decref(answer);
	return 0;
}

static int keys_create(const struct keys_opts *o)
{
	json_t *answer, *body = json_pack("{s:s}", "name", o->name ? o->name : "");

	if (o->tenant)
		json_object_set_new(body, "tenant", json_string(o->tenant));
	int status = ask(o->admin, "POST", "", body, &answer);
	if (status)
		return status;
	_cleanup_free_ char *id = text(answer, "key_id");
	_cleanup_free_ char *tenant = text(answer, "tenant_id");
	_cleanup_free_ char *name = text(answer, "name");
	_cleanup_free_ char *key = text(answer, "api_key");
	if (o->json)
		show_json(answer);
	else
		printf("Created key %s for tenant %s (%s).\n\n    %s\n\n"
		       "Keep it somewhere safe: it is shown only once.\n",
		       id, tenant, name, key);
	json_decref(answer);
	return 0;
}

static int keys_revoke(const struct keys_opts *o, const char *id)
{
	_cleanup_free_ char *segment = client_escape(id);
	_cleanup_free_ char *rest = mem_printf("/%s", segment);
	json_t *answer;
	int status = ask(o->admin, "DELETE", rest, NULL, &answer);

	if (status)
		return status;
	_cleanup_free_ char *revoked = text(answer, "key_id");
	_cleanup_free_ char *tenant = text(answer, "tenant_id");
	_cleanup_free_ char *name = text(answer, "name");
	if (o->json)
		show_json(answer);
	else
		printf("Revoked %s (%s, %s). It stops working immediately.\n", revoked, tenant,
		       name);
	json_decref(answer);
	return 0;
}

int cmd_keys(const struct cli_command *self, int argc, char **argv)
{
	struct keys_opts o = { 0 };
	const struct opt opts[] = {
		{ "admin", 0, OPT_FLAG, &o.admin, 0, 0 },
		{ "json", 0, OPT_FLAG, &o.json, 0, 0 },
		{ "tenant", 0, OPT_TEXT, &o.tenant, 0, 0 },
		{ "name", 0, OPT_TEXT, &o.name, 0, 0 },
	};
	const char *words[2] = { NULL, NULL };
	struct err err;
	size_t n = 0;

	/* Options may stand before and after each word. */
	for (;;) {
		int at = opt_parse(opts, ARRAY_SIZE(opts), argc, argv, &err);
		if (at < 0)
			return cli_usage(self, "%s", err.text);
		argc -= at;
		argv += at;
		if (!argc)
			break;
		if (n == ARRAY_SIZE(words))
			return cli_usage(self, NULL);
		words[n++] = *argv++;
		argc--;
	}
	const char *verb = words[0] ? words[0] : "";
	if (o.tenant && !o.admin)
		return cli_usage(self, "--tenant needs --admin");
	if (n == 1 && strcmp(verb, "list") == 0 && !o.name)
		return keys_list(&o);
	if (n == 1 && strcmp(verb, "create") == 0 && o.admin && !o.tenant)
		return cli_usage(self, "--admin needs to be told whose key it is: --tenant NAME");
	if (n == 1 && strcmp(verb, "create") == 0)
		return keys_create(&o);
	if (n == 2 && strcmp(verb, "revoke") == 0 && !o.name && !o.tenant)
		return keys_revoke(&o, words[1]);
	return cli_usage(self, NULL);
}
