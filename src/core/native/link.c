// SPDX-License-Identifier: Apache-2.0
#include "core/native/link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "core/native/state.h"

/* Messages handled per turn of the loop, so that a burst of the launcher delays nobody. */
#define LINK_BATCH 64
/* Records of volumes that are read at once. */
#define LINK_VOLUMES 128u

struct link_queued {
	STAILQ_ENTRY(link_queued) link;
	uint32_t id;
	uint8_t type;
	uint8_t len;
	unsigned char body[WIRE_MAX];
};

static const uint64_t accepted[] = {
	[LINK_HELLO] = LINK_BIT(LD_HELLO),
	[LINK_LIST] = LINK_BIT(LD_SLOT) | LINK_BIT(LD_SANDBOX) | LINK_BIT(LD_GONE) |
		      LINK_BIT(LD_READY),
	[LINK_READY] = LINK_BIT(LD_SLOT) | LINK_BIT(LD_SANDBOX) | LINK_BIT(LD_BUILD_FAILED) |
		       LINK_BIT(LD_GONE) | LINK_BIT(LD_HANDOVER_FAILED) | LINK_BIT(LD_DONE) |
		       LINK_BIT(LD_VOLUME_STAT) | LINK_BIT(LD_STATUS) | LINK_BIT(LD_GATEWAY) |
		       LINK_BIT(LD_POLICY),
	[LINK_DEAD] = 0,
};

static void on_poll(uv_poll_t *poll, int status, int events);

static void watch(struct runtime *rt)
{
	struct link *l = &rt->link;
	int events = UV_READABLE | (link_is_congested(l) ? UV_WRITABLE : 0);

	if (l->state != LINK_DEAD)
		uv_poll_start(&l->poll, events, on_poll);
}

static void drop_queue(struct link *l)
{
	struct link_queued *q;

	while ((q = STAILQ_FIRST(&l->queue))) {
		STAILQ_REMOVE_HEAD(&l->queue, link);
		free(q);
	}
	l->n_queued = 0;
}

int link_try(struct runtime *rt, uint8_t type, const void *body, size_t len)
{
	struct link *l = &rt->link;
	int r;

	if (l->state == LINK_DEAD)
		return -EPIPE;
	if (link_is_congested(l))
		return -EAGAIN;
	r = wire_send(l->fd, type, 0, body, len, NULL, 0);
	if (r == -EAGAIN) {
		l->full = true;
		watch(rt);
	}
	return r;
}

static void send_or_queue(struct runtime *rt, uint8_t type, uint32_t id, const void *body,
			  size_t len)
{
	struct link *l = &rt->link;
	struct link_queued *q;

	if (l->state == LINK_DEAD)
		return;
	/* Any other failure is the end of the socket, which the read side reports from the loop. */
	if (!l->n_queued && wire_send(l->fd, type, id, body, len, NULL, 0) != -EAGAIN)
		return;
	if (l->n_queued >= LINK_QUEUE_MAX) {
		log_event(LOG_ERROR, "launcher_stuck", LOG_INT("queued", l->n_queued));
		/* The loop sees the end of the socket and takes the launcher for lost. */
		shutdown(l->fd, SHUT_RDWR);
		return;
	}
	q = mem_new(1, sizeof(*q));
	q->id = id;
	q->type = type;
	q->len = (uint8_t)len;
	if (len)
		memcpy(q->body, body, len);
	STAILQ_INSERT_TAIL(&l->queue, q, link);
	if (l->n_queued++ == 0)
		watch(rt);
}

static void flush(struct runtime *rt)
{
	struct link *l = &rt->link;
	struct link_queued *q;

	while ((q = STAILQ_FIRST(&l->queue))) {
		if (wire_send(l->fd, q->type, q->id, q->body, q->len, NULL, 0) == -EAGAIN)
			return;
		STAILQ_REMOVE_HEAD(&l->queue, link);
		l->n_queued--;
		free(q);
	}
	l->full = false;
	watch(rt);
	exec_pump(rt);
	boxes_pump(rt);
}

