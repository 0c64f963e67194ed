// SPDX-License-Identifier: Apache-2.0
/*
 * Checking: each value by the table of variables, then what takes more than one value or a file.
 * Every step fills its part of the settings.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "daemon/address.h"
#include "daemon/config-parts.h"

#define ADMIN_KEY_MIN 32u
#define DESCRIPTORS_BESIDE 256u /* what is open beside client connections, at least */

#define DEFAULTS \
	((struct config_settings){ \
		.launcher = { .state_dir = "/var/lib/airlock", \
			      .listen = "127.0.0.1:8000", \
			      .volumes = "auto", \
			      .mode = "multi", \
			      .memory_mb = 256, \
			      .pids = 64, \
			      .cpu_milli = 1000, \
			      .tmp_mb = 64, \
			      .egress_log_days = 30 }, \
		.session_ttl_s = 1800, \
		.quota_mb = 512, \
		.volume_overcommit = 2, \
		.snapshot_days = 30, \
		.audit_days = 90, \
		.max_sessions = 100, \
		.pool = 4, \
		.max_output_mb = 16, \
		.write_max_mb = 64, \
		.upload_max_mb = 50, \
		.download_max_mb = 512, \
		.import_max_mb = 100, \
		.max_connections = 4096, \
		.trusted_proxies = "127.0.0.1,::1", \
		.runtime = "native", \
		.log_level = LOG_INFO, \
	})

static const char default_import_base[] = "https://github.com";
static const char default_templates[] = "sandbox-base:latest,python:3.11-slim";

static int named(const char *name, struct err *err)
{
	return err_wrap(err, "%s", name);
}

static bool is_on(const struct config *c, const char *name)
{
	const char *value = config_value(c, name);
	struct err ignored;
	uint64_t on = 0;

	return value &&
	       variable_check(&variables[variable_index(name)], value, &on, &ignored) >= 0 && on;
}

/* The contract says "off" of this one alone. */
static bool has_snapshots(const struct config *c)
{
	static const char *const offs[] = { "off", "0", "false", "no" };
	const char *value = config_value(c, "SANDBOX_SNAPSHOTS");

	for (size_t i = 0; value && i < ARRAY_SIZE(offs); i++) {
		if (strcmp(value, offs[i]) == 0)
			return false;
	}
	return true;
}

/* ---- One by one ---- */

static bool may_have_lines(const char *name)
{
	static const char *const names[] = { "SANDBOX_TENANT_LIMITS", "SANDBOX_EGRESS_POLICY",
					     "SANDBOX_GITHUB_APP_PRIVATE_KEY" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(names[i], name) == 0)
			return true;
	}
	return false;
}

static int check_values(struct config *c, struct err *err)
{
	for (size_t i = 0; i < n_variables; i++) {
		const struct variable *v = &variables[i];
		uint64_t number = 0;
		if (!c->values[i])
			continue;
		if (strpbrk(c->values[i], "\r\n") && !may_have_lines(v->name)) {
			err_set(err, EINVAL, "must be one line");
			return named(v->name, err);
		}
		if (variable_check(v, c->values[i], &number, err) < 0)
			return named(v->name, err);
		if (v->setting)
			memcpy((char *)&c->settings + v->setting - 1, &number, sizeof(number));
	}
	return 0;
}

