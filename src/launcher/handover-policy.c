// SPDX-License-Identifier: Apache-2.0
/*
 * The egress policy and the limits of tenants, when they are files, are read anew on SIGHUP. Only
 * this process may open them; only airlockd understands them. So each is copied, unread, into a
 * sealed memfd that airlockd judges:
 *
 *   SIGHUP -> LD_POLICY -> DL_POLICY: taken, or not, and then the one of before holds
 *
 * What was taken last is kept, as the bytes that were judged and not as a name, for the airlockd
 * after this one. One question about each at a time, so that an answer is always about the last.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "launcher/handover.h"

#define POLICY_MAX (4 * 1024 * 1024)

static int copy_file(const char *path, int *ret)
{
	_cleanup_fd_ int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	_cleanup_fd_ int copy = memfd_create("egress-policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct stat st;

	if (file < 0 || copy < 0 || fstat(file, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_mode & S_IWOTH)
		return -EPERM;
	if (st.st_size > POLICY_MAX)
		return -EFBIG;
	for (off_t at = 0; at < st.st_size;) {
		ssize_t n = sendfile(copy, file, &at, (size_t)(st.st_size - at));
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
	}
	if (fcntl(copy, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return -errno;
	*ret = take_fd(&copy);
	return 0;
}

static const char *policy_path(enum policy_file which)
{
	return which == POLICY_EGRESS ? h.l->options.egress_policy_file
				      : h.l->options.tenant_limits_file;
}

static void ask(enum policy_file which, int code, int fd)
{
	struct ld_policy body = { .code = (uint32_t)code, .which = which };

	if (fd >= 0)
		lseek(fd, 0, SEEK_SET);
	daemon_send(LD_POLICY, 0, &body, sizeof(body), &fd, fd >= 0);
	h.policies[which].waiting = true;
}

static void reload(enum policy_file which)
{
	struct policy *p = &h.policies[which];

	p->due = p->waiting || !daemon_is_ready();
	if (p->due)
		return;
	int r = copy_file(policy_path(which), &p->asked);
	ask(which, -r, p->asked);
}

void policies_init(void)
{
	for (size_t i = 0; i < POLICIES; i++)
		h.policies[i] = (struct policy){ .taken = -1, .asked = -1 };
}

void policies_reload(void)
{
	for (enum policy_file i = 0; i < POLICIES; i++)
		if (policy_path(i))
			reload(i);
}

void policies_daemon_ready(void)
{
	for (enum policy_file i = 0; i < POLICIES; i++) {
		if (h.policies[i].taken >= 0)
			ask(i, 0, h.policies[i].taken);
		else if (h.policies[i].due)
			reload(i);
	}
}

void policies_daemon_lost(void)
{
	for (struct policy *p = h.policies; p < h.policies + POLICIES; p++) {
		/* Whoever comes next is asked about the file as it then is. */
		p->due |= p->asked >= 0;
		p->waiting = false;
		fd_close(&p->asked);
	}
}

int policy_answered(const struct dl_policy *answer)
{
	if (answer->which >= POLICIES || !h.policies[answer->which].waiting)
		return -EPROTO;
	struct policy *p = &h.policies[answer->which];
	p->waiting = false;
	if (answer->code == 0 && p->asked >= 0) {
		fd_close(&p->taken);
		p->taken = take_fd(&p->asked);
	}
	fd_close(&p->asked);
	if (p->due)
		reload(answer->which);
	return 0;
}
