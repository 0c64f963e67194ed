// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/attempt.h"
#include "gateway/gateway.h"
#include "gateway/handle.h"
#include "gateway/stub.h"

/* Connections taken per turn of the loop and listener, so that none holds up the others. */
#define ACCEPT_BATCH 16
/* When there is no descriptor left. */
#define ACCEPT_PAUSE_MS 100
#define ACCEPT_SAY_MS 10000

static void on_closed(uv_handle_t *handle)
{
	struct sandbox *sb = handle->data;

	if (--sb->n_handles == 0 && sb->gone)
		free(sb);
}

static void on_ready(uv_poll_t *poll, int status, int events);

static void watch(struct sandbox *sb, bool on)
{
	for (size_t i = 0; i < NET_FDS; i++) {
		struct listener *l = &sb->listeners[i];
		if (l->fd < 0)
			continue;
		if (on)
			uv_poll_start(&l->poll, UV_READABLE, on_ready);
		else
			uv_poll_stop(&l->poll);
	}
	sb->paused = !on;
}

static void on_resume(uv_timer_t *timer)
{
	struct sandbox *sb = timer->data;

	if (!sb->gone && sb->n_pending < GATEWAY_PENDING_MAX)
		watch(sb, true);
}

static void pause_accept(struct sandbox *sb)
{
	static uint64_t said_ms;
	const char *why = strerrordesc_np(errno);

	watch(sb, false);
	uv_timer_start(&sb->resume, on_resume, ACCEPT_PAUSE_MS, 0);
	/* A tenant who can bring this about must not be able to fill the log with it. */
	if (said_ms && uv_now(sb->g->loop) - said_ms < ACCEPT_SAY_MS)
		return;
	said_ms = uv_now(sb->g->loop);
	log_event(LOG_ERROR, "cannot_accept", LOG_STR("why", why));
}

/* False: nothing more to take now. */
static bool accept_one(struct listener *l)
{
	struct sandbox *sb = l->sandbox;
	int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (handle_is_reserved(&fd))
		errno = EMFILE;
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			pause_accept(sb);
		return errno == ECONNABORTED || errno == EINTR;
	}
	attempt_start(sb, l->kind, fd);
	return !sb->paused && !sb->gone;
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
	struct listener *l = container_of(poll, struct listener, poll);

	(void)events;
	if (status < 0) {
		/* Its namespace is going; the launcher says so too. */
		uv_poll_stop(poll);
		return;
	}
	if (!l->sandbox->session)
		control_drain(l->sandbox->g);
	if (l->sandbox->gone)
		return;
	if (l->kind == NET_DNS_UDP) {
		/* Questions wait as connections do; the binding has them read. */
		if (l->sandbox->session || l->sandbox->g->named)
			stub_udp(l->sandbox, l->fd);
		else
			uv_poll_stop(poll);
		return;
	}
	for (int i = 0; i < ACCEPT_BATCH && accept_one(l); i++)
		;
}

static bool socket_is(int fd, int type)
{
	int got, accepts = 0;
	socklen_t len = sizeof(got);

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &got, &len) < 0 || got != type)
		return false;
	len = sizeof(got);
	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &got, &len) < 0 ||
	    (got != AF_INET && got != AF_INET6))
		return false;
	len = sizeof(accepts);
	return type == SOCK_DGRAM ||
	       (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &len) == 0 && accepts);
}

