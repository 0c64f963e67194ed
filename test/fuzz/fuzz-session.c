// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as the specification of a session that airlockd gives to the gateway.
 *
 * Whatever the input: it is refused and nothing is kept, or the session is known by its number, its
 * id can be a file name, and every rule is a rule. Given once more under another number it takes
 * the place of the first; ended, nothing is left.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "egress/rule.h"
#include "gateway/gateway.h"
#include "gateway/logs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int spec_of(const uint8_t *data, size_t size)
{
	int fd = memfd_create("session", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	assert(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) ==
	       0);
	return fd;
}

static unsigned n_sessions(const struct gateway *g)
{
	unsigned n = 0;

	for (const struct list *at = g->sessions.next; at != &g->sessions; at = at->next)
		n++;
	return n;
}

static void check(const struct session *s)
{
	assert(s && *s->id && !strchr(s->id, '/') && !strchr(s->id, '.') && strlen(s->id) <= 64);
	for (size_t i = 0; i < s->policy.n_rules; i++) {
		assert(egress_rule_is_valid(s->policy.rules[i]));
		assert(!memchr(s->policy.rules[i].data, 0, s->policy.rules[i].len));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gateway g = { .log_dir = -1, .hurry = 1 };
	_cleanup_fd_ int fd = spec_of(data, size);
	uv_loop_t loop;

	uv_loop_init(&loop);
	g.loop = &loop;
	list_init(&g.sessions);
	g.logs = logs_new(&g);
	int r = session_add(&g, 7, fd);
	assert(n_sessions(&g) == (r == 0));
	if (r == 0) {
		check(session_find(&g, 7));
		assert(session_add(&g, 7, fd) < 0);
		sessions_mark_stale(&g);
		assert(!session_find(&g, 7));
		assert(session_add(&g, 8, fd) == 0 && n_sessions(&g) == 1);
		check(session_find(&g, 8));
		session_end(session_find(&g, 8));
		assert(n_sessions(&g) == 0);
	}
	logs_free(g.logs);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert(uv_loop_close(&loop) == 0);
	return 0;
}
