// SPDX-License-Identifier: Apache-2.0
#include "gateway/attempt.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "egress/event.h"
#include "egress/hello.h"
#include "gateway/handle.h"
#include "gateway/journal.h"
#include "gateway/own.h"
#include "gateway/relay.h"
#include "gateway/resolver.h"
#include "gateway/stub.h"
#include "http/head.h"
#include "http/status.h"

#define TLS_PORT 443
#define HTTP_PORT 80
/* A DNS message over TCP with its length; a query is far smaller. */
#define DNS_TCP_MAX (2u + 1024u)

enum state { WAIT, HEAD, HELLO, DNS, LOOKUP, DIAL, FIRST, TUNNEL, LINGER };

struct attempt {
	struct list sandbox_node, session_node;
	struct gateway *g;
	struct sandbox *sb;
	struct session *session; /* counted; NULL: not judged yet, or its sandbox is not bound */
	enum net_fd kind;
	enum state state;
	bool is_tunnel; /* counts as one; else as pending */

	int near, far; /* owned */
	uv_poll_t *near_poll, *far_poll;
	uv_timer_t *timer;
	struct head_scan scan;
	struct buf in;	   /* read from near, not yet passed on */
	size_t hello_want; /* bytes of it without which the ClientHello says nothing new */

	enum egress_via via;
	uint16_t port;
	bool is_connect;
	bool has_host;
	struct egress_host host;
	char target[EGRESS_TARGET_MAX];
	size_t target_len;     /* 0: none */
	struct inet_addr dest; /* what the tenant dialled */

	struct lookup *lookup;
	struct inet_addr *addrs; /* owned */
	size_t n_addrs, next_addr;
	struct inet_addr dialled;

	uint64_t conn; /* 0: no event of an allowed connection yet */
	int64_t ts_ms;
	int64_t began_ms; /* monotonic */
	struct relay *relay;
};

static void proceed(struct attempt *a);

struct attempt *attempt_of_sandbox_node(struct list *node)
{
	return container_of(node, struct attempt, sandbox_node);
}

struct attempt *attempt_of_session_node(struct list *node)
{
	return container_of(node, struct attempt, session_node);
}

/* ---- The log ---- */

static struct egress_event event_of(const struct attempt *a)
{
	struct egress_event e = {
		.ts_ms = a->ts_ms,
		.via = a->via,
		.host = a->has_host ? a->host.text : "",
		.port = a->port || a->via == EGRESS_DIRECT || (a->is_connect && a->has_host)
				? (int)a->port
				: -1,
		.conn = a->conn,
	};

	if (a->target_len)
		e.target = (struct str){ a->target, a->target_len };
	if (a->via == EGRESS_DIRECT) {
		e.has_dest = true;
		e.dest = a->dest;
	}
	for (size_t i = 0; i < a->n_addrs && i < EGRESS_IPS_MAX; i++)
		e.ips[e.n_ips++] = a->addrs[i];
	return e;
}

/* Rungs 6 and 8 name the addresses; an allowed connection the one that was dialled. */
static bool names_addresses(enum egress_code code)
{
	return code == EGRESS_ADDR_CLASS || code == EGRESS_REBIND_SUSPECTED ||
	       code == EGRESS_CONNECT_FAIL;
}

static void log_denial(struct attempt *a, enum egress_code code, const char *word)
{
	char reason[GATEWAY_REASON_MAX], dest[INET6_ADDRSTRLEN] = "";

	if (!a->session)
		return;
	if (!a->conn)
		a->ts_ms = clock_wall_us() / 1000;
	struct egress_event e = event_of(a);
	egress_reason(code, a->port, word, reason, sizeof(reason));
	e.code = code;
	e.reason = reason;
	/* Rung 10 ends what an allowed line has begun. */
	e.closed = a->conn != 0;
	e.duration_ms = clock_monotonic_ms() - a->began_ms;
	if (!names_addresses(code))
		e.n_ips = 0;
	journal_write(a->session->journal, &e);
	if (!a->has_host && a->via == EGRESS_DIRECT)
		inet_addr_format(&a->dest, dest);
	sandbox_denied(a->sb, a->has_host ? e.host : dest);
}

