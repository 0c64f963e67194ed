// SPDX-License-Identifier: Apache-2.0
#include "core/native/exec-state.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "core/native/output.h"

/* ---- The end ---- */

static void on_finish(struct deadline *d)
{
	exec_finish(exec_of_deadline(d));
}

/* Ends it from the loop, for callers that must not call back. */
void exec_finish_soon(struct runtime_exec *e)
{
	if (e->state == EXEC_QUEUED) {
		exec_unlink(e);
		exec_link(e, &e->rt->execs.ending);
	}
	pool_wait_cancel(&e->wait);
	e->state = EXEC_ENDED;
	exec_wait_until(e, 0, on_finish);
}

void exec_fail_soon(struct runtime_exec *e, int code, const char *slug, const char *why)
{
	err_slug(&e->err, code, slug, "%s", why);
	exec_finish_soon(e);
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
int64_t exec_duration_us(const struct runtime_exec *e)
{
	int64_t ours = e->started ? clock_monotonic_us() - e->started_us : 0;

	return e->wall_us >= 0 && e->wall_us < ours ? e->wall_us : ours;
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
		.duration_us = exec_duration_us(e),
		.cpu_ms = use.cpu_ms,
		.peak_memory_bytes = use.peak_bytes,
		.posture = s ? s->posture : 0,
		.streams = { e->streams[0], e->streams[1] },
		.denied = take_ptr(e->denied.data),
		.n_denied = e->n_denied,
	};
}

/* Tells the result, then lets the sandbox go: the answer is on its way before the clean-up begins. */
void exec_finish(struct runtime_exec *e)
{
	struct runtime *rt = e->rt;
	struct sandbox *s = e->sandbox;
	struct pool *pool = e->pool;
	struct runtime_exec_result result = { 0 };
	bool good = !e->err.code;

	/* What it was refused is in the gateway's socket by now. */
	if (s && s->egress && !s->gone)
		gateway_drain(rt);
	deadline_clear(&rt->deadlines, &e->deadline);
	pool_wait_cancel(&e->wait);
	exec_unlink(e);
	e->state = EXEC_ENDED;
	if (good)
		fill_result(e, &result);
	if (s)
		sandbox_set_user(s, NULL, NULL);
	e->ops.done(e->data, good ? &result : NULL, good ? NULL : &e->err);
	if (s)
		sandbox_retire(s);
	for (unsigned i = 0; i < 2; i++)
		runtime_output_free(good ? result.streams[i] : e->streams[i]);
	free(result.denied);
	buf_fini(&e->denied);
	egress_unref(e->egress);
	fd_close(&e->stdin_fd);
	free(e->spec);
	free(e);
	pool_refill(pool);
	exec_pump(rt);
	runtime_close_step(rt);
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
		exec_fail_soon(e, ESHUTDOWN, "busy", "the server is stopping");
	} else if (e->egress && !e->rt->host.gateway) {
		exec_fail_soon(e, ENOTSUP, "internal", "this server has no gateway");
	} else if (!e->volume) {
		exec_fail_soon(e, ENOENT, "internal", "there is no such workspace");
	} else if (!make_spec(e, spec)) {
		exec_fail_soon(e, E2BIG, "internal", "command and environment are too long");
	} else if (spec->stdin_data.data && (e->stdin_fd = make_stdin(spec->stdin_data)) < 0) {
		exec_fail_soon(e, EMFILE, "no_capacity", "no room for the command's input");
	} else {
		exec_unlink(e);
		exec_enqueue(e);
		e->queue_until_ms = clock_monotonic_ms() + EXEC_QUEUE_MS;
		exec_limit_wait(e);
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
	e->pool = pool_get(rt, spec->tenant, spec->image, spec->egress != NULL);
	e->egress = egress_ref(spec->egress);
	e->denied = BUF(RUNTIME_DENIED_MAX * sizeof(((struct gd_denied *)NULL)->host));
	assert(e->pool); /* an image's name fits */
	e->state = EXEC_ENDED;
	exec_link(e, &rt->execs.ending);
	check_and_queue(e, spec);
	return e;
}

void runtime_exec_kill(struct runtime_exec *e)
{
	if (e->state == EXEC_ENDED || e->killed)
		return;
	e->killed = true;
	if (e->state == EXEC_QUEUED || e->state == EXEC_WAITING)
		exec_finish_soon(e);
	else
		exec_die(e);
}
