// SPDX-License-Identifier: Apache-2.0
#include "cli/serve-check.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/paths.h"
#include "daemon/config.h"

#define NOBODY 65534
#define CONFIG_FILE_MAX (4u * 1024 * 1024)

static int refuse(const struct err *err)
{
	fprintf(stderr, "airlock: %s\n", err->text);
	return CONFIG_EXIT;
}

/* ---- In the child ---------------------------------------------------------------------------- */

static int drop_rights(struct err *err)
{
	const struct passwd *pw = getpwnam("airlock");
	uid_t uid = pw ? pw->pw_uid : NOBODY;
	gid_t gid = pw ? pw->pw_gid : NOBODY;

	if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
			       setresuid(uid, uid, uid) < 0))
		return err_errno(err, "cannot give up root for the check of the configuration");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, "no_new_privs");
	return 0;
}

static void print_warning(void *data, const char *text)
{
	(void)data;
	fprintf(stderr, "airlock: warning: %s\n", text);
}

static int copy_text(char *to, size_t size, const char *from, const char *name, struct err *err)
{
	size_t len = strlen(from);

	if (len >= size)
		return err_set(err, ENAMETOOLONG, "%s: is too long", name);
	memcpy(to, from, len + 1);
	return 0;
}

static int copy_templates(const struct config_settings *s, struct serve_settings *ret,
			  struct err *err)
{
	size_t at = 0;

	for (size_t i = 0; i < s->n_templates; i++) {
		size_t len = strlen(s->templates[i]) + 1;
		if (at + len >= sizeof(ret->templates))
			return err_set(err, E2BIG, "SANDBOX_TEMPLATES: the list is too long");
		memcpy(ret->templates + at, s->templates[i], len);
		at += len;
	}
	return 0;
}

static int take_gateway(const struct config_launcher_settings *l, struct serve_settings *ret,
			struct err *err)
{
	int r = 0;

	/* Sessions may reach something, or imports come from where the operator says. */
	ret->gateway = l->egress || l->import_base;
	if (!ret->gateway)
		return 0;
	ret->egress_log_days = l->egress_log_days;
	_cleanup_free_ char *log_dir = mem_printf("%s/egress", l->state_dir);
	r = copy_text(ret->egress_log_dir, sizeof(ret->egress_log_dir),
		      l->egress_log_dir ? l->egress_log_dir : log_dir, "SANDBOX_EGRESS_LOG_DIR",
		      err);
	if (r >= 0 && l->egress_policy_file)
		r = copy_text(ret->egress_policy_file, sizeof(ret->egress_policy_file),
			      l->egress_policy_file, "SANDBOX_EGRESS_POLICY_FILE", err);
	if (r >= 0 && l->import_base)
		r = copy_text(ret->import_base, sizeof(ret->import_base), l->import_base,
			      "SANDBOX_GITHUB_BASE", err);
	if (r >= 0 && l->egress_dns)
		r = copy_text(ret->egress_dns, sizeof(ret->egress_dns), l->egress_dns,
			      "SANDBOX_EGRESS_DNS", err);
	else if (r >= 0 && !nameserver_of_host(ret->egress_dns, sizeof(ret->egress_dns)))
		r = err_set(err, ENOENT,
			    "SANDBOX_EGRESS_DNS: this host has no name servers but those on "
			    "loopback; name some");
	return r;
}

static int take_settings(const struct config_settings *s, struct serve_settings *ret,
			 struct err *err)
{
	const struct config_launcher_settings *l = &s->launcher;
	const struct {
		char *to;
		size_t size;
		const char *from, *name;
	} texts[] = {
		{ ret->state_dir, sizeof(ret->state_dir), l->state_dir, "SANDBOX_STATE_DIR" },
		{ ret->listen, sizeof(ret->listen), l->listen, "SANDBOX_LISTEN" },
		{ ret->volumes, sizeof(ret->volumes), l->volumes, "SANDBOX_VOLUMES" },
		{ ret->mode, sizeof(ret->mode), l->mode, "SANDBOX_MODE" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		int r = copy_text(texts[i].to, texts[i].size, texts[i].from, texts[i].name, err);
		if (r < 0)
			return r;
	}
	ret->volume_size_mb = l->volume_size_mb;
	ret->memory_mb = l->memory_mb;
	ret->pids = l->pids;
	ret->cpu_milli = l->cpu_milli;
	ret->tmp_mb = l->tmp_mb;
	int r = take_gateway(l, ret, err);
	if (r >= 0 && l->tenant_limits_file)
		r = copy_text(ret->tenant_limits_file, sizeof(ret->tenant_limits_file),
			      l->tenant_limits_file, "SANDBOX_TENANT_LIMITS_FILE", err);
	return r < 0 ? r : copy_templates(s, ret, err);
}

static int check(const char *file, int file_fd, int memfd, struct serve_settings *ret,
		 struct err *err)
{
	struct config *config = config_new();
	int r = drop_rights(err);

