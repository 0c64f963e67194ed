// SPDX-License-Identifier: Apache-2.0
#include "gateway/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/logs.h"

#define LINE_MAX_BYTES 4096u
#define NAME_SIZE 96u

/* Denials that are the same but for their time. */
struct kind {
	enum egress_code code;
	enum egress_via via;
	int port;
	char host[EGRESS_HOST_MAX + 1]; /* "*": of whatever host, when there are too many kinds */
	bool mixed;
	unsigned written;
	uint64_t counted; /* not written */
};

struct journal {
	struct gateway *g;
	const char *session, *tenant; /* borrowed from the session */
	struct logs_tenant *has;      /* a reference */
	int fd;			      /* owned; -1: not opened yet */
	uint64_t size;
	uv_timer_t *window; /* runs while something is counted; frees itself when closed */
	int64_t window_ms;  /* when this minute began; 0: never */
	unsigned denials;
	unsigned n_kinds;
	struct kind *kinds; /* owned, JOURNAL_KINDS */
	bool failed;	    /* said in the log already */
};

struct journal *journal_new(struct gateway *g, const char *session, const char *tenant)
{
	struct journal *j = mem_new(1, sizeof(*j));

	*j = (struct journal){ .g = g, .session = session, .tenant = tenant, .fd = -1 };
	j->has = logs_tenant(g->logs, tenant);
	return j;
}

static void grow(struct journal *j, size_t n)
{
	logs_grew(j->has, j->size, j->size + n);
	j->size += n;
}

/* A gateway that was killed, or a full disk, may have left half a line, which must not take the
 * next one with it. */
static bool end_torn_line(struct journal *j)
{
	char last = '\n';

	if (j->size > 0 && pread(j->fd, &last, 1, (off_t)j->size - 1) == 1 && last != '\n' &&
	    write(j->fd, "\n", 1) == 1) {
		grow(j, 1);
		last = '\n';
	}
	if (last != '\n')
		fd_close(&j->fd);
	return last == '\n';
}

