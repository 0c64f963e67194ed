// SPDX-License-Identifier: Apache-2.0
/*
 * filter: the compiled seccomp programs, made at build time by sandbox/compile-filter from the rule
 * table in sandbox/rules.c. Init and the daemons only load them.
 */
#pragma once

#include <linux/filter.h>
#include <stddef.h>

#include "base/err.h"

struct filter {
	const char *name;
	const struct sock_filter *code;
	unsigned short len;
};

/* tenant: what code of a tenant may do. init: the tenant's rules and what init itself needs (a
 * tenant forked by init has both). daemon: airlockd after start, gateway: airlock-gateway after
 * start. */
extern const struct filter filter_tenant, filter_init, filter_daemon, filter_gateway;

/* Installs it for the calling thread; no_new_privs must be set. No heap. */
int filter_load(const struct filter *f, struct err *err);
