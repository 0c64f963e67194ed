// SPDX-License-Identifier: Apache-2.0
/*
 * What a hostile launcher, a hostile gateway and hostile inits send to airlockd, while commands,
 * file jobs, volume calls, downloads and sessions with egress come and go. Whatever the input:
 * every call is answered exactly once, no descriptor and no libuv handle is left after the close,
 * and as long as the launcher itself kept to the rules nothing that a gateway or an init says ends
 * the link to it.
 *
 * Input: a program. Each step is one byte, its low five bits the operation (table below), its high
 * three bits a number n for it; some take further bytes. A datagram is 1 byte length, 1 byte number
 * of descriptors, the bytes. A message is 1 byte type, then its body cut or filled with zeros to
 * the right length: the id is that of the job or request that is open.
 */
#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/native/fake.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CALLS 64

struct call {
	unsigned done;
	bool detached;
	struct runtime_exec *exec;
	struct runtime_file *file;
	struct runtime_fetch *fetch;
	/* Of a transfer. */
	bool begun, paused;
	uint64_t size, moved;
};

static struct fake f;
static struct call calls[CALLS];
static struct runtime_egress *sessions[8];
static unsigned n_calls;
static bool launcher_broke_rules, copying;
static const uint8_t *at;
static size_t left;

static uint8_t next(void)
{
	if (!left)
		return 0;
	left--;
	return *at++;
}

static unsigned count_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 512; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static struct call *new_call(void)
{
	struct call *c = n_calls < CALLS ? &calls[n_calls++] : NULL;

	if (c)
		*c = (struct call){ 0 };
	return c;
}

static void answered(struct call *c)
{
	assert(!c->done && !c->detached);
	c->done++;
	c->exec = NULL;
	c->file = NULL;
	c->fetch = NULL;
}

static void on_exec(void *data, struct runtime_exec_result *result, const struct err *err)
{
	char bytes[64];

	assert(!result != !err);
	const char *host = result ? result->denied : NULL;
	for (size_t i = 0; result && i < result->n_denied; i++, host += strlen(host) + 1)
		assert(host[0]);
	if (result)
		runtime_output_read(result->streams[0], 0, bytes, sizeof(bytes));
	answered(data);
}

static void on_read(void *data, const struct runtime_file_result *result, struct str bytes,
		    const struct err *err)
{
	assert(err || bytes.len == result->size);
	answered(data);
}

static void on_write(void *data, const struct runtime_file_result *result, const struct err *err)
{
	answered(data);
}

static void on_merged(void *data, const struct runtime_file_result *result, struct str bytes,
		      const struct err *err)
{
	bool conflict = err && strcmp(err->slug, "restore_conflict") == 0;

	assert(conflict ? bytes.len && bytes.len <= LIMIT_PATH && !memchr(bytes.data, 0, bytes.len)
			: err || !bytes.len);
	answered(data);
}

static void on_copied(void *data, const struct runtime_file_result *result, const struct err *err)
{
	copying = false;
	answered(data);
}

static void on_wanted(void *data)
{
	static const char piece[RUNTIME_GIVE_MAX];
	struct call *c = data;
	bool more = true;

	assert(!c->done && !c->detached);
	while (more && c->moved < c->size) {
		uint64_t rest = c->size - c->moved;
		struct str bytes = { piece, rest < sizeof(piece) ? (size_t)rest : sizeof(piece) };
		c->moved += bytes.len;
		more = runtime_upload_give(c->file, bytes);
	}
	if (more)
		runtime_upload_end(c->file);
}

static void on_uploaded(void *data, const struct runtime_file_result *result, const struct err *err)
{
	struct call *c = data;

	assert(err || (c->moved == c->size && result->size == c->size));
	answered(c);
}

static void on_begun(void *data, const struct runtime_file_result *result)
{
	struct call *c = data;

	assert(!c->done && !c->detached && !c->begun);
	c->begun = true;
	c->size = result->size;
}

