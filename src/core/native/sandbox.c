// SPDX-License-Identifier: Apache-2.0
#include "core/native/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/native/state.h"

#define ID_BIT(type) (UINT64_C(1) << (type))

/* Messages of one sandbox handled per turn of the loop. */
#define SANDBOX_BATCH 8

static const uint64_t accepted[] = {
	[SANDBOX_NEW] = ID_BIT(ID_HELLO),
	[SANDBOX_BLANK] = 0,
	[SANDBOX_EXEC] = ID_BIT(ID_STARTED) | ID_BIT(ID_REFUSED),
	[SANDBOX_EXEC_RUN] = ID_BIT(ID_EXITED),
	[SANDBOX_FILE] = 0,
	[SANDBOX_FILE_READ] = ID_BIT(ID_FILE) | ID_BIT(ID_FILE_END),
	[SANDBOX_FILE_READ_BYTES] = ID_BIT(ID_FILE_END),
	[SANDBOX_FILE_OTHER] = ID_BIT(ID_FILE_END),
	[SANDBOX_ENDED] = 0,
};

/* Where a message leads; what is not here stays. */
static const struct {
	uint8_t type;
	enum sandbox_state to;
} moves[] = {
	{ ID_STARTED, SANDBOX_EXEC_RUN }, { ID_REFUSED, SANDBOX_ENDED },
	{ ID_EXITED, SANDBOX_ENDED },	  { ID_FILE, SANDBOX_FILE_READ_BYTES },
	{ ID_FILE_END, SANDBOX_FILE },
};

bool sandbox_slot_set(struct runtime *rt, const struct ld_slot *body, int *fds)
{
	struct slot *slot;

	if (body->slot >= SLOT_MAX || (body->cgroup_version != 1 && body->cgroup_version != 2))
		return false;
	if (body->slot >= rt->n_slots) {
		size_t n = rt->n_slots ? rt->n_slots : 16;
		while (n <= body->slot)
			n *= 2;
		rt->slots = mem_grow(rt->slots, n, sizeof(rt->slots[0]));
		for (size_t i = rt->n_slots; i < n; i++)
			rt->slots[i] = (struct slot_entry){ .slot = SLOT_NONE };
		rt->n_slots = n;
	}
	slot = &rt->slots[body->slot].slot;
	slot_close(slot);
	for (unsigned i = 0; i < LD_SLOT_FDS; i++)
		slot->fds[i] = take_fd(&fds[i]);
	slot->version = body->cgroup_version;
	return true;
}

const struct slot *sandbox_slot(const struct sandbox *s)
{
	return &s->rt->slots[s->id.slot].slot;
}

struct sandbox *sandbox_find(struct runtime *rt, struct msg_sandbox id)
{
	struct sandbox *s;

	if (id.slot >= rt->n_slots)
		return NULL;
	s = rt->slots[id.slot].newest;
	if (s && s->id.generation == id.generation)
		return s;
	/* A slot's earlier sandbox is gone before its next one is built, so this search is rare. */
	TAILQ_FOREACH(s, &rt->sandboxes, link)
	{
		if (s->id.slot == id.slot && s->id.generation == id.generation)
			return s;
	}
	return NULL;
}

/* ---- End of life ---- */

static void free_when_over(struct sandbox *s)
{
	if (!s->gone || s->ops || s->handles)
		return;
	deadline_clear(&s->rt->deadlines, &s->linger);
	free(s);
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct sandbox *s = handle->data;
	struct runtime *rt = s->rt;

	s->handles--;
	rt->handles--;
	free_when_over(s);
	runtime_close_step(rt);
}

static void close_poll(struct sandbox *s, uv_poll_t *poll)
{
	poll->data = s;
	uv_close((uv_handle_t *)poll, on_handle_closed);
}

static int open_poll(struct sandbox *s, uv_poll_t *poll, int fd)
{
	int r = uv_poll_init(s->rt->loop, poll, fd);

	if (r < 0)
		return r;
	poll->data = s;
	s->handles++;
	s->rt->handles++;
	return 0;
}

static void close_control(struct sandbox *s)
{
	if (s->poll_open) {
		s->poll_open = false;
		close_poll(s, &s->poll);
	}
	fd_close(&s->control);
}

void sandbox_pipe_close(struct sandbox *s, enum runtime_stream i)
{
	struct sandbox_pipe *p = &s->pipes[i];

	if (p->open) {
		p->open = false;
		close_poll(s, &p->poll);
	}
	fd_close(&p->read_fd);
	fd_close(&p->write_fd);
}

void sandbox_unprepare(struct sandbox *s)
{
	sandbox_pipe_close(s, RUNTIME_STDOUT);
	sandbox_pipe_close(s, RUNTIME_STDERR);
	fd_close(&s->spec);
	s->prepared = false;
}

