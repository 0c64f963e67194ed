// SPDX-License-Identifier: Apache-2.0
/*
 * config: the variables of the contract, section 19. Used by `airlock serve` (environment and file,
 * then check, then write for airlockd) and by airlockd (reads what was written, checks again).
 *
 *   config_new -> config_load_env, config_load_file | config_load_fd -> config_check -> settings
 *   config_new -> config_load_written -> config_check -> settings
 *
 * What is loaded first wins, so the environment goes before the file. An empty value counts as
 * unset. Every variable of the table is known and its value is checked as far as the table says,
 * also when its feature is not part of this server: such a one is reported by config_warn.
 *
 * Errors: err->text is "<NAME>: <sentence>", never with a key or secret in it. The program prints
 * "airlock: " in front of it, on one line, and exits with CONFIG_EXIT. No call here binds a socket
 * or makes a file; the two _FILE variables and the file of --config are read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "core/tenant.h"
#include "egress/list.h"

#define CONFIG_EXIT 78
/* The same of what may pass; the launcher knows it as EXIT_LATER. */
#define CONFIG_EXIT_LATER 75

struct config;

struct config *config_new(void);
void config_free(struct config *c);

/* Takes the SANDBOX_ variables of an environment (NULL-terminated "NAME=value"). */
int config_load_env(struct config *c, char *const *environment, struct err *err);
/* Lines NAME=value, blank lines and "#" comments; of a name given twice the last counts. */
int config_load_file(struct config *c, const char *path, struct err *err);
/* The same from the start of a file or memfd. fd is borrowed. */
int config_load_fd(struct config *c, int fd, struct err *err);
/* The same of what config_write made and `airlock serve` added: here alone count the variables that
 * are not the operator's to set. */
int config_load_written(struct config *c, int fd, struct err *err);
/* Sets one variable unless it is set already. */
void config_set(struct config *c, const char *name, struct str value);
/* What was loaded for a known name, whether it was checked or not; NULL: unset. */
const char *config_value(const struct config *c, const char *name);

/* The database that a value of SANDBOX_KEYSTORE or SANDBOX_AUDIT means when that of the state is in
 * folder; owned by the caller. */
char *config_database(const char *folder, const char *value);

/* Checks every value; after success the settings are valid. */
int config_check(struct config *c, struct err *err);

/* Writes all that was loaded as lines NAME=value, for config_load_written. */
int config_write(const struct config *c, int fd, struct err *err);

/* One call per warning: unknown names, features that are not there, short keys. Not a secret in it.
 */
void config_warn(const struct config *c, void (*each)(void *data, const char *text), void *data);

/* ---- After config_check; strings live as long as the config ---- */

/* What the launcher is told by `airlock serve`. */
struct config_launcher_settings {
	const char *state_dir;
	const char *listen;	    /* "host:port" or "unix:<path>" */
	const char *metrics_listen; /* "host:port"; NULL: none */
	const char *volumes;	    /* "auto", "btrfs", "plain" */
	const char *mode;	    /* "multi", "single" */
	uint64_t volume_size_mb;    /* 0: default */
	uint64_t memory_mb;
	uint64_t pids;
	uint64_t cpu_milli;
	uint64_t tmp_mb;
	uint64_t stop_s;		/* that what runs is given to end */
	bool egress;			/* there is a policy; the rest of it counts only then */
	const char *egress_log_dir;	/* NULL: the folder egress of the state directory */
	const char *egress_dns;		/* comma list; NULL: the host's name servers */
	const char *egress_policy_file; /* NULL: the policy is a variable */
	uint64_t egress_log_days;
	const char *import_base;	/* NULL: the contract's */
	const char *tenant_limits_file; /* NULL: limits are a variable, or built in */
};

struct config_settings {
	struct config_launcher_settings launcher;
	bool single; /* mode is "single" */
	uint64_t session_ttl_s;
	bool ephemeral; /* SANDBOX_SESSION_STATE=off */
	uint64_t quota_mb;
	uint64_t volume_overcommit; /* times its size */
	bool snapshots;
	uint64_t snapshot_days;	 /* 0: for ever */
	const char *key_store;	 /* "sqlite" or "sqlite:<path>"; NULL: none */
	const char *audit_store; /* the same */
	bool audit_strict;
	bool accept_lost; /* `airlock serve --accept-lost` */
	uint64_t audit_days;
	const char *admin_key; /* NULL: none */
	uint64_t max_sessions;
	uint64_t pool;
	uint64_t max_output_mb;
	uint64_t write_max_mb, upload_max_mb, download_max_mb, import_max_mb;
	const char *import_base; /* an absolute URL that does not end in a slash */
	const char *import_host; /* of it: a name, or an address without brackets */
	uint64_t max_connections;
	const char *trusted_proxies; /* comma list */
	const char *runtime;	     /* "native" or "oci:<path>" */
	const char *preview_domain;  /* NULL: none */
	const char *const *templates;
	size_t n_templates;
	const char *imported; /* comma list of templates that were imported; NULL: none */
	bool egress_fixed;    /* SANDBOX_EGRESS_POLICY is set: its file does not count */
	bool limits_fixed;    /* the same of SANDBOX_TENANT_LIMITS */
	enum log_level log_level;
};

const struct config_settings *config_settings(const struct config *c);

/* Static keys in the order of the configuration. */
void config_each_key(const struct config *c,
		     void (*each)(void *data, struct str tenant, struct str key), void *data);
/* Tenant limits, complete (entry over "*" over built in). First the "*" with tenant.data == NULL. */
void config_each_limits(const struct config *c,
			void (*each)(void *data, struct str tenant,
				     const struct tenant_limits *limits),
			void *data);

/* The egress policy, complete (presets are hosts). "*" with tenant.data == NULL, when it is given. */
void config_each_egress(const struct config *c,
			void (*each)(void *data, struct str tenant,
				     const struct egress_list *rules),
			void *data);

/* A SANDBOX_LISTEN value taken apart. */
struct config_listen {
	const char *path; /* unix socket, points into the text; NULL: host and port */
	char host[256];	  /* name or address, without brackets */
	uint16_t port;
};

bool config_parse_listen(const char *text, struct config_listen *ret);
/* Whether only this machine can reach it. */
bool config_listen_is_local(const struct config_listen *l);
