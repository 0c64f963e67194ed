// SPDX-License-Identifier: Apache-2.0
#include "worker/file-path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/knobs.h"

#define OPEN_RETRIES 128
/* As the kernel's MAXSYMLINKS. */
#define LINK_HOPS 40

static int open_how(int dir, const char *path, int flags, unsigned mode, uint64_t resolve)
{
	struct open_how how = { .flags = (uint64_t)(unsigned)flags | O_CLOEXEC,
				.mode = mode,
				.resolve = resolve | RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS |
					   RESOLVE_NO_XDEV };

	if (knob_off(KNOB_BENEATH))
		how.resolve = 0;
	if (knob_off(KNOB_NOFOLLOW))
		how.flags &= ~(uint64_t)O_NOFOLLOW;
	if (knob_off(KNOB_HASTE))
		nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
	for (int i = 0; i < OPEN_RETRIES; i++) {
		long fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));
		if (fd >= 0)
			return (int)fd;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
	}
	return -EAGAIN;
}

int file_open(int dir, const char *path, int flags, unsigned mode)
{
	return open_how(dir, path, flags, mode, 0);
}

int file_open_plain(int dir, const char *path, int flags, unsigned mode)
{
	return open_how(dir, path, flags, mode, RESOLVE_NO_SYMLINKS);
}

void file_self(int fd, char ret[FILE_SELF])
{
	static const char folder[] = "/proc/self/fd/";
	char digits[3 * sizeof(int)];
	size_t n = 0;

	memcpy(ret, folder, sizeof(folder));
	ret += sizeof(folder) - 1;
	for (unsigned rest = (unsigned)fd; n == 0 || rest > 0; rest /= 10)
		digits[n++] = (char)('0' + rest % 10);
	while (n > 0)
		*ret++ = digits[--n];
	*ret = '\0';
}

static size_t part_end(const struct file_path *p, size_t at)
{
	while (at < p->len && p->text[at] != '/')
		at++;
	return at;
}

static size_t skip_slashes(const struct file_path *p, size_t at)
{
	while (at < p->len && p->text[at] == '/')
		at++;
	return at;
}

static bool is_dots(const struct file_path *p, size_t at, size_t end, size_t dots)
{
	return end - at == dots && memcmp(p->text + at, "..", dots) == 0;
}

/* Moves *at, a component whose parents exist, on to the first component before limit that does not
 * exist. -EAGAIN: they all do. */
static int find_missing(int workspace_fd, struct file_path *p, size_t limit, size_t *at)
{
	while (*at < limit) {
		size_t end = part_end(p, *at);
		char kept = p->text[end];

		p->text[end] = '\0';
		_cleanup_fd_ int fd = file_open(workspace_fd, p->text, O_PATH, 0);
		p->text[end] = kept;
		if (fd == -ENOENT)
			return 0;
		if (fd < 0)
			return fd;
		*at = skip_slashes(p, end);
	}
	return -EAGAIN;
}

/* Cuts the first "name/.." at or after the missing component out. False: there is none. */
static bool cut_missing_pair(struct file_path *p, size_t missing)
{
	size_t name = missing, end;

	for (size_t at = missing; at < p->len; at = skip_slashes(p, end)) {
		end = part_end(p, at);
		if (is_dots(p, at, end, 2)) {
			size_t rest = skip_slashes(p, end);
			memmove(p->text + name, p->text + rest, p->len - rest + 1);
			p->len -= rest - name;
			if (p->len == 0) {
				memcpy(p->text, ".", sizeof("."));
				p->len = 1;
			}
			return true;
		}
		if (!is_dots(p, at, end, 1))
			name = at;
	}
	return false;
}

