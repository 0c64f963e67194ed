// SPDX-License-Identifier: Apache-2.0
#include "launcher/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/num.h"
#include "launcher/cgroup-backend.h"

/* airlock-<n> / tenants / t<k> / s<m> / a leaf of a persistent sandbox */
#define TREE_DEPTH 5
/* A killed process needs up to 24 ms to go (220 MB resident); a second stands for a loaded machine.
 */
#define KILL_ROUNDS 500
#define KILL_PAUSE_NS 4000000
/* And a second for the directories at the very end. */
#define REMOVE_TRIES 200
#define REMOVE_WAIT_MS 5

static const struct cgroup_backend *backend(const struct cgroup *cg)
{
	return cg->version == 2 ? &cgroup_v2 : &cgroup_v1;
}

/* ---- Small files ------------------------------------------------------------------------------- */

int cgroup_put(int dir, const char *file, const char *text)
{
	_cleanup_fd_ int fd = openat(dir, file, O_WRONLY | O_CLOEXEC);
	size_t len = strlen(text);

	if (fd < 0)
		return -errno;
	return write(fd, text, len) == (ssize_t)len ? 0 : -errno;
}

int cgroup_put_number(int dir, const char *file, uint64_t number)
{
	char text[CGROUP_SHORT];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
	return cgroup_put(dir, file, text);
}

int cgroup_get(int dir, const char *file, char *text, size_t size)
{
	_cleanup_fd_ int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, size - 1);

	if (got < 0)
		return -errno;
	if (got > 0 && text[got - 1] == '\n')
		got--;
	text[got] = '\0';
	return (int)got;
}

bool cgroup_get_number(int dir, const char *file, uint64_t *ret)
{
	char text[CGROUP_SHORT];

	if (cgroup_get(dir, file, text, sizeof(text)) < 0)
		return false;
	if (strcmp(text, "max") == 0 || strcmp(text, "-1") == 0) {
		*ret = UINT64_MAX;
		return true;
	}
	return num_parse(str_of(text), 0, UINT64_MAX, ret);
}

