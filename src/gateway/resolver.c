// SPDX-License-Identifier: Apache-2.0
#include "gateway/resolver.h"

#include <ares.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/mem.h"
#include "loop/task.h"

/* How long c-ares is left alone at most. */
#define STEP_MS 2000
#define TRIES 2

/* One socket of c-ares. Its number may be used again before libuv has closed the handle. */
struct watch {
	struct list node;
	uv_poll_t poll;
	ares_socket_t fd;
	struct resolver *r;
};

struct resolver {
	uv_loop_t *loop;
	ares_channel channel;
	struct list watches;
	uv_timer_t timer;
	struct list names; /* that are being asked for */
	struct task_queue tasks;
	unsigned n_handles; /* not closed yet, when it is being closed */
};

/* Somebody who waits for a name. */
struct lookup {
	struct list node; /* of name.waiting */
	lookup_fn fn;
	void *data;
};

/* One question. */
struct name {
	struct list node;
	struct resolver *r;
	struct list waiting; /* may be empty: all were dropped */
	bool started;	     /* ares_getaddrinfo has returned */
	struct task task;    /* the answer that came before that */
	size_t n;
	struct inet_addr addrs[RESOLVER_ADDRESSES_MAX];
	char text[]; /* NUL-terminated */
};

static void arm(struct resolver *r);

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct watch *w = container_of(poll, struct watch, poll);
	struct resolver *r = w->r;
	/* c-ares finds out by itself what is wrong with a socket in error. */
	bool in = status < 0 || (events & UV_READABLE), out = status < 0 || (events & UV_WRITABLE);

	ares_process_fd(r->channel, in ? w->fd : ARES_SOCKET_BAD, out ? w->fd : ARES_SOCKET_BAD);
	arm(r);
}

static void on_timer(uv_timer_t *timer)
{
	struct resolver *r = timer->data;

	ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	arm(r);
}

static void arm(struct resolver *r)
{
	struct timeval max = { .tv_sec = STEP_MS / 1000 }, space;

	if (list_is_empty(&r->names)) {
		uv_timer_stop(&r->timer);
		return;
	}
	const struct timeval *wait = ares_timeout(r->channel, &max, &space);
	uv_timer_start(&r->timer, on_timer,
		       (uint64_t)wait->tv_sec * 1000 + (uint64_t)wait->tv_usec / 1000 + 1, 0);
}

static void on_watch_closed(uv_handle_t *handle)
{
	free(container_of((uv_poll_t *)handle, struct watch, poll));
}

static void on_socket(void *data, ares_socket_t fd, int readable, int writable)
{
	struct resolver *r = data;
	struct watch *w = NULL;

	list_each(node, &r->watches)
	{
		struct watch *at = container_of(node, struct watch, node);
		if (at->fd == fd)
			w = at;
	}
	if (!readable && !writable) {
		if (!w)
			return;
		list_remove(&w->node);
		uv_close((uv_handle_t *)&w->poll, on_watch_closed);
		return;
	}
	if (!w) {
		w = mem_new(1, sizeof(*w));
		w->fd = fd;
		w->r = r;
		if (uv_poll_init(r->loop, &w->poll, fd) < 0) {
			/* The lookup times out. */
			free(w);
			return;
		}
		list_append(&r->watches, &w->node);
	}
	uv_poll_start(&w->poll, (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0),
		      on_poll);
}

int resolver_open(uv_loop_t *loop, const char *servers, int try_ms, struct resolver **ret,
		  struct err *err)
{
	struct resolver *r = mem_new(1, sizeof(*r));
	static char lookups[] = "b"; /* servers alone */
	static char none[] = "/dev/null";
	struct ares_options options = {
		.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS,
		.timeout = try_ms,
		.tries = TRIES,
		.ednspsz = 1232,
		.lookups = lookups,
		.resolvconf_path = none,
		.sock_state_cb = on_socket,
		.sock_state_cb_data = r,
	};
	int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_EDNSPSZ |
		   ARES_OPT_LOOKUPS | ARES_OPT_RESOLVCONF | ARES_OPT_SOCK_STATE_CB |
		   ARES_OPT_DOMAINS | ARES_OPT_NOROTATE;

