// SPDX-License-Identifier: Apache-2.0
/*
 * The builder: makes blank sandboxes, one after the other, and tells the hand-over role. Order of
 * one:
 *
 *   1  the tenant's template namespace is there (made at the tenant's first sandbox)
 *   2  the slot's cgroup has its limits and holds nothing
 *   3  clone from inside the template, straight into new namespaces and the cgroup; the hand-over
 *      role is the parent, so a death of the builder costs no sandbox
 *   4  id maps are written, then and only then the child goes on (launcher/child.c)
 *   5  init says that the tenant process waits, locked down
 *   6  everything is measured from outside; a difference from what must hold kills the sandbox
 *   7  it becomes known: descriptors to the hand-over role, first those of its egress, if any
 *
 * The builder reads only numbers and names that the hand-over role has checked.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "ipc/messages.h"
#include "ipc/posture.h"
#include "launcher/catch.h"
#include "launcher/child.h"
#include "launcher/launcher.h"
#include "launcher/measure.h"
#include "launcher/net.h"
#include "launcher/template.h"
#include "sandbox/knobs.h"
#include "sandbox/layout.h"

#define TEMPLATES_MAX 64
#define READY_TIMEOUT_MS 10000
#define BUILDS_MAX 4

struct template
{
	bool used;
	uint32_t tenant;
	char image[MSG_IMAGE_NAME];
	int namespace; /* owned */
	bool own_image;
	uint64_t last; /* number of the build that used it last */
};

struct slot {
	bool used;
	uint32_t tenant;
	struct cgroup_slot cgroup;
	struct catch catch;
};

/* One build; everything still owned at the end is closed. Several are under way at once: while one
 * child mounts and locks itself in, the next is cloned. */
struct build {
	bool used;
	struct lb_build want;
	uint32_t request;
	bool own_image;
	int64_t until_ms; /* it must be ready by then */
	int control[2], handover[2], go[2], ready[2];
	int pidfd, userns;
	pid_t pid;
	uint32_t posture;
};

#define BUILD_NONE \
	((struct build){ .control = { -1, -1 }, \
			 .handover = { -1, -1 }, \
			 .go = { -1, -1 }, \
			 .ready = { -1, -1 }, \
			 .pidfd = -1, \
			 .userns = -1, \
			 .pid = -1 })

static struct {
	struct launcher *l;
	int sock;
	int own_namespace;
	uint64_t builds;
	struct plan plans[2]; /* without and with egress */
	struct template templates[TEMPLATES_MAX];
	struct slot slots[LAYOUT_SLOTS];
	struct build builds_now[BUILDS_MAX];
	pid_t retiring; /* child that removes the cgroups of a tenant; 0: none */
	uint32_t retiring_tenant;
} b;

static void build_fini(struct build *x)
{
	int *const all[] = { &x->control[0], &x->control[1], &x->handover[0], &x->handover[1],
			     &x->go[0],	     &x->go[1],	     &x->ready[0],    &x->ready[1],
			     &x->pidfd,	     &x->userns };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		fd_close(all[i]);
	x->used = false;
}

static void wait_retired(void)
{
	if (b.retiring > 0)
		while (waitpid(b.retiring, NULL, 0) < 0 && errno == EINTR)
			;
	b.retiring = 0;
}

static void template_drop(struct template *t)
{
	fd_close(&t->namespace);
	*t = (struct template){ .namespace = -1 };
}

static int template_get(const struct lb_build *want, struct template **ret, struct err *err)
{
	struct template *oldest = &b.templates[0];
	_cleanup_fd_ int image = -1;

	for (struct template *t = b.templates; t < b.templates + TEMPLATES_MAX; t++) {
		if (t->used && t->tenant == want->tenant && !strcmp(t->image, want->image)) {
			t->last = b.builds;
			*ret = t;
			return 0;
		}
		if (!t->used || (oldest->used && t->last < oldest->last))
			oldest = t;
	}
	if (oldest->used)
		template_drop(oldest);
	int r = image_open_for_tenant(&b.l->volumes, want->image, want->tenant, &image,
				      &oldest->own_image, err);
	if (r < 0)
		return r;
	r = template_make(image, &oldest->namespace, err);
	if (r < 0)
		return r;
	oldest->used = true;
	oldest->tenant = want->tenant;
	memcpy(oldest->image, want->image, sizeof(oldest->image));
	oldest->last = b.builds;
	*ret = oldest;
	return 0;
}

