// SPDX-License-Identifier: Apache-2.0
/*
 * body: a request body as JSON (contract, section 0.3). First api/json-scan.h bounds what may be
 * built, then jansson parses strictly: no duplicate names, no lone surrogates, UTF-8 only. NUL
 * escapes are let through here and refused field by field (api/field.h), because one field may have
 * them. body_parse works on any thread once body_start has been called.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct body {
	json_t *root;	 /* owned; NULL when the text is refused */
	bool has_nul;	 /* some string has a NUL character */
	const char *why; /* refused: a literal, never a part of the body */
	size_t at;	 /* refused: near this byte */
};

/* Once, before the first parse: seeds the hash of names. */
void body_start(void);
/* An empty text counts as {}. */
void body_parse(struct str text, struct body *ret);
void body_fini(struct body *b);
