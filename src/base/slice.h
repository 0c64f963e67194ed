// SPDX-License-Identifier: Apache-2.0
/*
 * slice: short turns on the processor. A thread that asks for short ones gets them sooner when it
 * wakes, and no more of the processor in all: right for a loop that does little for many, wrong for
 * what computes. Linux 6.12 (Documentation/scheduler/sched-eevdf.rst); older kernels take no notice.
 */
#pragma once

#include <stdint.h>

#define SLICE_SHORT_NS UINT64_C(100000) /* the least that the kernel takes */

/* Of this thread and those that it starts from now on. Returns 0 or -errno. */
int slice_shorten(void);
