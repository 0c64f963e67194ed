// SPDX-License-Identifier: Apache-2.0
#include "core/native/exec.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/native/output.h"
#include "core/native/state.h"
#include "ipc/posture.h"

/* What one turn of the loop reads of one stream, so that a flood delays neither timers nor others. */
#define EXEC_READ_TURN (256 * 1024)
/* What a pipe holds: a shorter read means that it was empty then. */
#define EXEC_PIPE_FULL (64 * 1024)

enum exec_state {
	EXEC_QUEUED,
	EXEC_WAITING,
	EXEC_STARTING,
	EXEC_RUNNING,
	EXEC_DRAINING,
	EXEC_DYING,
	EXEC_ENDED,
};

struct runtime_exec {
	struct runtime *rt;
	enum exec_state state;
	struct volume *volume; /* NULL once it may be gone */
	struct pool *pool;
	struct runtime_exec_ops ops;
	void *data;
	int64_t timeout_ms;

	struct exec_list *in;	/* which list it is linked into */
	struct exec_turn *turn; /* while QUEUED */
	TAILQ_ENTRY(runtime_exec) link;
	struct pool_wait wait;
	struct deadline deadline; /* of the present state */
	int64_t queue_until_ms;	  /* QUEUED and WAITING end here */
	unsigned tries;

	char *spec; /* owned until ID_STARTED: what goes into the memfd */
	size_t spec_len;
	int stdin_fd; /* owned; -1: /dev/null */
	struct sandbox *sandbox;
	struct runtime_output *streams[2]; /* owned */

	bool started;	    /* ID_STARTED came */
	int64_t started_us; /* clock of this process */
	int64_t wall_us;    /* init's measurement; -1: none */
	int status;	    /* as of waitpid; -1: none */
	bool timed_out, killed, oom, refused;
	bool may_retry;
	struct err err; /* code 0: there is a result */
};

static void obtain(struct runtime_exec *e);
static void finish(struct runtime_exec *e);

static struct runtime_exec *from_deadline(struct deadline *d)
{
	return container_of(d, struct runtime_exec, deadline);
}

static void wait_until(struct runtime_exec *e, int64_t ms, deadline_fn fn)
{
	deadline_set(&e->rt->deadlines, &e->deadline, clock_monotonic_ms() + ms, fn);
}

void execs_init(struct runtime *rt)
{
	TAILQ_INIT(&rt->execs.active);
	TAILQ_INIT(&rt->execs.ending);
	TAILQ_INIT(&rt->execs.turns);
}

/* ---- Lists ---- */

static void unlink_exec(struct runtime_exec *e)
{
	struct execs *all = &e->rt->execs;

	TAILQ_REMOVE(e->in, e, link);
	if (e->in == &all->active) {
		all->running--;
		pool_leave(e->pool);
	} else if (e->turn) {
		all->queued--;
		if (TAILQ_EMPTY(&e->turn->list)) {
			TAILQ_REMOVE(&all->turns, e->turn, link);
			free(e->turn);
		}
		e->turn = NULL;
	}
	e->in = NULL;
}

static void link_exec(struct runtime_exec *e, struct exec_list *in)
{
	e->in = in;
	TAILQ_INSERT_TAIL(in, e, link);
}

static struct exec_turn *turn_get(struct runtime *rt, uint32_t tenant)
{
	struct exec_turn *t;

	TAILQ_FOREACH(t, &rt->execs.turns, link)
	{
		if (t->tenant == tenant)
			return t;
	}
	t = mem_new(1, sizeof(*t));
	t->tenant = tenant;
	TAILQ_INIT(&t->list);
	TAILQ_INSERT_TAIL(&rt->execs.turns, t, link);
	return t;
}

static void enqueue(struct runtime_exec *e)
{
	e->state = EXEC_QUEUED;
	e->turn = turn_get(e->rt, e->pool->tenant);
	e->rt->execs.queued++;
	link_exec(e, &e->turn->list);
}

/* It had its turn, but the launcher's socket has no room: first in the line again. */
static void requeue_first(struct runtime_exec *e)
{
	unlink_exec(e);
	enqueue(e);
	TAILQ_REMOVE(&e->turn->list, e, link);
	TAILQ_INSERT_HEAD(&e->turn->list, e, link);
	TAILQ_REMOVE(&e->rt->execs.turns, e->turn, link);
	TAILQ_INSERT_HEAD(&e->rt->execs.turns, e->turn, link);
}

