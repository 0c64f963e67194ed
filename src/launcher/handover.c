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
 * is void. 3  A workspace is attached only where the tenant number of volume and sandbox are equal,
 * at most once per sandbox. 4  The copy of airlockd's control socket is never read here; it only
 * keeps the channel whole when airlockd is replaced. 5  The end of airlockd, builder or sweeper
 * ends no sandbox; the end of this process ends all of them (lifeline).
 *
 * airlockd is not trusted: each message is checked by type, length, names and numbers; one that
 * does not pass ends airlockd, which is then started anew.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "ipc/messages.h"
#include "ipc/posture.h"
#include "launcher/launcher.h"
#include "launcher/peers.h"
#include "sandbox/knobs.h"
#include "sandbox/layout.h"

#define RETIRE_AFTER_MS (5 * 60 * 1000)
#define STOP_DAEMON_MS 3000
#define STOP_ALL_MS 2000
#define ENDING_MS 500
#define AGAIN_MS 100
/* Calls that the sweeper has not answered. */
#define CALLS_MAX 256
/* So that one peer that floods keeps no other waiting. */
#define MESSAGES_PER_TURN 32

enum sandbox_state { FREE, BUILDING, BLANK, USED };

struct sandbox {
	enum sandbox_state state;
	bool doomed; /* a kill was asked for while it was built */
	uint32_t generation;
	uint32_t tenant;
	uint32_t egress;
	uint32_t request; /* id of the DL_BUILD that asked for it */
	uint32_t posture;
	pid_t pid;
	int pidfd, control, handover, userns; /* owned */
	int measure[LD_SLOT_FDS];	      /* owned; of the slot, kept when it is free */
	char image[MSG_IMAGE_NAME];
	int64_t freed_ms;
};

enum peer_kind { PEER_DAEMON, PEER_BUILDER, PEER_SWEEPER, PEERS };

static struct {
	struct launcher *l;
	int signals;
	struct peer peers[PEERS];
	bool greeted; /* airlockd has said hello */
	bool served;  /* some airlockd has said hello */
	bool stopping;
	int64_t stop_by_ms;
	int exit_status;
	bool again; /* something failed for want of memory */
	uint32_t generations;
	int64_t retire_at_ms;
	struct sandbox sandboxes[LAYOUT_SLOTS];
	/* A ring: the sweeper answers in the order of the calls. */
	struct call {
		uint8_t type;
		bool stale; /* of an earlier airlockd */
		uint32_t id;
	} calls[CALLS_MAX];
	unsigned first_call, n_calls;
} h;

/* ---- Sending ---- */

static void to_daemon(uint8_t type, uint32_t id, const void *body, size_t len, const int *fds,
		      unsigned n)
{
	struct peer *p = &h.peers[PEER_DAEMON];

	if (p->sock < 0 || !h.greeted)
		return;
	int r = wire_send(p->sock, type, id, body, len, fds, n);
	if (r < 0 && r != -EAGAIN && r != -EPIPE)
		r = wire_send(p->sock, type, id, body, len, fds, n); /* short of memory */
	if (r < 0)
		peer_kill(p); /* it does not read; a new one gets the whole list */
}

static void done_to_daemon(uint32_t id, int code, const char *text)
{
	struct msg_done body = { .code = (uint32_t)code };

	snprintf(body.text, sizeof(body.text), "%.199s", text);
	to_daemon(LD_DONE, id, &body, sizeof(body), NULL, 0);
}

/* ---- Sandboxes ---- */

static struct msg_sandbox name_of(const struct sandbox *s)
{
	return (struct msg_sandbox){ (uint32_t)(s - h.sandboxes), s->generation };
}

/* NULL when the name is not of a sandbox that exists now. */
static struct sandbox *find(struct msg_sandbox name)
{
	if (name.slot >= LAYOUT_SLOTS)
		return NULL;
	struct sandbox *s = &h.sandboxes[name.slot];
	return s->state != FREE && s->generation == name.generation ? s : NULL;
}

static void reap(void);

static void announce_slot(struct sandbox *s)
{
	struct ld_slot body = { (uint32_t)(s - h.sandboxes), (uint32_t)h.l->cgroup.version };

	if (s->measure[0] >= 0)
		to_daemon(LD_SLOT, 0, &body, sizeof(body), s->measure, LD_SLOT_FDS);
}

static void announce(struct sandbox *s)
{
	struct ld_sandbox body = { .sandbox = name_of(s),
				   .tenant = s->tenant,
				   .egress = s->egress,
				   .posture = s->posture,
				   .used = s->state == USED };

	memcpy(body.image, s->image, sizeof(body.image));
	to_daemon(LD_SANDBOX, s->request, &body, sizeof(body), &s->control, 1);
}

