// SPDX-License-Identifier: Apache-2.0
#include "daemon/variable.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "daemon/address.h"

#define SHOWN 60u

/* ---- Checks of single texts ---- */

static int check_store(const char *value, struct err *err)
{
	if (strcmp(value, "sqlite") == 0 || (strncmp(value, "sqlite:", 7) == 0 && value[7] != '\0'))
		return 0;
	return err_set(err, EINVAL, "use sqlite:<path>");
}

static int check_absolute_path(const char *value, struct err *err)
{
	char shown[64];

	if (value[0] == '/' && strlen(value) < 4096)
		return 0;
	return err_set(err, EINVAL, "'%s' is not an absolute path",
		       variable_show(value, shown, sizeof(shown)));
}

static int check_runtime(const char *value, struct err *err)
{
	char shown[64];

	if (strcmp(value, "native") == 0)
		return 0;
	if (strncmp(value, "oci:", 4) == 0)
		return err_set(err, EINVAL, "this version runs 'native' only and cannot use '%s'",
			       variable_show(value, shown, sizeof(shown)));
	return err_set(err, EINVAL, "'%s' is not native or oci:<path of the runtime>",
		       variable_show(value, shown, sizeof(shown)));
}

/* The key itself, or the file that holds it. */
static int check_private_key(const char *value, struct err *err)
{
	if (strncmp(value, "-----BEGIN ", 11) == 0)
		return 0;
	if (value[0] == '/')
		return access(value, R_OK) < 0 ? err_errno(err, "the key's file") : 0;
	return err_set(err, EINVAL, "is neither a key in PEM form nor the path of one");
}

/* ---- The table ---- */

#define SETTING(field) (1 + offsetof(struct config_settings, field))
#define NUMBER(low, high, field) \
	.kind = VARIABLE_NUMBER, .min = (low), .max = (high), .setting = SETTING(field)
#define RANGE(low, high) .kind = VARIABLE_NUMBER, .min = (low), .max = (high)
#define CHOICE(...) \
	.kind = VARIABLE_CHOICE, .choices = (const char *const[]) \
	{ \
		__VA_ARGS__, NULL \
	}

