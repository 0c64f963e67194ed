// SPDX-License-Identifier: Apache-2.0
/*
 * Runs on the host's own cgroups, version 1 or 2, whichever is there; needs root. Server number 15
 * is the one of tests. All of one process: every test leaves nothing but
 * airlock-15/{daemons,tenants}.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/num.h"
#include "ipc/posture.h"
#include "launcher/cgroup-backend.h"

#define SERVER 15
#define TENANT 7
#define SLOT 3

static const struct cgroup_config config = {
	.server = SERVER,
	.memory_bytes = 32 << 20,
	.pids = 6,
	.cpu_milli = 200,
};

static struct cgroup cg;
static struct err err;
static const char *skip_reason;

#define assert_ok(r) \
	do { \
		if ((r) < 0) \
			fail_msg("%s", err.text); \
	} while (0)

#define SKIP_WITHOUT_CGROUPS() \
	do { \
		if (skip_reason) { \
			print_message("skipped: %s\n", skip_reason); \
			skip(); \
		} \
	} while (0)

/* A launcher that starts meanwhile clears the numbers that nobody has. */
static bool take_numbers(void)
{
	char path[64];

	mkdir("/run/airlock", 0755);
	for (unsigned n = SERVER - 1; n <= SERVER; n++) {
		snprintf(path, sizeof(path), "/run/airlock/%u", n);
		int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
			return false;
	}
	return true;
}

static int open_all(void **state)
{
	if (geteuid() != 0)
		skip_reason = "cgroups need root";
	else if (!take_numbers())
		skip_reason = "the server's number of these tests is taken";
	else if (cgroup_open(&cg, &config, &err) < 0)
		skip_reason = err.text;
	else
		print_message("cgroup v%d; slots are %s\n", cg.version,
			      cg.version == 1 || cg.peak_reset ? "reused" : "made anew");
	return 0;
}

static int close_all(void **state)
{
	if (!skip_reason) {
		cgroup_remove_all(&cg);
		cgroup_close(&cg);
	}
	return 0;
}

/* A child in the slot, which runs what, then ends. */
static pid_t start(const struct cgroup_slot *slot, void (*what)(void))
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	pid_t pid;

	if (slot->into >= 0) {
		args.flags = CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)slot->into;
	}
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid != 0)
		return pid;
	for (unsigned i = 0; i < slot->n_join; i++)
		if (write(slot->join[i], "0", 1) != 1)
			_exit(90);
	what();
	_exit(0);
}

static int finish(pid_t pid)
{
	int status;

	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* The number behind `key` ("" for a file of one number) as airlockd reads it. */
static uint64_t measured(const struct cgroup_slot *slot, enum ld_slot_fd which, const char *key)
{
	char text[4096];
	ssize_t got = pread(slot->measure[which], text, sizeof(text), 0);
	struct str rest = { text, got > 0 ? (size_t)got : 0 }, line, word;
	uint64_t value;

	while (str_split(&rest, '\n', &line)) {
		if (*key && (!str_split(&line, ' ', &word) || !str_eq(word, str_of(key))))
			continue;
		assert_true(num_parse(line, 0, UINT64_MAX, &value));
		return value;
	}
	fail_msg("no %s in measure %d", key, which);
	return 0;
}

static uint64_t cpu_us(const struct cgroup_slot *slot)
{
	return cg.version == 1 ? measured(slot, SLOT_FD_CPU, "") / 1000
			       : measured(slot, SLOT_FD_CPU, "usage_usec");
}

static void nothing(void)
{
}

static void wait_for_kill(void)
{
	pause();
}

static void take_memory(void)
{
	size_t size = 64 << 20;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; i < size; i += 4096)
		p[i] = 1;
	_exit(91);
}

static void take_some_memory(void)
{
	size_t size = 16 << 20;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; i < size; i += 4096)
		p[i] = 1;
}

/* Exit status: how many children it could make. They wait until all are made. */
static void take_pids(void)
{
	int made = 0;

	setsid();
	for (pid_t child; made < 50; made++) {
		child = fork();
		if (child < 0)
			break;
		if (child == 0)
			pause();
	}
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);
	_exit(made);
}

