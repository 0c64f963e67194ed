// SPDX-License-Identifier: Apache-2.0
/*
 * variable: the table of the contract, section 19: which variables exist and what each may be. Pure
 * data and pure checks; values are never kept here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "daemon/config.h"

enum variable_kind {
	VARIABLE_TEXT,	 /* anything */
	VARIABLE_NUMBER, /* min .. max */
	VARIABLE_MILLI,	 /* a fraction, min .. max in thousandths */
	VARIABLE_FLAG,
	VARIABLE_CHOICE, /* one of choices */
	VARIABLE_CLIENT, /* of our clients, in the same environment: not ours, no warning */
};

/* Looks at one value by itself. Errors without the name of the variable. */
typedef int (*variable_check_fn)(const char *value, struct err *err);

struct variable {
	const char *name;
	enum variable_kind kind;
	uint64_t min, max;
	const char *const *choices; /* NULL-terminated */
	variable_check_fn check;    /* VARIABLE_TEXT: may be NULL */
	size_t setting;		    /* VARIABLE_NUMBER, _MILLI: 1 + offset of a uint64_t in struct
				       config_settings; 0: none */
	bool later;		    /* its feature is not part of this server */
	bool secret;		    /* its value is never shown */
	bool internal;		    /* `airlock serve` tells airlockd; nobody else may set it */
};

extern const struct variable variables[];
extern const size_t n_variables;

/* Index into the table, or -1. */
int variable_find(struct str name);
/* Index of a name that the table has; for our own literals. */
size_t variable_index(const char *name);
/* Kind, range, choices, check. ret_number (of numbers and flags) may be NULL. */
int variable_check(const struct variable *v, const char *value, uint64_t *ret_number,
		   struct err *err);
/* A value for an error: short, one line, printable. buf has at least 64 bytes. */
const char *variable_show(const char *value, char *buf, size_t len);
