// SPDX-License-Identifier: Apache-2.0
/*
 * Accepting. We call accept4 ourselves instead of uv_listen, because running out of descriptors
 * must be answered with 503 and not with a reset: one descriptor is kept in reserve, given up to
 * accept the client, tell it and hang up, and taken again. When not even that works, the listener
 * rests until the next sweep instead of spinning on a socket that stays readable.
 */
#include "http/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

/* Connections accepted before others get a turn. */
#define ACCEPTS_A_TURN 16
#define COMPLAIN_MS 60000

static struct http_conn *oldest_idle(struct http_server *server, const struct source *source)
{
	list_each(at, &server->idle)
	{
		struct http_conn *conn = container_of(at, struct http_conn, idle);
		if (!source || conn->source == source)
			return conn;
	}
	return NULL;
}

bool accept_attribute(struct http_conn *conn, const struct inet_addr *addr)
{
	struct http_server *server = conn->server;
	unsigned share = server->config.max_connections / 4;

	if (conn->source && source_is_of(conn->source, addr))
		return true;
	source_release(take_ptr(conn->source));
	conn->source = source_take(&server->sources, addr);
	if (conn->source->n <= (share ? share : 1))
		return true;
	struct http_conn *idle = oldest_idle(server, conn->source);
	if (!idle)
		return false;
	conn_close(idle);
	return true;
}

void accept_discount(struct http_conn *conn)
{
	source_release(take_ptr(conn->source));
	if (conn->is_refused)
		return;
	conn->is_refused = true;
	conn->server->n_conns--;
	conn->server->n_refused++;
}

/* Said once a minute at most. */
static void complain(struct http_server *server, const char *event)
{
	int64_t now_ms = clock_monotonic_ms();

	if (server->complained_ms && now_ms - server->complained_ms < COMPLAIN_MS)
		return;
	server->complained_ms = now_ms;
	log_event(LOG_WARN, event, LOG_INT("connections", server->n_conns),
		  LOG_STR("why", strerrordesc_np(errno)));
}

/* ---- A client that gets no connection ---- */

/* Says 503 without giving the socket a place. What the client has sent already is read, because a
 * close on unread bytes is a reset that can overtake the answer. */
static void turn_away(struct http_server *server, int fd)
{
	char text[1024], sink[4096];
	size_t len = refuse_text(server, 503, text, sizeof(text));

	if (send(fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;
	shutdown(fd, SHUT_WR);
	for (int i = 0; i < 16 && recv(fd, sink, sizeof(sink), MSG_DONTWAIT) > 0; i++)
		;
}

static void reserve_take(struct http_server *server)
{
	if (server->reserve_fd < 0)
		server->reserve_fd = fcntl(server->config.listen_fd, F_DUPFD_CLOEXEC, 0);
}

/* No descriptor was left for a new connection. False when the listener must rest. */
static bool out_of_descriptors(struct http_server *server)
{
	struct http_conn *idle = oldest_idle(server, NULL);

	if (idle) {
		conn_close(idle);
		return true;
	}
	if (server->reserve_fd < 0)
		return false;
	fd_close(&server->reserve_fd);
	_cleanup_fd_ int fd =
		accept4(server->config.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		turn_away(server, fd);
	fd_close(&fd);
	reserve_take(server);
	return true;
}

/* ---- Accepting ---- */

static void admit(struct http_server *server, int fd, const struct sockaddr_storage *from)
{
	_cleanup_fd_ int owned = fd;
	struct inet_addr addr;
	bool has_addr = inet_addr_of((const struct sockaddr *)from, &addr);
	bool refused = false;

	if (server->n_conns >= server->config.max_connections) {
		struct http_conn *idle = oldest_idle(server, NULL);
		if (idle)
			conn_close(idle);
		refused = server->n_conns >= server->config.max_connections;
	}
	if (refused && server->n_refused >= MAX_REFUSED)
		turn_away(server, owned);
	else
		conn_start(server, take_fd(&owned), has_addr ? &addr : NULL, refused);
}

/* One connection. False when there is none, or none can be taken now. */
static bool accept_one(struct http_server *server)
{
	struct sockaddr_storage from = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(from);
	int fd = accept4(server->config.listen_fd, (struct sockaddr *)&from, &len,
			 SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0) {
		admit(server, fd, &from);
		return true;
	}
	switch (errno) {
	case EAGAIN:
		return false;
	case EMFILE:
	case ENFILE:
		complain(server, "out_of_descriptors");
		if (out_of_descriptors(server))
			return true;
		break;
	case ENOMEM:
	case ENOBUFS:
		break;
	default: /* EINTR, and what became of that one client (accept(2)) */
		return true;
	}
	complain(server, "accept_paused");
	server->accept_paused = true;
	uv_poll_stop(&server->listener);
	server_start_timer(server);
	return false;
}

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
	for (int i = 0; i < ACCEPTS_A_TURN && accept_one(poll->data); i++)
		;
}

void accept_sweep(struct http_server *server)
{
	if (!server->accept_paused || !server->is_listening)
		return;
	reserve_take(server);
	server->accept_paused = false;
	uv_poll_start(&server->listener, UV_READABLE, on_acceptable);
}

static void on_listener_closed(uv_handle_t *handle)
{
	struct http_server *server = handle->data;

	fd_close(&server->config.listen_fd);
	server_handle_closed(server);
}

void accept_close(struct http_server *server)
{
	if (!server->is_listening)
		return;
	server->is_listening = false;
	fd_close(&server->reserve_fd);
	uv_close((uv_handle_t *)&server->listener, on_listener_closed);
}

int accept_open(struct http_server *server, struct err *err)
{
	int fd = server->config.listen_fd, one = 1;
	struct sockaddr_storage own = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(own);

	if (getsockname(fd, (struct sockaddr *)&own, &len) < 0)
		return err_errno(err, "the listening socket");
	if (own.ss_family != AF_UNIX) {
		/* Accepted sockets inherit both (tcp(7) options are copied from the listener). */
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	}
	reserve_take(server);
	if (server->reserve_fd < 0)
		return err_errno(err, "a descriptor in reserve");
	int r = uv_poll_init(server->loop, &server->listener, fd);
	if (r < 0) {
		fd_close(&server->reserve_fd);
		return err_set(err, -r, "the listening socket: %s", uv_strerror(r));
	}
	server->listener.data = server;
	server->n_handles++;
	server->is_listening = true;
	uv_poll_start(&server->listener, UV_READABLE, on_acceptable);
	return 0;
}
