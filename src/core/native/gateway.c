// SPDX-License-Identifier: Apache-2.0
#include "core/native/gateway.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "core/native/state.h"
#include "egress/decide.h"

#define GD_BIT(type) (UINT64_C(1) << (type))

/* Messages handled per turn of the loop. */
#define GATEWAY_BATCH 64
/* More than a socket holds at one time: what was there when the reading began has been read. */
#define GATEWAY_DRAIN 4096

struct gateway_socket {
	struct runtime *rt; /* borrowed */
	uv_poll_t poll;
	bool watched, writable;
	int fd; /* owned */
};

struct gateway_live {
	struct runtime_egress *egress; /* a reference */
	uint32_t id;
	struct gateway_word word;
	struct deadline deadline; /* of the answer; when that has come: of telling it */
	bool answered;
	struct runtime_live *found; /* owned */
	size_t n;
	runtime_live_fn fn;
	void *data;
	TAILQ_ENTRY(gateway_live) link;
};

static const uint64_t accepted[] = {
	[GATEWAY_NONE] = 0,
	[GATEWAY_HELLO] = GD_BIT(GD_HELLO),
	[GATEWAY_READY] = GD_BIT(GD_DENIED) | GD_BIT(GD_LIVE) | GD_BIT(GD_FETCHED) |
			  GD_BIT(GD_COUNTED),
};

static void flush(struct runtime *rt);
static void lose(struct runtime *rt, const char *why);

/* ---- Sessions as objects ---- */

struct runtime_egress *egress_ref(struct runtime_egress *e)
{
	if (e)
		e->refs++;
	return e;
}

void egress_unref(struct runtime_egress *e)
{
	if (!e || --e->refs)
		return;
	free(e->spec);
	free(e);
}

/* ---- What waits to be said ---- */

void gateway_unsay(struct runtime *rt, struct gateway_word *w)
{
	uint8_t type = w->type;

	if (!type)
		return;
	TAILQ_REMOVE(&rt->gateway.queue, w, link);
	rt->gateway.n_queued--;
	w->type = 0;
	if (type == DG_SESSION_END)
		egress_unref(container_of(w, struct runtime_egress, word));
	else if (type == DG_FETCH_END)
		fetch_unref(w);
}

/* Without a socket nothing is said: the next gateway hears everything anyway. */
void gateway_say(struct runtime *rt, struct gateway_word *w, uint8_t type)
{
	struct gateway *g = &rt->gateway;
	bool first = TAILQ_EMPTY(&g->queue);

	if (!g->socket)
		return;
	if (g->n_queued >= GATEWAY_QUEUE_MAX) {
		lose(rt, "it does not read");
		return;
	}
	if (type == DG_SESSION_END)
		egress_ref(container_of(w, struct runtime_egress, word));
	else if (type == DG_FETCH_END)
		fetch_ref(w);
	w->type = type;
	TAILQ_INSERT_TAIL(&g->queue, w, link);
	g->n_queued++;
	if (first)
		flush(rt);
}

static int send_hello(int fd)
{
	struct msg_hello body = { 0 };

	snprintf(body.build, sizeof(body.build), "%s", ipc_build_id);
	return wire_send(fd, DG_HELLO, 0, &body, sizeof(body), NULL, 0);
}