static bool log_allowed(struct attempt *a, bool closed)
{
	struct egress_event e = event_of(a);

	e.code = EGRESS_OK;
	e.n_ips = 0;
	e.dialled = true;
	e.ip = a->dialled;
	e.open = !closed;
	e.closed = closed;
	if (a->relay) {
		e.bytes_up = relay_up(a->relay);
		e.bytes_down = relay_down(a->relay);
	}
	e.duration_ms = clock_monotonic_ms() - a->began_ms;
	return journal_write(a->session->journal, &e);
}

bool attempt_live(const struct attempt *a, struct egress_live *ret)
{
	if (!a->conn)
		return false;
	*ret = (struct egress_live){ .conn = a->conn };
	if (a->relay) {
		ret->bytes_up = relay_up(a->relay);
		ret->bytes_down = relay_down(a->relay);
	}
	return true;
}

/* ---- The end ---- */

static void free_attempt(struct attempt *a)
{
	handle_drop_poll(&a->near_poll);
	handle_drop_poll(&a->far_poll);
	handle_drop_timer(&a->timer);
	if (a->lookup)
		lookup_drop(a->lookup);
	if (a->relay)
		relay_stop(a->relay);
	fd_close(&a->near);
	fd_close(&a->far);
	list_remove(&a->sandbox_node);
	if (a->is_tunnel) {
		a->g->n_tunnels--;
		a->session->n_tunnels--;
	} else {
		sandbox_pending_less(a->sb);
	}
	if (a->session) {
		list_remove(&a->session_node);
		session_unref(a->session);
	}
	free(a->addrs);
	buf_fini(&a->in);
	free(a);
}

/* Its host was looked up or dialled when the sandbox ended: no byte passed, but it was tried. */
static void log_unfinished(struct attempt *a)
{
	char reason[GATEWAY_REASON_MAX];
	struct egress_event e = event_of(a);

	egress_reason(EGRESS_ERROR, a->port, "unfinished", reason, sizeof(reason));
	e.code = EGRESS_ERROR;
	e.reason = reason;
	journal_write(a->session->journal, &e);
}

void attempt_end(struct attempt *a)
{
	if (a->conn)
		log_allowed(a, true);
	else if (a->state == LOOKUP || a->state == DIAL)
		log_unfinished(a);
	free_attempt(a);
}

