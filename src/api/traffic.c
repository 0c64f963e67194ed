// SPDX-License-Identifier: Apache-2.0
#include "api/traffic.h"

#include <assert.h>
#include <stdio.h>

#include "api/route.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"

#define LABELS_MAX 160u
#define LOG_FIELDS_MAX 8u
/* Whatever the answer was, nobody heard it. The number is what nginx uses for that. */
#define GONE 499

/* All that the API answers with; a test compares it with the table of errors. 0: any other. */
static const uint16_t statuses[] = {
	0,   200, 201, 400, 401, 403,  404, 405, 408, 409, 413, 414,
	415, 422, 426, 429, 431, GONE, 500, 501, 502, 503, 505,
};

_Static_assert(ARRAY_SIZE(statuses) <= TRAFFIC_STATUSES_MAX, "fits");

/* From what needs no sandbox to the longest that the API lets anybody wait: a file call is answered
 * in milliseconds, a command has 60 s, an import 200 s, an upload 240 s. */
static const uint32_t bounds_us[] = { 1000,    2500,	 5000,	   10000,     25000,
				      50000,   100000,	 250000,   500000,    1000000,
				      5000000, 15000000, 60000000, 240000000, 0 };

void traffic_init(struct traffic *t)
{
	assert(n_routes < TRAFFIC_ROUTES_MAX);
	*t = (struct traffic){ .seconds = { .bounds_us = bounds_us } };
}

static int status_of(const struct http_answered *a)
{
	return a->gone ? GONE : a->status;
}

static size_t status_index(int status)
{
	for (size_t i = 1; i < ARRAY_SIZE(statuses); i++) {
		if (statuses[i] == status)
			return i;
	}
	return 0;
}

/* "GET /v1/sessions/{session_id}" */
static const char *route_text(unsigned route, char *text, size_t size)
{
	if (!route)
		return "none";
	snprintf(text, size, "%s %s", routes[route - 1].method, routes[route - 1].pattern);
	return text;
}

/* What is off, and a health probe that is told the truth, are no failures. Whether the client was
 * still there makes no difference. */
static bool is_failure(const struct http_answered *a)
{
	return a->status >= 500 && a->status != 501 && a->note.word;
}

static void log_answer(const struct http_answered *a)
{
	char route[LABELS_MAX], outer[LIMIT_OUTER_ID + 1];
	struct log_field fields[LOG_FIELDS_MAX + 1] = {
		LOG_STR("request", a->id),
		LOG_STR("route", route_text(a->note.route, route, sizeof(route))),
		LOG_INT("status", status_of(a)),
		LOG_INT("ms", a->took_us >= 0 ? a->took_us / 1000 : 0),
	};
	size_t n = 4;

	if (a->note.word)
		fields[n++] = LOG_STR("word", a->note.word);
	if (a->note.tenant[0])
		fields[n++] = LOG_STR("tenant", a->note.tenant);
	if (a->note.session[0])
		fields[n++] = LOG_STR("session", a->note.session);
	if (a->outer_id.data) {
		snprintf(outer, sizeof(outer), "%.*s", (int)a->outer_id.len, a->outer_id.data);
		fields[n++] = LOG_STR("proxy_request", outer);
	}
	log_write(is_failure(a) ? LOG_WARN : LOG_DEBUG, "request", fields);
}

void traffic_answered(void *traffic, const struct http_answered *a)
{
	struct traffic *t = traffic;

	t->answers[a->note.route][status_index(status_of(a))]++;
	if (a->took_us >= 0)
		metrics_observe(&t->seconds, a->took_us);
	log_answer(a);
}

static void write_route(const struct traffic *t, unsigned route, struct buf *out)
{
	char text[LABELS_MAX], labels[LABELS_MAX + 32], status[8];

	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
		if (!t->answers[route][i])
			continue;
		snprintf(status, sizeof(status), "%u", statuses[i]);
		snprintf(labels, sizeof(labels), "route=\"%s\",status=\"%s\"",
			 route_text(route, text, sizeof(text)), statuses[i] ? status : "other");
		metrics_sample(out, "airlock_http_requests_total", labels, t->answers[route][i]);
	}
}

void traffic_write(const struct traffic *t, struct buf *out)
{
	metrics_family(
		out, "airlock_http_requests_total", "counter",
		"Answers, by method and route of the request and status; 499: the client had "
		"gone.");
	for (unsigned route = 0; route <= n_routes; route++)
		write_route(t, route, out);
	metrics_histogram_write(out, "airlock_http_request_seconds",
				"From the head of a request to the end of its answer.",
				&t->seconds);
}