int cgroup_open_dir(int root, const char *path)
{
	return openat(root, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

int cgroup_open_file(int dir, const char *path, const char *file, int flags, int *fd,
		     struct err *err)
{
	fd_close(fd);
	*fd = openat(dir, file, flags | O_CLOEXEC);
	return *fd < 0 ? err_errno(err, "opening %s of cgroup %s", file, path) : 0;
}

int cgroup_root_of(const struct cgroup *cg, uint32_t kind)
{
	for (unsigned i = 0; i < cg->n_roots; i++)
		if (cg->roots[i].kinds & kind)
			return cg->roots[i].fd;
	return -1;
}

int cgroup_make(int dir, const char *path, struct err *err)
{
	if (mkdirat(dir, path, 0755) == 0)
		return 1;
	return errno == EEXIST ? 0 : err_errno(err, "making cgroup %s", path);
}

/* ---- Trees ------------------------------------------------------------------------------------- */

/* The subdirectories of one directory, one by one, without a heap. */
struct names {
	int fd; /* owned */
	long pos, len;
	char name[CGROUP_SHORT];
	_Alignas(struct dirent64) char data[1024];
};

static bool names_next(struct names *n)
{
	for (;;) {
		struct dirent64 *d = (struct dirent64 *)(n->data + n->pos);

		if (n->pos >= n->len) {
			n->len = syscall(SYS_getdents64, n->fd, n->data, sizeof(n->data));
			n->pos = 0;
			if (n->len <= 0)
				return false;
			continue;
		}
		n->pos += d->d_reclen;
		if (d->d_type != DT_DIR || d->d_name[0] == '.' ||
		    strlen(d->d_name) >= sizeof(n->name))
			continue;
		memcpy(n->name, d->d_name, strlen(d->d_name) + 1);
		return true;
	}
}

/* Kills what is in one cgroup but the caller itself. Returns whether somebody was there. */
static bool kill_members(int dir, const char *name)
{
	char path[CGROUP_SHORT + 16], text[4096];
	struct str rest, line;
	bool any = false;
	uint64_t pid;
	int len;

	snprintf(path, sizeof(path), "%s/cgroup.procs", name);
	len = cgroup_get(dir, path, text, sizeof(text));
	rest = (struct str){ text, len > 0 ? (size_t)len : 0 };
	while (str_split(&rest, '\n', &line)) {
		/* A list longer than the buffer may end in half a number: the next round has the
		 * rest. */
		if (len == sizeof(text) - 1 && !rest.data)
			return any;
		if (!num_parse(line, 2, INT32_MAX, &pid) || (pid_t)pid == getpid())
			continue;
		any = true;
		kill((pid_t)pid, SIGKILL);
	}
	return any;
}

/* Removes one empty cgroup; with `ending`, ends its processes first, for a bounded time. */
static void remove_one(int dir, const char *name, bool ending)
{
	for (int round = 0; round < KILL_ROUNDS; round++) {
		bool busy = ending && kill_members(dir, name);

		if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno != EBUSY || !ending)
			return;
		/* Busy without a member to kill: dying tasks, or the caller itself in there. */
		if (!busy && round > KILL_ROUNDS / 10)
			return;
		nanosleep(&(struct timespec){ .tv_nsec = KILL_PAUSE_NS }, NULL);
	}
}

/* Removes every cgroup below top (deepest first) that is empty, or with `ending` can be emptied. */
static void remove_below(int top, bool ending)
{
	struct names stack[TREE_DEPTH] = { { .fd = openat(top, ".",
							  O_RDONLY | O_DIRECTORY | O_CLOEXEC) } };
	unsigned depth = 0;

	while (stack[0].fd >= 0) {
		struct names *n = &stack[depth];
		int child;

		if (names_next(n)) {
			/* All of a sandbox go at once, before the walk waits for any of them. */
			if (ending)
				kill_members(n->fd, n->name);
			child = depth + 1 < TREE_DEPTH
					? openat(n->fd, n->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
					: -1;
			if (child >= 0) {
				stack[++depth] = (struct names){ .fd = child };
				continue;
			}
		} else {
			fd_close(&n->fd);
			if (depth-- == 0)
				return;
		}
		remove_one(stack[depth].fd, stack[depth].name, ending);
	}
}

/* The two directories that are ours; a delegated root may hold others. Daemons first: they could
 * still start sandboxes. */
static void remove_ours(int root, bool ending)
{
	static const char *const ours[] = { "daemons", "tenants" };

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
		_cleanup_fd_ int dir = cgroup_open_dir(root, ours[i]);

		if (dir < 0)
			continue;
		if (ending)
			kill_members(root, ours[i]);
		remove_below(dir, ending);
		remove_one(root, ours[i], ending);
	}
}

/* ---- The whole --------------------------------------------------------------------------------- */

int cgroup_open(struct cgroup *cg, const struct cgroup_config *config, struct err *err)
{
	struct cgroup_mount mounts[CGROUP_JOIN_MAX];
	struct cgroup made = { .config = *config };
	int n = cgroup_find(mounts, CGROUP_JOIN_MAX, &made.version, err);
	int r = n < 0 ? n : backend(&made)->find_roots(&made, mounts, (size_t)n, err);

	for (unsigned i = 0; r >= 0 && i < made.n_roots; i++) {
		remove_ours(made.roots[i].fd, true);
		r = cgroup_make(made.roots[i].fd, "daemons", err);
		if (r >= 0)
			r = cgroup_make(made.roots[i].fd, "tenants", err);
	}
	if (r >= 0)
		r = backend(&made)->settle(&made, err);
	if (r >= 0)
		r = cgroup_limit_tenants(&made, backend(&made)->memory_limit, err);
	if (r < 0) {
		cgroup_close(&made);
		return err_wrap(err, "cgroups");
	}
	*cg = made;
	return 0;
}

void cgroup_close(struct cgroup *cg)
{
	for (unsigned i = 0; i < cg->n_roots; i++)
		fd_close(&cg->roots[i].fd);
	cg->n_roots = 0;
}

void cgroup_remove_all(struct cgroup *cg)
{
	char name[CGROUP_SHORT];

	snprintf(name, sizeof(name), "../airlock-%u", cg->config.server);
	/* The tenants first: v2 gives a directory back only when nothing below has controllers. */
	for (unsigned i = 0; i < cg->n_roots; i++)
		remove_ours(cg->roots[i].fd, false);
	backend(cg)->leave(cg);
	/* What was being built when the builder ended may still be dying in there. */
	int tries = REMOVE_TRIES;
	for (unsigned i = 0; i < cg->n_roots; i++)
		for (;;) {
			remove_ours(cg->roots[i].fd, false);
			if (unlinkat(cg->roots[i].fd, name, AT_REMOVEDIR) == 0 ||
			    (errno != EBUSY && errno != ENOTEMPTY) || tries-- <= 0)
				break;
			poll(NULL, 0, REMOVE_WAIT_MS);
		}
}

void cgroup_remove_other(struct cgroup *cg, uint32_t server)
{
	char name[CGROUP_SHORT];

	snprintf(name, sizeof(name), "../airlock-%u", server);
	for (unsigned i = 0; i < cg->n_roots; i++) {
		_cleanup_fd_ int dir = cgroup_open_dir(cg->roots[i].fd, name);
		if (dir < 0)
			continue;
		remove_ours(dir, true);
		unlinkat(cg->roots[i].fd, name, AT_REMOVEDIR);
	}
}

/* ---- Slots ------------------------------------------------------------------------------------- */

static const char *slot_path(char path[CGROUP_SHORT], uint32_t tenant, uint32_t slot_number)
{
	snprintf(path, CGROUP_SHORT, "tenants/t%u/s%u", tenant, slot_number);
	return path;
}

int cgroup_slot_prepare(struct cgroup *cg, uint32_t tenant, uint32_t slot_number,
			struct cgroup_slot *slot, struct err *err)
{
	char path[CGROUP_SHORT];

	int r = backend(cg)->prepare(cg, tenant, slot_path(path, tenant, slot_number), slot, err);
	/* Nobody but us can change the limits: they are read when the directories are new. */
	if (r == 0 && (slot->fresh || !slot->posture))
		slot->posture = cgroup_slot_posture(cg, tenant, slot_number);
	return r;
}

void cgroup_slot_close(struct cgroup_slot *slot)
{
	fd_close(&slot->into);
	for (unsigned i = 0; i < CGROUP_JOIN_MAX; i++)
		fd_close(&slot->join[i]);
	for (unsigned i = 0; i < LD_SLOT_FDS; i++)
		fd_close(&slot->measure[i]);
	fd_close(&slot->peak);
	fd_close(&slot->members);
	slot->n_join = 0;
	slot->fresh = false;
	slot->posture = 0;
}

int cgroup_slot_remove(struct cgroup *cg, uint32_t tenant, uint32_t slot_number, struct err *err)
{
	char path[CGROUP_SHORT];
	int r = 0;

	slot_path(path, tenant, slot_number);
	for (unsigned i = 0; i < cg->n_roots; i++)
		if (unlinkat(cg->roots[i].fd, path, AT_REMOVEDIR) != 0 && errno != ENOENT)
			r = err_errno(err, "removing cgroup %s", path);
	return r;
}

void cgroup_tenant_remove(struct cgroup *cg, uint32_t tenant)
{
	char path[CGROUP_SHORT];

	snprintf(path, sizeof(path), "tenants/t%u", tenant);
	for (unsigned i = 0; i < cg->n_roots; i++)
		unlinkat(cg->roots[i].fd, path, AT_REMOVEDIR);
}

/* The number in "t<k>" or "s<m>". */
static bool numbered(const char *name, char letter, uint64_t *ret)
{
	return name[0] == letter && num_parse(str_of(name + 1), 0, UINT32_MAX, ret);
}

static int open_list(int dir, const char *name)
{
	return openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

void cgroup_each_slot(struct cgroup *cg, void (*each)(uint32_t tenant, uint32_t slot_number))
{
	uint64_t tenant, slot;

	for (unsigned i = 0; i < cg->n_roots; i++) {
		struct names tenants = { .fd = open_list(cg->roots[i].fd, "tenants") };
		while (names_next(&tenants)) {
			if (!numbered(tenants.name, 't', &tenant))
				continue;
			struct names slots = { .fd = open_list(tenants.fd, tenants.name) };
			while (names_next(&slots))
				if (numbered(slots.name, 's', &slot))
					each((uint32_t)tenant, (uint32_t)slot);
			fd_close(&slots.fd);
		}
		fd_close(&tenants.fd);
	}
}

void cgroup_slot_empty(struct cgroup *cg, uint32_t tenant, uint32_t slot_number)
{
	char path[CGROUP_SHORT];
	_cleanup_fd_ int dir = cgroup_open_dir(cgroup_root_of(cg, CGROUP_MEMORY),
					       slot_path(path, tenant, slot_number));
	uint64_t bytes;

	/* v1 takes any text, v2 how much; both may say EAGAIN or EBUSY when they did what they
	 * could. */
	if (cgroup_get_number(dir, backend(cg)->memory_now, &bytes) && bytes)
		cgroup_put_number(dir, backend(cg)->memory_empty, bytes);
}

uint32_t cgroup_slot_posture(struct cgroup *cg, uint32_t tenant, uint32_t slot_number)
{
	char path[CGROUP_SHORT];

	return backend(cg)->posture(cg, slot_path(path, tenant, slot_number));
}

bool cgroup_slot_holds(struct cgroup *cg, uint32_t tenant, uint32_t slot_number, int pid)
{
	char path[CGROUP_SHORT], name[64], text[4096];
	struct str rest, line;
	unsigned found = 0;

	/* One line per hierarchy, the path last; its head is whatever contains us. */
	snprintf(name, sizeof(name), "/proc/%d/cgroup", pid);
	int len = cgroup_get(AT_FDCWD, name, text, sizeof(text));
	struct str tail = str_of(slot_path(path, tenant, slot_number));
	rest = (struct str){ text, len > 0 ? (size_t)len : 0 };
	while (str_split(&rest, '\n', &line))
		found += line.len > tail.len && line.data[line.len - tail.len - 1] == '/' &&
			 str_eq(str_from(line, line.len - tail.len), tail);
	return cg->n_roots > 0 && found == cg->n_roots;
}