int file_open_path(int workspace_fd, struct file_path *path, int flags)
{
	size_t at = 0;

	if (path->text[0] == '/')
		return -EXDEV;
	/* Every round cuts something out, or a race made the path whole meanwhile. */
	for (size_t round = 0; round < FILE_PATH_MAX; round++) {
		int fd = file_open(workspace_fd, path->text, flags, 0);
		if (fd != -ENOENT)
			return fd;
		int r = find_missing(workspace_fd, path, path->len, &at);
		if (r < 0 && r != -EAGAIN)
			return r;
		if (r == 0 && !cut_missing_pair(path, at))
			return -ENOENT;
		if (r == -EAGAIN)
			at = 0;
	}
	return -EAGAIN;
}

/* The path names a folder by its form ("", "a/", "a/.."): say so, unless it leads outside. */
static int refuse_folder_form(int workspace_fd, struct file_path *p)
{
	_cleanup_fd_ int fd = file_open_path(workspace_fd, p, O_PATH);

	return fd < 0 && fd != -ENOENT ? fd : -EISDIR;
}

static size_t name_offset(const struct file_path *p)
{
	size_t at = p->len;

	while (at > 0 && p->text[at - 1] != '/')
		at--;
	return at;
}

static bool is_folder_form(const struct file_path *p)
{
	size_t at = name_offset(p);

	return at == p->len || is_dots(p, at, p->len, 1) || is_dots(p, at, p->len, 2);
}

/* Opens what exists of the parents: t->base, t->rest and t->name. The slash before the name, and
 * the one before the rest, become NUL. */
static int open_parent(int workspace_fd, struct file_path *p, struct file_target *t)
{
	size_t at = 0;

	for (size_t round = 0; round < FILE_PATH_MAX; round++) {
		if (p->text[0] == '/')
			return -EXDEV;
		if (is_folder_form(p))
			return refuse_folder_form(workspace_fd, p);
		size_t name = name_offset(p);
		t->name = p->text + name;
		t->rest = "";
		if (name == 0) {
			t->base = file_open(workspace_fd, ".", O_PATH | O_DIRECTORY, 0);
			return t->base < 0 ? t->base : 0;
		}
		p->text[name - 1] = '\0';
		t->base = file_open(workspace_fd, p->text, O_PATH | O_DIRECTORY, 0);
		if (t->base != -ENOENT)
			return t->base < 0 ? t->base : 0;
		p->text[name - 1] = '/';
		int r = find_missing(workspace_fd, p, name, &at);
		if (r < 0 && r != -EAGAIN)
			return r;
		if (r == -EAGAIN) {
			at = 0;
			continue;
		}
		if (cut_missing_pair(p, at))
			continue;
		p->text[name - 1] = '\0';
		t->rest = p->text + at;
		if (at > 0)
			p->text[at - 1] = '\0';
		t->base = file_open(workspace_fd, at > 0 ? p->text : ".", O_PATH | O_DIRECTORY, 0);
		return t->base < 0 ? t->base : 0;
	}
	return -EAGAIN;
}

/* Undoes the cut of open_parent before the name; returns the name's offset. */
static size_t join_name(struct file_path *p, const char *name)
{
	size_t at = (size_t)(name - p->text);

	if (at > 0)
		p->text[at - 1] = '/';
	return at;
}

