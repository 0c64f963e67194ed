// SPDX-License-Identifier: Apache-2.0
/*
 * airlockd: the unprivileged server. The launcher starts it with
 *   fd 3  the socket to the launcher      fd 4  the configuration (memfd, lines NAME=value)
 *   fd 5  the listening socket            argv  airlockd --state-dir DIR
 *   fd 6  that of SANDBOX_METRICS_LISTEN, when it is set
 *
 * Start: identity -> configuration -> landlock -> store, runtime, core -> seccomp -> the launcher's
 * list of what is alive -> sessions compared with volumes -> serving.
 * Stop (SIGTERM): nothing new begins ("stopping"), what runs may end (drain.h); a second signal
 * ends the waiting. Then, or at once when the launcher is lost: what is left is ended -> no new
 * connection -> exchanges end -> api, core, runtime, store close, each when the one before has ->
 * exit. STOP_MS is the end in any case; whatever was acknowledged is committed long before.
 *
 * Exit status: 0 stopped, 78 the configuration or the state is refused, 75 the state cannot be used
 * as long as something lasts, 1 failed or launcher lost.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "api/api.h"
#include "api/error.h"
#include "api/traffic.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/slice.h"
#include "core/core.h"
#include "core/native/native.h"
#include "daemon/config.h"
#include "daemon/drain.h"
#include "daemon/policy.h"
#include "daemon/scrape.h"
#include "daemon/stores.h"
#include "http/server.h"
#include "ipc/messages.h"
#include "ipc/posture.h"
#include "sandbox/confine.h"
#include "sandbox/filter.h"

#define LAUNCHER_FD 3
#define CONFIG_FD 4
#define LISTEN_FD 5
#define METRICS_FD 6

#define POOL_ALL 64u
#define POOL_IDLE_MS 60000
#define COMMANDS_PER_CPU 4u
/* More volumes than this without an explanation are an older database that was put back. */
#define LOST_MAX 10u
#define CLIENT_QUEUE_MAX (256u * KIB)
#define GRACE_MS 500
#define STOP_MS 2000
#define DAY_US (86400 * INT64_C(1000000))

struct daemon {
	uv_loop_t loop;
	struct config *config; /* owned */
	char *state_path;      /* owned: <state>/state */
	char *tmp_path;	       /* owned: <state>/state/tmp */
	char *lost_path;       /* owned */
	char *egress_path;     /* owned: where the gateway's events are */
	struct stores stores;
	struct runtime *runtime;
	struct core *core;
	struct api *api;
	struct http_server *server;
	struct traffic traffic;
	struct scrape *scrape; /* NULL: nobody is told the metrics */
	int listen_fd;	       /* owned until the server has it */
	int metrics_fd;	       /* the same of the scrape; -1: none */
	unsigned cpus;
	uv_signal_t signals[3];
	uv_timer_t hard_end, next;
	struct drain drain;
	bool stopping; /* nothing new begins */
	bool ending;   /* and what there is ends now */
	int status;
};

/* A full disk and a database that another program holds do not last. */
static int refuse(const struct err *err)
{
	dprintf(STDERR_FILENO, "airlock: %s\n", err->text);
	return err->code == ENOSPC || err->code == EBUSY ? CONFIG_EXIT_LATER : CONFIG_EXIT;
}

/* ---- Stop ---- */

static void on_hard_end(uv_timer_t *timer)
{
	struct daemon *d = timer->data;

	log_event(LOG_WARN, "stop_cut_short");
	_exit(d->status);
}

static void on_store_closed(void *data)
{
	struct daemon *d = data;

	for (size_t i = 0; i < ARRAY_SIZE(d->signals); i++)
		uv_close((uv_handle_t *)&d->signals[i], NULL);
	uv_close((uv_handle_t *)&d->hard_end, NULL);
	uv_close((uv_handle_t *)&d->next, NULL);
	drain_close(&d->drain);
}

