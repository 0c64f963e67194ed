// SPDX-License-Identifier: Apache-2.0
/*
 * error: the machine words of the contract (docs/api.md, section 20) and what each means in HTTP.
 * REST, MCP and console read this one table. A row has a text when the words never change; the other
 * texts are made where the error happens and travel in err->text. Pure data, used by airlockd.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct error_row {
	const char *slug;
	int status;
	unsigned retry_after; /* seconds; 0: no such header (rate_limited computes its own) */
	bool close;	      /* the connection ends with this answer */
	const char *text;     /* NULL: the text is in err->text */
};

extern const struct error_row error_rows[];
extern const size_t error_n_rows;

/* The row of a word; of "internal" when the word is NULL or unknown. Never NULL. */
const struct error_row *error_find(const char *slug);
