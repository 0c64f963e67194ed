// SPDX-License-Identifier: Apache-2.0
/*
 * loopback: for tests with both ends of a connection in one thread. The kernel may leave what was
 * sent to a thread of its own (ksoftirqd), and on a busy machine that one has its turn much later:
 * whoever looks at once finds nothing, however often.
 */
#pragma once

/* Keeps this thread on its processor, for there is one queue to each. Never fails. */
int loopback_open(void);
/* What was sent before has arrived when this returns: a datagram of its own comes behind it. What
 * the kernel sends in answer may still be under way. */
void loopback_settle(int fd);
