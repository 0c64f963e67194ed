// SPDX-License-Identifier: Apache-2.0
#include "sandbox/plan.h"

#include <assert.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "sandbox/knobs.h"
#include "sandbox/layout.h"

const char *const plan_image_skip[] = { ".",	 "..",	      "proc",	    "sys", "dev",
					"tmp",	 "workspace", "run",	    "mnt", "boot",
					"media", "root",      "lost+found", NULL };
const char *const plan_folders[] = { "proc", "dev", "tmp", "workspace", "run", NULL };

/* Documentation/admin-guide/devices.txt */
const struct plan_device plan_devices[] = {
	{ "null", 1, 3 },   { "zero", 1, 5 },	 { "full", 1, 7 },
	{ "random", 1, 8 }, { "urandom", 1, 9 }, { "tty", 5, 0 },
};
const size_t plan_n_devices = ARRAY_SIZE(plan_devices);

const struct plan_link plan_dev_links[] = {
	{ "fd", "/proc/self/fd" },	 { "stdin", "/proc/self/fd/0" },
	{ "stdout", "/proc/self/fd/1" }, { "stderr", "/proc/self/fd/2" },
	{ "ptmx", "pts/ptmx" },
};
const size_t plan_n_dev_links = ARRAY_SIZE(plan_dev_links);

#define MASK_FILE(p) \
	{ \
		.op = PLAN_MASK_FILE, .path = (p) \
	}
#define MASK_FOLDER(p) \
	{ \
		.op = PLAN_MASK_FOLDER, .path = (p) \
	}
#define READ_ONLY(p) \
	{ \
		.op = PLAN_READ_ONLY, .path = (p) \
	}
#define RLIMIT(what, s, h) \
	{ \
		.op = PLAN_RLIMIT, .number = (what), .soft = (s), .hard = (h) \
	}

static const struct plan_step first[] = {
	{ .op = PLAN_PROC, .path = "/proc" },
	/* The host has some 3,000 terminals for all sandboxes together. */
	{ .op = PLAN_DEVPTS,
	  .path = "/dev/pts",
	  .text = "newinstance,ptmxmode=0666,mode=0620,max=32" },
};

/* 16 MB, charged to the memory limit. Executable, as everywhere: interpreters map code from it. */
static const struct plan_step shm = { .op = PLAN_TMPFS,
				      .path = "/dev/shm",
				      .text = "mode=1777,size=16m,nr_inodes=4096",
				      .number = 1 };

/* A second wall behind seccomp: nobody in here can make a user namespace, not even init. */
static const struct plan_step user_limit = { .op = PLAN_WRITE,
					     .path = "/proc/sys/user/max_user_namespaces",
					     .text = "0" };

/* What a kernel shows to any reader although it is about the whole machine, or takes orders by.
 * Each mount costs a sandbox about 35 us to make and take apart, so what only the host's root may
 * open (kmsg, timer_list, slabinfo) is left to its permissions, and what /proc/stat tells anyway
 * (interrupts, softirqs, schedstat) is left alone: SECURITY.md lists it. Whoever may write to
 * pressure makes triggers, and the end of each takes the kernel some 14 ms, one after the other:
 * with 4,096 a killed sandbox would stay for a minute. */
static const struct plan_step masks[] = {
	MASK_FILE("/proc/kcore"),	MASK_FILE("/proc/sysrq-trigger"),
	MASK_FILE("/proc/keys"),	MASK_FILE("/proc/key-users"),
	MASK_FILE("/proc/kallsyms"),	MASK_FILE("/proc/modules"),
	MASK_FILE("/proc/sched_debug"), MASK_FILE("/proc/cmdline"),
	MASK_FILE("/proc/diskstats"),	MASK_FOLDER("/proc/bus"),
	MASK_FOLDER("/proc/fs"),	MASK_FOLDER("/proc/pressure"),
	READ_ONLY("/proc/sys"),
};

static const struct plan_step rest[] = {
	{ .op = PLAN_HOSTNAME, .text = LAYOUT_HOSTNAME },
	{ .op = PLAN_LOOPBACK },
};

static const struct plan_step listen_step = { .op = PLAN_LISTEN };

static const struct plan_step rlimits[] = {
	RLIMIT(RLIMIT_NOFILE, 1024, 4096),
	RLIMIT(RLIMIT_CORE, 0, 0),
	RLIMIT(RLIMIT_MEMLOCK, 65536, 65536),
	RLIMIT(RLIMIT_MSGQUEUE, 65536, 65536),
	RLIMIT(RLIMIT_SIGPENDING, 1024, 1024),
	RLIMIT(RLIMIT_RTPRIO, 0, 0),
	RLIMIT(RLIMIT_NICE, 0, 0),
};

static void add(struct plan *plan, const struct plan_step *steps, size_t n)
{
	assert(plan->n_steps + n <= PLAN_STEPS_MAX);
	for (size_t i = 0; i < n; i++)
		plan->steps[plan->n_steps++] = steps[i];
}

void plan_make(struct plan *plan, const struct plan_spec *spec)
{
	struct plan_step tmp = { .op = PLAN_TMPFS, .path = "/tmp", .text = plan->tmp_options };

	plan->n_steps = 0;
	if (knob_off(KNOB_TMP_SIZE))
		snprintf(plan->tmp_options, sizeof(plan->tmp_options), "mode=1777");
	else
		/* One inode for each 4 KiB: a file of no bytes costs kernel memory too. */
		snprintf(plan->tmp_options, sizeof(plan->tmp_options),
			 "mode=1777,size=%um,nr_inodes=%u", spec->tmp_mb, spec->tmp_mb * 256);
	if (knob_off(KNOB_NODEV))
		tmp.number = 1;
	add(plan, first, ARRAY_SIZE(first));
	add(plan, &tmp, 1);
	add(plan, &shm, 1);
	if (!knob_off(KNOB_USER_LIMIT))
		add(plan, &user_limit, 1);
	if (!knob_off(KNOB_MASK_PROC))
		add(plan, masks, ARRAY_SIZE(masks));
	add(plan, rest, ARRAY_SIZE(rest));
	if (spec->egress)
		add(plan, &listen_step, 1);
	if (!knob_off(KNOB_RLIMITS))
		add(plan, rlimits, ARRAY_SIZE(rlimits));
}

static const char *const op_names[] = {
	[PLAN_PROC] = "proc",		[PLAN_TMPFS] = "tmpfs",
	[PLAN_DEVPTS] = "devpts",	[PLAN_WRITE] = "write",
	[PLAN_MASK_FILE] = "mask-file", [PLAN_MASK_FOLDER] = "mask-folder",
	[PLAN_READ_ONLY] = "read-only", [PLAN_HOSTNAME] = "hostname",
	[PLAN_LOOPBACK] = "loopback",	[PLAN_LISTEN] = "listen",
	[PLAN_RLIMIT] = "rlimit",
};

void plan_format(const struct plan_step *step, char *out, size_t size)
{
	if (step->op == PLAN_RLIMIT)
		snprintf(out, size, "rlimit %llu %llu %llu", (unsigned long long)step->number,
			 (unsigned long long)step->soft, (unsigned long long)step->hard);
	else
		snprintf(out, size, "%s%s%s%s%s", op_names[step->op], step->path ? " " : "",
			 step->path ? step->path : "", step->text ? " " : "",
			 step->text ? step->text : "");
}
