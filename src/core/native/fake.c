// SPDX-License-Identifier: Apache-2.0
#include "core/native/fake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/fd.h"

#define must(expr) \
	do { \
		if (!(expr)) \
			abort(); \
	} while (0)

const struct native_config fake_config = {
	.launcher_fd = -1,
	.pool = 2,
	.pool_all = 64,
	.running_max = 8,
	.idle_ms = 60000,
	.tmp_dir = "/tmp",
};

static void on_volume(void *data, const char *volume, uint32_t tenant)
{
	struct fake *f = data;

	f->volumes_seen++;
}

static void on_ready(void *data, const struct err *err)
{
	struct fake *f = data;

	f->ready = true;
	if (err)
		f->err = *err;
}

static void on_lost(void *data, const struct err *err)
{
	struct fake *f = data;

	f->lost = true;
	f->err = *err;
}

void fake_open(struct fake *f, const struct native_config *config)
{
	struct native_config c = *config;
	struct wire_msg msg;
	struct err err;
	int socks[2];

	memset(f, 0, sizeof(*f));
	f->builds = f->kills = f->answers = true;
	f->status = (struct ld_status){ .volume_bytes = 1000, .volume_free = 600 };
	f->at_once = 100;
	f->gateway = -1;
	clock_fake(INT64_C(1000000000), INT64_C(1700000000000000));
	must(uv_loop_init(&f->loop) == 0);
	must(wire_pair_open(socks, &err) == 0);
	f->launcher = socks[0];
	c.launcher_fd = socks[1];
	c.lost = on_lost;
	must(native_open(&f->loop, &c, on_volume, on_ready, f, &f->rt, &err) == 0);
	/* Until the loop runs nobody would read the answer. */
	must(wire_recv(f->launcher, &wire_dl, &msg) == -EAGAIN);
	uv_run(&f->loop, UV_RUN_NOWAIT);
	must(wire_recv(f->launcher, &wire_dl, &msg) == 1 && msg.head.type == DL_HELLO);
}

static void tell_with(struct fake *f, uint8_t type, uint32_t id, const void *body, size_t len,
		      const int *fds, unsigned n_fds)
{
	int r = wire_send(f->launcher, type, id, body, len, fds, n_fds);

	must(r == 0 || r == -EPIPE); /* airlockd may have closed */
}

void fake_tell(struct fake *f, uint8_t type, uint32_t id, const void *body, size_t len)
{
	tell_with(f, type, id, body, len, NULL, 0);
}

