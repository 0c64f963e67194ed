// SPDX-License-Identifier: Apache-2.0
/*
 * policy: the two JSON values of the configuration: limits and egress rules by tenant. Errors are
 * sentences without the name of the variable.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "core/tenant.h"
#include "egress/list.h"

#define POLICY_FILE_MAX (1u * 1024 * 1024)

struct policy_egress {
	char *tenant; /* owned; NULL: "*" */
	struct egress_list rules;
};

struct policy_egress_list {
	struct policy_egress *items; /* owned */
	size_t n;
};

bool policy_is_blank(const char *json);
/* Tenant -> list of hosts, wildcards and presets. NULL or blank: nobody may reach anything. */
int policy_parse_egress(const char *json, struct policy_egress_list *ret, struct err *err);
/* The same from the start of a regular file of at most POLICY_FILE_MAX bytes. fd is borrowed. */
int policy_read_egress(int fd, struct policy_egress_list *ret, struct err *err);
void policy_egress_fini(struct policy_egress_list *list);

struct policy_limits {
	char *tenant; /* owned; NULL: "*" */
	struct tenant_limits limits;
};

struct policy_limits_list {
	struct policy_limits *items; /* owned; the first is "*", whether it was given or not */
	size_t n;
};

/* Tenant -> object of fields; json NULL: only the defaults. */
int policy_parse_limits(const char *json, struct policy_limits_list *ret, struct err *err);
/* The same from the start of a file; fd is borrowed. One that is empty has the defaults. */
int policy_read_limits(int fd, struct policy_limits_list *ret, struct err *err);
void policy_limits_fini(struct policy_limits_list *list);
