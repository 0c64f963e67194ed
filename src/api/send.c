// SPDX-License-Identifier: Apache-2.0
#include "api/send.h"

#include "api/request.h"
#include "base/log.h"

#define PART (64u * 1024)
/* Parts in one turn of the loop. */
#define TURN 8

static struct buf *empty_scratch(struct request *r)
{
	buf_clear(&r->api->scratch);
	return &r->api->scratch;
}

static void fail(struct request *r, const struct err *err)
{
	log_event(LOG_ERROR, "answer_broken", LOG_STR("request", http_exchange_id(r->x)),
		  LOG_STR("why", err->text));
	http_abort(r->x);
	request_free(r);
}

static void wait_for_turn(struct request *r)
{
	r->pumping = true;
	if (!r->api->pump_on)
		uv_idle_start(&r->api->pump, send_pump);
	r->api->pump_on = true;
}

static void drained(void *data)
{
	struct request *r = data;

	if (r->api)
		send_rest(r);
}

void send_rest(struct request *r)
{
	struct err err;
	int more = 1;

	r->sending = true;
	for (unsigned i = 0; more > 0; i++) {
		if (http_exchange_is_gone(r->x) || r->api->closing) {
			http_abort(r->x);
			request_free(r);
			return;
		}
		if (i == TURN) {
			wait_for_turn(r);
			return;
		}
		struct buf *out = empty_scratch(r);
		more = answer_encode(&r->answer, out, PART, &err);
		if (more < 0) {
			fail(r, &err);
			return;
		}
		if (!http_write(r->x, buf_str(out)) && more) {
			http_on_drained(r->x, drained, r);
			return;
		}
	}
	http_end(r->x);
	request_free(r);
}

void send_pump(uv_idle_t *idle)
{
	struct api *a = idle->data;
	bool any = false;

	for (struct request *r = a->requests, *next; r; r = next) {
		next = r->next;
		if (!r->pumping)
			continue;
		r->pumping = false;
		send_rest(r);
	}
	for (struct request *r = a->requests; r; r = r->next)
		any |= r->pumping;
	a->pump_on = any;
	if (!any)
		uv_idle_stop(idle);
}

void send_answer(struct request *r)
{
	struct err err;

	if (r->answer.raw > SEND_SHORT) {
		struct http_reply reply = { .status = 200, .content_type = "application/json" };
		http_begin(r->x, &reply, -1);
		send_rest(r);
		return;
	}
	struct buf *out = empty_scratch(r);
	if (answer_encode(&r->answer, out, SIZE_MAX, &err) < 0) {
		request_fail_err(r, &err);
		return;
	}
	request_reply(r, 200, buf_str(out));
}
