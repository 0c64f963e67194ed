// SPDX-License-Identifier: Apache-2.0
/*
 * The log of a session: asks the gateway for the tunnels that are open, then lets a thread read the
 * file, then answers. What the thread needs is copied, so the session may end meanwhile.
 */
#include <stdlib.h>

#include "api/egress-log.h"
#include "api/handlers.h"
#include "api/json-out.h"
#include "api/request.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

/* A thousand events with the longest texts that a line has room for. */
#define EVENTS_MAX (32u * 1024 * 1024)

struct log_read {
	struct request *r; /* waits for us, or an orphan */
	uv_work_t work;
	struct egress_log_query query;
	char *path, *tenant; /* owned */
	char session[SESSION_ID_LEN + 1];
	struct runtime_live *live; /* owned */
	struct buf events;
	size_t skipped;
	struct err err; /* code 0: read */
};

static void log_read_free(struct log_read *l)
{
	buf_fini(&l->events);
	free(l->live);
	free(l->tenant);
	free(l->path);
	free(l);
}

static void answer(struct request *r, struct str session, struct str events)
{
	struct json_out o = request_json(r);

	json_out_object(&o, NULL);
	json_out_str(&o, "session_id", session);
	buf_put_text(o.buf, ",\"events\":");
	buf_put_str(o.buf, events);
	json_out_end_object(&o);
	request_reply(r, 200, buf_str(o.buf));
}

static void read_log(uv_work_t *work)
{
	struct log_read *l = container_of(work, struct log_read, work);

	if (egress_log_read(&l->query, &l->events, &l->skipped, &l->err) >= 0)
		l->err.code = 0;
}

static void was_read(uv_work_t *work, int status)
{
	struct log_read *l = container_of(work, struct log_read, work);
	struct request *r = l->r;

	if (l->skipped)
		log_event(LOG_WARN, "egress_log_lines_skipped", LOG_STR("session", l->session),
			  LOG_INT("lines", l->skipped));
	if (!r->api)
		request_free(r);
	else if (l->err.code)
		request_fail_err(r, &l->err);
	else
		answer(r, str_of(l->session), buf_str(&l->events));
	log_read_free(l);
}

static void on_live(void *data, const struct runtime_live *live, size_t n)
{
	struct log_read *l = data;
	struct request *r = l->r;

	if (!r->api) {
		request_free(r);
		log_read_free(l);
		return;
	}
	l->query.answered = live != NULL;
	if (live && n) {
		l->live = mem_new(n, sizeof(*live));
		memcpy(l->live, live, n * sizeof(*live));
		l->query.live = l->live;
		l->query.n_live = n;
	}
	uv_queue_work(r->api->config.loop, &l->work, read_log, was_read);
}

void handle_egress_log(struct request *r)
{
	const struct session *s = r->session;
	const char *dir = r->api->config.egress_log_dir;

	/* Without egress nothing is reachable and nothing is logged. */
	if (!s->egress.n || !dir) {
		answer(r, str_of(s->id), STR("[]"));
		return;
	}
	struct log_read *l = mem_new(1, sizeof(*l));
	l->r = r;
	l->events = BUF(EVENTS_MAX);
	memcpy(l->session, s->id, sizeof(l->session));
	l->path = mem_printf("%s/%s.jsonl", dir, s->id);
	l->tenant = mem_dup(s->tenant->name);
	l->query = (struct egress_log_query){
		.path = l->path,
		.session = l->session,
		.tenant = l->tenant,
		.limit = (size_t)r->values[EGRESS_LOG_LIMIT].number,
		.asked_ms = clock_wall_us() / 1000,
	};
	session_egress_live(r->api->core, r->session, on_live, l);
}