static int64_t used_us(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return used.ru_utime.tv_usec + used.ru_stime.tv_usec;
}

/* Beside what it took to get here, of which a part was not in the slot. */
static void take_cpu(void)
{
	int64_t before = used_us();

	while (used_us() - before < 100 * 1000)
		;
}

/* On v1 the child enters by itself. */
static void wait_for_entry(pid_t pid)
{
	int64_t patience_ms = clock_monotonic_ms() + 60000;

	while (!cgroup_slot_holds(&cg, TENANT, SLOT, pid))
		assert_true(clock_monotonic_ms() < patience_ms);
}

static void a_new_slot_is_limited_before_anybody_enters(void **state)
{
	struct cgroup_slot slot = CGROUP_SLOT_NONE;
	uint32_t posture;

	SKIP_WITHOUT_CGROUPS();
	assert_ok(cgroup_slot_prepare(&cg, TENANT, SLOT, &slot, &err));
	assert_true(slot.fresh);
	posture = cgroup_slot_posture(&cg, TENANT, SLOT);
	assert_true(posture & POSTURE_MEMORY_LIMIT);
	assert_true(posture & POSTURE_PIDS_LIMIT);
	assert_true(posture & POSTURE_CPU_LIMIT);
	assert_int_equal(!!(posture & POSTURE_IO_WEIGHT), cg.io_weight);
	cgroup_slot_close(&slot);
	assert_ok(cgroup_slot_remove(&cg, TENANT, SLOT, &err));
	/* What is not there is not in force. */
	assert_int_equal(cgroup_slot_posture(&cg, TENANT, SLOT), 0);
}

static void a_child_is_in_the_slot_and_nowhere_else(void **state)
{
	struct cgroup_slot slot = CGROUP_SLOT_NONE;
	pid_t pid;

	SKIP_WITHOUT_CGROUPS();
	assert_ok(cgroup_slot_prepare(&cg, TENANT, SLOT, &slot, &err));
	pid = start(&slot, wait_for_kill);
	assert_true(pid > 0);
	wait_for_entry(pid);
	assert_true(cgroup_slot_holds(&cg, TENANT, SLOT, pid));
	assert_false(cgroup_slot_holds(&cg, TENANT, SLOT, getpid()));
	assert_false(cgroup_slot_holds(&cg, TENANT, SLOT + 1, pid));
	/* A used slot is refused, and not removed. */
	assert_int_equal(cgroup_slot_prepare(&cg, TENANT, SLOT, &slot, &err), -EBUSY);
	assert_int_equal(cgroup_slot_remove(&cg, TENANT, SLOT, &err), -EBUSY);
	kill(pid, SIGKILL);
	finish(pid);
	assert_false(cgroup_slot_holds(&cg, TENANT, SLOT, pid));
	cgroup_slot_close(&slot);
	assert_ok(cgroup_slot_remove(&cg, TENANT, SLOT, &err));
}

static void more_processes_than_allowed_are_refused_and_counted(void **state)
{
	struct cgroup_slot slot = CGROUP_SLOT_NONE;
	uint64_t before;
	int status;

	SKIP_WITHOUT_CGROUPS();
	assert_ok(cgroup_slot_prepare(&cg, TENANT, SLOT, &slot, &err));
	before = measured(&slot, SLOT_FD_PIDS, "max");
	status = finish(start(&slot, take_pids));
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), config.pids - 1);
	assert_true(measured(&slot, SLOT_FD_PIDS, "max") > before);
	/* Its children are on their way out. */
	int64_t patience_ms = clock_monotonic_ms() + 60000;
	while (cgroup_slot_prepare(&cg, TENANT, SLOT, &slot, &err) == -EBUSY)
		assert_true(clock_monotonic_ms() < patience_ms);
	cgroup_slot_close(&slot);
	assert_ok(cgroup_slot_remove(&cg, TENANT, SLOT, &err));
}

