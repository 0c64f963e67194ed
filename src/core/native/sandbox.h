// SPDX-License-Identifier: Apache-2.0
/*
 * sandbox: one living sandbox as airlockd sees it: its control socket to init, the pipes that are
 * made ahead for a command, and who uses it.
 *
 * States and what is accepted from its init in each (ID_ types):
 *
 *   NEW       ID_HELLO                                           -> BLANK
 *   BLANK     (one ID_HELLO when it was adopted after a restart)
 *   EXEC      ID_STARTED -> EXEC_RUN, ID_REFUSED -> ENDED
 *   EXEC_RUN  ID_EXITED -> ENDED
 *   FILE      (a file sandbox between jobs)
 *   FILE_READ ID_FILE -> FILE_READ_BYTES, ID_FILE_END -> FILE
 *   FILE_READ_BYTES  ID_FILE_END -> FILE
 *   FILE_OTHER       ID_FILE_END -> FILE
 *   ENDED     nothing; the socket is closed, LD_GONE is awaited
 *
 * An answer must carry the id of the job. Anything else is hostile: the sandbox is killed and its
 * user hears ended(), never the server's end. The launcher is told to kill a sandbox that has not
 * gone SANDBOX_LINGER_MS after it ended, so that an init that was taken over cannot stay.
 *
 * Users are told through struct sandbox_ops: the pool (blank), a command, a file sandbox. The
 * struct lives until it is gone, has no user and no open handle.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "core/native/deadline.h"
#include "core/native/gateway.h"
#include "core/native/slot.h"
#include "core/runtime.h"
#include "ipc/messages.h"

#define SANDBOX_LINGER_MS 500
/* A new one must have said hello by then. */
#define SANDBOX_HELLO_MS 10000

struct pool;
struct runtime;
struct sandbox;
struct volume;

enum sandbox_state {
	SANDBOX_NEW,
	SANDBOX_BLANK,
	SANDBOX_EXEC,
	SANDBOX_EXEC_RUN,
	SANDBOX_FILE,
	SANDBOX_FILE_READ,
	SANDBOX_FILE_READ_BYTES,
	SANDBOX_FILE_OTHER,
	SANDBOX_ENDED,
};

struct sandbox_ops {
	/* A message that the state accepts; the state has moved on already. */
	void (*message)(struct sandbox *s, const struct wire_msg *msg);
	/* The control socket closed or init broke the rules; the sandbox is being killed. Not
	 * called after a message that ends the sandbox by itself. */
	void (*ended)(struct sandbox *s);
	/* No process of it is left. The user must let go now. */
	void (*gone)(struct sandbox *s);
	/* The launcher could not attach the workspace; the sandbox is being killed. */
	void (*handover_failed)(struct sandbox *s, uint32_t code);
	/* A pipe has bytes or ended. */
	void (*readable)(struct sandbox *s, enum runtime_stream i);
	/* The gateway refused this name to it; "" never. NULL: nobody wants to know. */
	void (*denied)(struct sandbox *s, const char *host);
};

struct sandbox_pipe {
	uv_poll_t poll;
	bool open;    /* poll is initialised and not being closed */
	int read_fd;  /* owned; -1 after the end */
	int write_fd; /* owned until it was sent */
};

TAILQ_HEAD(sandbox_list, sandbox);

struct sandbox {
	struct runtime *rt; /* borrowed */
	struct msg_sandbox id;
	enum sandbox_state state;
	uint32_t posture;
	struct pool *pool;     /* whose it was built for; pools live as long as their sandboxes */
	struct volume *volume; /* attached or about to be; NULL: blank */
	struct volume *source; /* the same, read-only beside it; NULL: none */

	int control; /* owned; -1 when closed */
	uv_poll_t poll;
	bool poll_open;
	uint32_t job; /* id of the message being answered */

	bool prepared; /* the next three are there */
	int spec;      /* owned: empty memfd for the specification */
	struct sandbox_pipe pipes[2];
	struct slot_sample before; /* counters when it was blank */

	struct runtime_egress *egress; /* a reference; NULL: it works for nobody with egress */
	struct gateway_word bind;

	const struct sandbox_ops *ops; /* NULL: nobody */
	void *user;

	bool kill_sent, gone, adopted, stray;
	unsigned handles; /* libuv handles of it that are not closed */
	struct deadline linger;
	TAILQ_ENTRY(sandbox) link;	/* runtime.sandboxes */
	TAILQ_ENTRY(sandbox) in_volume; /* volume.sandboxes */
	TAILQ_ENTRY(sandbox) in_source; /* volume.readers */
	TAILQ_ENTRY(sandbox) in_pool;	/* pool.ready */
};

struct slot_entry {
	struct slot slot;
	struct sandbox *newest; /* the sandbox that was reported last for it */
};

/* A new slot, or new descriptors of a known one. fds are taken. False: not a sane message. */
bool sandbox_slot_set(struct runtime *rt, const struct ld_slot *body, int *fds);
const struct slot *sandbox_slot(const struct sandbox *s);

/* What the launcher reported. control is owned. NULL: not a sane message. adopted: another airlockd
 * may have read init's hello already. */
struct sandbox *sandbox_new(struct runtime *rt, const struct ld_sandbox *body, int control,
			    struct pool *pool, bool adopted);
struct sandbox *sandbox_find(struct runtime *rt, struct msg_sandbox id);

/* The user changes; NULL lets go. */
void sandbox_set_user(struct sandbox *s, const struct sandbox_ops *ops, void *user);

/* Pipes, memfd and first sample, off the path. Returns 0 or -errno. */
int sandbox_prepare(struct sandbox *s);
/* Gives them back: for a sandbox that will not run a command. */
void sandbox_unprepare(struct sandbox *s);

/* Sends the hand-over of a workspace, with another one to read from beside it (NULL: none).
 * -EAGAIN: no room now, nothing happened. */
int sandbox_attach(struct sandbox *s, struct volume *v, struct volume *source);
/* Sends a job to init and enters state. */
int sandbox_send(struct sandbox *s, enum sandbox_state state, uint8_t type, uint32_t job,
		 const void *body, size_t len, const int *fds, unsigned n_fds);
/* Sends something more about the job that init has. Returns 0 or -errno. */
int sandbox_say(struct sandbox *s, uint8_t type, const void *body, size_t len);

/* Reads what init has said until there is nothing more or the user has let go. */
void sandbox_receive(struct sandbox *s);
/* Whether there is something to read. */
bool sandbox_has_word(const struct sandbox *s);

void sandbox_pipe_close(struct sandbox *s, enum runtime_stream i);
/* Tells the launcher to kill it, once. */
void sandbox_kill(struct sandbox *s);
/* The user is done: lets go, closes everything, sees to it that it goes. May free it. */
void sandbox_retire(struct sandbox *s);

/* From the launcher. */
void sandbox_gone(struct sandbox *s);
void sandbox_handover_failed(struct sandbox *s, uint32_t code);
