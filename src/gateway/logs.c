// SPDX-License-Identifier: Apache-2.0
#include "gateway/logs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/gateway.h"

#define SAY_MS 60000
#define DAY_US (INT64_C(86400) * 1000 * 1000)

struct logs {
	struct gateway *g;
	bool low;
	int64_t looked_ms, said_ms; /* 0: never */
	DIR *walk;		    /* owned; NULL: no sweep goes on */
	struct task step;	    /* of it */
};

/* Tenants whose files lie beside the logs can make it come and go. */
static void say(struct logs *l, int64_t now, uint64_t free_bytes)
{
	if (l->said_ms && now - l->said_ms < SAY_MS)
		return;
	l->said_ms = now;
	log_event(LOG_WARN, "log_low", LOG_STR("directory", l->g->options.log_dir),
		  LOG_INT("free_bytes", free_bytes));
}

bool logs_are_low(struct logs *l)
{
	int64_t now = clock_monotonic_ms();
	struct statvfs fs;

	if (l->looked_ms && now - l->looked_ms < LOGS_LOOK_MS)
		return l->low;
	l->looked_ms = now;
	if (fstatvfs(l->g->log_dir, &fs) < 0)
		return l->low;
	bool low = (uint64_t)fs.f_bavail * LOGS_LOW_PART < fs.f_blocks;
	if (low && !l->low)
		say(l, now, (uint64_t)fs.f_bavail * fs.f_frsize);
	l->low = low;
	return low;
}

static bool is_live(struct gateway *g, const char *name)
{
	list_each(node, &g->sessions)
	{
		const struct session *s = container_of(node, struct session, node);
		size_t len = strlen(s->id);
		if (!strncmp(name, s->id, len) && !strcmp(name + len, ".jsonl"))
			return true;
	}
	return false;
}

static bool is_too_old(struct gateway *g, const char *name)
{
	int64_t before = clock_wall_us() - (int64_t)g->options.log_days * DAY_US;
	const char *dot = strrchr(name, '.');
	struct stat st;

	return dot && !strcmp(dot, ".jsonl") &&
	       fstatat(g->log_dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	       (int64_t)st.st_mtime * 1000 * 1000 <= before && !is_live(g, name);
}

static void end_walk(struct logs *l)
{
	task_cancel(&l->step);
	if (l->walk)
		closedir(l->walk);
	l->walk = NULL;
}

static void on_step(struct task *task)
{
	struct logs *l = container_of(task, struct logs, step);

	for (unsigned i = 0; i < LOGS_STEP; i++) {
		const struct dirent *entry = readdir(l->walk);
		if (!entry) {
			end_walk(l);
			return;
		}
		if (is_too_old(l->g, entry->d_name))
			unlinkat(l->g->log_dir, entry->d_name, 0);
	}
	task_queue_add(&l->g->tasks, &l->step);
}

void logs_sweep(struct logs *l)
{
	if (l->walk)
		return;
	int fd = openat(l->g->log_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	l->walk = fd < 0 ? NULL : fdopendir(fd);
	if (l->walk)
		task_queue_add(&l->g->tasks, &l->step);
	else
		fd_close(&fd);
}

struct logs *logs_new(struct gateway *g)
{
	struct logs *l = mem_new(1, sizeof(*l));

	l->g = g;
	task_init(&l->step, on_step);
	return l;
}

void logs_free(struct logs *l)
{
	if (l)
		end_walk(l);
	free(l);
}
