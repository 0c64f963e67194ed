// SPDX-License-Identifier: Apache-2.0
#include "core/native/fetch.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "core/native/state.h"

_Static_assert(FETCH_OK == (int)RUNTIME_FETCH_OK && FETCH_STATUS == (int)RUNTIME_FETCH_STATUS &&
		       FETCH_TOO_LARGE == (int)RUNTIME_FETCH_TOO_LARGE &&
		       FETCH_REDIRECT == (int)RUNTIME_FETCH_REDIRECT &&
		       FETCH_FAILED == (int)RUNTIME_FETCH_FAILED &&
		       FETCH_NO_SPACE == (int)RUNTIME_FETCH_NO_SPACE,
	       "the ends are the same");
_Static_assert(FETCH_SPEC_HOSTS_MAX == RUNTIME_FETCH_HOSTS_MAX &&
		       FETCH_SPEC_URL_MAX == RUNTIME_FETCH_URL_MAX,
	       "the limits are the same");

struct runtime_fetch {
	struct runtime *rt; /* borrowed */
	uint32_t id;
	unsigned refs;		  /* whoever started it, the word of its end */
	struct gateway_word word; /* DG_FETCH or DG_FETCH_END */
	struct dg_fetch body;
	char *spec; /* owned: what goes into the memfd */
	size_t spec_len;
	int fd;	   /* owned */
	bool over; /* answer is what there is to tell */
	struct gd_fetched answer;
	struct deadline deadline; /* of the answer; when it is over: of telling it */
	runtime_fetch_fn fn;
	void *data;
	TAILQ_ENTRY(runtime_fetch) link;
};

static struct runtime_fetch *fetch_of(struct gateway_word *w)
{
	return container_of(w, struct runtime_fetch, word);
}

void fetch_ref(struct gateway_word *w)
{
	fetch_of(w)->refs++;
}

void fetch_unref(struct gateway_word *w)
{
	struct runtime_fetch *f = fetch_of(w);

	if (--f->refs)
		return;
	fd_close(&f->fd);
	free(f->spec);
	free(f);
}

/* ---- What is said ---- */