static bool on_bytes(void *data, struct str bytes)
{
	struct call *c = data;

	assert(!c->done && !c->detached && c->begun && !c->paused);
	c->moved += bytes.len;
	assert(bytes.len && c->moved <= 100);
	c->paused = bytes.len % 2;
	return !c->paused;
}

static void on_downloaded(void *data, const struct runtime_file_result *result,
			  const struct err *err)
{
	struct call *c = data;

	assert(err || (c->begun && c->moved == result->size));
	answered(c);
}

static void on_list(void *data, const struct runtime_entry *entries, size_t n, bool more,
		    const struct err *err)
{
	assert(n <= RUNTIME_LIST_MAX && (!err || !n) && (n || !more));
	for (size_t i = 0; i < n; i++) {
		assert(entries[i].path.len && entries[i].path.len <= 4096);
		assert(!memchr(entries[i].path.data, 0, entries[i].path.len));
		assert(!i || memcmp(entries[i - 1].path.data, entries[i].path.data,
				    entries[i].path.len < entries[i - 1].path.len
					    ? entries[i].path.len
					    : entries[i - 1].path.len) <= 0);
	}
	answered(data);
}

/* Whoever takes no more goes on some time. */
static void resume(void)
{
	for (unsigned i = 0; i < n_calls; i++) {
		struct call *c = &calls[i];
		if (!c->paused || c->done || c->detached)
			continue;
		c->paused = false;
		runtime_download_resume(c->file);
	}
}

static void on_volume(void *data, const struct err *err)
{
	answered(data);
}

static void on_stat(void *data, uint64_t used, const struct err *err)
{
	answered(data);
}

static void on_live(void *data, const struct runtime_live *live, size_t n)
{
	assert(live || !n);
	answered(data);
}

static void on_fetched(void *data, const struct runtime_fetch_result *result)
{
	assert(result->bytes <= 1000 && result->end <= RUNTIME_FETCH_NO_SPACE);
	assert(strlen(result->host) < MSG_TEXT && strlen(result->reason) < MSG_TEXT);
	assert(result->end == RUNTIME_FETCH_REDIRECT || !*result->host);
	assert(result->end == RUNTIME_FETCH_FAILED || !*result->reason);
	answered(data);
}

/* ---- Operations ---- */

#define SNAPSHOT "snp_0123456789ab"

static const struct runtime_file_spec file_spec = { FAKE_VOLUME, 1, FAKE_IMAGE, { "a", 1 } };

static void start_exec(unsigned n)
{
	static const struct runtime_exec_ops ops = { .done = on_exec };
	const struct runtime_exec_spec spec = { .volume = FAKE_VOLUME,
						.tenant = 1 + n % 2,
						.image = FAKE_IMAGE,
						.egress = n & 2 ? sessions[n & 1] : NULL,
						.command = STR("true"),
						.stdin_data = n & 4 ? STR("in") : (struct str){ 0 },
						.timeout_ms = 1000,
						.output_max = 100 };
	struct call *c = new_call();

	if (c)
		c->exec = runtime_exec_start(f.rt, &spec, &ops, c);
}

static void start_upload(struct call *c, uint8_t how)
{
	static const struct runtime_upload_ops up = { on_wanted, on_uploaded };
	struct runtime_upload upload = { .size = RUNTIME_SIZE_UNKNOWN, .max = 1000000 };

	c->size = how & 2 ? 500000 : 5;
	if (how & 1)
		upload.size = c->size;
	c->file = runtime_upload(f.rt, &file_spec, &upload, &up, c);
}

