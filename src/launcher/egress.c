// SPDX-License-Identifier: Apache-2.0
#include "launcher/egress.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "launcher/catch.h"
#include "launcher/sibling.h"

#define VARIABLE "SANDBOX_EGRESS_LOG_DIR"
/* What is made in it belongs to airlockd's group, so that airlockd can read it and only read. */
#define LOG_DIR_MODE 02750

static int find_gateway(struct launcher *l, struct err *err)
{
	const struct passwd *pw = getpwnam(l->options.egress_user);
	char path[4096];

	if (!pw)
		return err_set(err, ENOENT,
			       "there is no user %s; `make deps` or `make install` creates it",
			       l->options.egress_user);
	if (pw->pw_uid == 0 || pw->pw_uid == l->user)
		return err_set(err, EINVAL,
			       "the gateway must run neither as root nor as airlockd does");
	l->gateway_user = pw->pw_uid;
	l->gateway_group = pw->pw_gid;
	if (sibling_path(l->directory, "airlock-gateway", path, sizeof(path)) < 0 ||
	    access(path, X_OK) < 0)
		return err_set(err, ENOENT, "cannot find airlock-gateway beside this program");
	return 0;
}

static bool is_empty(int dir)
{
	_cleanup_fd_ int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = copy < 0 ? NULL : fdopendir(copy);
	bool empty = list != NULL;

	if (!list)
		return false;
	take_fd(&copy);
	for (const struct dirent *e; empty && (e = readdir(list));)
		empty = !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..");
	closedir(list);
	return empty;
}

/* Tried as the gateway: its way there may be shut by a folder above. */
static bool gateway_can_write(const struct launcher *l)
{
	int status = 1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(setgroups(0, NULL) < 0 ||
		      setresgid(l->gateway_group, l->gateway_group, l->gateway_group) < 0 ||
		      setresuid(l->gateway_user, l->gateway_user, l->gateway_user) < 0 ||
		      access(l->options.egress_log_dir, W_OK | X_OK) < 0);
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* Only this folder changes hands, never what is in it: a folder that others have filled is refused
 * and not taken. */
static int own_log_dir(struct launcher *l, struct err *err)
{
	const char *path = l->options.egress_log_dir;
	struct stat st;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_errno(err, VARIABLE ": cannot make %s", path);
	_cleanup_fd_ int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || fstat(dir, &st) < 0)
		return err_errno(err, VARIABLE ": cannot open %s", path);
	if (st.st_uid != l->gateway_user && !(st.st_uid == 0 && is_empty(dir)))
		return err_set(err, EPERM,
			       VARIABLE ": %s belongs neither to %s nor, empty, to root", path,
			       l->options.egress_user);
	if (fchown(dir, l->gateway_user, l->group) < 0 || fchmod(dir, LOG_DIR_MODE) < 0)
		return err_errno(err, VARIABLE ": cannot give %s to %s", path,
				 l->options.egress_user);
	if (!gateway_can_write(l))
		return err_set(err, EACCES, VARIABLE ": %s cannot write to %s",
			       l->options.egress_user, path);
	return 0;
}

int egress_prepare(struct launcher *l, struct err *err)
{
	if (!l->options.egress_user)
		return 0;
	int r = find_gateway(l, err);
	if (r == 0)
		r = own_log_dir(l, err);
	if (r < 0)
		return r;
	l->all_ports = catch_works();
	if (!l->all_ports)
		log_event(LOG_WARN, "no_all_ports",
			  LOG_STR("why", "the host refuses BPF programs: a connection to a port "
					 "other than 53, 80, 443 fails without an event"));
	return 0;
}