int fetch_send(int fd, struct gateway_word *w)
{
	const struct runtime_fetch *f = fetch_of(w);
	_cleanup_fd_ int spec = memfd_create("fetch", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (spec < 0)
		return -errno;
	ssize_t n = pwrite(spec, f->spec, f->spec_len, 0);
	if (n != (ssize_t)f->spec_len)
		return n < 0 ? -errno : -ENOMEM;
	if (fcntl(spec, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return -errno;
	const int fds[] = { spec, f->fd };
	return wire_send(fd, DG_FETCH, f->id, &f->body, sizeof(f->body), fds, ARRAY_SIZE(fds));
}

int fetch_send_end(int fd, struct gateway_word *w)
{
	const struct runtime_fetch *f = fetch_of(w);

	return wire_send(fd, DG_FETCH_END, f->id, NULL, 0, NULL, 0);
}

/* ---- The end ---- */

/* Nothing more comes of it; the gateway hears so when it has been asked. */
static void drop(struct runtime_fetch *f)
{
	struct runtime *rt = f->rt;
	bool untold = f->word.type == DG_FETCH;

	deadline_clear(&rt->deadlines, &f->deadline);
	TAILQ_REMOVE(&rt->gateway.fetches, f, link);
	gateway_unsay(rt, &f->word);
	if (!untold && !f->over)
		gateway_say(rt, &f->word, DG_FETCH_END);
	fetch_unref(&f->word);
}

static void tell(struct runtime_fetch *f)
{
	const struct gd_fetched answer = f->answer;
	const struct runtime_fetch_result result = {
		.end = (enum runtime_fetch_end)answer.end,
		.status = answer.status,
		.bytes = answer.bytes,
		.host = answer.end == FETCH_REDIRECT ? answer.text : "",
		.reason = answer.end == FETCH_FAILED ? answer.text : "",
	};
	runtime_fetch_fn fn = f->fn;
	void *data = f->data;

	drop(f);
	fn(data, &result);
}

static void on_over(struct deadline *d)
{
	tell(container_of(d, struct runtime_fetch, deadline));
}

static void over(struct runtime_fetch *f, const struct gd_fetched *answer)
{
	f->over = true;
	f->answer = *answer;
	deadline_set(&f->rt->deadlines, &f->deadline, clock_monotonic_ms(), on_over);
}

static struct gd_fetched failed(const char *why)
{
	struct gd_fetched answer = { .end = FETCH_FAILED };

	snprintf(answer.text, sizeof(answer.text), "%s", why);
	return answer;
}

/* It keeps its time by itself and has not: it is told to stop, and may be deaf. */
static void on_silent(struct deadline *d)
{
	struct runtime_fetch *f = container_of(d, struct runtime_fetch, deadline);

	f->answer = failed("the gateway does not answer");
	tell(f);
}

bool fetch_answered(struct runtime *rt, uint32_t id, const struct gd_fetched *answer)
{
	struct runtime_fetch *f;

	if (answer->end >= FETCH_ENDS || !memchr(answer->text, 0, sizeof(answer->text)))
		return false;
	TAILQ_FOREACH(f, &rt->gateway.fetches, link)
	{
		if (f->id == id)
			break;
	}
	/* It may have been given up. */
	if (!f || f->over)
		return true;
	if (f->word.type == DG_FETCH || answer->bytes > f->body.max_bytes)
		return false;
	over(f, answer);
	return true;
}

void fetches_lost(struct runtime *rt)
{
	const struct gd_fetched answer = failed("the gateway has ended; try again");
	struct runtime_fetch *f;

	TAILQ_FOREACH(f, &rt->gateway.fetches, link)
	{
		if (!f->over)
			over(f, &answer);
	}
}

void fetches_close(struct runtime *rt)
{
	struct runtime_fetch *f;

	while ((f = TAILQ_FIRST(&rt->gateway.fetches)))
		tell(f);
}

/* ---- The beginning ---- */

static void put(char **at, const char *text)
{
	size_t size = strlen(text) + 1;

	memcpy(*at, text, size);
	*at += size;
}

static void make_spec(struct runtime_fetch *f, const struct runtime_fetch_spec *spec)
{
	struct fetch_spec head = { .magic = FETCH_SPEC_MAGIC,
				   .n_hosts = (uint32_t)spec->n_hosts,
				   .url_len = (uint32_t)strlen(spec->url) };

	assert(head.url_len <= FETCH_SPEC_URL_MAX);
	assert(spec->n_hosts >= 1 && spec->n_hosts <= FETCH_SPEC_HOSTS_MAX);
	for (size_t i = 0; i < spec->n_hosts; i++)
		head.hosts_len += (uint32_t)strlen(spec->hosts[i]) + 1;
	f->spec_len = sizeof(head) + head.url_len + 1 + head.hosts_len;
	assert(f->spec_len <= FETCH_SPEC_MAX);
	char *at = f->spec = mem_new(f->spec_len, 1);
	memcpy(at, &head, sizeof(head));
	at += sizeof(head);
	put(&at, spec->url);
	for (size_t i = 0; i < spec->n_hosts; i++)
		put(&at, spec->hosts[i]);
}

struct runtime_fetch *runtime_fetch_start(struct runtime *rt, const struct runtime_fetch_spec *spec,
					  runtime_fetch_fn fn, void *data)
{
	struct runtime_fetch *f = mem_new(1, sizeof(*f));
	struct gateway *g = &rt->gateway;
	const char *why = NULL;

	assert(spec->timeout_ms > 0 && spec->timeout_ms <= UINT32_MAX);
	if (++g->next_fetch == 0)
		g->next_fetch = 1;
	*f = (struct runtime_fetch){
		.rt = rt,
		.id = g->next_fetch,
		.refs = 1,
		.body = { .max_bytes = spec->max_bytes, .timeout_ms = (uint32_t)spec->timeout_ms },
		.fd = fcntl(spec->fd, F_DUPFD_CLOEXEC, 0),
		.fn = fn,
		.data = data,
	};
	make_spec(f, spec);
	TAILQ_INSERT_TAIL(&g->fetches, f, link);
	if (!rt->host.gateway)
		why = "this server's host has no name servers but those on loopback; its operator "
		      "has to set SANDBOX_EGRESS_DNS";
	else if (!g->socket)
		why = "the gateway is being started; try again";
	else if (f->fd < 0)
		why = "the server has no descriptors left; try again";
	if (why) {
		const struct gd_fetched answer = failed(why);
		over(f, &answer);
		return f;
	}
	deadline_set(&rt->deadlines, &f->deadline,
		     clock_monotonic_ms() + spec->timeout_ms + FETCH_GRACE_MS, on_silent);
	gateway_say(rt, &f->word, DG_FETCH);
	return f;
}

void runtime_fetch_cancel(struct runtime_fetch *fetch)
{
	drop(fetch);
}
