// SPDX-License-Identifier: Apache-2.0
/*
 * compile-filter: build-time program, the only user of libseccomp. Prints a C file with the
 * programs of sandbox/filter.h, made from the rule table for the architecture that it runs on.
 *
 *   compile-filter x86_64|aarch64     names the architecture that the caller expects
 *
 * A program: the architecture, or the process is killed; a binary tree over runs of numbers with
 * the same answer (what is in no row, x32 numbers and -1 are runs of ENOSYS); behind it the clauses
 * of each call with conditions. Length is time: the kernel checks and translates every instruction
 * at each loading, 0.15 us apiece, once for init and once for the tenant of every sandbox.
 * libseccomp's own output for these rules is twice as long (one instruction per call), so that it
 * only vouches for the numbers here. Any doubt ends the build.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/rules.h"

/* From here on all architectures got new calls under one number. */
#define NUMBERS_SHARED 424
#define NUMBERS_MAX 1024
#define CLAUSES_MAX 100
#define PROGRAM_MAX BPF_MAXINSNS

struct target {
	const char *name;
	enum rule_arch arch;
	uint32_t token;
};

static const struct target targets[] = {
	{ "x86_64", RULE_X86_64, SCMP_ARCH_X86_64 },
	{ "aarch64", RULE_AARCH64, SCMP_ARCH_AARCH64 },
};

static const struct {
	const char *name;
	enum rule_profile profile;
} profiles[] = {
	{ "tenant", RULE_TENANT },
	{ "init", RULE_INIT },
	{ "daemon", RULE_DAEMON },
	{ "gateway", RULE_GATEWAY },
};

struct program {
	struct sock_filter code[PROGRAM_MAX];
	size_t len;
};

