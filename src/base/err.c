// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The arguments may be the old text. */
__attribute__((format(printf, 4, 0))) static int fill(struct err *err, int code, const char *slug,
						      const char *fmt, va_list ap)
{
	char text[sizeof(err->text)];

	assert(err && code > 0);
	vsnprintf(text, sizeof(text), fmt, ap);
	err->code = code;
	err->slug = slug;
	memcpy(err->text, text, strlen(text) + 1);
	return -code;
}

int err_set(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int r = fill(err, code, NULL, fmt, ap);
	va_end(ap);
	return r;
}

int err_slug(struct err *err, int code, const char *slug, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int r = fill(err, code, slug, fmt, ap);
	va_end(ap);
	return r;
}

__attribute__((format(printf, 2, 3))) static void append(struct err *err, const char *fmt, ...)
{
	size_t n = strlen(err->text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err->text + n, sizeof(err->text) - n, fmt, ap);
	va_end(ap);
}

int err_errno(struct err *err, const char *fmt, ...)
{
	int code = errno > 0 ? errno : EIO;
	const char *why = strerrordesc_np(code);
	va_list ap;

	va_start(ap, fmt);
	fill(err, code, NULL, fmt, ap);
	va_end(ap);
	if (why)
		append(err, ": %s", why);
	else
		append(err, ": error %d", code);
	return -code;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
	char old[sizeof(err->text)];
	va_list ap;

	assert(err && err->code > 0);
	memcpy(old, err->text, strlen(err->text) + 1);
	va_start(ap, fmt);
	fill(err, err->code, err->slug, fmt, ap);
	va_end(ap);
	append(err, ": %s", old);
	return -err->code;
}