static void memory_beyond_the_limit_kills_and_is_counted(void **state)
{
	struct cgroup_slot slot = CGROUP_SLOT_NONE;
	uint64_t before;
	int status;

	SKIP_WITHOUT_CGROUPS();
	assert_ok(cgroup_slot_prepare(&cg, TENANT, SLOT, &slot, &err));
	before = measured(&slot, SLOT_FD_OOM, "oom_kill");
	status = finish(start(&slot, take_memory));
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	/* v2 counts a kill of the group once more. */
	assert_true(measured(&slot, SLOT_FD_OOM, "oom_kill") > before);
	assert_true(measured(&slot, SLOT_FD_PEAK, "") <= config.memory_bytes);
	assert_true(measured(&slot, SLOT_FD_PEAK, "") >= config.memory_bytes / 2);
	cgroup_slot_close(&slot);
	assert_ok(cgroup_slot_remove(&cg, TENANT, SLOT, &err));
}

static void the_peak_starts_anew_and_the_rest_goes_on(void **state)
{
	struct cgroup_slot slot = CGROUP_SLOT_NONE;
	uint64_t peak, cpu;

	SKIP_WITHOUT_CGROUPS();
	assert_ok(cgroup_slot_prepare(&cg, TENANT, SLOT, &slot, &err));
	assert_int_equal(finish(start(&slot, take_some_memory)), 0);
	peak = measured(&slot, SLOT_FD_PEAK, "");
	assert_in_range(peak, 16 << 20, 32 << 20);
	cpu = cpu_us(&slot);
	slot.fresh = false;
	assert_ok(cgroup_slot_prepare(&cg, TENANT, SLOT, &slot, &err));
	/* Only where the peak cannot be set back is the directory made anew. */
	assert_int_equal(slot.fresh, cg.version == 2 && !cg.peak_reset);
	assert_int_equal(finish(start(&slot, nothing)), 0);
	assert_in_range(measured(&slot, SLOT_FD_PEAK, ""), 0, 8 << 20);
	if (!slot.fresh)
		assert_true(cpu_us(&slot) >= cpu);
	cgroup_slot_close(&slot);
	assert_ok(cgroup_slot_remove(&cg, TENANT, SLOT, &err));
}

static void processor_time_is_counted_and_rationed(void **state)
{
	struct cgroup_slot slot = CGROUP_SLOT_NONE;
	int64_t from_ms;
	uint64_t before;

	SKIP_WITHOUT_CGROUPS();
	assert_ok(cgroup_slot_prepare(&cg, TENANT, SLOT, &slot, &err));
	before = cpu_us(&slot);
	from_ms = clock_monotonic_ms();
	assert_int_equal(finish(start(&slot, take_cpu)), 0);
	assert_true(cpu_us(&slot) - before >= 100 * 1000);
	/* 100 ms at a fifth of a processor: five periods of 100 ms, the first and the last shared. */
	assert_true(clock_monotonic_ms() - from_ms >= 300);
	cgroup_slot_close(&slot);
	assert_ok(cgroup_slot_remove(&cg, TENANT, SLOT, &err));
}

static void what_a_sandbox_left_charged_can_be_given_back(void **state)
{
	struct cgroup_slot slot = CGROUP_SLOT_NONE;
	_cleanup_fd_ int dir = -1;
	uint64_t residue;

	SKIP_WITHOUT_CGROUPS();
	assert_ok(cgroup_slot_prepare(&cg, TENANT, SLOT, &slot, &err));
	assert_int_equal(finish(start(&slot, take_some_memory)), 0);
	cgroup_slot_empty(&cg, TENANT, SLOT);
	dir = cgroup_open_dir(cgroup_root_of(&cg, CGROUP_MEMORY), "tenants/t7/s3");
	assert_true(cgroup_get_number(dir,
				      cg.version == 1 ? "memory.usage_in_bytes" : "memory.current",
				      &residue));
	assert_true(residue < 4 << 20);
	cgroup_slot_close(&slot);
	assert_ok(cgroup_slot_remove(&cg, TENANT, SLOT, &err));
	cgroup_tenant_remove(&cg, TENANT);
}

