// SPDX-License-Identifier: Apache-2.0
#include "daemon/stores.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "daemon/config.h"

static const char *const variables[STORES_USES] = {
	[STORES_STATE] = "SANDBOX_STATE_DIR",
	[STORES_KEYS] = "SANDBOX_KEYSTORE",
	[STORES_AUDIT] = "SANDBOX_AUDIT",
};

const char *stores_variable(enum stores_use use)
{
	return variables[use];
}

void stores_init(struct stores *s, const char *folder, const char *const values[STORES_USES])
{
	*s = (struct stores){ 0 };
	s->paths[STORES_STATE] = config_database(folder, "sqlite");
	for (size_t i = STORES_STATE + 1; i < STORES_USES; i++)
		s->paths[i] = values[i] ? config_database(folder, values[i]) : NULL;
}

char *stores_folder(const struct stores *s, enum stores_use use, const char *folder)
{
	const char *path = s->paths[use], *slash = path ? strrchr(path, '/') : NULL;
	size_t n = strlen(folder);

	if (!slash || ((size_t)(slash - path) == n && strncmp(path, folder, n) == 0))
		return NULL;
	return slash == path ? mem_dup("/") : mem_dup_n(path, (size_t)(slash - path));
}

/* The use whose database this one shares, itself when there is none. */
static size_t first_with_path(const struct stores *s, size_t use)
{
	size_t i = 0;

	while (!s->paths[i] || strcmp(s->paths[i], s->paths[use]) != 0)
		i++;
	return i;
}

int stores_open(struct stores *s, uv_loop_t *loop, struct err *err)
{
	for (size_t i = 0; i < STORES_USES; i++) {
		if (!s->paths[i])
			continue;
		size_t first = first_with_path(s, i);
		if (first == i && store_open(loop, s->paths[i], &s->stores[i], err) < 0)
			return err_wrap(err, "%s", variables[i]);
		s->stores[i] = s->stores[first];
	}
	return 0;
}

static void on_closed(void *data)
{
	struct stores *s = data;

	assert(s->open);
	if (--s->open == 0)
		s->closed(s->data);
}

void stores_close(struct stores *s, void (*closed)(void *data), void *data)
{
	s->closed = closed;
	s->data = data;
	for (size_t i = 0; i < STORES_USES; i++)
		s->open += s->stores[i] && first_with_path(s, i) == i;
	for (size_t i = 0; i < STORES_USES; i++) {
		if (s->stores[i] && first_with_path(s, i) == i)
			store_close(s->stores[i], on_closed, s);
	}
	assert(s->open);
}

void stores_fini(struct stores *s)
{
	for (size_t i = 0; i < STORES_USES; i++)
		free(s->paths[i]);
	*s = (struct stores){ 0 };
}

uint64_t stores_errors(const struct stores *s)
{
	uint64_t n = 0;

	for (size_t i = 0; i < STORES_USES; i++) {
		if (s->stores[i] && first_with_path(s, i) == i)
			n += store_errors(s->stores[i]);
	}
	return n;
}

bool stores_failing(const struct stores *s)
{
	bool failing = false;

	for (size_t i = 0; i < STORES_USES; i++)
		failing |= s->stores[i] && store_is_failing(s->stores[i]);
	return failing;
}
