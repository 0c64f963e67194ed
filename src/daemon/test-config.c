// SPDX-License-Identifier: Apache-2.0
#include "daemon/config.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "daemon/policy.h"
#include "daemon/variable.h"

static void config_cleanup(struct config **c)
{
	config_free(*c);
}

#define _cleanup_config_ __attribute__((cleanup(config_cleanup)))

#define KEY "SANDBOX_API_KEYS=a:0123456789abcdef"
#define HEX32 "0123456789abcdef0123456789abcdef"

/* lines separated by ";" */
static struct config *load(const char *lines)
{
	struct config *c = config_new();
	struct err err = { 0 };
	char *environment[16];
	size_t n = 0;
	struct str rest = str_of(lines), part;

	while (str_split(&rest, ';', &part))
		environment[n++] = mem_dup_n(part.data, part.len);
	environment[n] = NULL;
	assert_int_equal(config_load_env(c, environment, &err), 0);
	while (n)
		free(environment[--n]);
	return c;
}

static void each_bad_value_is_refused_with_its_name_and_a_sentence(void **state)
{
	static const struct {
		const char *lines, *text;
	} cases[] = {
		{ "PATH=/bin",
		  "SANDBOX_API_KEYS: set SANDBOX_API_KEYS, SANDBOX_API_KEY or SANDBOX_KEYSTORE" },
		{ "SANDBOX_API_KEYS=a", "SANDBOX_API_KEYS: entry 1 lacks a tenant or a key" },
		{ "SANDBOX_API_KEYS=a:1,:x", "SANDBOX_API_KEYS: entry 2 lacks a tenant or a key" },
		{ "SANDBOX_API_KEYS=a:1,,b: ",
		  "SANDBOX_API_KEYS: entry 3 lacks a tenant or a key" },
		{ "SANDBOX_API_KEYS=a:1,b:1", "SANDBOX_API_KEYS: the same key is given twice" },
		{ "SANDBOX_API_KEYS=a:1;SANDBOX_API_KEY=1",
		  "SANDBOX_API_KEY: the same key is given twice" },
		{ "SANDBOX_API_KEYS=.a:1", "SANDBOX_API_KEYS: entry 1: '.a' is not a tenant name "
					   "(letters, digits, '.', '_', "
					   "'-'; at most 63, the first a letter or digit)" },
		{ "SANDBOX_API_KEYS=a:k\xc3\xbc",
		  "SANDBOX_API_KEYS: entry 1: the key must be at most 512 printable ASCII "
		  "characters" },
		{ "SANDBOX_KEYSTORE=postgres:x", "SANDBOX_KEYSTORE: use sqlite:<path>" },
		{ "SANDBOX_KEYSTORE=sqlite:", "SANDBOX_KEYSTORE: use sqlite:<path>" },
		{ KEY ";SANDBOX_ADMIN_KEY=0123456789012345678901234567890",
		  "SANDBOX_ADMIN_KEY: must have at least 32 characters" },
		{ "SANDBOX_API_KEY=" HEX32 ";SANDBOX_ADMIN_KEY=" HEX32,
		  "SANDBOX_ADMIN_KEY: is also a static key; an admin key must be nothing else" },
		{ KEY ";SANDBOX_SESSION_TTL=0",
		  "SANDBOX_SESSION_TTL: '0' is not a whole number from 1 to 604800" },
		{ KEY ";SANDBOX_SESSION_TTL=604801",
		  "SANDBOX_SESSION_TTL: '604801' is not a whole number from 1 to 604800" },
		{ KEY ";SANDBOX_SESSION_TTL=+5",
		  "SANDBOX_SESSION_TTL: '+5' is not a whole number from 1 to 604800" },
		{ KEY ";SANDBOX_SESSION_TTL=5s",
		  "SANDBOX_SESSION_TTL: '5s' is not a whole number from 1 to 604800" },
		{ KEY ";SANDBOX_CPUS=0.05",
		  "SANDBOX_CPUS: '0.05' is not a number from 0.1 to 256 with at most three "
		  "decimals" },
		{ KEY ";SANDBOX_PIDS=15",
		  "SANDBOX_PIDS: '15' is not a whole number from 16 to 32768" },
		{ KEY ";SANDBOX_MODE=both", "SANDBOX_MODE: 'both' is not one of multi, single" },
		{ KEY ";SANDBOX_VOLUMES=zfs",
		  "SANDBOX_VOLUMES: 'zfs' is not one of auto, btrfs, plain" },
		{ KEY ";SANDBOX_VOLUMES=plain",
		  "SANDBOX_VOLUMES: plain folders have no hard quota, so many tenants cannot share "
		  "them; use btrfs, or SANDBOX_MODE=single" },
		{ KEY ";SANDBOX_ALLOW_PLAIN_HTTP=on",
		  "SANDBOX_ALLOW_PLAIN_HTTP: 'on' is not one of 1, true, yes, 0, false, no" },
		{ KEY ";SANDBOX_SNAPSHOTS=never",
		  "SANDBOX_SNAPSHOTS: 'never' is not one of on, 1, true, yes, off, 0, false, no" },
		{ KEY ";SANDBOX_SNAPSHOT_RETENTION_DAYS=3651",
		  "SANDBOX_SNAPSHOT_RETENTION_DAYS: '3651' is not a whole number from 0 to 3650" },
		{ KEY ";SANDBOX_LISTEN=8000",
		  "SANDBOX_LISTEN: '8000' is not host:port or unix:<absolute path>" },
		{ KEY ";SANDBOX_LISTEN=0.0.0.0:8000",
		  "SANDBOX_LISTEN: keys would travel in clear; put a TLS proxy in front or set "
		  "SANDBOX_ALLOW_PLAIN_HTTP=1" },
		{ KEY ";SANDBOX_LISTEN=[::]:8000",
		  "SANDBOX_LISTEN: keys would travel in clear; put a TLS proxy in front or set "
		  "SANDBOX_ALLOW_PLAIN_HTTP=1" },
		{ KEY ";SANDBOX_STATE_DIR=state",
		  "SANDBOX_STATE_DIR: 'state' is not an absolute path" },
		{ KEY ";SANDBOX_RUNTIME=docker",
		  "SANDBOX_RUNTIME: 'docker' is not native or oci:<path of the runtime>" },
		{ KEY ";SANDBOX_RUNTIME=oci:/usr/bin/runsc",
		  "SANDBOX_RUNTIME: this version runs 'native' only and cannot use "
		  "'oci:/usr/bin/runsc'" },
		{ KEY ";SANDBOX_REQUIRE_GVISOR=1",
		  "SANDBOX_REQUIRE_GVISOR: is set and the runtime is 'native', not runsc" },
		{ KEY ";SANDBOX_TEMPLATES=a/b",
		  "SANDBOX_TEMPLATES: 'a/b' is not an image name (letters, digits, '.', '_', ':', "
		  "'-'; at most 63; at most 64 names)" },
		{ KEY ";SANDBOX_TEMPLATES=, ,", "SANDBOX_TEMPLATES: names no template" },
		{ KEY ";SANDBOX_TRUSTED_PROXIES=10.0.0.0/33",
		  "SANDBOX_TRUSTED_PROXIES: '10.0.0.0/33' is not a comma list of IP addresses and "
		  "ranges like 10.0.0.0/8" },
		{ KEY ";SANDBOX_EGRESS_DNS=localhost",
		  "SANDBOX_EGRESS_DNS: 'localhost' is not a comma list of IP addresses" },
		{ KEY ";SANDBOX_MAX_CONNECTIONS=1000000",
		  "SANDBOX_MAX_CONNECTIONS: 1000000 connections are more than the descriptor "
		  "limit" },
		{ KEY ";SANDBOX_LOG_LEVEL=trace",
		  "SANDBOX_LOG_LEVEL: 'trace' is not one of error, warn, info, debug" },
		{ KEY ";SANDBOX_GITHUB_BASE=https://mirror.example.com/?x",
		  "SANDBOX_GITHUB_BASE: '" },
		{ KEY ";SANDBOX_GITHUB_BASE=https://mirror.example.com/#x",
		  "SANDBOX_GITHUB_BASE: '" },
		{ KEY ";SANDBOX_GITHUB_BASE=https://x@mirror.example.com",
		  "SANDBOX_GITHUB_BASE: '" },
		{ KEY ";SANDBOX_GITHUB_BASE=https://127.1", "SANDBOX_GITHUB_BASE: '" },
		{ KEY ";SANDBOX_GITHUB_BASE=https://0x7f000001", "SANDBOX_GITHUB_BASE: '" },
		{ KEY ";SANDBOX_GITHUB_BASE=https://1.2.3.4.5", "SANDBOX_GITHUB_BASE: '" },
		{ KEY ";SANDBOX_GITHUB_BASE=http://127.0.0.1.example.com",
		  "SANDBOX_GITHUB_BASE: '" },
		{ KEY ";SANDBOX_GITHUB_BASE=github.com", "SANDBOX_GITHUB_BASE: '" },
		{ KEY ";SANDBOX_GITHUB_BASE=https://", "SANDBOX_GITHUB_BASE: '" },
		{ KEY ";SANDBOX_IMPORT_MAX_MB=0",
		  "SANDBOX_IMPORT_MAX_MB: '0' is not a whole number from 1 to 65536" },
		{ KEY ";SANDBOX_IMPORT_MAX_MB=65537", "SANDBOX_IMPORT_MAX_MB: '65537' is not" },
		{ KEY ";SANDBOX_GITHUB_BASE=http://mirror.example.com",
		  "SANDBOX_GITHUB_BASE: 'http://mirror.example.com' is not an absolute https URL "
		  "(http only to a loopback address)" },
		{ KEY ";SANDBOX_PREVIEW_DOMAIN=localhost",
		  "SANDBOX_PREVIEW_DOMAIN: 'localhost' is not a domain of at least two labels, "
		  "with "
		  "an optional :port" },
		{ KEY ";SANDBOX_PREVIEW_DOMAIN=example.com:8443;SANDBOX_PUBLIC_URL="
		      "https://api.example.com",
		  "SANDBOX_PREVIEW_DOMAIN: equals or contains the host of SANDBOX_PUBLIC_URL" },
		{ KEY ";SANDBOX_ALLOWED_ORIGINS=https://a.example.com/x",
		  "SANDBOX_ALLOWED_ORIGINS: 'https://a.example.com/x' is not a comma list of "
		  "origins "
		  "like https://app.example.com" },
		{ KEY ";SANDBOX_PUBLIC_URL=https://user:secret@",
		  "SANDBOX_PUBLIC_URL: '(hidden)' is not an absolute http or https URL" },
		{ KEY ";SANDBOX_METRICS_LISTEN=unix:/x",
		  "SANDBOX_METRICS_LISTEN: 'unix:/x' is not host:port" },
		{ KEY ";SANDBOX_GITHUB_CLIENT_ID=x",
		  "SANDBOX_GITHUB_CLIENT_ID: is set without SANDBOX_GITHUB_CLIENT_SECRET" },
		{ KEY ";SANDBOX_GITHUB_APP_ID=1;SANDBOX_GITHUB_APP_SLUG=x",
		  "SANDBOX_GITHUB_APP_SLUG: is set without SANDBOX_GITHUB_APP_PRIVATE_KEY" },
		{ KEY ";SANDBOX_GITHUB_APP_PRIVATE_KEY=x",
		  "SANDBOX_GITHUB_APP_PRIVATE_KEY: is neither a key in PEM form nor the path of "
		  "one" },
		{ KEY ";SANDBOX_CONSOLE_SECRET=" HEX32,
		  "SANDBOX_CONSOLE_SECRET: is set without SANDBOX_CONSOLE_BASE_URL" },
		{ KEY
		  ";SANDBOX_CONSOLE_BASE_URL=https://x.example.com;SANDBOX_CONSOLE_SECRET=short",
		  "SANDBOX_CONSOLE_SECRET: must have at least 32 characters" },
		{ KEY
		  ";SANDBOX_CONSOLE_BASE_URL=https://x.example.com;SANDBOX_CONSOLE_SECRET=" HEX32,
		  "SANDBOX_CONSOLE_BASE_URL: the console needs SANDBOX_KEYSTORE and "
		  "SANDBOX_ACCOUNTS" },
		{ KEY ";SANDBOX_CONSOLE_KEY_LOGIN=1",
		  "SANDBOX_CONSOLE_KEY_LOGIN: is set without SANDBOX_CONSOLE_BASE_URL" },
		{ KEY ";SANDBOX_CONSOLE_SIGNUP=all",
		  "SANDBOX_CONSOLE_SIGNUP: 'all' is not one of invite, open" },
		{ KEY ";SANDBOX_EGRESS_POLICY={", "SANDBOX_EGRESS_POLICY: is not valid JSON" },
		{ KEY ";SANDBOX_EGRESS_POLICY={\"a\": \"pypi\"}",
		  "SANDBOX_EGRESS_POLICY: the entry of 'a' must be a list of strings" },
		{ KEY ";SANDBOX_EGRESS_POLICY={\"a\": [\"10.0.0.1\"]}",
		  "SANDBOX_EGRESS_POLICY: '10.0.0.1' of 'a' is no host, wildcard or preset" },
		{ KEY ";SANDBOX_EGRESS_POLICY={\"a\": [\"*.com\"]}",
		  "SANDBOX_EGRESS_POLICY: '*.com' of 'a' is no host, wildcard or preset" },
		{ KEY ";SANDBOX_EGRESS_POLICY={\"a\": [], \"a\": []}",
		  "SANDBOX_EGRESS_POLICY: is not valid JSON" },
		{ KEY ";SANDBOX_EGRESS_POLICY_FILE=/nowhere/policy.json",
		  "SANDBOX_EGRESS_POLICY_FILE: '/nowhere/policy.json': cannot be opened: No such "
		  "file or directory" },
		/* The seven refusals of tenant limits. */
		{ KEY ";SANDBOX_TENANT_LIMITS=nonsense",
		  "SANDBOX_TENANT_LIMITS: is not valid JSON" },
		{ KEY ";SANDBOX_TENANT_LIMITS=[]",
		  "SANDBOX_TENANT_LIMITS: must be a JSON object with tenants as names" },
		{ KEY ";SANDBOX_TENANT_LIMITS={\"a\": 3}",
		  "SANDBOX_TENANT_LIMITS: the entry of 'a' must be an object of limits" },
		{ KEY ";SANDBOX_TENANT_LIMITS={\"a\": {\"max_session\": 3}}",
		  "SANDBOX_TENANT_LIMITS: 'max_session' of 'a' is no limit; there are "
		  "max_sessions, "
		  "requests_per_minute, max_concurrent_exec, max_persistent, max_snapshots, "
		  "max_snapshot_mb, max_previews" },
		{ KEY ";SANDBOX_TENANT_LIMITS={\"a\": {\"max_sessions\": 0}}",
		  "SANDBOX_TENANT_LIMITS: max_sessions of 'a' must be a whole number from 1 to "
		  "1000000000" },
		{ KEY ";SANDBOX_TENANT_LIMITS={\"*\": {\"max_sessions\": true}}",
		  "SANDBOX_TENANT_LIMITS: max_sessions of '*' must be a whole number from 1 to "
		  "1000000000" },
		{ KEY ";SANDBOX_TENANT_LIMITS={\"a\": {\"max_sessions\": \"3\"}}",
		  "SANDBOX_TENANT_LIMITS: max_sessions of 'a' must be a whole number from 1 to "
		  "1000000000" },
		{ KEY ";SANDBOX_TENANT_LIMITS={\"a\": {\"max_sessions\": 3.0}}",
		  "SANDBOX_TENANT_LIMITS: max_sessions of 'a' must be a whole number from 1 to "
		  "1000000000" },
		{ KEY ";SANDBOX_TENANT_LIMITS={\"a\": {}, \"a\": {}}",
		  "SANDBOX_TENANT_LIMITS: is not valid JSON" },
		{ KEY ";SANDBOX_TENANT_LIMITS_FILE=/nowhere/limits.json",
		  "SANDBOX_TENANT_LIMITS_FILE: '/nowhere/limits.json': cannot be opened: No such "
		  "file or directory" },
		{ KEY ";SANDBOX_TENANT_LIMITS_FILE=/dev/zero",
		  "SANDBOX_TENANT_LIMITS_FILE: '/dev/zero': is not a regular file" },
		{ KEY ";SANDBOX_STATE_DIR=/a\n/b", "SANDBOX_STATE_DIR: must be one line" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_config_ struct config *c = load(cases[i].lines);
		struct err err = { 0 };
		int r = config_check(c, &err);
		if (r >= 0 || strncmp(err.text, cases[i].text, strlen(cases[i].text)) != 0)
			fail_msg("%s gave '%s'", cases[i].lines, r < 0 ? err.text : "no error");
		assert_null(strchr(err.text, '\n'));
	}
}

static void each_good_value_is_taken(void **state)
{
	static const char *const lines[] = {
		KEY,
		"SANDBOX_API_KEYS= a : k:with:colons ,, b:2 ,",
		"SANDBOX_API_KEY=x",
		"SANDBOX_KEYSTORE=sqlite",
		KEY ";SANDBOX_LISTEN=0.0.0.0:8000;SANDBOX_ALLOW_PLAIN_HTTP=yes",
		KEY ";SANDBOX_LISTEN=0.0.0.0:8000;SANDBOX_MODE=single",
		KEY ";SANDBOX_LISTEN=[::1]:8000",
		KEY ";SANDBOX_LISTEN=localhost:8000",
		KEY ";SANDBOX_LISTEN=127.3.2.1:1",
		KEY ";SANDBOX_LISTEN=unix:/run/airlock.sock",
		KEY ";SANDBOX_MODE=single;SANDBOX_VOLUMES=plain",
		KEY ";SANDBOX_SESSION_TTL=1;SANDBOX_CPUS=0.5;SANDBOX_POOL=0",
		KEY ";SANDBOX_SESSION_TTL=",
		KEY ";SANDBOX_PUBLIC_URL=https://api.example.com:8443/x?y",
		KEY ";SANDBOX_PREVIEW_DOMAIN=preview.example.net;SANDBOX_PUBLIC_URL="
		    "https://api.example.com",
		KEY ";SANDBOX_GITHUB_BASE=http://127.0.0.1:9000",
		KEY ";SANDBOX_EGRESS_POLICY={\"*\": [\"pypi\", \"*.Example.com.\"], \"a\": []}",
		KEY ";SANDBOX_EGRESS_POLICY= \n ",
		KEY ";SANDBOX_TENANT_LIMITS={\n\"a\": {\"max_sessions\": 2}}",
		KEY ";SANDBOX_SESSION_STATE=/var/lib/old.db",
		KEY ";SANDBOX_ADMIN_KEY=" HEX32,
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		_cleanup_config_ struct config *c = load(lines[i]);
		struct err err = { 0 };
		if (config_check(c, &err) < 0)
			fail_msg("%s gave '%s'", lines[i], err.text);
	}
}

static void nothing_set_gives_the_defaults(void **state)
{
	_cleanup_config_ struct config *c = load(KEY);
	struct err err;

	assert_int_equal(config_check(c, &err), 0);
	const struct config_settings *s = config_settings(c);
	assert_string_equal(s->launcher.state_dir, "/var/lib/airlock");
	assert_string_equal(s->launcher.listen, "127.0.0.1:8000");
	assert_string_equal(s->launcher.volumes, "auto");
	assert_string_equal(s->launcher.mode, "multi");
	assert_int_equal(s->launcher.volume_size_mb, 0);
	assert_int_equal(s->launcher.memory_mb, 256);
	assert_int_equal(s->launcher.pids, 64);
	assert_int_equal(s->launcher.cpu_milli, 1000);
	assert_int_equal(s->launcher.tmp_mb, 64);
	assert_false(s->launcher.egress);
	assert_int_equal(s->session_ttl_s, 1800);
	assert_int_equal(s->quota_mb, 512);
	assert_int_equal(s->volume_overcommit, 2);
	assert_int_equal(s->max_sessions, 100);
	assert_int_equal(s->pool, 4);
	assert_int_equal(s->max_output_mb, 16);
	assert_int_equal(s->write_max_mb, 64);
	assert_int_equal(s->upload_max_mb, 50);
	assert_int_equal(s->download_max_mb, 512);
	assert_int_equal(s->import_max_mb, 100);
	assert_string_equal(s->import_base, "https://github.com");
	assert_string_equal(s->import_host, "github.com");
	assert_null(s->launcher.import_base);
	assert_int_equal(s->max_connections, 4096);
	assert_int_equal(s->n_templates, 2);
	assert_string_equal(s->templates[0], "sandbox-base:latest");
	assert_string_equal(s->templates[1], "python:3.11-slim");
	assert_false(s->single || s->ephemeral);
	assert_null(s->preview_domain);
	assert_int_equal(s->log_level, LOG_INFO);
}

static void a_policy_switches_egress_on_and_a_blank_one_does_not(void **state)
{
	static const struct {
		const char *lines;
		bool egress;
	} rows[] = {
		{ KEY ";SANDBOX_EGRESS_POLICY={}", false },
		{ KEY ";SANDBOX_EGRESS_POLICY={\"*\": [\"pypi\"]}", true },
		{ KEY ";SANDBOX_EGRESS_POLICY= ;SANDBOX_EGRESS_DNS=9.9.9.9", false },
		{ KEY ";SANDBOX_EGRESS_LOG_DIR=/var/log/airlock", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_config_ struct config *c = load(rows[i].lines);
		struct err err;
		assert_int_equal(config_check(c, &err), 0);
		assert_int_equal(config_settings(c)->launcher.egress, rows[i].egress);
		assert_null(config_settings(c)->launcher.egress_policy_file);
	}
}

static void the_base_of_imports_is_taken_apart(void **state)
{
	static const struct {
		const char *lines, *base, *host;
	} rows[] = {
		{ KEY ";SANDBOX_GITHUB_BASE=https://Mirror.test:8443//", "https://Mirror.test:8443",
		  "Mirror.test" },
		{ KEY ";SANDBOX_GITHUB_BASE=http://[::1]:9000/git/", "http://[::1]:9000/git",
		  "::1" },
		{ KEY ";SANDBOX_GITHUB_BASE=https://10.0.0.1", "https://10.0.0.1", "10.0.0.1" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_config_ struct config *c = load(rows[i].lines);
		struct err err;
		assert_int_equal(config_check(c, &err), 0);
		const struct config_settings *s = config_settings(c);
		assert_string_equal(s->import_base, rows[i].base);
		assert_string_equal(s->import_host, rows[i].host);
		assert_string_equal(s->launcher.import_base, rows[i].base);
	}
}

static void settings_of_egress_reach_the_launcher(void **state)
{
	_cleanup_config_ struct config *c =
		load(KEY ";SANDBOX_EGRESS_POLICY={\"*\": [\"pypi\"]};SANDBOX_EGRESS_LOG_DIR=/l;"
			 "SANDBOX_EGRESS_LOG_DAYS=7;SANDBOX_EGRESS_DNS=9.9.9.9,2620:fe::fe");
	struct err err;

	assert_int_equal(config_check(c, &err), 0);
	const struct config_launcher_settings *l = &config_settings(c)->launcher;
	assert_string_equal(l->egress_log_dir, "/l");
	assert_string_equal(l->egress_dns, "9.9.9.9,2620:fe::fe");
	assert_int_equal(l->egress_log_days, 7);
}

static void put_entry(void *data, struct str tenant, const struct egress_list *rules)
{
	struct buf *out = data;

	buf_printf(out, "%s:", tenant.data ? tenant.data : "*");
	for (size_t i = 0; i < rules->n; i++)
		buf_printf(out, " %s", rules->rules[i]);
	buf_put_text(out, "\n");
}

static void the_policy_is_kept_expanded(void **state)
{
	_cleanup_config_ struct config *c = load(
		KEY ";SANDBOX_EGRESS_POLICY={\"*\": [\"pypi\", \"*.Example.com.\", \"PYPI.org\"], "
		    "\"a\": [], \"b\": [\"x.org\"]};SANDBOX_EGRESS_LOG_DIR=/var/log/egress");
	_cleanup_buf_ struct buf out = BUF(1024);
	struct err err;

	assert_int_equal(config_check(c, &err), 0);
	config_each_egress(c, put_entry, &out);
	assert_string_equal(out.data, "*: pypi.org files.pythonhosted.org *.example.com\na:\n"
				      "b: x.org\n");
	assert_true(config_settings(c)->egress_fixed);
	assert_string_equal(config_settings(c)->launcher.egress_log_dir, "/var/log/egress");
}

static struct config *hand_over(struct config *c)
{
	_cleanup_fd_ int fd = memfd_create("config", MFD_CLOEXEC);
	struct config *again = config_new();
	struct err err;

	assert_int_equal(config_write(c, fd, &err), 0);
	assert_int_equal(config_load_written(again, fd, &err), 0);
	if (config_check(again, &err) < 0)
		fail_msg("%s", err.text);
	return again;
}

static void airlockd_starts_with_the_policy_that_serve_has_read(void **state)
{
	char path[] = "/tmp/airlock-test-policy-XXXXXX", lines[200];
	_cleanup_fd_ int fd = mkstemp(path);
	_cleanup_buf_ struct buf out = BUF(1024);
	static const char text[] = "{\n\"a\": [\n\"x.org\"]\n}\n";
	struct err err;

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	snprintf(lines, sizeof(lines), KEY ";SANDBOX_EGRESS_POLICY_FILE=%s", path);
	_cleanup_config_ struct config *c = load(lines);
	assert_int_equal(config_check(c, &err), 0);
	assert_true(config_settings(c)->launcher.egress);
	assert_string_equal(config_settings(c)->launcher.egress_policy_file, path);
	assert_int_equal(ftruncate(fd, 1), 0); /* "{" */
	_cleanup_config_ struct config *again = hand_over(c);
	assert_false(config_settings(again)->egress_fixed);
	config_each_egress(again, put_entry, &out);
	assert_string_equal(out.data, "a: x.org\n");

	/* A blank one stays blank, whatever the file becomes. */
	assert_int_equal(pwrite(fd, "\n", 1, 0), 1);
	_cleanup_config_ struct config *blank = load(lines);
	assert_int_equal(config_check(blank, &err), 0);
	assert_true(config_settings(blank)->launcher.egress);
	assert_int_equal(pwrite(fd, text, strlen(text), 0), strlen(text));
	_cleanup_config_ struct config *still = hand_over(blank);
	buf_clear(&out);
	config_each_egress(still, put_entry, &out);
	assert_int_equal(out.len, 0);
	unlink(path);
}

/* What SIGHUP reads anew. */
static void a_policy_is_read_from_a_descriptor(void **state)
{
	static char large[POLICY_FILE_MAX + 2];
	const struct {
		const char *text;
		size_t len;
		const char *why; /* NULL: good */
	} cases[] = {
		{ "{\"a\": [\"pypi\"]}", 15, NULL },
		{ " \n", 2, NULL },
		{ "", 0, NULL },
		{ "{", 1, "is not valid JSON (line 1: string or '}' expected near end of file)" },
		{ "{}\0", 3, "has a NUL in it" },
		{ large, POLICY_FILE_MAX + 1, "is larger than 1048576 bytes" },
		{ large, POLICY_FILE_MAX, NULL },
	};
	struct policy_egress_list list;
	int fds[2];
	struct err err;

	memset(large, ' ', sizeof(large));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_fd_ int fd = memfd_create("policy", MFD_CLOEXEC);
		assert_int_equal(write(fd, cases[i].text, cases[i].len), cases[i].len);
		int r = policy_read_egress(fd, &list, &err);
		if (cases[i].why) {
			assert_true(r < 0);
			assert_string_equal(err.text, cases[i].why);
			continue;
		}
		assert_int_equal(r, 0);
		policy_egress_fini(&list);
	}
	/* Nothing that could make the server wait. */
	assert_int_equal(pipe(fds), 0);
	assert_true(policy_read_egress(fds[0], &list, &err) < 0);
	assert_string_equal(err.text, "is not a regular file");
	close(fds[0]);
	close(fds[1]);
}

static void a_tenant_has_only_so_many_rules(void **state)
{
	_cleanup_buf_ struct buf text = BUF(1u << 20);
	struct policy_egress_list list;
	struct err err;

	buf_put_text(&text, "{\"a\": [\"x.org\"");
	for (unsigned i = 0; i < EGRESS_LIST_MAX; i++)
		buf_printf(&text, ", \"h%u.org\"", i);
	buf_put_text(&text, "]}");
	assert_true(policy_parse_egress(text.data, &list, &err) < 0);
	assert_string_equal(err.text, "'a' has more than 4096 rules");
}

static void values_reach_their_settings(void **state)
{
	_cleanup_config_ struct config *c =
		load(KEY ";SANDBOX_MEMORY_MB=1024;SANDBOX_CPUS=1.25;SANDBOX_PIDS=100;"
			 "SANDBOX_TMP_MB=8;SANDBOX_VOLUME_SIZE_MB=4096;SANDBOX_SESSION_STATE=off;"
			 "SANDBOX_VOLUME_OVERCOMMIT=5;"
			 "SANDBOX_LOG_LEVEL=debug;SANDBOX_TEMPLATES= a:1 , b;SANDBOX_MODE=single;"
			 "SANDBOX_PREVIEW_DOMAIN=preview.example.net:8443");
	struct err err;

	assert_int_equal(config_check(c, &err), 0);
	const struct config_settings *s = config_settings(c);
	assert_int_equal(s->launcher.memory_mb, 1024);
	assert_int_equal(s->launcher.cpu_milli, 1250);
	assert_int_equal(s->launcher.pids, 100);
	assert_int_equal(s->launcher.tmp_mb, 8);
	assert_int_equal(s->launcher.volume_size_mb, 4096);
	assert_int_equal(s->volume_overcommit, 5);
	assert_true(s->single && s->ephemeral);
	assert_string_equal(s->preview_domain, "preview.example.net:8443");
	assert_int_equal(s->log_level, LOG_DEBUG);
	assert_int_equal(s->n_templates, 2);
	assert_string_equal(s->templates[0], "a:1");
	assert_string_equal(s->templates[1], "b");
}

struct seen {
	unsigned n;
	char text[8][200];
};

static void see_key(void *data, struct str tenant, struct str key)
{
	struct seen *seen = data;

	snprintf(seen->text[seen->n++ % 8], 200, "%s=%s", tenant.data, key.data);
}

static void keys_may_have_colons_and_blanks_are_trimmed(void **state)
{
	_cleanup_config_ struct config *c =
		load("SANDBOX_API_KEYS= a : k:with:colons ,, b:2 ,;SANDBOX_API_KEY= one ");
	struct seen seen = { 0 };
	struct err err;

	assert_int_equal(config_check(c, &err), 0);
	config_each_key(c, see_key, &seen);
	assert_int_equal(seen.n, 3);
	assert_string_equal(seen.text[0], "a=k:with:colons");
	assert_string_equal(seen.text[1], "b=2");
	assert_string_equal(seen.text[2], "default=one");
}

static void see_limits(void *data, struct str tenant, const struct tenant_limits *l)
{
	struct seen *seen = data;

	snprintf(seen->text[seen->n++ % 8], 200, "%s %u %u %u", tenant.data ? tenant.data : "-",
		 l->max_sessions, l->requests_per_minute, l->max_concurrent_exec);
}

static void a_tenants_limits_inherit_from_the_star_and_the_variable_wins(void **state)
{
	_cleanup_config_ struct config *c = load(
		KEY ";SANDBOX_TENANT_LIMITS={\"a\": {\"max_sessions\": 2},"
		    "\"*\": {\"requests_per_minute\": 60}};SANDBOX_TENANT_LIMITS_FILE=/nowhere");
	struct seen seen = { 0 };
	struct err err;

	assert_int_equal(config_check(c, &err), 0);
	config_each_limits(c, see_limits, &seen);
	assert_int_equal(seen.n, 2);
	assert_string_equal(seen.text[0], "- 10 60 4");
	assert_string_equal(seen.text[1], "a 2 60 4");
}

static void snapshots_are_on_unless_they_are_turned_off(void **state)
{
	static const struct {
		const char *lines;
		bool on;
		unsigned days;
	} cases[] = {
		{ KEY, true, 30 },
		{ KEY ";SANDBOX_SNAPSHOTS=on;SANDBOX_SNAPSHOT_RETENTION_DAYS=7", true, 7 },
		{ KEY ";SANDBOX_SNAPSHOTS=1;SANDBOX_SNAPSHOT_RETENTION_DAYS=0", true, 0 },
		{ KEY ";SANDBOX_SNAPSHOTS=off", false, 30 },
		{ KEY ";SANDBOX_SNAPSHOTS=no", false, 30 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_config_ struct config *c = load(cases[i].lines);
		struct err err;
		assert_int_equal(config_check(c, &err), 0);
		assert_int_equal(config_settings(c)->snapshots, cases[i].on);
		assert_int_equal(config_settings(c)->snapshot_days, cases[i].days);
	}
}

static void see_warning(void *data, const char *text)
{
	struct seen *seen = data;

	snprintf(seen->text[seen->n++ % 8], 200, "%s", text);
}

static void what_is_not_used_is_said_once(void **state)
{
	_cleanup_config_ struct config *c = load(
		"SANDBOX_API_KEYS=a:short;SANDBOX_NONSENSE=secret;SANDBOX_ACCOUNTS=sqlite;"
		"SANDBOX_SESSION_STATE=/x;SANDBOX_CONSOLE_KEY_LOGIN=0;SANDBOX_API_URL=http://x");
	struct seen seen = { 0 };
	struct err err;

	assert_int_equal(config_check(c, &err), 0);
	config_warn(c, see_warning, &seen);
	assert_int_equal(seen.n, 4);
	assert_string_equal(seen.text[0], "SANDBOX_NONSENSE is not a known variable");
	assert_string_equal(seen.text[1],
			    "SANDBOX_ACCOUNTS is set but this version does not have the feature");
	assert_string_equal(seen.text[2], "the path in SANDBOX_SESSION_STATE is ignored; sessions "
					  "are kept in SANDBOX_STATE_DIR");
	assert_string_equal(seen.text[3],
			    "the static key of tenant a is shorter than 16 characters");
}

static int text_fd(const char *text)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

static void a_file_has_lines_comments_and_the_last_of_a_name_counts(void **state)
{
	static const char text[] = "# keys\n\n SANDBOX_API_KEY = one \r\nSANDBOX_POOL=1\n"
				   "SANDBOX_POOL=2\nSANDBOX_TMP_MB=7\nOTHER=x\nSANDBOX_PIDS=";
	_cleanup_fd_ int fd = text_fd(text);
	_cleanup_config_ struct config *c = load("SANDBOX_TMP_MB=9;SANDBOX_API_KEY=");
	struct seen seen = { 0 };
	struct err err;

	assert_int_equal(config_load_fd(c, fd, &err), 0);
	assert_int_equal(config_check(c, &err), 0);
	assert_int_equal(config_settings(c)->pool, 2);
	assert_int_equal(config_settings(c)->launcher.tmp_mb, 9);
	assert_int_equal(config_settings(c)->launcher.pids, 64);
	config_each_key(c, see_key, &seen);
	assert_string_equal(seen.text[0], "default=one");
}

static void a_bad_line_is_named(void **state)
{
	_cleanup_config_ struct config *c = config_new();
	_cleanup_fd_ int fd = text_fd("SANDBOX_POOL=1\nexport SANDBOX_API_KEY=secret\n");
	struct err err;

	assert_int_equal(config_load_fd(c, fd, &err), -EINVAL);
	assert_string_equal(err.text, "line 2 is not NAME=value");
	assert_int_equal(config_load_file(c, "/nowhere/x", &err), -ENOENT);
	assert_string_equal(err.text, "/nowhere/x: cannot be opened: No such file or directory");
}

static void what_serve_writes_airlockd_reads(void **state)
{
	_cleanup_config_ struct config *c = load(
		"SANDBOX_API_KEYS=a:k=1,b:2;SANDBOX_TENANT_LIMITS={\n \"a\":\n {\"max_sessions\":"
		" 2}};SANDBOX_WHAT=secret;SANDBOX_CPUS=0.5;"
		"SANDBOX_GITHUB_APP_PRIVATE_KEY=-----BEGIN X-----\nabc\n-----END X-----");
	_cleanup_config_ struct config *again = config_new();
	_cleanup_fd_ int fd = memfd_create("test", MFD_CLOEXEC);
	struct seen seen = { 0 };
	char text[4096] = "";
	struct err err;

	assert_int_equal(config_write(c, fd, &err), 0);
	assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
	assert_null(strstr(text, "secret"));
	assert_int_equal(config_load_written(again, fd, &err), 0);
	config_set(again, "SANDBOX_GITHUB_APP_ID", STR("1"));
	config_set(again, "SANDBOX_GITHUB_APP_SLUG", STR("1"));
	config_set(again, "SANDBOX_GITHUB_APP_CLIENT_ID", STR("1"));
	config_set(again, "SANDBOX_GITHUB_APP_CLIENT_SECRET", STR("1"));
	if (config_check(again, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(config_settings(again)->launcher.cpu_milli, 500);
	config_each_key(again, see_key, &seen);
	assert_string_equal(seen.text[0], "a=k=1");
	config_each_limits(again, see_limits, &seen);
	assert_string_equal(seen.text[3], "a 2 120 4");
	config_warn(again, see_warning, &seen);
	assert_string_equal(seen.text[4], "SANDBOX_WHAT is not a known variable");
}

static void what_serve_alone_tells_airlockd_nobody_else_may(void **state)
{
	_cleanup_config_ struct config *c =
		load(KEY ";SANDBOX_ACCEPT_LOST=1;SANDBOX_IMPORTED=x;SANDBOX_EGRESS_POLICY_READ={;"
			 "SANDBOX_TENANT_LIMITS_READ={");
	_cleanup_config_ struct config *again = config_new();
	_cleanup_fd_ int fd = memfd_create("test", MFD_CLOEXEC);
	struct seen seen = { 0 };
	struct err err;

	if (config_check(c, &err) < 0)
		fail_msg("%s", err.text);
	assert_false(config_settings(c)->accept_lost);
	assert_null(config_settings(c)->imported);
	config_warn(c, see_warning, &seen);
	assert_int_equal(seen.n, 4);
	assert_string_equal(seen.text[0], "SANDBOX_ACCEPT_LOST is not a known variable");
	assert_int_equal(config_write(c, fd, &err), 0);
	assert_true(dprintf(fd, "SANDBOX_IMPORTED=y,\n") > 0);
	assert_int_equal(config_load_written(again, fd, &err), 0);
	/* No later source may, either. */
	config_set(again, "SANDBOX_ACCEPT_LOST", STR("1"));
	if (config_check(again, &err) < 0)
		fail_msg("%s", err.text);
	assert_false(config_settings(again)->accept_lost);
	assert_string_equal(config_settings(again)->imported, "y,");
}

static void every_variable_is_in_the_table_once(void **state)
{
	for (size_t i = 0; i < n_variables; i++) {
		assert_int_equal(variable_find(str_of(variables[i].name)), (int)i);
		assert_true(variables[i].kind != VARIABLE_NUMBER ||
			    variables[i].min < variables[i].max);
		assert_true(variables[i].kind != VARIABLE_CHOICE || variables[i].choices);
	}
}

int main(void)
{
#define T(name) cmocka_unit_test(name)
	/* The same limit on every machine. */
	const struct rlimit descriptors = { 1024, 8192 };
	const struct CMUnitTest tests[] = {
		T(each_bad_value_is_refused_with_its_name_and_a_sentence),
		T(each_good_value_is_taken),
		T(nothing_set_gives_the_defaults),
		T(a_policy_switches_egress_on_and_a_blank_one_does_not),
		T(the_base_of_imports_is_taken_apart),
		T(settings_of_egress_reach_the_launcher),
		T(the_policy_is_kept_expanded),
		T(airlockd_starts_with_the_policy_that_serve_has_read),
		T(a_policy_is_read_from_a_descriptor),
		T(a_tenant_has_only_so_many_rules),
		T(values_reach_their_settings),
		T(keys_may_have_colons_and_blanks_are_trimmed),
		T(a_tenants_limits_inherit_from_the_star_and_the_variable_wins),
		T(snapshots_are_on_unless_they_are_turned_off),
		cmocka_unit_test(what_is_not_used_is_said_once),
		T(a_file_has_lines_comments_and_the_last_of_a_name_counts),
		T(a_bad_line_is_named),
		T(what_serve_writes_airlockd_reads),
		T(what_serve_alone_tells_airlockd_nobody_else_may),
		T(every_variable_is_in_the_table_once),
	};
	if (setrlimit(RLIMIT_NOFILE, &descriptors) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
