// SPDX-License-Identifier: Apache-2.0
/*
 * wire: sending and receiving one message between two of our processes.
 *
 * Every pair talks over its own SOCK_SEQPACKET socket pair, inherited at birth; no socket has a
 * name. A message is at most WIRE_MAX bytes: struct wire_head, then the fixed body of its type.
 * Up to WIRE_FDS descriptors travel with it. Anything longer travels in a sealed memfd or a pipe.
 *
 * A received message is checked against the table of its pair (ipc/messages.h): version, a known
 * type, the exact length, the exact number of descriptors. What fails the check closes every
 * descriptor that came along and is -EPROTO; the receiver ends the peer. Whether the type is
 * allowed in the receiver's present state is the receiver's table (wire_allow).
 *
 * No heap, no stdio: also used by the launcher and init.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define WIRE_VERSION 1
#define WIRE_MAX 272
#define WIRE_FDS 6 /* even: a control buffer of an odd number would have room for one more */

struct wire_head {
	uint8_t version; /* WIRE_VERSION */
	uint8_t type;
	uint16_t reserved; /* 0 */
	uint32_t id;	   /* chosen by the asker, repeated in the answer; 0 when unasked */
};

struct wire_type {
	const char *name; /* for logs */
	uint16_t body;	  /* exact size of the body */
	uint8_t fds_min;
	uint8_t fds_max;
};

struct wire_pair {
	const char *name;
	const struct wire_type *types; /* indexed by type; name == NULL: not a message */
	size_t n_types;
};

struct wire_msg {
	struct wire_head head;
	union {
		unsigned char body[WIRE_MAX - sizeof(struct wire_head)];
		uint64_t align;
	};
	size_t body_len;
	int fds[WIRE_FDS]; /* owned by the receiver until taken; unused ones are -1 */
	unsigned n_fds;
};

/* Sends one message. Descriptors are borrowed. Returns 0, -EAGAIN when the socket is full, -EPIPE
 * when the peer is gone, or another negative errno. */
int wire_send(int sock, uint8_t type, uint32_t id, const void *body, size_t body_len,
	      const int *fds, unsigned n_fds);

/* Receives and checks one message. Returns 1 with *msg filled, 0 at end of file, -EAGAIN when
 * there is none, -EPROTO for a malformed one, or another negative errno. -EMFILE: more descriptors
 * came than this process could take, because of its limit or because no message has so many; *msg
 * has the head and the body, and no descriptor. */
int wire_recv(int sock, const struct wire_pair *pair, struct wire_msg *msg);

/* The check alone, for wire_recv and the fuzzers: is this datagram a well-formed message of pair? */
bool wire_check(const struct wire_pair *pair, const struct wire_head *head, size_t body_len,
		unsigned n_fds);

/* Closes the descriptors that were not taken. */
void wire_msg_fini(struct wire_msg *msg);

/* Whether type is in the bit set of what a state accepts. Types are below 64. */
static inline bool wire_allow(uint64_t accepted, uint8_t type)
{
	return type < 64 && (accepted >> type) & 1;
}

/* A connected pair of sockets, close-on-exec, non-blocking. */
int wire_pair_open(int ret_socks[2], struct err *err);
