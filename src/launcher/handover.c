// SPDX-License-Identifier: Apache-2.0
/*
 * The hand-over role, which is the launcher's main process: it supervises the other processes,
 * knows every sandbox, and attaches workspaces. One poll loop, fixed tables, nothing that waits.
 *
 * A sandbox (slot, generation):
 *
 *   FREE -> BUILDING (asked of the builder) -> BLANK (announced to airlockd) -> USED (workspace
 * handed over) -> FREE (reaped: no process of it lives). A kill is asked for in any state and is
 * complete when the process was reaped.
 *
 * Invariants
 *   1  A sandbox is announced to airlockd only after it stands in the table: "ready" implies
 * "known". 2  A generation is never used twice while this process lives; a message about an old one
 * is void. 3  A workspace, and what it is to be copied from, is attached only where the tenant
 * numbers of volume and sandbox are equal, at most once per sandbox. 4  The copy of airlockd's
 * control socket is never read here; it only keeps the channel whole when airlockd is replaced. 5
 * The end of airlockd, builder, sweeper or gateway ends no sandbox; the end of this process ends
 * all of them (lifeline).
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "launcher/handover.h"

#define RETIRE_AFTER_MS (5 * 60 * 1000)
/* Besides the time that it gives commands. */
#define STOP_DAEMON_MS 3000
#define STOP_ALL_MS 2000
#define STOP_GATEWAY_MS 1000
#define ENDING_MS 3000
#define AGAIN_MS 100
/* So that one peer that floods keeps no other waiting. */
#define MESSAGES_PER_TURN 32

struct handover h;

/* ---- Sandboxes ---- */

struct msg_sandbox sandbox_name(const struct sandbox *s)
{
	return (struct msg_sandbox){ (uint32_t)(s - h.sandboxes), s->generation };
}

struct sandbox *sandbox_find(struct msg_sandbox name)
{
	if (name.slot >= LAYOUT_SLOTS)
		return NULL;
	struct sandbox *s = &h.sandboxes[name.slot];
	return s->state != FREE && s->generation == name.generation ? s : NULL;
}

static void reap(void);

void sandbox_release(struct sandbox *s)
{
	if (s->state != BUILDING)
		gateway_forget(s);
	for (size_t i = 0; i < NET_FDS; i++)
		fd_close(&s->net[i]);
	fd_close(&s->catch);
	fd_close(&s->pidfd);
	fd_close(&s->control);
	fd_close(&s->handover);
	fd_close(&s->userns);
	s->state = FREE;
	s->doomed = false;
	s->pid = 0;
	s->freed_ms = clock_monotonic_ms();
}

static void gone(struct sandbox *s)
{
	struct msg_sandbox body = sandbox_name(s);

	sandbox_release(s);
	daemon_send(LD_GONE, 0, &body, sizeof(body), NULL, 0);
}

void sandbox_kill(struct sandbox *s)
{
	s->doomed = true;
	if (s->state != BUILDING &&
	    syscall(SYS_pidfd_send_signal, s->pidfd, SIGKILL, NULL, 0) < 0 && errno != ESRCH)
		h.again = true;
}

static void tell_of_stop(void)
{
	int sock = h.peers[PEER_SWEEPER].sock;

	if (h.stopping && sock >= 0 && wire_send(sock, LS_STOP, 0, NULL, 0, NULL, 0) == -EAGAIN)
		h.again = true;
}

/* What could not be done for want of memory, or of room in a socket, is done now. */
static void try_again(void)
{
	h.again = false;
	for (struct sandbox *s = h.sandboxes; s < h.sandboxes + LAYOUT_SLOTS; s++)
		if (s->doomed && s->state != BUILDING)
			sandbox_kill(s);
	reap();
	if (h.unconnected)
		gateway_connect();
	tell_of_stop();
}

/* ---- Messages ---- */

/* It is ending, most likely, and may have a database to close first; its exit status is worth
 * waiting for. */
static void hung_up(struct peer *p)
{
	fd_close(&p->sock);
	p->kill_at_ms = clock_monotonic_ms() + ENDING_MS;
}

