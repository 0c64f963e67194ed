// SPDX-License-Identifier: Apache-2.0
/*
 * The sockets to the launcher and to airlockd. The launcher is believed; what it sends wrongly ends
 * this process. airlockd is believed about who may reach what, which is its business; a message
 * that is not well-formed, or comes in the wrong state, ends this process too: the launcher starts
 * a new one, and airlockd tells it everything again.
 *
 *   launcher  any of LG_ from the start
 *   airlockd  HELLO: DG_HELLO alone -> OPEN: everything but DG_HELLO; a new socket starts at HELLO
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/attempt.h"
#include "gateway/fetch.h"
#include "gateway/gateway.h"
#include "gateway/handle.h"

#define BIT(type) (UINT64_C(1) << (type))
#define LAUNCHER_ACCEPTED (BIT(LG_SANDBOX) | BIT(LG_GONE) | BIT(LG_DAEMON))
#define DAEMON_OPEN \
	(BIT(DG_SESSION) | BIT(DG_SESSION_END) | BIT(DG_BIND) | BIT(DG_READY) | BIT(DG_LIVE) | \
	 BIT(DG_FETCH) | BIT(DG_FETCH_END))
/* Messages per turn of the loop and socket. */
#define BATCH 64
#define LIVE_MAX (EGRESS_TUNNELS_SESSION * 2u)

static void drain(struct gateway *g, struct peer_link *link, const struct wire_pair *pair,
		  int (*take)(struct gateway *g, struct wire_msg *msg), unsigned max);

static _Noreturn void give_up(const char *peer, int type)
{
	log_event(LOG_ERROR, "message_refused", LOG_STR("peer", peer), LOG_INT("type", type));
	_exit(1);
}

/* ---- airlockd ---- */

void control_denied(struct gateway *g, const struct gd_denied *body)
{
	/* A full socket loses it: the answer of that command then names fewer hosts. */
	if (g->daemon.fd >= 0)
		wire_send(g->daemon.fd, GD_DENIED, 0, body, sizeof(*body), NULL, 0);
}

/* What a full socket loses is in the next one: they are sums. */
static void send_counted(struct gateway *g)
{
	struct gd_counted body = { 0 };

	_Static_assert(EGRESS_CODES <= GD_CODES_MAX, "fits");
	memcpy(body.codes, g->counted, sizeof(g->counted));
	if (g->daemon.fd >= 0)
		wire_send(g->daemon.fd, GD_COUNTED, 0, &body, sizeof(body), NULL, 0);
}

static void on_counted(uv_timer_t *timer)
{
	send_counted(timer->data);
}

void control_count(struct gateway *g, enum egress_code code)
{
	g->counted[code]++;
	if (g->counted_timer && !uv_is_active((uv_handle_t *)g->counted_timer))
		uv_timer_start(g->counted_timer, on_counted, GATEWAY_COUNTED_MS, 0);
}

static int on_daemon_hello(struct gateway *g, const struct wire_msg *msg)
{
	struct msg_hello hello;

	memcpy(&hello, msg->body, sizeof(hello));
	if (strncmp(hello.build, ipc_build_id, sizeof(hello.build)))
		return -EPROTO;
	g->daemon.accepted = DAEMON_OPEN;
	return 0;
}

