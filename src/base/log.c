// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"

#define LINE_MAX_BYTES 4000

static const char *process_name = "airlock";
static enum log_level threshold = LOG_INFO;
static const char *const level_names[] = { "error", "warn", "info", "debug" };

struct line {
	char data[LINE_MAX_BYTES];
	size_t len;
	bool full;
};

void log_init(const char *process, enum log_level level)
{
	process_name = process;
	threshold = level;
}

static void put(struct line *l, const char *data, size_t len)
{
	if (l->full || len > sizeof(l->data) - 2 - l->len) {
		l->full = true;
		return;
	}
	memcpy(l->data + l->len, data, len);
	l->len += len;
}

/* Text that is not UTF-8 gets its upper bytes as U+0080..00FF, so that the line is JSON in any
 * case. */
static void put_quoted(struct line *l, const char *text)
{
	bool is_utf8 = utf8_valid(str_of(text));

	put(l, "\"", 1);
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		char esc[8];
		if (*p == '"' || *p == '\\') {
			esc[0] = '\\';
			esc[1] = (char)*p;
			put(l, esc, 2);
		} else if (*p < 0x20 || *p == 0x7f || (*p >= 0x80 && !is_utf8)) {
			int n = snprintf(esc, sizeof(esc), "\\u%04x", *p);
			put(l, esc, (size_t)n);
		} else {
			put(l, (const char *)p, 1);
		}
	}
	put(l, "\"", 1);
}

static void put_field(struct line *l, const struct log_field *f)
{
	size_t before = l->len;
	char number[32];

	if (f->text && !f->text[0])
		return;
	put(l, ",", 1);
	put_quoted(l, f->name);
	put(l, ":", 1);
	if (f->text)
		put_quoted(l, f->text);
	else
		put(l, number,
		    (size_t)snprintf(number, sizeof(number), "%lld", (long long)f->number));
	if (l->full)
		l->len = before;
}

void log_write(enum log_level level, const char *event, const struct log_field *fields)
{
	struct line l = { .len = 0 };
	int saved = errno;
	char head[64];

	if (level > threshold)
		return;
	int64_t us = clock_wall_us();
	int n = snprintf(head, sizeof(head), "{\"time\":%lld.%06d", (long long)(us / 1000000),
			 (int)(us % 1000000));
	put(&l, head, (size_t)n);
	put_field(&l, &LOG_STR("level", level_names[level]));
	put_field(&l, &LOG_STR("process", process_name));
	put_field(&l, &LOG_STR("event", event));
	for (; fields->name && !l.full; fields++)
		put_field(&l, fields);
	l.data[l.len++] = '}';
	l.data[l.len++] = '\n';
	while (write(STDERR_FILENO, l.data, l.len) < 0 && errno == EINTR)
		;
	errno = saved;
}
