// SPDX-License-Identifier: Apache-2.0
/*
 * The egress policy, when it is a file, is read anew on SIGHUP. Only this process may open it; only
 * airlockd understands it. So it is copied, unread, into a sealed memfd that airlockd judges:
 *
 *   SIGHUP -> LD_POLICY -> DL_POLICY: taken, or not, and then the one of before holds
 *
 * What was taken last is kept, as the bytes that were judged and not as a name, for the airlockd
 * after this one. One question at a time, so that an answer is always about the last one.
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

static void ask(int code, int fd)
{
	struct ld_policy body = { .code = (uint32_t)code };

	if (fd >= 0)
		lseek(fd, 0, SEEK_SET);
	daemon_send(LD_POLICY, 0, &body, sizeof(body), &fd, fd >= 0);
	h.policy.waiting = true;
}

void policy_reload(void)
{
	h.policy.due = h.policy.waiting || !h.peers[PEER_DAEMON].greeted;
	if (h.policy.due)
		return;
	int r = copy_file(h.l->options.egress_policy_file, &h.policy.asked);
	ask(-r, h.policy.asked);
}

void policy_daemon_ready(void)
{
	if (h.policy.taken >= 0)
		ask(0, h.policy.taken);
	else if (h.policy.due)
		policy_reload();
}

void policy_daemon_lost(void)
{
	/* Whoever comes next is asked about the file as it then is. */
	h.policy.due |= h.policy.asked >= 0;
	h.policy.waiting = false;
	fd_close(&h.policy.asked);
}

int policy_answered(const struct dl_policy *answer)
{
	if (!h.policy.waiting)
		return -EPROTO;
	h.policy.waiting = false;
	if (answer->code == 0 && h.policy.asked >= 0) {
		fd_close(&h.policy.taken);
		h.policy.taken = take_fd(&h.policy.asked);
	}
	fd_close(&h.policy.asked);
	if (h.policy.due)
		policy_reload();
	return 0;
}