static void release(struct sandbox *s)
{
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
	struct msg_sandbox body = name_of(s);

	release(s);
	to_daemon(LD_GONE, 0, &body, sizeof(body), NULL, 0);
}

static void kill_sandbox(struct sandbox *s)
{
	s->doomed = true;
	if (s->state != BUILDING &&
	    syscall(SYS_pidfd_send_signal, s->pidfd, SIGKILL, NULL, 0) < 0 && errno != ESRCH)
		h.again = true;
}

/* What could not be done for want of memory is done now. */
static void try_again(void)
{
	h.again = false;
	for (struct sandbox *s = h.sandboxes; s < h.sandboxes + LAYOUT_SLOTS; s++)
		if (s->doomed && s->state != BUILDING)
			kill_sandbox(s);
	reap();
}

/* A free slot, one that served the tenant before when there is one: its cgroup is there already. */
static struct sandbox *free_slot(uint32_t tenant)
{
	struct sandbox *best = NULL;

	for (struct sandbox *s = h.sandboxes; s < h.sandboxes + LAYOUT_SLOTS; s++) {
		if (s->state != FREE)
			continue;
		if (s->generation && s->tenant == tenant)
			return s;
		if (!best || (best->generation && !s->generation))
			best = s;
	}
	return best;
}

/* ---- Messages of airlockd ---- */

static void send_hello(uint32_t id)
{
	struct ld_hello body = { .cgroup_version = (uint8_t)h.l->cgroup.version,
				 .volumes = (uint8_t)h.l->volumes.kind,
				 .quota = (uint8_t)h.l->volumes.quota,
				 .server = h.l->server,
				 .layers = h.l->layers,
				 .required = LAUNCHER_POSTURE_MULTI };

	snprintf(body.build, sizeof(body.build), "%s", ipc_build_id);
	to_daemon(LD_HELLO, id, &body, sizeof(body), NULL, 0);
}

static void announce_volume(void *data, const char *name, uint32_t tenant)
{
	struct ld_volume body = { .tenant = tenant };

	(void)data;
	snprintf(body.volume, sizeof(body.volume), "%s", name);
	to_daemon(LD_VOLUME, 0, &body, sizeof(body), NULL, 0);
}

static int on_hello(const struct wire_msg *msg)
{
	struct msg_hello hello;
	struct err err;

	memcpy(&hello, msg->body, sizeof(hello));
	if (strncmp(hello.build, ipc_build_id, sizeof(hello.build))) {
		log_event(LOG_ERROR, "build_mismatch", LOG_STR("own", ipc_build_id),
			  LOG_STR("why", "airlockd on disk is of another build: "
					 "install both and restart the service"));
		/* At the first start nothing is served yet that would be worth keeping. */
		if (!h.served) {
			h.exit_status = 78;
			h.stopping = true;
			h.stop_by_ms = 0;
		}
		return -EPROTO;
	}
	h.greeted = true;
	h.served = true;
	send_hello(msg->head.id);
	for (struct sandbox *s = h.sandboxes; s < h.sandboxes + LAYOUT_SLOTS; s++)
		announce_slot(s);
	for (struct sandbox *s = h.sandboxes; s < h.sandboxes + LAYOUT_SLOTS; s++)
		if (s->state == BLANK || s->state == USED)
			announce(s);
	if (volume_each(&h.l->volumes, announce_volume, NULL, &err) < 0)
		log_event(LOG_ERROR, "volume_list", LOG_STR("why", err.text));
	to_daemon(LD_READY, 0, NULL, 0, NULL, 0);
	return 0;
}

static int build_failed(uint32_t id, int code, const char *text)
{
	struct msg_done body = { .code = (uint32_t)code };

	snprintf(body.text, sizeof(body.text), "%.199s", text);
	to_daemon(LD_BUILD_FAILED, id, &body, sizeof(body), NULL, 0);
	return 0;
}

static int on_build(const struct wire_msg *msg)
{
	struct dl_build want;
	struct lb_build body = { 0 };

	memcpy(&want, msg->body, sizeof(want));
	if (want.egress || !want.image[0] || want.image[sizeof(want.image) - 1] ||
	    strchr(want.image, '/') || want.image[0] == '.')
		return -EPROTO;
	struct sandbox *s = h.stopping ? NULL : free_slot(want.tenant);
	if (!s)
		return build_failed(msg->head.id, EAGAIN, "no slot is free");
	s->state = BUILDING;
	s->generation = ++h.generations;
	s->tenant = want.tenant;
	s->egress = want.egress;
	s->request = msg->head.id;
	memcpy(s->image, want.image, sizeof(s->image));
	body.sandbox = name_of(s);
	body.tenant = want.tenant;
	body.egress = want.egress;
	memcpy(body.image, want.image, sizeof(body.image));
	if (wire_send(h.peers[PEER_BUILDER].sock, LB_BUILD, msg->head.id, &body, sizeof(body), NULL,
		      0) < 0) {
		release(s);
		return build_failed(msg->head.id, EAGAIN, "the builder is busy");
	}
	return 0;
}

