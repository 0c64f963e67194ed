// SPDX-License-Identifier: Apache-2.0
#include "cli/listen.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "daemon/config.h"

#define STALE_TRIES 20
#define STALE_WAIT_MS 100
#define BACKLOG 4096
/* Whoever may enter the folder may connect; keys decide the rest, as on TCP. */
#define SOCKET_MODE 0666

static int bind_tcp(const struct addrinfo *a)
{
	_cleanup_fd_ int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return take_fd(&fd);
}

static int open_tcp(const char *variable, const struct config_listen *l, int *ret_fd,
		    struct err *err)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
	struct addrinfo *found;
	char port[8];
	int fd = -EADDRNOTAVAIL;

	snprintf(port, sizeof(port), "%u", (unsigned)l->port);
	int r = getaddrinfo(l->host[0] ? l->host : NULL, port, &hints, &found);
	if (r != 0)
		return err_set(err, EADDRNOTAVAIL, "%s: %s: %s", variable, l->host,
			       gai_strerror(r));
	for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
		fd = bind_tcp(a);
	freeaddrinfo(found);
	if (fd < 0)
		return err_set(err, -fd, "%s: cannot bind %s port %u: %s", variable, l->host,
			       (unsigned)l->port, strerrordesc_np(-fd));
	*ret_fd = fd;
	return 0;
}

static bool is_refused(const struct sockaddr_un *un)
{
	_cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return connect(fd, (const struct sockaddr *)un, sizeof(*un)) < 0 && errno == ECONNREFUSED;
}

/* Only a socket, and only when connecting says that nobody has it open. One whose server is about
 * to end is waited for. */
static void remove_stale(const struct sockaddr_un *un)
{
	struct stat st;

	if (lstat(un->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return;
	for (unsigned i = 0; i < STALE_TRIES; i++) {
		if (is_refused(un)) {
			unlink(un->sun_path);
			return;
		}
		poll(NULL, 0, STALE_WAIT_MS);
	}
}

static int open_unix(const char *variable, const char *path, int *ret_fd, struct err *err)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	_cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t len = strlen(path);

	if (len >= sizeof(un.sun_path))
		return err_set(err, ENAMETOOLONG, "%s: a socket's path has at most %zu bytes",
			       variable, sizeof(un.sun_path) - 1);
	memcpy(un.sun_path, path, len + 1);
	remove_stale(&un);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&un, sizeof(un)) < 0 ||
	    chmod(path, SOCKET_MODE) < 0 || listen(fd, BACKLOG) < 0)
		return err_errno(err, "%s: cannot bind %s", variable, path);
	*ret_fd = take_fd(&fd);
	return 0;
}

int listen_open(const char *variable, const char *text, int *ret_fd, struct err *err)
{
	struct config_listen l;

	if (!config_parse_listen(text, &l))
		return err_set(err, EINVAL, "%s: use host:port or unix:<path>", variable);
	return l.path ? open_unix(variable, l.path, ret_fd, err)
		      : open_tcp(variable, &l, ret_fd, err);
}

char *listen_url(const char *text)
{
	struct config_listen l;

	if (!config_parse_listen(text, &l))
		return mem_dup(text);
	if (l.path)
		return mem_printf("unix:%s", l.path);
	if (!l.host[0] || strcmp(l.host, "0.0.0.0") == 0 || strcmp(l.host, "*") == 0)
		return mem_printf("http://127.0.0.1:%u", (unsigned)l.port);
	if (strcmp(l.host, "::") == 0)
		return mem_printf("http://[::1]:%u", (unsigned)l.port);
	return mem_printf(strchr(l.host, ':') ? "http://[%s]:%u" : "http://%s:%u", l.host,
			  (unsigned)l.port);
}