/* Puts the text of the link in the place of the name. */
static int follow_link(struct file_path *p, const char *name, const char *link, size_t len)
{
	size_t dir = join_name(p, name);

	if (len == 0 || link[0] == '/')
		return -EXDEV;
	if (dir + len + 1 > FILE_PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(p->text + dir, link, len);
	p->len = dir + len;
	p->text[p->len] = '\0';
	return 0;
}

int file_target_find(int workspace_fd, struct file_path *path, struct file_target *ret)
{
	static char link[PATH_MAX];

	for (int hop = 0; hop <= LINK_HOPS; hop++) {
		struct file_target t = { .base = -1 };
		int r = open_parent(workspace_fd, path, &t);
		if (r < 0)
			return r;
		ssize_t n = -1;
		errno = ENOENT;
		if (!*t.rest)
			n = readlinkat(t.base, t.name, link, sizeof(link));
		if (n < 0 && errno == EINVAL) {
			t.exists = fstatat(t.base, t.name, &t.st, AT_SYMLINK_NOFOLLOW) == 0;
			errno = ENOENT;
			if (t.exists && S_ISLNK(t.st.st_mode)) {
				/* Became a link between the two calls: look again. */
				fd_close(&t.base);
				join_name(path, t.name);
				continue;
			}
		}
		if (n < 0 && errno == ENOENT) {
			*ret = t;
			return 0;
		}
		r = n < 0 ? -errno : follow_link(path, t.name, link, (size_t)n);
		fd_close(&t.base);
		if (r < 0)
			return r;
	}
	return -ELOOP;
}

/* "a/./" is a. What is "." alone, or ends in "..", stays. */
static void cut_tail(struct file_path *p)
{
	for (;;) {
		if (p->len > 1 && p->text[p->len - 1] == '/')
			p->len--;
		else if (p->len > 2 && p->text[p->len - 1] == '.' && p->text[p->len - 2] == '/')
			p->len--;
		else
			break;
	}
	p->text[p->len] = '\0';
}

int file_entry_find(int workspace_fd, struct file_path *path, struct file_target *ret)
{
	struct file_target t = { .base = -1 };

	cut_tail(path);
	int r = open_parent(workspace_fd, path, &t);
	if (r < 0)
		return r;
	if (!*t.rest) {
		t.exists = fstatat(t.base, t.name, &t.st, AT_SYMLINK_NOFOLLOW) == 0;
		if (!t.exists && errno != ENOENT) {
			r = -errno;
			fd_close(&t.base);
			return r;
		}
	}
	*ret = t;
	return 0;
}

void file_target_fini(struct file_target *t)
{
	fd_close(&t->base);
}

unsigned file_target_missing(const struct file_target *t)
{
	unsigned n = !t->exists;

	for (const char *at = t->rest; *at; n++) {
		at += strcspn(at, "/");
		at += strspn(at, "/");
	}
	return n;
}

int file_target_make(const struct file_target *t, unsigned *ret_made)
{
	char name[NAME_MAX + 1];
	const char *at = t->rest;
	_cleanup_fd_ int dir = file_open(t->base, ".", O_PATH | O_DIRECTORY, 0);

	*ret_made = 0;
	for (unsigned i = 1; dir >= 0 && *at; i++) {
		size_t len = strcspn(at, "/");
		if (len > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, at, len);
		name[len] = '\0';
		at += len + strspn(at + len, "/");
		if (mkdirat(dir, name, 0755) == 0)
			*ret_made = i;
		else if (errno != EEXIST)
			return -errno;
		/* A link that leads nowhere stands in the way: it is not a folder. */
		int next = file_open(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
		fd_close(&dir);
		dir = next;
	}
	return take_fd(&dir);
}

/* Removes folder number i (from 0) of path, a copy of t->rest that may be changed. */
static void remove_folder(int base, char *path, unsigned i)
{
	char *name = path, *end;

	for (; i > 0; i--) {
		name += strcspn(name, "/");
		name += strspn(name, "/");
	}
	end = name + strcspn(name, "/");
	*end = '\0';
	if (name > path)
		name[-1] = '\0';
	_cleanup_fd_ int dir = file_open(base, name > path ? path : ".", O_PATH | O_DIRECTORY, 0);
	if (dir >= 0)
		unlinkat(dir, name, AT_REMOVEDIR);
}

void file_target_unmake(const struct file_target *t, unsigned made)
{
	static char path[PATH_MAX];
	size_t len = strlen(t->rest);

	if (len >= sizeof(path))
		return;
	while (made > 0) {
		memcpy(path, t->rest, len + 1);
		remove_folder(t->base, path, --made);
	}
}
