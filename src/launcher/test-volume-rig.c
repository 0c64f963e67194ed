// SPDX-License-Identifier: Apache-2.0
#include "launcher/test-volume-rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "base/fd.h"

char top[200];
static const char *skipped; /* why there is no root or no btrfs */
struct volumes v;
struct err err;

void need_host(void)
{
	if (skipped) {
		print_message("[  SKIP    ] %s\n", skipped);
		skip();
	}
}

void path_of(char path[static 256], const char *name)
{
	assert_in_range(snprintf(path, 256, "%s/%s", top, name), 1, 250);
}

void open_state(const char *name, int kind)
{
	char path[256];

	path_of(path, name);
	struct volumes_config config = { .state_dir = path,
					 .kind = kind,
					 .size_bytes = VOLUME_SIZE };
	ok(volumes_open(&v, &config, &err));
}

void close_state(const char *name)
{
	char path[256];

	volumes_close(&v);
	v = VOLUMES_NONE;
	path_of(path, name);
	snprintf(path + strlen(path), 8, "/mnt");
	umount2(path, MNT_DETACH);
}

int as_tenant(const char *name, int (*act)(void))
{
	_cleanup_fd_ int fd = -1;
	uint32_t tenant;
	int status;

	ok(volume_open(&v, name, &fd, &tenant, &err));
	pid_t pid = fork();
	if (pid == 0) {
		if (fchdir(fd) < 0 || setresgid(1000, 1000, 1000) < 0 ||
		    setresuid(1000, 1000, 1000) < 0)
			_exit(255);
		_exit(act());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

int create(const char *name, uint32_t tenant, uint64_t limit_bytes)
{
	const struct volume_spec spec = { .name = name,
					  .tenant = tenant,
					  .limit_bytes = limit_bytes };

	return volume_create(&v, &spec, &err);
}

int create_from(const char *source, const char *name, uint32_t tenant, uint64_t limit_bytes)
{
	const struct volume_spec spec = {
		.name = name, .tenant = tenant, .limit_bytes = limit_bytes, .source = source
	};

	return volume_create(&v, &spec, &err);
}

static int count_names(void *data, int folder, const char *name)
{
	++*(int *)data;
	return 0;
}

int names_in(int folder)
{
	int n = 0;

	ok(volume_scan(folder, count_names, &n, &err));
	return n;
}

int fill(void)
{
	static char block[65536];
	int fd = open("big", O_WRONLY | O_CREAT | O_APPEND, 0644), e = 0;

	memset(block, 'x', sizeof(block));
	for (int i = 0; fd >= 0 && e == 0 && i < 8192; i++)
		if (write(fd, block, sizeof(block)) < 0)
			e = errno;
	return fd < 0 ? errno : e ? e : fsync(fd) < 0 ? errno : 0;
}

void delete_all(void)
{
	int r;

	while ((r = volume_delete_next(&v, &err)) > 0)
		;
	ok(r);
	/* Once for each: commits without end keep the kernel from giving chunks back. */
	if (v.destroyed)
		volumes_hurry(&v);
	v.destroyed = 0;
}

void make_full(const char *name)
{
	static const char *const argv[] = { "/usr/sbin/mkfs.btrfs", "--quiet", "/proc/self/fd/0",
					    NULL };
	char path[256];

	path_of(path, name);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path + strlen(path), 16, "/volumes.img");
	_cleanup_fd_ int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(fd, (off_t)VOLUME_SIZE), 0);
	ok(volume_program_run(&(struct volume_program){ .argv = argv, .input = fd, .cage = -1 },
			      &err));
	assert_int_equal(fsetxattr(fd, "trusted.airlock.quota", "full", 4, 0), 0);
}

/* ---- the fixture ----------------------------------------------------------------------------- */

static bool file_has(const char *file, const char *word)
{
	char text[4096];
	_cleanup_fd_ int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	return strstr(text, word);
}

static const char *why_not(void)
{
	if (geteuid() != 0)
		return "needs root";
	if (access("/dev/loop-control", R_OK | W_OK) < 0)
		return "needs loop devices";
	_cleanup_fd_ int fs = fsopen("btrfs", FSOPEN_CLOEXEC);
	if (fs < 0)
		return "needs a kernel with btrfs";
	if (access("/usr/sbin/mkfs.btrfs", X_OK) < 0)
		return "needs mkfs.btrfs";
	if (unshare(CLONE_NEWNS) < 0 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return "needs a mount namespace of its own";
	return NULL;
}

int rig_setup(void **state)
{
	char path[256];

	v = VOLUMES_NONE;
	skipped = why_not();
	if (skipped)
		return 0;
	const char *where = getenv("TMPDIR");
	snprintf(top, sizeof(top), "%.150s/airlock-test-XXXXXX", where ? where : "/var/tmp");
	if (!mkdtemp(top))
		return -1;
	path_of(path, "btrfs");
	if (mkdir(path, 0700) < 0)
		return -1;
	open_state("btrfs", VOLUMES_BTRFS);
	return 0;
}

static bool loop_is_ours(const char *name)
{
	char file[300];

	snprintf(file, sizeof(file), "/sys/block/%s/loop/backing_file", name);
	return file_has(file, top);
}

/* After the last mount is gone no loop device may hold our files. */
int rig_teardown(void **state)
{
	static const char *const rm[] = { "/usr/bin/rm", "-rf", top, NULL };
	int left = 1;

	if (skipped)
		return 0;
	close_state("btrfs");
	for (int i = 0; left && i < 6000; i++) {
		DIR *dir = opendir("/sys/block");

		left = 0;
		for (struct dirent *e; dir && (e = readdir(dir));)
			left += strncmp(e->d_name, "loop", 4) == 0 && loop_is_ours(e->d_name);
		closedir(dir);
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	if (left)
		print_error("%d loop devices are left\n", left);
	volume_program_run(&(struct volume_program){ .argv = rm, .input = 0, .cage = -1 }, &err);
	return left ? -1 : 0;
}
