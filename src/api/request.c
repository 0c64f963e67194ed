// SPDX-License-Identifier: Apache-2.0
#include "api/request.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/error.h"
#include "api/json-out.h"
#include "base/log.h"
#include "base/mem.h"
#include "http/status.h"

/* The scratch buffer gives its memory back above this. */
#define SCRATCH_KEEP (256u * 1024)
/* Two lists of 2,000 characters, escaped. */
#define DETAIL_MAX (64u * 1024)

struct request *request_new(struct api *a, struct http_exchange *x)
{
	struct request *r = mem_new(1, sizeof(*r));

	r->api = a;
	r->x = x;
	r->next = a->requests;
	if (r->next)
		r->next->prev = r;
	a->requests = r;
	return r;
}

void request_free(struct request *r)
{
	struct api *a = r->api;

	if (a) {
		*(r->prev ? &r->prev->next : &a->requests) = r->next;
		if (r->next)
			r->next->prev = r->prev;
		if (a->scratch.cap > SCRATCH_KEEP)
			buf_release(&a->scratch);
	}
	answer_fini(&r->answer);
	events_fini(&r->events);
	body_fini(&r->body);
	arena_fini(&r->arena);
	free(r);
}

const char *request_actor(struct request *r)
{
	char *actor = arena_alloc(&r->arena, KEY_ACTOR_MAX);

	caller_actor(&(struct caller){ r->tenant, r->key }, actor);
	return actor;
}

struct json_out request_json(struct request *r)
{
	buf_clear(&r->api->scratch);
	return JSON_OUT(&r->api->scratch);
}

void request_reply(struct request *r, int status, struct str json)
{
	struct err full;

	/* Half an object is no answer. */
	if (buf_is_full(&r->api->scratch)) {
		err_set(&full, EOVERFLOW, "the answer is too long");
		request_fail_err(r, &full);
		return;
	}
	struct http_reply reply = { .status = status, .content_type = "application/json" };

	http_reply(r->x, &reply, json);
	request_free(r);
}

void request_reply_secret(struct request *r, int status, struct json_out *o)
{
	struct buf *scratch = &r->api->scratch;

	request_reply(r, status, buf_str(o->buf));
	explicit_bzero(scratch->data, scratch->cap);
	buf_clear(scratch);
}

/* extra.name.data == NULL: no header more than the usual. detail is JSON text. */
static void reply_error(struct request *r, const struct error_row *row, struct str detail,
			struct http_header extra)
{
	struct http_header headers[2];
	struct http_reply reply = { .status = row->status,
				    .content_type = "application/json",
				    .headers = headers,
				    .close = row->close,
				    .refused_key = row->status == 401 };
	char seconds[16];

	if (row->retry_after) {
		snprintf(seconds, sizeof(seconds), "%u", row->retry_after);
		headers[reply.n_headers++] =
			(struct http_header){ STR("Retry-After"), str_of(seconds) };
	}
	if (extra.name.data)
		headers[reply.n_headers++] = extra;
	http_exchange_note(r->x)->word = row->slug;
	struct json_out o = request_json(r);
	buf_put_text(o.buf, "{\"detail\":");
	buf_put_str(o.buf, detail);
	o.more = true;
	json_out_text(&o, "code", row->slug);
	json_out_end_object(&o);
	http_reply(r->x, &reply, buf_str(o.buf));
	request_free(r);
}

static void reply_text_error(struct request *r, const struct error_row *row, const char *text,
			     struct http_header extra)
{
	_cleanup_buf_ struct buf detail = BUF(DETAIL_MAX);
	struct json_out o = JSON_OUT(&detail);

	json_out_text(&o, NULL, text);
	reply_error(r, row, buf_str(&detail), extra);
}

#define NO_EXTRA ((struct http_header){ { NULL, 0 }, { NULL, 0 } })

void request_fail(struct request *r, const char *slug, const char *text)
{
	const struct error_row *row = error_find(slug);

	if (row->text && (!text || !*text || row == error_rows))
		text = row->text;
	reply_text_error(r, row, text && *text ? text : http_status_name(row->status), NO_EXTRA);
}

void request_failf(struct request *r, const char *slug, const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	int n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		abort();
	request_fail(r, slug, text);
}

void request_fail_err(struct request *r, const struct err *err)
{
	/* "internal" was logged by whoever said so. */
	if (!err->slug || (error_find(err->slug) == error_rows && strcmp(err->slug, "internal")))
		log_event(LOG_ERROR, "request_failed", LOG_STR("request", http_exchange_id(r->x)),
			  LOG_STR("word", err->slug ? err->slug : "none"),
			  LOG_INT("errno", err->code), LOG_STR("why", err->text));
	request_fail(r, err->slug, err->text);
}

bool request_goes_on(struct request *r, const struct err *err)
{
	if (!r->api)
		request_free(r);
	else if (err)
		request_fail_err(r, err);
	else
		return true;
	return false;
}

void request_fail_rate(struct request *r, uint32_t wait_s)
{
	char text[128], seconds[16];

	snprintf(seconds, sizeof(seconds), "%u", wait_s);
	if (r->tenant)
		snprintf(text, sizeof(text),
			 "Rate limit of %u requests per minute exceeded; retry in %u s.",
			 r->tenant->limits.requests_per_minute, wait_s);
	else
		snprintf(text, sizeof(text), "Too many wrong admin keys; retry in %u s.", wait_s);
	reply_text_error(r, error_find("rate_limited"), text,
			 (struct http_header){ STR("Retry-After"), str_of(seconds) });
}

void request_fail_problems(struct request *r, const struct problems *p)
{
	_cleanup_buf_ struct buf detail = BUF(p->buf.len + 2);

	buf_put_char(&detail, '[');
	buf_put_str(&detail, buf_str(&p->buf));
	buf_put_char(&detail, ']');
	reply_error(r, error_find("invalid_request"), buf_str(&detail), NO_EXTRA);
}

void request_fail_method(struct request *r)
{
	_cleanup_buf_ struct buf allow = BUF(256);
	const struct error_row *row = error_find("method_not_allowed");

	route_methods(http_exchange_head(r->x)->path, &r->arena, &allow);
	reply_text_error(r, row, row->text, (struct http_header){ STR("Allow"), buf_str(&allow) });
}
