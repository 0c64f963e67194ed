// SPDX-License-Identifier: Apache-2.0
/*
 * The ladder. Steps are rows of one table, run in its order; the first that refuses answers, and
 * what a later one would have said stays unknown to the caller. A step may wait for the body; then
 * the ladder goes on where it stopped. Step numbers are those of the contract, section 0.6.
 *
 * "Expect: 100-continue" turns one pair around: the body is asked for only when the session is
 * known to be there, so steps 6 (head and query) and 7 are looked at before the body is read. The
 * clock of the session restarts in step 7 proper, for every request alike.
 *
 * Bodies above WORK_BODY are parsed on the thread pool, so that 64 MiB of JSON stop nobody else.
 */
#include "api/guard.h"

#include <assert.h>
#include <stdio.h>

#include "api/request.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"

#define WORK_BODY (64u * KIB)

enum verdict {
	PASS,
	OVER, /* answered, or somebody else goes on: r must not be touched */
};

/* For the log, in which a name that is cut is better than none. */
#define note_text(to, text) snprintf((to), sizeof(to), "%s", (text))

static struct str host_name(struct str host)
{
	const char *colon = host.len ? memchr(host.data, ':', host.len) : NULL;

	return colon ? (struct str){ host.data, (size_t)(colon - host.data) } : host;
}

/* 2: hosts of the preview domain are tenants' origins; nothing of the API is served there. */
static enum verdict step_preview_host(struct request *r)
{
	struct str host = host_name(http_head_find(http_exchange_head(r->x), "host", NULL));
	struct str domain = str_of(r->api->preview_domain);

	if (!domain.len || host.len < domain.len ||
	    !str_eq_nocase(str_from(host, host.len - domain.len), domain) ||
	    (host.len > domain.len && host.data[host.len - domain.len - 1] != '.'))
		return PASS;
	struct http_reply reply = { .status = 404, .content_type = "text/plain; charset=utf-8" };
	http_reply(r->x, &reply, STR("This preview is not open.\n"));
	request_free(r);
	return OVER;
}

/* 3 */
static enum verdict step_route(struct request *r)
{
	const struct http_head *head = http_exchange_head(r->x);

	route_find(head->method, head->path, &r->arena, &r->match);
	if (r->match.route) {
		http_exchange_note(r->x)->route = (unsigned)(r->match.route - routes) + 1;
		return PASS;
	}
	if (r->match.path_known)
		request_fail_method(r);
	else
		request_fail(r, "not_found", NULL);
	return OVER;
}

/* data NULL: there is none that could be one. */
static struct str sent_key(const struct request *r)
{
	size_t count;
	struct str key = http_head_find(http_exchange_head(r->x), "x-api-key", &count);
	bool ascii = true;

	for (size_t i = 0; i < key.len; i++)
		ascii &= (unsigned char)key.data[i] < 0x80;
	if (count == 1 && key.len && key.len <= LIMIT_KEY && ascii)
		return key;
	return (struct str){ NULL, 0 };
}

static enum verdict check_admin(struct request *r)
{
	struct str want = str_of(r->api->admin_key), key = sent_key(r);
	uint32_t wait_s;

	if (!r->api->admin_key) {
		request_fail(r, "admin_off", NULL);
		return OVER;
	}
	if (key.data && str_eq_secret(key, want))
		return PASS;
	if (failures_take(&r->api->failures, http_exchange_peer(r->x), clock_monotonic_us(),
			  &wait_s))
		request_fail(r, "bad_admin_key", NULL);
	else
		request_fail_rate(r, wait_s);
	return OVER;
}

/* 4 */
static enum verdict step_key(struct request *r)
{
	struct caller who;

	if (r->match.route->caller == CALLER_ANYONE)
		return PASS;
	if (r->match.route->caller == CALLER_ADMIN)
		return check_admin(r);
	struct str key = sent_key(r);
	if (key.data && key_find(r->api->core, key, &who)) {
		r->tenant = who.tenant;
		r->key = who.key;
		note_text(http_exchange_note(r->x)->tenant, who.tenant->name);
		return PASS;
	}
	request_fail(r, "unauthenticated", NULL);
	return OVER;
}

/* 5 */
static enum verdict step_rate(struct request *r)
{
	uint32_t wait_s;

	if (!r->tenant || rate_take(&r->tenant->rate, clock_monotonic_us(), &wait_s))
		return PASS;
	request_fail_rate(r, wait_s);
	return OVER;
}

static bool has_json_type(const struct http_head *head)
{
	struct str type = http_head_find(head, "content-type", NULL), name = { NULL, 0 };
	static const struct str start = { "application/", 12 }, end = { "+json", 5 };

	str_split(&type, ';', &name);
	name = str_trim(name);
	if (!name.len || str_eq_nocase(name, STR("application/json")))
		return true;
	return name.len > start.len + end.len &&
	       str_eq_nocase((struct str){ name.data, start.len }, start) &&
	       str_eq_nocase(str_from(name, name.len - end.len), end);
}

static uint64_t body_max(const struct request *r)
{
	return r->match.route->body == BODY_WRITE ? r->api->config.write_max : LIMIT_JSON_BODY;
}

static enum verdict refuse_upload(struct request *r)
{
	request_failf(r, "upload_too_large", "Upload is larger than the %llu MB limit.",
		      (unsigned long long)(r->api->config.upload_max / MIB));
	return OVER;
}

static enum verdict refuse_body(struct request *r)
{
	request_failf(r, "body_too_large", "Request body is larger than the %llu MB limit.",
		      (unsigned long long)(body_max(r) / MIB));
	return OVER;
}

