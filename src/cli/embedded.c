// SPDX-License-Identifier: Apache-2.0
#include "cli/embedded.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/serve.h"
#include "cli/session.h"

#define STATE_ROOT "/var/lib/airlock-run"
#define SERVERS 16
#define KEY_BYTES 24
/* The first start makes the volume and unpacks the image. */
#define START_SECONDS 120
#define PAUSE_NS 5000000L
#define NOTICE_MS 3000

/* ---- Starting -------------------------------------------------------------------------------- */

static int take_directory(struct embedded *e, char **ret_dir, struct err *err)
{
	if (mkdir(STATE_ROOT, 0755) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make " STATE_ROOT);
	for (int i = 0; i < SERVERS; i++) {
		_cleanup_free_ char *dir = mem_printf(STATE_ROOT "/%d", i);
		if (mkdir(dir, 0755) < 0 && errno != EEXIST)
			return err_errno(err, "cannot make %s", dir);
		_cleanup_fd_ int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return err_errno(err, "%s", dir);
		if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
			e->lock_fd = take_fd(&fd);
			*ret_dir = take_ptr(dir);
			return 0;
		}
	}
	return err_set(err, EBUSY, "%d servers of `airlock run` are running already", SERVERS);
}

static char *random_key(void)
{
	unsigned char bytes[KEY_BYTES];
	_cleanup_buf_ struct buf text = BUF(2 * KEY_BYTES + 1);

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		abort();
	for (size_t i = 0; i < sizeof(bytes); i++)
		buf_printf(&text, "%02x", bytes[i]);
	return mem_dup_n(text.data, text.len);
}

/* What the caller has set counts, but for what would reach beyond this run. */
static void allow_what_is_asked(const char *egress)
{
	json_t *policy = json_object();

	json_object_set_new(policy, "*", session_comma_list(egress));
	char *text = json_dumps(policy, JSON_COMPACT);
	setenv("SANDBOX_EGRESS_POLICY", text, 1);
	free(text);
	json_decref(policy);
}

static void set_environment(const struct embedded *e, const char *dir, const char *egress)
{
	static const char *const dropped[] = {
		"SANDBOX_API_KEYS", "SANDBOX_KEYSTORE",	      "SANDBOX_ADMIN_KEY",
		"SANDBOX_AUDIT",    "SANDBOX_METRICS_LISTEN", "SANDBOX_EGRESS_LOG_DIR",
		"NOTIFY_SOCKET",    "SANDBOX_TENANT_LIMITS",  "SANDBOX_TENANT_LIMITS_FILE",
	};
	_cleanup_free_ char *listen = mem_printf("unix:%s", e->socket);
	const struct {
		const char *name, *value;
		int replace;
	} set[] = {
		{ "SANDBOX_API_KEY", e->key, 1 },	 { "SANDBOX_LISTEN", listen, 1 },
		{ "SANDBOX_STATE_DIR", dir, 1 },	 { "SANDBOX_SESSION_STATE", "off", 1 },
		{ "SANDBOX_STOP_SECONDS", "0", 1 },	 { "SANDBOX_POOL", "1", 0 },
		{ "SANDBOX_VOLUME_SIZE_MB", "2048", 0 }, { "SANDBOX_LOG_LEVEL", "warn", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(dropped); i++)
		unsetenv(dropped[i]);
	for (size_t i = 0; i < ARRAY_SIZE(set); i++)
		setenv(set[i].name, set[i].value, set[i].replace);
	if (egress && !getenv("SANDBOX_EGRESS_POLICY") && !getenv("SANDBOX_EGRESS_POLICY_FILE"))
		allow_what_is_asked(egress);
}

static _Noreturn void child_main(const struct embedded *e, const char *dir, const char *egress,
				 int log_fd, pid_t parent)
{
	const struct serve_request request = { .no_imports = true };
	const struct sigaction normal = { .sa_handler = SIG_DFL };
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &normal, NULL);
	if (setpgid(0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent ||
	    dup2(null, STDIN_FILENO) < 0 || dup2(log_fd, STDOUT_FILENO) < 0 ||
	    dup2(log_fd, STDERR_FILENO) < 0 || chdir("/") < 0)
		_exit(EXIT_FAILED);
	set_environment(e, dir, egress);
	_exit(serve_become(&request));
}

int embedded_start(struct embedded *e, const char *egress, struct err *err)
{
	_cleanup_free_ char *dir = NULL;
	pid_t parent = getpid();

	if (geteuid() != 0)
		return err_set(err, EPERM,
			       "a server of its own needs root; or set SANDBOX_API_URL and "
			       "SANDBOX_API_KEY to use one that is running");
	umask(022);
	int r = take_directory(e, &dir, err);
	if (r < 0)
		return r;
	e->socket = mem_printf("%s/run.sock", dir);
	e->log = mem_printf("%s/run.log", dir);
	e->key = random_key();
	_cleanup_fd_ int log_fd =
		open(e->log, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC | O_APPEND,
		     0600);
	if (log_fd < 0)
		return err_errno(err, "%s", e->log);
	pid_t pid = fork();
	if (pid < 0)
		return err_errno(err, "fork");
	if (pid == 0)
		child_main(e, dir, egress, log_fd, parent);
	e->pid = pid;
	return 0;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* The last line that is meant for people: "airlock: …". */
static int explain_end(const struct embedded *e, struct err *err)
{
	_cleanup_free_ char *line = NULL;
	char text[sizeof(err->text)] = "";
	size_t size = 0;
	FILE *log = fopen(e->log, "re");

	while (log && getline(&line, &size, log) > 0)
		if (strncmp(line, "airlock: ", 9) == 0 &&
		    strncmp(line, "airlock: warning", 16) != 0)
			snprintf(text, sizeof(text), "%.900s", line + 9);
	if (log)
		fclose(log);
	text[strcspn(text, "\n")] = '\0';
	if (text[0])
		return err_set(err, ECHILD, "%s", text);
	return err_set(err, ECHILD, "the server ended at its start; %s says more", e->log);
}

static bool has_ended(struct embedded *e)
{
	if (waitpid(e->pid, NULL, WNOHANG) != e->pid)
		return false;
	e->pid = 0;
	return true;
}

int embedded_wait(struct embedded *e, struct client *client, struct err *err)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	int64_t start = clock_monotonic_ms();
	bool told = false;

	client->quiet = true;
	for (;;) {
		int r = client_call_with(client, "GET", "/healthz", NULL, 0, 2, NULL, err);
		if (r == 0 || r == -ECANCELED) {
			client->quiet = false;
			return r;
		}
		if (has_ended(e))
			return explain_end(e, err);
		int64_t waited = clock_monotonic_ms() - start;
		if (waited > START_SECONDS * 1000)
			return err_set(err, ETIMEDOUT,
				       "the server did not start within %d s; %s says more",
				       START_SECONDS, e->log);
		if (waited > NOTICE_MS && !told && isatty(STDERR_FILENO)) {
			fprintf(stderr,
				"airlock: first start: making the volume, unpacking the image\n");
			told = true;
		}
		nanosleep(&pause, NULL);
	}
}

void embedded_stop(struct embedded *e)
{
	if (e->pid > 0) {
		kill(e->pid, SIGTERM);
		while (waitpid(e->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	e->pid = 0;
	if (e->socket)
		unlink(e->socket);
	fd_close(&e->lock_fd);
	mem_cleanup(&e->socket);
	mem_cleanup(&e->key);
	mem_cleanup(&e->log);
}