static void on_runtime_closed(void *data)
{
	struct daemon *d = data;

	stores_close(&d->stores, on_store_closed, d);
}

static void on_core_closed(void *data)
{
	struct daemon *d = data;

	native_close(d->runtime, on_runtime_closed, d);
}

static void on_scrape_closed(void *data)
{
	struct daemon *d = data;

	core_close(d->core, on_core_closed, d);
}

static void on_api_closed(void *data)
{
	struct daemon *d = data;

	if (d->scrape)
		scrape_close(take_ptr(d->scrape), on_scrape_closed, d);
	else
		on_scrape_closed(d);
}

static void on_server_gone(uv_timer_t *timer)
{
	struct daemon *d = timer->data;

	api_close(d->api, on_api_closed, d);
}

/* The api gives its exchanges up, which is better done when the server is not in the middle of its
 * own end. */
static void on_server_closed(void *data)
{
	struct daemon *d = data;

	d->server = NULL;
	uv_timer_start(&d->next, on_server_gone, 0, 0);
}

static void look_at_work(void *data, struct drain_work *ret)
{
	const struct daemon *d = data;
	struct core_work work;

	core_work_get(d->core, &work);
	*ret = (struct drain_work){
		.commands = work.commands,
		.imports = work.imports,
		.transfers = work.transfers,
		.requests = d->api ? api_requests(d->api) : 0,
	};
	ret->any = work.any || ret->requests;
}

static void end(struct daemon *d)
{
	if (d->ending)
		return;
	d->ending = true;
	core_end_work(d->core);
	uv_timer_start(&d->hard_end, on_hard_end, STOP_MS, 0);
	if (d->api)
		api_refuse_incomplete(d->api);
	if (d->server)
		http_server_close(d->server, GRACE_MS, on_server_closed, d);
	else if (d->api)
		api_close(d->api, on_api_closed, d);
	else
		on_api_closed(d);
}

static void on_drained(void *data)
{
	end(data);
}

static void stop(struct daemon *d, int status, int64_t max_ms)
{
	if (d->stopping) {
		drain_cut(&d->drain);
		return;
	}
	d->stopping = true;
	d->status = status;
	core_stop(d->core);
	drain_start(&d->drain, max_ms);
}

static void on_signal(uv_signal_t *handle, int number)
{
	struct daemon *d = handle->data;

	if (number != SIGHUP)
		stop(d, 0, (int64_t)config_settings(d->config)->launcher.stop_s * 1000);
}

static void on_launcher_lost(void *data, const struct err *err)
{
	stop(data, 1, 0);
}

/* ---- Start: what can be refused ---- */

static int parse_arguments(struct daemon *d, int argc, char **argv, struct err *err)
{
	if (argc != 3 || strcmp(argv[1], "--state-dir") != 0 || argv[2][0] != '/')
		return err_set(err, EINVAL,
			       "airlockd is started by airlock-launcher: airlockd --state-dir DIR");
	d->state_path = mem_printf("%s/state", argv[2]);
	d->tmp_path = mem_printf("%s/tmp", d->state_path);
	d->egress_path = mem_printf("%s/egress", argv[2]);
	return 0;
}

static int check_socket(int fd, int type, bool listening, const char *what, struct err *err)
{
	int is = 0, accepts = 0;
	socklen_t len = sizeof(int);

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &is, &len) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &len) < 0)
		return err_errno(err, "descriptor %d, the %s", fd, what);
	if (is != type || (accepts != 0) != listening)
		return err_set(err, ENOTSOCK, "descriptor %d is not the %s", fd, what);
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return err_errno(err, "descriptor %d", fd);
	return 0;
}

static int load_config(struct daemon *d, struct err *err)
{
	int fd = CONFIG_FD;

	d->config = config_new();
	int r = config_load_written(d->config, fd, err);
	if (r < 0)
		err_wrap(err, "the configuration");
	else
		r = config_check(d->config, err);
	fd_close(&fd);
	return r;
}

