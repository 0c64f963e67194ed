// SPDX-License-Identifier: Apache-2.0
/*
 * Volumes as airlockd asks for them: the hand-over role here, a real sweeper as its child, real
 * file systems; airlockd is the test. Needs what test-volume needs.
 */
#include "launcher/handover-daemon.c"
#include "launcher/handover-gateway.c"
#include "launcher/handover-policy.c"
#include "launcher/handover.c"

#include <sched.h>
#include <sys/file.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include "base/mem.h"
#include "launcher/test-volume-rig.h"

#define TENANT 7u
#define OTHER 8u
#define LIMIT (64 * MIB)
#define MAPPED 100001u /* what disk's 1000 is in the sandbox of these tests */

#define A "sbx_00000000000a"
#define B "sbx_00000000000b"
#define X "sbx_0000000000ff" /* of OTHER */
#define S "snp_00000000000a"
#define U "snp_00000000000b" /* unsealed */

static struct launcher launcher;
static int daemon_end = -1, userns = -1;
static pid_t sweeper;

_Noreturn void builder_main(struct launcher *l, int sock)
{
	(void)l;
	_exit(sock < 0);
}

/* No process is started here but the sweeper, by the test itself. */
int peer_start_role(struct peer *p, struct launcher *l, void (*role)(struct launcher *l, int sock),
		    struct err *ret)
{
	(void)p;
	(void)l;
	(void)role;
	return err_set(ret, ENOSYS, "not here");
}

int peer_start_daemon(struct peer *p, struct launcher *l, struct err *ret)
{
	(void)p;
	(void)l;
	return err_set(ret, ENOSYS, "not here");
}

int peer_start_gateway(struct peer *p, struct launcher *l, struct err *ret)
{
	return peer_start_daemon(p, l, ret);
}

