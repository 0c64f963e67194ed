// SPDX-License-Identifier: Apache-2.0
/*
 * field: what a route accepts in body, query and path, as a table, and the one check that reads it
 * (contract, sections 0.3 and 0.5). A body is checked whole: every problem of every field is
 * listed, in the order of the table. Unknown fields are ignored.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/body.h"
#include "api/problem.h"
#include "base/arena.h"
#include "base/str.h"

enum field_where { IN_BODY, IN_QUERY, IN_PATH };

enum field_type {
	FIELD_STRING,
	FIELD_INT,
	FIELD_BOOL,
	FIELD_STRINGS, /* list of strings */
	FIELD_MAP,     /* object string -> string */
};

/* NULL when the text is in order, else the reason as a literal. */
typedef const char *(*field_check_fn)(struct str text);

struct field {
	const char *name;
	const char *about; /* for the description of the API */
	enum field_where where;
	enum field_type type;
	bool required;
	bool nullable;		   /* null counts as not sent */
	bool nul_ok;		   /* NUL characters are data */
	bool hidden;		   /* its value is never echoed */
	bool clamp;		   /* a number out of range is moved into it */
	int64_t preset, min, max;  /* FIELD_INT; max 0: no range */
	const char *preset_text;   /* FIELD_STRING; NULL: none */
	uint32_t max_chars;	   /* of a string or a list's item; 0: none */
	uint32_t max_items;	   /* FIELD_STRINGS */
	field_check_fn check;	   /* of a string or of a map's values */
	field_check_fn check_name; /* of a map's names */
};

#define FIELDS_MAX 8

/* One value per row of the table. A field that was not sent has its preset. */
struct value {
	bool set;
	struct str text;    /* borrowed from the body or the arena; NUL-terminated */
	int64_t number;	    /* also FIELD_BOOL */
	const json_t *json; /* FIELD_STRINGS, FIELD_MAP: borrowed from the body; NULL when not set */
};

void field_check_body(const struct field *fields, size_t n, const struct body *body,
		      struct value *values, struct problems *p);
/* query.data may be NULL. Of a repeated parameter the last counts. */
void field_check_query(const struct field *fields, size_t n, struct str query, struct arena *arena,
		       struct value *values, struct problems *p);
/* param is the text of the one field that stands in the path. */
void field_check_path(const struct field *fields, size_t n, struct str param, struct value *values,
		      struct problems *p);
