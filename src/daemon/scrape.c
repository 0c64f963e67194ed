// SPDX-License-Identifier: Apache-2.0
#include "daemon/scrape.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/traffic.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "core/core.h"
#include "core/runtime.h"
#include "daemon/stores.h"
#include "egress/decide.h"
#include "http/server.h"

/* Every route with every status would be some 100 KiB. */
#define TEXT_MAX (1u * MIB)
#define CONNECTIONS_MAX 16u
#define GRACE_MS 100

struct scrape {
	struct scrape_sources sources;
	struct http_server *server;
	void (*closed)(void *data);
	void *data;
};

static void write_gauge(struct buf *out, const char *name, const char *help, uint64_t value)
{
	metrics_family(out, name, "gauge", help);
	metrics_sample(out, name, NULL, value);
}

static void write_execs(const struct exec_counts *counts, struct buf *out)
{
	static const char name[] = "airlock_exec_total";
	static const char *const labels[EXEC_OUTCOMES] = {
		[EXEC_OUTCOME_OK] = "outcome=\"ok\"",
		[EXEC_OUTCOME_FAILED] = "outcome=\"failed\"",
		[EXEC_OUTCOME_TIMEOUT] = "outcome=\"timeout\"",
		[EXEC_OUTCOME_OOM] = "outcome=\"oom\"",
	};

	metrics_family(out, name, "counter", "Commands by how they ended.");
	for (size_t i = 0; i < EXEC_OUTCOMES; i++)
		metrics_sample(out, name, labels[i], counts->outcomes[i]);
	metrics_histogram_write(out, "airlock_exec_seconds", "How long commands ran.",
				&counts->seconds);
	metrics_histogram_write(out, "airlock_exec_overhead_seconds",
				"From a command's request to its result, less its own time.",
				&counts->overhead);
}

static void write_egress(const struct runtime *rt, struct buf *out)
{
	static const char name[] = "airlock_egress_events_total";
	char labels[64];

	metrics_family(out, name, "counter", "Attempts of sandboxes to reach something.");
	for (enum egress_code code = EGRESS_OK; code < EGRESS_CODES; code++) {
		snprintf(labels, sizeof(labels), "decision=\"%s\",code=\"%s\"",
			 code == EGRESS_OK ? "allow" : "deny", egress_code_name(code));
		metrics_sample(out, name, labels, runtime_egress_count(rt, code));
	}
}

static void write_all(const struct scrape_sources *s, struct buf *out)
{
	struct runtime_info info;

	runtime_info_get(s->runtime, &info);
	metrics_family(out, "airlock_build_info", "gauge", "1, with the version that runs.");
	metrics_sample(out, "airlock_build_info", "version=\"" AIRLOCK_VERSION "\"", 1);
	write_gauge(out, "airlock_sessions_open", "Open sessions.", session_count(s->core));
	write_gauge(out, "airlock_persistent_open",
		    "Open persistent sessions, which this version does not have.", 0);
	write_gauge(out, "airlock_pool_ready", "Blank sandboxes that wait for a command.",
		    info.pool_ready);
	write_execs(exec_counts_get(s->core), out);
	traffic_write(s->traffic, out);
	write_egress(s->runtime, out);
	metrics_family(out, "airlock_store_errors_total", "counter",
		       "Writes to the databases that failed.");
	metrics_sample(out, "airlock_store_errors_total", NULL, stores_errors(s->stores));
}

static bool is_asked(const struct http_head *head)
{
	bool reads = str_eq(head->method, STR("GET")) || str_eq(head->method, STR("HEAD"));

	return reads && str_eq(head->path, STR("/metrics"));
}

static void handle(void *data, struct http_exchange *x)
{
	const struct scrape *s = data;
	_cleanup_buf_ struct buf text = BUF(TEXT_MAX);
	struct http_reply reply = { .status = 404, .content_type = "text/plain; charset=utf-8" };

	if (is_asked(http_exchange_head(x))) {
		reply.status = 200;
		reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
		write_all(&s->sources, &text);
	} else {
		buf_put_text(&text, "There is nothing here but /metrics.\n");
	}
	http_reply(x, &reply, buf_str(&text));
}

int scrape_open(uv_loop_t *loop, int listen_fd, const struct scrape_sources *sources,
		struct scrape **ret, struct err *err)
{
	struct scrape *s = mem_new(1, sizeof(*s));
	const struct http_config config = {
		.listen_fd = listen_fd,
		.max_connections = CONNECTIONS_MAX,
		.write_max = TEXT_MAX,
		.trusted_proxies = "",
		.handler = handle,
		.data = s,
	};

	s->sources = *sources;
	int r = http_server_open(loop, &config, &s->server, err);
	if (r < 0) {
		free(s);
		return r;
	}
	*ret = s;
	return 0;
}

static void on_closed(void *data)
{
	struct scrape *s = data;
	void (*closed)(void *data) = s->closed;
	void *closed_data = s->data;

	free(s);
	closed(closed_data);
}

void scrape_close(struct scrape *s, void (*closed)(void *data), void *data)
{
	s->closed = closed;
	s->data = data;
	http_server_close(s->server, GRACE_MS, on_closed, s);
}
