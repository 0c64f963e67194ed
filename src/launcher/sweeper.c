// SPDX-License-Identifier: Apache-2.0
/*
 * The sweeper: makes, measures and removes volumes. Removing has two halves: the rename to
 * <id>.deleting, which is when the volume is gone for everybody, is answered at once; giving the
 * space back takes up to seconds and is done by a child of the sweeper, one at a time. What a crash
 * left as .creating or .deleting is removed the same way after a start.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "ipc/messages.h"
#include "launcher/launcher.h"
#include "sandbox/knobs.h"

#define SWEEP_EVERY_MS 10000
#define SWEEP_FOR_MS 60000

static struct {
	struct launcher *l;
	int sock;
	int signals;
	pid_t deleter;	     /* 0: none runs */
	bool garbage;	     /* something is left to delete */
	int64_t sweep_at_ms; /* 0: no quota group of a deleted volume is left */
	int64_t sweep_until_ms;
} s;

static void answer(uint8_t type, uint32_t id, const void *body, size_t len)
{
	for (;;) {
		int r = wire_send(s.sock, type, id, body, len, NULL, 0);
		struct pollfd p = { .fd = s.sock, .events = POLLOUT };
		if (r == 0)
			return;
		if (r != -EAGAIN || poll(&p, 1, -1) < 0)
			_exit(0);
	}
}

static void answer_done(uint32_t id, int r, const struct err *err)
{
	struct msg_done body = { .code = r < 0 ? (uint32_t)err->code : 0 };

	if (r < 0)
		snprintf(body.text, sizeof(body.text), "%.199s", err->text);
	answer(SL_DONE, id, &body, sizeof(body));
}

static void on_create(const struct wire_msg *msg)
{
	struct dl_volume_create body;
	struct err err;

	memcpy(&body, msg->body, sizeof(body));
	if (knob_off(KNOB_QUOTA))
		body.limit_bytes = 0;
	answer_done(msg->head.id,
		    volume_create(&s.l->volumes, body.volume, body.tenant, body.limit_bytes, &err),
		    &err);
}

static void on_delete(const struct wire_msg *msg)
{
	struct dl_volume body;
	struct err err;

	memcpy(&body, msg->body, sizeof(body));
	int r = volume_mark_deleted(&s.l->volumes, body.volume, &err);
	answer_done(msg->head.id, r, &err);
	s.garbage = true;
}

static void on_stat(const struct wire_msg *msg)
{
	struct ld_volume_stat body = { 0 };
	struct dl_volume want;
	struct err err;

	memcpy(&want, msg->body, sizeof(want));
	if (volume_stat(&s.l->volumes, want.volume, &body.used_bytes, &body.limit_bytes, &err) < 0)
		body.code = (uint32_t)err.code;
	answer(SL_VOLUME_STAT, msg->head.id, &body, sizeof(body));
}

static void on_status(const struct wire_msg *msg)
{
	struct ld_status body = { 0 };
	struct err err;

	if (volumes_space(&s.l->volumes, &body.volume_bytes, &body.volume_free, &err) < 0)
		log_event(LOG_WARN, "volume_space", LOG_STR("why", err.text));
	answer(SL_STATUS, msg->head.id, &body, sizeof(body));
}

static _Noreturn void delete_all(void)
{
	const struct sched_param none = { 0 };
	struct err err;
	int r;

	sched_setscheduler(0, SCHED_BATCH, &none);
	while ((r = volume_delete_next(&s.l->volumes, &err)) > 0)
		;
	if (r < 0)
		log_event(LOG_WARN, "volume_delete", LOG_STR("why", err.text));
	_exit(r < 0);
}

static void start_deleter(void)
{
	s.garbage = false;
	s.deleter = fork();
	if (s.deleter == 0)
		delete_all();
	if (s.deleter < 0)
		s.deleter = 0;
}

static void reap_deleter(void)
{
	struct signalfd_siginfo info;
	pid_t pid;

	while (read(s.signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		;
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		if (pid == s.deleter) {
			s.deleter = 0;
			s.sweep_at_ms = clock_monotonic_ms() + SWEEP_EVERY_MS;
			s.sweep_until_ms = clock_monotonic_ms() + SWEEP_FOR_MS;
		}
}

/* Quota groups can go only after the kernel's cleaner has taken the volume apart. Done here and not
 * in the deleter: a group that is swept while a volume is made in it would leave that volume
 * without a limit. */
static void sweep_groups(int64_t now)
{
	struct err err;
	int r;

	if (!s.sweep_at_ms || now < s.sweep_at_ms)
		return;
	while ((r = volume_sweep(&s.l->volumes, &err)) > 0)
		;
	if (r < 0)
		log_event(LOG_WARN, "quota_sweep", LOG_STR("why", err.text));
	s.sweep_at_ms = now < s.sweep_until_ms ? now + SWEEP_EVERY_MS : 0;
}

static int next_sweep(int64_t now)
{
	if (!s.sweep_at_ms)
		return -1;
	return s.sweep_at_ms > now ? (int)(s.sweep_at_ms - now) : 0;
}

static void on_message(const struct wire_msg *msg)
{
	switch (msg->head.type) {
	case LS_VOLUME_CREATE:
		on_create(msg);
		break;
	case LS_VOLUME_DELETE:
		on_delete(msg);
		break;
	case LS_VOLUME_STAT:
		on_stat(msg);
		break;
	case LS_STATUS:
		on_status(msg);
		break;
	}
}

_Noreturn void sweeper_main(struct launcher *l, int sock)
{
	sigset_t child;

	s.l = l;
	s.sock = sock;
	s.garbage = true;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	s.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s.signals < 0)
		_exit(1);
	for (;;) {
		struct pollfd p[] = { { .fd = sock, .events = POLLIN },
				      { .fd = s.signals, .events = POLLIN } };
		struct wire_msg msg;

		if (s.garbage && !s.deleter)
			start_deleter();
		sweep_groups(clock_monotonic_ms());
		if (poll(p, 2, next_sweep(clock_monotonic_ms())) < 0)
			continue;
		if (p[1].revents)
			reap_deleter();
		if (!p[0].revents)
			continue;
		int r = wire_recv(sock, &wire_ls, &msg);
		if (r == -EAGAIN)
			continue;
		if (r <= 0)
			_exit(r < 0);
		on_message(&msg);
		wire_msg_fini(&msg);
	}
}
