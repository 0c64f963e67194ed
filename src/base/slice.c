// SPDX-License-Identifier: Apache-2.0
#include "base/slice.h"

#include <errno.h>
#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

int slice_shorten(void)
{
	struct sched_attr attr = { 0 };

	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) < 0)
		return -errno;
	attr.sched_runtime = SLICE_SHORT_NS;
	return syscall(SYS_sched_setattr, 0, &attr, 0) < 0 ? -errno : 0;
}