void peer_send(struct peer *p, uint8_t type, uint32_t id, const void *body, size_t len,
	       const int *fds, unsigned n)
{
	if (p->sock < 0 || !p->greeted)
		return;
	int r = wire_send(p->sock, type, id, body, len, fds, n);
	if (r < 0 && r != -EAGAIN && r != -EPIPE)
		r = wire_send(p->sock, type, id, body, len, fds, n); /* short of memory */
	if (r == -EPIPE)
		hung_up(p);
	else if (r < 0)
		peer_kill(p); /* it does not read */
}

/* ---- Messages of the own roles ---- */

static int on_built(struct wire_msg *msg)
{
	struct bl_built body;

	memcpy(&body, msg->body, sizeof(body));
	struct sandbox *s = sandbox_find(body.sandbox);
	if (!s || s->state != BUILDING || (s->egress && s->net[0] < 0))
		return -EPROTO;
	s->pid = (pid_t)body.pid;
	s->posture = body.posture;
	s->pidfd = take_fd(&msg->fds[0]);
	s->control = take_fd(&msg->fds[1]);
	s->handover = take_fd(&msg->fds[2]);
	s->userns = take_fd(&msg->fds[3]);
	s->state = BLANK;
	gateway_announce(s);
	daemon_announce(s);
	/* It may have died, and been reaped, before it was known. */
	if (syscall(SYS_pidfd_send_signal, s->pidfd, 0, NULL, 0) < 0 && errno == ESRCH)
		gone(s);
	else if (s->doomed)
		sandbox_kill(s);
	return 0;
}

static int on_net(struct wire_msg *msg)
{
	struct msg_sandbox body;

	memcpy(&body, msg->body, sizeof(body));
	struct sandbox *s = sandbox_find(body);
	if (!s || s->state != BUILDING || !s->egress || s->net[0] >= 0)
		return -EPROTO;
	for (size_t i = 0; i < NET_FDS; i++)
		s->net[i] = take_fd(&msg->fds[i]);
	s->catch = take_fd(&msg->fds[NET_FDS]);
	return 0;
}

static int on_build_failed(const struct wire_msg *msg)
{
	struct bl_failed body;

	memcpy(&body, msg->body, sizeof(body));
	body.text[sizeof(body.text) - 1] = '\0';
	struct sandbox *s = sandbox_find(body.sandbox);
	if (!s || s->state != BUILDING)
		return -EPROTO;
	log_event(LOG_ERROR, "build_failed", LOG_STR("why", body.text),
		  LOG_INT("tenant", s->tenant));
	daemon_build_failed(s->request, (int)body.code, body.text);
	sandbox_release(s);
	return 0;
}

static int on_slot(struct wire_msg *msg)
{
	struct ld_slot body;

	memcpy(&body, msg->body, sizeof(body));
	if (body.slot >= LAYOUT_SLOTS)
		return -EPROTO;
	struct sandbox *s = &h.sandboxes[body.slot];
	for (size_t i = 0; i < LD_SLOT_FDS; i++) {
		fd_close(&s->measure[i]);
		s->measure[i] = take_fd(&msg->fds[i]);
	}
	daemon_announce_slot(s);
	return 0;
}

static int on_builder_message(struct wire_msg *msg)
{
	switch (msg->head.type) {
	case BL_SLOT:
		return on_slot(msg);
	case BL_NET:
		return on_net(msg);
	case BL_BUILT:
		return on_built(msg);
	case BL_FAILED:
		return on_build_failed(msg);
	}
	return -EPROTO;
}

static int on_sweeper_message(const struct wire_msg *msg)
{
	struct ld_status status;

	if (msg->head.id >= CALLS_MAX || h.calls[msg->head.id].type == 0)
		return -EPROTO;
	struct call call = h.calls[msg->head.id];
	h.calls[msg->head.id].type = 0;
	if (call.stale)
		return 0;
	switch (msg->head.type) {
	case SL_DONE:
		daemon_send(LD_DONE, call.id, msg->body, msg->body_len, NULL, 0);
		return 0;
	case SL_VOLUME_STAT:
		daemon_send(LD_VOLUME_STAT, call.id, msg->body, msg->body_len, NULL, 0);
		return 0;
	case SL_STATUS:
		memcpy(&status, msg->body, sizeof(status));
		status.slots_max = LAYOUT_SLOTS;
		for (size_t i = 0; i < LAYOUT_SLOTS; i++) {
			status.slots_used += h.sandboxes[i].state != FREE;
			status.building += h.sandboxes[i].state == BUILDING;
		}
		status.builder_restarts = h.peers[PEER_BUILDER].restarts;
		status.sweeper_restarts = h.peers[PEER_SWEEPER].restarts;
		status.gateway_restarts = h.peers[PEER_GATEWAY].restarts;
		daemon_send(LD_STATUS, call.id, &status, sizeof(status), NULL, 0);
		return 0;
	}
	return -EPROTO;
}

