// SPDX-License-Identifier: Apache-2.0
/*
 * rig: for the unit tests of core/: a core on the real store, and a runtime inside the test that
 * keeps a list of volumes and does what the test tells it. Clocks stand still (base/clock.h). Every
 * call of the runtime is answered from the loop; while hold is set, answers are kept back.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"
#include "store/store.h"

#define RIG_VOLUMES 256

enum rig_kind {
	RIG_EXEC,
	RIG_READ,
	RIG_WRITE,
	RIG_USAGE,
	RIG_CREATE,
	RIG_DELETE,
	RIG_STAT,
	RIG_LIVE,
	RIG_COPY,
	RIG_MERGE,
	RIG_LIMIT,
	RIG_UPLOAD,
	RIG_DOWNLOAD,
	RIG_PACK,
	RIG_LIST,
	RIG_CHANGE,
	RIG_SPACE,
	RIG_LOOK,
	RIG_FETCH,
	RIG_UNPACK,
	RIG_KINDS,
};

/* What outlives a process. */
struct rig_disk {
	char volumes[RIG_VOLUMES][SESSION_ID_LEN + 1];
	uint32_t owners[RIG_VOLUMES];
	size_t n_volumes;
};

struct runtime {
	uv_loop_t *loop;
	uv_timer_t timer;
	struct rig_call *first, *last;	 /* unanswered, in order */
	unsigned calls[RIG_KINDS];	 /* since the start */
	unsigned fail_at[RIG_KINDS];	 /* this call of the kind fails ("no_capacity"); 0: none */
	bool counts_shared;		 /* what runtime_info says */
	bool hard_quota;		 /* the same */
	struct runtime_space space;	 /* the same; promised: besides the rig's own volumes */
	uint64_t tenant_limit;		 /* of the last volume */
	char copied[SESSION_ID_LEN + 1]; /* the last copy that was asked for */
	bool hold[RIG_KINDS];

	struct rig_disk *disk; /* shared with children */

	/* What to answer from now on. slug NULL: success. */
	const char *fail[RIG_KINDS];
	struct runtime_exec_result result; /* without streams */
	uint64_t dropped[2];
	const char *text; /* read */
	uint64_t used, counter;
	struct runtime_live live[4];
	size_t n_live;

	/* What was asked last. */
	char env[64][128];
	size_t n_env;
	char cwd[256];
	uint64_t limit, quota, max;
	int64_t queue_ms;		 /* of a file job or a copy */
	char source[SESSION_ID_LEN + 1]; /* of a volume or a merge; "": none */
	char path[256];			 /* of a copy or a merge; "*": everything */
	const char *in_the_way;		 /* of merges that fail */
	uint32_t killed;
	uint32_t warmed;  /* tenant */
	bool with_egress; /* the last command named its session */
	char denied[128]; /* what the next results were refused, each with its NUL */
	size_t n_denied;

	/* Of the last upload, listing or change; what changes and uploads answer. */
	struct runtime_upload upload;
	struct runtime_upload_ops up;
	void *up_data;
	char given[64];
	bool given_end;
	unsigned resumed;
	char second[64];
	uint32_t depth;
	bool flag;
	uint64_t number;
	const char *breaks; /* slug: downloads fail after their first bytes */

	/* Downloads: how they end, and what they leave in the file. */
	struct runtime_fetch_result fetched;
	const char *archive;
	unsigned cancelled;
	/* Of the last download and unpacking. */
	char url[256];
	char hosts[256]; /* separated by blanks */
	int fetch_fd;
	struct runtime_unpack unpack;
	char unpacked[64]; /* what was in the file */
	enum runtime_archive_fault fault;

	/* Sessions that the gateway knows. */
	struct runtime_egress *egress;
	unsigned n_egress;
};

/* rig-runtime.c, for rig.c */
void rig_runtime_open(struct runtime *rt, uv_loop_t *loop);
void rig_runtime_close(struct runtime *rt);
/* Answers what may be answered now. */
void rig_runtime_go(struct runtime *rt);

struct rig {
	uv_loop_t loop;
	char dir[64];
	char path[96];
	struct store *store;
	struct runtime runtime;
	struct core *core;
	struct core_config config;
	struct tenant *a, *b;
};

#define RIG_START_US 1000000000000000ll /* wall clock of the start */
#define RIG_SECOND 1000000ll

/* Tenants a (key "key-a") and b ("key-b"). */
int rig_setup(void **state);
int rig_teardown(void **state);

/* Open with what the state directory and the runtime's volumes have; close as at a clean stop. */
/* Negative: core_start refused. */
int rig_try_open(struct rig *r, struct err *err);
void rig_open(struct rig *r);
void rig_close(struct rig *r);
/* Closes, opens again in a child process, runs scene there and kills the child where it returns;
 * then opens again. What is committed and what volumes there are is as the child left it. */
void rig_crash(struct rig *r, void (*scene)(struct rig *r));

/* From now on no write of the store succeeds, or they do again. */
void rig_break_store(struct rig *r, bool broken);

/* Runs the loop until nothing happens any more. */
void rig_settle(struct rig *r);
void rig_answer(struct rig *r); /* lets held answers go, and settles */
void rig_advance(struct rig *r, int64_t us);

/* The shells of commands that are held back run now. */
void rig_start_commands(struct rig *r);

/* A session of t; fails the test when it is refused. */
struct session *rig_session(struct rig *r, struct tenant *t);
/* A session of t that may reach these; fails the test when it is refused. */
struct session *rig_session_egress(struct rig *r, struct tenant *t, const struct str *egress,
				   size_t n);
/* The rules that the runtime has for this session, separated by blanks; NULL: it has none. */
const char *rig_egress(struct rig *r, const char *session);
bool rig_has_volume(struct rig *r, const char *id);
void rig_add_volume(struct runtime *rt, const char *id, uint32_t tenant);