void sandbox_kill(struct sandbox *s)
{
	if (s->kill_sent || s->gone)
		return;
	s->kill_sent = true;
	link_tell(s->rt, DL_KILL, &s->id, sizeof(s->id));
}

static void on_linger(struct deadline *d)
{
	sandbox_kill(container_of(d, struct sandbox, linger));
}

void sandbox_retire(struct sandbox *s)
{
	s->ops = NULL;
	s->user = NULL;
	s->state = SANDBOX_ENDED;
	close_control(s);
	sandbox_unprepare(s);
	if (!s->gone && !s->kill_sent)
		deadline_set(&s->rt->deadlines, &s->linger,
			     clock_monotonic_ms() + SANDBOX_LINGER_MS, on_linger);
	free_when_over(s);
}

/* The control socket is of no use any more, whoever is to blame. */
static void end(struct sandbox *s)
{
	s->state = SANDBOX_ENDED;
	close_control(s);
	sandbox_kill(s);
	if (s->ops)
		s->ops->ended(s);
}

void sandbox_gone(struct sandbox *s)
{
	struct runtime *rt = s->rt;

	/* Init's last words may lie in the socket still. */
	if (s->control >= 0)
		sandbox_receive(s);
	if (s->gone)
		return;
	/* So may refusals in the gateway's. */
	if (s->egress && s->ops)
		gateway_drain(rt);
	s->gone = true;
	gateway_unbind(s);
	TAILQ_REMOVE(&rt->sandboxes, s, link);
	if (rt->slots[s->id.slot].newest == s)
		rt->slots[s->id.slot].newest = NULL;
	deadline_clear(&rt->deadlines, &s->linger);
	close_control(s);
	s->state = SANDBOX_ENDED;
	bool stray = s->stray;
	struct volume *v = take_ptr(s->volume), *source = take_ptr(s->source);
	if (v)
		TAILQ_REMOVE(&v->sandboxes, s, in_volume);
	if (source)
		TAILQ_REMOVE(&source->readers, s, in_source);
	if (s->ops)
		s->ops->gone(s);
	else
		free_when_over(s);
	if (v)
		volume_sandbox_gone(rt, v);
	if (source)
		volume_sandbox_gone(rt, source);
	if (stray && --rt->strays == 0)
		volume_strays_gone(rt);
	runtime_close_step(rt);
}

void sandbox_handover_failed(struct sandbox *s, uint32_t code)
{
	s->kill_sent = true; /* the launcher kills it by itself */
	log_event(LOG_WARN, "handover_failed", LOG_INT("slot", s->id.slot), LOG_INT("errno", code),
		  LOG_STR("volume", s->volume ? s->volume->name : ""));
	if (s->ops)
		s->ops->handover_failed(s, code);
}

/* ---- Talking to init ---- */

static bool on_hello(struct sandbox *s, const struct wire_msg *msg)
{
	const char *build = (const char *)msg->body;

	if (!memchr(build, 0, MSG_BUILD_ID) || strcmp(build, ipc_build_id) != 0)
		return false;
	if (s->state == SANDBOX_NEW)
		s->state = SANDBOX_BLANK;
	deadline_clear(&s->rt->deadlines, &s->linger);
	return true;
}

static enum sandbox_state next_state(const struct sandbox *s, uint8_t type)
{
	for (size_t i = 0; i < ARRAY_SIZE(moves); i++) {
		if (moves[i].type == type)
			return moves[i].to;
	}
	return s->state;
}

/* Whether the state accepts it and, for an answer, it is the answer to the job. */
static bool check(struct sandbox *s, const struct wire_msg *msg)
{
	uint64_t may = accepted[s->state];

	if (msg->head.type == ID_HELLO && s->adopted && s->state == SANDBOX_BLANK) {
		s->adopted = false;
		may |= ID_BIT(ID_HELLO);
	}
	if (!wire_allow(may, msg->head.type))
		return false;
	if (msg->head.type == ID_HELLO)
		return on_hello(s, msg);
	return msg->head.id == s->job;
}

void sandbox_receive(struct sandbox *s)
{
	for (int i = 0; i < SANDBOX_BATCH && s->control >= 0; i++) {
		struct wire_msg msg;
		int r = wire_recv(s->control, &wire_id, &msg);

		if (r == -EAGAIN)
			return;
		if (r <= 0 || !check(s, &msg)) {
			if (r != 0)
				log_event(LOG_WARN, "init_broke_protocol",
					  LOG_INT("slot", s->id.slot), LOG_INT("state", s->state),
					  LOG_INT("type", r > 0 ? msg.head.type : -1));
			if (r > 0)
				wire_msg_fini(&msg);
			end(s);
			return;
		}
		s->state = next_state(s, msg.head.type);
		bool last = s->state == SANDBOX_ENDED;
		if (last)
			close_control(s);
		if (s->ops)
			s->ops->message(s, &msg);
		/* After its last word the user may have let go, and *s may be free. */
		if (last)
			return;
	}
}