static void a_predecessors_processes_are_ended_and_its_cgroups_removed(void **state)
{
	struct cgroup_slot slot = CGROUP_SLOT_NONE;
	struct cgroup next;
	pid_t pid;

	SKIP_WITHOUT_CGROUPS();
	assert_ok(cgroup_slot_prepare(&cg, TENANT, SLOT, &slot, &err));
	pid = start(&slot, wait_for_kill);
	assert_true(pid > 0);
	wait_for_entry(pid);
	/* It takes the same number again, from inside daemons: everybody there goes but the caller.
	 */
	assert_ok(cgroup_open(&next, &config, &err));
	assert_int_equal(finish(pid), SIGKILL);
	assert_int_equal(cgroup_slot_posture(&cg, TENANT, SLOT), 0);
	cgroup_slot_close(&slot);
	cgroup_close(&cg);
	cg = next;
}

static void a_server_with_another_number_touches_nothing_of_ours(void **state)
{
	struct cgroup_config neighbours = config;
	struct cgroup_slot slot = CGROUP_SLOT_NONE;
	pid_t pid, neighbour;

	SKIP_WITHOUT_CGROUPS();
	neighbours.server = SERVER - 1;
	assert_ok(cgroup_slot_prepare(&cg, TENANT, SLOT, &slot, &err));
	pid = start(&slot, wait_for_kill);
	wait_for_entry(pid);
	neighbour = fork();
	if (neighbour == 0) {
		struct cgroup other;
		struct err child_err;

		if (cgroup_open(&other, &neighbours, &child_err) < 0)
			_exit(1);
		cgroup_remove_all(&other);
		_exit(0);
	}
	assert_int_equal(finish(neighbour), 0);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	assert_true(cgroup_slot_holds(&cg, TENANT, SLOT, pid));
	assert_true(cgroup_slot_posture(&cg, TENANT, SLOT) & POSTURE_MEMORY_LIMIT);
	kill(pid, SIGKILL);
	finish(pid);
	/* Its controllers are still on after the other one has gone. */
	cgroup_slot_close(&slot);
	assert_ok(cgroup_slot_prepare(&cg, TENANT, SLOT + 1, &slot, &err));
	cgroup_slot_close(&slot);
	assert_ok(cgroup_slot_remove(&cg, TENANT, SLOT, &err));
	assert_ok(cgroup_slot_remove(&cg, TENANT, SLOT + 1, &err));
}

static void what_another_number_left_is_ended_and_removed(void **state)
{
	struct cgroup_config others = config;
	struct stat st;
	int go[2];
	char ready;

	SKIP_WITHOUT_CGROUPS();
	others.server = SERVER - 1;
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	pid_t other = fork();
	if (other == 0) {
		struct cgroup left;
		struct err child_err;

		if (cgroup_open(&left, &others, &child_err) < 0 || write(go[1], "x", 1) != 1)
			_exit(1);
		wait_for_kill();
	}
	assert_int_equal(read(go[0], &ready, 1), 1);
	cgroup_remove_other(&cg, SERVER - 1);
	assert_int_equal(finish(other), SIGKILL);
	cgroup_remove_other(&cg, SERVER - 1);
	for (unsigned i = 0; i < cg.n_roots; i++) {
		assert_int_equal(fstatat(cg.roots[i].fd, "../airlock-14", &st, 0), -1);
		assert_int_equal(fstatat(cg.roots[i].fd, "tenants", &st, 0), 0);
	}
	close(go[0]);
	close(go[1]);
}

/* ---- What tenants have together ---- */

static const char *memory_file(void)
{
	return cg.version == 2 ? "tenants/memory.max" : "tenants/memory.limit_in_bytes";
}

