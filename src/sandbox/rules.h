// SPDX-License-Identifier: Apache-2.0
/*
 * rules: which system calls may be made, as a table for people. sandbox/rules.c holds the calls in
 * groups, each with its reason; sandbox/rules-args.c the conditions on arguments. Pure data: the
 * build-time program compile-filter turns it into the BPF programs of sandbox/filter.h, and the
 * tests compare those with the table. No process links it.
 *
 * How a call is judged, in this order:
 *   1. wrong architecture: the process is killed; an x32 number: ENOSYS;
 *   2. a number that is not in the table: ENOSYS, so that libraries fall back;
 *   3. the profile is not in the call's `who`: the group's `refused` errno;
 *   4. no conditions: allowed. Conditions: the first clause for this profile whose tests all hold
 *      decides; when none does, `otherwise` decides.
 *
 * Tests look at the low 32 bits of an argument and at nothing else. That is what the kernel looks
 * at for every argument tested here; a comparison of 64 bits could be passed by setting a high bit
 * that the kernel then drops (the class of CVE-2019-10063).
 *
 * Numbers are kept here, per architecture, because the libseccomp of Debian 12 does not know calls
 * added after 2022; compile-filter refuses a number that libseccomp knows to be another one.
 * Sources: seccomp(2), Documentation/userspace-api/seccomp_filter.rst, the kernel's
 * arch/x86/entry/syscalls/syscall_64.tbl and scripts/syscall.tbl.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A number that an architecture does not have. */
#define RULE_NONE (-1)

enum rule_arch { RULE_X86_64, RULE_AARCH64, RULE_ARCHES };

enum rule_profile {
	RULE_TENANT = 1u << 0,	/* code of a tenant */
	RULE_INIT = 1u << 1,	/* PID 1 of a sandbox, once the tenant process is forked */
	RULE_DAEMON = 1u << 2,	/* airlockd */
	RULE_GATEWAY = 1u << 3, /* airlock-gateway */
};

enum rule_op {
	RULE_END, /* no test */
	RULE_EQ,  /* (argument & mask) == value */
	RULE_NE,  /* (argument & mask) != value */
	RULE_GE,  /* argument >= value, unsigned; mask is all ones */
};

struct rule_test {
	uint8_t arg; /* 0 to 5 */
	uint8_t op;
	uint32_t mask;
	uint32_t value;
};

#define RULE_TESTS_MAX 3

struct rule_clause {
	uint8_t who;				/* profiles that it holds for */
	uint16_t verdict;			/* 0: allowed, else the errno */
	struct rule_test tests[RULE_TESTS_MAX]; /* all must hold; RULE_END ends them */
};

struct rule_args {
	uint16_t otherwise; /* verdict when no clause holds */
	uint16_t n;
	const struct rule_clause *clauses;
};

struct rule {
	const char *name;
	short number[RULE_ARCHES];
	uint8_t who;
	const struct rule_args *args; /* NULL: no conditions */
};

struct rule_group {
	const char *name;
	const char *reason;
	uint16_t refused; /* errno for a profile that may not make the call */
	uint16_t n;
	const struct rule *rules;
};

extern const struct rule_group rule_groups[];
extern const size_t rule_groups_n;

extern const struct rule_args args_fcntl, args_ioctl, args_mknod, args_mknodat;
extern const struct rule_args args_mmap, args_mprotect, args_madvise, args_memfd_create,
	args_shmget;
extern const struct rule_args args_clone, args_prctl, args_arch_prctl, args_personality;
extern const struct rule_args args_seccomp, args_set_one_id, args_set_two_ids, args_set_three_ids;
extern const struct rule_args args_socket, args_socketpair, args_setsockopt, args_getsockopt;
extern const struct rule_args args_flags_third, args_flags_fourth;