int sandbox_add(struct gateway *g, struct msg_sandbox name, int fds[NET_FDS])
{
	struct sandbox *sb;

	if (name.slot >= LAYOUT_SLOTS)
		return -EPROTO;
	for (size_t i = 0; i < NET_FDS; i++)
		if (!socket_is(fds[i], i == NET_DNS_UDP ? SOCK_DGRAM : SOCK_STREAM))
			return -EPROTO;
	if (g->sandboxes[name.slot])
		return -EPROTO;
	sb = mem_new(1, sizeof(*sb));
	sb->g = g;
	sb->name = name;
	list_init(&sb->attempts);
	for (size_t i = 0; i < NET_FDS; i++) {
		struct listener *l = &sb->listeners[i];
		l->fd = take_fd(&fds[i]);
		l->kind = (enum net_fd)i;
		l->sandbox = sb;
		if (uv_poll_init(g->loop, &l->poll, l->fd) < 0) {
			fd_close(&l->fd);
			continue;
		}
		l->poll.data = sb;
		sb->n_handles++;
	}
	uv_timer_init(g->loop, &sb->resume);
	sb->resume.data = sb;
	sb->n_handles++;
	watch(sb, true);
	g->sandboxes[name.slot] = sb;
	return 0;
}

struct sandbox *sandbox_find(struct gateway *g, struct msg_sandbox name)
{
	struct sandbox *sb = name.slot < LAYOUT_SLOTS ? g->sandboxes[name.slot] : NULL;

	return sb && sb->name.generation == name.generation ? sb : NULL;
}

void sandbox_bind(struct sandbox *sb, struct session *s)
{
	session_ref(s);
	if (sb->session)
		session_unref(sb->session);
	sb->session = s;
	sb->n_told = 0;
	if (!sb->paused)
		watch(sb, true);
	list_each(node, &sb->attempts) attempt_bound(attempt_of_sandbox_node(node));
}

void sandbox_remove(struct sandbox *sb)
{
	sb->gone = true;
	while (!list_is_empty(&sb->attempts))
		attempt_end(attempt_of_sandbox_node(list_first(&sb->attempts)));
	for (size_t i = 0; i < NET_FDS; i++) {
		struct listener *l = &sb->listeners[i];
		if (l->fd < 0)
			continue;
		uv_close((uv_handle_t *)&l->poll, on_closed);
		fd_close(&l->fd);
	}
	uv_close((uv_handle_t *)&sb->resume, on_closed);
	if (sb->session)
		session_unref(sb->session);
	sb->session = NULL;
	sb->g->sandboxes[sb->name.slot] = NULL;
}

bool sandbox_may_ask(struct sandbox *sb)
{
	uint64_t now = uv_now(sb->g->loop);
	struct listener *udp = &sb->listeners[NET_DNS_UDP];

	if (now - sb->asked_ms >= GATEWAY_QUESTIONS_MS) {
		sb->asked_ms = now;
		sb->n_asked = 0;
	}
	if (sb->n_asked < GATEWAY_QUESTIONS_MAX) {
		sb->n_asked++;
		return true;
	}
	if (udp->fd >= 0)
		uv_poll_stop(&udp->poll);
	if (!uv_is_active((const uv_handle_t *)&sb->resume))
		uv_timer_start(&sb->resume, on_resume, GATEWAY_QUESTIONS_MS, 0);
	return false;
}

void sandbox_pending_more(struct sandbox *sb)
{
	if (++sb->n_pending >= GATEWAY_PENDING_MAX && !sb->paused)
		watch(sb, false);
}

void sandbox_pending_less(struct sandbox *sb)
{
	if (--sb->n_pending < GATEWAY_PENDING_MAX && sb->paused && !sb->gone &&
	    !uv_is_active((const uv_handle_t *)&sb->resume))
		watch(sb, true);
}

/* FNV-1a; only to tell the few hosts of one command apart. */
static uint64_t hash(const char *text)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return h;
}

void sandbox_denied(struct sandbox *sb, const char *host)
{
	struct gd_denied body = { .sandbox = sb->name };
	uint64_t h = hash(host);

	_Static_assert(sizeof(body.host) > EGRESS_HOST_MAX, "the longest name is whole");
	for (unsigned i = 0; i < sb->n_told; i++)
		if (sb->told[i] == h)
			return;
	if (sb->n_told == ARRAY_SIZE(sb->told))
		return;
	sb->told[sb->n_told++] = h;
	snprintf(body.host, sizeof(body.host), "%s", host);
	control_denied(sb->g, &body);
}