bool sandbox_has_word(const struct sandbox *s)
{
	struct pollfd control = { .fd = s->control, .events = POLLIN };

	return poll(&control, 1, 0) > 0;
}

static void on_control(uv_poll_t *poll, int status, int events)
{
	struct sandbox *s = poll->data;

	sandbox_receive(s);
	/* libuv has stopped watching a socket in error; what it still held was read above. */
	if (status < 0 && s->control >= 0)
		end(s);
}

static void on_pipe(uv_poll_t *poll, int status, int events)
{
	struct sandbox *s = poll->data;

	s->ops->readable(s,
			 poll == &s->pipes[RUNTIME_STDOUT].poll ? RUNTIME_STDOUT : RUNTIME_STDERR);
}

/* The write end is 0222 so that the tenant, another uid, may open /dev/stderr again. It blocks, as
 * every program expects of its output; libuv makes the read end non-blocking. */
static int open_pipe(struct sandbox *s, enum runtime_stream i)
{
	struct sandbox_pipe *p = &s->pipes[i];
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	p->read_fd = fds[0];
	p->write_fd = fds[1];
	if (fchmod(p->write_fd, 0222) < 0)
		return -errno;
	r = open_poll(s, &p->poll, p->read_fd);
	if (r < 0)
		return r;
	p->open = true;
	return uv_poll_start(&p->poll, UV_READABLE, on_pipe);
}

int sandbox_prepare(struct sandbox *s)
{
	int r;

	if (s->prepared)
		return 0;
	s->spec = memfd_create("exec", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	r = s->spec < 0 ? -errno : 0;
	for (unsigned i = 0; i < 2 && r >= 0; i++)
		r = open_pipe(s, i);
	if (r < 0) {
		sandbox_unprepare(s);
		return r;
	}
	slot_read(sandbox_slot(s), &s->before);
	s->prepared = true;
	return 0;
}

struct sandbox *sandbox_new(struct runtime *rt, const struct ld_sandbox *body, int control,
			    struct pool *pool, bool adopted)
{
	_cleanup_fd_ int fd = control;
	struct sandbox *s;

	if (body->sandbox.slot >= rt->n_slots || !rt->slots[body->sandbox.slot].slot.version ||
	    sandbox_find(rt, body->sandbox))
		return NULL;
	s = mem_new(1, sizeof(*s));
	s->rt = rt;
	s->id = body->sandbox;
	s->state = adopted ? SANDBOX_BLANK : SANDBOX_NEW;
	s->adopted = adopted;
	s->posture = body->posture;
	s->pool = pool;
	s->control = s->spec = -1;
	for (unsigned i = 0; i < 2; i++)
		s->pipes[i].read_fd = s->pipes[i].write_fd = -1;
	TAILQ_INSERT_TAIL(&rt->sandboxes, s, link);
	rt->slots[s->id.slot].newest = s;
	if (open_poll(s, &s->poll, fd) == 0) {
		s->poll_open = true;
		s->control = take_fd(&fd);
		uv_poll_start(&s->poll, UV_READABLE, on_control);
	}
	if (!adopted)
		deadline_set(&rt->deadlines, &s->linger, clock_monotonic_ms() + SANDBOX_HELLO_MS,
			     on_linger);
	return s;
}

void sandbox_set_user(struct sandbox *s, const struct sandbox_ops *ops, void *user)
{
	s->ops = ops;
	s->user = user;
}

int sandbox_attach(struct sandbox *s, struct volume *v, struct volume *source)
{
	struct dl_handover body = { .sandbox = s->id };
	int r;

	memcpy(body.volume, v->name, sizeof(body.volume));
	if (source)
		memcpy(body.source, source->name, sizeof(body.source));
	r = link_try(s->rt, DL_HANDOVER, &body, sizeof(body));
	if (r < 0)
		return r;
	s->volume = v;
	TAILQ_INSERT_TAIL(&v->sandboxes, s, in_volume);
	s->source = source;
	if (source)
		TAILQ_INSERT_TAIL(&source->readers, s, in_source);
	return 0;
}

int sandbox_send(struct sandbox *s, enum sandbox_state state, uint8_t type, uint32_t job,
		 const void *body, size_t len, const int *fds, unsigned n_fds)
{
	int r = wire_send(s->control, type, job, body, len, fds, n_fds);

	if (r < 0)
		return r;
	s->job = job;
	s->state = state;
	return 0;
}

int sandbox_say(struct sandbox *s, uint8_t type, const void *body, size_t len)
{
	return wire_send(s->control, type, s->job, body, len, NULL, 0);
}
