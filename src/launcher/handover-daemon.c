// SPDX-License-Identifier: Apache-2.0
/*
 * What airlockd asks of the hand-over role, and what it is told. airlockd is not trusted: each
 * message is checked by type, length, names and numbers; one that does not pass ends airlockd,
 * which is then started anew.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "ipc/posture.h"
#include "launcher/handover.h"
#include "sandbox/knobs.h"

/* First one of each slot, then one of each sandbox. So many fit into any socket that the kernel
 * calls writable (three quarters of its buffer are free), with room for what happens meanwhile. */
#define LIST_ENTRIES (2u * LAYOUT_SLOTS)
#define LIST_PORTION 128

/* ---- Sending ---- */

bool daemon_is_ready(void)
{
	return h.peers[PEER_DAEMON].greeted && !h.unlisted;
}

/* The list will say it. */
static bool is_unlisted(uint32_t entry)
{
	return entry >= LIST_ENTRIES - h.unlisted;
}

void daemon_send(uint8_t type, uint32_t id, const void *body, size_t len, const int *fds,
		 unsigned n)
{
	static const uint64_t in_list = 1u << LD_SLOT | 1u << LD_SANDBOX | 1u << LD_GONE;

	if (h.unlisted && !wire_allow(in_list, type))
		return;
	peer_send(&h.peers[PEER_DAEMON], type, id, body, len, fds, n);
}

static void daemon_done(uint32_t id, int code, const char *text)
{
	struct msg_done body = { .code = (uint32_t)code };

	snprintf(body.text, sizeof(body.text), "%.199s", text);
	daemon_send(LD_DONE, id, &body, sizeof(body), NULL, 0);
}

void daemon_announce_slot(struct sandbox *s)
{
	struct ld_slot body = { (uint32_t)(s - h.sandboxes), (uint32_t)h.l->cgroup.version };

	if (s->measure[0] >= 0 && !is_unlisted(body.slot))
		daemon_send(LD_SLOT, 0, &body, sizeof(body), s->measure, LD_SLOT_FDS);
}

void daemon_announce(struct sandbox *s)
{
	struct ld_sandbox body = { .sandbox = sandbox_name(s),
				   .tenant = s->tenant,
				   .egress = s->egress,
				   .posture = s->posture,
				   .used = s->state == USED };

	if (is_unlisted(LAYOUT_SLOTS + body.sandbox.slot))
		return;
	memcpy(body.image, s->image, sizeof(body.image));
	daemon_send(LD_SANDBOX, s->request, &body, sizeof(body), &s->control, 1);
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
				 .gateway = h.l->options.egress_user != NULL,
				 .all_ports = h.l->all_ports,
				 .server = h.l->server,
				 .layers = h.l->layers,
				 .required = LAUNCHER_POSTURE_MULTI,
				 .at_once = h.l->cgroup.at_once };

	snprintf(body.build, sizeof(body.build), "%s", ipc_build_id);
	daemon_send(LD_HELLO, id, &body, sizeof(body), NULL, 0);
}

struct volume_file {
	int fd;
	uint32_t n;
	bool failed;
};

static void add_volume(void *data, const char *name, uint32_t tenant)
{
	struct volume_file *file = data;
	struct ld_volume record = { .tenant = tenant };

	snprintf(record.volume, sizeof(record.volume), "%s", name);
	file->failed |= write(file->fd, &record, sizeof(record)) != sizeof(record);
	file->n++;
}