int peer_channel_open(int ret_socks[2], struct err *ret)
{
	return wire_pair_open(ret_socks, ret);
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

/* ---- the stage ------------------------------------------------------------------------------- */

/* A user namespace with the two ids of a sandbox. */
static int make_userns(void)
{
	char path[64];
	int sync[2];

	assert_int_equal(pipe(sync), 0);
	pid_t pid = fork();
	if (pid == 0) {
		char c;
		close(sync[1]);
		_exit(unshare(CLONE_NEWUSER) < 0 || kill(getpid(), SIGSTOP) < 0 ||
		      read(sync[0], &c, 1) < 0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	static const char *const files[] = { "uid_map", "gid_map" };
	for (int i = 0; i < 2; i++) {
		static const char map[] = "0 100000 1\n1000 100001 1\n";
		snprintf(path, sizeof(path), "/proc/%d/%s", pid, files[i]);
		_cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);
		assert_int_equal(write(fd, map, sizeof(map) - 1), sizeof(map) - 1);
	}
	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	close(sync[0]);
	close(sync[1]);
	return fd;
}

static void start_sweeper(void)
{
	int socks[2];

	ok(wire_pair_open(socks, &err));
	sweeper = fork();
	if (sweeper == 0) {
		close(socks[0]);
		sweeper_main(&launcher, socks[1]);
	}
	close(socks[1]);
	h.peers[PEER_SWEEPER] = (struct peer){ .name = "sweeper", .sock = socks[0] };
}

static void end_sweeper(void)
{
	int status;

	fd_close(&h.peers[PEER_SWEEPER].sock);
	assert_int_equal(waitpid(sweeper, &status, 0), sweeper);
	assert_int_equal(status, 0);
}

static void start_daemon(void)
{
	int socks[2];

	ok(wire_pair_open(socks, &err));
	h.peers[PEER_DAEMON] =
		(struct peer){ .name = "airlockd", .sock = socks[0], .greeted = true };
	daemon_end = socks[1];
}

static int open_stage(void **state)
{
	if (rig_setup(state) < 0)
		return -1;
	if (v.root_fd < 0)
		return 0;
	log_init("test", (enum log_level) - 1);
	launcher.volumes = v;
	h.l = &launcher;
	policies_init();
	for (size_t i = 0; i < LAYOUT_SLOTS; i++) {
		struct sandbox *s = &h.sandboxes[i];
		s->pidfd = s->control = s->handover = s->userns = s->catch = -1;
		for (size_t k = 0; k < LD_SLOT_FDS; k++)
			s->measure[k] = -1;
		for (size_t k = 0; k < NET_FDS; k++)
			s->net[k] = -1;
	}
	userns = make_userns();
	start_daemon();
	start_sweeper();
	return 0;
}

static int close_stage(void **state)
{
	if (v.root_fd >= 0) {
		end_sweeper();
		fd_close(&h.peers[PEER_DAEMON].sock);
		fd_close(&daemon_end);
		fd_close(&userns);
	}
	return rig_teardown(state);
}

/* ---- airlockd -------------------------------------------------------------------------------- */

static void say(uint8_t type, uint32_t id, const void *body, size_t len)
{
	assert_int_equal(wire_send(daemon_end, type, id, body, len, NULL, 0), 0);
	drain(PEER_DAEMON);
}

/* The next answer, whoever it is for. */
static struct wire_msg next_answer(void)
{
	struct wire_msg msg;
	int r;

	while ((r = wire_recv(daemon_end, &wire_ld, &msg)) == -EAGAIN) {
		struct pollfd p = { .fd = h.peers[PEER_SWEEPER].sock, .events = POLLIN };
		assert_int_equal(poll(&p, 1, 60000), 1);
		drain(PEER_SWEEPER);
	}
	assert_int_equal(r, 1);
	return msg;
}

static void done(uint32_t id, unsigned code)
{
	struct wire_msg msg = next_answer();
	struct msg_done body;

	assert_int_equal(msg.head.type, LD_DONE);
	assert_int_equal(msg.head.id, id);
	memcpy(&body, msg.body, sizeof(body));
	if (body.code != code)
		fail_msg("%u instead of %u: %s", body.code, code, body.text);
}

static void ask_create(uint32_t id, const char *name, uint32_t tenant, const char *source)
{
	struct dl_volume_create body = { .tenant = tenant, .limit_bytes = LIMIT };

	snprintf(body.volume, sizeof(body.volume), "%s", name);
	snprintf(body.source, sizeof(body.source), "%s", source);
	say(DL_VOLUME_CREATE, id, &body, sizeof(body));
}

static void ask_snapshot(uint32_t id, const char *volume, const char *name, uint32_t tenant)
{
	struct dl_snapshot_create body = { .tenant = tenant };

	snprintf(body.volume, sizeof(body.volume), "%s", volume);
	snprintf(body.snapshot, sizeof(body.snapshot), "%s", name);
	say(DL_SNAPSHOT_CREATE, id, &body, sizeof(body));
}

static void ask_about(uint8_t type, uint32_t id, const char *name)
{
	struct dl_volume body = { 0 };

	snprintf(body.volume, sizeof(body.volume), "%s", name);
	say(type, id, &body, sizeof(body));
}

static void remove_all(void)
{
	static const char *const names[] = { A, B, X, S, U };

	for (uint32_t i = 0; i < ARRAY_SIZE(names); i++) {
		ask_about(DL_VOLUME_DELETE, 900 + i, names[i]);
		done(900 + i, 0);
	}
}

static uint64_t promised(void)
{
	struct ld_status body;

	say(DL_STATUS, 800, NULL, 0);
	struct wire_msg msg = next_answer();
	assert_int_equal(msg.head.type, LD_STATUS);
	assert_int_equal(msg.head.id, 800);
	memcpy(&body, msg.body, sizeof(body));
	assert_int_equal(body.volume_bytes, VOLUME_SIZE);
	assert_true(body.volume_free > 0);
	return body.volume_promised;
}

static bool exists(const char *name)
{
	return faccessat(v.volumes_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* ---- hand-over ------------------------------------------------------------------------------- */

/* A blank sandbox of the tenant; returns init's end. */
static int make_sandbox(uint32_t tenant)
{
	struct sandbox *s = &h.sandboxes[0];
	int socks[2];

	ok(wire_pair_open(socks, &err));
	s->state = BLANK;
	s->generation = ++h.generations;
	s->tenant = tenant;
	s->pidfd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	s->handover = socks[0];
	s->userns = fcntl(userns, F_DUPFD_CLOEXEC, 3);
	return socks[1];
}

static void hand(const char *volume, const char *source)
{
	struct dl_handover body = { .sandbox = sandbox_name(&h.sandboxes[0]) };

	snprintf(body.volume, sizeof(body.volume), "%s", volume);
	snprintf(body.source, sizeof(body.source), "%s", source);
	say(DL_HANDOVER, 1, &body, sizeof(body));
}

static void make_five(void)
{
	ask_create(1, A, TENANT, "");
	done(1, 0);
	ask_create(2, X, OTHER, "");
	done(2, 0);
	ask_snapshot(3, A, S, TENANT);
	done(3, 0);
	ask_about(DL_SNAPSHOT_SEAL, 4, S);
	done(4, 0);
	ask_snapshot(5, A, U, TENANT);
	done(5, 0);
}

static void a_mount_is(int mount, unsigned long wanted)
{
	const unsigned long all = ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOEXEC;
	struct statvfs fs;
	struct stat st;

	assert_int_equal(fstatvfs(mount, &fs), 0);
	assert_int_equal(fs.f_flag & all, wanted);
	assert_int_equal(fstat(mount, &st), 0);
	assert_int_equal(st.st_uid, MAPPED);
	assert_int_equal(st.st_gid, MAPPED);
	if (wanted & ST_RDONLY) {
		assert_int_equal(openat(mount, "new", O_CREAT | O_WRONLY | O_CLOEXEC, 0600), -1);
		assert_int_equal(errno, EROFS);
	}
}

static void a_source_comes_along_read_only(void **state)
{
	static const char *const sources[] = { S, A, "" };

	need_host();
	make_five();
	ask_create(6, B, TENANT, "");
	done(6, 0);
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		_cleanup_fd_ int init = make_sandbox(TENANT);
		struct wire_msg msg;

		hand(i == 0 ? U : B, sources[i]);
		assert_int_equal(wire_recv(init, &wire_li, &msg), 1);
		assert_int_equal(msg.head.type, LI_ATTACH);
		assert_int_equal(msg.n_fds, sources[i][0] ? 2 : 1);
		a_mount_is(msg.fds[0], ST_NOSUID | ST_NODEV);
		if (sources[i][0])
			a_mount_is(msg.fds[1], ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOEXEC);
		wire_msg_fini(&msg);
		assert_int_equal(wire_recv(init, &wire_li, &msg), 0); /* and nothing more */
		sandbox_release(&h.sandboxes[0]);
	}
	remove_all();
}

static void what_must_not_be_attached_kills_the_sandbox(void **state)
{
	static const struct {
		const char *volume, *source;
		uint32_t tenant;
		unsigned code;
	} rows[] = {
		{ X, "", TENANT, EACCES },
		{ A, X, TENANT, EACCES },
		{ A, S, OTHER, EACCES },
		{ X, S, OTHER, EACCES },
		{ X, A, OTHER, EACCES },
		{ S, "", TENANT, EROFS },
		{ S, A, TENANT, EROFS },
		{ A, U, TENANT, EBUSY },
		{ B, "", TENANT, ENOENT },
		{ A, B, TENANT, ENOENT },
		{ "snp_0000000000ee", "", TENANT, ENOENT },
	};

	need_host();
	make_five();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_fd_ int init = make_sandbox(rows[i].tenant);
		struct ld_handover_failed body;
		struct wire_msg msg;

		hand(rows[i].volume, rows[i].source);
		assert_int_equal(wire_recv(init, &wire_li, &msg), 0);
		msg = next_answer();
		assert_int_equal(msg.head.type, LD_HANDOVER_FAILED);
		memcpy(&body, msg.body, sizeof(body));
		assert_int_equal(body.code, rows[i].code);
		assert_true(h.sandboxes[0].doomed);
		sandbox_release(&h.sandboxes[0]);
	}
	remove_all();
}

/* ---- what there is --------------------------------------------------------------------------- */

#define MANY 5000u

static void make_many(void)
{
	char name[MSG_VOLUME_NAME];

	for (uint32_t i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "sbx_%012x", i);
		assert_int_equal(mkdirat(v.volumes_fd, name, 0755), 0);
		_cleanup_fd_ int fd = openat(v.volumes_fd, name, O_RDONLY | O_CLOEXEC);
		assert_int_equal(fsetxattr(fd, "trusted.airlock.tenant", &i, sizeof(i), 0), 0);
	}
}

static void remove_many(void)
{
	char name[MSG_VOLUME_NAME];

	for (uint32_t i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "sbx_%012x", i);
		assert_int_equal(unlinkat(v.volumes_fd, name, AT_REMOVEDIR), 0);
	}
}