static int slot_prepare(const struct lb_build *want, struct err *err)
{
	struct slot *s = &b.slots[want->sandbox.slot];

	if (b.retiring > 0 && b.retiring_tenant == want->tenant)
		wait_retired();
	if (s->used && s->tenant != want->tenant) {
		struct err ignored;
		cgroup_slot_close(&s->cgroup);
		cgroup_slot_remove(&b.l->cgroup, s->tenant, want->sandbox.slot, &ignored);
		/* Nobody will say that it is idle if this was its last one. */
		cgroup_tenant_remove(&b.l->cgroup, s->tenant);
	}
	s->used = true;
	s->tenant = want->tenant;
	return cgroup_slot_prepare(&b.l->cgroup, want->tenant, want->sandbox.slot, &s->cgroup, err);
}

static int open_channels(struct build *x, struct err *err)
{
	int r = wire_pair_open(x->control, err);

	if (r == 0)
		r = wire_pair_open(x->handover, err);
	if (r == 0 && (pipe2(x->go, O_CLOEXEC) < 0 || pipe2(x->ready, O_CLOEXEC) < 0))
		r = err_errno(err, "pipe2");
	return r;
}

/* The kernel also counts what happens in a user namespace (inotify instances, queued signals, bytes
 * in message queues) against the user who made it. Made by root, all sandboxes would share root's
 * few with each other and with the host's services, so each is made under an id of its slot. */
static void act_as(uint32_t id)
{
	if (syscall(SYS_setresuid, -1, id, -1) < 0 ||
	    /* Cleared by the change of ids. */
	    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		_exit(1);
}

static int clone_child(struct build *x, const struct template *t, uint32_t slot, struct err *err)
{
	const struct cgroup_slot *cgroup = &b.slots[slot].cgroup;
	struct clone_args args = {
		.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_PARENT |
			 CLONE_PIDFD | (knob_off(KNOB_NET) ? 0 : CLONE_NEWNET) |
			 (knob_off(KNOB_IPC) ? 0 : CLONE_NEWIPC),
		.pidfd = (uint64_t)(uintptr_t)&x->pidfd,
	};
	struct child_spec spec = {
		.plan = &b.plans[x->want.egress != 0],
		.cgroup = cgroup,
		.init = b.l->init_fd,
		.go = x->go[0],
		.control = x->control[1],
		.handover = x->handover[1],
		.lifeline = b.l->lifeline[0],
		.ready = x->ready[1],
	};

	if (cgroup->into >= 0) {
		args.flags |= CLONE_INTO_CGROUP | CLONE_NEWCGROUP;
		args.cgroup = (uint64_t)cgroup->into;
	}
	if (setns(t->namespace, CLONE_NEWNS) < 0)
		return err_errno(err, "cannot enter the template");
	act_as(layout_init_id(b.l->server, slot));
	long pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0) {
		/* The ends that are not the child's: only when they are closed here does the
		 * builder's death end the wait for "go". */
		close(x->go[1]);
		close(x->control[0]);
		close(x->handover[0]);
		close(x->ready[0]);
		child_main(&spec);
	}
	int saved = errno;
	act_as(0);
	/* If it fails nothing can be built from here any more; the supervisor starts another. */
	if (setns(b.own_namespace, CLONE_NEWNS) < 0)
		_exit(1);
	errno = saved;
	if (pid < 0)
		return err_errno(err, "clone3");
	x->pid = (pid_t)pid;
	return 0;
}