static void drain(enum peer_kind kind)
{
	static const struct wire_pair *const pairs[PEERS] = { &wire_dl, &wire_bl, &wire_sl,
							      &wire_gl };
	struct peer *p = &h.peers[kind];

	for (int n = 0; n < MESSAGES_PER_TURN && p->sock >= 0; n++) {
		struct wire_msg msg;
		int r = wire_recv(p->sock, pairs[kind], &msg);
		/* Its sandbox is lost, and would be waited for. */
		if (r == -EMFILE && kind == PEER_BUILDER)
			r = -EPROTO;
		if (r < 0 && r != -EPROTO)
			return; /* nothing there, or short of memory: poll says when to try again */
		if (r > 0) {
			r = kind == PEER_DAEMON	   ? daemon_on_message(&msg)
			    : kind == PEER_GATEWAY ? gateway_on_message(&msg)
			    : kind == PEER_BUILDER ? on_builder_message(&msg)
						   : on_sweeper_message(&msg);
			uint8_t type = msg.head.type;
			wire_msg_fini(&msg);
			if (r < 0)
				log_event(LOG_ERROR, "message_refused", LOG_STR("peer", p->name),
					  LOG_INT("type", type));
			else
				r = 1;
		}
		if (r < 0)
			peer_kill(p);
		if (r == 0)
			hung_up(p);
		if (r <= 0)
			return;
	}
}

/* ---- Processes ---- */

static void start_peer(enum peer_kind kind)
{
	struct err err;
	int r = 0;

	if (kind == PEER_DAEMON)
		r = peer_start_daemon(&h.peers[kind], h.l, &err);
	else if (kind == PEER_GATEWAY)
		r = peer_start_gateway(&h.peers[kind], h.l, &err);
	else
		r = peer_start_role(&h.peers[kind], h.l,
				    kind == PEER_BUILDER ? builder_main : sweeper_main, &err);
	if (r < 0) {
		log_event(LOG_ERROR, "cannot_start", LOG_STR("child", h.peers[kind].name),
			  LOG_STR("why", err.text));
		h.peers[kind].start_at_ms = clock_monotonic_ms() + 1000;
	}
	tell_of_stop();
}

void handover_give_up(void)
{
	h.exit_status = EXIT_CONFIG;
	h.stopping = true;
	h.stop_by_ms = 0;
}

bool handover_same_build(const struct peer *p, const struct wire_msg *msg)
{
	struct msg_hello hello;
	bool same;

	memcpy(&hello, msg->body, sizeof(hello));
	same = strncmp(hello.build, ipc_build_id, sizeof(hello.build)) == 0;
	if (!same) {
		log_event(LOG_ERROR, "build_mismatch", LOG_STR("own", ipc_build_id),
			  LOG_STR("child", p->name),
			  LOG_STR("why", "the program on disk is of another build: "
					 "install all of one and restart the service"));
		if (!h.served)
			handover_give_up();
	}
	return same;
}

/* What the builder was working on is lost; airlockd is told and asks again. */
static void builder_lost(void)
{
	for (struct sandbox *s = h.sandboxes; s < h.sandboxes + LAYOUT_SLOTS; s++)
		if (s->state == BUILDING) {
			daemon_build_failed(s->request, EAGAIN, "the builder was restarted");
			sandbox_release(s);
		}
}

/* A stop ends with airlockd, which is not started again; what it waits for may need the others. */
static bool is_over(void)
{
	return h.stopping &&
	       (h.peers[PEER_DAEMON].pid <= 0 || clock_monotonic_ms() >= h.stop_by_ms);
}

