// SPDX-License-Identifier: Apache-2.0
#include "gateway/stub.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "egress/dns.h"
#include "egress/event.h"
#include "gateway/journal.h"

/* Datagrams taken per turn of the loop and sandbox. */
#define BATCH 16
#define SYNTHETIC_NET 0xc6120000u /* 198.18.0.0 */
#define SYNTHETIC_HOSTS 0x1ffffu  /* /15 */

/* The same for the same name, whoever asks; the ends of the range are left out. */
static struct inet_addr synthetic(const char *name)
{
	struct inet_addr addr = { { [10] = 0xff, [11] = 0xff } };
	uint32_t h = 2166136261u;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 16777619u;
	uint32_t v4 = SYNTHETIC_NET | (1 + (h ^ h >> 17) % (SYNTHETIC_HOSTS - 1));
	for (unsigned i = 0; i < 4; i++)
		addr.bytes[12 + i] = (unsigned char)(v4 >> (24 - 8 * i));
	return addr;
}

static void log_denial(struct sandbox *sb, struct session *s, const struct egress_host *host,
		       enum egress_code code)
{
	char reason[GATEWAY_REASON_MAX];
	struct egress_event e = { .ts_ms = clock_wall_us() / 1000,
				  .code = code,
				  .via = EGRESS_DNS,
				  .host = host->kind == EGRESS_HOST_BAD ? "" : host->text,
				  .port = -1,
				  .reason = reason };

	egress_reason(code, 0, "", reason, sizeof(reason));
	journal_write(s->journal, &e);
	sandbox_denied(sb, e.host);
}

static enum egress_code judge(struct sandbox *sb, const struct egress_host *host)
{
	struct egress_question q = { .via = EGRESS_DNS, .is_connect = true, .host = host };

	if (sb->session && !sb->session->ended)
		q.policy = &sb->session->policy;
	return gateway_decide(&q);
}

size_t stub_answer(struct sandbox *sb, struct str message, bool tcp, unsigned char *out,
		   size_t size)
{
	struct egress_dns_query query;
	enum egress_dns_rcode rcode = EGRESS_DNS_NOERROR;
	struct inet_addr addr;
	size_t n = 0;

	switch (egress_dns_read(message, &query)) {
	case EGRESS_DNS_DROP:
		return 0;
	case EGRESS_DNS_REFUSE:
		rcode = (enum egress_dns_rcode)query.rcode;
		break;
	case EGRESS_DNS_QUESTION: {
		enum egress_code code = judge(sb, &query.host);
		if (code && sb->session)
			log_denial(sb, sb->session, &query.host, code);
		if (code) {
			rcode = EGRESS_DNS_NXDOMAIN;
		} else if (query.type == EGRESS_DNS_A) {
			addr = synthetic(query.host.text);
			n = 1;
		}
		break;
	}
	}
	return egress_dns_write(message, &query, rcode, &addr, n, EGRESS_DNS_TTL,
				tcp ? 65535 : query.max, out, size);
}

/* The answer goes out from the address that was asked. */
static void keep_source(struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			struct in6_pktinfo info;
			memcpy(&info, CMSG_DATA(c), sizeof(info));
			info.ipi6_ifindex = 0;
			memcpy(CMSG_DATA(c), &info, sizeof(info));
		} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo info;
			memcpy(&info, CMSG_DATA(c), sizeof(info));
			info.ipi_ifindex = 0;
			info.ipi_spec_dst = info.ipi_addr;
			memcpy(CMSG_DATA(c), &info, sizeof(info));
		}
	}
}

static bool answer_one(struct sandbox *sb, int fd)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(struct in6_pktinfo)) +
			   CMSG_SPACE(sizeof(struct in_pktinfo))];
	} control;
	unsigned char in[EGRESS_DNS_EDNS_MAX], out[EGRESS_DNS_EDNS_MAX];
	struct sockaddr_storage from;
	struct iovec iov = { in, sizeof(in) };
	struct msghdr msg = { .msg_name = &from,
			      .msg_namelen = sizeof(from),
			      .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT);

	if (n < 0)
		return false;
	/* While its binding is under way nobody is known; the client asks again. */
	if (!sb->session || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return true;
	size_t len =
		stub_answer(sb, (struct str){ (char *)in, (size_t)n }, false, out, sizeof(out));
	if (!len)
		return true;
	keep_source(&msg);
	iov = (struct iovec){ out, len };
	sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	return true;
}

void stub_udp(struct sandbox *sb, int fd)
{
	for (int i = 0; i < BATCH && sandbox_may_ask(sb) && answer_one(sb, fd); i++)
		;
}