static void on_warning(void *data, const char *text)
{
	log_event(LOG_WARN, "configuration", LOG_STR("why", text));
}

/* Everything small: one arena, big blocks back to the kernel, few threads. */
static void tune(struct daemon *d)
{
	struct rlimit files;

	umask(077);
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, 128 * (int)KIB);
	mallopt(M_TRIM_THRESHOLD, 256 * (int)KIB);
	setenv("UV_THREADPOOL_SIZE", "4", 1);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	d->cpus = cpus > 0 ? (unsigned)cpus : 1;
}

static int make_folder(const char *path, struct err *err)
{
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "making %s", path);
	return 0;
}

static int check_folder(const char *path, const char *variable, struct err *err)
{
	if (access(path, R_OK | W_OK | X_OK) < 0)
		return err_errno(err,
				 "%s: the folder '%s' must be there for user airlock to write in",
				 variable, path);
	return 0;
}

/* Only what the configuration names can be opened from now on. */
static int confine(struct daemon *d, struct err *err)
{
	struct confine_dir dirs[2 + STORES_USES] = {
		{ .path = d->state_path },
		/* The gateway writes there; where there is none there may be no such directory. */
		{ .path = d->egress_path, .read_only = true },
	};
	char *folders[STORES_USES];
	size_t n = 2;

	int r = 0;

	for (enum stores_use i = 0; i < STORES_USES; i++) {
		folders[i] = stores_folder(&d->stores, i, d->state_path);
		if (folders[i] && r >= 0)
			r = check_folder(folders[i], stores_variable(i), err);
		if (folders[i])
			dirs[n++] = (struct confine_dir){ .path = folders[i] };
	}
	if (r >= 0 && confine_files(dirs, n, NULL, 0, config_settings(d->config)->single, err) < 0)
		r = err_wrap(err, "SANDBOX_STATE_DIR");
	for (size_t i = 0; i < STORES_USES; i++)
		free(folders[i]);
	return r;
}

static int prepare(struct daemon *d, int argc, char **argv, struct err *err)
{
	int r = parse_arguments(d, argc, argv, err);

	if (r >= 0)
		r = confine_identity("airlockd", err);
	if (r >= 0)
		r = check_socket(LAUNCHER_FD, SOCK_SEQPACKET, false, "launcher's socket", err);
	if (r >= 0)
		r = check_socket(LISTEN_FD, SOCK_STREAM, true, "listening socket", err);
	if (r >= 0)
		r = load_config(d, err);
	if (r >= 0 && config_settings(d->config)->launcher.metrics_listen) {
		d->metrics_fd = METRICS_FD;
		r = check_socket(METRICS_FD, SOCK_STREAM, true, "metrics socket", err);
	}
	if (r < 0)
		return r;
	log_init("airlockd", config_settings(d->config)->log_level);
	if (config_settings(d->config)->launcher.egress_log_dir) {
		free(d->egress_path);
		d->egress_path = mem_dup(config_settings(d->config)->launcher.egress_log_dir);
	}
	config_warn(d->config, on_warning, NULL);
	tune(d);
	r = make_folder(d->tmp_path, err);
	if (r < 0)
		return err_wrap(err, "SANDBOX_STATE_DIR");
	const char *const values[STORES_USES] = {
		[STORES_KEYS] = config_settings(d->config)->key_store,
		[STORES_AUDIT] = config_settings(d->config)->audit_store,
	};
	stores_init(&d->stores, d->state_path, values);
	return confine(d, err);
}

/* ---- Start: the parts ---- */

struct key_load {
	struct core *core;
	int result; /* negative: *err is filled, the other keys are passed over */
	struct err *err;
};

static void on_key(void *data, struct str tenant, struct str key)
{
	struct key_load *load = data;

	if (load->result >= 0)
		load->result = core_add_key(load->core, tenant, key, load->err);
}

static void on_limits(void *data, struct str tenant, const struct tenant_limits *limits)
{
	struct daemon *d = data;

	core_set_limits(d->core, tenant, limits);
}

