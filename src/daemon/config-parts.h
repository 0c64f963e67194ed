// SPDX-License-Identifier: Apache-2.0
/* config-parts: the inside of a struct config, for config.c (loading) and config-check.c
 * (checking). */
#pragma once

#include "base/buf.h"
#include "daemon/config.h"
#include "daemon/policy.h"
#include "daemon/variable.h"

#define CONFIG_FILE_MAX (4u * 1024 * 1024)
#define CONFIG_UNKNOWN_MAX 64u
#define CONFIG_TEMPLATES_MAX 64u

struct config_key {
	char *tenant; /* owned */
	char *key;    /* owned */
};

struct config {
	char **values;			   /* owned; as many as variables; NULL: unset */
	char *unknown[CONFIG_UNKNOWN_MAX]; /* owned; names only */
	size_t n_unknown;
	bool takes_internal; /* variables of that kind count */

	/* After the check */
	struct config_settings settings;
	struct config_key *keys; /* owned */
	size_t n_keys;
	struct policy_limits_list limits;
	struct policy_egress_list egress;
	char *limits_text;    /* the same of SANDBOX_TENANT_LIMITS_FILE */
	char *egress_text;    /* owned; what SANDBOX_EGRESS_POLICY_FILE had in it; NULL: not read */
	char *templates_text; /* owned */
	char *import_base, *import_host; /* owned */
	const char *templates[CONFIG_TEMPLATES_MAX];
};

/* Opens a regular file for reading. */
int config_open_file(const char *path, int *ret_fd, struct err *err);
/* A whole small file as text; a NUL inside is refused. */
int config_read_file(int fd, struct buf *ret, struct err *err);
