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

/* The name is in it: ts, decision, session and tenant come first. */
#define HEAD_SIZE 2048u

struct logs_tenant {
	struct list node;
	unsigned refs;
	uint64_t bytes;
	uint64_t found; /* by the count that goes on */
	char name[];
};

struct logs {
	struct gateway *g;
	bool low;
	int64_t looked_ms, said_ms; /* 0: never */
	DIR *walk;		    /* owned; NULL: no sweep goes on */
	struct task step;	    /* of it */
	bool counts;		    /* that sweep */
	unsigned n_sweeps;
	struct list tenants;
};

/* ---- Room ---- */

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

/* ---- What each tenant has ---- */

static struct logs_tenant *get_tenant(struct logs *l, struct str name)
{
	list_each(node, &l->tenants)
	{
		struct logs_tenant *t = container_of(node, struct logs_tenant, node);
		if (str_eq(name, str_of(t->name)))
			return t;
	}
	struct logs_tenant *t = mem_new(1, sizeof(*t) + name.len + 1);
	memcpy(t->name, name.data, name.len);
	list_append(&l->tenants, &t->node);
	return t;
}

struct logs_tenant *logs_tenant(struct logs *l, const char *name)
{
	struct logs_tenant *t = get_tenant(l, str_of(name));

	t->refs++;
	return t;
}

void logs_tenant_drop(struct logs_tenant *t)
{
	t->refs--;
}

uint64_t logs_bytes(const struct logs_tenant *t)
{
	return t->bytes;
}

static uint64_t pages(uint64_t size)
{
	return (size + LOGS_PAGE - 1) / LOGS_PAGE * LOGS_PAGE;
}

void logs_grew(struct logs_tenant *t, uint64_t from, uint64_t to)
{
	t->bytes += pages(to) - pages(from);
	t->found += pages(to) - pages(from);
}

static void begin_count(struct logs *l)
{
	list_each(node, &l->tenants) container_of(node, struct logs_tenant, node)->found = 0;
}

static void end_count(struct logs *l)
{
	list_each(node, &l->tenants)
	{
		struct logs_tenant *t = container_of(node, struct logs_tenant, node);
		t->bytes = t->found;
		if (t->bytes || t->refs)
			continue;
		list_remove(node);
		free(t);
	}
}

/* NULL: it is not known. */
static struct logs_tenant *tenant_of(struct logs *l, const char *file)
{
	static const char before[] = "\",\"tenant\":\"";
	char head[HEAD_SIZE];
	_cleanup_fd_ int fd =
		openat(l->g->log_dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : pread(fd, head, sizeof(head), 0);
	const char *name = n < 0 ? NULL : memmem(head, (size_t)n, before, sizeof(before) - 1);

	if (!name)
		return NULL;
	name += sizeof(before) - 1;
	const char *end = memchr(name, '"', (size_t)(head + n - name));
	return end ? get_tenant(l, (struct str){ name, (size_t)(end - name) }) : NULL;
}

/* ---- The sweep ---- */

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

static bool is_too_old(struct gateway *g, const char *name, const struct stat *st)
{
	int64_t before = clock_wall_us() - (int64_t)g->options.log_days * DAY_US;

	return (int64_t)st->st_mtime * 1000 * 1000 <= before && !is_live(g, name);
}

static void look_at(struct logs *l, const char *name)
{
	int dir = l->g->log_dir;
	const char *dot = strrchr(name, '.');
	struct stat st;

	if (!dot || strcmp(dot, ".jsonl") || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(st.st_mode))
		return;
	bool old = is_too_old(l->g, name, &st);
	/* A count has what stays; between counts, what goes is taken off. */
	struct logs_tenant *t = l->counts == old ? NULL : tenant_of(l, name);
	uint64_t bytes = pages((uint64_t)st.st_size);
	if (old && unlinkat(dir, name, 0) < 0)
		return;
	if (t && old)
		t->bytes -= bytes < t->bytes ? bytes : t->bytes;
	else if (t)
		t->found += bytes;
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
	int64_t began_ms = clock_monotonic_ms();

	for (unsigned i = 0; i < LOGS_STEP && clock_monotonic_ms() - began_ms < LOGS_STEP_MS; i++) {
		const struct dirent *entry = readdir(l->walk);
		if (!entry) {
			end_walk(l);
			if (l->counts)
				end_count(l);
			return;
		}
		look_at(l, entry->d_name);
	}
	task_queue_add(&l->g->tasks, &l->step);
}

void logs_sweep(struct logs *l)
{
	if (l->walk)
		return;
	int fd = openat(l->g->log_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	l->walk = fd < 0 ? NULL : fdopendir(fd);
	if (!l->walk) {
		fd_close(&fd);
		return;
	}
	l->counts = l->n_sweeps++ % LOGS_COUNT_EVERY == 0;
	begin_count(l);
	task_queue_add(&l->g->tasks, &l->step);
}

struct logs *logs_new(struct gateway *g)
{
	struct logs *l = mem_new(1, sizeof(*l));

	l->g = g;
	list_init(&l->tenants);
	task_init(&l->step, on_step);
	return l;
}

void logs_free(struct logs *l)
{
	if (!l)
		return;
	end_walk(l);
	list_each(node, &l->tenants) free(container_of(node, struct logs_tenant, node));
	free(l);
}
