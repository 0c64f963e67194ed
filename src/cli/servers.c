// SPDX-License-Identifier: Apache-2.0
#include "cli/servers.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/num.h"

#define PROCESSES_MAX 65536
#define LINES_MAX (4u << 20)

/* /proc/<pid>/comm has at most 15 characters. */
#define LAUNCHER "airlock-launche"
#define DAEMON "airlockd"
/* It is started from a memfd. */
#define INIT "memfd:airlock-i"

struct process {
	int pid, parent;
	char name[16];
};

struct processes {
	struct process *items; /* owned */
	size_t n;
};

/* "pid (name) state ppid …"; the name may have anything in it. */
static bool read_process(int pid, struct process *ret)
{
	char path[64], text[512];
	_cleanup_fd_ int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	char *open_at = strchr(text, '('), *close_at = strrchr(text, ')');
	if (!open_at || !close_at || close_at < open_at)
		return false;
	ret->pid = pid;
	snprintf(ret->name, sizeof(ret->name), "%.*s", (int)(close_at - open_at - 1), open_at + 1);
	return sscanf(close_at + 1, " %*c %d", &ret->parent) == 1;
}

static void read_processes(struct processes *p)
{
	DIR *dir = opendir("/proc");
	uint64_t pid;

	p->items = mem_new(PROCESSES_MAX, sizeof(*p->items));
	for (struct dirent *e; dir && p->n < PROCESSES_MAX && (e = readdir(dir));)
		if (num_parse(str_of(e->d_name), 1, INT_MAX, &pid) &&
		    read_process((int)pid, &p->items[p->n]))
			p->n++;
	if (dir)
		closedir(dir);
}

static const struct process *find_process(const struct processes *p, int pid)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->items[i].pid == pid)
			return &p->items[i];
	return NULL;
}

static bool is_named(const struct process *p, const char *name)
{
	return p && strcmp(p->name, name) == 0;
}

/* The launcher that the process belongs to, 0: none. Builder and sweeper are named like it. */
static int launcher_of(const struct processes *all, const struct process *p)
{
	int found = 0;

	for (int depth = 0; p && depth < 64; depth++) {
		if (is_named(p, LAUNCHER))
			found = p->pid;
		p = find_process(all, p->parent);
	}
	return found;
}

/* A sandbox runs something when its init has a child that is no copy of init any more. */
static bool runs_something(const struct processes *all, int init)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->items[i].parent == init && !is_named(&all->items[i], INIT))
			return true;
	return false;
}

static char *state_dir_of(int pid)
{
	char path[64], text[8192];

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	for (char *word = text; word < text + n; word += strlen(word) + 1)
		if (strcmp(word, "--state-dir") == 0 && word + strlen(word) + 1 < text + n)
			return mem_dup(word + strlen(word) + 1);
	return NULL;
}

/* The volume is mounted in the launcher's own mount namespace alone. Plain directories have none:
 * there it is the disk that they lie on. */
static void add_volume(json_t *server, int pid, const char *state_dir)
{
	_cleanup_free_ char *mounted = mem_printf("/proc/%d/root%s/mnt", pid, state_dir);
	_cleanup_free_ char *plain = mem_printf("/proc/%d/root%s/volumes", pid, state_dir);
	struct statvfs fs;

	if (statvfs(mounted, &fs) < 0 && statvfs(plain, &fs) < 0)
		return;
	json_object_set_new(server, "volume_size_bytes",
			    json_integer((json_int_t)(fs.f_blocks * fs.f_frsize)));
	json_object_set_new(server, "volume_free_bytes",
			    json_integer((json_int_t)(fs.f_bavail * fs.f_frsize)));
}

static json_t *describe(const struct processes *all, const struct process *launcher)
{
	_cleanup_free_ char *state_dir = state_dir_of(launcher->pid);
	json_int_t ready = 0, running = 0, daemon = 0;

	for (size_t i = 0; i < all->n; i++) {
		const struct process *p = &all->items[i];
		if (launcher_of(all, p) != launcher->pid)
			continue;
		if (is_named(p, DAEMON))
			daemon = p->pid;
		if (!is_named(p, INIT) || is_named(find_process(all, p->parent), INIT))
			continue;
		if (runs_something(all, p->pid))
			running++;
		else
			ready++;
	}
	/* Not started by `airlock serve`: a test of the launcher's parts. */
	if (!state_dir)
		return json_null();
	json_t *server = json_pack("{s:i, s:s, s:I, s:I, s:I}", "pid", launcher->pid, "state_dir",
				   state_dir, "daemon_pid", daemon, "ready", ready, "running",
				   running);
	add_volume(server, launcher->pid, state_dir);
	return server;
}

json_t *servers_find(void)
{
	struct processes all = { 0 };
	json_t *list = json_array();

	read_processes(&all);
	for (size_t i = 0; i < all.n; i++) {
		json_t *server = NULL;
		if (is_named(&all.items[i], LAUNCHER) &&
		    launcher_of(&all, &all.items[i]) == all.items[i].pid)
			server = describe(&all, &all.items[i]);
		if (json_is_object(server))
			json_array_append(list, server);
		json_decref(server);
	}
	free(all.items);
	return list;
}

/* ---- The journal ----------------------------------------------------------------------------- */

static bool read_journal(struct buf *ret)
{
	char *const argv[] = {
		(char *)(uintptr_t) "journalctl",   (char *)(uintptr_t) "--unit=airlock",
		(char *)(uintptr_t) "--output=cat", (char *)(uintptr_t) "--lines=2000",
		(char *)(uintptr_t) "--quiet",	    NULL
	};
	posix_spawn_file_actions_t actions;
	int pipes[2], status = 1;
	pid_t pid;

	if (access("/run/systemd/system", F_OK) < 0 || pipe2(pipes, O_CLOEXEC) < 0)
		return false;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	int r = posix_spawn(&pid, "/usr/bin/journalctl", &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	fd_close(&pipes[1]);
	for (ssize_t n = 1; r == 0 && n > 0;) {
		char *at = buf_reserve(ret, 65536);
		n = at ? read(pipes[0], at, 65536) : 0;
		ret->len += n > 0 ? (size_t)n : 0;
	}
	fd_close(&pipes[0]);
	if (r == 0)
		waitpid(pid, &status, 0);
	return r == 0 && status == 0;
}

json_t *servers_errors(size_t n)
{
	_cleanup_buf_ struct buf text = BUF(LINES_MAX);
	struct str rest, line;
	json_t *list;

	if (!read_journal(&text))
		return NULL;
	list = json_array();
	rest = buf_str(&text);
	while (rest.data && str_split(&rest, '\n', &line)) {
		json_t *json = json_loadb(line.data, line.len, 0, NULL);
		const char *level = json_string_value(json_object_get(json, "level"));
		if (level && (strcmp(level, "error") == 0 || strcmp(level, "warn") == 0))
			json_array_append(list, json);
		json_decref(json);
		if (json_array_size(list) > n)
			json_array_remove(list, 0);
	}
	return list;
}