static void peer_ended(enum peer_kind kind, int status)
{
	struct peer *p = &h.peers[kind];

	peer_close(p);
	if (kind == PEER_DAEMON) {
		/* The next one counts its requests from the start again. */
		for (unsigned i = 0; i < CALLS_MAX; i++)
			h.calls[i].stale = true;
		for (unsigned i = 0; i < LAYOUT_SLOTS; i++)
			h.sandboxes[i].request = 0;
		h.unlisted = 0;
		policies_daemon_lost();
	}
	/* It refuses its configuration, its database, its log directory. A gateway that has worked
	 * before is no reason to end what needs none: its disk may be full, or it was taken over.
	 * A disk that is full only now has room again some time, and sandboxes that run go on. */
	bool refused = WIFEXITED(status) && (WEXITSTATUS(status) == EXIT_CONFIG ||
					     (WEXITSTATUS(status) == EXIT_LATER && !h.served));
	if (refused && !h.stopping &&
	    (kind == PEER_DAEMON || (kind == PEER_GATEWAY && !h.gateway_served)))
		handover_give_up();
	if (kind == PEER_BUILDER)
		builder_lost();
	if (kind == PEER_SWEEPER)
		daemon_refuse_calls("the sweeper was restarted");
	if (is_over())
		return;
	log_event(LOG_WARN, "restarting", LOG_STR("child", p->name), LOG_INT("status", status));
	p->restarts++;
	/* At once the first time, then at most once a second. */
	int64_t now = clock_monotonic_ms();
	p->start_at_ms = now - p->started_ms > 1000 ? now : p->started_ms + 1000;
}

static void reap(void)
{
	siginfo_t info = { 0 };
	int r;

	while ((r = waitid(P_ALL, 0, &info, WEXITED | WNOHANG)) == 0 && info.si_pid) {
		int status = info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status;
		bool found = false;
		for (int k = 0; k < PEERS && !found; k++)
			if (h.peers[k].pid == info.si_pid) {
				peer_ended((enum peer_kind)k, status);
				found = true;
			}
		for (struct sandbox *s = h.sandboxes; s < h.sandboxes + LAYOUT_SLOTS && !found; s++)
			if (s->state != FREE && s->pid == info.si_pid) {
				gone(s);
				found = true;
			}
		info.si_pid = 0;
	}
	if (r < 0 && errno != ECHILD)
		h.again = true;
}

/* A tenant without a sandbox for a while gives its template and cgroups back. */
static void retire_idle(int64_t now)
{
	if (now < h.retire_at_ms)
		return;
	h.retire_at_ms = now + 60000;
	for (struct sandbox *s = h.sandboxes; s < h.sandboxes + LAYOUT_SLOTS; s++) {
		struct lb_retire body = { s->tenant };
		bool idle = s->generation != 0;
		for (struct sandbox *o = h.sandboxes; o < h.sandboxes + LAYOUT_SLOTS && idle; o++)
			if (o->generation && o->tenant == s->tenant &&
			    (o->state != FREE || now - o->freed_ms < RETIRE_AFTER_MS))
				idle = false;
		if (!idle)
			continue;
		if (wire_send(h.peers[PEER_BUILDER].sock, LB_RETIRE, 0, &body, sizeof(body), NULL,
			      0) < 0)
			continue; /* the builder would keep what is forgotten here */
		for (struct sandbox *o = h.sandboxes; o < h.sandboxes + LAYOUT_SLOTS; o++)
			if (o->tenant == body.tenant && o->state == FREE) {
				o->generation = 0;
				for (size_t k = 0; k < LD_SLOT_FDS; k++)
					fd_close(&o->measure[k]);
			}
	}
}

/* A second time: airlockd lets nothing end any more. */
static void stop(void)
{
	int64_t drain_ms = h.stopping ? 0 : (int64_t)h.l->options.stop_seconds * 1000;
	int64_t by_ms = clock_monotonic_ms() + drain_ms + STOP_DAEMON_MS;

	if (!h.stopping || by_ms < h.stop_by_ms)
		h.stop_by_ms = by_ms;
	h.stopping = true;
	if (h.peers[PEER_DAEMON].pid > 0)
		kill(h.peers[PEER_DAEMON].pid, SIGTERM);
	tell_of_stop();
}

static void on_signal(void)
{
	struct signalfd_siginfo info;

	while (read(h.signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGHUP)
			policies_reload();
		if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT)
			stop();
	}
	reap();
}

static bool sandboxes_left(void)
{
	for (size_t i = 0; i < LAYOUT_SLOTS; i++)
		if (h.sandboxes[i].state == BLANK || h.sandboxes[i].state == USED)
			return true;
	return false;
}