/* Every slot is measured and has a blank sandbox; all borrow fd. */
static void fill_slots(int fd)
{
	for (struct sandbox *s = h.sandboxes; s < h.sandboxes + LAYOUT_SLOTS; s++) {
		s->state = BLANK;
		s->generation = ++h.generations;
		s->tenant = TENANT;
		s->control = fd;
		for (size_t k = 0; k < LD_SLOT_FDS; k++)
			s->measure[k] = fd;
	}
}

static void clear_slots(void)
{
	for (struct sandbox *s = h.sandboxes; s < h.sandboxes + LAYOUT_SLOTS; s++) {
		s->control = -1;
		for (size_t k = 0; k < LD_SLOT_FDS; k++)
			s->measure[k] = -1;
		s->state = FREE;
		s->generation = 0;
	}
}

/* A new one, whose hello was read. */
static void greet(void)
{
	struct msg_hello hello = { 0 };

	fd_close(&daemon_end);
	fd_close(&h.peers[PEER_DAEMON].sock);
	start_daemon();
	h.peers[PEER_DAEMON].greeted = false;
	memcpy(hello.build, ipc_build_id, strlen(ipc_build_id));
	say(DL_HELLO, 1, &hello, sizeof(hello));
	assert_false(daemon_is_ready());
}