static _Noreturn void __attribute__((format(printf, 1, 2))) fail(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fputs("compile-filter: ", stderr);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

static struct sock_filter ret(uint16_t verdict)
{
	return (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict == 0
								     ? SECCOMP_RET_ALLOW
								     : SECCOMP_RET_ERRNO | verdict);
}

static void emit(struct program *p, struct sock_filter instruction)
{
	if (p->len == PROGRAM_MAX)
		fail("a program is longer than %u instructions", PROGRAM_MAX);
	p->code[p->len++] = instruction;
}

/* The table's number must be the one that libseccomp knows, if it knows the call. */
static void check_number(const struct rule *r, const struct target *t)
{
	int known = seccomp_syscall_resolve_name_arch(t->token, r->name);
	int number = r->number[t->arch];

	if (known == __NR_SCMP_ERROR || (known < 0 && number == RULE_NONE))
		return;
	/* Negative: libseccomp knows the name from other architectures alone. */
	if (known != number && !(known < 0 && number > NUMBERS_SHARED))
		fail("%s is %d on %s, the table says %d", r->name, known, t->name, number);
}

static void check_numbers(void)
{
	for (size_t g = 0; g < rule_groups_n; g++)
		for (size_t i = 0; i < rule_groups[g].n; i++)
			for (size_t a = 0; a < sizeof(targets) / sizeof(targets[0]); a++)
				check_number(&rule_groups[g].rules[i], &targets[a]);
}

/* ---- Conditions -------------------------------------------------------------------------------- */

static void load(struct program *p, size_t offset)
{
	emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

/* Lets the jump at `at` go to the end of what is emitted so far when it fails, or when it holds. */
static void land(struct program *p, size_t at, bool holding)
{
	size_t distance = p->len - at - 1;

	if (distance > UINT8_MAX)
		fail("a jump over %zu instructions", distance);
	*(holding ? &p->code[at].jt : &p->code[at].jf) = (uint8_t)distance;
}

static bool same_word(const struct rule_test *a, const struct rule_test *b)
{
	return a->arg == b->arg && a->mask == b->mask;
}

static bool same_test(const struct rule_test *a, const struct rule_test *b)
{
	return same_word(a, b) && a->op == b->op && a->value == b->value;
}

/* Whether the clause has no test at `from`. */
static bool is_over(const struct rule_clause *c, size_t from)
{
	return from == RULE_TESTS_MAX || c->tests[from].op == RULE_END;
}

/* Emits the comparison and returns where it is. `held`: what the accumulator has, NULL if it
 * depends. */
static size_t emit_test(struct program *p, const struct rule_test *t, const struct rule_test *held)
{
	if (t->arg > 5 || t->op > RULE_GE || (t->op == RULE_GE && t->mask != UINT32_MAX) ||
	    (t->value & ~t->mask) != 0)
		fail("a test that can never hold or has a wrong form: argument %u, value 0x%x",
		     t->arg, t->value);
	if (!held || !same_word(t, held)) {
		load(p, offsetof(struct seccomp_data, args) + t->arg * sizeof(uint64_t));
		if (t->mask != UINT32_MAX)
			emit(p, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, t->mask));
	}
	emit(p,
	     (struct sock_filter)BPF_JUMP(BPF_JMP | (t->op == RULE_GE ? BPF_JGE : BPF_JEQ) | BPF_K,
					  t->value, 0, 0));
	return p->len - 1;
}

/* How many clauses from c on differ only in the value of one last equality: they share a RET. */
static size_t alike(const struct rule_clause **c, size_t n, size_t from)
{
	const struct rule_test *t = &c[0]->tests[from];
	size_t i = 0;

	while (i < n && i < CLAUSES_MAX && !is_over(c[i], from) && is_over(c[i], from + 1) &&
	       t->op == RULE_EQ && c[i]->tests[from].op == RULE_EQ &&
	       same_word(t, &c[i]->tests[from]) && c[i]->verdict == c[0]->verdict)
		i++;
	return i;
}

static void emit_alike(struct program *p, const struct rule_clause **c, size_t n, size_t from,
		       const struct rule_test *held)
{
	size_t jumps[CLAUSES_MAX];

	for (size_t i = 0; i < n; i++) {
		jumps[i] = emit_test(p, &c[i]->tests[from], held);
		held = &c[i]->tests[from];
	}
	for (size_t i = 0; i + 1 < n; i++)
		land(p, jumps[i], true);
	emit(p, ret(c[0]->verdict));
	land(p, jumps[n - 1], false);
}

/* Emits clauses that differ from the test number `from` on. Returns whether control may come out at
 * the end. Neighbours with the same next test share it. */
static bool emit_clauses(struct program *p, const struct rule_clause **c, size_t n, size_t from,
			 const struct rule_test *held)
{
	for (size_t i = 0, group; i < n; i += group) {
		const struct rule_test *t = &c[i]->tests[from];
		size_t jump;
		bool out;

		if (is_over(c[i], from)) {
			emit(p, ret(c[i]->verdict));
			return false; /* what follows is never reached */
		}
		group = alike(c + i, n - i, from);
		if (group >= 2) {
			emit_alike(p, c + i, group, from, held);
			held = t;
			continue;
		}
		for (group = 1; i + group < n && !is_over(c[i + group], from) &&
				same_test(t, &c[i + group]->tests[from]);)
			group++;
		jump = emit_test(p, t, held);
		if (t->op == RULE_NE) { /* is the jump of "equal" turned round */
			emit(p, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0));
			land(p, jump, false);
		}
		out = emit_clauses(p, c + i, group, from + 1, t);
		if (t->op == RULE_NE)
			p->code[jump + 1].k = (uint32_t)(p->len - jump - 2);
		else
			land(p, jump, false);
		/* Who comes out of the inner clauses may have another word loaded. */
		held = out ? NULL : t;
	}
	return true;
}

static void emit_args(struct program *p, const struct rule_args *args, uint8_t profile)
{
	const struct rule_clause *own[CLAUSES_MAX];
	size_t n = 0;

	for (size_t i = 0; i < args->n; i++)
		if (args->clauses[i].who & profile) {
			if (n == CLAUSES_MAX)
				fail("too many conditions on one call");
			own[n++] = &args->clauses[i];
		}
	if (emit_clauses(p, own, n, 0, NULL))
		emit(p, ret(args->otherwise));
}

/* ---- Numbers ----------------------------------------------------------------------------------- */

