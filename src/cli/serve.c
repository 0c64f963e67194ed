// SPDX-License-Identifier: Apache-2.0
#include "cli/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/listen.h"
#include "cli/notify.h"
#include "cli/paths.h"
#include "cli/serve-check.h"
#include "daemon/config.h"

#define USER "airlock"
#define GATEWAY_USER "airlock-gw"
#define ARGS_MAX 64
#define IMAGES_MAX 16

/* All that the peers get of the caller's environment: nothing, but in test builds. */
static const char *const kept_variables[] = {
#ifdef AIRLOCK_TEST_KNOBS
	"AIRLOCK_TEST_OFF",
	"AIRLOCK_TEST_HURRY",
#endif
#ifdef __SANITIZE_ADDRESS__
	"ASAN_OPTIONS",
	"UBSAN_OPTIONS",
	"LSAN_OPTIONS",
#endif
	NULL,
};

/* ---- State directory ------------------------------------------------------------------------- */

static int make_parents(const char *path, struct err *err)
{
	_cleanup_free_ char *copy = mem_dup(path);

	for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(copy, 0755) < 0 && errno != EEXIST)
			return err_errno(err, "SANDBOX_STATE_DIR: cannot make %s", copy);
		*slash = '/';
	}
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return err_errno(err, "SANDBOX_STATE_DIR: cannot make %s", path);
	return 0;
}

/* A folder of airlockd's in dir. What is there already is not changed, only looked at. */
static int make_folder(int dir, const char *name, const struct passwd *pw, int *ret_fd,
		       struct err *err)
{
	bool made = mkdirat(dir, name, 0700) == 0;
	struct stat st;

	if (!made && errno != EEXIST)
		return err_errno(err, "SANDBOX_STATE_DIR: cannot make %s in it", name);
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "SANDBOX_STATE_DIR: cannot open %s in it", name);
	if (made && fchown(fd, pw->pw_uid, pw->pw_gid) < 0)
		return err_errno(err, "SANDBOX_STATE_DIR: cannot give %s to " USER, name);
	if (fstat(fd, &st) < 0)
		return err_errno(err, "SANDBOX_STATE_DIR: %s", name);
	if (st.st_uid != pw->pw_uid || (st.st_mode & 077))
		return err_set(err, EPERM,
			       "SANDBOX_STATE_DIR: %s in it must belong to " USER
			       " and be closed to "
			       "others (mode 0700)",
			       name);
	*ret_fd = take_fd(&fd);
	return 0;
}

/* SQLite takes no path with a link on it, and that would be noticed late. */
static int open_real(const char *path)
{
	const struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
				      .resolve = RESOLVE_NO_SYMLINKS };

	return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

static int make_state_dir(const char *path, struct err *err)
{
	const struct passwd *pw = getpwnam(USER);
	_cleanup_fd_ int state = -1;
	_cleanup_fd_ int tmp = -1;
	struct stat st;

	if (!pw)
		return err_set(err, ENOENT,
			       "there is no user " USER "; make one with: useradd --system "
			       "--user-group --no-create-home " USER);
	if (path[0] != '/')
		return err_set(err, EINVAL, "SANDBOX_STATE_DIR: must be an absolute path");
	int r = make_parents(path, err);
	if (r < 0)
		return r;
	_cleanup_fd_ int dir = open_real(path);
	if (dir < 0 && errno == ELOOP)
		return err_set(err, ELOOP,
			       "SANDBOX_STATE_DIR: a symbolic link is on the path %s; name the "
			       "real one",
			       path);
	if (dir < 0 || fstat(dir, &st) < 0)
		return err_errno(err, "SANDBOX_STATE_DIR: cannot open %s", path);
	if (st.st_uid != 0 || (st.st_mode & 022))
		return err_set(
			err, EPERM,
			"SANDBOX_STATE_DIR: %s must belong to root and be writable for nobody else",
			path);
	if ((st.st_mode & 0755) != 0755 && fchmod(dir, 0755) < 0)
		return err_errno(err, "SANDBOX_STATE_DIR: cannot open %s for " USER, path);
	if (faccessat(dir, ".", W_OK, 0) < 0)
		return err_errno(err, "SANDBOX_STATE_DIR: cannot write to %s", path);
	r = make_folder(dir, "state", pw, &state, err);
	return r < 0 ? r : make_folder(state, "tmp", pw, &tmp, err);
}

