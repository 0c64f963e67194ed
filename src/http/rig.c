// SPDX-License-Identifier: Apache-2.0
#include "http/rig.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "http/loopback.h"

#define INPUT_LIMIT (64u << 20)
/* Turns without any progress after which a wait gives up. */
#define PATIENCE 2000

/* Without a name the kernel chooses one: a port, or an abstract name (unix(7)). */
static int listen_anywhere(struct rig *rig, const void *name, socklen_t len)
{
	const struct sockaddr *addr = name;
	int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert(fd >= 0 && bind(fd, addr, len) == 0 && listen(fd, 512) == 0);
	rig->addr_len = sizeof(rig->addr);
	assert(getsockname(fd, (struct sockaddr *)&rig->addr, &rig->addr_len) == 0);
	return fd;
}

/* ---- The handler ---- */

static const struct http_reply ok = { .status = 200, .content_type = "text/plain" };

static void on_body(void *data, struct http_exchange *x, int status, struct str body)
{
	struct rig *rig = data;
	struct http_reply reply = ok;

	rig->bodies++;
	if (status)
		reply.status = status;
	http_reply(x, &reply, status ? STR("no") : body);
}

static void on_gone(void *data)
{
	struct rig *rig = data;

	rig->gone++;
}

static void echo(struct rig *rig, struct http_exchange *x)
{
	rig->asked++;
	http_body_read(x, &(struct http_body_want){ .max = rig->body_max,
						    .account = rig->account,
						    .fn = on_body,
						    .gone = on_gone,
						    .data = rig });
}

uint32_t rig_sum(uint32_t sum, struct str bytes)
{
	for (size_t i = 0; i < bytes.len; i++)
		sum = sum * 31 + (unsigned char)bytes.data[i];
	return sum;
}

static void end_flow(struct rig *rig, int status)
{
	struct http_reply reply = ok;
	char text[32];
	int n = snprintf(text, sizeof(text), "%zu", rig->flow.len);

	rig->bodies++;
	if (status)
		reply.status = status;
	http_reply(take_ptr(rig->flow.x), &reply, (struct str){ text, (size_t)n });
}

static bool on_piece(void *data, struct str bytes)
{
	struct rig *rig = data;
	struct rig_flow *flow = &rig->flow;

	assert(!flow->paused && bytes.len);
	flow->pieces++;
	flow->len += bytes.len;
	flow->largest = bytes.len > flow->largest ? bytes.len : flow->largest;
	flow->sum = rig_sum(flow->sum, bytes);
	if (flow->answer_at && flow->len >= flow->answer_at) {
		end_flow(rig, 400);
		return true;
	}
	flow->paused = flow->pauses;
	return !flow->pauses;
}

static void on_flow_end(void *data, int status)
{
	end_flow(data, status);
}

static void on_flow_gone(void *data)
{
	struct rig *rig = data;

	rig->flow.x = NULL;
	rig->gone++;
}

static void flow(struct rig *rig, struct http_exchange *x)
{
	if (rig->flow.x) {
		http_reply(x, &ok, STR("ok"));
		return;
	}
	rig->asked++;
	rig->flow.x = x;
	rig->flow.paused = false;
	rig->flow.len = rig->flow.largest = rig->flow.pieces = rig->flow.sum = 0;
	http_body_stream(x, &(struct http_body_flow){ .max = rig->body_max,
						      .piece = on_piece,
						      .end = on_flow_end,
						      .gone = on_flow_gone,
						      .data = rig });
}

void rig_stream_body(struct rig *rig)
{
	flow(rig, take_ptr(rig->held));
}

void rig_resume(struct rig *rig)
{
	if (!rig->flow.x || !rig->flow.paused)
		return;
	rig->flow.paused = false;
	http_body_resume(rig->flow.x);
}

