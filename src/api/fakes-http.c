// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/fakes.h"

#include <stdio.h>

#define ANSWER_MAX (256u * 1024 * 1024)

void fake_request(struct http_exchange *x, const char *method, const char *target,
		  const char *const *headers, struct str body)
{
	struct str all = str_of(target), path;

	*x = (struct http_exchange){ .answer = BUF(ANSWER_MAX),
				     .fields = BUF(4096),
				     .queue_room = { .max = SIZE_MAX } };
	x->head.method = str_of(method);
	x->head.target = all;
	str_split(&all, '?', &path);
	x->head.path = path;
	x->head.query = all;
	x->head.headers = x->headers;
	for (; headers && *headers; headers++) {
		struct str value = str_of(*headers), name;
		str_split(&value, ':', &name);
		x->headers[x->head.n_headers++] = (struct http_header){ name, str_trim(value) };
	}
	x->body = body;
	x->head.has_body = body.data != NULL;
	x->head.content_length = body.len;
}

void fake_exchange_fini(struct http_exchange *x)
{
	buf_fini(&x->answer);
	buf_fini(&x->fields);
}

void fake_body(struct http_exchange *x)
{
	struct http_body_want want = x->want;

	assert_true(x->wants_body);
	x->wants_body = false;
	if (x->body.len > want.max)
		want.fn(want.data, x, 413, STR(""));
	else
		want.fn(want.data, x, 0, x->body);
}

void fake_piece(struct http_exchange *x, struct str bytes)
{
	assert_true(x->streams && !x->paused);
	x->paused = !x->flow.piece(x->flow.data, bytes);
}

void fake_body_end(struct http_exchange *x, int status)
{
	assert_true(x->streams && !x->paused);
	x->streams = false;
	x->flow.end(x->flow.data, status);
}

void fake_drain(struct http_exchange *x)
{
	void (*drained)(void *data) = x->drained;

	x->unread = 0;
	x->drained = NULL;
	if (drained)
		drained(x->drained_data);
}

json_t *fake_json(struct http_exchange *x)
{
	json_error_t error;
	json_t *json = json_loadb(x->answer.data ? x->answer.data : "", x->answer.len,
				  JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);

	if (!json)
		fail_msg("%s in: %.300s", error.text, x->answer.data);
	return json;
}

bool fake_has_field(struct http_exchange *x, const char *line)
{
	return x->fields.data && strstr(x->fields.data, line);
}

struct str http_head_find(const struct http_head *head, const char *name, size_t *ret_count)
{
	struct str found = { NULL, 0 };
	size_t n = 0;

	for (size_t i = 0; i < head->n_headers; i++) {
		if (!str_eq_nocase(head->headers[i].name, str_of(name)))
			continue;
		if (!n++)
			found = head->headers[i].value;
	}
	if (ret_count)
		*ret_count = n;
	return found;
}

const struct http_head *http_exchange_head(const struct http_exchange *x)
{
	return &x->head;
}

const char *http_exchange_id(const struct http_exchange *x)
{
	return "req_0000000000000000";
}

struct http_note *http_exchange_note(struct http_exchange *x)
{
	return &x->note;
}

bool http_exchange_is_gone(const struct http_exchange *x)
{
	return x->gone;
}

void http_body_read(struct http_exchange *x, const struct http_body_want *want)
{
	assert_false(x->wants_body || x->begun);
	x->want = *want;
	x->wants_body = true;
}

void http_body_stream(struct http_exchange *x, const struct http_body_flow *flow)
{
	assert_false(x->streams || x->begun);
	x->flow = *flow;
	x->streams = true;
}

void http_body_resume(struct http_exchange *x)
{
	assert_true(x->streams);
	x->paused = false;
}

void http_begin(struct http_exchange *x, const struct http_reply *reply, int64_t length)
{
	assert_false(x->begun);
	x->begun = true;
	x->streams = false;
	x->status = reply->status;
	x->length = length;
	x->close = reply->close;
	x->refused_key = reply->refused_key;
	if (reply->content_type)
		snprintf(x->type, sizeof(x->type), "%s", reply->content_type);
	for (size_t i = 0; i < reply->n_headers; i++) {
		const struct http_header *h = &reply->headers[i];
		buf_put_str(&x->fields, h->name);
		buf_put_text(&x->fields, ": ");
		buf_put_str(&x->fields, h->value);
		buf_put_char(&x->fields, '\n');
	}
}

bool http_write(struct http_exchange *x, struct str bytes)
{
	assert_true(x->begun && !x->ended && !x->aborted);
	buf_put_str(&x->answer, bytes);
	x->unread += bytes.len;
	return x->unread <= x->queue_room.max;
}

void http_on_drained(struct http_exchange *x, void (*drained)(void *data), void *data)
{
	assert_true(x->unread > x->queue_room.max);
	x->drained = drained;
	x->drained_data = data;
}

void http_on_hangup(struct http_exchange *x, void (*hung_up)(void *data), void *data)
{
	x->hung_up = hung_up;
	x->hung_up_data = data;
}

void http_end(struct http_exchange *x)
{
	assert_true(x->begun && !x->ended && !x->aborted);
	x->ended = true;
}

void http_abort(struct http_exchange *x)
{
	assert_false(x->ended || x->aborted);
	x->aborted = true;
	x->drained = NULL;
}

void http_reply(struct http_exchange *x, const struct http_reply *reply, struct str body)
{
	http_begin(x, reply, (int64_t)body.len);
	buf_put_str(&x->answer, body);
	x->ended = true;
}

const char *http_exchange_peer(const struct http_exchange *x)
{
	return "192.0.2.1";
}
