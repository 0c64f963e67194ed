// SPDX-License-Identifier: Apache-2.0
/*
 * fd: ownership of descriptors. A local that owns one is declared `_cleanup_fd_ int fd = -1;`
 * and handed over with take_fd(). Every descriptor is close-on-exec from birth.
 */
#pragma once

#include <unistd.h>

#define _cleanup_fd_ __attribute__((cleanup(fd_cleanup)))

/* Closes *fd unless it is -1, and sets it to -1. errno is preserved. */
void fd_close(int *fd);

static inline void fd_cleanup(int *fd)
{
	fd_close(fd);
}

/* Returns *fd and leaves -1 behind. */
static inline int take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}
