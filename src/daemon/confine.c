// SPDX-License-Identifier: Apache-2.0
#include "daemon/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "sandbox/filter.h"

#define LAST_CAPABILITY 63

/* include/uapi/linux/landlock.h of newer kernels than the build's. */
#define RIGHT_TRUNCATE (1ull << 14)	   /* ABI 3 */
#define RIGHT_IOCTL_DEV (1ull << 15)	   /* ABI 5 */
#define NET_BIND_TCP (1ull << 0)	   /* ABI 4 */
#define NET_CONNECT_TCP (1ull << 1)	   /* ABI 4 */
#define SCOPE_ABSTRACT_SOCKETS (1ull << 0) /* ABI 6 */
#define SCOPE_SIGNALS (1ull << 1)	   /* ABI 6 */

#define RIGHTS_ABI_1 ((1ull << 13) - 1) /* LANDLOCK_ACCESS_FS_EXECUTE ... _MAKE_SYM */

struct ruleset_attr {
	uint64_t access_fs;
	uint64_t access_net;
	uint64_t scoped;
};

/* What the database and the temporary files need. */
#define STATE_RIGHTS \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | \
	 LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | \
	 LANDLOCK_ACCESS_FS_REMOVE_FILE | RIGHT_TRUNCATE)

/* ---- Identity ---- */

static int check_ids(struct err *err)
{
	uid_t ruid, euid, suid;
	gid_t rgid, egid, sgid;

	if (getresuid(&ruid, &euid, &suid) < 0 || getresgid(&rgid, &egid, &sgid) < 0)
		return err_errno(err, "reading the user");
	if (!ruid || !euid || !suid || !rgid || !egid || !sgid)
		return err_set(err, EPERM, "airlockd must not run as root");
	return 0;
}

static int check_capabilities(struct err *err)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2];
	uint32_t held = 0;

	if (syscall(SYS_capget, &head, sets) < 0)
		return err_errno(err, "reading capabilities");
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
		held |= sets[i].effective | sets[i].permitted | sets[i].inheritable;
	for (int cap = 0; cap <= LAST_CAPABILITY; cap++)
		held |= prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, cap, 0, 0) == 1;
	if (held)
		return err_set(err, EPERM, "airlockd must not hold a capability");
	return 0;
}

int confine_identity(struct err *err)
{
	const struct rlimit no_core = { 0, 0 };
	int r = check_ids(err);

	if (r >= 0)
		r = check_capabilities(err);
	if (r < 0)
		return r;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, "setting no_new_privs");
	/* Keys are in memory: no core file, no debugger of the same user. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || setrlimit(RLIMIT_CORE, &no_core) < 0)
		return err_errno(err, "forbidding core files");
	return 0;
}

/* ---- Files ---- */

/* Each kernel refuses bits and fields that it does not know. */
static size_t fit(struct ruleset_attr *attr, long abi)
{
	if (abi < 6)
		attr->scoped = 0;
	if (abi < 5)
		attr->access_fs &= ~RIGHT_IOCTL_DEV;
	if (abi < 4)
		attr->access_net = 0;
	if (abi < 3)
		attr->access_fs &= ~RIGHT_TRUNCATE;
	if (abi < 2)
		attr->access_fs &= ~(uint64_t)LANDLOCK_ACCESS_FS_REFER;
	return abi >= 6	  ? sizeof(*attr)
	       : abi >= 4 ? offsetof(struct ruleset_attr, scoped)
			  : offsetof(struct ruleset_attr, access_net);
}

static int allow(int ruleset, const char *path, uint64_t rights, struct err *err)
{
	_cleanup_fd_ int fd = open(path, O_PATH | O_CLOEXEC);
	const struct landlock_path_beneath_attr rule = {
		.allowed_access = rights,
		.parent_fd = fd,
	};

	if (fd < 0)
		return err_errno(err, "opening %s", path);
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		return err_errno(err, "allowing %s", path);
	return 0;
}

/* The gateway writes there; where there is no gateway there may be no such directory. */
static int allow_log(int ruleset, const char *path, struct err *err)
{
	int r = allow(ruleset, path, LANDLOCK_ACCESS_FS_READ_FILE, err);

	return r == -ENOENT ? 0 : r;
}

int confine_files(const char *state_dir, const char *log_dir, bool single, struct err *err)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct ruleset_attr attr = {
		.access_fs = RIGHTS_ABI_1 | LANDLOCK_ACCESS_FS_REFER | RIGHT_TRUNCATE |
			     RIGHT_IOCTL_DEV,
		.access_net = NET_BIND_TCP | NET_CONNECT_TCP,
		.scoped = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS,
	};

	if (abi < 1 && single) {
		log_event(LOG_WARN, "no_landlock");
		return 0;
	}
	if (abi < 1)
		return err_errno(err, "landlock");
	size_t size = fit(&attr, abi);
	_cleanup_fd_ int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (ruleset < 0)
		return err_errno(err, "making a landlock ruleset");
	if (allow(ruleset, state_dir, STATE_RIGHTS & attr.access_fs, err) < 0)
		return -err->code;
	if (allow_log(ruleset, log_dir, err) < 0)
		return -err->code;
	/* The descriptor that the http server keeps in reserve. */
	if (allow(ruleset, "/dev/null", LANDLOCK_ACCESS_FS_READ_FILE, err) < 0)
		return -err->code;
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return err_errno(err, "entering landlock");
	return 0;
}

/* ---- System calls ---- */

int confine_calls(struct err *err)
{
	return filter_load(&filter_daemon, err);
}
