// SPDX-License-Identifier: Apache-2.0
#include "cli/paths.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/image-key.h"
#include "ipc/messages.h"

static char *beside(const char *relative)
{
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n <= 0)
		return NULL;
	exe[n] = '\0';
	char *slash = strrchr(exe, '/');
	if (!slash)
		return NULL;
	*slash = '\0';
	_cleanup_free_ char *path = mem_printf("%s/%s", exe, relative);
	char *real = access(path, F_OK) == 0 ? realpath(path, NULL) : NULL;
	return real;
}

char *paths_program(const char *name)
{
	_cleanup_free_ char *installed = mem_printf("../libexec/airlock/%s", name);
	char *path = beside(name);

	return path ? path : beside(installed);
}

char *paths_image_recipe(void)
{
	char *path = beside("../image/build.sh");

	return path ? path : beside("../share/airlock/image/build.sh");
}

char *paths_cache(void)
{
	static const char *const names[] = { "AIRLOCK_IMAGE_CACHE", "CACHE" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *value = getenv(names[i]);
		if (value && *value)
			return mem_dup(value);
	}
	return mem_dup("/var/cache/airlock");
}

char *paths_base_tar(void)
{
	_cleanup_free_ char *cache = paths_cache();

	return mem_printf("%s/%s/rootfs.tar", cache, IMAGE_KEY);
}

char *paths_imported_tar(const char *name)
{
	_cleanup_free_ char *cache = paths_cache();

	return mem_printf("%s/images/%s.tar", cache, name);
}

bool paths_image_name_ok(const char *name)
{
	static const char allowed[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
		"._:-";
	size_t len = strlen(name);

	return len > 0 && len < MSG_IMAGE_NAME && name[0] != '.' && name[0] != '-' &&
	       strspn(name, allowed) == len;
}

char *paths_tar(const char *name)
{
	return strcmp(name, PATHS_BASE_IMAGE) == 0 ? paths_base_tar() : paths_imported_tar(name);
}

char *paths_find_tar(const char *name)
{
	char *path = paths_tar(name);

	if (!paths_image_name_ok(name) || access(path, R_OK) < 0)
		mem_cleanup(&path);
	return path;
}
