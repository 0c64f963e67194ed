// SPDX-License-Identifier: Apache-2.0
#include "launcher/sibling.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int own_directory(char *out, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", out, size - 1);

	if (n < 0)
		return -errno;
	if ((size_t)n == size - 1)
		return -ENAMETOOLONG;
	out[n] = '\0';
	char *slash = strrchr(out, '/');
	if (!slash)
		return -EINVAL;
	*slash = '\0';
	return 0;
}

int sibling_path(const char *directory, const char *program, char *out, size_t size)
{
	int n = snprintf(out, size, "%s/%s", directory, program);

	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}
