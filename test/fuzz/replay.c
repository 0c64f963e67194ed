// SPDX-License-Identifier: Apache-2.0
/* Runs a fuzz target over files: replay FOLDER|FILE... A finding ends the process. */
#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned n_inputs;

/* The input lies in memory of exactly its size, so that a sanitizer sees a read behind it. */
static void replay_file(int dir, const char *name)
{
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	struct stat st;

	assert(fd >= 0 && fstat(fd, &st) == 0);
	uint8_t *data = malloc(st.st_size ? (size_t)st.st_size : 1);
	assert(data);
	assert(read(fd, data, (size_t)st.st_size) == st.st_size);
	fprintf(stderr, "%s\n", name);
	LLVMFuzzerTestOneInput(data, (size_t)st.st_size);
	free(data);
	n_inputs++;
}

static void replay_folder(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	assert(dir);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			replay_file(dirfd(dir), entry->d_name);
	}
	closedir(dir);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct stat st;
		if (stat(argv[i], &st) < 0) {
			fprintf(stderr, "replay: no '%s'\n", argv[i]);
			return 1;
		}
		if (S_ISDIR(st.st_mode))
			replay_folder(argv[i]);
		else
			replay_file(AT_FDCWD, argv[i]);
	}
	printf("%u inputs\n", n_inputs);
	return n_inputs ? 0 : 1;
}
