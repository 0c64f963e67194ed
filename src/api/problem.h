// SPDX-License-Identifier: Apache-2.0
/*
 * problem: the list that a 422 answer carries as its detail (contract, section 0.5). Items are
 * written as they are found; at most 100, the rest is left out. On a quiet list no item has an
 * "input", for routes whose values may be secret.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/json-out.h"
#include "base/buf.h"
#include "base/str.h"

enum problem_type {
	PROBLEM_MISSING,
	PROBLEM_JSON,
	PROBLEM_MODEL,
	PROBLEM_STRING,
	PROBLEM_INT,
	PROBLEM_BOOL,
	PROBLEM_LIST,
	PROBLEM_DICT,
	PROBLEM_INT_PARSING,
	PROBLEM_INT_FROM_FLOAT,
	PROBLEM_GE,
	PROBLEM_LE,
	PROBLEM_STRING_LONG,
	PROBLEM_LIST_LONG,
	PROBLEM_VALUE,
};

struct problem {
	enum problem_type type;
	const char *where;     /* "body", "query", "path" */
	const char *name;      /* of the field; NULL: none */
	struct str sub;	       /* name inside a map; data == NULL: none */
	int64_t index;	       /* inside a list, or the place in the text; -1: none */
	int64_t number;	       /* the bound, for ctx */
	int64_t actual;	       /* PROBLEM_LIST_LONG */
	const char *why;       /* PROBLEM_JSON, PROBLEM_VALUE: a literal */
	const json_t *input;   /* NULL: none */
	struct str input_text; /* of a query or path; data == NULL: none */
};

struct problems {
	struct buf buf; /* the items of the list, without its brackets */
	struct json_out out;
	unsigned count;
	bool quiet;
};

void problems_init(struct problems *p, bool quiet);
void problems_fini(struct problems *p);
void problem_add(struct problems *p, const struct problem *item);
