// SPDX-License-Identifier: Apache-2.0
#include "gateway/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/gateway.h"
#include "gateway/handle.h"
#include "gateway/own.h"
#include "gateway/resolver.h"
#include "gateway/spec.h"
#include "gateway/transfer.h"

#define STATUS_OK 200

struct fetch {
	struct list node;
	struct gateway *g;
	uint32_t id;
	int file; /* owned */
	uint64_t max_bytes, bytes;
	struct egress_host hosts[FETCH_SPEC_HOSTS_MAX];
	struct str rules[FETCH_SPEC_HOSTS_MAX]; /* into hosts */
	struct egress_policy policy;		/* of rules */

	struct hop hop;
	unsigned redirects;
	struct lookup *lookup;
	struct transfer *transfer;
	char location[HOP_URL_SIZE]; /* with its length; 0: the answer is no redirect */
	size_t location_len;
	uv_timer_t *timer; /* owned; of the whole, then of saying the answer again */

	bool decided; /* answer holds, whatever still happens */
	struct gd_fetched answer;
};

/* ---- The end ---- */

static void stop(struct fetch *f)
{
	if (f->lookup)
		lookup_drop(take_ptr(f->lookup));
	if (f->transfer)
		transfer_drop(take_ptr(f->transfer));
	fd_close(&f->file);
}

static void drop(struct fetch *f)
{
	stop(f);
	handle_drop_timer(&f->timer);
	list_remove(&f->node);
	f->g->n_fetches--;
	free(f);
}

static void on_retry(uv_timer_t *timer);

static void say(struct fetch *f)
{
	struct gateway *g = f->g;
	int r = wire_send(g->daemon.fd, GD_FETCHED, f->id, &f->answer, sizeof(f->answer), NULL, 0);

	if (r == -EAGAIN)
		uv_timer_start(f->timer, on_retry, FETCH_RETRY_MS, 0);
	else
		drop(f);
}

static void on_retry(uv_timer_t *timer)
{
	say(timer->data);
}

static void log_end(const struct fetch *f)
{
	static const char *const words[] = { [FETCH_OK] = "ok",
					     [FETCH_STATUS] = "status",
					     [FETCH_TOO_LARGE] = "too_large",
					     [FETCH_REDIRECT] = "redirect",
					     [FETCH_FAILED] = "failed",
					     [FETCH_NO_SPACE] = "no_space" };

	log_event(LOG_INFO, "fetched", LOG_STR("end", words[f->answer.end]),
		  LOG_STR("host", f->hop.host.text), LOG_STR("text", f->answer.text),
		  LOG_INT("status", f->answer.status), LOG_INT("bytes", f->bytes));
}

/* The last thing that is done with f. */
static void answer(struct fetch *f)
{
	f->answer.bytes = f->bytes;
	log_end(f);
	stop(f);
	say(f);
}

static void decide(struct fetch *f, enum fetch_end end, const char *text)
{
	f->decided = true;
	f->answer.end = end;
	snprintf(f->answer.text, sizeof(f->answer.text), "%.*s", MSG_TEXT - 1, text);
}

/* "host: why", which is what the client reads. */
static void fail(struct fetch *f, const char *why)
{
	bool named = f->hop.host.len > 0;

	decide(f, FETCH_FAILED, "");
	snprintf(f->answer.text, sizeof(f->answer.text), "%.100s%s%s", f->hop.host.text,
		 named ? ": " : "", why);
	answer(f);
}

static void on_late(uv_timer_t *timer)
{
	fail(timer->data, "the time is up");
}

/* ---- A transfer ---- */

static void step(struct fetch *f, const struct hop *from, struct str url);

static bool is_redirect(unsigned status)
{
	static const unsigned redirects[] = { 301, 302, 303, 307, 308 };

	for (size_t i = 0; i < ARRAY_SIZE(redirects); i++)
		if (redirects[i] == status)
			return true;
	return false;
}

