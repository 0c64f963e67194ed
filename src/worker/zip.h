// SPDX-License-Identifier: Apache-2.0
/*
 * zip: gzip by zlib, from and to a pipe, without a heap: zlib gets its memory from a static piece,
 * whole again at each start. One stream at a time, either way. (RFC 1952.)
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* ---- out: what is put goes to the pipe; max: compressed bytes, more are -EFBIG ---- */
int zip_start(int pipe, uint64_t max);
int zip_put(const void *data, size_t len);
int zip_finish(void);
uint64_t zip_sent(void);

/* ---- in: one member or several, each with its checksum; anything else behind them is an error
 * ---- */
int zip_open(int pipe);
/* Up to len bytes; 0: the end, and all was well. -EBADMSG: not gzip, damaged, or cut short. */
ssize_t zip_read(void *data, size_t len);
uint64_t zip_taken(void); /* compressed bytes so far */
