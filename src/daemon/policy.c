// SPDX-License-Identifier: Apache-2.0
#include "daemon/policy.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "daemon/variable.h"
#include "egress/rule.h"

#define LIMIT_HIGHEST 1000000000

static void json_cleanup(json_t **value)
{
	json_decref(*value);
}

#define _cleanup_json_ __attribute__((cleanup(json_cleanup)))

static int parse(const char *text, json_t **ret, struct err *err)
{
	char shown[64];
	json_error_t why;
	json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, &why);

	if (!value)
		return err_set(err, EINVAL, "is not valid JSON (line %d: %s)", why.line,
			       variable_show(why.text, shown, sizeof(shown)));
	if (!json_is_object(value)) {
		json_decref(value);
		return err_set(err, EINVAL, "must be a JSON object with tenants as names");
	}
	*ret = value;
	return 0;
}

/* ---- Egress ---- */

void policy_egress_fini(struct policy_egress_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		egress_list_fini(&list->items[i].rules);
		free(list->items[i].tenant);
	}
	free(list->items);
	*list = (struct policy_egress_list){ 0 };
}

static int add_rule(const char *tenant, const json_t *rule, struct egress_list *rules,
		    struct err *err)
{
	_cleanup_buf_ struct buf text = BUF(64 * 1024);
	char shown[64], name[64];

	variable_show(tenant, name, sizeof(name));
	if (!json_is_string(rule))
		return err_set(err, EINVAL, "the rules of '%s' must be strings", name);
	struct str raw = { json_string_value(rule), json_string_length(rule) };
	struct str norm = egress_normalise(raw, &text);
	if (!egress_preset_find(norm) && !egress_rule_is_valid(norm))
		return err_set(err, EINVAL, "'%s' of '%s' is no host, wildcard or preset",
			       variable_show(raw.data, shown, sizeof(shown)), name);
	if (!egress_list_add(rules, norm))
		return err_set(err, EINVAL, "'%s' has more than %u rules", name, EGRESS_LIST_MAX);
	return 0;
}

static int add_tenant(const char *tenant, const json_t *rules, struct policy_egress *item,
		      struct err *err)
{
	const json_t *rule;
	char name[64];
	size_t i;

	if (!json_is_array(rules))
		return err_set(err, EINVAL, "the entry of '%s' must be a list of strings",
			       variable_show(tenant, name, sizeof(name)));
	item->tenant = strcmp(tenant, "*") == 0 ? NULL : mem_dup(tenant);
	json_array_foreach(rules, i, rule)
	{
		int r = add_rule(tenant, rule, &item->rules, err);
		if (r < 0)
			return r;
	}
	return 0;
}

bool policy_is_blank(const char *text)
{
	return !text[strspn(text, " \t\r\n")];
}

int policy_parse_egress(const char *text, struct policy_egress_list *ret, struct err *err)
{
	_cleanup_json_ json_t *json = NULL;
	struct policy_egress_list list = { 0 };
	const char *tenant;
	json_t *rules;
	int r = text && !policy_is_blank(text) ? parse(text, &json, err) : 0;

	if (r < 0)
		return r;
	list.items = mem_new(1 + json_object_size(json), sizeof(*list.items));
	json_object_foreach(json, tenant, rules)
	{
		r = add_tenant(tenant, rules, &list.items[list.n++], err);
		if (r < 0) {
			policy_egress_fini(&list);
			return r;
		}
	}
	*ret = list;
	return 0;
}

/* ---- Limits ---- */

static int set_field(const char *tenant, const char *field, const json_t *value,
		     struct tenant_limits *limits, struct err *err)
{
	char shown[64], name[64];

