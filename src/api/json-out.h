// SPDX-License-Identifier: Apache-2.0
/*
 * json-out: JSON text written onto a buffer (RFC 8259). What comes out is always valid Unicode:
 * bytes that are not UTF-8 become U+FFFD (base/utf8.h). Commas and quotes are the writer's; objects
 * and lists must be closed by the caller in the right order. A full buffer is seen with
 * buf_is_full.
 *
 * key is a literal of ours in ASCII that needs no escape, NULL inside a list.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct json_out {
	struct buf *buf; /* borrowed */
	bool more;	 /* the container that is open has something in it */
};

#define JSON_OUT(b) ((struct json_out){ .buf = (b) })

void json_out_object(struct json_out *o, const char *key);
void json_out_list(struct json_out *o, const char *key);
void json_out_end_object(struct json_out *o);
void json_out_end_list(struct json_out *o);
/* data == NULL is written as "". */
void json_out_str(struct json_out *o, const char *key, struct str value);
void json_out_text(struct json_out *o, const char *key, const char *value);
void json_out_int(struct json_out *o, const char *key, int64_t value);
void json_out_bool(struct json_out *o, const char *key, bool value);
void json_out_null(struct json_out *o, const char *key);
/* Microseconds as seconds with six decimals. */
void json_out_time(struct json_out *o, const char *key, int64_t us);
/* Milliseconds as seconds with three decimals. */
void json_out_seconds(struct json_out *o, const char *key, uint64_t ms);
/* A name that is not ours, escaped; a value must follow with key NULL and no comma of its own. */
void json_out_name(struct json_out *o, struct str name);

/* The inside of a string: valid UTF-8 with what JSON wants escaped. False when full. */
bool json_escape(struct buf *out, struct str valid);