/* ---- The end ---- */

static void on_finish(struct deadline *d)
{
	finish(from_deadline(d));
}

/* Ends it from the loop, for callers that must not call back. */
static void finish_soon(struct runtime_exec *e)
{
	if (e->state == EXEC_QUEUED) {
		unlink_exec(e);
		link_exec(e, &e->rt->execs.ending);
	}
	pool_wait_cancel(&e->wait);
	e->state = EXEC_ENDED;
	wait_until(e, 0, on_finish);
}

static void fail_soon(struct runtime_exec *e, int code, const char *slug, const char *why)
{
	err_slug(&e->err, code, slug, "%s", why);
	finish_soon(e);
}

static int exit_code(const struct runtime_exec *e)
{
	if (e->timed_out)
		return -1;
	if (e->oom || e->status < 0)
		return 128 + SIGKILL;
	if (WIFSIGNALED(e->status))
		return 128 + WTERMSIG(e->status);
	return WEXITSTATUS(e->status);
}

/* Init's clock is exact but init may have been taken over: ours bounds it. */
static int64_t duration_ms(const struct runtime_exec *e)
{
	int64_t ours = e->started ? clock_monotonic_us() - e->started_us : 0;

	return (e->wall_us >= 0 && e->wall_us < ours ? e->wall_us : ours) / 1000;
}

static void fill_result(struct runtime_exec *e, struct runtime_exec_result *r)
{
	const struct sandbox *s = e->sandbox;
	struct slot_use use = { .peak_bytes = -1, .cpu_ms = -1 };

	if (s) {
		struct slot_sample after;
		slot_read(sandbox_slot(s), &after);
		slot_use(sandbox_slot(s), &s->before, &after, &use);
		e->oom |= use.oom_kills > 0;
	}
	*r = (struct runtime_exec_result){
		.exit_code = exit_code(e),
		.timed_out = e->timed_out,
		.oom_killed = e->oom && !e->timed_out,
		.pids_limit_hit = use.pids_hits > 0,
		.duration_ms = duration_ms(e),
		.cpu_ms = use.cpu_ms,
		.peak_memory_bytes = use.peak_bytes,
		.posture = s ? s->posture : 0,
		.streams = { e->streams[0], e->streams[1] },
	};
}

/* Tells the result, then lets the sandbox go: the answer is on its way before the clean-up begins. */
static void finish(struct runtime_exec *e)
{
	struct runtime *rt = e->rt;
	struct sandbox *s = e->sandbox;
	struct pool *pool = e->pool;
	struct runtime_exec_result result = { 0 };
	bool good = !e->err.code;

	deadline_clear(&rt->deadlines, &e->deadline);
	pool_wait_cancel(&e->wait);
	unlink_exec(e);
	e->state = EXEC_ENDED;
	if (good)
		fill_result(e, &result);
	if (s)
		sandbox_set_user(s, NULL, NULL);
	if (e->ops.done)
		e->ops.done(e->data, good ? &result : NULL, good ? NULL : &e->err);
	if (s)
		sandbox_retire(s);
	for (unsigned i = 0; i < 2; i++)
		runtime_output_free(good ? result.streams[i] : e->streams[i]);
	fd_close(&e->stdin_fd);
	free(e->spec);
	free(e);
	pool_balance(pool);
	exec_pump(rt);
	runtime_close_step(rt);
}

/* ---- Output ---- */

static void got_bytes(struct runtime_exec *e, enum runtime_stream i, struct str bytes)
{
	output_add(e->streams[i], bytes);
	if (e->ops.output)
		e->ops.output(e->data, i, bytes);
}

/* Reads what is there, at most EXEC_READ_TURN bytes. The pipe is closed when it has ended. A short
 * read means that it is empty; without to_end, asking once more would cost every command a system
 * call. */
