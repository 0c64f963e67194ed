// SPDX-License-Identifier: Apache-2.0
#include "init/tenant.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "init/lock.h"
#include "ipc/messages.h"
#include "sandbox/filter.h"
#include "sandbox/knobs.h"
#include "sandbox/layout.h"
#include "worker/file.h"

/* Where the tenant keeps its end of init's socket until exec: above what init inherited. */
#define TENANT_SOCK LAYOUT_FD_CONTROL

struct order {
	const char *cwd;
	char *argv[4];
	char *envp[EXEC_SPEC_ENV_MAX + 1];
};

static _Noreturn void refuse(uint32_t id, enum exec_stage stage, int code)
{
	struct id_refused body = { .stage = stage, .code = (uint32_t)code };

	wire_send(TENANT_SOCK, ID_REFUSED, id, &body, sizeof(body), NULL, 0);
	_exit(127);
}

/* Checks the whole of the specification before any of it is used. */
static int parse_spec(char *map, size_t size, struct order *order)
{
	struct exec_spec spec;

	if (size < sizeof(spec))
		return -EINVAL;
	memcpy(&spec, map, sizeof(spec));
	uint64_t need =
		sizeof(spec) + (uint64_t)spec.cwd_len + 1 + spec.env_len + spec.command_len + 1;
	if (spec.magic != EXEC_SPEC_MAGIC || spec.n_env > EXEC_SPEC_ENV_MAX || need != size)
		return -EINVAL;
	char *cwd = map + sizeof(spec);
	char *env = cwd + spec.cwd_len + 1;
	char *command = env + spec.env_len;
	if (cwd[spec.cwd_len] || command[spec.command_len])
		return -EINVAL;
	for (uint32_t i = 0; i < spec.n_env; i++) {
		size_t left = (size_t)(command - env);
		size_t len = strnlen(env, left);
		if (len == left)
			return -EINVAL;
		order->envp[i] = env;
		env += len + 1;
	}
	if (env != command)
		return -EINVAL;
	static char shell[] = LAYOUT_SHELL, dash_c[] = "-c";
	order->cwd = cwd;
	order->argv[0] = shell;
	order->argv[1] = dash_c;
	order->argv[2] = command;
	return 0;
}

static int map_spec(int fd, struct order *order)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_WRITE)) != (F_SEAL_SHRINK | F_SEAL_WRITE))
		return -EINVAL;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size <= 0 || (uint64_t)st.st_size > EXEC_SPEC_MAX)
		return -EINVAL;
	char *map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	return parse_spec(map, (size_t)st.st_size, order);
}