/* In the order of the contract. */
const struct variable variables[] = {
	{ "SANDBOX_API_KEYS", .secret = true },
	{ "SANDBOX_API_KEY", .secret = true },
	{ "SANDBOX_KEYSTORE", .check = check_store },
	{ "SANDBOX_ADMIN_KEY", .secret = true },
	{ "SANDBOX_TENANT_LIMITS" },
	{ "SANDBOX_TENANT_LIMITS_FILE" },
	{ "SANDBOX_EGRESS_POLICY" },
	{ "SANDBOX_EGRESS_POLICY_FILE" },
	{ "SANDBOX_EGRESS_LOG_DIR", .check = check_absolute_path },
	{ "SANDBOX_EGRESS_LOG_DAYS", NUMBER(1, 3650, launcher.egress_log_days) },
	{ "SANDBOX_EGRESS_DNS", .check = address_check_list },
	{ "SANDBOX_SESSION_TTL", NUMBER(1, 604800, session_ttl_s) },
	{ "SANDBOX_SESSION_STATE" },
	{ "SANDBOX_STOP_SECONDS", NUMBER(0, 3600, launcher.stop_s) },
	{ "SANDBOX_STATE_DIR", .check = check_absolute_path },
	{ "SANDBOX_VOLUMES", CHOICE("auto", "btrfs", "plain") },
	{ "SANDBOX_VOLUME_SIZE_MB", NUMBER(256, 1u << 30, launcher.volume_size_mb) },
	{ "SANDBOX_VOLUME_OVERCOMMIT", NUMBER(1, 1000, volume_overcommit) },
	{ "SANDBOX_ALLOW_PLAIN_HTTP", VARIABLE_FLAG },
	{ "SANDBOX_AUDIT_STRICT", VARIABLE_FLAG },
	{ "SANDBOX_WORKSPACE_QUOTA_MB", NUMBER(1, 1048576, quota_mb) },
	{ "SANDBOX_MAX_SESSIONS", NUMBER(1, 100000, max_sessions) },
	{ "SANDBOX_POOL", NUMBER(0, 256, pool) },
	{ "SANDBOX_MODE", CHOICE("multi", "single") },
	{ "SANDBOX_RUNTIME", .check = check_runtime },
	{ "SANDBOX_REQUIRE_GVISOR", VARIABLE_FLAG },
	{ "SANDBOX_TEMPLATES" },
	{ "SANDBOX_MEMORY_MB", NUMBER(32, 1048576, launcher.memory_mb) },
	{ "SANDBOX_CPUS", .kind = VARIABLE_MILLI, .min = 100, .max = 256000,
	  .setting = SETTING(launcher.cpu_milli) },
	{ "SANDBOX_PIDS", NUMBER(16, 32768, launcher.pids) },
	{ "SANDBOX_TMP_MB", NUMBER(1, 65536, launcher.tmp_mb) },
	{ "SANDBOX_MAX_OUTPUT_MB", NUMBER(1, 256, max_output_mb) },
	{ "SANDBOX_WRITE_MAX_MB", NUMBER(1, 65536, write_max_mb) },
	{ "SANDBOX_UPLOAD_MAX_MB", NUMBER(1, 65536, upload_max_mb) },
	{ "SANDBOX_DOWNLOAD_MAX_MB", NUMBER(1, 65536, download_max_mb) },
	{ "SANDBOX_IMPORT_MAX_MB", NUMBER(1, 65536, import_max_mb) },
	{ "SANDBOX_GITHUB_BASE", .check = address_check_import_base },
	{ "SANDBOX_SNAPSHOTS", CHOICE("on", "1", "true", "yes", "off", "0", "false", "no") },
	{ "SANDBOX_SNAPSHOT_RETENTION_DAYS", NUMBER(0, 3650, snapshot_days) },
	{ "SANDBOX_PREVIEW_DOMAIN", .check = address_check_domain, .later = true },
	{ "SANDBOX_PREVIEW_SCHEME", CHOICE("https", "http"), .later = true },
	{ "SANDBOX_AUDIT", .check = check_store },
	{ "SANDBOX_AUDIT_RETENTION_DAYS", NUMBER(1, 3650, audit_days) },
	{ "SANDBOX_ACCOUNTS", .check = check_store, .later = true },
	{ "SANDBOX_CONSOLE_BASE_URL", .check = address_check_url, .later = true },
	{ "SANDBOX_CONSOLE_SECRET", .secret = true, .later = true },
	{ "SANDBOX_GITHUB_CLIENT_ID", .later = true },
	{ "SANDBOX_GITHUB_CLIENT_SECRET", .secret = true, .later = true },
	{ "SANDBOX_CONSOLE_KEY_LOGIN", VARIABLE_FLAG, .later = true },
	{ "SANDBOX_CONSOLE_ADMINS", .later = true },
	{ "SANDBOX_CONSOLE_SIGNUP", CHOICE("invite", "open"), .later = true },
	{ "SANDBOX_CONSOLE_CONTACT", .later = true },
	{ "SANDBOX_GITHUB_APP_ID", .later = true },
	{ "SANDBOX_GITHUB_APP_SLUG", .later = true },
	{ "SANDBOX_GITHUB_APP_CLIENT_ID", .later = true },
	{ "SANDBOX_GITHUB_APP_CLIENT_SECRET", .secret = true, .later = true },
	{ "SANDBOX_GITHUB_APP_PRIVATE_KEY", .check = check_private_key, .secret = true,
	  .later = true },
	{ "SANDBOX_LISTEN", .check = address_check_listen },
	{ "SANDBOX_METRICS_LISTEN", .check = address_check_tcp },
	{ "SANDBOX_PUBLIC_URL", .check = address_check_url, .later = true },
	{ "SANDBOX_ALLOWED_ORIGINS", .check = address_check_origins, .later = true },
	{ "SANDBOX_TRUSTED_PROXIES", .check = address_check_ranges },
	{ "SANDBOX_MAX_CONNECTIONS", NUMBER(16, 1000000, max_connections) },
	{ "SANDBOX_LOG_LEVEL", CHOICE("error", "warn", "info", "debug") },
	{ "SANDBOX_API_URL", VARIABLE_CLIENT },
	{ "SANDBOX_API_INSECURE", VARIABLE_CLIENT },
	{ "SANDBOX_API_CA", VARIABLE_CLIENT },
	/* Not the operator's to set: `airlock serve` tells airlockd which templates were imported,
	 * what was in the files of the policy and the limits, and of --accept-lost. */
	{ "SANDBOX_IMPORTED", .internal = true },
	{ "SANDBOX_EGRESS_POLICY_READ", .internal = true },
	{ "SANDBOX_TENANT_LIMITS_READ", .internal = true },
	{ "SANDBOX_ACCEPT_LOST", VARIABLE_FLAG, .internal = true },
};