	if (r >= 0)
		r = config_load_env(config, environ, err);
	if (r >= 0 && file) {
		r = config_load_fd(config, file_fd, err);
		if (r < 0)
			err_wrap(err, "%s", file);
	}
	if (r >= 0)
		r = config_check(config, err);
	if (r >= 0) {
		config_warn(config, print_warning, NULL);
		r = take_settings(config_settings(config), ret, err);
	}
	if (r >= 0)
		r = config_write(config, memfd, err);
	config_free(config);
	return r;
}

static _Noreturn void child_main(const char *file, int file_fd, int memfd, int pipe)
{
	static struct serve_settings settings;
	struct err err;

	if (check(file, file_fd, memfd, &settings, &err) < 0)
		_exit(refuse(&err));
	const char *at = (const char *)&settings;
	for (size_t left = sizeof(settings); left > 0;) {
		ssize_t n = write(pipe, at, left);
		if (n <= 0)
			_exit(EXIT_FAILED);
		at += n;
		left -= (size_t)n;
	}
	_exit(0);
}

/* ---- In the parent --------------------------------------------------------------------------- */

/* The file may be for root only: its bytes are copied, not looked at, before the rights go. */
static int copy_file(const char *path, int *ret_memfd, struct err *err)
{
	_cleanup_fd_ int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	_cleanup_fd_ int memfd = memfd_create("config-file", MFD_CLOEXEC);
	struct stat st;

	if (file < 0)
		return err_errno(err, "%s: cannot be opened", path);
	if (memfd < 0 || fstat(file, &st) < 0)
		return err_errno(err, "%s", path);
	if (!S_ISREG(st.st_mode) || st.st_size > CONFIG_FILE_MAX)
		return err_set(err, EINVAL, "%s: is not a file of at most 4 MB", path);
	for (off_t at = 0; at < st.st_size;) {
		ssize_t n = sendfile(memfd, file, &at, (size_t)(st.st_size - at));
		if (n < 0)
			return err_errno(err, "%s", path);
		if (n == 0)
			break;
	}
	*ret_memfd = take_fd(&memfd);
	return 0;
}

/* False: it ended without sending everything. */
static bool receive(int pipe, struct serve_settings *ret)
{
	char *at = (char *)ret;

	for (size_t left = sizeof(*ret); left > 0;) {
		ssize_t n = read(pipe, at, left);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		left -= (size_t)n;
	}
	return true;
}

/* The child had no rights on the host, but it read what others may have written. */
static bool is_terminated(const struct serve_settings *s)
{
	return memchr(s->state_dir, '\0', sizeof(s->state_dir)) &&
	       memchr(s->listen, '\0', sizeof(s->listen)) &&
	       memchr(s->volumes, '\0', sizeof(s->volumes)) &&
	       memchr(s->mode, '\0', sizeof(s->mode)) &&
	       memchr(s->egress_log_dir, '\0', sizeof(s->egress_log_dir)) &&
	       memchr(s->egress_dns, '\0', sizeof(s->egress_dns)) &&
	       memchr(s->egress_policy_file, '\0', sizeof(s->egress_policy_file)) &&
	       memchr(s->import_base, '\0', sizeof(s->import_base)) &&
	       memchr(s->tenant_limits_file, '\0', sizeof(s->tenant_limits_file)) &&
	       !s->templates[SERVE_TEMPLATES_MAX - 1] && !s->templates[SERVE_TEMPLATES_MAX - 2];
}

static int run_child(const char *file, int file_fd, int memfd, struct serve_settings *ret)
{
	int pipes[2], status;

	if (pipe2(pipes, O_CLOEXEC) < 0)
		return EXIT_FAILED;
	pid_t pid = fork();
	if (pid == 0)
		child_main(file, file_fd, memfd, pipes[1]);
	fd_close(&pipes[1]);
	bool whole = pid > 0 && receive(pipes[0], ret);
	fd_close(&pipes[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return EXIT_FAILED;
	if (WEXITSTATUS(status) == 0 && !(whole && is_terminated(ret)))
		return EXIT_FAILED;
	return WEXITSTATUS(status);
}

/* A second name of the base image is an image of its own once one of that name was imported; only
 * this side sees the archives. What is said last counts, if it is not empty: hence the comma. */
static int tell_imported(const struct serve_settings *s, int memfd, struct err *err)
{
	bool bad = lseek(memfd, 0, SEEK_END) < 0 || dprintf(memfd, "SANDBOX_IMPORTED=,") < 0;

	for (const char *name = s->templates; *name; name += strlen(name) + 1) {
		_cleanup_free_ char *tar = paths_imported_tar(name);
		if (access(tar, R_OK) == 0)
			bad |= dprintf(memfd, "%s,", name) < 0;
	}
	bad |= dprintf(memfd, "\n") < 0;
	return bad ? err_errno(err, "cannot write the configuration") : 0;
}

static int tell_accept_lost(int memfd, struct err *err)
{
	return dprintf(memfd, "SANDBOX_ACCEPT_LOST=1\n") < 0
		       ? err_errno(err, "cannot write the configuration")
		       : 0;
}

int serve_check(const struct serve_request *request, struct serve_settings *ret, int *ret_memfd)
{
	_cleanup_fd_ int memfd = memfd_create("airlock-config", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	_cleanup_fd_ int file_fd = -1;
	struct err err;

	if (memfd < 0) {
		err_errno(&err, "memfd_create");
		return cli_fail(&err);
	}
	if (request->config_file && copy_file(request->config_file, &file_fd, &err) < 0)
		return refuse(&err);
	int status = run_child(request->config_file, file_fd, memfd, ret);
	if (status)
		return status;
	if (tell_imported(ret, memfd, &err) < 0 ||
	    (request->accept_lost && tell_accept_lost(memfd, &err) < 0))
		return cli_fail(&err);
	if (fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) <
	    0) {
		err_errno(&err, "cannot seal the configuration");
		return cli_fail(&err);
	}
	*ret_memfd = take_fd(&memfd);
	return 0;
}
