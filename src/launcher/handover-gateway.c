// SPDX-License-Identifier: Apache-2.0
/*
 * The gateway and the hand-over role. It gets the sockets of every sandbox with egress, before
 * airlockd hears of that sandbox, and a socket to airlockd whenever one of the two is new:
 *
 *   GL_HELLO -> LG_SANDBOX for all that live -> LG_DAEMON, once airlockd has LD_READY too
 *
 * After its hello the gateway has nothing more to say: any further message ends it. Copies of the
 * sockets stay here, so that a new gateway serves the sandboxes of the one before.
 */
#include <errno.h>
#include <string.h>

#include "base/fd.h"
#include "base/log.h"
#include "launcher/handover.h"

static void gateway_send(uint8_t type, const void *body, size_t len, const int *fds, unsigned n)
{
	peer_send(&h.peers[PEER_GATEWAY], type, 0, body, len, fds, n);
}

void gateway_announce(const struct sandbox *s)
{
	struct msg_sandbox body = sandbox_name(s);

	if (s->egress)
		gateway_send(LG_SANDBOX, &body, sizeof(body), s->net, NET_FDS);
}

void gateway_forget(const struct sandbox *s)
{
	struct msg_sandbox body = sandbox_name(s);

	if (s->egress)
		gateway_send(LG_GONE, &body, sizeof(body), NULL, 0);
}

void gateway_connect(void)
{
	int socks[2];
	struct err err;

	h.unconnected = false;
	if (!daemon_is_ready() || !h.peers[PEER_GATEWAY].greeted)
		return;
	if (peer_channel_open(socks, &err) < 0) {
		h.unconnected = h.again = true;
		return;
	}
	daemon_send(LD_GATEWAY, 0, NULL, 0, &socks[0], 1);
	gateway_send(LG_DAEMON, NULL, 0, &socks[1], 1);
	fd_close(&socks[0]);
	fd_close(&socks[1]);
}

int gateway_on_message(const struct wire_msg *msg)
{
	struct peer *p = &h.peers[PEER_GATEWAY];

	if (msg->head.type != GL_HELLO || p->greeted)
		return -EPROTO;
	if (!handover_same_build(p, msg))
		return -EPROTO;
	p->greeted = true;
	h.gateway_served = true;
	for (const struct sandbox *s = h.sandboxes; s < h.sandboxes + LAYOUT_SLOTS; s++)
		if (s->state == BLANK || s->state == USED)
			gateway_announce(s);
	gateway_connect();
	return 0;
}
