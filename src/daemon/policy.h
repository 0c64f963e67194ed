// SPDX-License-Identifier: Apache-2.0
/*
 * policy: the two JSON values of the configuration: limits and egress rules by tenant. Errors are
 * sentences without the name of the variable.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "core/tenant.h"

/* Tenant -> list of rules and presets; a variable_check_fn. */
int policy_check(const char *json, struct err *err);

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
void policy_limits_fini(struct policy_limits_list *list);
