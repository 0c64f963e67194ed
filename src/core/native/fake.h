// SPDX-License-Identifier: Apache-2.0
/*
 * fake: a launcher and its inits at the other end of real sockets, inside the process of a test or
 * a fuzzer. The test plays the launcher and each init by hand; what is dull (builds, kills,
 * volumes) it can leave to the fake. Time stands still: fake_advance moves it.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "core/native/native.h"
#include "core/native/state.h"
#include "ipc/messages.h"

#define FAKE_SANDBOXES 128
#define FAKE_VOLUME "sbx_0123456789ab"
#define FAKE_IMAGE "sandbox-base"
#define FAKE_POSTURE 0x5u

struct fake_sandbox {
	struct msg_sandbox id;
	uint32_t tenant, egress;
	int init;		      /* owned: init's end of the control socket; -1 when it died */
	int slot_fds[LD_SLOT_FDS];    /* owned: what airlockd reads; see fake_count */
	char volume[MSG_VOLUME_NAME]; /* handed over; "" not yet */
	char source[MSG_VOLUME_NAME]; /* with it; "" none */
	bool killed, gone;

	uint8_t got; /* DI_ type that fake_receive found last */
	uint32_t job;
	int fds[WIRE_FDS]; /* owned: what came with it */
	unsigned n_fds;
	unsigned char body[WIRE_MAX];
};

struct fake {
	uv_loop_t loop;
	struct runtime *rt;
	int launcher; /* owned: the launcher's end; -1 when it died */
	bool ready, lost, closed;
	struct err err; /* what ready or lost said */
	unsigned volumes_seen;

	/* Sandboxes that the fake never made, or kills of a second time, are no fault of
	 * airlockd's. */
	bool lenient;
	/* What the fake does by itself. */
	bool builds, kills, answers;
	unsigned building; /* DL_BUILD without an answer */
	uint32_t build_ids[FAKE_SANDBOXES];
	uint32_t build_tenants[FAKE_SANDBOXES];
	uint32_t build_egress[FAKE_SANDBOXES];
	uint32_t volume_code;			    /* of the next answers about volumes */
	unsigned created, deleted, stats, statuses; /* requests seen */
	unsigned copied, sealed, limited;
	bool plain;	   /* clones nothing */
	bool says_nothing; /* LD_DONE instead of LD_STATUS: its sweeper is being restarted */
	bool hangs;	   /* nothing instead of it, until fake_answer_status */
	uint32_t status_id;
	uint32_t at_once; /* of the hello */
	struct ld_status status;
	struct dl_volume_limit last_limit;
	struct dl_volume_create last_create;
	struct dl_snapshot_create last_copy;
	unsigned policies;		    /* DL_POLICY seen */
	uint32_t policy_code, policy_which; /* of the last */

	int gateway; /* owned: the gateway's end; -1: none, or airlockd has closed */

	struct fake_sandbox sandboxes[FAKE_SANDBOXES];
	unsigned n; /* used of sandboxes; the slot is the index, the generation index + 1 */
};

extern const struct native_config fake_config;

/* Opens a runtime and leads it to the point where it has said hello. */
void fake_open(struct fake *f, const struct native_config *config);
/* Answers with LD_HELLO and LD_READY, whose list is FAKE_VOLUME of tenant 1. */
void fake_greet(struct fake *f);
/* LD_READY with these. */
void fake_list_end(struct fake *f, const struct ld_volume *volumes, uint32_t n);
/* Both: what most tests begin with. */
void fake_start(struct fake *f, const struct native_config *config);
/* Closes the runtime, checks that nothing is left on the loop. */
void fake_stop(struct fake *f);

/* Lets the loop and the launcher run until nothing more happens. */
void fake_turn(struct fake *f);
void fake_advance(struct fake *f, int64_t ms);

/* As the launcher. */
void fake_tell(struct fake *f, uint8_t type, uint32_t id, const void *body, size_t len);
/* Answers the oldest open build; init has said hello. */
struct fake_sandbox *fake_build(struct fake *f);
/* A sandbox of before: LD_SLOT and LD_SANDBOX without an id. */
struct fake_sandbox *fake_report(struct fake *f, uint32_t tenant, bool used);
void fake_fail_build(struct fake *f);
/* The answer that was kept back. */
void fake_answer_status(struct fake *f);
void fake_gone(struct fake *f, struct fake_sandbox *s);
/* Sets one measuring file of the sandbox's slot. */
void fake_measure(struct fake_sandbox *s, enum ld_slot_fd which, const char *text);

/* As the gateway. */
/* A new gateway; that of before is gone. Says GD_HELLO when greet. */
void fake_gateway(struct fake *f, bool greet);
/* The next message from airlockd; false when there is none. Descriptors are the caller's. */
bool fake_gateway_receive(struct fake *f, struct wire_msg *msg);
/* Reads and forgets all. */
void fake_gateway_skip(struct fake *f);
void fake_gateway_say(struct fake *f, uint8_t type, uint32_t id, const void *body, size_t len,
		      int fd);
void fake_deny(struct fake *f, const struct fake_sandbox *s, const char *host);
/* airlockd has closed its end. */
bool fake_gateway_is_lost(struct fake *f);

/* As init. */
/* The next message from airlockd into s->got, ->job, ->fds; false when there is none. */
bool fake_receive(struct fake_sandbox *s);
void fake_say(struct fake_sandbox *s, uint8_t type, uint32_t id, const void *body, size_t len);
void fake_started(struct fake_sandbox *s);
/* Says ID_EXITED with a status as of waitpid and closes its copies of the pipes. */
void fake_exited(struct fake_sandbox *s, uint32_t status);
void fake_drop_fds(struct fake_sandbox *s);
/* Init is gone without a word. */
void fake_die(struct fake_sandbox *s);
/* The sandbox that a job was sent to and not yet answered: the newest with a workspace and a
 * message. */
struct fake_sandbox *fake_busy(struct fake *f);
