// SPDX-License-Identifier: Apache-2.0
#include "launcher/sibling.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int sibling_path(const char *program, char *out, size_t size)
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
	size_t at = (size_t)(slash + 1 - out);
	if (snprintf(slash + 1, size - at, "%s", program) >= (int)(size - at))
		return -ENAMETOOLONG;
	return 0;
}