static void start_file(unsigned n)
{
	static const struct runtime_download_ops down = { on_begun, on_bytes, on_downloaded };
	static char bytes[200000];
	struct call *c = new_call();

	if (!c)
		return;
	switch (n) {
	case 0:
		c->file = runtime_file_read(f.rt, &file_spec, 100, on_read, c);
		break;
	case 1:
	case 4:
		c->file = runtime_file_write(f.rt, &file_spec,
					     (struct str){ bytes, n == 4 ? sizeof(bytes) : 5 }, 0,
					     on_write, c);
		break;
	case 2:
		c->file = runtime_file_usage(f.rt, &file_spec, on_write, c);
		break;
	case 3:
		c->file = runtime_download(f.rt, &file_spec, 100, &down, c);
		break;
	case 5:
		c->file = runtime_pack(f.rt, &file_spec, 100, &down, c);
		break;
	case 6:
		c->file = runtime_list(f.rt, &file_spec, STR("a"), 1, on_list, c);
		break;
	default:
		n = next();
		if (n & 64)
			c->file = runtime_file_merge(f.rt, &file_spec,
						     n & 1 ? SNAPSHOT : FAKE_VOLUME, 0, on_merged,
						     c);
		else
			start_upload(c, (uint8_t)n);
	}
}

/* What has to do with snapshots. */
static void call_copy(unsigned n, struct call *c)
{
	const struct runtime_volume_spec copy = {
		.volume = FAKE_VOLUME, .tenant = 1, .source = SNAPSHOT, .image = FAKE_IMAGE
	};
	const struct runtime_snapshot_spec spec = { .volume = FAKE_VOLUME,
						    .snapshot = SNAPSHOT,
						    .tenant = 1,
						    .image = FAKE_IMAGE,
						    .path = STR("a") };

	if (n % 4 == 0 && copying)
		answered(c); /* the core makes one of a name at a time */
	else if (n % 4 == 0)
		runtime_snapshot_create(f.rt, &spec, on_copied, c);
	else if (n % 4 == 1)
		runtime_volume_delete(f.rt, SNAPSHOT, on_volume, c);
	else if (n % 4 == 2)
		runtime_volume_create(f.rt, &copy, on_volume, c);
	else
		runtime_volume_limit(f.rt, FAKE_VOLUME, n, on_volume, c);
	copying |= n % 4 == 0;
}

static void call_volume(unsigned n)
{
	struct call *c = new_call();

	if (!c)
		return;
	if (n & 4)
		call_copy(n, c);
	else if (n % 3 == 0)
		runtime_volume_create(f.rt,
				      &(struct runtime_volume_spec){ .volume = FAKE_VOLUME,
								     .tenant = 1,
								     .limit_bytes = 0 },
				      on_volume, c);
	else if (n % 3 == 1)
		runtime_volume_delete(f.rt, FAKE_VOLUME, on_volume, c);
	else
		runtime_volume_stat(f.rt, FAKE_VOLUME, on_stat, c);
}

static void lose_interest(unsigned n)
{
	for (unsigned i = n; i < n_calls; i++) {
		struct call *c = &calls[i];
		if (c->done || c->detached || (!c->exec && !c->file && !c->fetch))
			continue;
		if (c->exec) {
			runtime_exec_kill(c->exec);
			return;
		}
		c->detached = true;
		if (c->fetch) {
			runtime_fetch_cancel(c->fetch);
			return;
		}
		runtime_file_detach(c->file);
		return;
	}
}

static void send_raw(int sock)
{
	int fds[WIRE_FDS] = { 0, 0, 0, 0 };
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(fds))];
	} control = { .space = "" };
	size_t len = next(), n = next() % (WIRE_FDS + 1);

	if (len > left)
		len = left;
	struct iovec iov = { (void *)(uintptr_t)at, len };
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
	(void)!sendmsg(sock, &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
	at += len;
	left -= len;
}

static void send_message(int sock, const struct wire_pair *pair, uint32_t id)
{
	unsigned char body[WIRE_MAX] = { 0 };
	uint8_t type = (uint8_t)(next() % pair->n_types);
	size_t len = pair->types[type].body;
	int fds[WIRE_FDS] = { 0, 0, 0, 0 };

	for (size_t i = 0; i < len && left; i++)
		body[i] = next();
	wire_send(sock, type, id, body, len, fds, pair->types[type].fds_min);
}

static struct fake_sandbox *pick(unsigned n)
{
	return n < f.n && f.sandboxes[n].init >= 0 ? &f.sandboxes[n] : NULL;
}