void fake_list_end(struct fake *f, const struct ld_volume *volumes, uint32_t n)
{
	const struct ld_ready body = { .n = n };
	size_t len = n * sizeof(volumes[0]);
	int fd = memfd_create("volumes", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	must(fd >= 0 && (!n || write(fd, volumes, len) == (ssize_t)len));
	tell_with(f, LD_READY, 0, &body, sizeof(body), &fd, 1);
	close(fd);
}

void fake_greet(struct fake *f)
{
	struct ld_hello hello = { .cgroup_version = 1,
				  .quota = MSG_QUOTA_FULL,
				  .layers = 0xff,
				  .required = 0x1ff,
				  .gateway = 1,
				  .at_once = f->at_once };
	struct ld_volume volume = { .tenant = 1, .volume = FAKE_VOLUME };

	memcpy(hello.build, ipc_build_id, strlen(ipc_build_id));
	fake_tell(f, LD_HELLO, 0, &hello, sizeof(hello));
	fake_list_end(f, &volume, 1);
	fake_turn(f);
}

void fake_start(struct fake *f, const struct native_config *config)
{
	fake_open(f, config);
	fake_greet(f);
}

static void on_closed(void *data)
{
	((struct fake *)data)->closed = true;
}

void fake_stop(struct fake *f)
{
	native_close(f->rt, on_closed, f);
	for (int i = 0; i < 10 && !f->closed; i++)
		fake_turn(f);
	if (!f->closed)
		fake_advance(f, 1000);
	for (int i = 0; i < 10 && !f->closed; i++)
		fake_turn(f);
	must(f->closed);
	must(uv_loop_close(&f->loop) == 0);
	for (unsigned i = 0; i < f->n; i++) {
		fake_die(&f->sandboxes[i]);
		for (unsigned j = 0; j < LD_SLOT_FDS; j++)
			fd_close(&f->sandboxes[i].slot_fds[j]);
	}
	fd_close(&f->launcher);
	fd_close(&f->gateway);
}

/* ---- The launcher ---- */

static struct fake_sandbox *find(struct fake *f, struct msg_sandbox id)
{
	if (id.slot < f->n && id.generation == id.slot + 1)
		return &f->sandboxes[id.slot];
	must(f->lenient);
	return NULL;
}

void fake_measure(struct fake_sandbox *s, enum ld_slot_fd which, const char *text)
{
	size_t len = strlen(text);

	must(ftruncate(s->slot_fds[which], 0) == 0);
	must(pwrite(s->slot_fds[which], text, len, 0) == (ssize_t)len);
}

static struct fake_sandbox *report(struct fake *f, uint32_t id, uint32_t tenant, uint32_t egress,
				   bool used)
{
	static const char *const texts[] = { "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
					     "1000000\n", "2000000\n", "max 0\n" };
	struct fake_sandbox *s = &f->sandboxes[f->n];
	struct ld_slot slot = { .slot = f->n, .cgroup_version = 1 };
	struct ld_sandbox body = { .tenant = tenant,
				   .egress = egress,
				   .posture = FAKE_POSTURE,
				   .used = used,
				   .image = FAKE_IMAGE };
	struct msg_hello hello = { 0 };
	struct err err;
	int socks[2];

	must(f->n < FAKE_SANDBOXES);
	*s = (struct fake_sandbox){ .tenant = tenant, .egress = egress };
	for (unsigned i = 0; i < WIRE_FDS; i++)
		s->fds[i] = -1;
	s->id = body.sandbox = (struct msg_sandbox){ f->n, f->n + 1 };
	f->n++;
	for (unsigned i = 0; i < LD_SLOT_FDS; i++) {
		s->slot_fds[i] = memfd_create("measure", MFD_CLOEXEC);
		must(s->slot_fds[i] >= 0);
		fake_measure(s, i, texts[i]);
	}
	must(wire_pair_open(socks, &err) == 0);
	s->init = socks[0];
	memcpy(hello.build, ipc_build_id, strlen(ipc_build_id));
	if (id)
		fake_say(s, ID_HELLO, 0, &hello, sizeof(hello));
	tell_with(f, LD_SLOT, 0, &slot, sizeof(slot), s->slot_fds, LD_SLOT_FDS);
	tell_with(f, LD_SANDBOX, id, &body, sizeof(body), &socks[1], 1);
	close(socks[1]);
	return s;
}

static uint32_t take_build(struct fake *f, uint32_t *ret_tenant, uint32_t *ret_egress)
{
	uint32_t id = f->build_ids[0];

	must(f->building > 0);
	*ret_tenant = f->build_tenants[0];
	*ret_egress = f->build_egress[0];
	f->building--;
	memmove(f->build_ids, f->build_ids + 1, f->building * sizeof(f->build_ids[0]));
	memmove(f->build_tenants, f->build_tenants + 1, f->building * sizeof(f->build_tenants[0]));
	memmove(f->build_egress, f->build_egress + 1, f->building * sizeof(f->build_egress[0]));
	return id;
}

struct fake_sandbox *fake_build(struct fake *f)
{
	uint32_t tenant, egress, id = take_build(f, &tenant, &egress);

	return report(f, id, tenant, egress, false);
}

struct fake_sandbox *fake_report(struct fake *f, uint32_t tenant, bool used)
{
	return report(f, 0, tenant, 0, used);
}

void fake_answer_status(struct fake *f)
{
	fake_tell(f, LD_STATUS, f->status_id, &f->status, sizeof(f->status));
}

void fake_fail_build(struct fake *f)
{
	struct msg_done done = { .code = ENOMEM, .text = "no memory" };
	uint32_t tenant, egress, id = take_build(f, &tenant, &egress);

	fake_tell(f, LD_BUILD_FAILED, id, &done, sizeof(done));
}

void fake_gone(struct fake *f, struct fake_sandbox *s)
{
	if (s->gone)
		return;
	s->gone = true;
	fake_die(s);
	fake_tell(f, LD_GONE, 0, &s->id, sizeof(s->id));
}

static void on_volume_request(struct fake *f, const struct wire_msg *msg)
{
	struct msg_done done = { .code = f->volume_code };
	struct ld_volume_stat stat = { .code = f->volume_code, .used_bytes = 12345 };

	switch (msg->head.type) {
	case DL_VOLUME_CREATE:
		memcpy(&f->last_create, msg->body, sizeof(f->last_create));
		f->created++;
		break;
	case DL_VOLUME_DELETE:
		f->deleted++;
		break;
	case DL_SNAPSHOT_CREATE:
		memcpy(&f->last_copy, msg->body, sizeof(f->last_copy));
		f->copied++;
		break;
	case DL_VOLUME_LIMIT:
		memcpy(&f->last_limit, msg->body, sizeof(f->last_limit));
		f->limited++;
		break;
	case DL_SNAPSHOT_SEAL:
		f->sealed++;
		break;
	default:
		f->stats++;
	}
	if (f->plain && (msg->head.type == DL_SNAPSHOT_CREATE ||
			 (msg->head.type == DL_VOLUME_CREATE && f->last_create.source[0])))
		done.code = EOPNOTSUPP;
	if (!f->answers)
		return;
	if (msg->head.type == DL_VOLUME_STAT)
		fake_tell(f, LD_VOLUME_STAT, msg->head.id, &stat, sizeof(stat));
	else
		fake_tell(f, LD_DONE, msg->head.id, &done, sizeof(done));
}

static void on_request(struct fake *f, const struct wire_msg *msg)
{
	const struct msg_done busy = { .code = EAGAIN };
	struct dl_build build;
	struct dl_handover handover;
	struct dl_policy policy;
	struct fake_sandbox *s;
	struct msg_sandbox id;

	switch (msg->head.type) {
	case DL_BUILD:
		memcpy(&build, msg->body, sizeof(build));
		if (f->building == FAKE_SANDBOXES)
			break;
		f->build_ids[f->building] = msg->head.id;
		f->build_egress[f->building] = build.egress;
		f->build_tenants[f->building++] = build.tenant;
		if (f->builds && f->n < FAKE_SANDBOXES)
			fake_build(f);
		break;
	case DL_HANDOVER:
		memcpy(&handover, msg->body, sizeof(handover));
		s = find(f, handover.sandbox);
		if (s)
			memcpy(s->volume, handover.volume, MSG_VOLUME_NAME);
		if (s)
			memcpy(s->source, handover.source, MSG_VOLUME_NAME);
		break;
	case DL_KILL:
		memcpy(&id, msg->body, sizeof(id));
		s = find(f, id);
		if (!s)
			break;
		must(!s->killed || f->lenient);
		s->killed = true;
		if (f->kills)
			fake_gone(f, s);
		break;
	case DL_STATUS:
		f->statuses++;
		f->status_id = msg->head.id;
		if (f->hangs)
			break;
		if (f->says_nothing)
			fake_tell(f, LD_DONE, msg->head.id, &busy, sizeof(busy));
		else
			fake_tell(f, LD_STATUS, msg->head.id, &f->status, sizeof(f->status));
		break;
	case DL_POLICY:
		memcpy(&policy, msg->body, sizeof(policy));
		f->policies++;
		f->policy_code = policy.code;
		f->policy_which = policy.which;
		break;
	case DL_HELLO:
		abort();
	default:
		on_volume_request(f, msg);
	}
}

static bool pump_launcher(struct fake *f)
{
	struct wire_msg msg;
	bool any = false;
	int r;

	/* In portions, so that the answers never fill the other direction. */
	for (int i = 0;
	     i < 64 && f->launcher >= 0 && (r = wire_recv(f->launcher, &wire_dl, &msg)) != -EAGAIN;
	     i++) {
		if (r == 0)
			fd_close(&f->launcher);
		if (r == 0)
			break;
		must(r == 1);
		on_request(f, &msg);
		any = true;
	}
	return any;
}

void fake_turn(struct fake *f)
{
	for (int quiet = 0; quiet < 3; quiet++) {
		uv_run(&f->loop, UV_RUN_NOWAIT);
		if (pump_launcher(f))
			quiet = 0;
	}
}

void fake_advance(struct fake *f, int64_t ms)
{
	clock_fake_advance(ms * 1000);
	if (!f->closed)
		deadlines_run(&f->rt->deadlines);
	fake_turn(f);
}

/* ---- The gateway ---- */

void fake_gateway(struct fake *f, bool greet)
{
	struct msg_hello hello = { 0 };
	struct err err;
	int socks[2];

	fd_close(&f->gateway);
	must(wire_pair_open(socks, &err) == 0);
	f->gateway = socks[0];
	memcpy(hello.build, ipc_build_id, strlen(ipc_build_id));
	if (greet)
		fake_gateway_say(f, GD_HELLO, 0, &hello, sizeof(hello), -1);
	tell_with(f, LD_GATEWAY, 0, NULL, 0, &socks[1], 1);
	close(socks[1]);
}

bool fake_gateway_receive(struct fake *f, struct wire_msg *msg)
{
	int r = f->gateway < 0 ? -EAGAIN : wire_recv(f->gateway, &wire_dg, msg);

	must(r == 0 || r == 1 || r == -EAGAIN);
	if (r == 0)
		fd_close(&f->gateway);
	return r == 1;
}

void fake_gateway_skip(struct fake *f)
{
	struct wire_msg msg;

	while (fake_gateway_receive(f, &msg))
		wire_msg_fini(&msg);
}

void fake_gateway_say(struct fake *f, uint8_t type, uint32_t id, const void *body, size_t len,
		      int fd)
{
	int r = wire_send(f->gateway, type, id, body, len, &fd, fd >= 0);

	must(r == 0 || r == -EPIPE || r == -EBADF);
}

void fake_deny(struct fake *f, const struct fake_sandbox *s, const char *host)
{
	struct gd_denied body = { .sandbox = s->id };

	snprintf(body.host, sizeof(body.host), "%s", host);
	fake_gateway_say(f, GD_DENIED, 0, &body, sizeof(body), -1);
}

bool fake_gateway_is_lost(struct fake *f)
{
	fake_gateway_skip(f);
	return f->gateway < 0;
}

/* ---- An init ---- */

void fake_drop_fds(struct fake_sandbox *s)
{
	for (unsigned i = 0; i < WIRE_FDS; i++)
		fd_close(&s->fds[i]);
	s->n_fds = 0;
}

bool fake_receive(struct fake_sandbox *s)
{
	struct wire_msg msg;

	if (s->init < 0 || wire_recv(s->init, &wire_di, &msg) != 1)
		return false;
	fake_drop_fds(s);
	s->got = msg.head.type;
	s->job = msg.head.id;
	s->n_fds = msg.n_fds;
	memcpy(s->fds, msg.fds, sizeof(s->fds));
	memcpy(s->body, msg.body, msg.body_len);
	return true;
}

void fake_say(struct fake_sandbox *s, uint8_t type, uint32_t id, const void *body, size_t len)
{
	wire_send(s->init, type, id, body, len, NULL, 0);
}

void fake_started(struct fake_sandbox *s)
{
	const struct id_started body = { .landlock = 3 };

	fake_say(s, ID_STARTED, s->job, &body, sizeof(body));
}

void fake_exited(struct fake_sandbox *s, uint32_t status)
{
	const struct id_exited body = { .status = status, .wall_us = 1500 };

	fake_drop_fds(s);
	fake_say(s, ID_EXITED, s->job, &body, sizeof(body));
}

void fake_die(struct fake_sandbox *s)
{
	fake_drop_fds(s);
	fd_close(&s->init);
}

struct fake_sandbox *fake_busy(struct fake *f)
{
	for (unsigned i = f->n; i-- > 0;) {
		struct fake_sandbox *s = &f->sandboxes[i];
		if (s->volume[0] && !s->gone && fake_receive(s))
			return s;
	}
	return NULL;
}
