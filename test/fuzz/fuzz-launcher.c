// SPDX-License-Identifier: Apache-2.0
/*
 * What a hostile airlockd sends to the launcher's hand-over role: a stream of datagrams, each with
 * up to four descriptors. Builder, sweeper and gateway are socket pairs that nobody reads; before
 * the stream two sandboxes are made known, one of them with a hand-over done, so that every state
 * is reached. Whatever the input: no descriptor is lost, no sandbox changes its tenant, and a
 * volume's name that reached the sweeper is one of ours.
 *
 * Input: 1 byte, odd: the hello was done (it holds the build's id, which no seed can know); then
 * per datagram 1 byte length, 1 byte number of descriptors, and the bytes.
 */
#include "launcher/handover-daemon.c"
#include "launcher/handover-gateway.c"
#include "launcher/handover-policy.c"
#include "launcher/handover.c"

#include <assert.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct launcher launcher;
static int ends[PEERS] = { -1, -1, -1, -1 };

_Noreturn void builder_main(struct launcher *l, int sock)
{
	(void)l;
	_exit(sock < 0);
}

_Noreturn void sweeper_main(struct launcher *l, int sock)
{
	(void)l;
	_exit(sock < 0);
}

/* No process is started or killed here: the peers are this process. */
int peer_start_role(struct peer *p, struct launcher *l, void (*role)(struct launcher *l, int sock),
		    struct err *err)
{
	(void)p;
	(void)l;
	(void)role;
	return err_set(err, ENOSYS, "not here");
}

int peer_start_daemon(struct peer *p, struct launcher *l, struct err *err)
{
	(void)p;
	(void)l;
	return err_set(err, ENOSYS, "not here");
}

int peer_start_gateway(struct peer *p, struct launcher *l, struct err *err)
{
	return peer_start_daemon(p, l, err);
}

int peer_channel_open(int ret_socks[2], struct err *err)
{
	return wire_pair_open(ret_socks, err);
}

void peer_kill(struct peer *p)
{
	fd_close(&p->sock);
}

void peer_close(struct peer *p)
{
	fd_close(&p->sock);
	p->pid = 0;
}

static unsigned count_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void known(uint32_t slot, enum sandbox_state state)
{
	struct sandbox *s = &h.sandboxes[slot];
	int socks[2];
	struct err err;

	assert(wire_pair_open(socks, &err) == 0);
	*s = (struct sandbox){
		.state = state, .generation = slot + 1, .tenant = 5, .pid = 0, .catch = -1
	};
	for (size_t k = 0; k < NET_FDS; k++)
		s->net[k] = -1;
	s->pidfd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	s->control = socks[0];
	s->handover = socks[1];
	s->userns = open("/dev/null", O_RDONLY | O_CLOEXEC);
	for (size_t k = 0; k < LD_SLOT_FDS; k++)
		s->measure[k] = -1;
	h.generations = 2;
}

static void open_all(void)
{
	struct err err;

	h.l = &launcher;
	policies_init();
	for (size_t i = 0; i < LAYOUT_SLOTS; i++) {
		struct sandbox *s = &h.sandboxes[i];
		*s = (struct sandbox){
			.pidfd = -1, .control = -1, .handover = -1, .userns = -1, .catch = -1
		};
		for (size_t k = 0; k < LD_SLOT_FDS; k++)
			s->measure[k] = -1;
		for (size_t k = 0; k < NET_FDS; k++)
			s->net[k] = -1;
	}
	for (int k = 0; k < PEERS; k++) {
		int socks[2];
		assert(wire_pair_open(socks, &err) == 0);
		h.peers[k] = (struct peer){ .name = "peer", .sock = socks[0] };
		ends[k] = socks[1];
	}
	known(0, BLANK);
	known(1, USED);
}

static void close_all(void)
{
	for (size_t i = 0; i < LAYOUT_SLOTS; i++)
		if (h.sandboxes[i].state != FREE)
			sandbox_release(&h.sandboxes[i]);
	for (int k = 0; k < PEERS; k++) {
		fd_close(&h.peers[k].sock);
		fd_close(&ends[k]);
	}
}

/* What came through to the sweeper names a volume of ours. */
static void check_sweeper(void)
{
	struct wire_msg msg;

	while (wire_recv(ends[PEER_SWEEPER], &wire_ls, &msg) == 1) {
		struct dl_volume_create create;
		struct dl_snapshot_create snapshot;
		struct dl_volume_limit limit;
		struct dl_volume volume;
		memcpy(&create, msg.body, sizeof(create));
		memcpy(&volume, msg.body, sizeof(volume));
		memcpy(&snapshot, msg.body, sizeof(snapshot));
		memcpy(&limit, msg.body, sizeof(limit));
		if (msg.head.type == LS_VOLUME_CREATE)
			assert(volume_name_ok(create.volume) &&
			       (!create.source[0] || volume_name_ok(create.source)));
		else if (msg.head.type == LS_SNAPSHOT_CREATE)
			assert(volume_name_ok(snapshot.volume) &&
			       volume_name_ok(snapshot.snapshot) &&
			       volume_is_snapshot(snapshot.snapshot));
		else if (msg.head.type == LS_VOLUME_LIMIT)
			assert(volume_name_ok(limit.volume));
		else if (msg.head.type != LS_STATUS)
			assert(volume_name_ok(volume.volume));
		wire_msg_fini(&msg);
	}
}

static size_t send_one(const uint8_t *data, size_t size)
{
	int fds[WIRE_FDS] = { 0, 0, 0, 0 };
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(fds))];
	} control = { .space = "" };
	size_t len = data[0], n = data[1] % (WIRE_FDS + 1);

	if (len > size - 2)
		len = size - 2;
	struct iovec iov = { (void *)(uintptr_t)(data + 2), len };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	if (n) {
		mh.msg_control = control.space;
		mh.msg_controllen = CMSG_SPACE(n * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	(void)!sendmsg(ends[PEER_DAEMON], &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
	return len + 2;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool ready;

	if (!ready) {
		log_init("fuzz", (enum log_level) - 1);
		launcher.volumes =
			(struct volumes){ .root_fd = -1, .volumes_fd = -1, .images_fd = -1 };
		launcher.cgroup.version = 1;
		ready = true;
	}
	if (!size)
		return 0;
	unsigned before = count_descriptors();
	open_all();
	h.peers[PEER_DAEMON].greeted = data[0] & 1;
	data++;
	size--;
	while (size >= 2 && h.peers[PEER_DAEMON].sock >= 0) {
		size_t used = send_one(data, size);
		data += used;
		size -= used;
		drain(PEER_DAEMON);
		check_sweeper();
	}
	for (uint32_t i = 0; i < 2; i++)
		assert(h.sandboxes[i].state == FREE || h.sandboxes[i].tenant == 5);
	close_all();
	assert(count_descriptors() == before);
	return 0;
}
