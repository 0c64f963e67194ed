// SPDX-License-Identifier: Apache-2.0
/*
 * airlock-gateway: start and end. The launcher executes it as its own user, with its socket as
 * descriptor 3 and
 *
 *   airlock-gateway --log-dir DIR --log-days N --dns LIST [--import-base URL]
 *
 * Exit status: 0 the launcher has ended, 78 refused (configuration or host), 1 failed.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "gateway/fetch.h"
#include "gateway/gateway.h"
#include "gateway/handle.h"
#include "gateway/logs.h"
#include "gateway/own.h"
#include "gateway/relay.h"
#include "gateway/resolver.h"
#include "gateway/transfer.h"
#include "gateway/trust.h"
#include "sandbox/confine.h"
#include "sandbox/filter.h"
#include "sandbox/knobs.h"

#define EXIT_CONFIG 78
#define LAUNCHER_FD 3
#define SWEEP_MS (60 * 60 * 1000)
#define SWEEP_FIRST_MS 1000

static int refuse(const struct err *err)
{
	dprintf(STDERR_FILENO, "airlock: %s\n", err->text);
	return EXIT_CONFIG;
}

static int parse(int argc, char **argv, struct gateway *g, struct err *err)
{
	struct gateway_options *o = &g->options;
	uint64_t hurry = 1;
	bool good = true;

	for (int i = 1; good && i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--log-dir"))
			o->log_dir = argv[i + 1];
		else if (!strcmp(argv[i], "--log-days"))
			good = num_parse(str_of(argv[i + 1]), 1, 3650, &o->log_days);
		else if (!strcmp(argv[i], "--dns"))
			o->dns = argv[i + 1];
		else if (!strcmp(argv[i], "--import-base"))
			good = hop_base_parse(str_of(argv[i + 1]), &g->import_base);
#ifdef AIRLOCK_TEST_KNOBS
		else if (!strcmp(argv[i], "--hurry"))
			good = num_parse(str_of(argv[i + 1]), 1, 10000, &hurry);
		else if (!strcmp(argv[i], "--off"))
			good = num_parse(str_of(argv[i + 1]), 0, UINT64_MAX, &knob_bits);
#endif
		else
			good = false;
	}
	g->hurry = (unsigned)hurry;
	if (!good || argc % 2 == 0 || !o->log_dir || o->log_dir[0] != '/' || !o->log_days ||
	    !o->dns)
		return err_set(err, EINVAL, "the gateway is started by the launcher, not by hand");
	return 0;
}

static int open_log_dir(struct gateway *g, struct err *err)
{
	static const char probe[] = ".probe";

	g->log_dir = open(g->options.log_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (g->log_dir < 0)
		return err_errno(err, "SANDBOX_EGRESS_LOG_DIR: '%s': cannot be opened",
				 g->options.log_dir);
	_cleanup_fd_ int fd =
		openat(g->log_dir, probe, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, "SANDBOX_EGRESS_LOG_DIR: '%s': is not writable",
				 g->options.log_dir);
	unlinkat(g->log_dir, probe, 0);
	return 0;
}

/* Before the sessions are known every log looks like that of one that is gone. */
static void on_sweep(uv_timer_t *timer)
{
	struct gateway *g = timer->data;

	uv_timer_start(timer, on_sweep, g->named ? SWEEP_MS : SWEEP_FIRST_MS, 0);
	if (g->named)
		logs_sweep(g->logs);
}

static void on_signal(uv_signal_t *signal, int number)
{
	(void)number;
	uv_stop(signal->loop);
}

/* Outgoing TCP goes to 443, to name servers when an answer is long, and to the base of imports
 * where the operator has named another one. */
static int confine(struct gateway *g, struct err *err)
{
	const uint16_t ports[] = { 443, 53, g->import_base.port };
	const struct confine_dir dirs[] = {
		{ .path = g->options.log_dir },
		{ .path = TRUST_DIR, .read_only = true },
	};
	size_t n_ports = ARRAY_SIZE(ports) - !g->import_base.given;
	/* Whether a server may run without landlock is the launcher's to say. */
	int r = confine_files(dirs, ARRAY_SIZE(dirs), ports, n_ports, true, err);

	return r < 0 ? r : filter_load(&filter_gateway, err);
}

static int open_parts(struct gateway *g, struct err *err)
{
	int r = open_log_dir(g, err);

	g->logs = logs_new(g);
	if (r >= 0)
		r = own_open(g->loop, &g->own, err);
	if (r >= 0)
		r = resolver_open(g->loop, g->options.dns, (int)gateway_ms(g, RESOLVER_TRY_MS),
				  &g->resolver, err);
	if (r >= 0)
		r = transfer_init(err);
	return r;
}

/* Every open tunnel gets its last line, every counted denial its event. */
static void end_all(struct gateway *g)
{
	fetches_end(g);
	control_close(g);
	for (size_t i = 0; i < LAYOUT_SLOTS; i++)
		if (g->sandboxes[i])
			sandbox_remove(g->sandboxes[i]);
	sessions_mark_stale(g);
	sessions_end_stale(g);
	resolver_close(g->resolver);
	own_close(g->own);
	logs_free(g->logs);
	task_queue_close(&g->tasks, NULL);
	relay_fini();
	transfer_fini();
}

int main(int argc, char **argv)
{
	static struct gateway g = { .log_dir = -1 };
	uv_timer_t sweep;
	uv_signal_t term;
	uv_loop_t loop;
	struct err err;

	log_init("gateway", LOG_INFO);
	handle_limit_init();
	signal(SIGPIPE, SIG_IGN);
	if (parse(argc, argv, &g, &err) < 0 || confine_identity("airlock-gateway", &err) < 0)
		return refuse(&err);
	if (uv_loop_init(&loop) < 0)
		return 1;
	g.loop = &loop;
	list_init(&g.sessions);
	list_init(&g.fetches);
	task_queue_init(&g.tasks, &loop);
	/* Unique over restarts, and below 2^53 until the year 2242: a million a second. */
	g.next_conn = (uint64_t)(clock_wall_us() / 1000000) << 20 | 1;
	uv_signal_init(&loop, &term);
	uv_signal_start(&term, on_signal, SIGTERM);
	uv_timer_init(&loop, &sweep);
	sweep.data = &g;
	uv_timer_start(&sweep, on_sweep, SWEEP_FIRST_MS, 0);
	if (open_parts(&g, &err) < 0 || confine(&g, &err) < 0)
		return refuse(&err);
	if (control_open(&g, LAUNCHER_FD, &err) < 0)
		return 1;
	uv_run(&loop, UV_RUN_DEFAULT);
	end_all(&g);
	uv_close((uv_handle_t *)&sweep, NULL);
	uv_close((uv_handle_t *)&term, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
	fd_close(&g.log_dir);
	return 0;
}