void link_tell(struct runtime *rt, uint8_t type, const void *body, size_t len)
{
	send_or_queue(rt, type, 0, body, len);
}

/* Also right for those that are asked by the callbacks: they join the end. */
static void answer_all_lost(struct runtime *rt)
{
	struct link *l = &rt->link;
	struct link_request *r;

	while ((r = TAILQ_FIRST(&l->requests))) {
		TAILQ_REMOVE(&l->requests, r, link);
		r->fn(rt, r->data, NULL);
		free(r);
	}
}

static void on_orphans(struct deadline *d)
{
	answer_all_lost(container_of(d, struct runtime, link.orphans));
}

/* Ends the link first, so that whatever the callbacks send goes nowhere. */
static void die(struct runtime *rt, const struct err *err)
{
	struct link *l = &rt->link;

	if (l->state == LINK_DEAD)
		return;
	l->state = LINK_DEAD;
	uv_close((uv_handle_t *)&l->poll, runtime_handle_closed);
	fd_close(&l->fd);
	drop_queue(l);
	deadline_set(&rt->deadlines, &l->orphans, clock_monotonic_ms(), on_orphans);
	runtime_lost(rt, err);
}

void link_close(struct runtime *rt)
{
	struct link *l = &rt->link;

	if (l->state != LINK_DEAD)
		uv_close((uv_handle_t *)&l->poll, runtime_handle_closed);
	l->state = LINK_DEAD;
	fd_close(&l->fd);
	drop_queue(l);
	answer_all_lost(rt);
}

void link_ask(struct runtime *rt, uint8_t type, const void *body, size_t len, uint64_t answers,
	      link_answer_fn fn, void *data)
{
	struct link *l = &rt->link;
	struct link_request *r = mem_new(1, sizeof(*r));

	if (++l->next_id == 0)
		l->next_id = 1;
	*r = (struct link_request){ .id = l->next_id, .answers = answers, .fn = fn, .data = data };
	TAILQ_INSERT_TAIL(&l->requests, r, link);
	if (l->state == LINK_DEAD)
		deadline_set(&rt->deadlines, &l->orphans, clock_monotonic_ms(), on_orphans);
	send_or_queue(rt, type, r->id, body, len);
}

/* Answers come in about the order of the requests, so the search is short. */
static struct link_request *find(struct link *l, uint32_t id)
{
	struct link_request *r;

	TAILQ_FOREACH(r, &l->requests, link)
	{
		if (r->id == id)
			break;
	}
	return r;
}

static bool answer(struct runtime *rt, struct wire_msg *msg)
{
	struct link_request *r = find(&rt->link, msg->head.id);

	if (!r)
		return true;
	if (!wire_allow(r->answers, msg->head.type))
		return false;
	TAILQ_REMOVE(&rt->link.requests, r, link);
	r->fn(rt, r->data, msg);
	free(r);
	return true;
}

/* No more commands run than can have their memory and processes, beside the few that blank and file
 * sandboxes use. */
static void fit_host(struct runtime *rt)
{
	uint32_t most = rt->host.at_once > 0 ? rt->host.at_once : 1;

	if (most >= rt->config.running_max)
		return;
	log_event(LOG_WARN, "few_at_once", LOG_INT("commands", most),
		  LOG_INT("wanted", rt->config.running_max),
		  LOG_STR("why", "the memory or processes of this host are enough for so many "
				 "commands at their limits (SANDBOX_MEMORY_MB, SANDBOX_PIDS); "
				 "others wait for their turn"));
	rt->config.running_max = most;
}

static bool on_hello(struct runtime *rt, struct wire_msg *msg)
{
	memcpy(&rt->host, msg->body, sizeof(rt->host));
	if (memchr(rt->host.build, 0, MSG_BUILD_ID) == NULL ||
	    strcmp(rt->host.build, ipc_build_id) != 0) {
		memset(&rt->host, 0, sizeof(rt->host));
		return false;
	}
	fit_host(rt);
	rt->link.state = LINK_LIST;
	return true;
}