static void take_texts(struct config *c)
{
	const struct {
		const char *name;
		const char **setting;
	} texts[] = {
		{ "SANDBOX_STATE_DIR", &c->settings.launcher.state_dir },
		{ "SANDBOX_LISTEN", &c->settings.launcher.listen },
		{ "SANDBOX_VOLUMES", &c->settings.launcher.volumes },
		{ "SANDBOX_MODE", &c->settings.launcher.mode },
		{ "SANDBOX_EGRESS_LOG_DIR", &c->settings.launcher.egress_log_dir },
		{ "SANDBOX_EGRESS_DNS", &c->settings.launcher.egress_dns },
		{ "SANDBOX_TRUSTED_PROXIES", &c->settings.trusted_proxies },
		{ "SANDBOX_RUNTIME", &c->settings.runtime },
		{ "SANDBOX_PREVIEW_DOMAIN", &c->settings.preview_domain },
		{ "SANDBOX_IMPORTED", &c->settings.imported },
	};
	static const char *const levels[] = { "error", "warn", "info", "debug" };
	const char *level = config_value(c, "SANDBOX_LOG_LEVEL");
	const char *state = config_value(c, "SANDBOX_SESSION_STATE");

	c->settings.snapshots = has_snapshots(c);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const char *value = config_value(c, texts[i].name);
		if (value)
			*texts[i].setting = value;
	}
	for (size_t i = 0; level && i < ARRAY_SIZE(levels); i++) {
		if (strcmp(levels[i], level) == 0)
			c->settings.log_level = (enum log_level)i;
	}
	c->settings.single = strcmp(c->settings.launcher.mode, "single") == 0;
	c->settings.egress_fixed = config_value(c, "SANDBOX_EGRESS_POLICY") != NULL;
	c->settings.limits_fixed = config_value(c, "SANDBOX_TENANT_LIMITS") != NULL;
	if (!c->settings.limits_fixed)
		c->settings.launcher.tenant_limits_file =
			config_value(c, "SANDBOX_TENANT_LIMITS_FILE");
	c->settings.ephemeral = state && strcmp(state, "off") == 0;
}

/* ---- Keys ---- */

static bool is_tenant_name(struct str name)
{
	if (!name.len || name.len > LIMIT_TENANT_NAME)
		return false;
	for (size_t i = 0; i < name.len; i++) {
		char ch = name.data[i];
		bool word = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
			    (ch >= '0' && ch <= '9');
		if (!word && (i == 0 || !strchr("._-", ch)))
			return false;
	}
	return true;
}

/* A key that no header can carry could never be used. */
static bool is_sendable(struct str key)
{
	for (size_t i = 0; i < key.len; i++) {
		if ((unsigned char)key.data[i] < ' ' || (unsigned char)key.data[i] >= 0x7f)
			return false;
	}
	return key.len <= LIMIT_KEY;
}

static int add_key(struct config *c, struct str tenant, struct str key, struct err *err)
{
	for (size_t i = 0; i < c->n_keys; i++) {
		if (str_eq(str_of(c->keys[i].key), key))
			return err_set(err, EINVAL, "the same key is given twice");
	}
	c->keys = mem_grow(c->keys, c->n_keys + 1, sizeof(*c->keys));
	c->keys[c->n_keys++] = (struct config_key){ mem_dup_n(tenant.data, tenant.len),
						    mem_dup_n(key.data, key.len) };
	return 0;
}

static int add_entry(struct config *c, struct str entry, unsigned n, struct err *err)
{
	const char *colon = memchr(entry.data, ':', entry.len);
	struct str tenant = entry, key = { NULL, 0 };
	char shown[64];

	if (colon) {
		tenant = str_trim((struct str){ entry.data, (size_t)(colon - entry.data) });
		key = str_trim(str_from(entry, (size_t)(colon - entry.data) + 1));
	}
	if (!tenant.len || !key.len)
		return err_set(err, EINVAL, "entry %u lacks a tenant or a key", n);
	if (!is_tenant_name(tenant)) {
		_cleanup_free_ char *text = mem_dup_n(tenant.data, tenant.len);
		return err_set(
			err, EINVAL,
			"entry %u: '%s' is not a tenant name (letters, digits, '.', '_', '-'; "
			"at most 63, the first a letter or digit)",
			n, variable_show(text, shown, sizeof(shown)));
	}
	if (!is_sendable(key))
		return err_set(err, EINVAL,
			       "entry %u: the key must be at most 512 printable ASCII characters",
			       n);
	return add_key(c, tenant, key, err);
}

