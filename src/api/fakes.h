// SPDX-License-Identifier: Apache-2.0
/*
 * fakes: an http server and a core for the unit tests of this folder, without sockets, sandboxes or
 * a store. A test sends a request, sees what the core was asked, answers for the core, and looks at
 * the answer. Tenants "a" (key "key-a") and "b" ("key-b"), ten requests a minute each.
 */
#pragma once

#include <jansson.h>

#include "api/api.h"
#include "core/audit.h"
#include "core/core.h"
#include "core/key.h"
#include "core/snapshot.h"
#include "http/server.h"

#ifndef FAKES_CORE_ONLY

/* ---- What http/server.h promises ---- */

struct http_exchange {
	struct http_head head;
	struct http_header headers[16];
	struct str body;
	struct http_body_want want;
	bool wants_body; /* http_body_read was called and is not answered yet */
	struct http_body_flow flow;
	bool streams; /* http_body_stream was called and is not answered yet */
	bool paused;
	bool gone;
	struct buf queue_room; /* not used for bytes: max is what http_write takes before false */
	size_t unread;	       /* bytes that the client has not read */
	void (*drained)(void *data);
	void *drained_data;
	void (*hung_up)(void *data);
	void *hung_up_data;
	struct http_note note;
	/* The answer */
	bool begun, ended, aborted;
	int status;
	char type[64];
	int64_t length;
	bool close, refused_key;
	struct buf fields; /* "Name: value\n" ... */
	struct buf answer;
};

/* headers: "Name: value" strings, NULL at the end. */
void fake_request(struct http_exchange *x, const char *method, const char *target,
		  const char *const *headers, struct str body);
void fake_exchange_fini(struct http_exchange *x);
/* Gives the body to whoever asked for it. */
void fake_body(struct http_exchange *x);
/* Gives a piece of the body to whoever streams it. */
void fake_piece(struct http_exchange *x, struct str bytes);
/* The end of it. */
void fake_body_end(struct http_exchange *x, int status);
/* The client reads everything that waits. */
void fake_drain(struct http_exchange *x);
/* The answer as JSON; fails the test when it is none. */
json_t *fake_json(struct http_exchange *x);
bool fake_has_field(struct http_exchange *x, const char *line);

#endif

/* ---- What core/core.h promises ---- */

struct runtime_output {
	char *data;
	size_t size, head;
	uint64_t dropped;
	bool broken; /* cannot be read */
};

/* data is copied. */
struct runtime_output *fake_output(struct str data, uint64_t head, uint64_t dropped);

struct fake_core {
	struct core_config config;
	struct tenant a, b;
	struct session session; /* "sbx_0123456789ab" of a, while has_session */
	bool has_session, stopping, starting;
	bool builds_fail, silent, store_fails;
	uint64_t store_errors;
	unsigned lost_volumes, gateway_restarts;
	bool gateway_missing;
	enum core_room room;
	char request[24];      /* on whose behalf calls are made now */
	char exec_request[24]; /* and the last command was */
	unsigned lookups;      /* of sessions */
	unsigned touches;
	/* The last call */
	session_fn session_done;
	runtime_stat_fn stat_done;
	runtime_live_fn live_done;
	struct session_params create;
	char create_template[64];
	struct exec_ops exec_ops;
	struct exec_params exec;
	char command[256];
	bool exec_fails, exec_detached;
	unsigned execs;
	files_read_fn read_done;
	files_write_fn write_done;
	char path[256];
	struct str content;
	struct files_upload_ops upload;
	uint64_t upload_size;
	bool upload_full; /* files_give says false from now on */
	bool upload_ended;
	struct buf uploaded;
	struct files_download_ops download;
	bool archives; /* it was files_archive */
	unsigned resumed;
	files_list_fn list_done;
	files_change_fn change_done;
	char second[256]; /* of a move, cursor of a list */
	uint32_t depth;
	bool flag; /* recursive, replace */
	bool file_detached;
	import_fn import_done;
	struct import_params import;
	struct err import_refusal; /* code 0: it begins */
	bool import_detached;
	struct snapshot snapshot; /* "snap_0123456789abcdef" of a, while has_snapshot */
	bool has_snapshot, snapshots_full;
	snapshot_fn snapshot_done;
	fork_fn fork_done;
	struct key key; /* "key-stored" of a, while has_key */
	bool has_key;
	key_issued_fn key_issued; /* path and name have what was asked */
	key_fn key_revoked;
	void (*on_revoked)(void *data, const struct key *key);
	void *revoked_data;
	bool exec_killed;
	char actor[128];
	bool has_audit;
	int64_t audit_before_us;
	uint32_t audit_before_id;
	size_t audit_limit;
	store_audit_page_fn audit_done;
	bool named;	/* the snapshot was given a name */
	char name[128]; /* that name; or the id that was asked for */
	unsigned fork_count;
	void *data;
	unsigned outputs; /* that are not freed yet */
	uint32_t posture;
	struct egress_list policy; /* of tenant a */
};

extern struct fake_core fake;

void fake_reset(void);