static int map_mount(int volume, int userns)
{
	/* NOSUID, NODEV: init drops its right to change them right after the attach. */
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID |
					       MOUNT_ATTR_NODEV,
				   .userns_fd = (uint64_t)userns };
	_cleanup_fd_ int mount =
		open_tree(volume, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (mount < 0 || mount_setattr(mount, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return -errno;
	return take_fd(&mount);
}

/* Everything from the name to the descriptor on its way to init. */
static int hand_over(struct sandbox *s, const char *name)
{
	struct li_attach body = { 0 };
	_cleanup_fd_ int volume = -1, mount = -1;
	uint32_t tenant;
	struct err err;

	int r = volume_open(&h.l->volumes, name, &volume, &tenant, &err);
	if (r < 0)
		return r;
	if (tenant != s->tenant && !knob_off(KNOB_TENANT_MATCH)) {
		log_event(LOG_ERROR, "tenant_mismatch", LOG_INT("sandbox", s->tenant),
			  LOG_INT("volume", tenant));
		return -EACCES;
	}
	mount = map_mount(volume, s->userns);
	if (mount < 0)
		return mount;
	return wire_send(s->handover, LI_ATTACH, 0, &body, sizeof(body), &mount, 1);
}

static int on_handover(const struct wire_msg *msg)
{
	struct dl_handover body;

	memcpy(&body, msg->body, sizeof(body));
	if (!volume_name_ok(body.volume))
		return -EPROTO;
	struct sandbox *s = find(body.sandbox);
	if (!s)
		return 0; /* it died meanwhile; LD_GONE is on its way */
	if (s->state != BLANK)
		return -EPROTO;
	s->state = USED;
	int r = hand_over(s, body.volume);
	fd_close(&s->handover);
	fd_close(&s->userns);
	if (r < 0) {
		struct ld_handover_failed failed = { body.sandbox, (uint32_t)-r };
		to_daemon(LD_HANDOVER_FAILED, 0, &failed, sizeof(failed), NULL, 0);
		kill_sandbox(s);
	}
	return 0;
}

static int on_kill(const struct wire_msg *msg)
{
	struct msg_sandbox name;

	memcpy(&name, msg->body, sizeof(name));
	struct sandbox *s = find(name);
	if (s)
		kill_sandbox(s);
	else
		to_daemon(LD_GONE, 0, &name, sizeof(name), NULL, 0);
	return 0;
}

static struct call *next_call(void)
{
	struct call *c = &h.calls[h.first_call];

	h.first_call = (h.first_call + 1) % CALLS_MAX;
	h.n_calls--;
	return c;
}

static void refuse_call(const struct call *c, const char *text)
{
	struct ld_volume_stat body = { .code = EAGAIN };

	if (c->type == LS_VOLUME_STAT)
		to_daemon(LD_VOLUME_STAT, c->id, &body, sizeof(body), NULL, 0);
	else
		done_to_daemon(c->id, EAGAIN, text);
}

/* Volume calls go to the sweeper as they are, under the same id, after the name was checked. */
static int forward(const struct wire_msg *msg, uint8_t type, const char *name)
{
	struct call c = { .type = type, .id = msg->head.id };

	if (name && !volume_name_ok(name))
		return -EPROTO;
	if (h.n_calls == CALLS_MAX || wire_send(h.peers[PEER_SWEEPER].sock, type, msg->head.id,
						msg->body, msg->body_len, NULL, 0) < 0)
		refuse_call(&c, "the sweeper is busy");
	else
		h.calls[(h.first_call + h.n_calls++) % CALLS_MAX] = c;
	return 0;
}

static int on_daemon_message(const struct wire_msg *msg)
{
	struct dl_volume_create create;
	struct dl_volume volume;

	if ((msg->head.type == DL_HELLO) == h.greeted)
		return -EPROTO; /* hello is the first message, and only that */
	switch (msg->head.type) {
	case DL_HELLO:
		return on_hello(msg);
	case DL_BUILD:
		return on_build(msg);
	case DL_HANDOVER:
		return on_handover(msg);
	case DL_KILL:
		return on_kill(msg);
	case DL_VOLUME_CREATE:
		memcpy(&create, msg->body, sizeof(create));
		return forward(msg, LS_VOLUME_CREATE, create.volume);
	case DL_VOLUME_DELETE:
		memcpy(&volume, msg->body, sizeof(volume));
		return forward(msg, LS_VOLUME_DELETE, volume.volume);
	case DL_VOLUME_STAT:
		memcpy(&volume, msg->body, sizeof(volume));
		return forward(msg, LS_VOLUME_STAT, volume.volume);
	case DL_STATUS:
		return forward(msg, LS_STATUS, NULL);
	}
	return -EPROTO;
}

/* ---- Messages of the own roles ---- */

static int on_built(struct wire_msg *msg)
{
	struct bl_built body;

	memcpy(&body, msg->body, sizeof(body));
	struct sandbox *s = find(body.sandbox);
	if (!s || s->state != BUILDING)
		return -EPROTO;
	s->pid = (pid_t)body.pid;
	s->posture = body.posture;
	s->pidfd = take_fd(&msg->fds[0]);
	s->control = take_fd(&msg->fds[1]);
	s->handover = take_fd(&msg->fds[2]);
	s->userns = take_fd(&msg->fds[3]);
	s->state = BLANK;
	announce(s);
	/* It may have died, and been reaped, before it was known. */
	if (syscall(SYS_pidfd_send_signal, s->pidfd, 0, NULL, 0) < 0 && errno == ESRCH)
		gone(s);
	else if (s->doomed)
		kill_sandbox(s);
	return 0;
}

static int on_build_failed(const struct wire_msg *msg)
{
	struct bl_failed body;

	memcpy(&body, msg->body, sizeof(body));
	body.text[sizeof(body.text) - 1] = '\0';
	struct sandbox *s = find(body.sandbox);
	if (!s || s->state != BUILDING)
		return -EPROTO;
	log_event(LOG_ERROR, "build_failed", LOG_STR("why", body.text),
		  LOG_INT("tenant", s->tenant));
	build_failed(s->request, (int)body.code, body.text);
	release(s);
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
	announce_slot(s);
	return 0;
}

static int on_builder_message(struct wire_msg *msg)
{
	switch (msg->head.type) {
	case BL_SLOT:
		return on_slot(msg);
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

	if (h.n_calls == 0 || h.calls[h.first_call].id != msg->head.id)
		return -EPROTO;
	if (next_call()->stale)
		return 0;
	switch (msg->head.type) {
	case SL_DONE:
		to_daemon(LD_DONE, msg->head.id, msg->body, msg->body_len, NULL, 0);
		return 0;
	case SL_VOLUME_STAT:
		to_daemon(LD_VOLUME_STAT, msg->head.id, msg->body, msg->body_len, NULL, 0);
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
		to_daemon(LD_STATUS, msg->head.id, &status, sizeof(status), NULL, 0);
		return 0;
	}
	return -EPROTO;
}

static void drain(enum peer_kind kind)
{
	static const struct wire_pair *const pairs[PEERS] = { &wire_dl, &wire_bl, &wire_sl };
	struct peer *p = &h.peers[kind];

	for (int n = 0; n < MESSAGES_PER_TURN && p->sock >= 0; n++) {
		struct wire_msg msg;
		int r = wire_recv(p->sock, pairs[kind], &msg);
		if (r < 0 && r != -EPROTO)
			return; /* nothing there, or short of memory: poll says when to try again */
		if (r > 0) {
			r = kind == PEER_DAEMON	   ? on_daemon_message(&msg)
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
		if (r == 0) {
			/* It is ending, most likely; its exit status is worth waiting for. */
			fd_close(&p->sock);
			p->kill_at_ms = clock_monotonic_ms() + ENDING_MS;
		}
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
	else
		r = peer_start_role(&h.peers[kind], h.l,
				    kind == PEER_BUILDER ? builder_main : sweeper_main, &err);
	if (r < 0) {
		log_event(LOG_ERROR, "cannot_start", LOG_STR("process", h.peers[kind].name),
			  LOG_STR("why", err.text));
		h.peers[kind].start_at_ms = clock_monotonic_ms() + 1000;
	}
}

/* What the builder was working on is lost; airlockd is told and asks again. */
static void builder_lost(void)
{
	for (struct sandbox *s = h.sandboxes; s < h.sandboxes + LAYOUT_SLOTS; s++)
		if (s->state == BUILDING) {
			build_failed(s->request, EAGAIN, "the builder was restarted");
			release(s);
		}
}

static void peer_ended(enum peer_kind kind, int status)
{
	struct peer *p = &h.peers[kind];

	peer_close(p);
	if (kind == PEER_DAEMON) {
		h.greeted = false;
		/* The next one counts its requests from the start again. */
		for (unsigned i = 0; i < CALLS_MAX; i++)
			h.calls[i].stale = true;
		for (unsigned i = 0; i < LAYOUT_SLOTS; i++)
			h.sandboxes[i].request = 0;
		/* 78: it refuses its configuration or its database; no restart will change that. */
		if (WIFEXITED(status) && WEXITSTATUS(status) == 78 && !h.stopping) {
			h.exit_status = 78;
			h.stopping = true;
			h.stop_by_ms = 0;
		}
	}
	if (kind == PEER_BUILDER)
		builder_lost();
	while (kind == PEER_SWEEPER && h.n_calls > 0) {
		const struct call *c = next_call();
		if (!c->stale)
			refuse_call(c, "the sweeper was restarted");
	}
	if (h.stopping)
		return;
	log_event(LOG_WARN, "restarting", LOG_STR("process", p->name), LOG_INT("status", status));
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

static void on_signal(void)
{
	struct signalfd_siginfo info;

	while (read(h.signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGHUP && h.peers[PEER_DAEMON].pid > 0)
			kill(h.peers[PEER_DAEMON].pid, SIGHUP);
		if ((info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT) && !h.stopping) {
			h.stopping = true;
			h.stop_by_ms = clock_monotonic_ms() + STOP_DAEMON_MS;
			if (h.peers[PEER_DAEMON].pid > 0)
				kill(h.peers[PEER_DAEMON].pid, SIGTERM);
		}
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
	int64_t until = clock_monotonic_ms() + STOP_ALL_MS;

	for (int k = 0; k < PEERS; k++)
		peer_kill(&h.peers[k]);
	/* Closing the write end ends also what was being built and is in no table. */
	fd_close(&h.l->lifeline[1]);
	for (struct sandbox *s = h.sandboxes; s < h.sandboxes + LAYOUT_SLOTS; s++)
		if (s->state == BLANK || s->state == USED)
			kill_sandbox(s);
	for (;;) {
		struct pollfd p = { .fd = h.signals, .events = POLLIN };
		int64_t left = until - clock_monotonic_ms();
		bool peers = false;
		for (int k = 0; k < PEERS; k++)
			peers |= h.peers[k].pid > 0;
		if (left <= 0 || (!peers && !sandboxes_left()))
			break;
		poll(&p, 1, (int)left);
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
	static const char *const names[PEERS] = { "airlockd", "builder", "sweeper" };

	h.l = l;
	block_signals();
	for (size_t i = 0; i < LAYOUT_SLOTS; i++) {
		struct sandbox *s = &h.sandboxes[i];
		s->pidfd = s->control = s->handover = s->userns = -1;
		for (size_t k = 0; k < LD_SLOT_FDS; k++)
			s->measure[k] = -1;
	}
	for (int k = 0; k < PEERS; k++)
		h.peers[k] = (struct peer){ .name = names[k], .sock = -1 };
	start_peer(PEER_SWEEPER);
	start_peer(PEER_BUILDER);
	start_peer(PEER_DAEMON);
	for (;;) {
		int64_t now = clock_monotonic_ms();
		struct pollfd p[PEERS + 1];
		if (h.stopping && (h.peers[PEER_DAEMON].pid <= 0 || now >= h.stop_by_ms))
			break;
		for (int k = 0; k < PEERS; k++) {
			struct peer *peer = &h.peers[k];
			if (peer->start_at_ms && now >= peer->start_at_ms && !h.stopping)
				start_peer((enum peer_kind)k);
			if (peer->kill_at_ms && now >= peer->kill_at_ms)
				peer_kill(peer);
			p[k] = (struct pollfd){ .fd = peer->sock, .events = POLLIN };
		}
		p[PEERS] = (struct pollfd){ .fd = h.signals, .events = POLLIN };
		/* A poll that failed for want of memory has filled nothing in; the next one may. */
		if (poll(p, PEERS + 1, next_timeout(now)) < 0)
			continue;
		if (p[PEER_DAEMON].revents)
			drain(PEER_DAEMON);
		if (p[PEER_BUILDER].revents)
			drain(PEER_BUILDER);
		if (p[PEER_SWEEPER].revents)
			drain(PEER_SWEEPER);
		if (p[PEERS].revents)
			on_signal();
		if (h.again)
			try_again();
		retire_idle(now);
	}
	stop_all();
	return h.exit_status;
}
