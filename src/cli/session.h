// SPDX-License-Identifier: Apache-2.0
/* session: what several commands do with a session: make one, run a command in it, end it. */
#pragma once

#include "cli/cli.h"
#include "cli/client.h"

#define SESSION_TIMEOUT_MAX 60

struct session_spec {
	const char *template_name; /* NULL: the server's default */
	const char *egress;	   /* comma list, NULL: none */
	const char *snapshot;	   /* NULL: none */
	bool persistent;
	struct opt_list secrets; /* NAME=VALUE or NAME, then the caller's variable counts */
};

/* *ret_id is owned by the caller; *ret (may be NULL) is the answer. */
int session_create(struct client *c, const struct session_spec *spec, char **ret_id, json_t **ret,
		   struct err *err);
/* One that is gone already is success. */
int session_delete(struct client *c, const char *id, struct err *err);

struct session_command {
	char *const *words; /* of the command; quoted for the shell, one by one */
	int n_words;
	uint64_t timeout;    /* seconds */
	const char *cwd;     /* NULL: the workspace */
	struct opt_list env; /* NAME=VALUE */
	bool with_stdin;     /* send what comes on standard input */
	bool json;	     /* print the server's object instead of the output */
};

/* Runs it, passing its output on as it comes. Returns the exit status of `airlock`; -ECANCELED with
 * *err when a signal came, any other negative value with *err when it failed. */
int session_exec(struct client *c, const char *id, const struct session_command *command,
		 struct err *err);

/* SIGINT, SIGTERM, SIGHUP and SIGPIPE (nobody reads the output any more) end the request under way
 * from now on. */
void session_catch_signals(void);

/* Words as one shell command that gives exactly them; the caller frees it. */
char *session_quote(char *const *words, int n);

/* "a, b" as ["a", "b"]. */
json_t *session_comma_list(const char *text);

/* "NAME=VALUE", or "NAME" with the value of the caller's variable; the object is filled. */
int session_assignment(json_t *object, const char *text, struct err *err);