static enum verdict session_refused(struct request *r, const struct session *s)
{
	bool removes = r->match.route->target == TARGET_REMOVE;

	if (!s)
		request_fail(r, "session_not_found",
			     removes ? "Session not found" : "Session not found or expired");
	else
		request_fail(r, "not_your_session",
			     removes ? "Forbidden" : "Forbidden: Access denied to this session");
	return OVER;
}

/* The session of the path, when the caller may use it. */
static enum verdict find_session(struct request *r)
{
	struct session *s;

	if (r->match.route->target == TARGET_NONE)
		return PASS;
	s = session_find(r->api->core, r->match.params[0]);
	if (!s || s->tenant != r->tenant)
		return session_refused(r, s);
	r->session = s;
	note_text(http_exchange_note(r->x)->session, s->id);
	return PASS;
}

/* The fields, once the body is there as far as the route wants one. */
static enum verdict check_fields(struct request *r)
{
	const struct route *route = r->match.route;
	struct problems problems;

	problems_init(&problems, route->secret);
	field_check_path(route->fields, route->n_fields, r->match.params[1], r->values, &problems);
	field_check_query(route->fields, route->n_fields, http_exchange_head(r->x)->query,
			  &r->arena, r->values, &problems);
	if (route->body == BODY_JSON || route->body == BODY_WRITE)
		field_check_body(route->fields, route->n_fields, &r->body, r->values, &problems);
	bool ok = !problems.count;
	if (!ok)
		request_fail_problems(r, &problems);
	problems_fini(&problems);
	return ok ? PASS : OVER;
}

static void go_on(struct request *r)
{
	if (check_fields(r) == PASS)
		guard_run(r);
}

static void parse(uv_work_t *work)
{
	struct request *r = work->data;

	body_parse(r->work_text, &r->body);
}

static void parsed(uv_work_t *work, int status)
{
	struct request *r = work->data;

	/* Never cancelled: status is 0. An orphan has nobody to answer. */
	assert(!status);
	r->parsing = false;
	if (r->api) {
		go_on(r);
		return;
	}
	http_abort(r->x);
	request_free(r);
}

static void body_done(void *data, struct http_exchange *x, int status, struct str body)
{
	struct request *r = data;

	r->reading = false;
	if (status) {
		if (status == 413)
			refuse_body(r);
		else
			request_fail(r, "busy", NULL);
	} else if (body.len && !has_json_type(http_exchange_head(x))) {
		request_fail(r, "bad_content_type", NULL);
	} else if (body.len > WORK_BODY) {
		r->work.data = r;
		r->work_text = body;
		r->parsing = true;
		uv_queue_work(r->api->config.loop, &r->work, parse, parsed);
	} else {
		body_parse(body, &r->body);
		go_on(r);
	}
}

static void body_gone(void *data)
{
	request_free(data);
}

/* 6, first half: what the head tells about the body. */
static enum verdict step_body(struct request *r)
{
	const struct http_head *head = http_exchange_head(r->x);
	bool sent = head->has_body && (head->chunked || head->content_length);

	if (r->match.route->body == BODY_BYTES)
		return head->content_length > r->api->config.upload_max ? refuse_upload(r)
									: check_fields(r);
	if (r->match.route->body == BODY_NONE || !sent) {
		if (r->match.route->body != BODY_NONE)
			body_parse(STR(""), &r->body);
		return check_fields(r);
	}
	if (head->content_length > body_max(r))
		return refuse_body(r);
	if (!head->chunked && !has_json_type(head)) {
		request_fail(r, "bad_content_type", NULL);
		return OVER;
	}
	if (http_head_find(head, "expect", NULL).data && find_session(r) == OVER)
		return OVER;
	r->reading = true;
	http_body_read(r->x, &(struct http_body_want){ .max = body_max(r),
						       .account = r->tenant ? r->tenant->number : 0,
						       .fn = body_done,
						       .gone = body_gone,
						       .data = r });
	return OVER;
}

/* 7 */
static enum verdict step_session(struct request *r)
{
	if (find_session(r) == OVER)
		return OVER;
	if (r->match.route->target == TARGET_USE)
		session_touch(r->api->core, r->session);
	return PASS;
}

/* 8 */
static enum verdict step_feature(struct request *r)
{
	const struct route *route = r->match.route;
	const char *off = route->feature_off ? route->feature_off(r) : NULL;

	if (!off)
		return PASS;
	request_fail(r, off, NULL);
	return OVER;
}

/* 9 */
static enum verdict step_limits(struct request *r)
{
	const struct route *route = r->match.route;

	if (route->limit && !route->limit(r))
		return OVER;
	if (route->caller == CALLER_ANYONE || !core_is_stopping(r->api->core))
		return PASS;
	request_fail(r, "stopping", NULL);
	return OVER;
}

/* 10 */
static enum verdict step_operation(struct request *r)
{
	struct core *c = r->api->core;

	assert(r->match.route->handle);
	core_on_behalf(c, http_exchange_id(r->x));
	r->match.route->handle(r);
	core_on_behalf(c, "");
	return OVER;
}

static const struct step {
	const char *name;
	enum verdict (*run)(struct request *r);
} steps[] = {
	{ "preview host", step_preview_host },
	{ "route and method", step_route },
	{ "key", step_key },
	{ "request rate", step_rate },
	{ "body, fields, query", step_body },
	{ "session", step_session },
	{ "feature", step_feature },
	{ "limits and capacity", step_limits },
	{ "operation", step_operation },
};

void guard_run(struct request *r)
{
	for (;;) {
		assert(r->step < ARRAY_SIZE(steps));
		if (steps[r->step++].run(r) == OVER)
			return;
	}
}
