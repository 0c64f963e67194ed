// SPDX-License-Identifier: Apache-2.0
#include "init/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "sandbox/knobs.h"
#include "sandbox/layout.h"

/* include/uapi/linux/landlock.h of newer kernels than the build's: rights of ABI 3 and 5, the third
 * member of the attributes (ABI 4 network, ABI 6 scope). */
#define RIGHT_TRUNCATE (1ULL << 14)
#define RIGHT_IOCTL_DEV (1ULL << 15)
#define SCOPE_ABSTRACT_SOCKETS (1ULL << 0)
#define SCOPE_SIGNALS (1ULL << 1)

struct ruleset_attr {
	uint64_t access_fs;
	uint64_t access_net;
	uint64_t scoped;
};

#define READ_RIGHTS \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FILE_RIGHTS \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE | RIGHT_TRUNCATE | \
	 RIGHT_IOCTL_DEV | LANDLOCK_ACCESS_FS_READ_DIR)
#define TREE_RIGHTS \
	(READ_RIGHTS | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | \
	 LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR | \
	 LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | \
	 LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER | \
	 RIGHT_TRUNCATE | RIGHT_IOCTL_DEV)
/* Handled and granted nowhere: device nodes. */
#define ALL_RIGHTS (TREE_RIGHTS | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)

static const struct {
	const char *path;
	uint64_t rights;
} rules[] = {
	{ "/", READ_RIGHTS },	     { LAYOUT_WORKSPACE, TREE_RIGHTS }, { "/tmp", TREE_RIGHTS },
	{ "/dev/shm", TREE_RIGHTS }, { "/dev", FILE_RIGHTS }, /* null, zero, tty, pts */
	{ "/proc", FILE_RIGHTS }, /* own oom_score_adj, comm, and the like */
};

int lock_bounding(struct err *err)
{
	for (int cap = 0; cap < 64; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
			if (errno == EINVAL)
				return 0; /* beyond the kernel's last capability */
			return err_errno(err, "cannot drop capability %d from the bounding set",
					 cap);
		}
	return 0;
}

int lock_keep_capabilities(uint64_t keep, struct err *err)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = {
		{ .effective = (uint32_t)keep, .permitted = (uint32_t)keep },
		{ .effective = (uint32_t)(keep >> 32), .permitted = (uint32_t)(keep >> 32) },
	};

	if (syscall(SYS_capset, &head, data) < 0)
		return err_errno(err, "cannot reduce capabilities");
	return 0;
}

int lock_tenant(struct err *err)
{
	unsigned id = knob_off(KNOB_TENANT_ID) ? LAYOUT_INIT : LAYOUT_TENANT;
	/* NO_CAP_AMBIENT_RAISE and its lock are the two highest pairs of securebits(7). */
	unsigned long bits = SECURE_ALL_BITS | SECURE_ALL_LOCKS;
	int r;

	if (!knob_off(KNOB_CAPABILITIES)) {
		r = lock_bounding(err);
		if (r < 0)
			return r;
		/* KEEP_CAPS must not stay on; everything else is set and locked. */
		bits &= ~(unsigned long)SECBIT_KEEP_CAPS;
		if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0)
			return err_errno(err, "cannot lock the securebits");
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
			return err_errno(err, "cannot clear ambient capabilities");
	}
	if (syscall(SYS_setresgid, id, id, id) < 0 || syscall(SYS_setresuid, id, id, id) < 0)
		return err_errno(err, "cannot become the tenant's user");
	if (!knob_off(KNOB_CAPABILITIES)) {
		r = lock_keep_capabilities(0, err);
		if (r < 0)
			return r;
	}
	if (!knob_off(KNOB_NO_NEW_PRIVS) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, "cannot set no_new_privs");
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_errno(err, "cannot clear the dumpable flag");
	return 0;
}

static int add_rule(int ruleset, const char *path, uint64_t rights, struct err *err)
{
	struct landlock_path_beneath_attr attr = { .allowed_access = rights };
	_cleanup_fd_ int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return err_errno(err, "cannot open %s for landlock", path);
	attr.parent_fd = fd;
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &attr, 0) < 0)
		return err_errno(err, "cannot add a landlock rule for %s", path);
	return 0;
}

static uint64_t known_rights(int abi)
{
	uint64_t rights = ALL_RIGHTS;

	if (abi < 5)
		rights &= ~RIGHT_IOCTL_DEV;
	if (abi < 3)
		rights &= ~RIGHT_TRUNCATE;
	if (abi < 2)
		rights &= ~(uint64_t)LANDLOCK_ACCESS_FS_REFER;
	return rights;
}

static int landlock_abi(void)
{
	return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

int lock_landlock_prepare(int *ret_ruleset, struct err *err)
{
	int abi = landlock_abi();
	struct ruleset_attr attr = { .access_fs = known_rights(abi) };

	*ret_ruleset = -1;
	if (abi <= 0 || knob_off(KNOB_LANDLOCK))
		return 0;
	if (abi >= 6)
		attr.scoped = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS;
	/* An older kernel takes the longer struct when its tail is zero. */
	_cleanup_fd_ int ruleset =
		(int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	if (ruleset < 0)
		return err_errno(err, "cannot create the landlock ruleset");
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		int r = add_rule(ruleset, rules[i].path, rules[i].rights & attr.access_fs, err);
		if (r < 0)
			return r;
	}
	*ret_ruleset = take_fd(&ruleset);
	return abi;
}

int lock_landlock_enforce(int ruleset, struct err *err)
{
	if (ruleset < 0)
		return 0;
	int r = add_rule(ruleset, LAYOUT_WORKSPACE, TREE_RIGHTS & known_rights(landlock_abi()),
			 err);
	if (r < 0)
		return r;
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return err_errno(err, "cannot enforce landlock");
	return 0;
}