	variable_show(tenant, name, sizeof(name));
	for (size_t i = 0; i < tenant_limit_n_fields; i++) {
		if (strcmp(tenant_limit_fields[i].name, field) != 0)
			continue;
		/* A boolean or a string that looks like a number is a mistake, too. */
		json_int_t number = json_is_integer(value) ? json_integer_value(value) : 0;
		if (number < 1 || number > LIMIT_HIGHEST)
			return err_set(err, EINVAL,
				       "%s of '%s' must be a whole number from 1 to %d", field,
				       name, LIMIT_HIGHEST);
		uint32_t exact = (uint32_t)number;
		memcpy((char *)limits + tenant_limit_fields[i].offset, &exact, sizeof(exact));
		return 0;
	}
	return err_set(err, EINVAL,
		       "'%s' of '%s' is no limit; there are max_sessions, "
		       "requests_per_minute, max_concurrent_exec, max_persistent, max_snapshots, "
		       "max_snapshot_mb, max_previews",
		       variable_show(field, shown, sizeof(shown)), name);
}

static int set_entry(const char *tenant, json_t *entry, struct tenant_limits *limits,
		     struct err *err)
{
	const char *field;
	char name[64];
	json_t *value;

	if (!json_is_object(entry))
		return err_set(err, EINVAL, "the entry of '%s' must be an object of limits",
			       variable_show(tenant, name, sizeof(name)));
	json_object_foreach(entry, field, value)
	{
		int r = set_field(tenant, field, value, limits, err);
		if (r < 0)
			return r;
	}
	return 0;
}

void policy_limits_fini(struct policy_limits_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->items[i].tenant);
	free(list->items);
	*list = (struct policy_limits_list){ 0 };
}

static int fill(json_t *json, struct policy_limits_list *list, struct err *err)
{
	json_t *entry = json_object_get(json, "*");
	const char *tenant;
	int r = entry ? set_entry("*", entry, &list->items[0].limits, err) : 0;

	json_object_foreach(json, tenant, entry)
	{
		if (r < 0)
			return r;
		if (strcmp(tenant, "*") == 0)
			continue;
		struct policy_limits *item = &list->items[list->n++];
		item->tenant = mem_dup(tenant);
		item->limits = list->items[0].limits;
		r = set_entry(tenant, entry, &item->limits, err);
	}
	return r;
}

int policy_parse_limits(const char *text, struct policy_limits_list *ret, struct err *err)
{
	_cleanup_json_ json_t *json = NULL;
	struct policy_limits_list list = { 0 };

	if (text && parse(text, &json, err) < 0)
		return -err->code;
	list.items = mem_new(1 + (json ? json_object_size(json) : 0), sizeof(*list.items));
	list.items[0].limits = TENANT_LIMITS_DEFAULT;
	list.n = 1;
	if (json && fill(json, &list, err) < 0) {
		policy_limits_fini(&list);
		return -err->code;
	}
	*ret = list;
	return 0;
}

/* ---- Files ---- */

/* The text; owned by the caller. */
static int read_text(int fd, char **ret, struct err *err)
{
	_cleanup_buf_ struct buf text = BUF(POLICY_FILE_MAX + 1);
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0)
		return err_errno(err, "looking at it");
	if (!S_ISREG(st.st_mode))
		return err_set(err, EINVAL, "is not a regular file");
	char *room = buf_reserve(&text, POLICY_FILE_MAX + 1);
	do {
		n = pread(fd, room + text.len, POLICY_FILE_MAX + 1 - text.len, (off_t)text.len);
		if (n > 0)
			text.len += (size_t)n;
	} while (n > 0 || (n < 0 && errno == EINTR));
	if (n < 0)
		return err_errno(err, "reading it");
	if (text.len > POLICY_FILE_MAX)
		return err_set(err, EFBIG, "is larger than %u bytes", POLICY_FILE_MAX);
	if (memchr(room, 0, text.len))
		return err_set(err, EINVAL, "has a NUL in it");
	*ret = mem_dup_n(room, text.len);
	return 0;
}

int policy_read_egress(int fd, struct policy_egress_list *ret, struct err *err)
{
	_cleanup_free_ char *json = NULL;
	int r = read_text(fd, &json, err);

	return r < 0 ? r : policy_parse_egress(json, ret, err);
}

int policy_read_limits(int fd, struct policy_limits_list *ret, struct err *err)
{
	_cleanup_free_ char *json = NULL;
	int r = read_text(fd, &json, err);

	return r < 0 ? r : policy_parse_limits(policy_is_blank(json) ? NULL : json, ret, err);
}
