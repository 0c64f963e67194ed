// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 4, 0))) static int fill(struct err *err, int code, const char *slug,
						      const char *fmt, va_list ap)
{
	assert(err && code > 0);
	err->code = code;
	err->slug = slug;
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
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

int err_errno(struct err *err, const char *fmt, ...)
{
	int code = errno > 0 ? errno : EIO;
	va_list ap;

	va_start(ap, fmt);
	fill(err, code, NULL, fmt, ap);
	va_end(ap);
	size_t n = strlen(err->text);
	snprintf(err->text + n, sizeof(err->text) - n, ": %s", strerrordesc_np(code));
	return -code;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
	char old[sizeof(err->text)];
	va_list ap;

	assert(err && err->code > 0);
	memcpy(old, err->text, sizeof(old));
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	size_t n = strlen(err->text);
	snprintf(err->text + n, sizeof(err->text) - n, ": %s", old);
	return -err->code;
}