static int enter_cwd(const char *path)
{
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
	_cleanup_fd_ int root = open(LAYOUT_WORKSPACE, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int fd = -1;

	if (root < 0)
		return -errno;
	if (!*path)
		return fchdir(root) < 0 ? -errno : 0;
	fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	if (fd < 0)
		return -errno;
	return fchdir(fd) < 0 ? -errno : 0;
}

/* fds: specification, stdout, stderr, and stdin or -1 (then 0 stays what it was born with,
 * /dev/null). The result has 0, 1, 2 and nothing else that survives exec. */
static int place_descriptors(const int fds[4])
{
	if (fds[3] >= 0 && dup2(fds[3], STDIN_FILENO) < 0)
		return -errno;
	if (dup2(fds[1], STDOUT_FILENO) < 0 || dup2(fds[2], STDERR_FILENO) < 0)
		return -errno;
	if (!knob_off(KNOB_FDS) && syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
		return -errno;
	return 0;
}

static _Noreturn void run_command(struct wire_msg *msg, int ruleset)
{
	static struct order order;
	uint32_t id = msg->head.id;
	struct err err;
	sigset_t none;
	int r;

	r = map_spec(msg->fds[0], &order);
	if (r < 0)
		refuse(id, EXEC_STAGE_SPEC, -r);
	r = place_descriptors(msg->fds);
	if (r < 0)
		refuse(id, EXEC_STAGE_LOCKDOWN, -r);
	r = lock_landlock_enforce(ruleset, &err);
	if (r < 0)
		refuse(id, EXEC_STAGE_LOCKDOWN, -r);
	r = enter_cwd(order.cwd);
	if (r < 0)
		refuse(id, EXEC_STAGE_CWD, -r);
	sigemptyset(&none);
	if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
		refuse(id, EXEC_STAGE_LOCKDOWN, errno);
	execve(order.argv[0], order.argv, order.envp);
	refuse(id, EXEC_STAGE_EXEC, errno);
}

/* -1 when nothing is attached there. */
static int open_source(void)
{
	struct statx stx;

	if (statx(AT_FDCWD, LAYOUT_SOURCE, AT_SYMLINK_NOFOLLOW, 0, &stx) < 0 ||
	    !(stx.stx_attributes & STATX_ATTR_MOUNT_ROOT))
		return -1;
	return open(LAYOUT_SOURCE, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* The next job. A commit without its job is of one that ended before it came. */
static void next_job(struct wire_msg *msg)
{
	struct pollfd p = { .fd = TENANT_SOCK, .events = POLLIN };
	int r;

	do {
		if (poll(&p, 1, -1) < 0 && errno != EINTR)
			_exit(126);
		r = wire_recv(TENANT_SOCK, &wire_di, msg);
	} while (r == -EAGAIN || (r == 1 && msg->head.type == DI_COMMIT));
	if (r <= 0 || msg->head.type != DI_FILE)
		_exit(0);
}

/* Serves file jobs until init goes away. */
static _Noreturn void serve_files(struct wire_msg *msg, int ruleset)
{
	struct file_place place = { .sock = TENANT_SOCK };
	struct err err;

	if (lock_landlock_enforce(ruleset, &err) < 0)
		_exit(126);
	place.workspace = open(LAYOUT_WORKSPACE, O_PATH | O_DIRECTORY | O_CLOEXEC);
	place.source = open_source();
	if (place.workspace < 0)
		_exit(126);
	for (;;) {
		file_worker_job(msg, &place);
		wire_msg_fini(msg);
		next_job(msg);
	}
}

/* What the process says when it has locked itself down. */
struct status {
	int code; /* 0 or a negative errno */
	int landlock;
};

static _Noreturn void tenant_main(int sock, int status_pipe)
{
	struct err err = { 0 };
	struct wire_msg msg;
	struct pollfd p = { .fd = TENANT_SOCK, .events = POLLIN };
	struct status status = { .code = 0 };
	int ruleset = -1, r;

	/* Init's own descriptors go first: whatever happens below, the tenant never has them. */
	if (dup3(sock, TENANT_SOCK, O_CLOEXEC) < 0 ||
	    dup3(status_pipe, TENANT_SOCK + 1, O_CLOEXEC) < 0 ||
	    syscall(SYS_close_range, TENANT_SOCK + 2, ~0u, 0) < 0)
		_exit(126);
	if (setsid() < 0)
		_exit(126);
	r = lock_tenant(&err);
	if (r == 0)
		r = status.landlock = lock_landlock_prepare(&ruleset, &err);
	if (r >= 0 && !knob_off(KNOB_SECCOMP))
		r = filter_load(&filter_tenant, &err);
	status.code = r < 0 ? r : 0;
	if (write(TENANT_SOCK + 1, &status, sizeof(status)) != sizeof(status) || r < 0)
		_exit(126);
	close(TENANT_SOCK + 1);
	do {
		if (poll(&p, 1, -1) < 0 && errno != EINTR)
			refuse(0, EXEC_STAGE_SPEC, errno);
		r = wire_recv(TENANT_SOCK, &wire_di, &msg);
	} while (r == -EAGAIN);
	if (r == 1 && msg.head.type == DI_EXEC)
		run_command(&msg, ruleset);
	if (r == 1 && msg.head.type == DI_FILE)
		serve_files(&msg, ruleset);
	/* Said aloud: to init a silent end looks like a command that started and succeeded. */
	if (r < 0)
		refuse(0, EXEC_STAGE_SPEC, -r);
	_exit(0);
}

int tenant_spawn(pid_t *ret_pid, int *ret_sock, int *ret_landlock, struct err *err)
{
	int socks[2] = { -1, -1 }, pipes[2] = { -1, -1 };
	struct status status = { .code = -EPIPE };
	_cleanup_fd_ int mine = -1, theirs = -1, reader = -1, writer = -1;
	int r = wire_pair_open(socks, err);

	if (r < 0)
		return r;
	mine = socks[0];
	theirs = socks[1];
	if (pipe2(pipes, O_CLOEXEC) < 0)
		return err_errno(err, "pipe2");
	reader = pipes[0];
	writer = pipes[1];
	pid_t pid = fork();
	if (pid < 0)
		return err_errno(err, "cannot fork the tenant process");
	if (pid == 0)
		tenant_main(theirs, writer);
	fd_close(&writer);
	if (read(reader, &status, sizeof(status)) != sizeof(status) || status.code < 0)
		return err_set(err, status.code < 0 ? -status.code : EPIPE,
			       "the tenant process could not be locked down");
	*ret_pid = pid;
	*ret_landlock = status.landlock;
	*ret_sock = take_fd(&mine);
	return 0;
}