static int write_proc(pid_t pid, const char *name, const char *text, struct err *err)
{
	char path[64];

	snprintf(path, sizeof(path), "%d/%s", pid, name);
	_cleanup_fd_ int fd = openat(b.l->proc_fd, path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		return err_errno(err, "cannot write /proc/%s", path);
	return 0;
}

static int write_maps(const struct build *x, uint32_t slot, struct err *err)
{
	char map[96];
	int r;

	snprintf(map, sizeof(map), "%u %u 1\n%u %u 1\n", LAYOUT_INIT,
		 layout_init_id(b.l->server, slot), LAYOUT_TENANT,
		 layout_tenant_id(b.l->server, slot));
	r = write_proc(x->pid, "setgroups", "deny", err);
	if (r == 0)
		r = write_proc(x->pid, "gid_map", map, err);
	if (r == 0)
		r = write_proc(x->pid, "uid_map", map, err);
	return r;
}

static int open_userns(struct build *x, struct err *err)
{
	char path[64];

	snprintf(path, sizeof(path), "%d/ns/user", x->pid);
	x->userns = openat(b.l->proc_fd, path, O_RDONLY | O_CLOEXEC);
	return x->userns < 0 ? err_errno(err, "cannot open the user namespace") : 0;
}

static int read_ready(struct build *x, struct err *err)
{
	struct layout_ready ready;

	if (read(x->ready[0], &ready, sizeof(ready)) != sizeof(ready) ||
	    ready.magic != LAYOUT_READY_MAGIC)
		return err_set(err, EPIPE, "the sandbox died while it was built");
	if (ready.code) {
		ready.stage[sizeof(ready.stage) - 1] = '\0';
		return err_set(err, ready.code > 0 ? ready.code : EPROTO, "%s: %s", ready.stage,
			       strerrordesc_np(ready.code));
	}
	return 0;
}

static void tell(uint8_t type, uint32_t id, const void *body, size_t len, const int *fds,
		 unsigned n)
{
	for (;;) {
		int r = wire_send(b.sock, type, id, body, len, fds, n);
		struct pollfd p = { .fd = b.sock, .events = POLLOUT };
		if (r == 0)
			return;
		if (r != -EAGAIN || poll(&p, 1, -1) < 0)
			_exit(0);
	}
}

/* The link becomes one more descriptor of the message. */
static int catch_ports(struct build *x, struct wire_msg *net, struct err *err)
{
	char path[64];

	snprintf(path, sizeof(path), "%d/ns/net", x->pid);
	_cleanup_fd_ int network = openat(b.l->proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (network < 0)
		return err_errno(err, "cannot open the network namespace");
	int r = catch_attach(&b.slots[x->want.sandbox.slot].catch, network, net->fds[NET_TLS],
			     &net->fds[NET_FDS], err);
	net->n_fds += r == 0;
	return r;
}

/* Its sockets, which it sent before it became init; nothing of a tenant has run. */
static int pass_net(struct build *x, struct err *err)
{
	struct wire_msg msg;

	if (!x->want.egress)
		return 0;
	int r = wire_recv(x->handover[0], &wire_bl, &msg);
	if (r <= 0 || msg.head.type != BL_NET) {
		if (r > 0)
			wire_msg_fini(&msg);
		return err_set(err, r < 0 ? -r : EPROTO, "the sandbox did not send its sockets");
	}
	r = net_check(msg.fds, x->handover[0], err);
	if (r == 0 && b.l->all_ports)
		r = catch_ports(x, &msg, err);
	if (r == 0)
		tell(BL_NET, x->request, &x->want.sandbox, sizeof(x->want.sandbox), msg.fds,
		     msg.n_fds);
	wire_msg_fini(&msg);
	return r;
}

/* Init must outlive the tenant's out-of-memory; possible only with CAP_SYS_RESOURCE. */
static void protect_init(pid_t pid)
{
	struct err ignored;

	write_proc(pid, "oom_score_adj", "-1000", &ignored);
}

static int check_posture(struct build *x, struct err *err)
{
	const struct lb_build *want = &x->want;
	int r = measure_sandbox(b.l, want->tenant, want->sandbox.slot,
				&b.slots[want->sandbox.slot].cgroup, x->pid, &x->posture, err);
	uint32_t must = b.l->layers &
			(b.l->options.single ? LAUNCHER_POSTURE_BLANK : LAUNCHER_POSTURE_MULTI);

	/* These two are about the workspace, landlock about the released tenant. */
	must &= ~(uint32_t)(POSTURE_LANDLOCK | POSTURE_IDMAPPED_WORKSPACE | POSTURE_HARD_QUOTA);
	if (r < 0)
		return r;
	if (x->own_image)
		x->posture |= POSTURE_OWN_IMAGE_COPY;
	/* A workspace is made and handed over with both or not at all. */
	x->posture |= b.l->layers & (POSTURE_IDMAPPED_WORKSPACE |
				     (knob_off(KNOB_QUOTA) ? 0 : POSTURE_HARD_QUOTA));
#ifdef AIRLOCK_TEST_KNOBS
	if (knob_bits)
		return 0;
#endif
	uint32_t missing = must & ~x->posture;
	if (missing)
		return err_set(err, EPERM, "layer %s does not hold on a new sandbox",
			       posture_name((unsigned)__builtin_ctz(missing)));
	return 0;
}

/* Everything up to the moment from which the child goes on alone. */
static int build_start(struct build *x, struct err *err)
{
	uint32_t slot = x->want.sandbox.slot;
	struct template *t;
	int r = template_get(&x->want, &t, err);

	if (r == 0)
		r = slot_prepare(&x->want, err);
	if (r == 0)
		r = open_channels(x, err);
	if (r == 0)
		r = clone_child(x, t, slot, err);
	if (r < 0)
		return r;
	x->own_image = t->own_image;
	/* The child's ends must be the child's alone, so that its death is seen. */
	fd_close(&x->control[1]);
	fd_close(&x->handover[1]);
	fd_close(&x->go[0]);
	fd_close(&x->ready[1]);
	r = write_maps(x, slot, err);
	if (r == 0)
		r = open_userns(x, err);
	if (r == 0 && write(x->go[1], "g", 1) != 1)
		r = err_errno(err, "the sandbox died at once");
	x->until_ms = clock_monotonic_ms() + READY_TIMEOUT_MS;
	return r;
}

static void build_failed(struct build *x, const struct err *err)
{
	struct bl_failed body = { .sandbox = x->want.sandbox, .code = (uint32_t)err->code };

	snprintf(body.text, sizeof(body.text), "%.199s", err->text);
	if (x->pidfd >= 0)
		syscall(SYS_pidfd_send_signal, x->pidfd, SIGKILL, NULL, 0);
	tell(BL_FAILED, x->request, &body, sizeof(body), NULL, 0);
	build_fini(x);
}

/* The child has said something, or the time for it is over. */
static void build_finish(struct build *x, bool late)
{
	struct slot *s = &b.slots[x->want.sandbox.slot];
	struct err err;
	int r = late ? err_set(&err, ETIMEDOUT, "the sandbox did not get ready")
		     : read_ready(x, &err);

	if (r == 0) {
		protect_init(x->pid);
		r = check_posture(x, &err);
	}
	if (r == 0)
		r = pass_net(x, &err);
	if (r < 0) {
		build_failed(x, &err);
		return;
	}
	if (s->cgroup.fresh) {
		struct ld_slot body = { .slot = x->want.sandbox.slot,
					.cgroup_version = (uint32_t)b.l->cgroup.version };
		tell(BL_SLOT, 0, &body, sizeof(body), s->cgroup.measure, LD_SLOT_FDS);
		s->cgroup.fresh = false;
	}
	struct bl_built body = { x->want.sandbox, (uint32_t)x->pid, x->posture };
	int fds[] = { x->pidfd, x->control[0], x->handover[0], x->userns };
	tell(BL_BUILT, x->request, &body, sizeof(body), fds, 4);
	build_fini(x);
}

static struct build *free_build(void)
{
	for (size_t i = 0; i < BUILDS_MAX; i++)
		if (!b.builds_now[i].used)
			return &b.builds_now[i];
	return NULL;
}

static void on_build(const struct wire_msg *msg)
{
	struct build *x = free_build();
	struct err err;

	assert(x);
	*x = BUILD_NONE;
	x->used = true;
	x->request = msg->head.id;
	memcpy(&x->want, msg->body, sizeof(x->want));
	b.builds++;
	if (build_start(x, &err) < 0)
		build_failed(x, &err);
}

/* Removing a cgroup whose memory was not given back leaves a dying one behind for as long as the
 * page cache lives, and giving it back takes up to 90 ms a slot: a child does it. */
static void remove_slots(uint32_t tenant)
{
	struct err ignored;

	for (uint32_t i = 0; i < LAYOUT_SLOTS; i++)
		if (b.slots[i].used && b.slots[i].tenant == tenant) {
			cgroup_slot_empty(&b.l->cgroup, tenant, i);
			cgroup_slot_remove(&b.l->cgroup, tenant, i, &ignored);
		}
	cgroup_tenant_remove(&b.l->cgroup, tenant);
}

static void on_retire(const struct wire_msg *msg)
{
	struct lb_retire body;

	memcpy(&body, msg->body, sizeof(body));
	for (struct template *t = b.templates; t < b.templates + TEMPLATES_MAX; t++)
		if (t->used && t->tenant == body.tenant)
			template_drop(t);
	wait_retired();
	b.retiring = fork();
	if (b.retiring == 0) {
		remove_slots(body.tenant);
		_exit(0);
	}
	if (b.retiring < 0)
		return;
	b.retiring_tenant = body.tenant;
	for (uint32_t i = 0; i < LAYOUT_SLOTS; i++)
		if (b.slots[i].used && b.slots[i].tenant == body.tenant) {
			cgroup_slot_close(&b.slots[i].cgroup);
			b.slots[i].used = false;
		}
}

/* A builder before this one has made it; whoever gets the slot next may be another tenant. */
static void adopt_slot(uint32_t tenant, uint32_t slot_number)
{
	if (slot_number >= LAYOUT_SLOTS)
		return;
	b.slots[slot_number].used = true;
	b.slots[slot_number].tenant = tenant;
}

/* Of what was made before, the directories alone are known. */
static void find_slots(void)
{
	for (size_t i = 0; i < LAYOUT_SLOTS; i++)
		b.slots[i] = (struct slot){ .cgroup = CGROUP_SLOT_NONE, .catch = CATCH_NONE };
	cgroup_each_slot(&b.l->cgroup, adopt_slot);
}

static void on_order(void)
{
	struct wire_msg msg;
	int r = wire_recv(b.sock, &wire_lb, &msg);

	if (r == -EAGAIN)
		return;
	if (r <= 0)
		_exit(r < 0);
	if (msg.head.type == LB_BUILD)
		on_build(&msg);
	else
		on_retire(&msg);
	wire_msg_fini(&msg);
}

_Noreturn void builder_main(struct launcher *l, int sock)
{
	const struct sched_param none = { 0 };

	/* A batch task never preempts: the next sandbox must not hold up the command that took the
	 * last one (0.9 ms of 3 when one processor is left). Init goes back to normal for itself. */
	sched_setscheduler(0, SCHED_BATCH, &none);
	b.l = l;
	b.sock = sock;
	for (size_t i = 0; i < TEMPLATES_MAX; i++)
		b.templates[i].namespace = -1;
	for (int egress = 0; egress < 2; egress++)
		plan_make(&b.plans[egress],
			  &(struct plan_spec){ .tmp_mb = (uint32_t)l->options.tmp_mb,
					       .egress = egress });
	b.own_namespace = openat(l->proc_fd, "self/ns/mnt", O_RDONLY | O_CLOEXEC);
	/* Capabilities stay as they are while act_as changes the id. */
	if (b.own_namespace < 0 || prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
		_exit(1);
	for (size_t i = 0; i < BUILDS_MAX; i++)
		b.builds_now[i] = BUILD_NONE;
	find_slots();
	for (;;) {
		struct pollfd p[1 + BUILDS_MAX];
		int64_t now = clock_monotonic_ms(), at = now + 60000;

		/* Orders wait in the socket while every place is taken; its end is seen all the
		 * same. */
		p[0] = (struct pollfd){ .fd = sock, .events = free_build() ? POLLIN : 0 };
		for (size_t i = 0; i < BUILDS_MAX; i++) {
			const struct build *x = &b.builds_now[i];
			p[1 + i] = (struct pollfd){ .fd = x->used ? x->ready[0] : -1,
						    .events = POLLIN };
			if (x->used && x->until_ms < at)
				at = x->until_ms;
		}
		if (poll(p, ARRAY_SIZE(p), at > now ? (int)(at - now) : 0) < 0) {
			if (errno == EINTR)
				continue;
			_exit(1);
		}
		now = clock_monotonic_ms();
		for (size_t i = 0; i < BUILDS_MAX; i++)
			if (b.builds_now[i].used &&
			    (p[1 + i].revents || b.builds_now[i].until_ms <= now))
				build_finish(&b.builds_now[i], !p[1 + i].revents);
		if (p[0].revents & POLLIN)
			on_order();
		else if (p[0].revents)
			_exit(0);
	}
}