static void init_raw(unsigned n)
{
	if (pick(n))
		send_raw(pick(n)->init);
}

static void init_message(unsigned n)
{
	if (pick(n))
		send_message(pick(n)->init, &wire_id, pick(n)->job);
}

static void init_reads(unsigned n)
{
	if (pick(n))
		fake_receive(pick(n));
}

static void init_started(unsigned n)
{
	if (pick(n))
		fake_started(pick(n));
}

static void init_exited(unsigned n)
{
	if (pick(n))
		fake_exited(pick(n), next());
}

static void init_prints(unsigned n)
{
	char text[90] = "text";

	for (unsigned i = 1; pick(n) && i < pick(n)->n_fds; i++)
		(void)!write(pick(n)->fds[i], text, next() % sizeof(text));
	/* Of an upload it has the other end. */
	for (unsigned i = 1; pick(n) && i < pick(n)->n_fds; i++) {
		static char sink[70000];
		int flags = fcntl(pick(n)->fds[i], F_GETFL);
		if ((flags & O_ACCMODE) != O_RDONLY)
			continue;
		fcntl(pick(n)->fds[i], F_SETFL, flags | O_NONBLOCK);
		(void)!read(pick(n)->fds[i], sink, sizeof(sink));
	}
}

static void init_drops(unsigned n)
{
	if (pick(n))
		fake_drop_fds(pick(n));
}

static void init_dies(unsigned n)
{
	if (pick(n))
		fake_die(pick(n));
}

static void sandbox_goes(unsigned n)
{
	if (n < f.n && f.launcher >= 0)
		fake_gone(&f, &f.sandboxes[n]);
}

static void oom_kill(unsigned n)
{
	if (n < f.n)
		fake_measure(&f.sandboxes[n], SLOT_FD_OOM, "oom_kill 1\n");
}

static void launcher_raw(unsigned n)
{
	launcher_broke_rules = true;
	if (f.launcher >= 0)
		send_raw(f.launcher);
}

static void launcher_message(unsigned n)
{
	uint32_t id = n ? f.rt->link.next_id - (n - 1) : 0;

	launcher_broke_rules = true;
	if (f.launcher >= 0)
		send_message(f.launcher, &wire_ld, id);
}

static void launcher_goes(unsigned n)
{
	launcher_broke_rules = true;
	if (f.launcher >= 0)
		close(f.launcher);
	f.launcher = -1;
}

static void handover_fails(unsigned n)
{
	if (n >= f.n || f.launcher < 0)
		return;
	const struct ld_handover_failed body = { f.sandboxes[n].id, next() };
	fake_tell(&f, LD_HANDOVER_FAILED, 0, &body, sizeof(body));
	fake_gone(&f, &f.sandboxes[n]);
}

static void build_fails(unsigned n)
{
	if (f.building && f.launcher >= 0)
		fake_fail_build(&f);
}

static void build_comes(unsigned n)
{
	if (f.building && f.launcher >= 0 && f.n < 8)
		fake_build(&f);
}

static void habits(unsigned n)
{
	f.builds = n & 1;
	f.kills = n & 2;
	f.answers = n & 4;
}

static void fetch(void)
{
	static const char *const hosts[] = { "github.com" };
	const struct runtime_fetch_spec spec = { .url = "https://github.com/a/b/archive/c.tar.gz",
						 .hosts = hosts,
						 .n_hosts = 1,
						 .max_bytes = 1000,
						 .fd = 0,
						 .timeout_ms = 1000 };
	struct call *c = new_call();

	if (c)
		c->fetch = runtime_fetch_start(f.rt, &spec, on_fetched, c);
}

static void warm_or_fetch(unsigned n)
{
	if (n & 4)
		fetch();
	else
		runtime_warm(f.rt, n, FAKE_IMAGE, false);
}

static void turn(unsigned n)
{
	if (n & 1)
		resume();
	fake_turn(&f);
}

static void time_goes(unsigned n)
{
	static const int64_t steps[] = { 1, 100, 250, 500, 1000, 5000, 20000, 250000 };

	fake_advance(&f, steps[n]);
}

