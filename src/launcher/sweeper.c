// SPDX-License-Identifier: Apache-2.0
/*
 * The sweeper: makes, measures and removes volumes. Removing has two halves: the rename to
 * <id>.deleting, which is when the volume is gone for everybody, is answered at once; giving the
 * space back takes up to seconds and is done by a child of the sweeper, one at a time. What a crash
 * left as .creating or .deleting is removed the same way after a start. While space is short, a
 * deletion is answered only when it has given its space back (HELD_MAX of them, for HOLD_MS): a
 * session keeps its slot until then, so that no tenant's workspaces, with what is left of deleted
 * ones, take more than all of them may.
 *
 * Snapshots and copies wait until what was written to their source is on disk, which nobody else
 * should: each is made by a child (a job), whose exit status is an errno. What concerns the name of
 * what a job makes or seals waits for it, so that for each name things happen in the order they
 * were asked for; a source that is deleted before its copy was begun is missing.
 *
 * The children die with the sweeper, but a call into the kernel is finished first, and may make a
 * volume. So all of them hold a lock together, which the next sweeper takes before it begins.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "ipc/messages.h"
#include "launcher/launcher.h"
#include "sandbox/knobs.h"

#define SWEEP_EVERY_MS 10000
#define SWEEP_FOR_MS 60000
#define SWEEP_AGAIN_MS 100
#define DELETE_AGAIN_MS 1000
#define DELETE_AGAIN_MAX_MS 60000
#define JOBS_MAX 8
#define DELETER_HURRIED 2
#define HELD_MAX 128 /* well below CALLS_MAX, so that others are still asked and answered */
#define HOLD_MS 10000

struct job {
	pid_t pid; /* 0: none */
	uint32_t id;
	char name[MSG_VOLUME_NAME];
};

/* A deletion that is answered late. */
struct held {
	uint32_t id;
	uint32_t round; /* of the deleter that sees to it */
	int64_t until_ms;
};

static struct {
	struct launcher *l;
	int sock;
	int signals;
	pid_t deleter;	      /* 0: none runs */
	uint32_t round;	      /* number of the deleter that was started last */
	bool garbage;	      /* something is left to delete */
	int64_t delete_at_ms; /* not before */
	int64_t delete_wait_ms;
	bool owed;	     /* what was deleted may still hold space */
	int64_t sweep_at_ms; /* 0: no quota group of a deleted volume is left */
	int64_t sweep_until_ms;
	uint64_t promised; /* the limits of all workspaces */
	struct job jobs[JOBS_MAX];
	struct held held[HELD_MAX]; /* in the order in which they came */
	size_t n_held;
	bool stopping; /* nothing is held any more */
} s;

/* Its hard limit as it is kept, which is what it adds to the promise of all. */
static uint64_t limit_of(const char *name)
{
	uint64_t used, limit = 0;
	struct err ignored;

	if (!volume_is_snapshot(name))
		volume_stat(&s.l->volumes, name, &used, &limit, &ignored);
	return limit;
}

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

/* ---- jobs ------------------------------------------------------------------------------------ */

static struct job *find_job(pid_t pid)
{
	for (struct job *j = s.jobs; j < s.jobs + JOBS_MAX; j++)
		if (j->pid == pid)
			return j;
	return NULL;
}

/* What a job makes is counted at its end. */
static void add_promise(void *data, const char *name, uint32_t tenant)
{
	(void)data;
	(void)tenant;
	for (const struct job *j = s.jobs; j < s.jobs + JOBS_MAX; j++)
		if (j->pid && strcmp(j->name, name) == 0)
			return;
	s.promised += limit_of(name);
}

static void count_promises(void)
{
	struct err err;

	s.promised = 0;
	if (volume_each(&s.l->volumes, add_promise, NULL, &err) < 0)
		log_event(LOG_WARN, "volume_list", LOG_STR("why", err.text));
}

/* A child that does not outlive the sweeper. */
static pid_t fork_bound(void)
{
	pid_t parent = getpid(), pid = fork();

	if (pid == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent))
		_exit(EIO);
	return pid;
}

static void job_ended(struct job *j, int status)
{
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
	struct err err;

	j->pid = 0;
	if (WIFSIGNALED(status))
		count_promises(); /* it may have been made already */
	if (code == 0)
		s.promised += limit_of(j->name);
	else
		err_set(&err, code, "%s: %s", j->name, strerrordesc_np(code));
	answer_done(j->id, -code, &err);
}

static void wait_for_job(const char *name)
{
	for (struct job *j = s.jobs; j < s.jobs + JOBS_MAX; j++) {
		int status = 0;

		if (!j->pid || strcmp(j->name, name) != 0)
			continue;
		while (waitpid(j->pid, &status, 0) < 0 && errno == EINTR)
			;
		job_ended(j, status);
	}
}