static void reset_on_close(int fd)
{
	const struct linger now = { .l_onoff = 1, .l_linger = 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

static void on_timer(uv_timer_t *timer);

static void set_timer(struct attempt *a, uint64_t ms)
{
	uv_timer_start(a->timer, on_timer, gateway_ms(a->g, ms), 0);
}

static void on_near(uv_poll_t *poll, int status, int events);

static void watch_near(struct attempt *a)
{
	uv_poll_start(a->near_poll, UV_READABLE, on_near);
}

/* The answer of a proxy, then the end. A socket that is closed with unread bytes is reset, and the
 * client may lose the answer: so its end is awaited for a moment. */
static void reply(struct attempt *a, unsigned status)
{
	char text[128];
	int n = snprintf(text, sizeof(text),
			 "HTTP/1.1 %u %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status,
			 http_status_name((int)status));

	if (send(a->near, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) != n ||
	    shutdown(a->near, SHUT_WR) < 0) {
		attempt_end(a);
		return;
	}
	handle_drop_poll(&a->far_poll);
	fd_close(&a->far);
	a->state = LINGER;
	buf_release(&a->in);
	set_timer(a, GATEWAY_LINGER_MS);
	watch_near(a);
}

/* One rung of the ladder failed. */
static void refuse(struct attempt *a, enum egress_code code, const char *word)
{
	bool speaks_http = a->kind == NET_PROXY || a->kind == NET_HTTP, begun = a->state == FIRST;
	unsigned status = speaks_http ? egress_proxy_status(code) : 0;

	log_denial(a, code, word);
	/* Whatever was begun ends as this denial, and nothing more is said about it. */
	a->conn = 0;
	a->state = LINGER;
	if (status && !begun) {
		reply(a, status);
		return;
	}
	if (!begun && a->kind == NET_TLS && a->port != TLS_PORT)
		reset_on_close(a->near);
	attempt_end(a);
}

static void on_timer(uv_timer_t *timer)
{
	struct attempt *a = timer->data;

	switch (a->state) {
	case WAIT:
		if (a->g->named)
			proceed(a);
		else
			set_timer(a, GATEWAY_UNBOUND_MS);
		break;
	case FIRST:
		refuse(a, EGRESS_NOT_TLS, "");
		break;
	case DIAL:
		handle_drop_poll(&a->far_poll);
		fd_close(&a->far);
		proceed(a);
		break;
	default:
		attempt_end(a);
	}
}

/* ---- The decision ---- */

/* Whoever the sandbox is bound to is asked about everything that follows. */
static void take_session(struct attempt *a)
{
	if (a->session || !a->sb->session)
		return;
	a->session = a->sb->session;
	session_ref(a->session);
	list_append(&a->session->attempts, &a->session_node);
}

static struct egress_question question_of(struct attempt *a)
{
	struct egress_question q = {
		.via = a->via,
		.is_connect = a->is_connect,
		.port = a->port,
		.host = a->has_host ? &a->host : NULL,
	};

	if (a->session && !a->session->ended)
		q.policy = &a->session->policy;
	if (a->addrs) {
		q.resolved = true;
		q.addrs = a->addrs;
		q.n_addrs = a->n_addrs;
		q.own = own_addresses(a->g->own, &q.n_own);
		q.counted = true;
		q.tunnels_session = a->session ? a->session->n_tunnels : 0;
		q.tunnels_all = a->g->n_tunnels;
	}
	return q;
}

static void on_addresses(void *data, const struct inet_addr *addrs, size_t n)
{
	struct attempt *a = data;

	a->lookup = NULL;
	a->addrs = mem_new(n ? n : 1, sizeof(*a->addrs));
	a->n_addrs = n;
	if (n)
		memcpy(a->addrs, addrs, n * sizeof(*addrs));
	struct egress_question q = question_of(a);
	enum egress_code code = gateway_decide(&q);
	if (code) {
		refuse(a, code, "");
		return;
	}
	a->state = DIAL;
	a->is_tunnel = true;
	a->g->n_tunnels++;
	a->session->n_tunnels++;
	sandbox_pending_less(a->sb);
	proceed(a);
}

/* The host is known, nothing is resolved yet. */
static void judge_name(struct attempt *a)
{
	take_session(a);
	struct egress_question q = question_of(a);
	enum egress_code code = gateway_decide(&q);
	if (code) {
		refuse(a, code, "");
		return;
	}
	a->state = LOOKUP;
	uv_timer_stop(a->timer);
	uv_poll_stop(a->near_poll);
	a->lookup = resolver_start(a->g->resolver, a->host.text, on_addresses, a);
}

/* ---- Dialling ---- */

static void start_tunnel(struct attempt *a);
static bool look_at_hello(struct attempt *a);

static bool peer_is(int fd, const struct inet_addr *want)
{
	struct sockaddr_storage sa;
	struct inet_addr got;
	socklen_t len = sizeof(sa);

	return getpeername(fd, (struct sockaddr *)&sa, &len) == 0 &&
	       inet_addr_of((struct sockaddr *)&sa, &got) && inet_addr_eq(&got, want);
}

static void established(struct attempt *a)
{
	static const char ok[] = "HTTP/1.1 200 Connection Established\r\n\r\n";
	const int on = 1;

	uv_poll_stop(a->far_poll);
	setsockopt(a->far, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(a->near, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	a->conn = a->g->next_conn++;
	a->ts_ms = clock_wall_us() / 1000;
	if (!log_allowed(a, false)) {
		a->conn = 0;
		refuse(a, EGRESS_LOG_UNAVAILABLE, "log unavailable");
		return;
	}
	if (a->kind != NET_PROXY) {
		start_tunnel(a);
		return;
	}
	if (send(a->near, ok, sizeof(ok) - 1, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(ok) - 1) {
		attempt_end(a);
		return;
	}
	a->state = FIRST;
	set_timer(a, GATEWAY_HELLO_MS);
	/* It may have come with the request. */
	if (look_at_hello(a))
		watch_near(a);
}

static void on_far(uv_poll_t *poll, int status, int events)
{
	struct attempt *a = poll->data;
	int error = 0;
	socklen_t len = sizeof(error);

	(void)events;
	if (getsockopt(a->far, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (status < 0 || error || !peer_is(a->far, &a->dialled)) {
		handle_drop_poll(&a->far_poll);
		fd_close(&a->far);
		proceed(a);
		return;
	}
	established(a);
}

static socklen_t sockaddr_of(const struct inet_addr *addr, uint16_t port,
			     struct sockaddr_storage *ret)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;

	memset(ret, 0, sizeof(*ret));
	if (inet_addr_is_v4(addr)) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		memcpy(&v4->sin_addr, addr->bytes + 12, 4);
		return sizeof(*v4);
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(port);
	memcpy(&v6->sin6_addr, addr->bytes, 16);
	return sizeof(*v6);
}

/* Tries the next address; addresses were judged together, so the order is all that matters. */
static void dial(struct attempt *a)
{
	struct sockaddr_storage sa;

	while (a->next_addr < a->n_addrs) {
		a->dialled = a->addrs[a->next_addr++];
		socklen_t len = sockaddr_of(&a->dialled, TLS_PORT, &sa);
		a->far = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (handle_is_reserved(&a->far))
			errno = EMFILE;
		if (a->far < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS)) {
			refuse(a, EGRESS_ERROR, "no descriptors");
			return;
		}
		if (a->far >= 0 &&
		    (connect(a->far, (struct sockaddr *)&sa, len) == 0 || errno == EINPROGRESS)) {
			a->far_poll = handle_poll(a->g->loop, a->far, a);
			if (a->far_poll) {
				uv_poll_start(a->far_poll, UV_WRITABLE, on_far);
				set_timer(a, GATEWAY_DIAL_MS);
				return;
			}
		}
		fd_close(&a->far);
	}
	refuse(a, EGRESS_CONNECT_FAIL, "");
}

/* ---- The tunnel ---- */

static void on_relay_over(void *data)
{
	attempt_end(data);
}

static void start_tunnel(struct attempt *a)
{
	handle_drop_poll(&a->near_poll);
	handle_drop_poll(&a->far_poll);
	uv_timer_stop(a->timer);
	free(take_ptr(a->addrs));
	a->n_addrs = 0;
	a->state = TUNNEL;
	a->relay = relay_start(a->g->loop, a->near, a->far, &a->in,
			       gateway_ms(a->g, GATEWAY_IDLE_MS), on_relay_over, a);
	if (!a->relay)
		attempt_end(a);
}

/* ---- Reading the head and the ClientHello ---- */

/* What a request that is not CONNECT asked for, for the log. host: its Host field, if there is one.
 */
static void note_target(struct attempt *a, struct str target, struct str host)
{
	static const struct {
		const char *scheme;
		uint16_t port;
	} schemes[] = { { "http://", HTTP_PORT }, { "https://", TLS_PORT } };
	uint16_t port = HTTP_PORT, given;

	a->target_len = target.len < sizeof(a->target) ? target.len : sizeof(a->target);
	memcpy(a->target, target.data, a->target_len);
	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		struct str scheme = str_of(schemes[i].scheme);
		if (target.len <= scheme.len ||
		    !str_eq_nocase((struct str){ target.data, scheme.len }, scheme))
			continue;
		struct str rest = str_from(target, scheme.len);
		port = schemes[i].port;
		str_split(&rest, '/', &host);
		break;
	}
	if (!host.len)
		return;
	egress_authority_parse(host, &a->host, &given);
	if (a->host.kind == EGRESS_HOST_BAD || !memchr(host.data, ':', host.len)) {
		egress_host_parse(host, &a->host);
		given = 0;
	}
	/* On the direct path it is known, whatever the request says. */
	if (a->kind == NET_PROXY)
		a->port = given ? given : port;
	a->has_host = a->host.kind != EGRESS_HOST_BAD;
}

/* The head is whole; n bytes of it are taken. */
static void on_head(struct attempt *a, size_t n)
{
	_cleanup_arena_ struct arena arena = { NULL, 0, 0 };
	struct head_proxy head;
	struct str in = { a->in.data, n };

	bool good = head_parse_proxy(&a->scan, in, &arena, &head);
	struct str method = { in.data, a->scan.target - 1 };
	struct str target = { in.data + a->scan.target, a->scan.version - 1 - a->scan.target };
	a->is_connect = a->kind == NET_PROXY && str_eq(method, STR("CONNECT"));
	if (good && a->is_connect) {
		egress_authority_parse(head.target, &a->host, &a->port);
		a->has_host = true;
	} else if (!a->is_connect) {
		note_target(a, target, good ? head.host : (struct str){ NULL, 0 });
	}
	buf_consume(&a->in, n);
	if (good || !a->is_connect) {
		judge_name(a);
		return;
	}
	take_session(a);
	refuse(a, EGRESS_ERROR, "malformed request");
}

/* These return true when more bytes are needed; else the attempt is elsewhere, or is no more. */
static bool look_at_head(struct attempt *a)
{
	int r = head_scan(&a->scan, buf_str(&a->in));

	if (r > 0) {
		on_head(a, (size_t)r);
		return false;
	}
	if (r < 0) {
		take_session(a);
		refuse(a, EGRESS_ERROR, "malformed request");
		return false;
	}
	if (a->in.len == GATEWAY_HEAD_MAX) { /* rung 0 */
		attempt_end(a);
		return false;
	}
	return true;
}

/* How many bytes must have come before the parser can say more: the end of the first record that
 * is not whole. */
static size_t hello_wants(struct str in)
{
	const unsigned char *p = (const unsigned char *)in.data;
	size_t at = 0;

	while (at + 5 <= in.len)
		at += 5 + ((size_t)p[at + 3] << 8 | p[at + 4]);
	at = at > in.len ? at : at + 5;
	return at < EGRESS_HELLO_MAX ? at : EGRESS_HELLO_MAX;
}

static void on_hello(struct attempt *a, enum egress_hello what, struct str name)
{
	struct egress_host sni = { .kind = EGRESS_HOST_BAD };
	struct egress_question q;

	if (what == EGRESS_HELLO_NAME)
		egress_host_parse(name, &sni);
	if (a->kind != NET_PROXY) {
		a->has_host = what == EGRESS_HELLO_NAME;
		if (a->has_host) {
			a->host = sni;
			judge_name(a);
			return;
		}
		take_session(a);
	}
	q = question_of(a);
	q.first_bytes = what == EGRESS_HELLO_NAME      ? EGRESS_BYTES_NAME
			: what == EGRESS_HELLO_NO_NAME ? EGRESS_BYTES_NO_NAME
						       : EGRESS_BYTES_NOT_TLS;
	q.sni = what == EGRESS_HELLO_NAME ? &sni : NULL;
	/* Its own place among the tunnels is no reason any more. */
	q.counted = false;
	enum egress_code code = gateway_decide(&q);
	if (code)
		refuse(a, code, "");
	else
		start_tunnel(a);
}

static bool look_at_hello(struct attempt *a)
{
	char name[256];
	size_t len = 0;

	if (!a->in.len || a->in.len < a->hello_want)
		return true;
	enum egress_hello what = egress_hello_parse(buf_str(&a->in), name, &len);
	if (what == EGRESS_HELLO_MORE && a->in.len < EGRESS_HELLO_MAX) {
		a->hello_want = hello_wants(buf_str(&a->in));
		return true;
	}
	on_hello(a, what == EGRESS_HELLO_MORE ? EGRESS_HELLO_NOT_TLS : what,
		 (struct str){ name, len });
	return false;
}

static bool look_at_dns(struct attempt *a)
{
	unsigned char out[2 + 512];

	while (a->in.len >= 2) {
		const unsigned char *p = (const unsigned char *)a->in.data;
		size_t len = (size_t)p[0] << 8 | p[1];
		if (2 + len > DNS_TCP_MAX || len == 0)
			break;
		if (a->in.len < 2 + len)
			return true;
		if (!sandbox_may_ask(a->sb))
			break;
		size_t got = stub_answer(a->sb, (struct str){ a->in.data + 2, len }, true, out + 2,
					 sizeof(out) - 2);
		buf_consume(&a->in, 2 + len);
		out[0] = (unsigned char)(got >> 8);
		out[1] = (unsigned char)got;
		if (got && send(a->near, out, 2 + got, MSG_NOSIGNAL | MSG_DONTWAIT) !=
				   (ssize_t)(2 + got)) {
			attempt_end(a);
			return false;
		}
	}
	if (a->in.len < 2)
		return true;
	attempt_end(a);
	return false;
}

static void on_near(uv_poll_t *poll, int status, int events)
{
	static char block[GATEWAY_HEAD_MAX];
	struct attempt *a = poll->data;
	bool lingers = a->state == LINGER;
	/* What a lingering client still says is taken without being copied (tcp(7)). */
	ssize_t n = lingers ? recv(a->near, NULL, sizeof(block), MSG_TRUNC | MSG_DONTWAIT)
			    : recv(a->near, block, a->in.max - a->in.len, MSG_DONTWAIT);

	(void)events;
	if (n <= 0) {
		if (n == 0 || status < 0 || (errno != EAGAIN && errno != EINTR))
			attempt_end(a);
		return;
	}
	if (lingers)
		return;
	buf_put(&a->in, block, (size_t)n);
	bool more = a->state == HEAD  ? look_at_head(a)
		    : a->state == DNS ? look_at_dns(a)
				      : look_at_hello(a);
	/* Nothing more will come, and what came says nothing: rung 0. */
	if (more && status < 0)
		attempt_end(a);
}

/* ---- The beginning ---- */

static void begin(struct attempt *a)
{
	switch (a->kind) {
	case NET_TLS:
		if (a->port != TLS_PORT) {
			judge_name(a);
			return;
		}
		a->state = HELLO;
		set_timer(a, GATEWAY_HELLO_MS);
		break;
	case NET_DNS_TCP:
		a->state = DNS;
		a->in.max = DNS_TCP_MAX;
		set_timer(a, GATEWAY_HEAD_MS);
		break;
	default:
		a->state = HEAD;
		a->scan.any_target = true;
		set_timer(a, GATEWAY_HEAD_MS);
	}
	watch_near(a);
}

static void proceed(struct attempt *a)
{
	if (a->state == DIAL)
		dial(a);
	else
		begin(a);
}

void attempt_start(struct sandbox *sb, enum net_fd kind, int fd)
{
	struct attempt *a = mem_new(1, sizeof(*a));
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	a->g = sb->g;
	a->sb = sb;
	a->kind = kind;
	a->near = fd;
	a->far = -1;
	a->in = BUF(GATEWAY_HEAD_MAX);
	a->via = kind == NET_PROXY ? EGRESS_PROXY : EGRESS_DIRECT;
	a->is_connect = kind == NET_TLS;
	a->began_ms = clock_monotonic_ms();
	list_init(&a->session_node);
	list_append(&sb->attempts, &a->sandbox_node);
	sandbox_pending_more(sb);
	a->timer = handle_timer(a->g->loop, a);
	a->near_poll = handle_poll(a->g->loop, fd, a);
	if (!a->near_poll || getsockname(fd, (struct sockaddr *)&sa, &len) < 0 ||
	    !inet_addr_of((struct sockaddr *)&sa, &a->dest)) {
		attempt_end(a);
		return;
	}
	if (kind == NET_TLS || kind == NET_HTTP)
		a->port = ntohs(((struct sockaddr_in6 *)&sa)->sin6_port);
	if (sb->session) {
		begin(a);
		return;
	}
	a->state = WAIT;
	set_timer(a, GATEWAY_UNBOUND_MS);
}

void attempt_bound(struct attempt *a)
{
	if (a->state == WAIT)
		begin(a);
}
