// SPDX-License-Identifier: Apache-2.0
/*
 * log: one JSON object per line on stderr: time, level, process, event, then the fields given.
 * Never a secret, never tenant output. A field whose text is empty is left out. The line is built
 * on the stack and written with one write(2); a line that is too long is cut at a field, never in
 * the middle of one. Used by every process but init. No heap.
 *
 *   log_event(LOG_WARN, "builder_restarted", LOG_INT("status", st), LOG_STR("why", err.text));
 */
#pragma once

#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

struct log_field {
	const char *name; /* NULL ends the list */
	const char *text; /* NULL: number counts */
	int64_t number;
};

#define LOG_STR(n, s) ((struct log_field){ (n), (s), 0 })
#define LOG_INT(n, i) ((struct log_field){ (n), NULL, (int64_t)(i) })
#define log_event(level, event, ...) \
	log_write((level), (event), \
		  (const struct log_field[]){ __VA_ARGS__ __VA_OPT__(, ){ NULL, NULL, 0 } })

/* process is a literal such as "airlockd". */
void log_init(const char *process, enum log_level level);
void log_write(enum log_level level, const char *event, const struct log_field *fields);