static int check_keys(struct config *c, struct err *err)
{
	const char *many = config_value(c, "SANDBOX_API_KEYS");
	const char *one = config_value(c, "SANDBOX_API_KEY");
	struct str rest = str_of(many), entry;

	for (unsigned n = 1; many && str_split(&rest, ',', &entry); n++) {
		entry = str_trim(entry);
		if (entry.len && add_entry(c, entry, n, err) < 0)
			return named("SANDBOX_API_KEYS", err);
	}
	if (one && !is_sendable(str_of(one))) {
		err_set(err, EINVAL, "must be at most 512 printable ASCII characters");
		return named("SANDBOX_API_KEY", err);
	}
	if (one && add_key(c, STR("default"), str_of(one), err) < 0)
		return named("SANDBOX_API_KEY", err);
	c->settings.key_store = config_value(c, "SANDBOX_KEYSTORE");
	c->settings.audit_store = config_value(c, "SANDBOX_AUDIT");
	c->settings.accept_lost = is_on(c, "SANDBOX_ACCEPT_LOST");
	c->settings.audit_strict = is_on(c, "SANDBOX_AUDIT_STRICT");
	if (!c->n_keys && !c->settings.key_store) {
		err_set(err, EINVAL, "set SANDBOX_API_KEYS, SANDBOX_API_KEY or SANDBOX_KEYSTORE");
		return named("SANDBOX_API_KEYS", err);
	}
	return 0;
}

static int check_admin_key(struct config *c, struct err *err)
{
	const char *admin = config_value(c, "SANDBOX_ADMIN_KEY");
	bool same = false;

	c->settings.admin_key = admin;
	if (!admin)
		return 0;
	for (size_t i = 0; i < c->n_keys; i++)
		same |= strcmp(c->keys[i].key, admin) == 0;
	if (strlen(admin) < ADMIN_KEY_MIN)
		err_set(err, EINVAL, "must have at least %u characters", ADMIN_KEY_MIN);
	else if (!is_sendable(str_of(admin)))
		err_set(err, EINVAL, "must be at most 512 printable ASCII characters");
	else if (same)
		err_set(err, EINVAL, "is also a static key; an admin key must be nothing else");
	else
		return 0;
	return named("SANDBOX_ADMIN_KEY", err);
}

/* ---- Files ---- */

/* The text of a variable, or of the file that its second form names; NULL: neither is set. */
static int text_or_file(struct config *c, const char *variable, const char *file_variable,
			struct buf *text, const char **ret, const char **ret_named, struct err *err)
{
	const char *value = config_value(c, variable), *path = config_value(c, file_variable);
	char shown[64];

	*ret = value;
	*ret_named = variable;
	if (value || !path)
		return 0;
	*ret_named = file_variable;
	_cleanup_fd_ int fd = -1;
	if (config_open_file(path, &fd, err) >= 0 && config_read_file(fd, text, err) >= 0) {
		*ret = text->data;
		return 0;
	}
	err_wrap(err, "'%s'", variable_show(path, shown, sizeof(shown)));
	return named(file_variable, err);
}

struct text_names {
	const char *value, *file, *read;
};

/* airlockd takes the text that `airlock serve` has read: a start after a crash must not fail
 * because the file has become a bad one meanwhile. */
static int text_or_read(struct config *c, const struct text_names *names, struct buf *text,
			const char **ret, const char **ret_named, struct err *err)
{
	const char *read = config_value(c, names->read);

	if (!read || config_value(c, names->value))
		return text_or_file(c, names->value, names->file, text, ret, ret_named, err);
	*ret = read;
	*ret_named = names->file;
	return 0;
}

static int check_limits(struct config *c, struct err *err)
{
	static const struct text_names names = { "SANDBOX_TENANT_LIMITS",
						 "SANDBOX_TENANT_LIMITS_FILE",
						 "SANDBOX_TENANT_LIMITS_READ" };
	_cleanup_buf_ struct buf text = BUF(CONFIG_FILE_MAX);
	const char *json, *name;

	if (text_or_read(c, &names, &text, &json, &name, err) < 0)
		return -err->code;
	if (policy_parse_limits(json && policy_is_blank(json) ? NULL : json, &c->limits, err) < 0)
		return named(name, err);
	if (json && json == text.data)
		c->limits_text = policy_is_blank(json) ? mem_dup("{}") : take_ptr(text.data);
	return 0;
}

static int check_egress(struct config *c, struct err *err)
{
	static const struct text_names names = { "SANDBOX_EGRESS_POLICY",
						 "SANDBOX_EGRESS_POLICY_FILE",
						 "SANDBOX_EGRESS_POLICY_READ" };
	_cleanup_buf_ struct buf text = BUF(POLICY_FILE_MAX);
	const char *json, *name;

	if (text_or_read(c, &names, &text, &json, &name, err) < 0)
		return -err->code;
	if (policy_parse_egress(json, &c->egress, err) < 0)
		return named(name, err);
	if (json && json == text.data)
		c->egress_text = policy_is_blank(json) ? mem_dup("{}") : take_ptr(text.data);
	if (!config_value(c, "SANDBOX_EGRESS_POLICY"))
		c->settings.launcher.egress_policy_file =
			config_value(c, "SANDBOX_EGRESS_POLICY_FILE");
	/* A file may be empty now and read again later. */
	c->settings.launcher.egress = c->egress.n > 0 || c->settings.launcher.egress_policy_file;
	return 0;
}

