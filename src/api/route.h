// SPDX-License-Identifier: Apache-2.0
/*
 * route: the shape of a row of the route table, and finding the row for a path. Paths are split at
 * "/" first and decoded afterwards, so "%2F" inside a segment is data. A segment "{name}" of a
 * pattern takes any segment that is not empty. There is no trailing slash and no normalisation.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "api/field.h"
#include "base/arena.h"
#include "base/str.h"

struct request;

enum route_caller {
	CALLER_ANYONE,
	CALLER_TENANT, /* a tenant's key, takes a rate token */
	CALLER_ADMIN,  /* the admin key */
};

enum route_body {
	BODY_NONE,  /* whatever is sent is thrown away */
	BODY_JSON,  /* up to LIMIT_JSON_BODY */
	BODY_WRITE, /* JSON up to SANDBOX_WRITE_MAX_MB */
	BODY_BYTES, /* anything up to SANDBOX_UPLOAD_MAX_MB; the handler asks for it */
};

/* What the route does with the session that its path names. */
enum route_target {
	TARGET_NONE,   /* it names none */
	TARGET_USE,    /* must exist and be the caller's; restarts its idle clock */
	TARGET_LOOK,   /* the same without the clock */
	TARGET_REMOVE, /* the same with the two other texts */
};

/* A value in the answer, for the description of the API. */
struct route_answer {
	const char *name;
	const char *type; /* of JSON Schema; "number|null" and the like */
};

#define ROUTE_PARAMS_MAX 2
#define ROUTE_ANSWERS_MAX 20

struct route {
	const char *method;
	const char *pattern;
	enum route_caller caller;
	enum route_body body;
	enum route_target target;
	bool secret; /* values of this route never appear in a 422 */
	const struct field *fields;
	size_t n_fields;
	/* Step 8: word of the feature that is off, NULL when all is on. NULL: no feature. */
	const char *(*feature_off)(const struct request *r);
	/* Step 9: false when it has answered 429. NULL: no limit that is known so early. */
	bool (*limit)(struct request *r);
	void (*handle)(struct request *r); /* NULL: the feature is always off */
	/* For the description. */
	int status;
	const char *id, *summary;
	const struct route_answer *answers;
	const char *also; /* other statuses than the ladder's own, separated by blanks */
	bool events;	  /* may answer as text/event-stream */
	const char *type; /* of an answer that is no JSON; NULL: JSON */
};

extern const struct route routes[];
extern const size_t n_routes;

struct route_match {
	const struct route *route; /* NULL: none */
	bool path_known;	   /* the path exists with other methods */
	struct str params[ROUTE_PARAMS_MAX];
};

/* path as sent. Decoded parameters lie in the arena. */
void route_find(struct str method, struct str path, struct arena *arena, struct route_match *ret);
/* "GET, POST": the methods of the patterns that this path fits, in the order of the table. */
void route_methods(struct str path, struct arena *arena, struct buf *out);