/* After airlockd: roles first, so that nothing new is built; then every sandbox. */
static void stop_all(void)
{
	int64_t now = clock_monotonic_ms(), until = now + STOP_ALL_MS;
	struct peer *gateway = &h.peers[PEER_GATEWAY];

	for (int k = 0; k < PEERS; k++)
		if (k != PEER_GATEWAY)
			peer_kill(&h.peers[k]);
	/* It writes the last lines of its logs. */
	if (gateway->pid > 0)
		kill(gateway->pid, SIGTERM);
	fd_close(&gateway->sock);
	gateway->kill_at_ms = now + STOP_GATEWAY_MS;
	/* Closing the write end ends also what was being built and is in no table. */
	fd_close(&h.l->lifeline[1]);
	for (struct sandbox *s = h.sandboxes; s < h.sandboxes + LAYOUT_SLOTS; s++)
		if (s->state == BLANK || s->state == USED)
			sandbox_kill(s);
	for (;;) {
		struct pollfd p = { .fd = h.signals, .events = POLLIN };
		bool peers = false;
		now = clock_monotonic_ms();
		if (gateway->kill_at_ms && now >= gateway->kill_at_ms)
			peer_kill(gateway);
		for (int k = 0; k < PEERS; k++)
			peers |= h.peers[k].pid > 0;
		if (now >= until || (!peers && !sandboxes_left()))
			break;
		poll(&p, 1, (int)((gateway->kill_at_ms ? gateway->kill_at_ms : until) - now));
		on_signal();
	}
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

static int next_timeout(int64_t now)
{
	int64_t at = now + (h.again ? AGAIN_MS : 60000);

	for (int k = 0; k < PEERS; k++) {
		const struct peer *p = &h.peers[k];
		if (p->start_at_ms && p->start_at_ms < at)
			at = p->start_at_ms;
		if (p->kill_at_ms && p->kill_at_ms < at)
			at = p->kill_at_ms;
	}
	if (h.stopping && h.stop_by_ms < at)
		at = h.stop_by_ms;
	return at > now ? (int)(at - now) : 0;
}

static void block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	h.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int handover_main(struct launcher *l)
{
	static const char *const names[PEERS] = { "airlockd", "builder", "sweeper", "gateway" };

	h.l = l;
	policies_init();
	block_signals();
	for (size_t i = 0; i < LAYOUT_SLOTS; i++) {
		struct sandbox *s = &h.sandboxes[i];
		s->pidfd = s->control = s->handover = s->userns = s->catch = -1;
		for (size_t k = 0; k < LD_SLOT_FDS; k++)
			s->measure[k] = -1;
		for (size_t k = 0; k < NET_FDS; k++)
			s->net[k] = -1;
	}
	for (int k = 0; k < PEERS; k++)
		h.peers[k] = (struct peer){ .name = names[k], .sock = -1 };
	start_peer(PEER_SWEEPER);
	start_peer(PEER_BUILDER);
	if (l->options.egress_user)
		start_peer(PEER_GATEWAY);
	start_peer(PEER_DAEMON);
	for (;;) {
		int64_t now = clock_monotonic_ms();
		struct pollfd p[PEERS + 1];
		if (is_over())
			break;
		for (int k = 0; k < PEERS; k++) {
			struct peer *peer = &h.peers[k];
			if (peer->start_at_ms && now >= peer->start_at_ms)
				start_peer((enum peer_kind)k);
			if (peer->kill_at_ms && now >= peer->kill_at_ms)
				peer_kill(peer);
			p[k] = (struct pollfd){ .fd = peer->sock, .events = POLLIN };
		}
		if (h.unlisted)
			p[PEER_DAEMON].events |= POLLOUT;
		p[PEERS] = (struct pollfd){ .fd = h.signals, .events = POLLIN };
		/* A poll that failed for want of memory has filled nothing in; the next one may. */
		if (poll(p, PEERS + 1, next_timeout(now)) < 0)
			continue;
		if (p[PEER_DAEMON].revents & POLLOUT)
			daemon_list();
		for (int k = 0; k < PEERS; k++)
			if (p[k].revents)
				drain((enum peer_kind)k);
		if (p[PEERS].revents)
			on_signal();
		if (h.again)
			try_again();
		retire_idle(now);
	}
	stop_all();
	return h.exit_status;
}