/* Does work, in a child or, when there are too many, here, and answers with what came of it. */
static void start_job(const struct wire_msg *msg, const char *name,
		      int (*work)(const void *body, struct err *err))
{
	struct job *j = find_job(0);
	pid_t pid = j ? fork_bound() : -1;
	struct err err;

	if (pid > 0) {
		*j = (struct job){ .pid = pid, .id = msg->head.id };
		snprintf(j->name, sizeof(j->name), "%s", name);
		return;
	}
	int r = work(msg->body, &err);
	if (pid == 0) {
		if (r < 0)
			log_event(LOG_WARN, "volume_job", LOG_STR("why", err.text));
		_exit(r < 0 ? err.code : 0);
	}
	if (r == 0)
		s.promised += limit_of(name);
	answer_done(msg->head.id, r, &err);
}

/* ---- deletions that are answered late -------------------------------------------------------- */

static bool hold(uint32_t id)
{
	if (s.stopping || s.n_held == HELD_MAX || !volumes_short(&s.l->volumes))
		return false;
	/* The one that runs may be past it. */
	s.held[s.n_held++] = (struct held){
		.id = id,
		.round = s.round + 1,
		.until_ms = clock_monotonic_ms() + HOLD_MS,
	};
	return true;
}

/* Answers those whose round is over, or that have waited long enough. */
static void let_go(uint32_t round, int64_t now)
{
	size_t n = 0;

	while (n < s.n_held &&
	       (s.stopping || s.held[n].round <= round || s.held[n].until_ms <= now))
		answer_done(s.held[n++].id, 0, NULL);
	s.n_held -= n;
	memmove(s.held, s.held + n, s.n_held * sizeof(s.held[0]));
}

/* ---- messages -------------------------------------------------------------------------------- */

/* The hard limit that a workspace gets. */
static uint64_t limit_wanted(uint64_t bytes)
{
	return knob_off(KNOB_QUOTA) || s.l->volumes.quota == MSG_QUOTA_NONE ? 0 : bytes;
}

static int create(const void *body, struct err *err)
{
	struct dl_volume_create want;

	memcpy(&want, body, sizeof(want));
	return volume_create(&s.l->volumes,
			     &(struct volume_spec){
				     .name = want.volume,
				     .tenant = want.tenant,
				     .limit_bytes = limit_wanted(want.limit_bytes),
				     .tenant_bytes = knob_off(KNOB_QUOTA)
							     ? 0
							     : (uint64_t)want.tenant_limit_mb * MIB,
				     .source = want.source },
			     err);
}

static int snapshot(const void *body, struct err *err)
{
	struct dl_snapshot_create want;

	memcpy(&want, body, sizeof(want));
	return volume_create(&s.l->volumes,
			     &(struct volume_spec){ .name = want.snapshot,
						    .tenant = want.tenant,
						    .source = want.volume },
			     err);
}

static int seal(const void *body, struct err *err)
{
	struct dl_volume want;

	memcpy(&want, body, sizeof(want));
	return volume_seal(&s.l->volumes, want.volume, err);
}

static void on_create(const struct wire_msg *msg)
{
	struct dl_volume_create want;
	struct err err;

	memcpy(&want, msg->body, sizeof(want));
	wait_for_job(want.volume);
	if (want.source[0]) {
		start_job(msg, want.volume, create);
		return;
	}
	int r = create(msg->body, &err);
	if (r == 0)
		s.promised += limit_of(want.volume);
	answer_done(msg->head.id, r, &err);
}

static void on_snapshot(const struct wire_msg *msg)
{
	struct dl_snapshot_create want;

	memcpy(&want, msg->body, sizeof(want));
	wait_for_job(want.snapshot);
	start_job(msg, want.snapshot, snapshot);
}

static void on_seal(const struct wire_msg *msg)
{
	struct dl_volume want;

	memcpy(&want, msg->body, sizeof(want));
	wait_for_job(want.volume);
	start_job(msg, want.volume, seal);
}

static void on_limit(const struct wire_msg *msg)
{
	struct dl_volume_limit want;
	struct err err;

	memcpy(&want, msg->body, sizeof(want));
	wait_for_job(want.volume);
	uint64_t before = limit_of(want.volume);
	int r = volume_limit(&s.l->volumes, want.volume,
			     knob_off(KNOB_QUOTA) ? 0 : want.limit_bytes, &err);
	s.promised += limit_of(want.volume) - before;
	answer_done(msg->head.id, r, &err);
}