/* As the loop does it, until there is no more room or nothing more to say. */
static void list_some(void)
{
	struct pollfd p = { .fd = h.peers[PEER_DAEMON].sock, .events = POLLOUT };

	while (h.unlisted && poll(&p, 1, 0) > 0)
		daemon_list();
	assert_true(h.peers[PEER_DAEMON].sock >= 0);
}

struct heard {
	unsigned slots[LAYOUT_SLOTS], sandboxes[LAYOUT_SLOTS], gone;
	bool ready;
	uint32_t volumes;
};

static void check_volumes(int fd, uint32_t n)
{
	static struct ld_volume records[MANY];
	static bool seen[MANY];

	assert_int_equal(n, MANY);
	assert_int_equal(fcntl(fd, F_GET_SEALS),
			 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	assert_int_equal(lseek(fd, 0, SEEK_END), sizeof(records));
	assert_int_equal(pread(fd, records, sizeof(records), 0), sizeof(records));
	memset(seen, 0, sizeof(seen));
	for (uint32_t i = 0; i < MANY; i++) {
		char name[MSG_VOLUME_NAME];
		uint32_t tenant = records[i].tenant;
		assert_true(tenant < MANY && !seen[tenant]);
		seen[tenant] = true;
		snprintf(name, sizeof(name), "sbx_%012x", tenant);
		assert_string_equal(records[i].volume, name);
	}
}

static void hear(struct heard *heard)
{
	struct ld_sandbox sandbox;
	struct ld_ready ready;
	struct ld_slot slot;
	struct wire_msg msg;

	while (wire_recv(daemon_end, &wire_ld, &msg) == 1) {
		assert_false(heard->ready);
		memcpy(&slot, msg.body, sizeof(slot));
		memcpy(&sandbox, msg.body, sizeof(sandbox));
		memcpy(&ready, msg.body, sizeof(ready));
		if (msg.head.type == LD_SLOT) {
			heard->slots[slot.slot]++;
		} else if (msg.head.type == LD_SANDBOX) {
			assert_true(heard->slots[sandbox.sandbox.slot] > 0);
			heard->sandboxes[sandbox.sandbox.slot]++;
		} else if (msg.head.type == LD_GONE) {
			heard->gone++;
		} else if (msg.head.type == LD_READY) {
			heard->ready = true;
			check_volumes(msg.fds[0], ready.n);
		} else {
			assert_int_equal(msg.head.type, LD_HELLO);
		}
		wire_msg_fini(&msg);
	}
}

/* Its socket holds a part of the list; the rest comes as it reads. What happens meanwhile is said
 * as well, but once, and nothing that only one with the whole list understands. */
static void a_late_reader_gets_a_list_of_any_length(void **state)
{
	_cleanup_fd_ int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct heard heard = { 0 };

	need_host();
	make_many();
	fill_slots(fd);
	greet();
	list_some();
	assert_true(h.unlisted > LAYOUT_SLOTS);
	h.sandboxes[0].control = -1;
	gone(&h.sandboxes[0]);
	daemon_announce_slot(&h.sandboxes[1]);
	daemon_announce_slot(&h.sandboxes[LAYOUT_SLOTS - 1]);
	daemon_announce(&h.sandboxes[2]);
	daemon_build_failed(0, EAGAIN, "the builder was restarted");
	gateway_connect();
	policies_reload();
	assert_true(h.peers[PEER_DAEMON].sock >= 0);
	while (!heard.ready) {
		uint32_t before = h.unlisted;
		hear(&heard);
		list_some();
		assert_true(heard.ready || h.unlisted < before || !h.unlisted);
	}
	assert_true(daemon_is_ready());
	assert_int_equal(heard.gone, 1);
	for (uint32_t i = 0; i < LAYOUT_SLOTS; i++) {
		assert_int_equal(heard.slots[i], i == 1 ? 2 : 1);
		assert_int_equal(heard.sandboxes[i], i == 0 ? 0 : 1);
	}
	clear_slots();
	remove_many();
}

/* airlockd would forget the sessions of all that are not in it. */
static void without_the_volumes_there_is_no_list(void **state)
{
	struct heard heard = { 0 };
	int volumes = v.volumes_fd;

	need_host();
	greet();
	h.l->volumes.volumes_fd = userns; /* no folder */
	while (h.unlisted)
		daemon_list();
	h.l->volumes.volumes_fd = volumes;
	assert_int_equal(h.peers[PEER_DAEMON].sock, -1);
	hear(&heard);
	assert_false(heard.ready);
	fd_close(&daemon_end);
	start_daemon();
}

/* The next one is told nothing before its hello. */
static void a_list_ends_with_who_it_was_for(void **state)
{
	need_host();
	greet();
	daemon_list();
	assert_true(h.unlisted > 0);
	peer_ended(PEER_DAEMON, SIGKILL);
	assert_int_equal(h.unlisted, 0);
	fd_close(&daemon_end);
	start_daemon();
}

/* ---- the sweeper ----------------------------------------------------------------------------- */

static void a_name_that_is_none_ends_airlockd(void **state)
{
	need_host();
	for (int i = 0; i < 7; i++) {
		switch (i) {
		case 0:
			ask_create(1, A, TENANT, "../x");
			break;
		case 1:
			ask_create(1, "sbx_1", TENANT, "");
			break;
		case 2:
			ask_snapshot(1, A, B, TENANT); /* a workspace is no snapshot */
			break;
		case 3:
			ask_snapshot(1, "volumes", S, TENANT);
			break;
		case 4:
			ask_about(DL_SNAPSHOT_SEAL, 1, "snp_0000000000/a");
			break;
		case 5:
			ask_about(DL_VOLUME_LIMIT, 1, ""); /* too short as well */
			break;
		case 6:
			hand(A, "snp_..");
			break;
		}
		assert_int_equal(h.peers[PEER_DAEMON].sock, -1);
		fd_close(&daemon_end);
		start_daemon();
	}
}

static void everything_is_answered_with_what_came_of_it(void **state)
{
	struct dl_volume_limit limit = { .limit_bytes = 3 * LIMIT, .volume = B };

	need_host();
	make_five();
	ask_create(11, B, TENANT, S);
	done(11, 0);
	ask_create(12, B, TENANT, S);
	done(12, EEXIST);
	ask_create(13, "sbx_0000000000ee", OTHER, S);
	done(13, EACCES);
	ask_create(14, "sbx_0000000000ee", TENANT, U);
	done(14, EBUSY);
	ask_create(15, "sbx_0000000000ee", TENANT, "snp_0000000000ee");
	done(15, ENOENT);
	ask_about(DL_SNAPSHOT_SEAL, 16, A);
	done(16, EINVAL);
	assert_int_equal(promised(), 3 * LIMIT);
	say(DL_VOLUME_LIMIT, 17, &limit, sizeof(limit));
	done(17, 0);
	assert_int_equal(promised(), 5 * LIMIT);
	end_sweeper();
	start_sweeper(); /* counts what there is */
	assert_int_equal(promised(), 5 * LIMIT);
	remove_all();
	assert_int_equal(promised(), 0);
}

/* What an earlier test of the same name wrote is charged until the kernel's cleaner was there. */
static void make_large(void)
{
	struct dl_volume_create body = { .tenant = TENANT, .tenant_limit_mb = 4097, .volume = A };

	body.limit_bytes = VOLUME_SIZE;
	say(DL_VOLUME_CREATE, 1, &body, sizeof(body));
	done(1, 0);
}

static int write_much(void)
{
	static char block[MIB];
	int fd = open("much", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	for (int i = 0; fd >= 0 && i < 48; i++) {
		memset(block, i, sizeof(block));
		if (write(fd, block, sizeof(block)) != (ssize_t)sizeof(block))
			return errno;
	}
	return fd < 0 ? errno : 0;
}

static uint32_t next_is_done(void)
{
	struct wire_msg msg = next_answer();
	struct msg_done body;

	assert_int_equal(msg.head.type, LD_DONE);
	memcpy(&body, msg.body, sizeof(body));
	assert_int_equal(body.code, 0);
	return msg.head.id;
}

/* A snapshot waits for the disk; nobody waits for the snapshot. On a busy machine it may be ready
 * before the other one has had its turn. */
static void a_snapshot_keeps_no_other_waiting(void **state)
{
	bool overtaken = false;

	need_host();
	make_large();
	for (int i = 0; i < 20 && !overtaken; i++) {
		assert_int_equal(as_tenant(A, write_much), 0);
		ask_snapshot(2, A, S, TENANT);
		ask_create(3, X, OTHER, "");
		uint32_t first = next_is_done(), second = next_is_done();
		assert_int_equal(first + second, 2 + 3);
		overtaken = first == 3;
		ask_about(DL_VOLUME_DELETE, 4, S);
		done(4, 0);
		ask_about(DL_VOLUME_DELETE, 5, X);
		done(5, 0);
	}
	assert_true(overtaken);
	remove_all();
}

static void what_follows_for_a_name_waits_for_it(void **state)
{
	need_host();
	make_large();
	assert_int_equal(as_tenant(A, write_much), 0);
	ask_snapshot(2, A, S, TENANT);
	ask_about(DL_SNAPSHOT_SEAL, 3, S);
	ask_about(DL_VOLUME_DELETE, 4, S);
	for (uint32_t i = 2; i <= 4; i++)
		done(i, 0);
	assert_false(exists(S));
	assert_false(exists(S VOLUME_CREATING));
	remove_all();
}

static pid_t child_of(pid_t parent)
{
	char path[64], text[64] = "";

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 ? (pid_t)strtol(text, NULL, 10) : 0;
}

/* Whoever was at work on it; the answer may have come before. */
static void a_child_that_dies_is_answered_for(void **state)
{
	bool killed = false;

	need_host();
	make_large();
	for (uint32_t i = 0; i < 50 && !killed; i++) {
		assert_int_equal(as_tenant(A, write_much), 0);
		ask_snapshot(2, A, S, TENANT);
		pid_t pid = 0;
		for (int k = 0; k < 1000 && !pid; k++)
			pid = child_of(sweeper);
		if (pid)
			kill(pid, SIGKILL);
		struct msg_done body;
		struct wire_msg msg = next_answer();
		assert_int_equal(msg.head.id, 2);
		memcpy(&body, msg.body, sizeof(body));
		killed = body.code == EIO;
		assert_true(killed || body.code == 0 || body.code == EEXIST);
		ask_about(DL_VOLUME_DELETE, 3, S);
		done(3, 0);
		assert_false(exists(S VOLUME_CREATING));
	}
	assert_true(killed);
	ask_snapshot(4, A, U, TENANT);
	done(4, 0);
	remove_all();
}

static void wait_for_stop(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	assert_true(WIFSTOPPED(status));
}

/* From now on the sweeper's next child is stopped before its first step. */
static void catch_child(void)
{
	assert_int_equal(ptrace(PTRACE_SEIZE, sweeper, NULL, (void *)PTRACE_O_TRACEFORK), 0);
}

static pid_t caught_child(void)
{
	unsigned long pid = 0;

	wait_for_stop(sweeper);
	assert_int_equal(ptrace(PTRACE_GETEVENTMSG, sweeper, NULL, &pid), 0);
	wait_for_stop((pid_t)pid);
	assert_int_equal(ptrace(PTRACE_DETACH, sweeper, NULL, NULL), 0);
	return (pid_t)pid;
}

/* Its parent is told when its tracer has been. */
static void kill_caught(pid_t pid)
{
	int status;

	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	assert_true(WIFSIGNALED(status));
}

/* A copy that is there already when its maker dies is nobody's, but it counts until it is deleted.
 * The maker is stopped before its first step, and what it was to make is made here. */
static void what_a_child_made_before_it_died_is_counted(void **state)
{
	bool made = false;

	need_host();
	make_five();
	/* A child may be one that deletes what was there before. */
	for (uint32_t i = 0; i < 20 && !made; i++) {
		struct msg_done body;

		catch_child();
		ask_create(11, B, TENANT, S);
		pid_t pid = caught_child();
		bool ours = !exists(B) && create_from(S, B, TENANT, LIMIT) == 0;
		kill_caught(pid);
		struct wire_msg msg = next_answer();
		assert_int_equal(msg.head.id, 11);
		memcpy(&body, msg.body, sizeof(body));
		made = ours && body.code == EIO;
		assert_true(exists(B));
		/* Where the maker lived and found ours in its place, nobody has promised it. */
		bool unpromised = ours && body.code == EEXIST;
		assert_int_equal(promised(), (unpromised ? 2 : 3) * LIMIT);
		ask_about(DL_VOLUME_DELETE, 12, B);
		done(12, 0);
		if (unpromised) {
			end_sweeper();
			start_sweeper(); /* counts what there is */
		}
		assert_int_equal(promised(), 2 * LIMIT);
	}
	assert_true(made);
	remove_all();
}

static void wait_until_gone(const char *name)
{
	for (int i = 0; exists(name) && i < 12000; i++)
		nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
	assert_false(exists(name));
}

static void what_a_killed_deleter_left_is_deleted_by_the_next(void **state)
{
	bool killed = false;

	need_host();
	make_large();
	for (uint32_t i = 0; i < 50 && !killed; i++) {
		ask_snapshot(2, A, U, TENANT);
		done(2, 0);
		ask_about(DL_VOLUME_DELETE, 3, U);
		done(3, 0);
		pid_t pid = 0;
		while (!pid && exists(U VOLUME_DELETING))
			pid = child_of(sweeper);
		if (pid)
			kill(pid, SIGKILL);
		killed = pid && exists(U VOLUME_DELETING);
		wait_until_gone(U VOLUME_DELETING);
	}
	assert_true(killed);
	remove_all();
}

/* As the kernel does for a child that was in the middle of making one when its sweeper died. */
static void make_late(int orders, int says)
{
	char path[64], text[4] = "";
	pid_t next;
	int lock = openat(v.volumes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (flock(lock, LOCK_EX) < 0 || write(says, "x", 1) != 1 ||
	    read(orders, &next, sizeof(next)) != sizeof(next))
		_exit(1);
	snprintf(path, sizeof(path), "/proc/%d/syscall", next);
	for (int i = 0; i < 2000 && strncmp(text, "73 ", 3) != 0; i++) { /* flock, x86-64 */
		_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || read(fd, text, 3) < 0)
			_exit(2);
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	_exit(mkdirat(v.volumes_fd, B VOLUME_CREATING, 0700) < 0 ? 3 : 0);
}

static void a_sweeper_begins_when_all_of_an_earlier_one_has_ended(void **state)
{
	int status, orders[2], says[2];
	char ready;

	need_host();
	end_sweeper();
	assert_int_equal(pipe2(orders, O_CLOEXEC), 0);
	assert_int_equal(pipe2(says, O_CLOEXEC), 0);
	pid_t late = fork();
	if (late == 0)
		make_late(orders[0], says[1]);
	assert_int_equal(read(says[0], &ready, 1), 1);
	start_sweeper();
	assert_int_equal(write(orders[1], &sweeper, sizeof(sweeper)), sizeof(sweeper));
	ask_about(DL_VOLUME_DELETE, 1, B);
	done(1, 0);
	assert_int_equal(waitpid(late, &status, 0), late);
	assert_int_equal(status, 0);
	assert_false(exists(B VOLUME_CREATING));
	wait_until_gone(B VOLUME_DELETING);
	for (int i = 0; i < 2; i++) {
		close(orders[i]);
		close(says[i]);
	}
}

static void a_lost_sweeper_is_answered_for(void **state)
{
	int status;

	need_host();
	kill(sweeper, SIGSTOP);
	ask_create(1, A, TENANT, "");
	ask_about(DL_VOLUME_STAT, 2, A);
	kill(sweeper, SIGKILL);
	assert_int_equal(waitpid(sweeper, &status, 0), sweeper);
	peer_ended(PEER_SWEEPER, status);
	done(1, EAGAIN);
	struct wire_msg msg = next_answer();
	assert_int_equal(msg.head.type, LD_VOLUME_STAT);
	assert_int_equal(msg.head.id, 2);
	start_sweeper();
	ask_create(3, B, TENANT, "");
	done(3, 0);
	remove_all();
}

/* For all that have a copy of it. */
static void hang_up(void)
{
	assert_int_equal(shutdown(daemon_end, SHUT_RDWR), 0);
	fd_close(&daemon_end);
}

/* It closed its socket on its way out: why it ends is in its exit status. */
static void who_hung_up_is_not_killed_at_once(void **state)
{
	struct peer *p = &h.peers[PEER_DAEMON];

	need_host();
	hang_up();
	int64_t before_ms = clock_monotonic_ms();
	daemon_send(LD_READY, 0, NULL, 0, NULL, 0);
	assert_int_equal(p->sock, -1);
	assert_true(p->kill_at_ms > before_ms);
	start_daemon();
	hang_up();
	before_ms = clock_monotonic_ms();
	drain(PEER_DAEMON);
	assert_int_equal(p->sock, -1);
	assert_true(p->kill_at_ms > before_ms);
	start_daemon();
}

static void who_does_not_read_is_killed(void **state)
{
	struct peer *p = &h.peers[PEER_DAEMON];
	int sent = 0;

	need_host();
	for (; p->sock >= 0 && sent < 100000; sent++)
		daemon_send(LD_READY, 0, NULL, 0, NULL, 0);
	assert_int_equal(p->sock, -1);
	assert_int_equal(p->kill_at_ms, 0);
	assert_true(sent > 1);
	fd_close(&daemon_end);
	start_daemon();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_source_comes_along_read_only),
		cmocka_unit_test(what_must_not_be_attached_kills_the_sandbox),
		cmocka_unit_test(a_name_that_is_none_ends_airlockd),
		cmocka_unit_test(everything_is_answered_with_what_came_of_it),
		cmocka_unit_test(what_a_child_made_before_it_died_is_counted),
		cmocka_unit_test(a_snapshot_keeps_no_other_waiting),
		cmocka_unit_test(what_follows_for_a_name_waits_for_it),
		cmocka_unit_test(a_child_that_dies_is_answered_for),
		cmocka_unit_test(what_a_killed_deleter_left_is_deleted_by_the_next),
		cmocka_unit_test(a_sweeper_begins_when_all_of_an_earlier_one_has_ended),
		cmocka_unit_test(a_lost_sweeper_is_answered_for),
		cmocka_unit_test(who_hung_up_is_not_killed_at_once),
		cmocka_unit_test(who_does_not_read_is_killed),
		cmocka_unit_test(a_late_reader_gets_a_list_of_any_length),
		cmocka_unit_test(without_the_volumes_there_is_no_list),
		cmocka_unit_test(a_list_ends_with_who_it_was_for),
	};

	return cmocka_run_group_tests(tests, open_stage, close_stage);
}