/* ---- The launcher ---------------------------------------------------------------------------- */

struct args {
	char *words[ARGS_MAX + 1]; /* owned by the process until exec */
	size_t n;
};

static void add(struct args *a, const char *name, char *value)
{
	if (a->n + 2 > ARGS_MAX)
		abort();
	a->words[a->n++] = mem_dup(name);
	a->words[a->n++] = value;
}

static void add_number(struct args *a, const char *name, uint64_t value)
{
	add(a, name, mem_printf("%llu", (unsigned long long)value));
}

/* A second name of the base image needs no archive of its own. */
static bool is_alias(const char *name)
{
	return strcmp(name, "python:3.11-slim") == 0;
}

static bool has_images(const char *state_dir)
{
	_cleanup_free_ char *volume = mem_printf("%s/volumes.img", state_dir);
	_cleanup_free_ char *plain = mem_printf("%s/images", state_dir);

	return access(volume, F_OK) == 0 || access(plain, F_OK) == 0;
}

/* Every allowed template with its archive. The launcher adds those that its volume lacks, and only
 * then needs the archive. */
static int add_images(struct args *a, const struct serve_settings *s, struct err *err)
{
	bool fresh = !has_images(s->text[SERVE_STATE_DIR]);
	size_t n = 0;

	for (const char *name = s->templates; *name; name += strlen(name) + 1) {
		_cleanup_free_ char *tar = paths_tar(name);
		bool there = access(tar, R_OK) == 0;
		if (!paths_image_name_ok(name))
			return err_set(err, EINVAL,
				       "SANDBOX_TEMPLATES: '%s' is no name of an image", name);
		if (!there && is_alias(name))
			continue;
		if (!there && fresh && strcmp(name, PATHS_BASE_IMAGE) == 0)
			return err_set(
				err, ENOENT,
				"the base image has not been built (there is no %s); make it "
				"with: airlock image build",
				tar);
		if (!there && fresh)
			return err_set(err, ENOENT,
				       "SANDBOX_TEMPLATES: there is no image %s; take one in with: "
				       "airlock image import",
				       name);
		if (n++ == IMAGES_MAX)
			return err_set(err, E2BIG, "SANDBOX_TEMPLATES: more than %d images",
				       IMAGES_MAX);
		add(a, "--image", mem_printf("%s=%s", name, tar));
	}
	return 0;
}

static int hand_on(int fd, struct err *err)
{
	return fcntl(fd, F_SETFD, 0) < 0 ? err_errno(err, "fcntl") : 0;
}

/* The listening sockets; metrics -1: there is none. */
struct listeners {
	int api, metrics;
};

