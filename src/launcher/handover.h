// SPDX-License-Identifier: Apache-2.0
/*
 * handover: what the files of the hand-over role share: its one state, and what they ask of each
 * other. handover.c owns sandboxes, processes and the loop, handover-daemon.c the messages with
 * airlockd, handover-gateway.c those with the gateway, handover-policy.c the policy. All of it runs
 * in one thread of one process, so nothing here needs a lock.
 *
 * A message function returns 0, or a negative errno: then the peer broke the rules and is ended.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ipc/messages.h"
#include "launcher/launcher.h"
#include "launcher/peers.h"
#include "sandbox/layout.h"

/* Calls that the sweeper has not answered. */
#define CALLS_MAX 256

enum sandbox_state { FREE, BUILDING, BLANK, USED };

struct sandbox {
	enum sandbox_state state;
	bool doomed; /* a kill was asked for while it was built */
	uint32_t generation;
	uint32_t tenant;
	uint32_t egress;
	uint32_t request; /* id of the DL_BUILD that asked for it */
	uint32_t posture;
	pid_t pid;
	int pidfd, control, handover, userns; /* owned */
	int net[NET_FDS];		      /* owned; with egress: its listening sockets */
	int catch;			      /* owned; link of the all-ports catch */
	int measure[LD_SLOT_FDS];	      /* owned; of the slot, kept when it is free */
	char image[MSG_IMAGE_NAME];
	int64_t freed_ms;
};

/* In the order in which they are ended; the gateway runs only where a policy gives it work. */
enum peer_kind { PEER_DAEMON, PEER_BUILDER, PEER_SWEEPER, PEER_GATEWAY, PEERS };

struct handover {
	struct launcher *l;
	int signals;
	struct peer peers[PEERS];
	bool served; /* some airlockd has said hello */
	bool gateway_served;
	bool stopping;
	int64_t stop_by_ms;
	int exit_status;
	bool again;	  /* something failed for want of memory */
	bool unconnected; /* airlockd and gateway are to be connected */
	uint32_t generations;
	uint32_t unlisted; /* entries of the list that airlockd has still to get */
	int64_t retire_at_ms;
	struct sandbox sandboxes[LAYOUT_SLOTS];
	/* The sweeper knows a call by its place here. */
	struct call {
		uint8_t type; /* 0: free */
		bool stale;   /* of an earlier airlockd */
		uint32_t id;
	} calls[CALLS_MAX];
	struct policy {
		int taken, asked; /* owned: the last that was taken; the one being judged */
		bool waiting;	  /* LD_POLICY was sent */
		bool due;	  /* a SIGHUP came that no LD_POLICY was sent for */
	} policies[POLICIES];
};

extern struct handover h;

/* ---- handover.c ---- */

struct msg_sandbox sandbox_name(const struct sandbox *s);
/* NULL when the name is not of a sandbox that exists now. */
struct sandbox *sandbox_find(struct msg_sandbox name);
void sandbox_kill(struct sandbox *s);
/* Its slot is free; what it had is closed. */
void sandbox_release(struct sandbox *s);
/* The hello of a program of its own. When it is of another build nothing works, and at the first
 * start nothing is served yet that would be worth keeping: then the server stops. */
bool handover_same_build(const struct peer *p, const struct wire_msg *msg);
/* To one that has said hello; anybody else gets the whole list when it does. */
void peer_send(struct peer *p, uint8_t type, uint32_t id, const void *body, size_t len,
	       const int *fds, unsigned n);
/* Ends the server: no restart will change what is wrong. */
void handover_give_up(void);

/* ---- handover-daemon.c ---- */

void daemon_send(uint8_t type, uint32_t id, const void *body, size_t len, const int *fds,
		 unsigned n);
/* It has said hello and has the whole list. */
bool daemon_is_ready(void);
/* The next portion of the list, when there is room in its socket. */
void daemon_list(void);
void daemon_announce_slot(struct sandbox *s);
void daemon_announce(struct sandbox *s);
int daemon_build_failed(uint32_t id, int code, const char *text);
/* The sweeper is gone: all that it has not answered. */
void daemon_refuse_calls(const char *text);
int daemon_on_message(const struct wire_msg *msg);

/* ---- handover-gateway.c ---- */

/* Each does nothing for a sandbox without egress, or without a gateway that has said hello. */
void gateway_announce(const struct sandbox *s);
void gateway_forget(const struct sandbox *s);
/* A new socket pair between airlockd and the gateway, when both have said hello. */
void gateway_connect(void);
int gateway_on_message(const struct wire_msg *msg);

/* ---- handover-policy.c ---- */

void policies_init(void);
/* SIGHUP. */
void policies_reload(void);
void policies_daemon_ready(void);
void policies_daemon_lost(void);
int policy_answered(const struct dl_policy *answer);