static void early(struct rig *rig, struct http_exchange *x)
{
	http_reply(x,
		   &(struct http_reply){
			   .status = 401, .content_type = "text/plain", .refused_key = true },
		   STR("no key"));
}

static void late(struct rig *rig, struct http_exchange *x)
{
	if (rig->held)
		http_reply(x, &ok, STR("ok"));
	else
		rig->held = x;
}

static void peer(struct rig *rig, struct http_exchange *x)
{
	http_reply(x, &ok, str_of(http_exchange_peer(x)));
}

static void no_content(struct rig *rig, struct http_exchange *x)
{
	http_reply(x, &(struct http_reply){ .status = 204 }, (struct str){ NULL, 0 });
}

static void last(struct rig *rig, struct http_exchange *x)
{
	http_reply(x,
		   &(struct http_reply){
			   .status = 200, .content_type = "text/plain", .close = true },
		   STR("bye"));
}

static void big(struct rig *rig, struct http_exchange *x)
{
	_cleanup_free_ char *data = mem_new(rig->big, 1);

	memset(data, 'x', rig->big);
	http_reply(x, &ok, (struct str){ data, rig->big });
}

static const struct route {
	struct str path;
	void (*handle)(struct rig *rig, struct http_exchange *x);
} routes[] = {
	{ STR("/echo"), echo }, { STR("/early"), early },    { STR("/late"), late },
	{ STR("/peer"), peer }, { STR("/204"), no_content }, { STR("/close"), last },
	{ STR("/big"), big },	{ STR("/flow"), flow },
};

static void handle(void *data, struct http_exchange *x)
{
	struct rig *rig = data;

	rig->handled++;
	for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
		if (str_eq(http_exchange_head(x)->path, routes[i].path)) {
			routes[i].handle(rig, x);
			return;
		}
	}
	http_reply(x, &ok, STR("ok"));
}

void rig_read_body(struct rig *rig)
{
	echo(rig, take_ptr(rig->held));
}

void rig_answer_held(struct rig *rig, struct str body)
{
	http_reply(take_ptr(rig->held), &ok, body);
	rig_turn(rig, 5);
}

/* ---- The server ---- */

static void on_answered(void *data, const struct http_answered *a)
{
	struct rig *rig = data;

	rig->answers++;
	rig->answered = *a;
	snprintf(rig->answered_id, sizeof(rig->answered_id), "%s", a->id);
	snprintf(rig->outer_id, sizeof(rig->outer_id), "%.*s", (int)a->outer_id.len,
		 a->outer_id.data ? a->outer_id.data : "");
}

static void open_on(struct rig *rig, const struct http_config *config, int listen_fd)
{
	struct http_config own = *config;
	struct err err;

	clock_fake(1000000000, 1700000000000000);
	rig->body_max = 1000;
	rig->big = 1;
	uv_loop_init(&rig->loop);
	own.listen_fd = listen_fd;
	own.handler = handle;
	own.data = rig;
	own.answered = on_answered;
	own.answered_data = rig;
	assert(http_server_open(&rig->loop, &own, &rig->server, &err) == 0);
}

