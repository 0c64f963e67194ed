// SPDX-License-Identifier: Apache-2.0
#include "api/api.h"

#include <errno.h>
#include <stdlib.h>

#include "api/guard.h"
#include "api/openapi.h"
#include "api/request.h"
#include "api/send.h"
#include "base/limits.h"
#include "base/mem.h"

/* A list of every session that a server can have is the largest answer that is built whole. */
#define SCRATCH_MAX (256u * MIB)
#define DESCRIPTION_MAX (1u * MIB)

/* Gives a request up. What it waits for decides who frees it: nobody calls back for what can be
 * detached, and a thread that reads the body needs it until it is done. */
static void give_up(struct request *r)
{
	bool waits = !r->exec && !r->file && !r->import && !r->reading && !r->events.open &&
		     !r->sending;

	if (r->exec)
		exec_detach(r->exec);
	if (r->file)
		files_detach(r->file);
	if (r->import)
		import_detach(r->import);
	r->api = NULL;
	r->prev = r->next = NULL;
	if (r->parsing)
		return;
	http_abort(r->x);
	r->x = NULL;
	if (!waits)
		request_free(r);
}

/* Whoever came with that key is thrown out, and what it was running ends. */
static void on_revoked(void *data, const struct key *key)
{
	struct api *a = data;

	for (struct request *r = a->requests, *next; r; r = next) {
		next = r->next;
		if (r->key != key)
			continue;
		*(r->prev ? &r->prev->next : &a->requests) = next;
		if (next)
			next->prev = r->prev;
		if (r->exec)
			exec_kill(r->exec);
		give_up(r);
	}
}

static void api_free(struct api *a)
{
	buf_fini(&a->scratch);
	buf_fini(&a->description);
	free(a->preview_domain);
	if (a->admin_key)
		explicit_bzero(a->admin_key, strlen(a->admin_key));
	free(a->admin_key);
	free(a);
}

int api_open(const struct api_config *config, struct core *core, struct api **ret, struct err *err)
{
	struct api *a = mem_new(1, sizeof(*a));

	a->config = *config;
	a->core = core;
	a->scratch = BUF(SCRATCH_MAX);
	a->description = BUF(DESCRIPTION_MAX);
	if (config->preview_domain)
		a->preview_domain =
			mem_dup_n(config->preview_domain, strcspn(config->preview_domain, ":"));
	a->config.preview_domain = NULL;
	if (config->admin_key)
		a->admin_key = mem_dup(config->admin_key);
	a->config.admin_key = NULL;
	body_start();
	openapi_write(&a->description);
	if (buf_is_full(&a->description)) {
		api_free(a);
		return err_set(err, EOVERFLOW, "the description of the interface is too long");
	}
	uv_idle_init(config->loop, &a->pump);
	uv_timer_init(config->loop, &a->ping);
	uv_unref((uv_handle_t *)&a->ping);
	a->pump.data = a;
	a->ping.data = a;
	keys_listen(core, on_revoked, a);
	*ret = a;
	return 0;
}

void api_handle(void *api, struct http_exchange *x)
{
	guard_run(request_new(api, x));
}

/* It has not passed the ladder, and would be refused when it did. */
static bool is_incomplete(const struct request *r)
{
	return r->reading && !r->streaming;
}

unsigned api_requests(const struct api *a)
{
	unsigned n = 0;

	for (const struct request *r = a->requests; r; r = r->next)
		n += !is_incomplete(r);
	return n;
}

void api_refuse_incomplete(struct api *a)
{
	for (struct request *r = a->requests, *next; r; r = next) {
		next = r->next;
		if (is_incomplete(r))
			request_fail(r, "stopping", NULL);
	}
}

/* Not in api_close itself: the server may be calling, and its exchanges end here. */
static void handle_closed(uv_handle_t *handle)
{
	struct api *a = handle->data;

	if (--a->handles_open)
		return;
	while (a->requests) {
		struct request *r = a->requests;
		a->requests = r->next;
		give_up(r);
	}
	void (*closed)(void *data) = a->closed;
	void *data = a->closed_data;
	keys_listen(a->core, NULL, NULL);
	api_free(a);
	if (closed)
		closed(data);
}

void api_close(struct api *a, void (*closed)(void *data), void *data)
{
	a->closing = true;
	a->closed = closed;
	a->closed_data = data;
	a->handles_open = 2;
	uv_close((uv_handle_t *)&a->pump, handle_closed);
	uv_close((uv_handle_t *)&a->ping, handle_closed);
}