static int exec_launcher(const struct serve_settings *s, int config_fd,
			 const struct listeners *listeners, struct err *err)
{
	_cleanup_free_ char *program = paths_program("airlock-launcher");
	char *environment[ARRAY_SIZE(kept_variables) + 1] = { NULL };
	struct args a = { .n = 0 };
	size_t n_environment = 0;

	if (!program)
		return err_set(err, ENOENT, "cannot find airlock-launcher beside this program");
	a.words[a.n++] = mem_dup("airlock-launcher");
	add(&a, "--state-dir", mem_dup(s->text[SERVE_STATE_DIR]));
	add_number(&a, "--config-fd", (uint64_t)config_fd);
	add_number(&a, "--listen-fd", (uint64_t)listeners->api);
	if (listeners->metrics >= 0)
		add_number(&a, "--metrics-fd", (uint64_t)listeners->metrics);
	add(&a, "--user", mem_dup(USER));
	add_number(&a, "--memory-mb", s->memory_mb);
	add_number(&a, "--pids", s->pids);
	add_number(&a, "--cpu-milli", s->cpu_milli);
	add_number(&a, "--tmp-mb", s->tmp_mb);
	add_number(&a, "--stop-seconds", s->stop_s);
	add(&a, "--volumes", mem_dup(s->text[SERVE_VOLUMES]));
	add_number(&a, "--volume-size-mb", s->volume_size_mb);
	add(&a, "--mode", mem_dup(s->text[SERVE_MODE]));
	if (s->gateway) {
		add(&a, "--egress-user", mem_dup(GATEWAY_USER));
		add(&a, "--egress-log-dir", mem_dup(s->text[SERVE_EGRESS_LOG_DIR]));
		add_number(&a, "--egress-log-days", s->egress_log_days);
		add(&a, "--egress-dns", mem_dup(s->text[SERVE_EGRESS_DNS]));
		if (s->text[SERVE_EGRESS_POLICY_FILE][0])
			add(&a, "--egress-policy-file", mem_dup(s->text[SERVE_EGRESS_POLICY_FILE]));
		if (s->text[SERVE_IMPORT_BASE][0])
			add(&a, "--import-base", mem_dup(s->text[SERVE_IMPORT_BASE]));
	}
	if (s->text[SERVE_TENANT_LIMITS_FILE][0])
		add(&a, "--tenant-limits-file", mem_dup(s->text[SERVE_TENANT_LIMITS_FILE]));
	int r = add_images(&a, s, err);
	for (size_t i = 0; kept_variables[i]; i++) {
		const char *value = getenv(kept_variables[i]);
		if (value)
			environment[n_environment++] =
				mem_printf("%s=%s", kept_variables[i], value);
	}
	/* Whatever the caller left open is not the launcher's. */
	if (r >= 0 && close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
		r = err_errno(err, "close_range");
	if (r >= 0)
		r = hand_on(config_fd, err);
	if (r >= 0)
		r = hand_on(listeners->api, err);
	if (r >= 0 && listeners->metrics >= 0)
		r = hand_on(listeners->metrics, err);
	if (r < 0)
		return r;
	execve(program, a.words, environment);
	return err_errno(err, "cannot start %s", program);
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int start(const struct serve_settings *s, int config_fd, struct err *err)
{
	_cleanup_fd_ int listen_fd = -1, metrics_fd = -1;
	_cleanup_free_ char *url = listen_url(s->text[SERVE_LISTEN]);
	int r = make_state_dir(s->text[SERVE_STATE_DIR], err);

	if (r >= 0)
		r = listen_open("SANDBOX_LISTEN", s->text[SERVE_LISTEN], &listen_fd, err);
	if (r >= 0 && s->text[SERVE_METRICS_LISTEN][0])
		r = listen_open("SANDBOX_METRICS_LISTEN", s->text[SERVE_METRICS_LISTEN],
				&metrics_fd, err);
	if (r < 0)
		return r;
	notify_start(url);
	return exec_launcher(s, config_fd, &(struct listeners){ listen_fd, metrics_fd }, err);
}

int serve_become(const struct serve_request *request)
{
	static struct serve_settings settings;
	_cleanup_fd_ int config_fd = -1;
	struct err err;
	int status = serve_check(request, &settings, &config_fd);

	if (status || request->check_only)
		return status;
	if (geteuid() != 0) {
		err_set(&err, EPERM,
			"serve needs root, which it keeps only to make sandboxes: "
			"namespaces, mounts, cgroups and quotas. `airlock doctor` says "
			"more");
		return cli_fail(&err);
	}
	umask(022);
	start(&settings, config_fd, &err);
	cli_fail(&err);
	return CONFIG_EXIT;
}

int cmd_serve(const struct cli_command *self, int argc, char **argv)
{
	struct serve_request request = { 0 };
	const struct opt opts[] = {
		{ "config", 0, OPT_TEXT, &request.config_file, 0, 0 },
		{ "check", 0, OPT_FLAG, &request.check_only, 0, 0 },
		{ "accept-lost", 0, OPT_FLAG, &request.accept_lost, 0, 0 },
	};
	struct err err;
	int at = opt_parse(opts, ARRAY_SIZE(opts), argc, argv, &err);

	if (at < 0)
		return cli_usage(self, "%s", err.text);
	if (at < argc)
		return cli_usage(self, "serve takes no '%s'", argv[at]);
	return serve_become(&request);
}
