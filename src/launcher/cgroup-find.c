// SPDX-License-Identifier: Apache-2.0
/* cgroup-find: reads /proc/self/mountinfo and /proc/self/cgroup (proc(5), cgroups(7)). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"
#include "launcher/cgroup-backend.h"

/* Reads a file of /proc. What is behind the end of the buffer does not matter: a system mounts its
 * hierarchies first. */
static int load(const char *path, char *data, size_t size, struct str *ret, struct err *err)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : 1;
	size_t len = 0;

	while (got > 0 && len < size) {
		got = read(fd, data + len, size - len);
		len += got > 0 ? (size_t)got : 0;
	}
	if (got < 0)
		return err_errno(err, "reading %s", path);
	*ret = (struct str){ data, len };
	return 0;
}

static uint32_t kind_of(struct str word)
{
	static const struct {
		struct str name;
		uint32_t kind;
	} kinds[] = {
		{ { "memory", 6 }, CGROUP_MEMORY },   { { "cpu", 3 }, CGROUP_CPU },
		{ { "cpuacct", 7 }, CGROUP_CPUACCT }, { { "pids", 4 }, CGROUP_PIDS },
		{ { "io", 2 }, CGROUP_IO },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (str_eq(word, kinds[i].name))
			return kinds[i].kind;
	return 0;
}

static uint32_t kinds_of(struct str list, char separator)
{
	uint32_t kinds = 0;
	struct str word;

	while (str_split(&list, separator, &word))
		kinds |= kind_of(word);
	return kinds;
}

static bool copy(char to[CGROUP_PATH_MAX], struct str first, struct str second)
{
	/* "\040" and the like: we have no such mount points and do not want any. */
	if (first.len + second.len >= CGROUP_PATH_MAX || memchr(first.data, '\\', first.len))
		return false;
	memcpy(to, first.data, first.len);
	if (second.len)
		memcpy(to + first.len, second.data, second.len);
	to[first.len + second.len] = '\0';
	return true;
}

/* "36 35 98:0 /root /mount opts [optional ...] - type source superopts" */
static bool parse_mount(struct str line, struct cgroup_mount *m, struct str *ret_root, bool *ret_v2)
{
	struct str field[6], word, type, source, options;

	for (size_t i = 0; i < 6; i++)
		if (!str_split(&line, ' ', &field[i]))
			return false;
	do {
		if (!str_split(&line, ' ', &word))
			return false;
	} while (!str_eq(word, STR("-")));
	if (!str_split(&line, ' ', &type) || !str_split(&line, ' ', &source) ||
	    !str_split(&line, ' ', &options))
		return false;
	*ret_v2 = str_eq(type, STR("cgroup2"));
	if (!*ret_v2 && !str_eq(type, STR("cgroup")))
		return false;
	m->kinds = *ret_v2 ? 0 : kinds_of(options, ',');
	*ret_root = field[3];
	return (*ret_v2 || m->kinds) && copy(m->top, field[4], STR(""));
}

/* Where the calling process is: its line in /proc/self/cgroup, taken relative to the mount's root. */
static int find_own(struct cgroup_mount *m, bool v2, struct str root, struct str groups,
		    struct err *err)
{
	struct str line, number, controllers;

	while (str_split(&groups, '\n', &line)) {
		if (!str_split(&line, ':', &number) || !str_split(&line, ':', &controllers))
			continue;
		if (v2 ? controllers.len != 0 : !(kinds_of(controllers, ',') & m->kinds))
			continue;
		if (root.len > 1 && str_starts(line, root))
			line = str_from(line, root.len);
		if (str_eq(line, STR("/")))
			line.len = 0;
		return copy(m->own, str_of(m->top), line)
			       ? 0
			       : err_set(err, ENAMETOOLONG,
					 "the path of our own cgroup is too long");
	}
	return err_set(err, ENOENT, "/proc/self/cgroup does not name the hierarchy at %s", m->top);
}

static uint32_t kinds_offered(const struct cgroup_mount *m)
{
	char text[CGROUP_PATH_MAX];
	_cleanup_fd_ int dir = open(m->top, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0 || cgroup_get(dir, "cgroup.controllers", text, sizeof(text)) < 0)
		return 0;
	/* v2 always accounts CPU time. */
	return kinds_of(str_of(text), ' ') | CGROUP_CPUACCT;
}

int cgroup_find(struct cgroup_mount *mounts, size_t max, int *ret_version, struct err *err)
{
	static char mounted[65536], groups[4096];
	struct cgroup_mount unified = { .top = "" };
	struct str all, own, line;
	uint32_t seen = 0;
	size_t n = 0;
	int r = load("/proc/self/mountinfo", mounted, sizeof(mounted), &all, err);

	if (r >= 0)
		r = load("/proc/self/cgroup", groups, sizeof(groups), &own, err);
	while (r >= 0 && n < max && str_split(&all, '\n', &line)) {
		struct cgroup_mount m;
		struct str root;
		bool v2;

		if (!parse_mount(line, &m, &root, &v2) || (v2 && *unified.top) || (m.kinds & seen))
			continue;
		r = find_own(&m, v2, root, own, err);
		if (v2)
			unified = m;
		else
			mounts[n++] = m;
		seen |= m.kinds;
	}
	if (r < 0)
		return r;
	*ret_version = n ? 1 : 2;
	/* A hybrid host has an empty v2 tree beside the controllers of v1. */
	if (n == 0 && *unified.top)
		unified.kinds = kinds_offered(&unified);
	if (n == 0 && (unified.kinds & CGROUP_MEMORY))
		mounts[n++] = unified;
	if (n == 0)
		return err_set(err, ENOENT,
			       "no cgroup controllers are mounted: neither v1 (memory, cpu, "
			       "pids) nor v2 with memory");
	return (int)n;
}