static void read_stream(struct runtime_exec *e, enum runtime_stream i, bool to_end)
{
	struct sandbox_pipe *p = &e->sandbox->pipes[i];
	char *chunk = e->rt->chunk;
	size_t got = 0;
	ssize_t n;

	while (p->read_fd >= 0 && got < EXEC_READ_TURN) {
		n = read(p->read_fd, chunk, RUNTIME_CHUNK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			sandbox_pipe_close(e->sandbox, i);
			return;
		}
		got_bytes(e, i, (struct str){ chunk, (size_t)n });
		got += (size_t)n;
		if ((size_t)n < EXEC_PIPE_FULL && !to_end)
			return;
	}
}

static void read_both(struct runtime_exec *e)
{
	read_stream(e, RUNTIME_STDOUT, true);
	read_stream(e, RUNTIME_STDERR, true);
}

static bool streams_ended(const struct runtime_exec *e)
{
	return e->sandbox->pipes[0].read_fd < 0 && e->sandbox->pipes[1].read_fd < 0;
}

static void on_readable(struct sandbox *s, enum runtime_stream i)
{
	struct runtime_exec *e = s->user;

	read_stream(e, i, e->state != EXEC_RUNNING);
	if (e->state == EXEC_DRAINING && streams_ended(e))
		finish(e);
}

/* ---- What ends it ---- */

static void on_gone_late(struct deadline *d)
{
	struct runtime_exec *e = from_deadline(d);

	log_event(LOG_ERROR, "sandbox_does_not_go", LOG_INT("slot", e->sandbox->id.slot));
	if (!e->started && !e->killed && !e->err.code)
		err_slug(&e->err, EIO, "internal", "the sandbox did not start");
	finish(e);
}

/* Kills the sandbox; the result follows when it is gone. */
static void die(struct runtime_exec *e)
{
	e->state = EXEC_DYING;
	sandbox_kill(e->sandbox);
	wait_until(e, EXEC_GONE_MS, on_gone_late);
}

static void on_timeout(struct deadline *d)
{
	struct runtime_exec *e = from_deadline(d);

	e->timed_out = true;
	die(e);
}

static void on_start_late(struct deadline *d)
{
	struct runtime_exec *e = from_deadline(d);

	err_slug(&e->err, ETIMEDOUT, "internal", "the sandbox did not start the command");
	die(e);
}

static void on_queue_late(struct deadline *d)
{
	struct runtime_exec *e = from_deadline(d);

	err_slug(&e->err, EAGAIN, "busy", "no sandbox came free in time");
	finish(e);
}

/* Without a group kill (cgroup v1) the rest of a command would live on after the kernel has killed
 * one process of it. Commands shorter than the period never pay for this. */
static void on_oom_poll(struct deadline *d)
{
	struct runtime *rt = container_of(d, struct runtime, execs.oom_poll);
	bool any = false;
	struct runtime_exec *e;

	TAILQ_FOREACH(e, &rt->execs.active, link)
	{
		if (e->state != EXEC_RUNNING)
			continue;
		any = true;
		int64_t before = e->sandbox->before.oom_kills;
		if (before >= 0 && slot_read_oom_kills(sandbox_slot(e->sandbox)) > before) {
			e->oom = true;
			die(e);
		}
	}
	if (any)
		deadline_set(&rt->deadlines, d, clock_monotonic_ms() + EXEC_OOM_POLL_MS,
			     on_oom_poll);
}

/* ---- What init and the launcher say ---- */

static void on_started(struct runtime_exec *e, const struct wire_msg *msg)
{
	struct runtime *rt = e->rt;
	struct id_started body;

	memcpy(&body, msg->body, sizeof(body));
	if (e->state != EXEC_STARTING)
		return;
	e->state = EXEC_RUNNING;
	e->started = true;
	e->started_us = clock_monotonic_us();
	free(take_ptr(e->spec));
	if (body.landlock)
		e->sandbox->posture |= POSTURE_LANDLOCK;
	if (e->sandbox->volume)
		e->sandbox->volume->posture = e->sandbox->posture;
	wait_until(e, e->timeout_ms, on_timeout);
	if (!rt->execs.oom_poll.set)
		deadline_set(&rt->deadlines, &rt->execs.oom_poll,
			     clock_monotonic_ms() + EXEC_OOM_POLL_MS, on_oom_poll);
	pool_balance(e->pool);
	if (e->ops.started)
		e->ops.started(e->data);
}