static bool on_slot(struct runtime *rt, struct wire_msg *msg)
{
	struct ld_slot body;

	memcpy(&body, msg->body, sizeof(body));
	return sandbox_slot_set(rt, &body, msg->fds);
}

static bool on_sandbox(struct runtime *rt, struct wire_msg *msg)
{
	struct ld_sandbox body;

	if (find(&rt->link, msg->head.id))
		return answer(rt, msg);
	memcpy(&body, msg->body, sizeof(body));
	return pool_adopt(rt, &body, take_fd(&msg->fds[0]));
}

static bool on_gone(struct runtime *rt, struct wire_msg *msg)
{
	struct msg_sandbox id;
	struct sandbox *s;

	memcpy(&id, msg->body, sizeof(id));
	s = sandbox_find(rt, id);
	if (s)
		sandbox_gone(s);
	return true;
}

static bool on_handover_failed(struct runtime *rt, struct wire_msg *msg)
{
	struct ld_handover_failed body;
	struct sandbox *s;

	memcpy(&body, msg->body, sizeof(body));
	s = sandbox_find(rt, body.sandbox);
	if (s)
		sandbox_handover_failed(s, body.code);
	return true;
}

static bool add_volume(struct runtime *rt, const struct ld_volume *record)
{
	if (!memchr(record->volume, 0, sizeof(record->volume)))
		return false;
	volume_add(rt, record->volume, record->tenant);
	if (rt->on_volume)
		rt->on_volume(rt->data, record->volume, record->tenant);
	return true;
}

/* Only memory, and exactly as long as the message says. */
static bool read_volumes(struct runtime *rt, int fd, uint64_t n)
{
	struct ld_volume records[LINK_VOLUMES];
	struct stat st;

	if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &st) < 0 ||
	    (uint64_t)st.st_size != n * sizeof(records[0]))
		return false;
	for (uint64_t at = 0; at < n; at += LINK_VOLUMES) {
		size_t some = n - at < LINK_VOLUMES ? (size_t)(n - at) : LINK_VOLUMES;
		size_t len = some * sizeof(records[0]);
		if (pread(fd, records, len, (off_t)(at * sizeof(records[0]))) != (ssize_t)len)
			return false;
		for (size_t i = 0; i < some; i++) {
			if (!add_volume(rt, &records[i]))
				return false;
		}
	}
	return true;
}

static bool on_ready(struct runtime *rt, struct wire_msg *msg)
{
	native_ready_fn ready;
	struct ld_ready body;

	memcpy(&body, msg->body, sizeof(body));
	if (!read_volumes(rt, msg->fds[0], body.n))
		return false;
	ready = take_ptr(rt->on_ready);
	rt->link.state = LINK_READY;
	if (ready)
		ready(rt->data, NULL);
	return true;
}

static bool on_gateway(struct runtime *rt, struct wire_msg *msg)
{
	gateway_set(rt, take_fd(&msg->fds[0]));
	return true;
}

static bool on_policy(struct runtime *rt, struct wire_msg *msg)
{
	struct dl_policy answer_body = { .code = ENOSYS };
	struct ld_policy body;

	memcpy(&body, msg->body, sizeof(body));
	if ((!body.code && msg->fds[0] < 0) || body.which >= POLICIES)
		return false;
	answer_body.which = body.which;
	if (rt->config.policy)
		answer_body.code =
			rt->config.policy(rt->data, body.which, body.code ? -1 : msg->fds[0],
					  body.code ? (uint32_t)link_errno(body.code) : 0);
	link_tell(rt, DL_POLICY, &answer_body, sizeof(answer_body));
	return true;
}

static bool (*const handlers[])(struct runtime *rt, struct wire_msg *msg) = {
	[LD_HELLO] = on_hello,	   [LD_SLOT] = on_slot,
	[LD_SANDBOX] = on_sandbox, [LD_BUILD_FAILED] = answer,
	[LD_GONE] = on_gone,	   [LD_HANDOVER_FAILED] = on_handover_failed,
	[LD_DONE] = answer,	   [LD_VOLUME_STAT] = answer,
	[LD_READY] = on_ready,	   [LD_STATUS] = answer,
	[LD_GATEWAY] = on_gateway, [LD_POLICY] = on_policy,
};

