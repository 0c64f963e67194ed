// SPDX-License-Identifier: Apache-2.0
/*
 * airlock-launcher: start. Everything that the roles share is opened here, in this order: number of
 * the server (so that two never share ids or cgroups), own mount namespace, cgroups, volumes,
 * images, the sealed init, the lifeline; then capabilities are cut, then the hand-over role takes
 * over. Exit status: 0 stopped, 78 refused (configuration or host), 1 failed.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/signals.h"
#include "ipc/posture.h"
#include "launcher/egress.h"
#include "launcher/host.h"
#include "launcher/launcher.h"
#include "launcher/sibling.h"
#include "sandbox/knobs.h"
#include "sandbox/layout.h"

#define LOCK_DIR "/run/airlock"
/* include/uapi/linux/memfd.h, 6.3 */
#define AIRLOCK_MFD_EXEC 0x0010u

/* One line for the operator, in the form that the contract asks of a refused start. */
static int refuse(const struct err *err)
{
	dprintf(STDERR_FILENO, "airlock: %s\n", err->text);
	return EXIT_CONFIG;
}

static int find_user(struct launcher *l, struct err *err)
{
	const struct passwd *pw = getpwnam(l->options.user);

	if (!pw)
		return err_set(err, ENOENT,
			       "there is no user %s; `make deps` or `make install` creates it",
			       l->options.user);
	if (pw->pw_uid == 0)
		return err_set(err, EINVAL, "airlockd must not run as root");
	l->user = pw->pw_uid;
	l->group = pw->pw_gid;
	return 0;
}

static int take_number(struct launcher *l, struct err *err)
{
	char path[64];

	if (mkdir(LOCK_DIR, 0755) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make " LOCK_DIR);
	for (unsigned n = 0; n < LAYOUT_SERVERS; n++) {
		snprintf(path, sizeof(path), LOCK_DIR "/%u", n);
		int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0)
			return err_errno(err, "cannot open %s", path);
		if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
			l->server = n;
			l->lock_fd = fd;
			return 0;
		}
		close(fd);
	}
	return err_set(err, EBUSY, "%u servers run on this host already", LAYOUT_SERVERS);
}

