// SPDX-License-Identifier: Apache-2.0
#include "sandbox/confine.h"

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

#define READ_RIGHTS LANDLOCK_ACCESS_FS_READ_FILE
/* What databases, logs and temporary files need. */
#define WRITE_RIGHTS \
	(READ_RIGHTS | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_WRITE_FILE | \
	 LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE | RIGHT_TRUNCATE)
#define RULE_NET_PORT 2 /* ABI 4 */

struct net_port_attr {
	uint64_t allowed_access;
	uint64_t port;
};

/* ---- Identity ---- */

static int check_ids(const char *who, struct err *err)
{
	uid_t ruid, euid, suid;
	gid_t rgid, egid, sgid;

	if (getresuid(&ruid, &euid, &suid) < 0 || getresgid(&rgid, &egid, &sgid) < 0)
		return err_errno(err, "reading the user");
	if (!ruid || !euid || !suid || !rgid || !egid || !sgid)
		return err_set(err, EPERM, "%s must not run as root", who);
	return 0;
}

static int check_capabilities(const char *who, struct err *err)
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
		return err_set(err, EPERM, "%s must not hold a capability", who);
	return 0;
}

int confine_identity(const char *who, struct err *err)
{
	const struct rlimit no_core = { 0, 0 };
	int r = check_ids(who, err);

	if (r >= 0)
		r = check_capabilities(who, err);
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

static int allow_port(int ruleset, uint16_t port, struct err *err)
{
	const struct net_port_attr rule = { NET_CONNECT_TCP, port };

	if (syscall(SYS_landlock_add_rule, ruleset, RULE_NET_PORT, &rule, 0) < 0)
		return err_errno(err, "allowing port %u", port);
	return 0;
}

static int allow_all(int ruleset, const struct ruleset_attr *attr, const struct confine_dir *dirs,
		     size_t n_dirs, const uint16_t *ports, size_t n_ports, struct err *err)
{
	/* The descriptor that the http server keeps in reserve. */
	int r = allow(ruleset, "/dev/null", LANDLOCK_ACCESS_FS_READ_FILE, err);

	for (size_t i = 0; r == 0 && i < n_dirs; i++) {
		r = allow(ruleset, dirs[i].path,
			  (dirs[i].read_only ? READ_RIGHTS : WRITE_RIGHTS) & attr->access_fs, err);
		if (r == -ENOENT && dirs[i].read_only)
			r = 0;
	}
	for (size_t i = 0; r == 0 && attr->access_net && i < n_ports; i++)
		r = allow_port(ruleset, ports[i], err);
	return r;
}

int confine_files(const struct confine_dir *dirs, size_t n_dirs, const uint16_t *ports,
		  size_t n_ports, bool optional, struct err *err)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct ruleset_attr attr = {
		.access_fs = RIGHTS_ABI_1 | LANDLOCK_ACCESS_FS_REFER | RIGHT_TRUNCATE |
			     RIGHT_IOCTL_DEV,
		.access_net = NET_BIND_TCP | NET_CONNECT_TCP,
		.scoped = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS,
	};

	if (abi < 1 && optional) {
		log_event(LOG_WARN, "no_landlock");
		return 0;
	}
	if (abi < 1)
		return err_errno(err, "landlock");
	size_t size = fit(&attr, abi);
	_cleanup_fd_ int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (ruleset < 0)
		return err_errno(err, "making a landlock ruleset");
	int r = allow_all(ruleset, &attr, dirs, n_dirs, ports, n_ports, err);
	if (r < 0)
		return r;
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return err_errno(err, "entering landlock");
	return 0;
}