/* What a number gets: an answer, or conditions. */
struct answer {
	uint16_t verdict;
	const struct rule_args *args;
};

struct run {
	uint32_t first;
	struct answer answer;
	size_t jump; /* conditions: where the jump to them is */
};

static void add_rule(struct answer *answers, const struct rule *r, uint16_t refused,
		     const struct target *t, uint8_t profile)
{
	int number = r->number[t->arch];

	if (number == RULE_NONE)
		return;
	if (number < 0 || number >= NUMBERS_MAX)
		fail("%s has the number %d", r->name, number);
	answers[number] = (struct answer){ r->who & profile ? 0 : refused,
					   r->who & profile ? r->args : NULL };
}

static size_t make_runs(struct run *runs, const struct target *t, uint8_t profile)
{
	struct answer answers[NUMBERS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < NUMBERS_MAX; i++)
		answers[i] = (struct answer){ ENOSYS, NULL };
	for (size_t g = 0; g < rule_groups_n; g++)
		for (size_t i = 0; i < rule_groups[g].n; i++)
			add_rule(answers, &rule_groups[g].rules[i], rule_groups[g].refused, t,
				 profile);
	/* The last number is ENOSYS, and so is everything behind it. */
	if (answers[NUMBERS_MAX - 1].verdict != ENOSYS)
		fail("there are calls up to the number %d", NUMBERS_MAX);
	for (uint32_t i = 0; i < NUMBERS_MAX; i++)
		if (n == 0 || answers[i].args || runs[n - 1].answer.args ||
		    answers[i].verdict != runs[n - 1].answer.verdict)
			runs[n++] = (struct run){ .first = i, .answer = answers[i] };
	return n;
}

static void emit_tree(struct program *p, struct run *runs, size_t n)
{
	size_t half = n / 2, jump = p->len;

	if (n == 1) {
		runs->jump = jump;
		emit(p, runs->answer.args ? (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0)
					  : ret(runs->answer.verdict));
		return;
	}
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, runs[half].first, 0, 0));
	emit_tree(p, runs, half);
	land(p, jump, true);
	emit_tree(p, runs + half, n - half);
}

static void compile(struct program *p, const struct target *t, uint8_t profile)
{
	static struct run runs[NUMBERS_MAX];
	size_t n = make_runs(runs, t, profile);

	p->len = 0;
	load(p, offsetof(struct seccomp_data, arch));
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, t->token, 1, 0));
	emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
	load(p, offsetof(struct seccomp_data, nr));
	emit_tree(p, runs, n);
	for (size_t i = 0; i < n; i++) {
		if (!runs[i].answer.args)
			continue;
		p->code[runs[i].jump].k = (uint32_t)(p->len - runs[i].jump - 1);
		emit_args(p, runs[i].answer.args, profile);
	}
}

static void print(const struct program *p, const char *name)
{
	printf("\nstatic const struct sock_filter code_%s[] = {\n", name);
	for (size_t i = 0; i < p->len; i++)
		printf("\t{ 0x%02x, %u, %u, 0x%08x },\n", p->code[i].code, p->code[i].jt,
		       p->code[i].jf, p->code[i].k);
	printf("};\n\nconst struct filter filter_%s = { \"%s\", code_%s, %zu };\n", name, name,
	       name, p->len);
}

int main(int argc, char **argv)
{
	static struct program program;
	const struct target *t = NULL;

	for (size_t i = 0; argc == 2 && i < sizeof(targets) / sizeof(targets[0]); i++)
		if (strcmp(argv[1], targets[i].name) == 0)
			t = &targets[i];
	if (!t)
		fail("there is no column for the architecture %s", argc == 2 ? argv[1] : "");
	if (seccomp_arch_native() != t->token)
		fail("filters for %s must be compiled there", t->name);
	check_numbers();
	printf("/* Made by compile-filter for %s from sandbox/rules.c. */\n", t->name);
	printf("#include \"sandbox/filter.h\"\n");
	for (size_t i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++) {
		compile(&program, t, profiles[i].profile);
		print(&program, profiles[i].name);
	}
	return fflush(stdout) == 0 ? 0 : 1;
}
