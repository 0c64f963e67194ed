// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "cli/transfer.h"

/* ---- How far it is, for people ---- */

#define BAR_WIDTH 30
#define DRAW_EVERY_MS 100

struct bar {
	const char *name; /* NULL: nobody looks */
	int64_t drawn_ms; /* 0: never */
};

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void draw(const struct bar *bar, uint64_t moved, uint64_t whole)
{
	char line[BAR_WIDTH + 1];
	unsigned full = whole ? (unsigned)((double)moved / (double)whole * BAR_WIDTH) : 0;

	full = full < BAR_WIDTH ? full : BAR_WIDTH;
	memset(line, '.', BAR_WIDTH);
	memset(line, '#', full);
	line[BAR_WIDTH] = '\0';
	if (whole)
		fprintf(stderr, "\r%.40s [%s] %3.0f%% %.1f MB", bar->name, line,
			(double)moved * 100 / (double)whole, (double)moved / 1048576);
	else
		fprintf(stderr, "\r%.40s %.1f MB", bar->name, (double)moved / 1048576);
}

static void on_progress(void *user, uint64_t moved, uint64_t whole)
{
	struct bar *bar = user;
	int64_t now = now_ms();

	if (now - bar->drawn_ms < DRAW_EVERY_MS)
		return;
	bar->drawn_ms = now;
	draw(bar, moved, whole);
}

static void bar_end(const struct bar *bar, const struct client_io *io)
{
	if (!bar->drawn_ms)
		return;
	draw(bar, io->moved, 0);
	/* The percent of before may be longer. */
	fputs("\033[K\n", stderr);
}

static int run(struct client *c, const char *method, const char *path, const char *name,
	       struct client_io io, struct err *err)
{
	struct bar bar = { .name = name };

	if (isatty(STDERR_FILENO)) {
		io.progress = on_progress;
		io.user = &bar;
	}
	int r = client_transfer(c, method, path, &io, err);
	bar_end(&bar, &io);
	return r;
}

/* ---- Up ---- */

static bool is_stdio(const char *name)
{
	return strcmp(name, "-") == 0;
}

int transfer_upload(struct client *c, const char *id, const char *local, const char *remote,
		    struct err *err)
{
	_cleanup_free_ char *path = transfer_route(id, "files", remote);
	_cleanup_fd_ int owned = -1;
	struct client_io io = { .in = STDIN_FILENO, .in_size = CLIENT_SIZE_UNKNOWN, .out = -1 };
	struct stat st;

	if (!is_stdio(local)) {
		io.in = owned = open(local, O_RDONLY | O_CLOEXEC);
		if (owned < 0)
			return err_errno(err, "%s", local);
	}
	if (fstat(io.in, &st) < 0)
		return err_errno(err, "%s", local);
	if (S_ISDIR(st.st_mode))
		return err_set(err, EISDIR, "%s is a folder", local);
	off_t at = S_ISREG(st.st_mode) ? lseek(io.in, 0, SEEK_CUR) : -1;
	if (at >= 0 && at <= st.st_size)
		io.in_size = (uint64_t)(st.st_size - at);
	return run(c, "PUT", path, remote, io, err);
}

/* ---- Down ---- */

/* A file on its way, beside the one that it will be. */
struct draft {
	char *name; /* owned; NULL: bytes go straight to where they belong */
	int fd;	    /* owned */
};

static void draft_fini(struct draft *d)
{
	if (d->name)
		unlink(d->name);
	mem_cleanup(&d->name);
	fd_close(&d->fd);
}

static int draft_open(struct draft *d, const char *local, struct err *err)
{
	struct stat st;
	bool exists = stat(local, &st) == 0;
	mode_t mask = umask(0);

	umask(mask);
	if (exists && !S_ISREG(st.st_mode)) {
		d->fd = open(local, O_WRONLY | O_CLOEXEC);
		return d->fd < 0 ? err_errno(err, "%s", local) : 0;
	}
	char *name = mem_printf("%s.XXXXXX", local);
	d->fd = mkostemp(name, O_CLOEXEC);
	if (d->fd < 0) {
		int r = err_errno(err, "%s", local);
		free(name);
		return r;
	}
	d->name = name;
	if (fchmod(d->fd, exists ? st.st_mode & 0777 : 0666 & ~mask) < 0)
		return err_errno(err, "%s", local);
	return 0;
}

static int draft_commit(struct draft *d, const char *local, struct err *err)
{
	if (!d->name)
		return 0;
	if (rename(d->name, local) < 0)
		return err_errno(err, "%s", local);
	mem_cleanup(&d->name);
	return 0;
}

static int fetch(struct client *c, const char *path, const char *remote, const char *local,
		 struct err *err)
{
	struct draft d = { .fd = -1 };
	struct client_io io = { .in = -1, .out = STDOUT_FILENO };
	int r = 0;

	if (!is_stdio(local)) {
		r = draft_open(&d, local, err);
		io.out = d.fd;
	}
	if (r >= 0)
		r = run(c, "GET", path, remote, io, err);
	if (r >= 0 && !is_stdio(local))
		r = draft_commit(&d, local, err);
	draft_fini(&d);
	return r;
}

int transfer_download(struct client *c, const char *id, const char *remote, const char *local,
		      struct err *err)
{
	_cleanup_free_ char *path = transfer_route(id, "files", remote);

	return fetch(c, path, remote, local, err);
}

int transfer_archive(struct client *c, const char *id, const char *remote, const char *local,
		     struct err *err)
{
	_cleanup_free_ char *path = transfer_route(id, "archive", remote);

	if (is_stdio(local) && isatty(STDOUT_FILENO))
		return err_set(err, EINVAL, "an archive is no text: name a file or a pipe for it");
	return fetch(c, path, remote, local, err);
}