/* ---- Templates ---- */

static bool is_image_name(struct str name)
{
	for (size_t i = 0; i < name.len; i++) {
		char ch = name.data[i];
		bool word = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
			    (ch >= '0' && ch <= '9');
		if (!word && (i == 0 || !strchr("._:-", ch)))
			return false;
	}
	/* What the launcher can name, with its NUL. */
	return name.len > 0 && name.len < 64;
}

static int check_templates(struct config *c, struct err *err)
{
	const char *value = config_value(c, "SANDBOX_TEMPLATES");
	char shown[64];

	c->templates_text = mem_dup(value ? value : default_templates);
	for (char *at = c->templates_text, *next; at; at = next) {
		next = strchr(at, ',');
		if (next)
			*next++ = '\0';
		struct str name = str_trim(str_of(at));
		if (!name.len)
			continue;
		char *own = at + (name.data - at);
		own[name.len] = '\0';
		if (!is_image_name(name) || c->settings.n_templates == CONFIG_TEMPLATES_MAX) {
			err_set(err, EINVAL,
				"'%s' is not an image name (letters, digits, '.', '_', ':', '-'; "
				"at most 63; at most %u names)",
				variable_show(own, shown, sizeof(shown)), CONFIG_TEMPLATES_MAX);
			return named("SANDBOX_TEMPLATES", err);
		}
		c->templates[c->settings.n_templates++] = own;
	}
	if (!c->settings.n_templates) {
		err_set(err, EINVAL, "names no template");
		return named("SANDBOX_TEMPLATES", err);
	}
	c->settings.templates = c->templates;
	return 0;
}

/* ---- Imports ---- */

static int check_import(struct config *c, struct err *err)
{
	const char *given = config_value(c, "SANDBOX_GITHUB_BASE");
	char *base = c->import_base = mem_dup(given ? given : default_import_base);
	size_t len = strlen(base);

	while (base[len - 1] == '/')
		base[--len] = '\0';
	struct str host = address_host_of_url(base);
	c->import_host = mem_dup_n(host.data, host.len);
	c->settings.import_base = c->import_base;
	c->settings.import_host = c->import_host;
	c->settings.launcher.import_base = given ? c->import_base : NULL;
	return 0;
}

/* ---- What takes more than one value ---- */

static int check_listen(struct config *c, struct err *err)
{
	struct config_listen l;

	if (c->settings.single || is_on(c, "SANDBOX_ALLOW_PLAIN_HTTP") ||
	    !config_parse_listen(c->settings.launcher.listen, &l) || config_listen_is_local(&l))
		return 0;
	err_set(err, EINVAL,
		"keys would travel in clear; put a TLS proxy in front or set "
		"SANDBOX_ALLOW_PLAIN_HTTP=1");
	return named("SANDBOX_LISTEN", err);
}

static int check_host(struct config *c, struct err *err)
{
	struct rlimit limit;

	if (!c->settings.single && strcmp(c->settings.launcher.volumes, "plain") == 0) {
		err_set(err, EINVAL,
			"plain folders have no hard quota, so many tenants cannot share them; use "
			"btrfs, or SANDBOX_MODE=single");
		return named("SANDBOX_VOLUMES", err);
	}
	if (is_on(c, "SANDBOX_REQUIRE_GVISOR")) {
		err_set(err, EINVAL, "is set and the runtime is '%s', not runsc",
			c->settings.runtime);
		return named("SANDBOX_REQUIRE_GVISOR", err);
	}
	if (config_value(c, "SANDBOX_MAX_CONNECTIONS") && getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
	    c->settings.max_connections + DESCRIPTORS_BESIDE > limit.rlim_max) {
		err_set(err, EINVAL,
			"%llu connections are more than the descriptor limit of %llu "
			"allows",
			(unsigned long long)c->settings.max_connections,
			(unsigned long long)limit.rlim_max);
		return named("SANDBOX_MAX_CONNECTIONS", err);
	}
	return 0;
}

