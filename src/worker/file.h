// SPDX-License-Identifier: Apache-2.0
/*
 * file: the file worker. Runs in the preforked tenant process of a file sandbox: inner uid 1000, no
 * capability, the tenant's seccomp filter and landlock, no tenant code in the same sandbox. It
 * serves one DI_FILE job at a time and knows nothing but a descriptor of the workspace.
 *
 * Everything it opens is opened by openat2 beneath that descriptor (file-path.h). It never
 * executes, maps, loads or parses anything of the tree, never blocks on a FIFO, and gives a pipe
 * that stays silent for FILE_PAUSE_MS up. Static buffers only; no heap, no stdio, no recursion.
 *
 * Answers, all with the id of the job:
 *   FILE_READ   ID_FILE (size, mode), the bytes, ID_FILE_END. Refused: ID_FILE_END alone. A file
 * that shrinks ends with FILE_ERR_SHORT and fewer bytes than announced. FILE_WRITE  ID_FILE_END
 * (size, mode). Until it is sent nothing has changed: the bytes lie in a file without a name, which
 * dies with the process; folders made for it are removed again. A file that replaces another one
 * has a name ".airlock-<16 hex>" for the moment between linkat and renameat. FILE_STAT ID_FILE_END
 * (size, mode with the type bits, used = allocated bytes) FILE_USAGE  ID_FILE_END, see
 * file-usage.h; errno_code EACCES when a folder was unreadable, so that the sum is a lower bound.
 * mode in the other answers is the nine permission bits.
 */
#pragma once

#include "ipc/messages.h"
#include "ipc/wire.h"

#define FILE_PAUSE_MS 30000
/* Names in one workspace, protocol 5.5; only checked together with the quota. */
#define FILE_INODES_MAX 1000000u

/* How long a silent pipe is waited for: FILE_PAUSE_MS; unit tests shorten it. */
extern int file_pause_ms;

/* Does one job. All descriptors stay the caller's, who closes those of msg right after the return
 * (that is what ends the pipe). Sets umask 0 and ignores SIGPIPE for the process. */
void file_worker_job(const struct wire_msg *msg, int reply_sock, int workspace_fd);
