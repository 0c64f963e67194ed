// SPDX-License-Identifier: Apache-2.0
/*
 * Any text as a configuration file.
 *
 * Whatever the input: a refusal is one line that begins with a variable or a line number and shows
 * no key; what was accepted is written, read again, accepted again and means the same.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "base/mem.h"
#include "daemon/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void config_cleanup(struct config **c)
{
	config_free(*c);
}

#define _cleanup_config_ __attribute__((cleanup(config_cleanup)))

static void check_refusal(const struct err *err)
{
	assert(err->text[0] && !strpbrk(err->text, "\r\n"));
	assert(strncmp(err->text, "SANDBOX_", 8) == 0 || strncmp(err->text, "line ", 5) == 0 ||
	       strncmp(err->text, "has a NUL", 9) == 0);
}

static void count_key(void *data, struct str tenant, struct str key)
{
	assert(tenant.len && key.len && key.len <= 512);
	++*(size_t *)data;
}

static void count_limits(void *data, struct str tenant, const struct tenant_limits *limits)
{
	assert(limits->max_sessions && limits->requests_per_minute);
	++*(size_t *)data;
}

static void count_warning(void *data, const char *text)
{
	++*(size_t *)data;
}

static void same(const struct config *a, const struct config *b)
{
	size_t n[2][3] = { 0 };
	const struct config *const both[2] = { a, b };

	for (size_t i = 0; i < 2; i++) {
		config_each_key(both[i], count_key, &n[i][0]);
		config_each_limits(both[i], count_limits, &n[i][1]);
		config_warn(both[i], count_warning, &n[i][2]);
	}
	assert(memcmp(n[0], n[1], sizeof(n[0])) == 0);
	const struct config_settings *x = config_settings(a), *y = config_settings(b);
	assert(x->pool == y->pool && x->quota_mb == y->quota_mb && x->single == y->single);
	assert(x->launcher.cpu_milli == y->launcher.cpu_milli);
	assert(strcmp(x->launcher.listen, y->launcher.listen) == 0);
	assert(x->n_templates == y->n_templates);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_config_ struct config *c = config_new();
	_cleanup_config_ struct config *again = config_new();
	_cleanup_fd_ int in = memfd_create("in", MFD_CLOEXEC);
	_cleanup_fd_ int out = memfd_create("out", MFD_CLOEXEC);
	struct err err = { 0 };

	assert(in >= 0 && out >= 0);
	if (write(in, data, size) != (ssize_t)size)
		return 0;
	if (config_load_fd(c, in, &err) < 0 || config_check(c, &err) < 0) {
		check_refusal(&err);
		return 0;
	}
	assert(config_write(c, out, &err) >= 0);
	assert(config_load_written(again, out, &err) >= 0);
	assert(config_check(again, &err) >= 0);
	same(c, again);
	return 0;
}