struct policy_load {
	struct core_egress *entries; /* owned */
	size_t n;
};

static void on_egress(void *data, struct str tenant, const struct egress_list *rules)
{
	struct policy_load *load = data;

	load->entries = mem_grow(load->entries, load->n + 1, sizeof(*load->entries));
	load->entries[load->n++] = (struct core_egress){ tenant.data, rules };
}

static void set_egress(struct daemon *d)
{
	struct policy_load load = { 0 };

	config_each_egress(d->config, on_egress, &load);
	core_set_egress(d->core, load.entries, load.n);
	free(load.entries);
}

static int take_egress(struct daemon *d, int fd, struct err *err)
{
	struct policy_egress_list list = { 0 };
	int r = policy_read_egress(fd, &list, err);

	if (r < 0)
		return r;
	struct core_egress *entries = mem_new(list.n + 1, sizeof(*entries));
	for (size_t i = 0; i < list.n; i++)
		entries[i] = (struct core_egress){ list.items[i].tenant, &list.items[i].rules };
	core_set_egress(d->core, entries, list.n);
	log_event(LOG_INFO, "policy_loaded", LOG_INT("tenants", list.n));
	free(entries);
	policy_egress_fini(&list);
	return 0;
}

static int take_limits(struct daemon *d, int fd, struct err *err)
{
	struct policy_limits_list list = { 0 };
	int r = policy_read_limits(fd, &list, err);

	if (r < 0)
		return r;
	core_clear_limits(d->core);
	for (const struct policy_limits *at = list.items; at < list.items + list.n; at++)
		core_set_limits(d->core, at->tenant ? str_of(at->tenant) : (struct str){ NULL, 0 },
				&at->limits);
	log_event(LOG_INFO, "limits_loaded", LOG_INT("tenants", list.n - 1));
	policy_limits_fini(&list);
	return 0;
}

/* Read on the loop: a sealed copy of at most a megabyte, and only when the operator says so. */
static uint32_t on_policy(void *data, uint32_t which, int fd, uint32_t code)
{
	struct daemon *d = data;
	const struct config_settings *s = config_settings(d->config);
	bool egress = which == POLICY_EGRESS;
	struct err err;

	/* The runtime ends after the core. */
	if (d->stopping)
		return ESHUTDOWN;
	if (egress ? s->egress_fixed : s->limits_fixed) {
		log_event(LOG_WARN, egress ? "policy_file_ignored" : "limits_file_ignored",
			  LOG_STR("why", egress ? "SANDBOX_EGRESS_POLICY is set"
						: "SANDBOX_TENANT_LIMITS is set"));
		return 0;
	}
	errno = (int)code;
	int r = fd >= 0		? (egress ? take_egress : take_limits)(d, fd, &err)
		: code == EPERM ? err_set(&err, EPERM, "everybody can write to it")
				: err_errno(&err, "it cannot be opened");
	if (r >= 0)
		return 0;
	log_event(LOG_ERROR, egress ? "policy_refused" : "limits_refused",
		  LOG_STR("why", err.text));
	return (uint32_t)err.code;
}

/* As the api answers. */
static unsigned error_words(const struct err *err, const char **ret_text)
{
	const struct error_row *row = error_find(err->slug);

	if (row->text && (!err->text[0] || row == error_rows))
		*ret_text = row->text;
	return (unsigned)row->status;
}