/* One variable of a group without the others. */
static int check_together(struct config *c, const char *const *names, struct err *err)
{
	const char *set = NULL, *unset = NULL;

	for (; *names; names++) {
		if (config_value(c, *names))
			set = *names;
		else
			unset = *names;
	}
	if (!set || !unset)
		return 0;
	err_set(err, EINVAL, "is set without %s", unset);
	return named(set, err);
}

static int check_groups(struct config *c, struct err *err)
{
	static const char *const groups[][6] = {
		{ "SANDBOX_CONSOLE_BASE_URL", "SANDBOX_CONSOLE_SECRET" },
		{ "SANDBOX_GITHUB_CLIENT_ID", "SANDBOX_GITHUB_CLIENT_SECRET" },
		{ "SANDBOX_GITHUB_APP_ID", "SANDBOX_GITHUB_APP_SLUG",
		  "SANDBOX_GITHUB_APP_CLIENT_ID", "SANDBOX_GITHUB_APP_CLIENT_SECRET",
		  "SANDBOX_GITHUB_APP_PRIVATE_KEY" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
		if (check_together(c, groups[i], err) < 0)
			return -err->code;
	}
	return 0;
}

static int check_console(struct config *c, struct err *err)
{
	const char *secret = config_value(c, "SANDBOX_CONSOLE_SECRET");
	bool key_login = is_on(c, "SANDBOX_CONSOLE_KEY_LOGIN");

	if (!secret) {
		if (!key_login)
			return 0;
		err_set(err, EINVAL, "is set without SANDBOX_CONSOLE_BASE_URL");
		return named("SANDBOX_CONSOLE_KEY_LOGIN", err);
	}
	if (strlen(secret) < ADMIN_KEY_MIN) {
		err_set(err, EINVAL, "must have at least %u characters", ADMIN_KEY_MIN);
		return named("SANDBOX_CONSOLE_SECRET", err);
	}
	if (!config_value(c, "SANDBOX_KEYSTORE") || !config_value(c, "SANDBOX_ACCOUNTS"))
		err_set(err, EINVAL, "the console needs SANDBOX_KEYSTORE and SANDBOX_ACCOUNTS");
	else if (!key_login && !config_value(c, "SANDBOX_GITHUB_CLIENT_ID"))
		err_set(err, EINVAL,
			"the console needs a way to sign in: SANDBOX_GITHUB_CLIENT_ID "
			"with its secret, or SANDBOX_CONSOLE_KEY_LOGIN=1");
	else
		return 0;
	return named("SANDBOX_CONSOLE_BASE_URL", err);
}

static bool lies_in(struct str host, struct str domain)
{
	size_t n = domain.len;

	if (host.len < n || !str_eq_nocase(str_from(host, host.len - n), domain))
		return false;
	return host.len == n || host.data[host.len - n - 1] == '.';
}

/* A preview is a tenant's page: its origin must never be one of ours. */
static int check_preview(struct config *c, struct err *err)
{
	static const char *const ours[] = { "SANDBOX_CONSOLE_BASE_URL", "SANDBOX_PUBLIC_URL" };
	const char *preview = config_value(c, "SANDBOX_PREVIEW_DOMAIN");
	struct str domain = address_without_port(preview);

	for (size_t i = 0; preview && i < ARRAY_SIZE(ours); i++) {
		struct str host = address_host_of_url(config_value(c, ours[i]));
		if (!host.data || !lies_in(host, domain))
			continue;
		err_set(err, EINVAL, "equals or contains the host of %s", ours[i]);
		return named("SANDBOX_PREVIEW_DOMAIN", err);
	}
	return 0;
}

int config_check(struct config *c, struct err *err)
{
	static int (*const checks[])(struct config * c, struct err * err) = {
		check_values, check_keys,      check_admin_key, check_limits,
		check_egress, check_templates, check_import,	check_listen,
		check_host,   check_groups,    check_console,	check_preview,
	};

	c->settings = DEFAULTS;
	take_texts(c);
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		if (checks[i](c, err) < 0)
			return -err->code;
	}
	return 0;
}
