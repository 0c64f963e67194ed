// SPDX-License-Identifier: Apache-2.0
#include "ipc/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/fd.h"

union control {
	struct cmsghdr align;
	char space[CMSG_SPACE(WIRE_FDS * sizeof(int))];
};

int wire_send(int sock, uint8_t type, uint32_t id, const void *body, size_t body_len,
	      const int *fds, unsigned n_fds)
{
	struct wire_head head = { .version = WIRE_VERSION, .type = type, .id = id };
	struct iovec iov[2] = { { &head, sizeof(head) }, { (void *)(uintptr_t)body, body_len } };
	union control control = { 0 };
	struct msghdr mh = { .msg_iov = iov, .msg_iovlen = body_len ? 2 : 1 };

	if (body_len > WIRE_MAX - sizeof(head) || n_fds > WIRE_FDS)
		return -EMSGSIZE;
	if (n_fds) {
		mh.msg_control = control.space;
		mh.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	while (sendmsg(sock, &mh, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		if (errno == ECONNRESET)
			return -EPIPE;
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

bool wire_check(const struct wire_pair *pair, const struct wire_head *head, size_t body_len,
		unsigned n_fds)
{
	const struct wire_type *t;

	if (head->version != WIRE_VERSION || head->reserved || head->type >= pair->n_types)
		return false;
	t = &pair->types[head->type];
	return t->name && body_len == t->body && n_fds >= t->fds_min && n_fds <= t->fds_max;
}

void wire_msg_fini(struct wire_msg *msg)
{
	for (unsigned i = 0; i < WIRE_FDS; i++)
		fd_close(&msg->fds[i]);
	msg->n_fds = 0;
}

/* Every descriptor that the kernel installed must be found and owned, whatever the rest looks like.
 */
static bool take_descriptors(struct msghdr *mh, struct wire_msg *msg)
{
	bool good = true;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
			good = false;
			continue;
		}
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (msg->n_fds < WIRE_FDS) {
				msg->fds[msg->n_fds++] = fd;
			} else {
				fd_close(&fd);
				good = false;
			}
		}
	}
	return good;
}

/* How many descriptors the message should have had at least; 0 when it is none. */
static unsigned pair_fds_min(const struct wire_pair *pair, const struct wire_head *head)
{
	return head->type < pair->n_types ? pair->types[head->type].fds_min : 0;
}

int wire_recv(int sock, const struct wire_pair *pair, struct wire_msg *msg)
{
	/* One byte more than allowed, so that a longer datagram is seen as such. */
	char extra;
	struct iovec iov[3] = { { &msg->head, sizeof(msg->head) },
				{ msg->body, sizeof(msg->body) },
				{ &extra, 1 } };
	union control control = { 0 };
	struct msghdr mh = { .msg_iov = iov,
			     .msg_iovlen = 3,
			     .msg_control = control.space,
			     .msg_controllen = sizeof(control.space) };
	ssize_t n;

	msg->n_fds = 0;
	for (unsigned i = 0; i < WIRE_FDS; i++)
		msg->fds[i] = -1;
	do {
		n = recvmsg(sock, &mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
		/* ECONNRESET, once: the other side has closed with messages of ours unread. What it
		 * said before lies behind that. */
	} while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	if (n < 0)
		return -errno;
	bool good = take_descriptors(&mh, msg);
	if (n == 0 && !msg->n_fds)
		return 0;
	if (!good || (mh.msg_flags & MSG_TRUNC) || (size_t)n < sizeof(msg->head) ||
	    (size_t)n > sizeof(msg->head) + sizeof(msg->body)) {
		wire_msg_fini(msg);
		return -EPROTO;
	}
	msg->body_len = (size_t)n - sizeof(msg->head);
	if (mh.msg_flags & MSG_CTRUNC) {
		wire_msg_fini(msg);
		return wire_check(pair, &msg->head, msg->body_len, pair_fds_min(pair, &msg->head))
			       ? -EMFILE
			       : -EPROTO;
	}
	if (!wire_check(pair, &msg->head, msg->body_len, msg->n_fds)) {
		wire_msg_fini(msg);
		return -EPROTO;
	}
	return 1;
}

int wire_pair_open(int ret_socks[2], struct err *err)
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret_socks) < 0)
		return err_errno(err, "socketpair");
	return 0;
}
