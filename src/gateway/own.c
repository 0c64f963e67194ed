// SPDX-License-Identifier: Apache-2.0
#include "gateway/own.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"

/* A node that balances load has thousands; beyond it the gateway does not work. Memory that holds
 * no address is never touched. */
#define OWN_MAX 65536u
/* One datagram of the kernel (NLMSG_GOODSIZE is at most 8 KiB; dumps use up to 32 KiB). */
#define DATAGRAM 32768u

/* A dump fills `next`; when it is whole, it takes the place of `now`. A change while a dump runs
 * starts another one after it. */
struct own {
	int fd; /* owned */
	uv_poll_t poll;
	struct inet_addr now[OWN_MAX], next[OWN_MAX];
	size_t n_now, n_next;
	bool dumping, again, spoiled, too_many;
	bool ready;
	unsigned char datagram[DATAGRAM];
};

/* An address that is not known could be dialled, so a list that cannot be kept is the end. Before
 * the first one own_open says so. */
static void give_up(const struct own *o, const char *why)
{
	if (!o->ready)
		return;
	log_event(LOG_ERROR, "own_addresses", LOG_STR("why", why));
	_exit(1);
}

static void ask(struct own *o)
{
	struct {
		struct nlmsghdr head;
		struct ifaddrmsg body;
	} request = {
		.head = { .nlmsg_len = sizeof(request),
			  .nlmsg_type = RTM_GETADDR,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.body = { .ifa_family = AF_UNSPEC },
	};

	if (o->dumping) {
		o->again = true;
		return;
	}
	o->n_next = 0;
	o->spoiled = false;
	o->again = false;
	o->dumping = send(o->fd, &request, sizeof(request), 0) == (ssize_t)sizeof(request);
	if (!o->dumping)
		give_up(o, strerrordesc_np(errno));
}

static void take_address(struct own *o, const struct nlmsghdr *head)
{
	const struct ifaddrmsg *body = NLMSG_DATA(head);
	const struct rtattr *attr = IFA_RTA(body);
	int left = (int)IFA_PAYLOAD(head);

	for (; RTA_OK(attr, left); attr = RTA_NEXT(attr, left)) {
		struct inet_addr addr = { { 0 } };
		if (attr->rta_type != IFA_ADDRESS && attr->rta_type != IFA_LOCAL)
			continue;
		if (body->ifa_family == AF_INET && RTA_PAYLOAD(attr) == 4) {
			addr.bytes[10] = addr.bytes[11] = 0xff;
			memcpy(addr.bytes + 12, RTA_DATA(attr), 4);
		} else if (body->ifa_family == AF_INET6 && RTA_PAYLOAD(attr) == 16) {
			memcpy(addr.bytes, RTA_DATA(attr), 16);
		} else {
			continue;
		}
		/* Most have the same one twice. */
		if (o->n_next && inet_addr_eq(&o->next[o->n_next - 1], &addr))
			continue;
		if (o->n_next == OWN_MAX) {
			o->too_many = true;
			return;
		}
		o->next[o->n_next++] = addr;
	}
}

static void dump_over(struct own *o)
{
	o->dumping = false;
	if (o->too_many) {
		give_up(o, "there are too many");
		return;
	}
	/* Kept as it was when it is not whole: too few addresses would let too much pass. */
	if (!o->spoiled) {
		memcpy(o->now, o->next, o->n_next * sizeof(o->now[0]));
		o->n_now = o->n_next;
		o->ready = true;
	}
	if (o->again || o->spoiled)
		ask(o);
}

static void take_datagram(struct own *o, size_t len)
{
	const struct nlmsghdr *head = (const void *)o->datagram;
	unsigned left = (unsigned)len;
	bool changed = false;

	for (; NLMSG_OK(head, left); head = NLMSG_NEXT(head, left)) {
		bool of_dump = head->nlmsg_flags & NLM_F_MULTI;
		if (head->nlmsg_flags & NLM_F_DUMP_INTR)
			o->spoiled = true;
		if (head->nlmsg_type == NLMSG_DONE || head->nlmsg_type == NLMSG_ERROR) {
			o->spoiled |= head->nlmsg_type == NLMSG_ERROR;
			if (o->dumping)
				dump_over(o);
		} else if (head->nlmsg_type == RTM_NEWADDR && of_dump) {
			take_address(o, head);
		} else if (head->nlmsg_type == RTM_NEWADDR || head->nlmsg_type == RTM_DELADDR) {
			changed = true;
		}
	}
	if (changed)
		ask(o);
}

static bool receive(struct own *o, int flags)
{
	struct sockaddr_nl from = { 0 };
	socklen_t from_len = sizeof(from);
	ssize_t n = recvfrom(o->fd, o->datagram, sizeof(o->datagram), flags,
			     (struct sockaddr *)&from, &from_len);

	if (n < 0) {
		/* Changes were lost: look again. */
		if (errno == ENOBUFS) {
			o->spoiled = true;
			if (!o->dumping)
				ask(o);
		}
		return errno == EINTR || errno == ENOBUFS;
	}
	if (from.nl_pid == 0)
		take_datagram(o, (size_t)n);
	return n > 0;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct own *o = poll->data;

	(void)status;
	(void)events;
	while (receive(o, MSG_DONTWAIT))
		;
}

static void on_closed(uv_handle_t *handle)
{
	free(handle->data);
}

int own_open(uv_loop_t *loop, struct own **ret, struct err *err)
{
	struct sockaddr_nl addr = { .nl_family = AF_NETLINK,
				    .nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR };
	struct own *o = mem_new(1, sizeof(*o));

	o->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (o->fd < 0 || bind(o->fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		int r = err_errno(err, "cannot watch the addresses of this host");
		fd_close(&o->fd);
		free(o);
		return r;
	}
	/* Nothing is dialled before the first list is whole. */
	for (ask(o); o->dumping && !o->ready;)
		if (!receive(o, 0))
			break;
	if (!o->ready || uv_poll_init(loop, &o->poll, o->fd) < 0) {
		fd_close(&o->fd);
		free(o);
		return err_set(err, EIO, "cannot read the addresses of this host");
	}
	o->poll.data = o;
	uv_poll_start(&o->poll, UV_READABLE, on_readable);
	*ret = o;
	return 0;
}

void own_close(struct own *o)
{
	uv_close((uv_handle_t *)&o->poll, on_closed);
	fd_close(&o->fd);
}

const struct inet_addr *own_addresses(const struct own *o, size_t *ret_n)
{
	*ret_n = o->n_now;
	return o->now;
}
