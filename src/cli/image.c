// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/paths.h"

#define TAR_BLOCK 512

/* ---- ls -------------------------------------------------------------------------------------- */

static void list_one(json_t *list, const char *name, const char *tar)
{
	struct stat st;

	if (stat(tar, &st) < 0)
		return;
	json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:s}", "name", name, "size_bytes",
					      (json_int_t)st.st_size, "created_at",
					      (json_int_t)st.st_mtime, "path", tar));
}

static json_t *list_images(void)
{
	_cleanup_free_ char *base = paths_base_tar();
	_cleanup_free_ char *cache = paths_cache();
	_cleanup_free_ char *pattern = mem_printf("%s/images/*.tar", cache);
	json_t *list = json_array();
	glob_t found;

	list_one(list, PATHS_BASE_IMAGE, base);
	if (glob(pattern, 0, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc; i++) {
			const char *file = strrchr(found.gl_pathv[i], '/') + 1;
			_cleanup_free_ char *name = mem_dup_n(file, strlen(file) - 4);
			list_one(list, name, found.gl_pathv[i]);
		}
		globfree(&found);
	}
	return list;
}

static int image_ls(const struct cli_command *self, int argc, char **argv)
{
	bool json = false;
	const struct opt opts[] = { { "json", 0, OPT_FLAG, &json, 0, 0 } };
	const json_t *entry;
	struct err err;
	size_t i;
	int at = opt_parse(opts, ARRAY_SIZE(opts), argc, argv, &err);

	if (at < 0)
		return cli_usage(self, "%s", err.text);
	if (at != argc)
		return cli_usage(self, NULL);
	json_t *list = list_images();
	if (json) {
		json_t *object = json_pack("{s:O}", "images", list);
		json_dumpf(object, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(object);
	} else if (json_array_size(list) == 0) {
		puts("No images. Make the base image with: airlock image build");
	} else {
		printf("%-28s %9s  %-16s  %s\n", "NAME", "SIZE", "MADE", "FILE");
	}
	json_array_foreach(list, i, entry)
	{
		time_t made = (time_t)json_integer_value(json_object_get(entry, "created_at"));
		char date[32] = "";
		struct tm tm;
		if (json)
			break;
		if (localtime_r(&made, &tm))
			strftime(date, sizeof(date), "%Y-%m-%d %H:%M", &tm);
		printf("%-28s %6lld MB  %-16s  %s\n",
		       json_string_value(json_object_get(entry, "name")),
		       (long long)json_integer_value(json_object_get(entry, "size_bytes")) >> 20,
		       date, json_string_value(json_object_get(entry, "path")));
	}
	json_decref(list);
	return 0;
}

/* ---- build ----------------------------------------------------------------------------------- */

static int run_recipe(const char *recipe, const char *out)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execl(recipe, recipe, out, (char *)NULL);
		fprintf(stderr, "airlock: cannot run %s\n", recipe);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return EXIT_FAILED;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : EXIT_FAILED;
}