/* airlockd forgets a session whose workspace is not in it, so it is whole or there is none. */
static int send_ready(struct err *err)
{
	_cleanup_fd_ int fd = memfd_create("volumes", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct volume_file file = { .fd = fd };
	int r = fd < 0 ? err_errno(err, "memfd_create")
		       : volume_each(&h.l->volumes, add_volume, &file, err);

	if (r == 0 &&
	    (file.failed ||
	     fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0))
		r = err_set(err, ENOMEM, "there is no memory for it");
	if (r < 0)
		return r;
	const struct ld_ready body = { .n = file.n };
	daemon_send(LD_READY, 0, &body, sizeof(body), &fd, 1);
	return 0;
}

void daemon_list(void)
{
	struct err err;

	for (int n = 0; n < LIST_PORTION && h.unlisted; n++) {
		uint32_t entry = LIST_ENTRIES - h.unlisted--;
		struct sandbox *s = &h.sandboxes[entry % LAYOUT_SLOTS];
		if (entry < LAYOUT_SLOTS)
			daemon_announce_slot(s);
		else if (s->state == BLANK || s->state == USED)
			daemon_announce(s);
	}
	if (h.unlisted)
		return;
	if (send_ready(&err) < 0) {
		log_event(LOG_ERROR, "volume_list", LOG_STR("why", err.text));
		peer_kill(&h.peers[PEER_DAEMON]);
		return;
	}
	gateway_connect();
	policies_daemon_ready();
}

static int on_hello(const struct wire_msg *msg)
{
	if (!handover_same_build(&h.peers[PEER_DAEMON], msg))
		return -EPROTO;
	h.peers[PEER_DAEMON].greeted = true;
	h.served = true;
	send_hello(msg->head.id);
	h.unlisted = LIST_ENTRIES;
	return 0;
}

int daemon_build_failed(uint32_t id, int code, const char *text)
{
	struct msg_done body = { .code = (uint32_t)code };

	snprintf(body.text, sizeof(body.text), "%.199s", text);
	daemon_send(LD_BUILD_FAILED, id, &body, sizeof(body), NULL, 0);
	return 0;
}

static int on_build(const struct wire_msg *msg)
{
	struct dl_build want;
	struct lb_build body = { 0 };

	memcpy(&want, msg->body, sizeof(want));
	if (want.egress > (h.l->options.egress_user != NULL) || !want.image[0] ||
	    want.image[sizeof(want.image) - 1] || strchr(want.image, '/') || want.image[0] == '.')
		return -EPROTO;
	struct sandbox *s = free_slot(want.tenant);
	if (!s)
		return daemon_build_failed(msg->head.id, EAGAIN, "no slot is free");
	s->state = BUILDING;
	s->generation = ++h.generations;
	s->tenant = want.tenant;
	s->egress = want.egress;
	s->request = msg->head.id;
	memcpy(s->image, want.image, sizeof(s->image));
	body.sandbox = sandbox_name(s);
	body.tenant = want.tenant;
	body.egress = want.egress;
	memcpy(body.image, want.image, sizeof(body.image));
	if (wire_send(h.peers[PEER_BUILDER].sock, LB_BUILD, msg->head.id, &body, sizeof(body), NULL,
		      0) < 0) {
		sandbox_release(s);
		return daemon_build_failed(msg->head.id, EAGAIN, "the builder is busy");
	}
	return 0;
}

/* NOSUID, NODEV: init drops its right to change them right after the attach. */
#define MAP_WORKSPACE (MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define MAP_SOURCE (MAP_WORKSPACE | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC)

static int map_mount(int volume, int userns, uint64_t attributes)
{
	struct mount_attr attr = { .attr_set = attributes, .userns_fd = (uint64_t)userns };
	_cleanup_fd_ int mount =
		open_tree(volume, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (mount < 0 || mount_setattr(mount, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return -errno;
	return take_fd(&mount);
}

/* From the name to a mount for this sandbox. A snapshot is a workspace until it is sealed, and can
 * be copied from since. */
static int open_mount(const struct sandbox *s, const char *name, uint64_t attributes)
{
	_cleanup_fd_ int volume = -1;
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
	if (volume_is_snapshot(name) &&
	    volume_is_sealed(&h.l->volumes, volume) != (attributes == MAP_SOURCE))
		return attributes == MAP_SOURCE ? -EBUSY : -EROFS;
	return map_mount(volume, s->userns, attributes);
}

static int hand_over(struct sandbox *s, const struct dl_handover *want)
{
	_cleanup_fd_ int workspace = open_mount(s, want->volume, MAP_WORKSPACE);
	_cleanup_fd_ int source = -1;
	const struct li_attach body = { 0 };

	if (workspace < 0)
		return workspace;
	if (want->source[0] && (source = open_mount(s, want->source, MAP_SOURCE)) < 0)
		return source;
	const int mounts[] = { workspace, source };
	return wire_send(s->handover, LI_ATTACH, 0, &body, sizeof(body), mounts,
			 source < 0 ? 1 : 2);
}

/* Of a source: "" is none. */
static bool source_ok(const char name[MSG_VOLUME_NAME])
{
	return !name[0] || volume_name_ok(name);
}

static int on_handover(const struct wire_msg *msg)
{
	struct dl_handover body;

	memcpy(&body, msg->body, sizeof(body));
	if (!volume_name_ok(body.volume) || !source_ok(body.source))
		return -EPROTO;
	struct sandbox *s = sandbox_find(body.sandbox);
	if (!s)
		return 0; /* it died meanwhile; LD_GONE is on its way */
	if (s->state != BLANK)
		return -EPROTO;
	s->state = USED;
	int r = hand_over(s, &body);
	fd_close(&s->handover);
	fd_close(&s->userns);
	if (r < 0) {
		struct ld_handover_failed failed = { body.sandbox, (uint32_t)-r };
		daemon_send(LD_HANDOVER_FAILED, 0, &failed, sizeof(failed), NULL, 0);
		sandbox_kill(s);
	}
	return 0;
}

static int on_kill(const struct wire_msg *msg)
{
	struct msg_sandbox name;

	memcpy(&name, msg->body, sizeof(name));
	struct sandbox *s = sandbox_find(name);
	if (s)
		sandbox_kill(s);
	else
		daemon_send(LD_GONE, 0, &name, sizeof(name), NULL, 0);
	return 0;
}

static void refuse_call(const struct call *c, const char *text)
{
	struct ld_volume_stat body = { .code = EAGAIN };

	if (c->type == LS_VOLUME_STAT)
		daemon_send(LD_VOLUME_STAT, c->id, &body, sizeof(body), NULL, 0);
	else
		daemon_done(c->id, EAGAIN, text);
}

void daemon_refuse_calls(const char *text)
{
	for (struct call *c = h.calls; c < h.calls + CALLS_MAX; c++) {
		if (c->type && !c->stale)
			refuse_call(c, text);
		c->type = 0;
	}
}

/* Volume calls go to the sweeper as they are, after their names were checked. */
static int forward(const struct wire_msg *msg, uint8_t type, bool names_ok)
{
	const struct call call = { .type = type, .id = msg->head.id };
	uint32_t n = 0;

	if (!names_ok)
		return -EPROTO;
	while (n < CALLS_MAX && h.calls[n].type)
		n++;
	if (n == CALLS_MAX ||
	    wire_send(h.peers[PEER_SWEEPER].sock, type, n, msg->body, msg->body_len, NULL, 0) < 0)
		refuse_call(&call, "the sweeper is busy");
	else
		h.calls[n] = call;
	return 0;
}

static int on_volume_message(const struct wire_msg *msg)
{
	struct dl_volume_create create;
	struct dl_snapshot_create snapshot;
	struct dl_volume_limit limit;
	struct dl_volume volume;

	switch (msg->head.type) {
	case DL_VOLUME_CREATE:
		memcpy(&create, msg->body, sizeof(create));
		return forward(msg, LS_VOLUME_CREATE,
			       volume_name_ok(create.volume) && source_ok(create.source));
	case DL_SNAPSHOT_CREATE:
		memcpy(&snapshot, msg->body, sizeof(snapshot));
		return forward(msg, LS_SNAPSHOT_CREATE,
			       volume_name_ok(snapshot.volume) &&
				       volume_name_ok(snapshot.snapshot) &&
				       volume_is_snapshot(snapshot.snapshot));
	case DL_VOLUME_LIMIT:
		memcpy(&limit, msg->body, sizeof(limit));
		return forward(msg, LS_VOLUME_LIMIT, volume_name_ok(limit.volume));
	}
	static const uint8_t plain[] = {
		[DL_VOLUME_DELETE] = LS_VOLUME_DELETE,
		[DL_VOLUME_STAT] = LS_VOLUME_STAT,
		[DL_SNAPSHOT_SEAL] = LS_SNAPSHOT_SEAL,
	};
	memcpy(&volume, msg->body, sizeof(volume));
	return forward(msg, plain[msg->head.type], volume_name_ok(volume.volume));
}

int daemon_on_message(const struct wire_msg *msg)
{
	struct dl_policy policy;

	if ((msg->head.type == DL_HELLO) == h.peers[PEER_DAEMON].greeted)
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
	case DL_VOLUME_DELETE:
	case DL_VOLUME_STAT:
	case DL_VOLUME_LIMIT:
	case DL_SNAPSHOT_CREATE:
	case DL_SNAPSHOT_SEAL:
		return on_volume_message(msg);
	case DL_POLICY:
		memcpy(&policy, msg->body, sizeof(policy));
		return policy_answered(&policy);
	case DL_STATUS:
		return forward(msg, LS_STATUS, true);
	}
	return -EPROTO;
}