void rig_open_with(struct rig *rig, const struct http_config *config)
{
	struct sockaddr_in any = { .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	*rig = (struct rig){ .loopback = loopback_open() };
	open_on(rig, config, listen_anywhere(rig, &any, sizeof(any)));
}

static const struct http_config small = { .max_connections = 64,
					  .write_max = 65536,
					  .trusted_proxies = "127.0.0.1" };

void rig_open(struct rig *rig)
{
	rig_open_with(rig, &small);
}

void rig_open_unix(struct rig *rig)
{
	struct sockaddr_un any = { .sun_family = AF_UNIX };

	*rig = (struct rig){ .loopback = -1 };
	open_on(rig, &small, listen_anywhere(rig, &any, sizeof(sa_family_t)));
}

static void on_closed(void *data)
{
	struct rig *rig = data;

	rig->closed = true;
}

void rig_close(struct rig *rig)
{
	assert(!rig->held);
	rig->ending = true;
	http_server_close(rig->server, 0, on_closed, rig);
	server_sweep(rig->server);
	rig_turn(rig, 50);
	assert(rig->closed);
	assert(uv_loop_close(&rig->loop) == 0);
	fd_close(&rig->loopback);
}

void rig_turn(struct rig *rig, unsigned turns)
{
	while (turns--) {
		if (rig->loopback >= 0)
			loopback_settle(rig->loopback);
		/* The real time that this takes sweeps nothing. */
		if (!rig->ending)
			uv_timer_stop(&rig->server->timer);
		uv_run(&rig->loop, UV_RUN_NOWAIT);
	}
}

void rig_time(struct rig *rig, int64_t ms)
{
	rig_turn(rig, 20);
	clock_fake_advance(ms * 1000);
	server_sweep(rig->server);
	rig_turn(rig, 20);
}

struct http_server_info rig_info(const struct rig *rig)
{
	struct http_server_info info;

	http_server_info_get(rig->server, &info);
	return info;
}

void client_open(struct client *c, struct rig *rig)
{
	int one = 1;

	*c = (struct client){ .rig = rig, .in = BUF(INPUT_LIMIT) };
	c->fd = socket(rig->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert(c->fd >= 0);
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	assert(connect(c->fd, (struct sockaddr *)&rig->addr, rig->addr_len) == 0);
	rig_turn(rig, 5);
}

void client_close(struct client *c)
{
	close(c->fd);
	c->fd = -1;
	buf_fini(&c->in);
	rig_turn(c->rig, 10);
}

/* Reads what is there. False when nothing was. */
static bool receive(struct client *c)
{
	char *at = buf_reserve(&c->in, 65536);

	assert(at);
	ssize_t n = recv(c->fd, at, 65536, MSG_DONTWAIT);
	if (n > 0) {
		c->in.len += (size_t)n;
		c->in.data[c->in.len] = '\0';
	} else if (n == 0) {
		c->eof = true;
	} else if (errno != EAGAIN) {
		c->eof = c->reset = true;
	}
	return n > 0;
}

bool client_send(struct client *c, struct str data)
{
	unsigned patience = PATIENCE;

	while (data.len && patience) {
		ssize_t n = send(c->fd, data.data, data.len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN)
			return false;
		data = str_from(data, n < 0 ? 0 : (size_t)n);
		patience = n < 0 ? patience - 1 : PATIENCE;
		rig_turn(c->rig, 2);
	}
	rig_turn(c->rig, 5);
	return !data.len;
}

/* Whether text is in what has come (which may hold NUL). */
static const char *find(const struct client *c, size_t from, const char *text)
{
	return c->in.len > from ? memmem(c->in.data + from, c->in.len - from, text, strlen(text))
				: NULL;
}

bool client_expect_n(struct client *c, const char *text, unsigned n)
{
	unsigned patience = PATIENCE;

	while (client_count(c, text) < n && !c->eof && patience) {
		rig_turn(c->rig, 1);
		patience = receive(c) ? PATIENCE : patience - 1;
	}
	return client_count(c, text) >= n;
}

bool client_expect(struct client *c, const char *text)
{
	return client_expect_n(c, text, 1);
}

bool client_end(struct client *c)
{
	unsigned patience = PATIENCE;

	while (!c->eof && patience) {
		rig_turn(c->rig, 1);
		patience = receive(c) ? PATIENCE : patience - 1;
	}
	return c->eof && !c->reset;
}

bool client_is_quiet(struct client *c)
{
	rig_turn(c->rig, 20);
	return !receive(c) && !c->eof;
}

unsigned client_count(const struct client *c, const char *text)
{
	unsigned n = 0;

	for (const char *at = find(c, 0, text); at; n++)
		at = find(c, (size_t)(at - c->in.data) + strlen(text), text);
	return n;
}