static void on_exited(struct runtime_exec *e, const struct wire_msg *msg)
{
	struct id_exited body;

	memcpy(&body, msg->body, sizeof(body));
	if (e->state != EXEC_RUNNING)
		return;
	e->status = (int)(body.status & 0xffff);
	e->wall_us = body.wall_us <= INT64_MAX ? (int64_t)body.wall_us : -1;
	e->state = EXEC_DRAINING;
	read_both(e);
	if (streams_ended(e))
		finish(e);
	else
		wait_until(e, EXEC_DRAIN_MS, on_finish);
}

static const struct {
	uint32_t code;
	const char *slug;
} cwd_errors[] = {
	{ ENOENT, "file_not_found" },
	{ ENOTDIR, "file_not_found" },
	{ EXDEV, "path_outside" },
	{ EACCES, "permission_denied" },
};

static void on_refused(struct runtime_exec *e, const struct wire_msg *msg)
{
	struct id_refused body;
	const char *slug = "internal";

	memcpy(&body, msg->body, sizeof(body));
	sandbox_kill(e->sandbox);
	if (e->state != EXEC_STARTING)
		return;
	for (size_t i = 0; body.stage == EXEC_STAGE_CWD && i < ARRAY_SIZE(cwd_errors); i++) {
		if (cwd_errors[i].code == body.code)
			slug = cwd_errors[i].slug;
	}
	if (body.stage != EXEC_STAGE_CWD)
		log_event(LOG_ERROR, "exec_refused", LOG_INT("stage", body.stage),
			  LOG_INT("errno", body.code));
	err_slug(&e->err, EIO, slug, "the command could not be started (stage %u, errno %u)",
		 body.stage, body.code);
	finish(e);
}

static void on_message(struct sandbox *s, const struct wire_msg *msg)
{
	switch (msg->head.type) {
	case ID_STARTED:
		on_started(s->user, msg);
		break;
	case ID_EXITED:
		on_exited(s->user, msg);
		break;
	case ID_REFUSED:
		on_refused(s->user, msg);
		break;
	}
}

static void on_ended(struct sandbox *s)
{
	struct runtime_exec *e = s->user;

	if (e->state == EXEC_STARTING || e->state == EXEC_RUNNING)
		die(e);
}

static bool memory_killed(const struct runtime_exec *e)
{
	int64_t before = e->sandbox->before.oom_kills;

	return before >= 0 && slot_read_oom_kills(sandbox_slot(e->sandbox)) > before;
}

static void on_gone(struct sandbox *s)
{
	struct runtime_exec *e = s->user;

	read_both(e);
	if (e->may_retry && !e->killed) {
		e->may_retry = false;
		e->sandbox = NULL;
		sandbox_set_user(s, NULL, NULL);
		sandbox_retire(s);
		deadline_set(&e->rt->deadlines, &e->deadline, e->queue_until_ms, on_queue_late);
		obtain(e);
		return;
	}
	if (!e->started && !e->killed && !e->err.code && !memory_killed(e))
		err_slug(&e->err, EIO, "internal", "the sandbox ended before the command started");
	finish(e);
}

/* Nothing has run: init never got the workspace. */
static void on_handover_failed(struct sandbox *s, uint32_t code)
{
	struct runtime_exec *e = s->user;

	if (e->state != EXEC_STARTING)
		return;
	e->may_retry = (code == ESRCH || code == EPIPE) && e->tries < EXEC_TRIES;
	if (!e->may_retry)
		err_slug(&e->err, code ? (int)code : EIO, "internal",
			 "the workspace could not be attached");
	die(e);
}

static const struct sandbox_ops exec_ops = {
	.message = on_message,
	.ended = on_ended,
	.gone = on_gone,
	.handover_failed = on_handover_failed,
	.readable = on_readable,
};

/* ---- The start ---- */

static int send_spec(struct runtime_exec *e, struct sandbox *s)
{
	const struct di_exec body = { 0 };
	int fds[4] = { s->spec, s->pipes[0].write_fd, s->pipes[1].write_fd, e->stdin_fd };
	ssize_t n;
	int r;

	if (++e->rt->execs.next_job == 0)
		e->rt->execs.next_job = 1;
	n = pwrite(s->spec, e->spec, e->spec_len, 0);
	if (n != (ssize_t)e->spec_len)
		return n < 0 ? -errno : -EIO;
	if (fcntl(s->spec, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) <
	    0)
		return -errno;
	r = sandbox_send(s, SANDBOX_EXEC, DI_EXEC, e->rt->execs.next_job, &body, sizeof(body), fds,
			 e->stdin_fd >= 0 ? 4 : 3);
	fd_close(&s->spec);
	fd_close(&s->pipes[0].write_fd);
	fd_close(&s->pipes[1].write_fd);
	return r;
}