static int on_live(struct gateway *g, const struct wire_msg *msg)
{
	struct egress_live rows[LIVE_MAX];
	struct gd_live body = { 0 };
	struct dg_session want;
	_cleanup_fd_ int fd = memfd_create("egress", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	memcpy(&want, msg->body, sizeof(want));
	struct session *s = session_find(g, want.session);
	if (s)
		list_each(node, &s->attempts) if (body.n < LIVE_MAX)
			body.n += attempt_live(attempt_of_session_node(node), &rows[body.n]);
	size_t len = body.n * sizeof(rows[0]);
	if (fd < 0 || (len && write(fd, rows, len) != (ssize_t)len) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return 0; /* airlockd does not wait for long */
	wire_send(g->daemon.fd, GD_LIVE, msg->head.id, &body, sizeof(body), &fd, 1);
	return 0;
}

static int take_from_launcher(struct gateway *g, struct wire_msg *msg);

static int on_bind(struct gateway *g, const struct wire_msg *msg)
{
	struct dg_bind body;

	memcpy(&body, msg->body, sizeof(body));
	struct sandbox *sb = sandbox_find(g, body.sandbox);
	if (!sb) {
		/* The launcher told of it before airlockd could know it: it is in the socket. */
		int asked_by = g->daemon.fd;
		drain(g, &g->launcher, &wire_lg, take_from_launcher, UINT16_MAX);
		if (g->daemon.fd != asked_by)
			return 0; /* another airlockd has come; it will say this itself */
		sb = sandbox_find(g, body.sandbox);
	}
	struct session *s = session_find(g, body.session);
	if (!s)
		return -EPROTO;
	if (sb)
		sandbox_bind(sb, s);
	return 0;
}

static int take_from_daemon(struct gateway *g, struct wire_msg *msg)
{
	struct dg_session body;
	struct session *s;

	switch (msg->head.type) {
	case DG_HELLO:
		return on_daemon_hello(g, msg);
	case DG_SESSION:
		memcpy(&body, msg->body, sizeof(body));
		return session_add(g, body.session, msg->fds[0]);
	case DG_SESSION_END:
		memcpy(&body, msg->body, sizeof(body));
		s = session_find(g, body.session);
		if (!s)
			return -EPROTO;
		session_end(s);
		return 0;
	case DG_BIND:
		return on_bind(g, msg);
	case DG_READY:
		g->named = true;
		sessions_end_stale(g);
		return 0;
	case DG_LIVE:
		return on_live(g, msg);
	case DG_FETCH:
		return fetch_start(g, msg);
	case DG_FETCH_END:
		fetch_end(g, msg->head.id);
		return 0;
	}
	return -EPROTO;
}

/* ---- The launcher ---- */

static void on_daemon(uv_poll_t *poll, int status, int events);

static int on_new_daemon(struct gateway *g, struct wire_msg *msg)
{
	struct msg_hello hello = { 0 };

	fetches_end(g);
	handle_drop_poll(&g->daemon.poll);
	fd_close(&g->daemon.fd);
	g->daemon.fd = take_fd(&msg->fds[0]);
	g->daemon.accepted = BIT(DG_HELLO);
	uv_timer_stop(g->alone);
	g->daemon.poll = handle_poll(g->loop, g->daemon.fd, g);
	if (!g->daemon.poll)
		return -EPROTO;
	uv_poll_start(g->daemon.poll, UV_READABLE, on_daemon);
	sessions_mark_stale(g);
	snprintf(hello.build, sizeof(hello.build), "%s", ipc_build_id);
	wire_send(g->daemon.fd, GD_HELLO, 0, &hello, sizeof(hello), NULL, 0);
	send_counted(g);
	return 0;
}

static int take_from_launcher(struct gateway *g, struct wire_msg *msg)
{
	struct msg_sandbox name;
	struct sandbox *sb;

	switch (msg->head.type) {
	case LG_SANDBOX:
		memcpy(&name, msg->body, sizeof(name));
		return sandbox_add(g, name, msg->fds);
	case LG_GONE:
		memcpy(&name, msg->body, sizeof(name));
		sb = sandbox_find(g, name);
		if (sb)
			sandbox_remove(sb);
		return 0;
	case LG_DAEMON:
		return on_new_daemon(g, msg);
	}
	return -EPROTO;
}

/* ---- Both ---- */

/* Either no airlockd comes up, or one has given this process up: only a new one is connected. */
static void on_alone(uv_timer_t *timer)
{
	struct gateway *g = timer->data;

	log_event(LOG_ERROR, "airlockd_missing");
	uv_stop(g->loop);
}

static void ended(struct gateway *g, struct peer_link *link)
{
	handle_drop_poll(&link->poll);
	fd_close(&link->fd);
	if (link == &g->launcher) {
		uv_stop(g->loop);
		return;
	}
	fetches_end(g);
	uv_timer_start(g->alone, on_alone, GATEWAY_ALONE_MS, 0);
}

static void drain(struct gateway *g, struct peer_link *link, const struct wire_pair *pair,
		  int (*take)(struct gateway *g, struct wire_msg *msg), unsigned max)
{
	for (unsigned n = 0; n < max && link->fd >= 0; n++) {
		int fd = link->fd;
		struct wire_msg msg;
		int r = wire_recv(link->fd, pair, &msg);
		if (r == -EAGAIN)
			return;
		if (r == -EMFILE || r == -ENOMEM || r == -ENOBUFS)
			give_up("descriptors", 0);
		if (r == 0 || (r < 0 && r != -EPROTO)) {
			ended(g, link);
			return;
		}
		if (r < 0 || !wire_allow(link->accepted, msg.head.type) || take(g, &msg) < 0)
			give_up(link == &g->launcher ? "launcher" : "airlockd",
				r < 0 ? 0 : msg.head.type);
		wire_msg_fini(&msg);
		if (link->fd != fd)
			return;
	}
}

void control_drain(struct gateway *g)
{
	drain(g, &g->launcher, &wire_lg, take_from_launcher, UINT16_MAX);
	drain(g, &g->daemon, &wire_dg, take_from_daemon, UINT16_MAX);
}

static void on_daemon(uv_poll_t *poll, int status, int events)
{
	struct gateway *g = poll->data;

	(void)status;
	(void)events;
	drain(g, &g->daemon, &wire_dg, take_from_daemon, BATCH);
}

static void on_launcher(uv_poll_t *poll, int status, int events)
{
	struct gateway *g = poll->data;

	(void)status;
	(void)events;
	drain(g, &g->launcher, &wire_lg, take_from_launcher, BATCH);
}

int control_open(struct gateway *g, int launcher_fd, struct err *err)
{
	struct msg_hello hello = { 0 };

	g->daemon.fd = -1;
	g->alone = handle_timer(g->loop, g);
	g->counted_timer = handle_timer(g->loop, g);
	g->launcher.fd = launcher_fd;
	g->launcher.accepted = LAUNCHER_ACCEPTED;
	g->launcher.poll = handle_poll(g->loop, launcher_fd, g);
	if (!g->launcher.poll)
		return err_set(err, EBADF, "cannot watch the launcher's socket");
	uv_poll_start(g->launcher.poll, UV_READABLE, on_launcher);
	snprintf(hello.build, sizeof(hello.build), "%s", ipc_build_id);
	int r = wire_send(launcher_fd, GL_HELLO, 0, &hello, sizeof(hello), NULL, 0);
	return r < 0 ? err_set(err, -r, "cannot reach the launcher") : 0;
}

void control_close(struct gateway *g)
{
	handle_drop_poll(&g->launcher.poll);
	handle_drop_poll(&g->daemon.poll);
	handle_drop_timer(&g->alone);
	handle_drop_timer(&g->counted_timer);
	fd_close(&g->launcher.fd);
	fd_close(&g->daemon.fd);
}