static bool open_file(struct journal *j)
{
	char name[NAME_SIZE];
	struct stat st;

	if (j->fd >= 0)
		return true;
	snprintf(name, sizeof(name), "%s.jsonl", j->session);
	j->fd = openat(j->g->log_dir, name,
		       O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0640);
	if (j->fd < 0)
		return false;
	if (fstat(j->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		fd_close(&j->fd);
		return false;
	}
	j->size = (uint64_t)st.st_size;
	return end_torn_line(j);
}

/* With its file opened. What ends a connection has room whenever what began it had. */
static bool has_room(struct journal *j, const struct egress_event *e)
{
	uint64_t max = e->open ? JOURNAL_TENANT_SHUT : JOURNAL_TENANT_FULL;

	if (!e->closed && logs_bytes(j->has) >= max) {
		errno = EDQUOT;
		return false;
	}
	if (!open_file(j))
		return false;
	if (e->open && j->size >= JOURNAL_FULL) {
		errno = EFBIG;
		return false;
	}
	return true;
}

/* A line that did not fit whole (full disk) is taken back. */
static bool append(struct journal *j, struct egress_event *e)
{
	_cleanup_buf_ struct buf line = BUF(LINE_MAX_BYTES);

	e->session = j->session;
	e->tenant = j->tenant;
	if (!e->ts_ms)
		e->ts_ms = clock_wall_us() / 1000;
	if (!egress_event_write(e, &line) || !has_room(j, e))
		goto failed;
	ssize_t n = write(j->fd, line.data, line.len);
	if (n == (ssize_t)line.len) {
		grow(j, line.len);
		j->failed = false;
		return true;
	}
	if (n > 0 && ftruncate(j->fd, (off_t)j->size) < 0)
		fd_close(&j->fd);
	if (n >= 0)
		errno = ENOSPC;
failed:
	if (!j->failed)
		log_event(LOG_ERROR, "log_unavailable", LOG_STR("tenant", j->tenant),
			  LOG_STR("session", j->session), LOG_STR("why", strerrordesc_np(errno)));
	j->failed = true;
	return false;
}

static void flush(struct journal *j)
{
	for (unsigned i = 0; i < j->n_kinds; i++) {
		struct kind *k = &j->kinds[i];
		char reason[GATEWAY_REASON_MAX];
		struct egress_event e = {
			.code = k->code,
			.via = k->via,
			.host = k->mixed ? "" : k->host,
			.port = k->port,
			.reason = reason,
			.repeat = k->counted,
		};
		if (!k->counted)
			continue;
		egress_reason(k->code, (uint16_t)(k->port > 0 ? k->port : 0), "denied", reason,
			      sizeof(reason));
		append(j, &e);
	}
	j->n_kinds = 0;
	j->denials = 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
	free(handle);
}

static void on_window(uv_timer_t *timer)
{
	struct journal *j = timer->data;

	flush(j);
	j->window_ms = 0;
}

static void begin_window(struct journal *j)
{
	int64_t now = (int64_t)uv_now(j->g->loop);
	uint64_t length = gateway_ms(j->g, JOURNAL_WINDOW_MS);

	if (j->window_ms && now - j->window_ms < (int64_t)length)
		return;
	flush(j);
	j->window_ms = now ? now : 1;
	if (!j->kinds)
		j->kinds = mem_new(JOURNAL_KINDS, sizeof(*j->kinds));
	if (!j->window) {
		j->window = mem_new(1, sizeof(*j->window));
		uv_timer_init(j->g->loop, j->window);
		j->window->data = j;
	}
	uv_timer_start(j->window, on_window, length, 0);
}

static struct kind *find_kind(struct journal *j, const struct egress_event *e, bool mixed)
{
	const char *host = mixed ? "" : e->host;
	int port = mixed ? -1 : e->port;

	for (unsigned i = 0; i < j->n_kinds; i++) {
		struct kind *k = &j->kinds[i];
		if (k->code == e->code && k->via == e->via && k->port == port &&
		    k->mixed == mixed && !strcmp(k->host, host))
			return k;
	}
	/* The last places are for the mixed ones, one per code and way in. */
	unsigned room = mixed ? JOURNAL_KINDS : JOURNAL_KINDS - EGRESS_CODES * 3u;
	if (j->n_kinds >= room)
		return NULL;
	struct kind *k = &j->kinds[j->n_kinds++];
	*k = (struct kind){ .code = e->code, .via = e->via, .port = port, .mixed = mixed };
	snprintf(k->host, sizeof(k->host), "%s", host);
	return k;
}

static bool write_denial(struct journal *j, struct egress_event *e)
{
	begin_window(j);
	bool big = j->size >= JOURNAL_SIZE_MAX || logs_bytes(j->has) >= JOURNAL_TENANT_MAX ||
		   logs_are_low(j->g->logs);
	struct kind *k = big ? NULL : find_kind(j, e, false);
	bool dns = e->via == EGRESS_DNS;
	if (k && dns && k->written)
		return true;
	bool full = big || j->denials >= JOURNAL_DENIALS_MAX;
	if (!full && (!k || k->written < JOURNAL_SAME_MAX)) {
		if (k)
			k->written++;
		j->denials++;
		return append(j, e);
	}
	if (!k)
		k = find_kind(j, e, true);
	if (k)
		k->counted++;
	return k != NULL;
}

bool journal_write(struct journal *j, struct egress_event *e)
{
	/* The end of an allowed connection is no attempt. */
	if (e->code != EGRESS_OK || !e->closed)
		control_count(j->g, e->code);
	return e->code == EGRESS_OK || e->conn ? append(j, e) : write_denial(j, e);
}

void journal_close(struct journal *j)
{
	flush(j);
	if (j->window)
		uv_close((uv_handle_t *)j->window, on_timer_closed);
	fd_close(&j->fd);
	logs_tenant_drop(j->has);
	free(j->kinds);
	free(j);
}