	r->loop = loop;
	list_init(&r->watches);
	list_init(&r->names);
	int status = ares_library_init(ARES_LIB_INIT_ALL);
	if (status == ARES_SUCCESS)
		status = ares_init_options(&r->channel, &options, mask);
	if (status == ARES_SUCCESS)
		status = ares_set_servers_csv(r->channel, servers);
	if (status != ARES_SUCCESS) {
		free(r);
		return err_set(err, EINVAL, "SANDBOX_EGRESS_DNS: %s", ares_strerror(status));
	}
	uv_timer_init(loop, &r->timer);
	r->timer.data = r;
	task_queue_init(&r->tasks, loop);
	r->tasks.idle.data = r;
	*ret = r;
	return 0;
}

/* IPv4 first, whichever answer came first: a way out by IPv6 that leads nowhere costs ten seconds. */
static size_t collect(const struct ares_addrinfo *result, struct inet_addr *out)
{
	static const int families[] = { AF_INET, AF_INET6 };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(families); i++)
		for (const struct ares_addrinfo_node *a = result ? result->nodes : NULL; a;
		     a = a->ai_next) {
			if (a->ai_family != families[i])
				continue;
			if (n == RESOLVER_ADDRESSES_MAX || !inet_addr_of(a->ai_addr, &out[n++]))
				return 0;
		}
	return n;
}

/* What is told may drop or start others; a new lookup of this name is a new question. */
static void deliver(struct name *name)
{
	struct list *node;

	list_remove(&name->node);
	while ((node = list_first(&name->waiting))) {
		struct lookup *l = container_of(node, struct lookup, node);
		list_remove(&l->node);
		l->fn(l->data, name->addrs, name->n);
		free(l);
	}
	free(name);
}

static void on_task(struct task *task)
{
	deliver(container_of(task, struct name, task));
}

static void on_answer(void *data, int status, int timeouts, struct ares_addrinfo *result)
{
	struct name *name = data;

	(void)timeouts;
	name->n = status == ARES_SUCCESS ? collect(result, name->addrs) : 0;
	if (result)
		ares_freeaddrinfo(result);
	if (name->started)
		deliver(name);
	else
		task_queue_add(&name->r->tasks, &name->task);
}

static struct name *name_find(struct resolver *r, const char *text)
{
	list_each(node, &r->names)
	{
		struct name *name = container_of(node, struct name, node);
		if (!strcmp(name->text, text))
			return name;
	}
	return NULL;
}

static struct name *name_ask(struct resolver *r, const char *text)
{
	const struct ares_addrinfo_hints hints = { .ai_family = AF_UNSPEC,
						   .ai_flags = ARES_AI_NOSORT };
	size_t size = strlen(text) + 1;
	struct name *name = mem_new(1, sizeof(*name) + size);

	name->r = r;
	memcpy(name->text, text, size);
	list_init(&name->waiting);
	task_init(&name->task, on_task);
	list_append(&r->names, &name->node);
	ares_getaddrinfo(r->channel, text, NULL, &hints, on_answer, name);
	name->started = true;
	arm(r);
	return name;
}

struct lookup *resolver_start(struct resolver *r, const char *text, lookup_fn fn, void *data)
{
	struct name *name = name_find(r, text);
	struct lookup *l = mem_new(1, sizeof(*l));

	*l = (struct lookup){ .fn = fn, .data = data };
	if (!name)
		name = name_ask(r, text);
	list_append(&name->waiting, &l->node);
	return l;
}

void lookup_drop(struct lookup *l)
{
	list_remove(&l->node);
	free(l);
}

static void on_part_closed(uv_handle_t *handle)
{
	struct resolver *r = handle->data;

	if (--r->n_handles == 0)
		free(r);
}

void resolver_close(struct resolver *r)
{
	/* Answers every question, and closes every socket through on_socket. */
	ares_destroy(r->channel);
	r->n_handles = 2;
	uv_close((uv_handle_t *)&r->timer, on_part_closed);
	task_queue_close(&r->tasks, on_part_closed);
}
