// SPDX-License-Identifier: Apache-2.0
/*
 * client: requests to a server over libcurl: HTTP/1.1, no redirects, the retry rules of retry.h.
 * SANDBOX_API_URL may also be unix:<path>.
 *
 * A failed request fills *err with the server's detail; err->slug is never set, the HTTP status is
 * in client->status (0: no answer). Not thread-safe; one client at a time may be interrupted by a
 * signal (client_interrupt).
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define CLIENT_URL_DEFAULT "http://127.0.0.1:8000"
#define CLIENT_BODY_MAX (1u << 30)
#define CLIENT_SECONDS 90L
#define CLIENT_SLOW_SECONDS 240L /* snapshots, and whatever begins with one */

struct client {
	void *curl;   /* owned; a CURL handle, which keeps the connection */
	char *base;   /* owned; without a final slash */
	char *socket; /* owned; NULL: none */
	char *key;    /* owned; NULL: none */
	char *ca;     /* owned; NULL: the system's */
	bool insecure;
	bool patient; /* the answer must not be lost: the first signal waits for it */
	bool quiet;   /* no word about waiting before a repeated attempt */
	long status;  /* of the last answer */
	/* Borrowed: what a terminal is told, with the seconds, while an answer is awaited. NULL:
	 * nothing. */
	const char *waiting;
};

/* From the environment: SANDBOX_API_URL, SANDBOX_API_KEY, SANDBOX_API_INSECURE, SANDBOX_API_CA. */
int client_open(struct client *c, struct err *err);
/* To a server on a unix socket. */
int client_open_socket(struct client *c, const char *socket, const char *key, struct err *err);
void client_close(struct client *c);

/* One request; body is borrowed and may be NULL. *ret (owned by the caller; may be NULL, then it is
 * dropped) is the JSON object of a 2xx answer. */
int client_call(struct client *c, const char *method, const char *path, const json_t *body,
		json_t **ret, struct err *err);
/* The same with the caller's number of repetitions and seconds for the whole. */
int client_call_with(struct client *c, const char *method, const char *path, const json_t *body,
		     unsigned retries, long seconds, json_t **ret, struct err *err);
/* client_open, one GET, client_close. */
int client_get(const char *path, json_t **ret, struct err *err);
/* Bytes up, bytes down; ret may be NULL. */
int client_raw(struct client *c, const char *method, const char *path, const struct buf *body,
	       struct buf *ret, struct err *err);

/* Bytes between a descriptor and the server, of any number, without holding them. */
struct client_io {
	int in;		  /* body of a PUT; -1: none */
	uint64_t in_size; /* CLIENT_SIZE_UNKNOWN: to its end */
	int out;	  /* where the body of a success goes; -1: nowhere */
	uint64_t moved;	  /* so far, of either; from 0 again when a request is repeated */
	/* Told now and then; whole 0: not known. May be NULL. */
	void (*progress)(void *user, uint64_t moved, uint64_t whole);
	void *user;
};

#define CLIENT_SIZE_UNKNOWN UINT64_MAX

/* Repeated only where both descriptors can go back to their start. */
int client_transfer(struct client *c, const char *method, const char *path, struct client_io *io,
		    struct err *err);

/* POST whose answer comes as server-sent events; each is called for all of them. */
int client_stream(struct client *c, const char *path, const json_t *body,
		  void (*each)(void *user, const char *event, struct str data), void *user,
		  struct err *err);

/* From a signal handler: the request under way, and waits before a retry, end with ECANCELED. The
 * next request is not affected. */
void client_interrupt(void);

/* Percent-encodes for a query or a path segment; the caller frees it. */
char *client_escape(const char *text);