static bool on_head(void *data, const struct transfer_head *head)
{
	struct fetch *f = data;

	f->answer.status = head->status;
	if (is_redirect(head->status) && head->location.len) {
		f->location_len = head->location.len;
		memcpy(f->location, head->location.data, head->location.len);
		return false;
	}
	if (head->status != STATUS_OK)
		decide(f, FETCH_STATUS, "");
	else if (head->size != TRANSFER_SIZE_UNKNOWN && head->size > f->max_bytes)
		decide(f, FETCH_TOO_LARGE, "");
	return !f->decided;
}

static bool on_bytes(void *data, struct str bytes)
{
	struct fetch *f = data;

	if (bytes.len > f->max_bytes - f->bytes) {
		decide(f, FETCH_TOO_LARGE, "");
		return false;
	}
	while (bytes.len) {
		ssize_t n = pwrite(f->file, bytes.data, bytes.len, (off_t)f->bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			decide(f, FETCH_NO_SPACE, n < 0 ? strerrordesc_np(errno) : "");
			return false;
		}
		f->bytes += (uint64_t)n;
		bytes = str_from(bytes, (size_t)n);
	}
	return true;
}

static void on_done(void *data, const char *why)
{
	struct fetch *f = data;

	transfer_drop(take_ptr(f->transfer));
	if (f->decided) {
		answer(f);
	} else if (why) {
		fail(f, why);
	} else if (f->location_len) {
		const struct hop from = f->hop;
		char location[HOP_URL_SIZE];
		struct str url = { location, f->location_len };
		memcpy(location, f->location, url.len);
		f->location_len = 0;
		if (f->redirects++ == FETCH_REDIRECTS_MAX)
			fail(f, "too many redirects");
		else
			step(f, &from, url);
	} else {
		decide(f, FETCH_OK, "");
		answer(f);
	}
}

static void get(struct fetch *f, const struct inet_addr *addrs, size_t n)
{
	static const struct transfer_ops ops = { on_head, on_bytes, on_done };
	const struct transfer_spec spec = {
		.loop = f->g->loop,
		.tasks = &f->g->tasks,
		.hop = &f->hop,
		.addrs = addrs,
		.n_addrs = n,
		.dial_ms = gateway_ms(f->g, TRANSFER_DIAL_MS),
	};
	const char *why;

	f->transfer = transfer_start(&spec, &ops, f, &why);
	if (!f->transfer)
		fail(f, why);
}

/* ---- A step ---- */

static struct egress_question question_of(struct fetch *f)
{
	return (struct egress_question){
		.via = EGRESS_FETCH,
		.is_connect = true,
		.policy = &f->policy,
		.port = f->hop.port,
		.host = &f->hop.host,
	};
}

static void refuse(struct fetch *f, enum egress_code code)
{
	char reason[GATEWAY_REASON_MAX];

	if (code == EGRESS_NO_RULE) {
		decide(f, FETCH_REDIRECT, f->hop.host.text);
		answer(f);
		return;
	}
	egress_reason(code, f->hop.port, "", reason, sizeof(reason));
	fail(f, reason);
}

static void on_addresses(void *data, const struct inet_addr *addrs, size_t n)
{
	struct fetch *f = data;
	struct egress_question q = question_of(f);

	f->lookup = NULL;
	q.resolved = true;
	q.addrs = addrs;
	q.n_addrs = n;
	q.own = own_addresses(f->g->own, &q.n_own);
	enum egress_code code = gateway_decide(&q);
	if (code)
		refuse(f, code);
	else
		get(f, addrs, n);
}

static void look_up(struct fetch *f)
{
	const struct hop_base *base = &f->g->import_base;
	struct egress_question q = question_of(f);
	enum egress_code code;

	/* The operator's own address, see hop.h. */
	if (f->hop.at_base && base->n_addrs) {
		if (egress_policy_allows(&f->policy,
					 (struct str){ f->hop.host.text, f->hop.host.len }))
			get(f, base->addrs, base->n_addrs);
		else
			refuse(f, EGRESS_NO_RULE);
		return;
	}
	code = gateway_decide(&q);
	if (code)
		refuse(f, code);
	else
		f->lookup = resolver_start(f->g->resolver, f->hop.host.text, on_addresses, f);
}

