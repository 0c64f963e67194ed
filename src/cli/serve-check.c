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
#include "cli/nameserver.h"
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

/* from NULL: it is not set. */
static int put_text(struct serve_settings *s, enum serve_text which, const char *from,
		    struct err *err)
{
	static const char *const names[SERVE_TEXTS] = {
		[SERVE_STATE_DIR] = "SANDBOX_STATE_DIR",
		[SERVE_LISTEN] = "SANDBOX_LISTEN",
		[SERVE_METRICS_LISTEN] = "SANDBOX_METRICS_LISTEN",
		[SERVE_VOLUMES] = "SANDBOX_VOLUMES",
		[SERVE_MODE] = "SANDBOX_MODE",
		[SERVE_EGRESS_LOG_DIR] = "SANDBOX_EGRESS_LOG_DIR",
		[SERVE_EGRESS_DNS] = "SANDBOX_EGRESS_DNS",
		[SERVE_EGRESS_POLICY_FILE] = "SANDBOX_EGRESS_POLICY_FILE",
		[SERVE_IMPORT_BASE] = "SANDBOX_GITHUB_BASE",
		[SERVE_TENANT_LIMITS_FILE] = "SANDBOX_TENANT_LIMITS_FILE",
	};
	size_t len = from ? strlen(from) : 0;

	if (len >= sizeof(s->text[which]))
		return err_set(err, ENAMETOOLONG, "%s: is too long", names[which]);
	if (len)
		memcpy(s->text[which], from, len + 1);
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

/* Imports need name servers, and so does what the operator asks for; only that is worth a refusal. */
static int take_name_servers(const struct config_launcher_settings *l, bool no_imports,
			     struct serve_settings *ret, struct err *err)
{
	bool asked = l->egress || l->import_base;

	if (!asked && no_imports)
		return 0;
	char *found = ret->text[SERVE_EGRESS_DNS];
	ret->gateway = l->egress_dns ||
		       nameserver_of_host(found, sizeof(ret->text[SERVE_EGRESS_DNS]));
	if (!ret->gateway && asked)
		return err_set(err, ENOENT,
			       "SANDBOX_EGRESS_DNS: this host has no name servers but those on "
			       "loopback; name some");
	return put_text(ret, SERVE_EGRESS_DNS, l->egress_dns, err);
}

static int take_gateway(const struct config_launcher_settings *l, bool no_imports,
			struct serve_settings *ret, struct err *err)
{
	int r = take_name_servers(l, no_imports, ret, err);

	if (r < 0 || !ret->gateway)
		return r;
	ret->egress_log_days = l->egress_log_days;
	_cleanup_free_ char *log_dir = mem_printf("%s/egress", l->state_dir);
	r = put_text(ret, SERVE_EGRESS_LOG_DIR, l->egress_log_dir ? l->egress_log_dir : log_dir,
		     err);
	if (r >= 0)
		r = put_text(ret, SERVE_EGRESS_POLICY_FILE, l->egress_policy_file, err);
	return r < 0 ? r : put_text(ret, SERVE_IMPORT_BASE, l->import_base, err);
}

static int take_settings(const struct config_settings *s, bool no_imports,
			 struct serve_settings *ret, struct err *err)
{
	const struct config_launcher_settings *l = &s->launcher;
	const struct {
		enum serve_text which;
		const char *from;
	} texts[] = {
		{ SERVE_STATE_DIR, l->state_dir },
		{ SERVE_LISTEN, l->listen },
		{ SERVE_METRICS_LISTEN, l->metrics_listen },
		{ SERVE_VOLUMES, l->volumes },
		{ SERVE_MODE, l->mode },
		{ SERVE_TENANT_LIMITS_FILE, l->tenant_limits_file },
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		int r = put_text(ret, texts[i].which, texts[i].from, err);
		if (r < 0)
			return r;
	}
	ret->volume_size_mb = l->volume_size_mb;
	ret->memory_mb = l->memory_mb;
	ret->pids = l->pids;
	ret->cpu_milli = l->cpu_milli;
	ret->tmp_mb = l->tmp_mb;
	ret->stop_s = l->stop_s;
	int r = take_gateway(l, no_imports, ret, err);
	return r < 0 ? r : copy_templates(s, ret, err);
}

static int check(const struct serve_request *request, int file_fd, int memfd,
		 struct serve_settings *ret, struct err *err)
{
	const char *file = request->config_file;
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
		r = take_settings(config_settings(config), request->no_imports, ret, err);
	}
	if (r >= 0)
		r = config_write(config, memfd, err);
	config_free(config);
	return r;
}

static _Noreturn void child_main(const struct serve_request *request, int file_fd, int memfd,
				 int pipe)
{
	static struct serve_settings settings;
	struct err err;

	if (check(request, file_fd, memfd, &settings, &err) < 0)
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
	if (st.st_mode & S_IWOTH)
		return err_set(err, EPERM, "%s: can be written by everybody; chmod o-w", path);
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
	for (size_t i = 0; i < SERVE_TEXTS; i++)
		if (!memchr(s->text[i], '\0', sizeof(s->text[i])))
			return false;
	return !s->templates[SERVE_TEMPLATES_MAX - 1] && !s->templates[SERVE_TEMPLATES_MAX - 2];
}

static int run_child(const struct serve_request *request, int file_fd, int memfd,
		     struct serve_settings *ret)
{
	int pipes[2], status;

	if (pipe2(pipes, O_CLOEXEC) < 0)
		return EXIT_FAILED;
	pid_t pid = fork();
	if (pid == 0)
		child_main(request, file_fd, memfd, pipes[1]);
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
	int status = run_child(request, file_fd, memfd, ret);
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