/* No room for the descriptors of a message: the server goes on with what it has. A slot is not
 * measured, a sandbox is given up as if it had not been built, a gateway is as good as none, a
 * policy could not be opened. */
static bool without_descriptors(struct runtime *rt, struct wire_msg *msg)
{
	const struct msg_done done = { .code = EMFILE, .text = "no descriptors left" };
	struct ld_policy policy;
	struct ld_sandbox sandbox;

	log_event(LOG_ERROR, "descriptors_lost", LOG_INT("type", msg->head.type));
	if (!wire_allow(accepted[rt->link.state], msg->head.type))
		return false;
	if (msg->head.type == LD_POLICY) {
		memcpy(&policy, msg->body, sizeof(policy));
		policy.code = EMFILE;
		memcpy(msg->body, &policy, sizeof(policy));
	}
	if (msg->head.type == LD_SLOT || msg->head.type == LD_POLICY ||
	    msg->head.type == LD_GATEWAY)
		return handlers[msg->head.type](rt, msg);
	if (msg->head.type != LD_SANDBOX)
		return false;
	memcpy(&sandbox, msg->body, sizeof(sandbox));
	link_tell(rt, DL_KILL, &sandbox.sandbox, sizeof(sandbox.sandbox));
	msg->head.type = LD_BUILD_FAILED;
	memcpy(msg->body, &done, sizeof(done));
	return answer(rt, msg);
}

/* Returns false when there is nothing more to read now. */
static bool receive(struct runtime *rt)
{
	struct link *l = &rt->link;
	struct wire_msg msg;
	struct err err;
	bool good;
	int r = wire_recv(l->fd, &wire_ld, &msg);

	if (r == -EAGAIN)
		return false;
	if (r == -EMFILE && without_descriptors(rt, &msg))
		return true;
	if (r <= 0) {
		err_set(&err, r ? -r : EPIPE,
			r ? "the launcher sent a malformed message"
			  : "the launcher has closed its socket");
		die(rt, &err);
		return false;
	}
	good = wire_allow(accepted[l->state], msg.head.type) && handlers[msg.head.type](rt, &msg);
	if (!good) {
		err_set(&err, EPROTO, "unexpected %s from the launcher",
			wire_ld.types[msg.head.type].name);
		die(rt, &err);
	}
	wire_msg_fini(&msg);
	return good && l->state != LINK_DEAD;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct runtime *rt = container_of(poll, struct runtime, link.poll);
	struct err err;

	if (status == 0 && (events & UV_WRITABLE))
		flush(rt);
	for (int i = 0; (i < LINK_BATCH || status < 0) && receive(rt); i++)
		;
	/* libuv has stopped watching a socket in error; what it still held was read above. */
	if (status < 0) {
		err_set(&err, EPIPE, "the launcher's socket failed");
		die(rt, &err);
	}
}

/* Answered by a long list, which is read as it comes from here on. */
static void say_hello(struct deadline *d)
{
	struct msg_hello hello = { 0 };

	snprintf(hello.build, sizeof(hello.build), "%s", ipc_build_id);
	link_tell(container_of(d, struct runtime, link.greeting), DL_HELLO, &hello, sizeof(hello));
}

int link_open(struct runtime *rt, int fd, struct err *err)
{
	struct link *l = &rt->link;
	int r;

	TAILQ_INIT(&l->requests);
	STAILQ_INIT(&l->queue);
	r = uv_poll_init(rt->loop, &l->poll, fd);
	if (r < 0)
		return err_set(err, -r, "cannot watch the launcher's socket: %s", uv_strerror(r));
	l->poll.data = rt;
	rt->handles++;
	l->fd = fd;
	random_bytes(&l->next_id, sizeof(l->next_id));
	l->state = LINK_HELLO;
	watch(rt);
	deadline_set(&rt->deadlines, &l->greeting, clock_monotonic_ms(), say_hello);
	return 0;
}