static void gateway_comes(unsigned n)
{
	if (f.launcher >= 0)
		fake_gateway(&f, n & 1);
}

static void gateway_raw(unsigned n)
{
	if (f.gateway >= 0)
		send_raw(f.gateway);
}

static void gateway_message(unsigned n)
{
	bool about_fetch = left && *at % wire_gd.n_types == GD_FETCHED;
	const struct gateway *g = &f.rt->gateway;

	if (f.gateway >= 0)
		send_message(f.gateway, &wire_gd, (about_fetch ? g->next_fetch : g->next_live) - n);
}

static void gateway_goes(unsigned n)
{
	if (n & 1)
		fake_gateway_skip(&f);
	else
		fd_close(&f.gateway);
}

static void gateway_denies(unsigned n)
{
	char host[2] = { (char)next(), '\0' };

	if (f.gateway >= 0 && n < f.n)
		fake_deny(&f, &f.sandboxes[n], host);
}

static void session_opens(unsigned n)
{
	static const char *const rules[] = { "pypi.org" };
	const struct runtime_egress_spec spec = {
		.session = FAKE_VOLUME, .tenant = "a", .rules = rules, .n_rules = 1
	};

	if (!sessions[n])
		sessions[n] = runtime_egress_open(f.rt, &spec);
}

static void session_closes(unsigned n)
{
	if (sessions[n])
		runtime_egress_close(f.rt, sessions[n]);
	sessions[n] = NULL;
}

static void ask_live(unsigned n)
{
	struct call *c = sessions[n] ? new_call() : NULL;

	if (c)
		runtime_egress_live(f.rt, sessions[n], on_live, c);
}

static void (*const operations[32])(unsigned n) = {
	start_exec,	  start_file,	   call_volume,	   lose_interest, init_raw,
	init_message,	  init_reads,	   init_started,   init_exited,	  init_prints,
	init_drops,	  init_dies,	   sandbox_goes,   oom_kill,	  launcher_raw,
	launcher_message, launcher_goes,   handover_fails, build_fails,	  build_comes,
	habits,		  warm_or_fetch,   turn,	   time_goes,	  gateway_comes,
	gateway_raw,	  gateway_message, gateway_goes,   session_opens, session_closes,
	ask_live,	  gateway_denies,
};

/* The pure check, on the same bytes. */
static void check_alone(const uint8_t *data, size_t size)
{
	static const struct wire_pair *const pairs[] = { &wire_dl, &wire_ld, &wire_lb, &wire_bl,
							 &wire_ls, &wire_sl, &wire_li, &wire_di,
							 &wire_id, &wire_lg, &wire_gl, &wire_dg,
							 &wire_gd };
	struct wire_head head;

	if (size < sizeof(head))
		return;
	memcpy(&head, data, sizeof(head));
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		if (!wire_check(pairs[i], &head, size - sizeof(head), 0))
			continue;
		assert(head.version == WIRE_VERSION && !head.reserved);
		assert(size - sizeof(head) == pairs[i]->types[head.type].body);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool ready;
	unsigned before;

	if (!ready) {
		log_init("fuzz", LOG_ERROR);
		/* libuv keeps some descriptors of its own once it was used. */
		fake_start(&f, &fake_config);
		fake_stop(&f);
		ready = true;
	}
	before = count_descriptors();
	check_alone(data, size);
	at = data;
	left = size;
	n_calls = 0;
	launcher_broke_rules = false;
	memset(sessions, 0, sizeof(sessions));
	fake_start(&f, &fake_config);
	f.lenient = true;
	while (left) {
		uint8_t op = next();
		if (operations[op & 31])
			operations[op & 31](op >> 5);
	}
	fake_turn(&f);
	assert(launcher_broke_rules || !f.lost);
	fake_stop(&f);
	for (unsigned i = 0; i < n_calls; i++)
		assert(calls[i].done == !calls[i].detached);
	assert(count_descriptors() == before);
	return 0;
}
