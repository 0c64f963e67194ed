// SPDX-License-Identifier: Apache-2.0
/*
 * api: the REST interface, from a framed request to a framed answer. Used by airlockd, loop thread.
 *
 * One table of routes (routes.c) says what exists; from it come routing, the 405s and the
 * description at /openapi.json. Every request walks the same ladder of checks (guard.c) and then
 * its handler. A handler answers exactly once, at once or when the core calls back.
 *
 * The http server and the core outlive the api: close the server first, then the api, then the
 * core.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"

struct api;
struct core;
struct http_exchange;

struct api_config {
	uv_loop_t *loop;	    /* borrowed */
	uint64_t write_max;	    /* SANDBOX_WRITE_MAX_MB in bytes: body of /write */
	uint64_t upload_max;	    /* SANDBOX_UPLOAD_MAX_MB in bytes */
	const char *preview_domain; /* NULL: none; copied */
	const char *egress_log_dir; /* NULL: none; borrowed */
	const char *admin_key;	    /* SANDBOX_ADMIN_KEY; NULL: no admin calls; copied */
	int64_t audit_days;	    /* SANDBOX_AUDIT_RETENTION_DAYS */
	bool snapshots;		    /* SANDBOX_SNAPSHOTS */
	int64_t snapshot_days;	    /* SANDBOX_SNAPSHOT_RETENTION_DAYS */
	/* Writes of the store that failed since the start; NULL: nobody counts. */
	uint64_t (*store_errors)(void *data);
	bool (*store_fails)(void *data); /* the last write did; with store_errors */
	void *store_data;
};

int api_open(const struct api_config *config, struct core *core, struct api **ret, struct err *err);
/* The handler of the http server (http_handler_fn); api is the struct api. */
void api_handle(void *api, struct http_exchange *x);
/* That are not answered, or whose answer is still being sent. Not those whose body is still coming,
 * unless it is that of an upload. */
unsigned api_requests(const struct api *a);
/* Those others are answered "stopping". */
void api_refuse_incomplete(struct api *a);
/* Requests that still wait for the core are given up before closed comes; closed comes on the loop,
 * never before the call has returned. */
void api_close(struct api *a, void (*closed)(void *data), void *data);