static int load_init(struct launcher *l, struct err *err)
{
	char path[4096];
	struct stat st;

	if (sibling_path(l->directory, "airlock-init", path, sizeof(path)) < 0)
		return err_set(err, ENOENT, "cannot find airlock-init");
	_cleanup_fd_ int file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0 || fstat(file, &st) < 0)
		return err_errno(err, "%s", path);
	/* Kernels before 6.3 refuse the flag that says what the old ones always do. */
	_cleanup_fd_ int fd =
		memfd_create("airlock-init", MFD_CLOEXEC | MFD_ALLOW_SEALING | AIRLOCK_MFD_EXEC);
	if (fd < 0)
		fd = memfd_create("airlock-init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return err_errno(err, "memfd_create");
	off_t at = 0;
	while (at < st.st_size)
		if (sendfile(fd, file, &at, (size_t)(st.st_size - at)) <= 0)
			return err_errno(err, "cannot copy %s", path);
	if (fchmod(fd, 0555) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return err_errno(err, "cannot seal airlock-init");
	l->init_fd = take_fd(&fd);
	return 0;
}

static int own_mount_namespace(struct err *err)
{
	if (unshare(CLONE_NEWNS) < 0)
		return err_errno(
			err,
			"cannot make a mount namespace; Airlock needs root with all capabilities");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_errno(err, "cannot make the mounts private");
	return 0;
}

static int add_images(struct launcher *l, struct err *err)
{
	for (unsigned i = 0; i < l->options.n_images; i++) {
		char name[MSG_IMAGE_NAME];
		const char *text = l->options.images[i], *tar = strchr(text, '=');
		if (!tar || (size_t)(tar - text) >= sizeof(name))
			return err_set(err, EINVAL, "--image: bad name");
		memcpy(name, text, (size_t)(tar - text));
		name[tar - text] = '\0';
		if (image_is_current(&l->volumes, name, tar + 1))
			continue;
		log_event(LOG_INFO, "image_add", LOG_STR("image", name));
		/* An older one of that name makes room; clones of it are made anew. */
		int r = image_exists(&l->volumes, name) ? image_remove(&l->volumes, name, err) : 0;
		if (r == 0)
			r = image_add(&l->volumes, name, tar + 1, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int open_cgroups(struct launcher *l, struct err *err)
{
	struct cgroup_config config = {
		.server = l->server,
		.memory_bytes = l->options.memory_mb << 20,
		/* init is one of them, and is not the tenant's */
		.pids = (uint32_t)l->options.pids + 1,
		.cpu_milli = (uint32_t)l->options.cpu_milli,
	};

	if (knob_off(KNOB_MEMORY))
		config.memory_bytes = UINT64_C(1) << 40;
	if (knob_off(KNOB_PIDS))
		config.pids = 1u << 20;
	if (knob_off(KNOB_CPU))
		config.cpu_milli = 256000;
	return cgroup_open(&l->cgroup, &config, err);
}

static int open_volumes(struct launcher *l, struct err *err)
{
	struct volumes_config config = {
		.state_dir = l->options.state_dir,
		.kind = l->options.volumes,
		.size_bytes = l->options.volume_size_mb << 20,
	};

	int r = volumes_open(&l->volumes, &config, err);
	if (r == 0 && l->volumes.why_plain[0])
		log_event(LOG_WARN, "plain_workspaces", LOG_STR("why", l->volumes.why_plain));
	return r;
}

/* A launcher that follows one that was killed may come before that one's roles have let go of their
 * number, and take another. When its volumes are open they have. */
static void clear_free_numbers(struct launcher *l)
{
	char path[64];

	for (unsigned n = 0; n < LAYOUT_SERVERS; n++) {
		snprintf(path, sizeof(path), LOCK_DIR "/%u", n);
		_cleanup_fd_ int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
		if (n != l->server && fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
			cgroup_remove_other(&l->cgroup, n);
	}
}

static int check_layers(struct launcher *l, struct err *err)
{
	l->layers = host_layers(l);
	uint32_t missing = LAUNCHER_POSTURE_MULTI & ~l->layers;
	if (missing && !l->options.single)
		return err_set(
			err, ENOTSUP,
			"SANDBOX_MODE: multi needs the layer %s, which this host does not offer; "
			"`airlock doctor` says more, SANDBOX_MODE=single goes without",
			posture_name((unsigned)__builtin_ctz(missing)));
	if (missing)
		log_event(LOG_WARN, "layer_missing",
			  LOG_STR("layer", posture_name((unsigned)__builtin_ctz(missing))));
	return 0;
}

static int cut_capabilities(struct err *err)
{
	static const int keep[] = {
		CAP_SYS_ADMIN,		      /* namespaces, mounts, quota, cgroups */
		CAP_SETUID,	  CAP_SETGID, /* id maps; airlockd's user */
		CAP_SETPCAP,		      /* to shrink bounding sets */
		CAP_KILL,	  CAP_CHOWN,
		CAP_FOWNER,	  CAP_DAC_OVERRIDE, /* volumes and images of other owners */
		CAP_MKNOD,			    /* /dev of a template */
		CAP_SYS_CHROOT,			    /* setns into a mount namespace */
		CAP_SYS_PTRACE,			    /* /proc/<pid>/ns of a sandbox */
		CAP_SYS_RESOURCE,		    /* oom_score_adj of init */
		CAP_NET_ADMIN,			    /* socket buffers */
	};
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = { 0 };
	uint64_t mask = 0;

	if (syscall(SYS_capget, &head, data) < 0)
		return err_errno(err, "capget");
	uint64_t have = data[0].permitted | (uint64_t)data[1].permitted << 32;
	for (size_t i = 0; i < ARRAY_SIZE(keep); i++)
		mask |= have & (UINT64_C(1) << keep[i]);
	for (int cap = 0; cap < 64; cap++)
		if (!((mask >> cap) & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 &&
		    errno == EINVAL)
			break;
	data[0] = (struct __user_cap_data_struct){ (uint32_t)mask, (uint32_t)mask, 0 };
	data[1] = (struct __user_cap_data_struct){ (uint32_t)(mask >> 32), (uint32_t)(mask >> 32),
						   0 };
	if (syscall(SYS_capset, &head, data) < 0)
		return err_errno(err, "capset");
	return 0;
}

static int raise_limits(struct err *err)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return err_errno(err, "getrlimit");
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		return err_errno(err, "setrlimit");
	return 0;
}

static int prepare(struct launcher *l, struct err *err)
{
	int r;

	if (geteuid() != 0)
		return err_set(err, EPERM, "the launcher must be started as root");
	umask(022);
	if (setgroups(0, NULL) < 0)
		return err_errno(err, "setgroups");
	/* What a killed builder left half-built is reaped here. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_errno(err, "prctl");
	if (fcntl(l->options.config_fd, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(l->options.listen_fd, F_SETFD, FD_CLOEXEC) < 0 ||
	    (l->options.metrics_fd >= 0 && fcntl(l->options.metrics_fd, F_SETFD, FD_CLOEXEC) < 0))
		return err_errno(err, "an inherited descriptor is missing");
	l->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (l->proc_fd < 0)
		return err_errno(err, "/proc");
	r = own_directory(l->directory, sizeof(l->directory));
	if (r < 0)
		return err_set(err, -r, "cannot tell where this program is");
	r = raise_limits(err);
	if (r == 0)
		r = find_user(l, err);
	if (r == 0)
		r = egress_prepare(l, err);
	if (r == 0)
		r = take_number(l, err);
	if (r == 0)
		r = own_mount_namespace(err);
	if (r == 0)
		r = open_cgroups(l, err);
	if (r == 0)
		r = open_volumes(l, err);
	if (r == 0)
		clear_free_numbers(l);
	if (r == 0)
		r = add_images(l, err);
	if (r == 0)
		r = load_init(l, err);
	if (r == 0 && pipe2(l->lifeline, O_CLOEXEC) < 0)
		r = err_errno(err, "pipe2");
	if (r == 0)
		r = check_layers(l, err);
	return r;
}

int main(int argc, char **argv)
{
	static struct launcher l = {
		.lock_fd = -1, .proc_fd = -1, .init_fd = -1, .lifeline = { -1, -1 }
	};
	struct err err;

	/* Whatever the starter ignored is not for its children, and not for tenants. */
	signals_heed();
	/* A log that nobody reads is no reason to end. */
	signal(SIGPIPE, SIG_IGN);
	log_init("launcher", LOG_INFO);
#ifdef AIRLOCK_TEST_KNOBS
	const char *off = getenv("AIRLOCK_TEST_OFF");
	if (off && !knob_parse(off)) {
		dprintf(STDERR_FILENO, "airlock: AIRLOCK_TEST_OFF: unknown layer\n");
		return EXIT_CONFIG;
	}
#endif
	if (launcher_options_parse(argc, argv, &l.options, &err) < 0)
		return refuse(&err);
	if (prepare(&l, &err) < 0)
		return refuse(&err);
	if (cut_capabilities(&err) < 0)
		return refuse(&err);
	_cleanup_fd_ int mark = fcntl(l.proc_fd, F_DUPFD_CLOEXEC, 3);
	if (mark < 0)
		return 1;
	/* Everything below this number was opened above. */
	l.first_fd = mark;
	int status = handover_main(&l);
	cgroup_remove_all(&l.cgroup);
	volumes_close(&l.volumes);
	return status;
}