static int open_core(struct daemon *d, struct err *err)
{
	const struct config_settings *s = config_settings(d->config);

	d->lost_path = mem_printf("%s/lost-volumes", d->state_path);
	const struct core_config config = {
		.session_ttl_ms = (int64_t)s->session_ttl_s * 1000,
		.quota_bytes = s->quota_mb * MIB,
		.volume_overcommit = (uint32_t)s->volume_overcommit,
		.max_sessions = (uint32_t)s->max_sessions,
		.output_max = (size_t)s->max_output_mb * MIB,
		.write_max = s->write_max_mb * MIB,
		.upload_max = s->upload_max_mb * MIB,
		.download_max = s->download_max_mb * MIB,
		.memory_bytes = s->launcher.memory_mb * MIB,
		.templates = s->templates,
		.n_templates = s->n_templates,
		.imported = s->imported,
		.runtime_name = "native",
		.tmp_dir = d->tmp_path,
		.import_base = s->import_base,
		.import_host = s->import_host,
		.import_max = s->import_max_mb * MIB,
		.ephemeral = s->ephemeral,
		.snapshot_keep_us = (int64_t)s->snapshot_days * DAY_US,
		.key_store = d->stores.stores[STORES_KEYS],
		.audit_store = d->stores.stores[STORES_AUDIT],
		.audit_strict = s->audit_strict,
		.error_words = error_words,
		.audit_keep_us = (int64_t)s->audit_days * DAY_US,
		.lost_file = d->lost_path,
		.lost_max = s->single || s->accept_lost ? 0 : LOST_MAX,
		.accept_lost = s->accept_lost,
	};
	int r = core_open(&d->loop, &config, d->stores.stores[STORES_STATE], d->runtime, &d->core,
			  err);

	if (r < 0)
		return r;
	config_each_limits(d->config, on_limits, d);
	set_egress(d);
	struct key_load load = { .core = d->core, .err = err };
	config_each_key(d->config, on_key, &load);
	return load.result < 0 ? err_wrap(err, "storing a tenant") : 0;
}

static uint64_t count_store_errors(void *data)
{
	return stores_errors(data);
}

static bool store_fails(void *data)
{
	return stores_failing(data);
}

static int open_server(struct daemon *d, struct err *err)
{
	const struct config_settings *s = config_settings(d->config);
	const struct api_config api = {
		.loop = &d->loop,
		.write_max = s->write_max_mb * MIB,
		.upload_max = s->upload_max_mb * MIB,
		.preview_domain = s->preview_domain,
		.egress_log_dir = d->egress_path,
		.admin_key = s->admin_key,
		.audit_days = (int64_t)s->audit_days,
		.snapshots = s->snapshots,
		.snapshot_days = (int64_t)s->snapshot_days,
		.store_errors = count_store_errors,
		.store_fails = store_fails,
		.store_data = &d->stores,
	};
	int r = api_open(&api, d->core, &d->api, err);

	if (r < 0)
		return r;
	const struct http_config http = {
		.listen_fd = d->listen_fd,
		.max_connections = (unsigned)s->max_connections,
		.write_max = CLIENT_QUEUE_MAX,
		.trusted_proxies = s->trusted_proxies,
		.handler = api_handle,
		.data = d->api,
		.answered = traffic_answered,
		.answered_data = &d->traffic,
	};
	r = http_server_open(&d->loop, &http, &d->server, err);
	if (r >= 0)
		d->listen_fd = -1;
	return r;
}

static int open_scrape(struct daemon *d, struct err *err)
{
	const struct scrape_sources sources = {
		.core = d->core,
		.runtime = d->runtime,
		.stores = &d->stores,
		.traffic = &d->traffic,
	};
	int r = 0;

	if (d->metrics_fd >= 0)
		r = scrape_open(&d->loop, d->metrics_fd, &sources, &d->scrape, err);
	if (r >= 0)
		d->metrics_fd = -1;
	return r;
}

/* Many tenants may share this host only when every layer that this asks for is there. */
static int check_layers(struct daemon *d, struct err *err)
{
	struct runtime_info info;

	runtime_info_get(d->runtime, &info);
	if (config_settings(d->config)->single)
		return 0;
	for (unsigned i = 0; i < POSTURE_BITS; i++) {
		if (info.missing & 1u << i)
			return err_set(err, ENOTSUP,
				       "SANDBOX_MODE: this host lacks %s, which many tenants need; "
				       "see `airlock doctor`, or use SANDBOX_MODE=single",
				       posture_name(i));
	}
	return 0;
}