static int make_cache(const char *below, struct err *err)
{
	_cleanup_free_ char *cache = paths_cache();
	_cleanup_free_ char *path = mem_printf("%s/%s", cache, below);

	if (mkdir(cache, 0755) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make %s", cache);
	if (*below && mkdir(path, 0755) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make %s", path);
	return 0;
}

static int image_build(const struct cli_command *self, int argc, char **argv)
{
	_cleanup_free_ char *recipe = paths_image_recipe();
	_cleanup_free_ char *tar = paths_base_tar();
	struct err err;

	(void)argv;
	if (argc > 0)
		return cli_usage(self, NULL);
	if (!recipe) {
		err_set(&err, ENOENT, "the image's recipe is not installed beside this program");
		return cli_fail(&err);
	}
	if (access(tar, F_OK) == 0) {
		printf("%s is there already: %s\n", PATHS_BASE_IMAGE, tar);
		return 0;
	}
	umask(022);
	if (make_cache("", &err) < 0)
		return cli_fail(&err);
	*strrchr(tar, '/') = '\0';
	return run_recipe(recipe, tar);
}

/* ---- import, rm ------------------------------------------------------------------------------ */

/* First bytes of what the launcher can unpack. */
static const struct {
	size_t offset;
	const char *magic;
	size_t len;
} archives[] = {
	{ 257, "ustar", 5 },
	{ 0, "\x1f\x8b", 2 }, /* gzip */
	{ 0, "\xfd\x37zXZ", 5 },
	{ 0, "\x28\xb5\x2f\xfd", 4 }, /* zstd */
};

static int check_tar(int fd, const char *path, struct err *err)
{
	char block[TAR_BLOCK] = { 0 };

	if (pread(fd, block, sizeof(block), 0) < 0)
		return err_errno(err, "%s", path);
	for (size_t i = 0; i < ARRAY_SIZE(archives); i++)
		if (memcmp(block + archives[i].offset, archives[i].magic, archives[i].len) == 0)
			return 0;
	return err_set(
		err, EINVAL,
		"%s is not a tar archive (of a root file system, plain or packed with gzip, xz or "
		"zstd)",
		path);
}

static int copy_tar(int from, const char *to, struct err *err)
{
	_cleanup_free_ char *tmp = mem_printf("%s.new", to);
	_cleanup_fd_ int out = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	ssize_t n;

	if (out < 0)
		return err_errno(err, "%s", tmp);
	do {
		n = copy_file_range(from, NULL, out, NULL, SSIZE_MAX & ~4095, 0);
	} while (n > 0);
	if (n < 0 || fsync(out) < 0 || rename(tmp, to) < 0) {
		err_errno(err, "cannot copy to %s", to);
		unlink(tmp);
		return -err->code;
	}
	return 0;
}

/* "dir/my-image.tar" → "my-image:latest" */
static char *default_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *file = slash ? slash + 1 : path;
	const char *dot = strchr(file, '.');

	return mem_printf("%.*s:latest", (int)(dot ? (size_t)(dot - file) : strlen(file)), file);
}

static void say_restart(const char *name)
{
	printf("A server takes it when it starts, if SANDBOX_TEMPLATES names %s: a running one has "
	       "to "
	       "be restarted.\n",
	       name);
}

static int image_import(const struct cli_command *self, int argc, char **argv)
{
	const char *as = NULL;
	const struct opt opts[] = { { "as", 0, OPT_TEXT, &as, 0, 0 } };
	struct err err;
	int at = opt_parse(opts, ARRAY_SIZE(opts), argc, argv, &err);

	if (at < 0)
		return cli_usage(self, "%s", err.text);
	if (argc - at != 1)
		return cli_usage(self, NULL);
	_cleanup_free_ char *name = as ? mem_dup(as) : default_name(argv[at]);
	if (!paths_image_name_ok(name) || strcmp(name, PATHS_BASE_IMAGE) == 0)
		return cli_usage(self, "'%s' cannot be the name of an imported image", name);
	_cleanup_fd_ int fd = open(argv[at], O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		err_errno(&err, "%s", argv[at]);
		return cli_fail(&err);
	}
	_cleanup_free_ char *to = paths_imported_tar(name);
	umask(022);
	if (check_tar(fd, argv[at], &err) < 0 || make_cache("images", &err) < 0 ||
	    copy_tar(fd, to, &err) < 0)
		return cli_fail(&err);
	printf("Imported %s.\n", name);
	say_restart(name);
	return 0;
}

static int image_rm(const struct cli_command *self, int argc, char **argv)
{
	struct err err;

	if (argc != 1)
		return cli_usage(self, NULL);
	_cleanup_free_ char *tar = paths_find_tar(argv[0]);
	if (!tar) {
		err_set(&err, ENOENT, "there is no image '%s' in the cache", argv[0]);
		return cli_fail(&err);
	}
	if (unlink(tar) < 0) {
		err_errno(&err, "%s", tar);
		return cli_fail(&err);
	}
	printf("Removed %s from the cache. A server that has taken it keeps its copy; leave it out "
	       "of "
	       "SANDBOX_TEMPLATES to stop using it.\n",
	       argv[0]);
	return 0;
}

int cmd_image(const struct cli_command *self, int argc, char **argv)
{
	static const struct cli_command table[] = {
		{ "image ls", "[--json]", "", image_ls },
		{ "image build", "", "", image_build },
		{ "image import", "[--as NAME] TARBALL", "", image_import },
		{ "image rm", "NAME", "", image_rm },
	};

	(void)self;
	return cli_dispatch(table, ARRAY_SIZE(table), "image ", argc, argv);
}
