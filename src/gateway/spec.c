// SPDX-License-Identifier: Apache-2.0
#include "gateway/spec.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

char *spec_read(int fd, size_t max, size_t *ret_len)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) < 0 || st.st_size < 0 ||
	    (size_t)st.st_size > max)
		return NULL;
	size_t len = (size_t)st.st_size;
	char *data = mem_new(1, len + 1);
	if (pread(fd, data, len, 0) != (ssize_t)len) {
		free(data);
		return NULL;
	}
	*ret_len = len;
	return data;
}