static void the_host_keeps_a_part(void **state)
{
	struct sysinfo info;
	uint64_t bytes, count, most;

	SKIP_WITHOUT_CGROUPS();
	assert_int_equal(sysinfo(&info), 0);
	assert_true(cgroup_get_number(cgroup_root_of(&cg, CGROUP_MEMORY), memory_file(), &bytes));
	assert_true(bytes <= (uint64_t)info.totalram * info.mem_unit / 8 * 7);
	assert_true(
		cgroup_get_number(cgroup_root_of(&cg, CGROUP_PIDS), "tenants/pids.max", &count));
	assert_true(cgroup_get_number(AT_FDCWD, "/proc/sys/kernel/pid_max", &most));
	assert_true(count <= most - most / 4);
	assert_int_equal(cg.at_once, bytes / config.memory_bytes < count / config.pids
					     ? bytes / config.memory_bytes
					     : count / config.pids);
}

/* As a service manager limits a service: everything of ours is below that. */
static void a_limit_above_us_counts(void **state)
{
	struct cgroup below = cg;
	static const char *const folders[] = { "nest", "nest/own", "nest/own/tenants" };
	int memory = cgroup_root_of(&cg, CGROUP_MEMORY);
	uint64_t bytes;

	SKIP_WITHOUT_CGROUPS();
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		char file[64];
		assert_true(cgroup_make(memory, folders[i], &err) >= 0);
		snprintf(file, sizeof(file), "%s/cgroup.subtree_control", folders[i]);
		if (cg.version == 2 && i < 2)
			assert_int_equal(cgroup_put(memory, file, "+memory"), 0);
	}
	assert_int_equal(cgroup_put_number(memory,
					   cg.version == 2 ? "nest/memory.max"
							   : "nest/memory.limit_in_bytes",
					   200 << 20),
			 0);
	below.n_roots = 1;
	below.pids = false;
	below.config.memory_bytes = 30 << 20;
	below.roots[0] = (struct cgroup_root){ cgroup_open_dir(memory, "nest/own"), CGROUP_MEMORY };
	assert_ok(cgroup_limit_tenants(&below,
				       cg.version == 2 ? "memory.max" : "memory.limit_in_bytes",
				       &err));
	assert_true(cgroup_get_number(below.roots[0].fd, memory_file(), &bytes));
	/* Of so little the host keeps half. */
	assert_int_equal(bytes, 100 << 20);
	assert_int_equal(below.at_once, 3);
	close(below.roots[0].fd);
	for (size_t i = ARRAY_SIZE(folders); i-- > 0;)
		assert_int_equal(unlinkat(memory, folders[i], AT_REMOVEDIR), 0);
}

static void in_the_end_nothing_is_left(void **state)
{
	struct cgroup_slot slot = CGROUP_SLOT_NONE;
	struct stat st;

	SKIP_WITHOUT_CGROUPS();
	assert_ok(cgroup_slot_prepare(&cg, TENANT, SLOT, &slot, &err));
	cgroup_slot_close(&slot);
	cgroup_remove_all(&cg);
	for (unsigned i = 0; i < cg.n_roots; i++) {
		assert_int_equal(fstatat(cg.roots[i].fd, "tenants", &st, 0), -1);
		assert_int_equal(fstatat(cg.roots[i].fd, "daemons", &st, 0), -1);
	}
	cgroup_close(&cg);
	assert_ok(cgroup_open(&cg, &config, &err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_slot_is_limited_before_anybody_enters),
		cmocka_unit_test(a_child_is_in_the_slot_and_nowhere_else),
		cmocka_unit_test(more_processes_than_allowed_are_refused_and_counted),
		cmocka_unit_test(memory_beyond_the_limit_kills_and_is_counted),
		cmocka_unit_test(the_peak_starts_anew_and_the_rest_goes_on),
		cmocka_unit_test(processor_time_is_counted_and_rationed),
		cmocka_unit_test(what_a_sandbox_left_charged_can_be_given_back),
		cmocka_unit_test(a_predecessors_processes_are_ended_and_its_cgroups_removed),
		cmocka_unit_test(a_server_with_another_number_touches_nothing_of_ours),
		cmocka_unit_test(what_another_number_left_is_ended_and_removed),
		cmocka_unit_test(the_host_keeps_a_part),
		cmocka_unit_test(a_limit_above_us_counts),
		cmocka_unit_test(in_the_end_nothing_is_left),
	};

	return cmocka_run_group_tests(tests, open_all, close_all);
}