static void on_delete(const struct wire_msg *msg)
{
	struct dl_volume body;
	struct err err;

	memcpy(&body, msg->body, sizeof(body));
	wait_for_job(body.volume);
	uint64_t limit = limit_of(body.volume);
	int r = volume_mark_deleted(&s.l->volumes, body.volume, &err);
	if (r > 0)
		s.promised -= limit;
	/* One that failed may have put aside a part. */
	if (r != 0) {
		s.garbage = true;
		s.delete_at_ms = 0;
	}
	if (r <= 0 || !hold(msg->head.id))
		answer_done(msg->head.id, r, &err);
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

/* Whether deleted volumes are about to give space back; when it is short they are made to. */
static bool frees(void)
{
	if (!s.deleter && !s.garbage && s.owed && volumes_short(&s.l->volumes)) {
		s.garbage = true;
		s.delete_at_ms = 0;
	}
	/* One that could not delete something is not counted on. */
	return s.deleter || (s.garbage && s.delete_at_ms <= clock_monotonic_ms());
}

static void on_status(const struct wire_msg *msg)
{
	struct ld_status body = { .volume_promised = s.promised, .volume_frees = frees() };
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
	bool hurried = volumes_hurry(&s.l->volumes);
	if (r < 0)
		log_event(LOG_WARN, "volume_delete", LOG_STR("why", err.text));
	_exit(r < 0 ? 1 : hurried ? DELETER_HURRIED : 0);
}

/* Later, unless something new waits. */
static void delete_again(void)
{
	if (s.garbage)
		return;
	s.garbage = true;
	s.delete_at_ms = clock_monotonic_ms() + s.delete_wait_ms;
	s.delete_wait_ms *= 2;
	if (s.delete_wait_ms > DELETE_AGAIN_MAX_MS)
		s.delete_wait_ms = DELETE_AGAIN_MAX_MS;
}

static void start_deleter(void)
{
	s.garbage = false;
	s.round++;
	s.deleter = fork_bound();
	if (s.deleter == 0)
		delete_all();
	s.l->volumes.destroyed = 0; /* the child waits for it */
	if (s.deleter < 0) {
		s.deleter = 0;
		delete_again();
	}
}

static void reap(void)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	while (read(s.signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		struct job *j = find_job(pid);

		if (j)
			job_ended(j, status);
		if (pid != s.deleter)
			continue;
		s.deleter = 0;
		bool hurried = status == W_EXITCODE(DELETER_HURRIED, 0);
		if (WIFEXITED(status))
			let_go(s.round, clock_monotonic_ms());
		s.owed = s.garbage || !hurried;
		if (hurried || status == 0)
			s.delete_wait_ms = DELETE_AGAIN_MS;
		else
			delete_again();
		s.sweep_at_ms = clock_monotonic_ms() + SWEEP_EVERY_MS;
		s.sweep_until_ms = clock_monotonic_ms() + SWEEP_FOR_MS;
	}
}

/* Quota groups can go only after the kernel's cleaner has taken the volume apart. Done here and not
 * in the deleter, nor while a job runs: a group that is swept while a volume is made in it would
 * leave that volume without a limit. */
static void sweep_groups(int64_t now)
{
	struct err err;
	int r;

	if (!s.sweep_at_ms || now < s.sweep_at_ms)
		return;
	for (int i = 0; i < JOBS_MAX; i++)
		if (s.jobs[i].pid) {
			s.sweep_at_ms = now + SWEEP_AGAIN_MS;
			return;
		}
	while ((r = volume_sweep(&s.l->volumes, &err)) > 0)
		;
	if (r < 0)
		log_event(LOG_WARN, "quota_sweep", LOG_STR("why", err.text));
	s.sweep_at_ms = now < s.sweep_until_ms ? now + SWEEP_EVERY_MS : 0;
}

static int next_timeout(int64_t now)
{
	int64_t at = s.sweep_at_ms;

	if (s.garbage && !s.deleter && (!at || s.delete_at_ms < at))
		at = s.delete_at_ms;
	if (s.n_held && (!at || s.held[0].until_ms < at))
		at = s.held[0].until_ms;
	if (!at)
		return -1;
	return at > now ? (int)(at - now) : 0;
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
	case LS_STOP:
		s.stopping = true;
		break;
	case LS_VOLUME_LIMIT:
		on_limit(msg);
		break;
	case LS_SNAPSHOT_CREATE:
		on_snapshot(msg);
		break;
	case LS_SNAPSHOT_SEAL:
		on_seal(msg);
		break;
	}
}

/* Held by this process and all children that it will have. */
static void wait_for_earlier(void)
{
	int fd = openat(s.l->volumes.volumes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		_exit(1);
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			_exit(1);
}

_Noreturn void sweeper_main(struct launcher *l, int sock)
{
	sigset_t child;

	s.l = l;
	s.sock = sock;
	s.garbage = s.owed = true;
	s.delete_wait_ms = DELETE_AGAIN_MS;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	s.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s.signals < 0)
		_exit(1);
	wait_for_earlier();
	count_promises();
	for (;;) {
		struct pollfd p[] = { { .fd = sock, .events = POLLIN },
				      { .fd = s.signals, .events = POLLIN } };
		struct wire_msg msg;

		int64_t now = clock_monotonic_ms();

		if (s.garbage && !s.deleter && now >= s.delete_at_ms)
			start_deleter();
		sweep_groups(now);
		let_go(0, now);
		if (poll(p, 2, next_timeout(clock_monotonic_ms())) < 0)
			continue;
		if (p[1].revents)
			reap();
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
