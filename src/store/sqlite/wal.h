// SPDX-License-Identifier: Apache-2.0
/*
 * wal: the write-ahead log of a database, looked at before sqlite does. A frame whose checksum is
 * wrong is for sqlite the torn end of the last write, and it forgets that one and all behind it.
 * Where the last write was torn, nobody was told of it. But where a later commit stands behind,
 * everything up to there was on the disk once: then the disk has damaged it, and forgetting would
 * bring back revoked keys and deleted sessions without a word. Format: sqlite.org/fileformat2.html,
 * section 4.
 */
#pragma once

#include "base/err.h"

/* Of the database at that path, which nobody writes to. EUCLEAN: it is damaged. */
int wal_check(const char *database, struct err *err);

/* Gives the log of an open database zeros up to the length that it has at a checkpoint: a commit
 * that makes a file longer also writes to the file system's journal, and takes half as long again.
 * When there is no room for all of it, it is left as it was. The caller holds the lock to write, or
 * another program's commit would be lost under the zeros. */
void wal_lengthen(const char *database);
