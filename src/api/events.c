// SPDX-License-Identifier: Apache-2.0
#include "api/events.h"

#include <inttypes.h>

#include "api/json-out.h"
#include "api/request.h"
#include "api/send.h"
#include "base/clock.h"

#define PING_MS 15000
#define WAITING_MAX (256u * 1024)
/* Bytes of output in one event at most, before repair and escape. */
#define EVENT_RAW 16384u
#define EVENT_FIXED (EVENT_RAW * 3 + 16)
#define EVENT_MAX (EVENT_RAW * 6 + 256)

static const char *const names[] = { [RUNTIME_STDOUT] = "stdout", [RUNTIME_STDERR] = "stderr" };

bool events_accepted(struct str accept)
{
	struct str part;
	bool events = false, json = false;

	while (str_split(&accept, ',', &part)) {
		struct str type = { NULL, 0 };
		str_split(&part, ';', &type);
		type = str_trim(type);
		events |= str_eq_nocase(type, STR("text/event-stream"));
		json |= str_eq_nocase(type, STR("application/json"));
	}
	return events && !json;
}

void events_fini(struct events *e)
{
	buf_fini(&e->waiting);
}

static void drained(void *data);

static void write_now(struct request *r, struct str text)
{
	if (http_write(r->x, text))
		return;
	r->events.blocked = true;
	http_on_drained(r->x, drained, r);
}

/* One whole event on out, when text has something in it. */
static void put_event(struct buf *out, enum runtime_stream stream, struct str text)
{
	if (!text.len)
		return;
	buf_printf(out, "event: %s\ndata: {\"text\":\"", names[stream]);
	json_escape(out, text);
	buf_put_text(out, "\"}\n\n");
}

/* What was left out, and the end of a character that was being waited for. */
static void put_dropped(struct events *e, struct buf *out)
{
	for (unsigned i = 0; i < 2; i++) {
		_cleanup_buf_ struct buf text = BUF(128);
		if (!e->dropped[i])
			continue;
		utf8_fix_end(&e->fix[i], &text);
		buf_printf(&text, "\n[... %" PRIu64 " bytes dropped ...]\n", e->dropped[i]);
		put_event(out, i, buf_str(&text));
		e->dropped[i] = 0;
	}
}

static void drained(void *data)
{
	struct request *r = data;
	struct events *e = &r->events;

	if (!r->api)
		return;
	e->blocked = false;
	put_dropped(e, &e->waiting);
	if (e->waiting.len) {
		_cleanup_buf_ struct buf text = e->waiting;
		e->waiting = BUF(text.max);
		write_now(r, buf_str(&text));
	}
	if (e->finished && !e->blocked)
		send_rest(r);
}

void events_start(struct request *r)
{
	/* Proxies that gather answers would hold the events back. */
	static const struct http_header direct = { { "X-Accel-Buffering", 17 }, { "no", 2 } };
	struct http_reply reply = { .status = 200,
				    .content_type = "text/event-stream",
				    .headers = &direct,
				    .n_headers = 1 };
	struct api *a = r->api;

	r->events.open = true;
	/* Room for what was dropped comes on top, see put_dropped. */
	r->events.waiting = BUF(WAITING_MAX + 1024);
	r->events.ping_at_ms = clock_monotonic_ms() + PING_MS;
	http_begin(r->x, &reply, -1);
	if (!a->ping_on && !a->closing)
		uv_timer_start(&a->ping, events_ping, 1000, 1000);
	a->ping_on = true;
}

/* Finished events on text: to the client, or among those that wait for it. */
static bool put_events(struct request *r, struct str text)
{
	struct events *e = &r->events;

	if (!e->blocked)
		write_now(r, text);
	else if (e->waiting.len + text.len <= WAITING_MAX)
		buf_put_str(&e->waiting, text);
	else
		return false;
	return true;
}

void events_output(struct request *r, enum runtime_stream stream, struct str bytes)
{
	struct events *e = &r->events;

	while (bytes.len && e->open) {
		struct str part = { bytes.data, bytes.len < EVENT_RAW ? bytes.len : EVENT_RAW };
		bytes = str_from(bytes, part.len);
		if (e->dropped[0] || e->dropped[1]) {
			e->dropped[stream] += part.len;
			continue;
		}
		_cleanup_buf_ struct buf fixed = BUF(EVENT_FIXED), event = BUF(EVENT_MAX);
		utf8_fix_put(&e->fix[stream], part, &fixed);
		put_event(&event, stream, buf_str(&fixed));
		if (!put_events(r, buf_str(&event)))
			e->dropped[stream] += part.len;
	}
}

void events_finish(struct request *r)
{
	struct events *e = &r->events;

	e->finished = true;
	for (unsigned i = 0; i < 2; i++) {
		_cleanup_buf_ struct buf fixed = BUF(16), event = BUF(128);
		utf8_fix_end(&e->fix[i], &fixed);
		put_event(&event, i, buf_str(&fixed));
		if (event.len)
			put_events(r, buf_str(&event));
	}
	if (!e->blocked)
		send_rest(r);
}

void events_ping(uv_timer_t *timer)
{
	struct api *a = timer->data;
	int64_t now = clock_monotonic_ms();
	bool any = false;

	for (struct request *r = a->requests; r; r = r->next) {
		struct events *e = &r->events;
		if (!e->open || e->finished)
			continue;
		any = true;
		if (now < e->ping_at_ms)
			continue;
		e->ping_at_ms = now + PING_MS;
		if (!e->blocked)
			write_now(r, STR(": ping\n\n"));
	}
	a->ping_on = any;
	if (!any)
		uv_timer_stop(timer);
}