static void on_volume(void *data, const char *volume, uint32_t tenant)
{
	struct daemon *d = data;

	core_found_volume(d->core, volume, tenant);
}

static void on_ready(void *data, const struct err *refused)
{
	struct daemon *d = data;
	struct err err;

	if (refused) {
		log_event(LOG_ERROR, "launcher_refused", LOG_STR("why", refused->text));
		stop(d, 1, 0);
		return;
	}
	if (d->stopping)
		return;
	if (check_layers(d, &err) < 0) {
		refuse(&err);
		stop(d, CONFIG_EXIT, 0);
		return;
	}
	if (core_start(d->core, &err) < 0) {
		refuse(&err);
		stop(d, CONFIG_EXIT, 0);
		return;
	}
	if (open_server(d, &err) < 0 || open_scrape(d, &err) < 0) {
		log_event(LOG_ERROR, "not_serving", LOG_STR("why", err.text));
		stop(d, 1, 0);
		return;
	}
	log_event(LOG_INFO, "serving",
		  LOG_STR("listen", config_settings(d->config)->launcher.listen),
		  LOG_INT("sessions", session_count(d->core)));
}

static int open_runtime(struct daemon *d, struct err *err)
{
	const struct config_settings *s = config_settings(d->config);
	const struct native_config config = {
		.launcher_fd = LAUNCHER_FD,
		.pool = (unsigned)s->pool,
		.pool_all = POOL_ALL,
		.running_max = COMMANDS_PER_CPU * d->cpus,
		.idle_ms = POOL_IDLE_MS,
		.tmp_dir = d->tmp_path,
		.lost = on_launcher_lost,
		.policy = on_policy,
	};

	return native_open(&d->loop, &config, on_volume, on_ready, d, &d->runtime, err);
}

static void watch_signals(struct daemon *d)
{
	static const int numbers[ARRAY_SIZE(d->signals)] = { SIGTERM, SIGINT, SIGHUP };

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		uv_signal_init(&d->loop, &d->signals[i]);
		d->signals[i].data = d;
		uv_signal_start(&d->signals[i], on_signal, numbers[i]);
	}
	uv_timer_init(&d->loop, &d->hard_end);
	uv_timer_init(&d->loop, &d->next);
	d->drain.look = look_at_work;
	d->drain.over = on_drained;
	d->drain.data = d;
	drain_init(&d->drain, &d->loop);
	d->hard_end.data = d->next.data = d;
}

static int open_parts(struct daemon *d, struct err *err)
{
	int r = stores_open(&d->stores, &d->loop, err);

	if (r >= 0)
		r = open_runtime(d, err);
	if (r >= 0)
		r = open_core(d, err);
	return r;
}

static int run(struct daemon *d)
{
	struct err err;

	if (uv_loop_init(&d->loop) < 0)
		return 1;
	/* Before there are other threads. What it is for is no condition for serving. */
	slice_shorten();
	watch_signals(d);
	traffic_init(&d->traffic);
	int r = open_parts(d, &err);
	if (r >= 0)
		r = filter_load(&filter_daemon, &err);
	if (r < 0)
		return refuse(&err);
	uv_run(&d->loop, UV_RUN_DEFAULT);
	uv_loop_close(&d->loop);
	return d->status;
}

int main(int argc, char **argv)
{
	struct daemon d = { .listen_fd = LISTEN_FD, .metrics_fd = -1 };
	struct err err;

	log_init("airlockd", LOG_INFO);
	int status = prepare(&d, argc, argv, &err) < 0 ? refuse(&err) : run(&d);
	config_free(d.config);
	stores_fini(&d.stores);
	free(d.state_path);
	free(d.tmp_path);
	free(d.lost_path);
	free(d.egress_path);
	fd_close(&d.listen_fd);
	fd_close(&d.metrics_fd);
	return status;
}