const size_t n_variables = ARRAY_SIZE(variables);

int variable_find(struct str name)
{
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		if (str_eq(str_of(variables[i].name), name))
			return (int)i;
	}
	return -1;
}

size_t variable_index(const char *name)
{
	int i = variable_find(str_of(name));

	assert(i >= 0);
	return (size_t)i;
}

const char *variable_show(const char *value, char *buf, size_t len)
{
	/* A URL may carry a password. */
	if (strchr(value, '@'))
		value = "(hidden)";
	size_t n = strlen(value), shown = n > SHOWN ? SHOWN - 3 : n;

	assert(len > SHOWN);
	for (size_t i = 0; i < shown; i++) {
		unsigned char c = (unsigned char)value[i];
		buf[i] = c < ' ' || c >= 0x7f ? '?' : (char)c;
	}
	snprintf(buf + shown, len - shown, "%s", n > SHOWN ? "..." : "");
	return buf;
}

/* ---- Checking ---- */

static int check_number(const struct variable *v, const char *value, uint64_t *ret, struct err *err)
{
	char shown[64];

	if (num_parse(str_of(value), v->min, v->max, ret))
		return 0;
	return err_set(err, EINVAL, "'%s' is not a whole number from %llu to %llu",
		       variable_show(value, shown, sizeof(shown)), (unsigned long long)v->min,
		       (unsigned long long)v->max);
}

static int check_milli(const struct variable *v, const char *value, uint64_t *ret, struct err *err)
{
	char shown[64];

	if (num_parse_milli(str_of(value), v->min, v->max, ret))
		return 0;
	return err_set(err, EINVAL,
		       "'%s' is not a number from %g to %g with at most three decimals",
		       variable_show(value, shown, sizeof(shown)), (double)v->min / 1000,
		       (double)v->max / 1000);
}

static int check_flag(const char *value, uint64_t *ret, struct err *err)
{
	static const struct {
		const char *word;
		bool on;
	} words[] = {
		{ "1", true },	{ "true", true },   { "yes", true },
		{ "0", false }, { "false", false }, { "no", false },
	};
	char shown[64];

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strcmp(words[i].word, value) == 0) {
			*ret = words[i].on;
			return 0;
		}
	}
	return err_set(err, EINVAL, "'%s' is not one of 1, true, yes, 0, false, no",
		       variable_show(value, shown, sizeof(shown)));
}

static int check_choice(const struct variable *v, const char *value, uint64_t *ret, struct err *err)
{
	char shown[64], list[128] = "";

	for (size_t i = 0; v->choices[i]; i++) {
		size_t n = strlen(list);
		if (strcmp(v->choices[i], value) == 0) {
			*ret = i;
			return 0;
		}
		snprintf(list + n, sizeof(list) - n, "%s%s", i ? ", " : "", v->choices[i]);
	}
	return err_set(err, EINVAL, "'%s' is not one of %s",
		       variable_show(value, shown, sizeof(shown)), list);
}

int variable_check(const struct variable *v, const char *value, uint64_t *ret_number,
		   struct err *err)
{
	uint64_t ignored, *ret = ret_number ? ret_number : &ignored;

	switch (v->kind) {
	case VARIABLE_NUMBER:
		return check_number(v, value, ret, err);
	case VARIABLE_MILLI:
		return check_milli(v, value, ret, err);
	case VARIABLE_FLAG:
		return check_flag(value, ret, err);
	case VARIABLE_CHOICE:
		return check_choice(v, value, ret, err);
	case VARIABLE_TEXT:
		return v->check ? v->check(value, err) : 0;
	case VARIABLE_CLIENT:
		return 0;
	}
	return 0;
}
