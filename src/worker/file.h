// SPDX-License-Identifier: Apache-2.0
/*
 * file: the file worker. Runs in the preforked tenant process of a file sandbox: inner uid 1000, no
 * capability, the tenant's seccomp filter and landlock, no tenant code in the same sandbox. It
 * serves one DI_FILE job at a time and knows nothing but a descriptor of the workspace, and one of
 * what is attached beside it.
 *
 * Everything it opens is opened by openat2 beneath those descriptors (file-path.h). It never
 * executes, maps or loads anything of the tree, never blocks on a FIFO, and gives a pipe that stays
 * silent for FILE_PAUSE_MS up. Static buffers only; no stdio, no recursion; the heap is used by the
 * process that reads a foreign archive alone, and goes with it (unpack.c).
 *
 * Answers, all with the id of the job; a refusal is ID_FILE_END alone:
 *
 *   READ    ID_FILE (size, mode), the bytes, ID_FILE_END. A file that shrinks ends with
 *           FILE_ERR_SHORT and fewer bytes than announced.
 *   WRITE   ID_FILE_END (size, mode). Until it is sent nothing has changed (draft.h); folders made
 *           for it are removed again.
 *   STAT    ID_FILE_END (size, mode with the type bits, used = allocated bytes)
 *   USAGE   ID_FILE_END, see file-usage.h; errno_code EACCES when a folder was unreadable, so that
 *           the sum is a lower bound.
 *   LIST    the entries, ID_FILE_END. A folder beneath that can't be read looks empty.
 *   REMOVE  ID_FILE_END. Folders of the tenant without a right for it are given that right.
 *   MOVE    ID_FILE_END. Neither path's last link is followed; missing parents are made.
 *           FILE_REPLACE replaces a file or link, or an empty folder by a folder; otherwise
 *           FILE_ERR_EXISTS. A folder into itself: FILE_ERR_NOT_IN_FOLDER.
 *   MKDIR   ID_FILE_END. FILE_ERR_EXISTS: there is a file.
 *   PACK    ID_FILE, the bytes, ID_FILE_END. A file that shrinks while it is sent, or can't be read,
 *           ends it with an error: the archive is cut short.
 *   UNPACK  ID_FILE_END
 *   TRIM    ID_FILE_END
 *   MERGE   ID_FILE_END. The path of a conflict is relative to the folder; of a longer one come the
 *           first LIMIT_PATH bytes.
 *
 * mode in the other answers is the nine permission bits.
 */
#pragma once

#include "ipc/messages.h"
#include "ipc/wire.h"

/* Longer than airlockd waits for a client that sends nothing (30 s) or takes nothing (60 s): it
 * knows better why a pipe is silent. */
#define FILE_PAUSE_MS 75000
/* Names in one workspace, protocol 5.5; only checked together with the quota. */
#define FILE_INODES_MAX 1000000u

/* How long a silent pipe is waited for: FILE_PAUSE_MS; unit tests shorten it. */
extern int file_pause_ms;
/* FILE_INODES_MAX; unit tests lower it. */
extern uint64_t file_inodes_max;

/* All borrowed. */
struct file_place {
	int sock;      /* to init: answers go there, DI_COMMIT comes from there */
	int workspace; /* a folder, O_PATH or open for reading */
	int source;    /* the same of LAYOUT_SOURCE, -1: nothing is attached there */
};

/* Does one job. All descriptors stay the caller's, who closes those of msg right after the return
 * (that is what ends the pipe). Sets umask 0 and ignores SIGPIPE for the process. */
void file_worker_job(const struct wire_msg *msg, const struct file_place *place);