/* The hand-over goes first: the launcher's way is the longer one. */
static void run(struct runtime_exec *e, struct sandbox *s)
{
	int r = sandbox_prepare(s);

	if (r < 0) {
		pool_return(e->pool, s);
		fail_soon(e, -r, "no_capacity", "no pipes or memory for another command");
		return;
	}
	r = sandbox_attach(s, e->volume);
	if (r < 0) {
		pool_return(e->pool, s);
		if (r == -EAGAIN)
			requeue_first(e);
		else
			fail_soon(e, EPIPE, "internal", "the launcher is gone");
		return;
	}
	e->tries++;
	e->sandbox = s;
	e->state = EXEC_STARTING;
	sandbox_set_user(s, &exec_ops, e);
	r = send_spec(e, s);
	if (r == 0) {
		wait_until(e, EXEC_START_MS, on_start_late);
		return;
	}
	/* Init never got the command. */
	e->may_retry = e->tries < EXEC_TRIES;
	if (!e->may_retry)
		err_slug(&e->err, -r, "internal", "the sandbox does not answer");
	die(e);
}

static void on_sandbox(struct pool_wait *w, struct sandbox *s, const struct err *err)
{
	struct runtime_exec *e = container_of(w, struct runtime_exec, wait);

	if (s) {
		run(e, s);
		return;
	}
	e->err = *err;
	finish_soon(e);
}

/* A sandbox now, or as soon as there is one. */
static void obtain(struct runtime_exec *e)
{
	struct sandbox *s = pool_take(e->pool);

	e->state = EXEC_WAITING;
	if (s)
		run(e, s);
	else
		pool_wait(e->pool, &e->wait, on_sandbox);
}

void exec_pump(struct runtime *rt)
{
	struct execs *all = &rt->execs;
	struct exec_turn *t;

	while ((t = TAILQ_FIRST(&all->turns)) && all->running < rt->config.running_max &&
	       rt->link.state == LINK_READY && !link_is_congested(&rt->link)) {
		struct runtime_exec *e = TAILQ_FIRST(&t->list);
		TAILQ_REMOVE(&all->turns, t, link);
		TAILQ_INSERT_TAIL(&all->turns, t, link);
		unlink_exec(e);
		link_exec(e, &all->active);
		all->running++;
		pool_enter(e->pool);
		obtain(e);
	}
}

static void put(char **at, const void *data, size_t len)
{
	if (len)
		memcpy(*at, data, len);
	*at += len;
}

/* The specification as init reads it. False: longer than the protocol allows. */
static bool make_spec(struct runtime_exec *e, const struct runtime_exec_spec *spec)
{
	struct exec_spec head = { .magic = EXEC_SPEC_MAGIC,
				  .n_env = (uint32_t)spec->n_env,
				  .cwd_len = (uint32_t)spec->cwd.len,
				  .command_len = (uint32_t)spec->command.len };
	size_t env_len = 0;
	char *at;

	for (size_t i = 0; i < spec->n_env; i++)
		env_len += strlen(spec->env[i]) + 1;
	head.env_len = (uint32_t)env_len;
	e->spec_len = sizeof(head) + spec->cwd.len + 1 + env_len + spec->command.len + 1;
	if (spec->n_env > EXEC_SPEC_ENV_MAX || e->spec_len > EXEC_SPEC_MAX)
		return false;
	at = e->spec = mem_new(e->spec_len, 1);
	put(&at, &head, sizeof(head));
	put(&at, spec->cwd.data, spec->cwd.len);
	put(&at, "", 1);
	for (size_t i = 0; i < spec->n_env; i++)
		put(&at, spec->env[i], strlen(spec->env[i]) + 1);
	put(&at, spec->command.data, spec->command.len);
	put(&at, "", 1);
	return true;
}

