// SPDX-License-Identifier: Apache-2.0
/*
 * request: one call of the API between its head and its answer, and the ways to answer it.
 *
 * States: CHECKING (the ladder runs) -> WAITING (a handler waits for the core) -> answered.
 * Answering frees the request; whoever answers does not touch it afterwards. When the api closes
 * first, the request becomes an orphan: api is NULL, answers go nowhere, and the callback that it
 * waited for frees it.
 *
 * Invariants
 *  1. A request is in its api's list exactly while api != NULL.
 *  2. session is valid from step 7 until the handler returns, never in a callback.
 *  3. values borrow from body and arena, which live as long as the request.
 *
 * Cache-Control, X-Content-Type-Options and X-Request-Id are the http server's. The sending of long
 * answers is in api/send.h.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "api/answer.h"
#include "api/api.h"
#include "api/body.h"
#include "api/events.h"
#include "api/failures.h"
#include "api/route.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "core/core.h"
#include "core/key.h"
#include "http/server.h"

struct request;

struct api {
	struct api_config config;
	char *preview_domain;	  /* owned; without port */
	struct core *core;	  /* borrowed */
	struct request *requests; /* all that are not answered */
	struct buf scratch;	  /* answers are written here */
	struct buf description;	  /* /openapi.json */
	uv_idle_t pump;		  /* runs while a long answer can go on */
	uv_timer_t ping;	  /* runs while event streams are open */
	char *admin_key;	  /* owned; NULL: there is none */
	struct failures failures; /* of admin keys */
	bool pump_on, ping_on, closing;
	unsigned handles_open;
	void (*closed)(void *data);
	void *closed_data;
};

struct request {
	struct api *api; /* NULL: an orphan */
	struct http_exchange *x;
	struct request *prev, *next;
	unsigned step; /* of the ladder, the next to run */
	struct route_match match;
	struct tenant *tenant;
	const struct key *key; /* a stored one that let it in; it goes when that is revoked */
	struct session *session;
	struct arena arena;
	struct body body;
	struct value values[FIELDS_MAX];

	/* What a handler in flight needs. */
	struct exec *exec;	 /* borrowed from the core until its done */
	struct files_call *file; /* the same */
	struct import *import;	 /* the same */
	char session_id[SESSION_ID_LEN + 1];
	struct events events; /* of exec as an event stream */
	struct answer answer; /* being sent */
	bool reading;	      /* the server reads the body */
	bool streaming;	      /* the body was asked for as a stream */
	bool begun;	      /* bytes are being sent */
	bool parsing;	      /* a thread reads the body */
	bool sending;
	bool pumping; /* goes on at the next turn of the loop */
	uv_work_t work;
	struct str work_text;
};

struct request *request_new(struct api *a, struct http_exchange *x);
void request_free(struct request *r);

/* ---- Answers; each frees the request ---- */

/* 2xx with a JSON object, usually written on the api's scratch buffer. */
void request_reply(struct request *r, int status, struct str json);
/* The same for what must not lie in memory afterwards: the scratch buffer is wiped. */
void request_reply_secret(struct request *r, int status, struct json_out *o);
/* The answer of the contract for that word; text NULL: the row's own. */
void request_fail(struct request *r, const char *slug, const char *text);
void request_failf(struct request *r, const char *slug, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same for an error of the core; what is not in the table is logged and becomes a 500. */
void request_fail_err(struct request *r, const struct err *err);
/* For what the core calls back with: whether there is somebody to tell, and something good. Else it
 * is over with the request. */
bool request_goes_on(struct request *r, const struct err *err);
/* 429 with Retry-After, of a tenant or of those who try admin keys. */
void request_fail_rate(struct request *r, uint32_t wait_s);
/* 422 with the list. */
void request_fail_problems(struct request *r, const struct problems *p);
/* 405 with Allow. */
void request_fail_method(struct request *r);

/* Who asks, for the audit log; lives as long as the request. */
const char *request_actor(struct request *r);

/* An answer of ours on the emptied scratch buffer. */
struct json_out request_json(struct request *r);
