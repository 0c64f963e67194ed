// SPDX-License-Identifier: Apache-2.0
/*
 * Volumes that a start could not explain: an older database was put back, or somebody else's. They
 * stay where they are for the time in which an operator may notice, then they are deleted. A file
 * lists them, "<name> <seconds>" a line, for `airlock volume purge` and for the next start: seconds
 * of a running server in which they were lost, because the clock on the wall may be set.
 *
 * More than a few new ones at once are a mistake that only the operator can judge: no start. The
 * same is any at all beside a database that was emptied.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "core/parts.h"
#include "store/store.h"

#define KEPT_SECONDS (7u * 86400)
#define TICK_US (3600 * 1000000ll)
/* Of a list; more lines than that are forgotten, and their seconds begin anew. */
#define FILE_SIZE (256u * 1024)

struct lost_volume {
	char id[SESSION_ID_LEN + 1];
	uint64_t seconds;
	bool known; /* the last start listed it */
	bool over;  /* its time is; it stays in the list until it is deleted */
	struct lost_volume *next;
};

static struct lost_volume *find(const struct core *c, struct str id)
{
	struct lost_volume *v = c->lost;

	while (v && !str_eq(str_of(v->id), id))
		v = v->next;
	return v;
}

void lost_add(struct core *c, const char *id)
{
	struct lost_volume *v = mem_new(1, sizeof(*v));

	snprintf(v->id, sizeof(v->id), "%s", id);
	v->next = c->lost;
	c->lost = v;
	c->n_lost++;
}

static void read_line(struct core *c, struct str line)
{
	struct str id, rest = line;
	struct lost_volume *v = str_split(&rest, ' ', &id) ? find(c, id) : NULL;

	if (!v)
		return;
	v->known = true;
	/* What is not a number is the first line of anything: it begins anew. */
	if (!num_parse(rest, 0, UINT32_MAX, &v->seconds))
		v->seconds = 0;
}

static void read_file(struct core *c)
{
	_cleanup_free_ char *text = mem_new(1, FILE_SIZE);
	_cleanup_fd_ int fd = open(c->config.lost_file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, FILE_SIZE);
	struct str rest = { text, n > 0 ? (size_t)n : 0 }, line;

	while (rest.len && str_split(&rest, '\n', &line))
		read_line(c, line);
}

/* As a whole or not at all. */
static void write_file(const struct core *c)
{
	_cleanup_free_ char *path = mem_printf("%s.new", c->config.lost_file);
	_cleanup_fd_ int fd =
		open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	bool good = fd >= 0;

	for (const struct lost_volume *v = c->lost; v && good; v = v->next)
		good = dprintf(fd, "%s %llu\n", v->id, (unsigned long long)v->seconds) > 0;
	if (good)
		good = fsync(fd) == 0;
	if (good)
		good = rename(path, c->config.lost_file) == 0;
	if (!good)
		log_event(LOG_ERROR, "lost_volumes_not_listed", LOG_STR("file", path),
			  LOG_STR("why", strerrordesc_np(errno)));
}

struct burial {
	struct core *c;
	char id[SESSION_ID_LEN + 1];
};

/* One that could not be deleted is tried again by the next tick. */
static void on_deleted(void *data, const struct err *err)
{
	_cleanup_free_ struct burial *b = data;
	struct core *c = b->c;
	struct lost_volume **at = &c->lost, *v;

	while ((v = *at) && strcmp(v->id, b->id) != 0)
		at = &v->next;
	if (v && err) {
		v->over = false;
	} else if (v) {
		log_event(LOG_WARN, "lost_volume_deleted", LOG_STR("volume", v->id));
		*at = v->next;
		c->n_lost--;
		free(v);
		write_file(c);
	}
	core_release(c);
}

static void delete_old(struct core *c)
{
	for (struct lost_volume *v = c->lost; v; v = v->next) {
		if (v->seconds < KEPT_SECONDS || v->over)
			continue;
		struct burial *b = mem_new(1, sizeof(*b));
		b->c = c;
		memcpy(b->id, v->id, sizeof(b->id));
		v->over = true;
		core_hold(c);
		runtime_volume_delete(c->runtime, v->id, on_deleted, b);
	}
}

static int check_emptied(struct core *c, struct err *err)
{
	if (!store_was_emptied(c->store))
		return 0;
	if (c->n_lost && !c->config.accept_lost)
		return err_set(err, EUCLEAN,
			       "SANDBOX_STATE_DIR: the database was there and empty, and %u "
			       "workspaces and snapshots are; put a backup in its place (airlock "
			       "restore), or start with --accept-lost to serve without them (they "
			       "are kept for 7 days)",
			       c->n_lost);
	return store_accept_emptied(c->store, err);
}

int lost_settle(struct core *c, struct err *err)
{
	unsigned new = 0;
	int r;

	if (!c->config.lost_file)
		return 0;
	r = check_emptied(c, err);
	if (r < 0)
		return r;
	read_file(c);
	for (const struct lost_volume *v = c->lost; v; v = v->next)
		new += !v->known;
	if (c->config.lost_max && new > c->config.lost_max)
		return err_set(err, EUCLEAN,
			       "SANDBOX_STATE_DIR: the database explains none of %u workspaces and "
			       "snapshots; was an older one put back? Put the right one back, or "
			       "start with --accept-lost to serve without them (they are kept for "
			       "7 days)",
			       new);
	c->lost_at_us = clock_monotonic_us();
	write_file(c);
	delete_old(c);
	return 0;
}

void lost_tick(struct core *c, int64_t now_us)
{
	int64_t passed = now_us - c->lost_at_us;

	if (!c->lost || !c->config.lost_file || passed < TICK_US)
		return;
	c->lost_at_us = now_us;
	for (struct lost_volume *v = c->lost; v; v = v->next)
		v->seconds += (uint64_t)passed / 1000000;
	write_file(c);
	delete_old(c);
}

void lost_free(struct core *c)
{
	for (struct lost_volume *v = c->lost, *next; v; v = next) {
		next = v->next;
		free(v);
	}
	c->lost = NULL;
}

unsigned core_lost_volumes(const struct core *c)
{
	return c->n_lost;
}