/* A sealed file rather than a pipe: it needs no pumping, and nobody can change it. */
static int make_stdin(struct str bytes)
{
	_cleanup_fd_ int fd = memfd_create("stdin", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || pwrite(fd, bytes.data, bytes.len, 0) != (ssize_t)bytes.len ||
	    fchmod(fd, 0444) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return -1;
	return take_fd(&fd);
}

static void check_and_queue(struct runtime_exec *e, const struct runtime_exec_spec *spec)
{
	if (e->rt->closing || e->rt->link.state == LINK_DEAD) {
		fail_soon(e, ESHUTDOWN, "busy", "the server is stopping");
	} else if (!e->volume) {
		fail_soon(e, ENOENT, "internal", "there is no such workspace");
	} else if (!make_spec(e, spec)) {
		fail_soon(e, E2BIG, "internal", "command and environment are too long");
	} else if (spec->stdin_data.data && (e->stdin_fd = make_stdin(spec->stdin_data)) < 0) {
		fail_soon(e, EMFILE, "no_capacity", "no room for the command's input");
	} else {
		unlink_exec(e);
		enqueue(e);
		e->queue_until_ms = clock_monotonic_ms() + EXEC_QUEUE_MS;
		deadline_set(&e->rt->deadlines, &e->deadline, e->queue_until_ms, on_queue_late);
		exec_pump(e->rt);
	}
}

struct runtime_exec *runtime_exec_start(struct runtime *rt, const struct runtime_exec_spec *spec,
					const struct runtime_exec_ops *ops, void *data)
{
	struct runtime_exec *e = mem_new(1, sizeof(*e));

	e->rt = rt;
	e->ops = *ops;
	e->data = data;
	e->timeout_ms = spec->timeout_ms;
	e->status = -1;
	e->wall_us = -1;
	e->stdin_fd = -1;
	for (unsigned i = 0; i < 2; i++)
		e->streams[i] = output_new(spec->output_max, rt->tmp_dir);
	e->volume = volume_find(rt, spec->volume);
	e->pool = pool_get(rt, spec->tenant, spec->image, spec->egress);
	assert(e->pool); /* an image's name fits */
	e->state = EXEC_ENDED;
	link_exec(e, &rt->execs.ending);
	check_and_queue(e, spec);
	return e;
}

void runtime_exec_detach(struct runtime_exec *e)
{
	e->ops = (struct runtime_exec_ops){ 0 };
}

void runtime_exec_kill(struct runtime_exec *e)
{
	if (e->state == EXEC_ENDED || e->killed)
		return;
	e->killed = true;
	if (e->state == EXEC_QUEUED || e->state == EXEC_WAITING)
		finish_soon(e);
	else
		die(e);
}

/* ---- Ending many ---- */

static void fail_queued(struct runtime *rt, const struct volume *v, const char *slug,
			const char *why)
{
	struct exec_turn *t, *next_t;
	struct runtime_exec *e, *next;

	for (t = TAILQ_FIRST(&rt->execs.turns); t; t = next_t) {
		next_t = TAILQ_NEXT(t, link);
		for (e = TAILQ_FIRST(&t->list); e; e = next) {
			next = TAILQ_NEXT(e, link);
			if (!v || e->volume == v)
				fail_soon(e, ECANCELED, slug, why);
		}
	}
	TAILQ_FOREACH(e, &rt->execs.active, link)
	{
		if (e->state == EXEC_WAITING && (!v || e->volume == v))
			fail_soon(e, ECANCELED, slug, why);
	}
}

void exec_volume_ends(struct runtime *rt, struct volume *v)
{
	struct runtime_exec *e;

	fail_queued(rt, v, "internal", "the workspace was deleted");
	TAILQ_FOREACH(e, &rt->execs.active, link)
	{
		if (e->volume == v)
			runtime_exec_kill(e);
	}
}

void execs_end(struct runtime *rt)
{
	struct runtime_exec *e;

	fail_queued(rt, NULL, "busy", "the server is stopping");
	TAILQ_FOREACH(e, &rt->execs.active, link)
	runtime_exec_kill(e);
}

void execs_abandon(struct runtime *rt)
{
	struct runtime_exec *e;

	while ((e = TAILQ_FIRST(&rt->execs.active)) || (e = TAILQ_FIRST(&rt->execs.ending)))
		finish(e);
}
