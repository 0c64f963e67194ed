// SPDX-License-Identifier: Apache-2.0
#include "sandbox/filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int filter_load(const struct filter *f, struct err *err)
{
	/* The kernel reads through the pointer and changes nothing. */
	struct sock_fprog program = { .len = f->len };

	if (!f->code || f->len == 0)
		return err_set(err, EINVAL, "the seccomp filter %s is empty", f->name);
	/* With CAP_SYS_ADMIN the kernel would take a filter without it, and a set-id program could
	 * then run filtered in ways that its author did not expect. */
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return err_set(err, EPERM, "no_new_privs is not set before seccomp filter %s",
			       f->name);
	program.filter = (struct sock_filter *)(uintptr_t)f->code;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
		return err_errno(err, "loading seccomp filter %s", f->name);
	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != SECCOMP_MODE_FILTER)
		return err_set(err, EIO, "seccomp filter %s is not in force after loading",
			       f->name);
	return 0;
}