static void step(struct fetch *f, const struct hop *from, struct str url)
{
	char where[HOP_WHERE_SIZE];

	switch (hop_parse(&f->g->import_base, from, url, &f->hop, where)) {
	case HOP_OK:
		look_up(f);
		break;
	case HOP_ELSEWHERE:
		decide(f, FETCH_REDIRECT, where);
		answer(f);
		break;
	case HOP_MALFORMED:
		fail(f, "its redirect is malformed");
		break;
	}
}

/* ---- The beginning ---- */

static bool take_hosts(struct fetch *f, struct str rest, uint32_t n)
{
	struct str host;

	if (!n || n > FETCH_SPEC_HOSTS_MAX)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		if (!str_split(&rest, '\0', &host))
			return false;
		egress_host_parse(host, &f->hosts[i]);
		if (f->hosts[i].kind == EGRESS_HOST_BAD)
			return false;
		f->rules[i] = (struct str){ f->hosts[i].text, f->hosts[i].len };
	}
	f->policy = (struct egress_policy){ f->rules, n };
	return rest.data && !rest.len;
}

/* The URL is left in *ret_url. */
static bool take_spec(struct fetch *f, struct str spec, struct str *ret_url)
{
	struct fetch_spec head;

	if (spec.len < sizeof(head))
		return false;
	memcpy(&head, spec.data, sizeof(head));
	struct str rest = str_from(spec, sizeof(head)), url;
	if (head.magic != FETCH_SPEC_MAGIC || head.url_len > FETCH_SPEC_URL_MAX ||
	    !str_split(&rest, '\0', &url) || url.len != head.url_len || rest.len != head.hosts_len)
		return false;
	*ret_url = url;
	return take_hosts(f, rest, head.n_hosts);
}

/* airlockd's, and nobody else can reach it: what is written there was asked for. */
static bool is_unnamed_file(int fd)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && !(flags & (O_APPEND | O_PATH)) &&
	       fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 0;
}

static struct fetch *find(struct gateway *g, uint32_t id)
{
	list_each(node, &g->fetches)
	{
		struct fetch *f = container_of(node, struct fetch, node);
		if (f->id == id)
			return f;
	}
	return NULL;
}

int fetch_start(struct gateway *g, struct wire_msg *msg)
{
	struct fetch *f = mem_new(1, sizeof(*f));
	_cleanup_free_ char *data = NULL;
	struct dg_fetch body;
	struct str spec, url;

	memcpy(&body, msg->body, sizeof(body));
	data = spec_read(msg->fds[0], FETCH_SPEC_MAX, &spec.len);
	spec.data = data;
	f->g = g;
	f->id = msg->head.id;
	f->file = take_fd(&msg->fds[1]);
	f->max_bytes = body.max_bytes;
	if (!data || !f->id || !body.timeout_ms || body.max_bytes > INT64_MAX || find(g, f->id) ||
	    !is_unnamed_file(f->file) || !take_spec(f, spec, &url)) {
		fd_close(&f->file);
		free(f);
		return -EPROTO;
	}
	f->timer = handle_timer(g->loop, f);
	list_append(&g->fetches, &f->node);
	uv_timer_start(f->timer, on_late, gateway_ms(g, body.timeout_ms), 0);
	if (g->n_fetches++ >= FETCH_MAX) {
		decide(f, FETCH_FAILED, "too many downloads at once; try again");
		answer(f);
	} else {
		step(f, NULL, url);
	}
	return 0;
}

void fetch_end(struct gateway *g, uint32_t id)
{
	struct fetch *f = find(g, id);

	if (f)
		drop(f);
}

void fetches_end(struct gateway *g)
{
	struct list *node;

	while ((node = list_first(&g->fetches)))
		drop(container_of(node, struct fetch, node));
}