static int send_session(int fd, const struct runtime_egress *e)
{
	const struct dg_session body = { .session = e->number };
	_cleanup_fd_ int spec = memfd_create("egress", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (spec < 0)
		return -errno;
	ssize_t n = pwrite(spec, e->spec, e->spec_len, 0);
	if (n != (ssize_t)e->spec_len)
		return n < 0 ? -errno : -ENOMEM;
	if (fcntl(spec, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return -errno;
	return wire_send(fd, DG_SESSION, 0, &body, sizeof(body), &spec, 1);
}

static int send_end(int fd, const struct runtime_egress *e)
{
	const struct dg_session body = { .session = e->number };

	return wire_send(fd, DG_SESSION_END, 0, &body, sizeof(body), NULL, 0);
}

/* Of a session that ended meanwhile the gateway may never have heard. */
static int send_bind(int fd, const struct sandbox *s)
{
	const struct dg_bind body = { .sandbox = s->id, .session = s->egress->number };

	if (s->egress->closed)
		return 0;
	return wire_send(fd, DG_BIND, 0, &body, sizeof(body), NULL, 0);
}

static int send_live(int fd, const struct gateway_live *l)
{
	const struct dg_session body = { .session = l->egress->number };

	return wire_send(fd, DG_LIVE, l->id, &body, sizeof(body), NULL, 0);
}

static int send_word(int fd, struct gateway_word *w)
{
	switch (w->type) {
	case DG_HELLO:
		return send_hello(fd);
	case DG_SESSION:
		return send_session(fd, container_of(w, struct runtime_egress, word));
	case DG_SESSION_END:
		return send_end(fd, container_of(w, struct runtime_egress, word));
	case DG_BIND:
		return send_bind(fd, container_of(w, struct sandbox, bind));
	case DG_LIVE:
		return send_live(fd, container_of(w, struct gateway_live, word));
	case DG_FETCH:
		return fetch_send(fd, w);
	case DG_FETCH_END:
		return fetch_send_end(fd, w);
	default:
		return wire_send(fd, DG_READY, 0, NULL, 0, NULL, 0);
	}
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void watch(struct gateway_socket *s, bool writable)
{
	if (s->watched && s->writable == writable)
		return;
	s->watched = true;
	s->writable = writable;
	uv_poll_start(&s->poll, UV_READABLE | (writable ? UV_WRITABLE : 0), on_poll);
}

static void on_retry(struct deadline *d)
{
	flush(container_of(d, struct runtime, gateway.retry));
}

static void flush(struct runtime *rt)
{
	struct gateway *g = &rt->gateway;
	struct gateway_word *w;
	int r = 0;

	while (g->socket && (w = TAILQ_FIRST(&g->queue)) && r >= 0) {
		r = send_word(g->socket->fd, w);
		if (r >= 0)
			gateway_unsay(rt, w);
	}
	if (!g->socket)
		return;
	/* No descriptors or memory now; the end of a gateway is for the read side to see. */
	if (r < 0 && r != -EAGAIN)
		deadline_set(&rt->deadlines, &g->retry, clock_monotonic_ms() + GATEWAY_RETRY_MS,
			     on_retry);
	else
		watch(g->socket, r == -EAGAIN);
}

/* ---- The socket ---- */

static void on_socket_closed(uv_handle_t *handle)
{
	struct gateway_socket *s = handle->data;
	struct runtime *rt = s->rt;

	free(s);
	rt->handles--;
	runtime_close_step(rt);
}

/* Nobody is left who could answer. */
static void hurry_live(struct runtime *rt)
{
	struct gateway_live *l;

	TAILQ_FOREACH(l, &rt->gateway.live, link)
	deadline_set(&rt->deadlines, &l->deadline, clock_monotonic_ms(), l->deadline.fn);
}

static void drop_socket(struct runtime *rt)
{
	struct gateway *g = &rt->gateway;
	struct gateway_socket *s = take_ptr(g->socket);

	g->state = GATEWAY_NONE;
	while (!TAILQ_EMPTY(&g->queue))
		gateway_unsay(rt, TAILQ_FIRST(&g->queue));
	deadline_clear(&rt->deadlines, &g->retry);
	if (!s)
		return;
	uv_close((uv_handle_t *)&s->poll, on_socket_closed);
	fd_close(&s->fd);
	hurry_live(rt);
	fetches_lost(rt);
}

static void lose(struct runtime *rt, const char *why)
{
	log_event(LOG_WARN, "gateway_lost", LOG_STR("why", why));
	drop_socket(rt);
}

static struct gateway_socket *socket_open(struct runtime *rt, int fd)
{
	struct gateway_socket *s = mem_new(1, sizeof(*s));

	s->rt = rt;
	s->fd = fd;
	if (uv_poll_init(rt->loop, &s->poll, fd) < 0) {
		fd_close(&s->fd);
		free(s);
		return NULL;
	}
	s->poll.data = s;
	rt->handles++;
	return s;
}

void gateway_set(struct runtime *rt, int fd)
{
	struct gateway *g = &rt->gateway;
	struct runtime_egress *e;
	struct sandbox *s;

	drop_socket(rt);
	for (size_t i = 0; i < GD_CODES_MAX; i++) {
		g->counted_before[i] += g->counted[i];
		g->counted[i] = 0;
	}
	g->socket = fd >= 0 ? socket_open(rt, fd) : NULL;
	if (!g->socket) {
		log_event(LOG_ERROR, "no_gateway", LOG_STR("why", "its socket cannot be watched"));
		return;
	}
	g->state = GATEWAY_HELLO;
	watch(g->socket, false);
	gateway_say(rt, &g->hello, DG_HELLO);
	TAILQ_FOREACH(e, &g->sessions, link)
	gateway_say(rt, &e->word, DG_SESSION);
	TAILQ_FOREACH(s, &rt->sandboxes, link)
	{
		if (s->egress && !s->egress->closed)
			gateway_say(rt, &s->bind, DG_BIND);
	}
	gateway_say(rt, &g->ready, DG_READY);
}

/* ---- What the gateway says ---- */

static bool on_hello(struct runtime *rt, struct wire_msg *msg)
{
	const char *build = (const char *)msg->body;

	if (!memchr(build, 0, MSG_BUILD_ID) || strcmp(build, ipc_build_id) != 0)
		return false;
	rt->gateway.state = GATEWAY_READY;
	return true;
}

static bool on_denied(struct runtime *rt, struct wire_msg *msg)
{
	struct gd_denied body;

	memcpy(&body, msg->body, sizeof(body));
	if (!memchr(body.host, 0, sizeof(body.host)))
		return false;
	/* Its command may be over. */
	struct sandbox *s = sandbox_find(rt, body.sandbox);
	if (s && s->egress && s->ops && s->ops->denied && body.host[0])
		s->ops->denied(s, body.host);
	return true;
}

/* The file is the gateway's: only memory that cannot make a reader wait, and exactly as long as
 * the message says. */
static bool read_live(struct gateway_live *l, int fd, uint32_t n)
{
	size_t len = n * sizeof(struct egress_live);
	struct stat st;

	if (n > EGRESS_TUNNELS_ALL || fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &st) < 0 ||
	    st.st_size != (off_t)len)
		return false;
	_cleanup_free_ struct egress_live *raw = mem_new(n + 1, sizeof(*raw));
	if (pread(fd, raw, len, 0) != (ssize_t)len)
		return false;
	l->found = mem_new(n + 1, sizeof(l->found[0]));
	for (size_t i = 0; i < n; i++)
		l->found[i] =
			(struct runtime_live){ raw[i].conn, raw[i].bytes_up, raw[i].bytes_down };
	l->n = n;
	return true;
}

static bool on_live(struct runtime *rt, struct wire_msg *msg)
{
	struct gateway_live *l;
	struct gd_live body;

	memcpy(&body, msg->body, sizeof(body));
	TAILQ_FOREACH(l, &rt->gateway.live, link)
	{
		if (l->id == msg->head.id)
			break;
	}
	/* It may have been given up. */
	if (!l || l->answered)
		return true;
	if (!read_live(l, msg->fds[0], body.n))
		return false;
	l->answered = true;
	deadline_set(&rt->deadlines, &l->deadline, clock_monotonic_ms(), l->deadline.fn);
	return true;
}

static bool on_fetched(struct runtime *rt, struct wire_msg *msg)
{
	struct gd_fetched body;

	memcpy(&body, msg->body, sizeof(body));
	return fetch_answered(rt, msg->head.id, &body);
}

/* Sums, which never fall. */
static bool on_counted(struct runtime *rt, struct wire_msg *msg)
{
	struct gateway *g = &rt->gateway;
	struct gd_counted body;

	memcpy(&body, msg->body, sizeof(body));
	for (size_t i = 0; i < GD_CODES_MAX; i++) {
		if (body.codes[i] > g->counted[i])
			g->counted[i] = body.codes[i];
	}
	return true;
}

static bool (*const handlers[])(struct runtime *rt, struct wire_msg *msg) = {
	[GD_HELLO] = on_hello,	   [GD_DENIED] = on_denied,   [GD_LIVE] = on_live,
	[GD_FETCHED] = on_fetched, [GD_COUNTED] = on_counted,
};

/* Returns false when there is nothing more to read now. */
static bool receive(struct runtime *rt)
{
	struct gateway *g = &rt->gateway;
	struct wire_msg msg;
	int r = g->socket ? wire_recv(g->socket->fd, &wire_gd, &msg) : -EAGAIN;

	if (r == -EAGAIN)
		return false;
	/* An answer whose descriptor has no room: it is as if it had not come. */
	if (r == -EMFILE && msg.head.type == GD_LIVE && g->state == GATEWAY_READY)
		return true;
	if (r <= 0) {
		lose(rt, r ? "it sent a malformed message" : "it has closed its socket");
		return false;
	}
	bool good = wire_allow(accepted[g->state], msg.head.type) &&
		    handlers[msg.head.type](rt, &msg);
	wire_msg_fini(&msg);
	if (!good)
		lose(rt, "it broke the protocol");
	return good;
}

void gateway_drain(struct runtime *rt)
{
	for (int i = 0; i < GATEWAY_DRAIN && receive(rt); i++)
		;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct gateway_socket *s = poll->data;
	struct runtime *rt = s->rt;

	if (status == 0 && (events & UV_WRITABLE))
		flush(rt);
	for (int i = 0; (i < GATEWAY_BATCH || status < 0) && receive(rt); i++)
		;
	/* libuv has stopped watching a socket in error; what it still held was read above. */
	if (status < 0 && rt->gateway.socket == s)
		lose(rt, "its socket failed");
}

/* ---- What the others tell us ---- */

void gateway_init(struct runtime *rt)
{
	struct gateway *g = &rt->gateway;

	TAILQ_INIT(&g->queue);
	TAILQ_INIT(&g->sessions);
	TAILQ_INIT(&g->live);
	TAILQ_INIT(&g->fetches);
	/* A gateway may have sessions of an earlier airlockd still, so ours begin elsewhere. */
	random_bytes(&g->next_session, sizeof(g->next_session));
	random_bytes(&g->next_live, sizeof(g->next_live));
	random_bytes(&g->next_fetch, sizeof(g->next_fetch));
}

static void put(char **at, const void *data, size_t len)
{
	memcpy(*at, data, len);
	*at += len;
}

/* The specification as the gateway reads it. Rules that do not fit are not permitted. */
static void make_spec(struct runtime_egress *e, const struct runtime_egress_spec *spec)
{
	struct egress_spec head = { .magic = EGRESS_SPEC_MAGIC,
				    .session_len = (uint32_t)strlen(spec->session),
				    .tenant_len = (uint32_t)strlen(spec->tenant) };
	size_t rules_len = 0, n = 0;
	size_t fixed = sizeof(head) + head.session_len + 1 + head.tenant_len + 1;

	for (; n < spec->n_rules && n < EGRESS_SPEC_RULES_MAX; n++) {
		size_t len = strlen(spec->rules[n]) + 1;
		if (fixed + rules_len + len > EGRESS_SPEC_MAX)
			break;
		rules_len += len;
	}
	if (n < spec->n_rules)
		log_event(LOG_ERROR, "egress_rules_cut", LOG_STR("session", spec->session),
			  LOG_INT("rules", spec->n_rules), LOG_INT("kept", n));
	head.n_rules = (uint32_t)n;
	head.rules_len = (uint32_t)rules_len;
	e->spec_len = fixed + rules_len;
	char *at = e->spec = mem_new(e->spec_len, 1);
	put(&at, &head, sizeof(head));
	put(&at, spec->session, head.session_len + 1);
	put(&at, spec->tenant, head.tenant_len + 1);
	for (size_t i = 0; i < n; i++)
		put(&at, spec->rules[i], strlen(spec->rules[i]) + 1);
}

struct runtime_egress *runtime_egress_open(struct runtime *rt,
					   const struct runtime_egress_spec *spec)
{
	struct gateway *g = &rt->gateway;
	struct runtime_egress *e = mem_new(1, sizeof(*e));

	if (++g->next_session == 0)
		g->next_session = 1;
	e->rt = rt;
	e->number = g->next_session;
	e->refs = 1;
	make_spec(e, spec);
	TAILQ_INSERT_TAIL(&g->sessions, e, link);
	gateway_say(rt, &e->word, DG_SESSION);
	return e;
}

void runtime_egress_close(struct runtime *rt, struct runtime_egress *e)
{
	bool untold = e->word.type == DG_SESSION;

	TAILQ_REMOVE(&rt->gateway.sessions, e, link);
	e->closed = true;
	gateway_unsay(rt, &e->word);
	free(take_ptr(e->spec));
	if (!untold)
		gateway_say(rt, &e->word, DG_SESSION_END);
	egress_unref(e);
}

void gateway_bind(struct sandbox *s, struct runtime_egress *e)
{
	gateway_unbind(s);
	if (e->closed)
		return;
	s->egress = egress_ref(e);
	gateway_say(s->rt, &s->bind, DG_BIND);
}

void gateway_unbind(struct sandbox *s)
{
	gateway_unsay(s->rt, &s->bind);
	egress_unref(take_ptr(s->egress));
}

uint64_t runtime_egress_count(const struct runtime *rt, enum egress_code code)
{
	return rt->gateway.counted_before[code] + rt->gateway.counted[code];
}

/* ---- Tunnels that are open ---- */

static void tell_live(struct runtime *rt, struct gateway_live *l)
{
	deadline_clear(&rt->deadlines, &l->deadline);
	TAILQ_REMOVE(&rt->gateway.live, l, link);
	gateway_unsay(rt, &l->word);
	egress_unref(l->egress);
	l->fn(l->data, l->answered ? l->found : NULL, l->n);
	free(l->found);
	free(l);
}

static void on_live_due(struct deadline *d)
{
	struct gateway_live *l = container_of(d, struct gateway_live, deadline);

	tell_live(l->egress->rt, l);
}

void runtime_egress_live(struct runtime *rt, struct runtime_egress *e, runtime_live_fn fn,
			 void *data)
{
	struct gateway *g = &rt->gateway;
	struct gateway_live *l = mem_new(1, sizeof(*l));
	int64_t wait_ms = g->socket ? GATEWAY_LIVE_MS : 0;

	if (++g->next_live == 0)
		g->next_live = 1;
	*l = (struct gateway_live){
		.egress = egress_ref(e), .id = g->next_live, .fn = fn, .data = data
	};
	TAILQ_INSERT_TAIL(&g->live, l, link);
	deadline_set(&rt->deadlines, &l->deadline, clock_monotonic_ms() + wait_ms, on_live_due);
	gateway_say(rt, &l->word, DG_LIVE);
}

void gateway_close(struct runtime *rt)
{
	struct gateway *g = &rt->gateway;
	struct gateway_live *l;
	struct runtime_egress *e;

	drop_socket(rt);
	while ((l = TAILQ_FIRST(&g->live)))
		tell_live(rt, l);
	fetches_close(rt);
	while ((e = TAILQ_FIRST(&g->sessions))) {
		TAILQ_REMOVE(&g->sessions, e, link);
		e->closed = true;
		egress_unref(e);
	}
}
