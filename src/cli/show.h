// SPDX-License-Identifier: Apache-2.0
/* show: JSON of the server as text for people. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The object as the server sent it; show_json_line: on one line; show_json_part: any value, and no
 * end of line. */
void show_json(const json_t *json);
void show_json_line(const json_t *json);
void show_json_part(const json_t *json);
/* "name  value" lines, objects and lists indented below; *_at and ts are dates, *_bytes sizes. */
void show_object(const json_t *object, int indent);

/* "airlock: <title>: a, b" on one line; nothing for an empty list or none. */
void show_list(FILE *to, const char *title, const json_t *list);

struct show_column {
	const char *title;
	const char *member;
	int width;
};

/* One line per entry; a missing member is "-". The last column is not padded. show_rows: without
 * the titles. */
void show_table(const json_t *list, const struct show_column *columns, size_t n);
void show_rows(const json_t *list, const struct show_column *columns, size_t n);
