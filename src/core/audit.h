// SPDX-License-Identifier: Apache-2.0
/*
 * audit: what was run, by whom, and how it ended (the contract, 14.3). A record is put down when
 * something begins and again when it has ended, before whoever asked for it is answered; what a
 * crash leaves open is a failure at the next start.
 *
 * A log that cannot be written stops nobody: it is counted and logged by the store. Only when the
 * configuration says strict does nothing begin whose record is not on the disk.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "store/store.h"

#define AUDIT_COMMAND_MAX 2000u /* characters */
#define AUDIT_DETAIL_MAX 300u

struct audit;
struct core;
struct tenant;

struct audit_start {
	const struct tenant *tenant;
	const char *session;
	const char *actor;  /* "key <id>" and the like */
	const char *kind;   /* "exec" and the like */
	struct str command; /* valid UTF-8; what is too long is cut */
};

struct audit_outcome {
	bool failed;	     /* there is no exit code */
	int exit_code;	     /* 0 of what is no command */
	int64_t duration_ms; /* -1: not known */
	bool timed_out, oom_killed;
	const char *detail; /* NULL: none */
};

/* Once, on the loop. on_disk: the record of the beginning is there. */
typedef void (*audit_begun_fn)(void *data, bool on_disk);
typedef void (*audit_ended_fn)(void *data);

/* NULL: there is no audit log, and begun is not called. begun may be NULL. */
struct audit *audit_begin(struct core *c, const struct audit_start *start, audit_begun_fn begun,
			  void *data);
/* Frees the record; ended is called when it is on the disk, or cannot be. */
void audit_end(struct audit *a, const struct audit_outcome *outcome, audit_ended_fn ended,
	       void *data);
/* The same of what is no command: it succeeded, with a detail or NULL; or failed in the words of an
 * error, and what was refused with 429 leaves no record. */
void audit_done(struct audit *a, const char *detail, audit_ended_fn ended, void *data);
void audit_fail(struct audit *a, const struct err *err, audit_ended_fn ended, void *data);
/* Whether what begins has to wait for begun. */
bool audit_is_strict(const struct core *c);

/* Whether there is an audit log (SANDBOX_AUDIT). */
bool audit_is_on(const struct core *c);
/* The newest records of a tenant that are not too old, or those before a place in their order:
 * before_us INT64_MAX is the end. */
void audit_page(struct core *c, const struct tenant *t, int64_t before_us, uint32_t before_id,
		size_t limit, store_audit_page_fn fn, void *data);
