// SPDX-License-Identifier: Apache-2.0
#include "launcher/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

#define BACKLOG 128
/* include/uapi/linux/in6.h, which cannot be included beside netinet/in.h */
#ifndef IPV6_FREEBIND
#define IPV6_FREEBIND 78
#endif

static const struct {
	int type;
	uint16_t port;
	bool loopback; /* 127.0.0.1 alone; else every address of both families */
} sockets[NET_FDS] = {
	[NET_PROXY] = { SOCK_STREAM, 3128, true }, [NET_TLS] = { SOCK_STREAM, 443, false },
	[NET_HTTP] = { SOCK_STREAM, 80, false },   [NET_DNS_TCP] = { SOCK_STREAM, 53, false },
	[NET_DNS_UDP] = { SOCK_DGRAM, 53, false },
};

/* ---- Inside ---------------------------------------------------------------------------------- */

/* rtnetlink(7): ip route add local default dev lo */
static int add_route(int netlink, unsigned char family)
{
	struct {
		struct nlmsghdr head;
		struct rtmsg route;
		struct rtattr attr;
		uint32_t interface;
	} ask = {
		.head = { .nlmsg_len = sizeof(ask),
			  .nlmsg_type = RTM_NEWROUTE,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL },
		.route = { .rtm_family = family,
			   .rtm_table = RT_TABLE_LOCAL,
			   .rtm_protocol = RTPROT_BOOT,
			   .rtm_scope = RT_SCOPE_HOST,
			   .rtm_type = RTN_LOCAL },
		.attr = { .rta_len = RTA_LENGTH(sizeof(uint32_t)), .rta_type = RTA_OIF },
		.interface = 1, /* lo is the first one of every namespace */
	};
	struct {
		struct nlmsghdr head;
		struct nlmsgerr error;
		char more[128];
	} answer;

	if (send(netlink, &ask, sizeof(ask), 0) != (ssize_t)sizeof(ask))
		return -errno;
	ssize_t n = recv(netlink, &answer, sizeof(answer), 0);
	if (n < 0)
		return -errno;
	if ((size_t)n < sizeof(answer.head) + sizeof(answer.error) ||
	    answer.head.nlmsg_type != NLMSG_ERROR)
		return -EPROTO;
	return answer.error.error;
}

static int add_routes(void)
{
	_cleanup_fd_ int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (netlink < 0)
		return -errno;
	int r = add_route(netlink, AF_INET);
	if (r < 0)
		return r;
	r = add_route(netlink, AF_INET6);
	/* A host without IPv6, or with it switched off: then no sandbox has it either. */
	return r == -EAFNOSUPPORT || r == -EOPNOTSUPP || r == -EACCES ? 0 : r;
}

static int on(int sock, int level, int option)
{
	int one = 1;

	return setsockopt(sock, level, option, &one, sizeof(one)) < 0 ? -errno : 0;
}

static int set_options(int sock, int family, int type)
{
	int zero = 0, r = 0;

	if (family == AF_INET6 &&
	    setsockopt(sock, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero)) < 0)
		return -errno;
	if (type != SOCK_DGRAM)
		return 0;
	/* Which server was asked, and to answer as that one, an address that no interface has. */
	if (family == AF_INET6)
		r = on(sock, IPPROTO_IPV6, IPV6_RECVPKTINFO);
	if (r == 0 && family == AF_INET6)
		r = on(sock, IPPROTO_IPV6, IPV6_FREEBIND);
	return r == 0 ? on(sock, IPPROTO_IP, IP_PKTINFO) : r;
}

static int open_socket(enum net_fd which, int family, int *ret)
{
	int type = sockets[which].type;
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(sockets[which].port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons(sockets[which].port) };
	const struct sockaddr *addr = (const struct sockaddr *)&v6;
	socklen_t len = sizeof(v6);

	if (sockets[which].loopback) {
		family = AF_INET;
		v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	}
	if (family == AF_INET) {
		addr = (const struct sockaddr *)&v4;
		len = sizeof(v4);
	}
	_cleanup_fd_ int sock = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return -errno;
	int r = set_options(sock, family, type);
	if (r < 0)
		return r;
	if (bind(sock, addr, len) < 0 || (type == SOCK_STREAM && listen(sock, BACKLOG) < 0))
		return -errno;
	*ret = take_fd(&sock);
	return 0;
}

int net_open(int ret_socks[NET_FDS], const char **ret_stage)
{
	int family = AF_INET6;

	*ret_stage = "routes";
	int r = add_routes();
	if (r < 0)
		return r;
	*ret_stage = "listening sockets";
	_cleanup_fd_ int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (probe < 0 && errno == EAFNOSUPPORT)
		family = AF_INET;
	for (int i = 0; i < NET_FDS && r == 0; i++)
		r = open_socket((enum net_fd)i, family, &ret_socks[i]);
	return r;
}

/* ---- Outside --------------------------------------------------------------------------------- */

static int get(int sock, int option, void *value, socklen_t len)
{
	return getsockopt(sock, SOL_SOCKET, option, value, &len) < 0 ? -errno : 0;
}

int net_check(const int socks[NET_FDS], int own, struct err *err)
{
	uint64_t ours, theirs = 0;

	if (get(own, SO_NETNS_COOKIE, &ours, sizeof(ours)) < 0)
		return err_errno(err, "cannot tell the network namespace");
	for (int i = 0; i < NET_FDS; i++) {
		int domain = 0, type = 0, listening = 0;
		uint64_t cookie = 0;
		if (get(socks[i], SO_DOMAIN, &domain, sizeof(domain)) < 0 ||
		    get(socks[i], SO_TYPE, &type, sizeof(type)) < 0 ||
		    get(socks[i], SO_ACCEPTCONN, &listening, sizeof(listening)) < 0 ||
		    get(socks[i], SO_NETNS_COOKIE, &cookie, sizeof(cookie)) < 0)
			return err_errno(err, "a socket of the sandbox");
		if (i == 0)
			theirs = cookie;
		if ((domain != AF_INET && domain != AF_INET6) || type != sockets[i].type ||
		    listening != (type == SOCK_STREAM) || cookie == ours || cookie != theirs)
			return err_set(err, EPROTO, "socket %d of the sandbox is not as it must be",
				       i);
	}
	return 0;
}
