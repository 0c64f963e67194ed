// SPDX-License-Identifier: Apache-2.0
#include "core/native/exec-state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "base/log.h"
#include "core/native/output.h"
#include "ipc/posture.h"

/* What one turn of the loop reads of one stream, so that a flood delays neither timers nor others. */
#define EXEC_READ_TURN (256 * 1024)
/* What a pipe holds: a shorter read means that it was empty then. */
#define EXEC_PIPE_FULL (64 * 1024)

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
		exec_finish(e);
}

/* ---- What ends it ---- */

static void on_drain_over(struct deadline *d)
{
	struct runtime_exec *e = exec_of_deadline(d);

	read_both(e);
	exec_finish(e);
}

static void on_gone_late(struct deadline *d)
{
	struct runtime_exec *e = exec_of_deadline(d);

	log_event(LOG_ERROR, "sandbox_does_not_go", LOG_INT("slot", e->sandbox->id.slot));
	if (!e->started && !e->killed && !e->err.code)
		err_slug(&e->err, EIO, "internal", "the sandbox did not start");
	exec_finish(e);
}

/* Kills the sandbox; the result follows when it is gone. */
void exec_die(struct runtime_exec *e)
{
	e->state = EXEC_DYING;
	sandbox_kill(e->sandbox);
	exec_wait_until(e, EXEC_GONE_MS, on_gone_late);
}

static void time_out(struct runtime_exec *e)
{
	e->timed_out = true;
	exec_die(e);
}

static void on_timeout_sure(struct deadline *d)
{
	time_out(exec_of_deadline(d));
}

/* When this process was kept from running, the shell may have ended in time: a turn of the loop
 * comes to deadlines first, and that it has ended may lie in the socket. */
static void on_timeout(struct deadline *d)
{
	struct runtime_exec *e = exec_of_deadline(d);

	if (sandbox_has_word(e->sandbox))
		exec_wait_until(e, 1, on_timeout_sure);
	else
		time_out(e);
}

static void on_start_late(struct deadline *d)
{
	struct runtime_exec *e = exec_of_deadline(d);

	err_slug(&e->err, ETIMEDOUT, "internal", "the sandbox did not start the command");
	exec_die(e);
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
			exec_die(e);
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
	exec_wait_until(e, e->timeout_ms, on_timeout);
	if (!rt->execs.oom_poll.set)
		deadline_set(&rt->deadlines, &rt->execs.oom_poll,
			     clock_monotonic_ms() + EXEC_OOM_POLL_MS, on_oom_poll);
	pool_refill(e->pool);
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
	if (exec_duration_us(e) > e->timeout_ms * 1000) {
		time_out(e);
		return;
	}
	e->state = EXEC_DRAINING;
	read_both(e);
	if (streams_ended(e))
		exec_finish(e);
	else
		exec_wait_until(e, EXEC_DRAIN_MS, on_drain_over);
}

static const struct {
	uint32_t code;
	const char *slug;
} cwd_errors[] = {
	{ ENOENT, "file_not_found" }, { ENAMETOOLONG, "file_not_found" },
	{ ENOTDIR, "not_folder" },    { EXDEV, "path_outside" },
	{ ELOOP, "path_outside" },    { EACCES, "permission_denied" },
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
	exec_finish(e);
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
		exec_die(e);
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
		exec_limit_wait(e);
		exec_obtain(e);
		return;
	}
	if (!e->started && !e->killed && !e->err.code && !memory_killed(e))
		err_slug(&e->err, EIO, "internal", "the sandbox ended before the command started");
	exec_finish(e);
}

/* Nothing has run: init never got the workspace. */
static void on_handover_failed(struct sandbox *s, uint32_t code)
{
	struct runtime_exec *e = s->user;

	if (e->state != EXEC_STARTING)
		return;
	e->may_retry = (code == ESRCH || code == EPIPE) && e->tries < EXEC_TRIES;
	if (!e->may_retry)
		err_slug(&e->err, link_errno(code), "internal",
			 "the workspace could not be attached");
	exec_die(e);
}

static bool is_known(const struct runtime_exec *e, const char *host)
{
	const char *at = e->denied.data;

	for (size_t i = 0; i < e->n_denied; i++, at += strlen(at) + 1) {
		if (strcmp(at, host) == 0)
			return true;
	}
	return false;
}

static void on_denied(struct sandbox *s, const char *host)
{
	struct runtime_exec *e = s->user;

	if (e->n_denied == RUNTIME_DENIED_MAX || is_known(e, host))
		return;
	buf_put(&e->denied, host, strlen(host) + 1);
	e->n_denied++;
}

static const struct sandbox_ops exec_ops = {
	.message = on_message,
	.ended = on_ended,
	.gone = on_gone,
	.handover_failed = on_handover_failed,
	.readable = on_readable,
	.denied = on_denied,
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

/* Who has waited long has less time for it. */
static void limit_start(struct runtime_exec *e)
{
	int64_t start_ms = e->queue_until_ms + EXEC_LATE_MS - clock_monotonic_ms();

	exec_wait_until(e, start_ms < EXEC_START_MS ? start_ms : EXEC_START_MS, on_start_late);
}

/* The hand-over goes first: the launcher's way is the longer one. */
void exec_run(struct runtime_exec *e, struct sandbox *s)
{
	int r = sandbox_prepare(s);

	if (r < 0) {
		pool_return(e->pool, s);
		exec_fail_soon(e, -r, "no_capacity", "no pipes or memory for another command");
		return;
	}
	r = sandbox_attach(s, e->volume, NULL);
	if (r < 0) {
		pool_return(e->pool, s);
		if (r == -EAGAIN)
			exec_requeue_first(e);
		else
			exec_fail_soon(e, EAGAIN, "busy", "the launcher is gone");
		return;
	}
	/* Nothing runs before it has the command as well; and what went back to the pool above is
	 * bound to nobody. */
	if (e->egress)
		gateway_bind(s, e->egress);
	e->tries++;
	e->sandbox = s;
	e->state = EXEC_STARTING;
	sandbox_set_user(s, &exec_ops, e);
	r = send_spec(e, s);
	if (r == 0) {
		limit_start(e);
		return;
	}
	/* Init never got the command. */
	e->may_retry = e->tries < EXEC_TRIES;
	if (!e->may_retry)
		err_slug(&e->err, -r, "internal", "the sandbox does not answer");
	exec_die(e);
}
