// SPDX-License-Identifier: Apache-2.0
/*
 * compile-filter: build-time program, the only user of libseccomp. Prints a C file with the
 * programs of sandbox/filter.h, made from the rule table for the architecture that it runs on
 * (libseccomp translates the numbers of any other one by names, and it does not know the newer
 * names).
 *
 *   compile-filter x86_64|aarch64     names the architecture that the caller expects
 *
 * libseccomp makes what it is good at: the check of the architecture and a balanced tree over the
 * numbers. It cannot say "all but these values" nor give an errno per condition, so a call with
 * conditions gets a label there (SCMP_ACT_TRACE with a number that no rule uses otherwise), and the
 * label's RET becomes a jump to the clauses, appended behind: per clause its tests, each "load low
 * word, mask, compare, else next clause", then RET. A wrong architecture or an x32 number ends at
 * one label too, where the two are told apart. Any doubt ends the build.
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
#include <sys/mman.h>
#include <sys/stat.h>

#include "sandbox/rules.h"

#define LABEL_FOREIGN 0x7000u
#define LABEL_ARGS 0x7001u
#define LABELS_MAX 256u
/* From here on all architectures got new calls under one number. */
#define NUMBERS_SHARED 424
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

static uint32_t verdict_action(uint16_t verdict)
{
	return verdict == 0 ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | verdict;
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

/* ---- Numbers: libseccomp ---------------------------------------------------------------------- */

static void must(int rc, const char *what)
{
	if (rc < 0)
		fail("%s: %s", what, strerrordesc_np(-rc));
}

static void add_rule(scmp_filter_ctx ctx, const struct rule *r, const struct target *t,
		     uint16_t refused, uint8_t profile, const struct rule_args **labels, size_t *n)
{
	uint32_t action = SCMP_ACT_ALLOW;

	if (r->number[t->arch] == RULE_NONE)
		return;
	if (!(r->who & profile)) {
		if (refused == ENOSYS)
			return; /* the default */
		action = SCMP_ACT_ERRNO(refused);
	} else if (r->args) {
		if (*n == LABELS_MAX)
			fail("too many conditions");
		action = SCMP_ACT_TRACE(LABEL_ARGS + *n);
		labels[(*n)++] = r->args;
	}
	must(seccomp_rule_add_exact(ctx, action, r->number[t->arch], 0), r->name);
}

static void export(scmp_filter_ctx ctx, struct program *p)
{
	int fd = memfd_create("bpf", MFD_CLOEXEC);
	struct stat st;

	if (fd < 0 || seccomp_export_bpf(ctx, fd) != 0 || fstat(fd, &st) != 0)
		fail("cannot export the program");
	if (st.st_size <= 0 || (size_t)st.st_size > sizeof(p->code) ||
	    (size_t)st.st_size % sizeof(p->code[0]) != 0)
		fail("the exported program has %lld bytes", (long long)st.st_size);
	if (pread(fd, p->code, (size_t)st.st_size, 0) != st.st_size)
		fail("cannot read the program back");
	p->len = (size_t)st.st_size / sizeof(p->code[0]);
	close(fd);
}

static size_t compile_numbers(struct program *p, const struct target *t, uint8_t profile,
			      const struct rule_args **labels)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	size_t n = 0;

	if (!ctx)
		fail("cannot start libseccomp");
	must(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2), "optimize");
	must(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_TRACE(LABEL_FOREIGN)),
	     "bad architecture");
	for (size_t g = 0; g < rule_groups_n; g++)
		for (size_t i = 0; i < rule_groups[g].n; i++)
			add_rule(ctx, &rule_groups[g].rules[i], t, rule_groups[g].refused, profile,
				 labels, &n);
	export(ctx, p);
	seccomp_release(ctx);
	return n;
}

/* ---- Conditions -------------------------------------------------------------------------------- */

/* Room for one clause: per test load, mask, compare, and the RET. */
#define CLAUSE_MAX (RULE_TESTS_MAX * 3 + 1)

/* Jumps to `next`, the first instruction behind the clause, unless the test holds. `loaded` says
 * that the accumulator has the masked argument already. */
static void emit_test(struct program *p, const struct rule_test *t, bool loaded, size_t next)
{
	uint16_t op = t->op == RULE_GE ? BPF_JGE : BPF_JEQ;
	uint8_t skip;

	if (!loaded) {
		emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						     (uint32_t)offsetof(struct seccomp_data, args) +
							     t->arg * (uint32_t)sizeof(uint64_t)));
		if (t->mask != UINT32_MAX)
			emit(p, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, t->mask));
	}
	skip = (uint8_t)(next - p->len - 1);
	if (t->op == RULE_NE)
		emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | op | BPF_K, t->value, skip, 0));
	else
		emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | op | BPF_K, t->value, 0, skip));
}

static size_t test_length(const struct rule_test *t, bool loaded)
{
	return 1 + (loaded ? 0 : 1 + (t->mask != UINT32_MAX));
}

static void check_test(const struct rule_test *t)
{
	if (t->arg > 5 || t->op > RULE_GE || (t->op == RULE_GE && t->mask != UINT32_MAX) ||
	    (t->value & ~t->mask) != 0)
		fail("a test that can never hold or has a wrong form: argument %u, value 0x%x",
		     t->arg, t->value);
}

/* Emits one clause. *held: what the accumulator has when control comes here, NULL if that depends;
 * on return, what it has behind the clause. */
static void emit_clause(struct program *p, const struct rule_clause *c,
			const struct rule_test **held)
{
	const struct rule_test *first = *held;
	size_t length = 1, tests = 0;

	for (; tests < RULE_TESTS_MAX && c->tests[tests].op != RULE_END; tests++) {
		const struct rule_test *t = &c->tests[tests];
		bool loaded = tests == 0 && first && first->arg == t->arg && first->mask == t->mask;

		check_test(t);
		length += test_length(t, loaded);
	}
	for (size_t i = 0, end = p->len + length; i < tests; i++) {
		const struct rule_test *t = &c->tests[i];
		bool loaded = i == 0 && first && first->arg == t->arg && first->mask == t->mask;

		emit_test(p, t, loaded, end);
	}
	emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict_action(c->verdict)));
	/* With two tests or more, which one failed decides what is loaded. */
	*held = tests == 1 ? &c->tests[0] : NULL;
}

static void emit_args(struct program *p, const struct rule_args *args, uint8_t profile)
{
	const struct rule_test *held = NULL;

	for (size_t i = 0; i < args->n; i++) {
		const struct rule_clause *c = &args->clauses[i];

		if (!(c->who & profile))
			continue;
		emit_clause(p, c, &held);
		if (c->tests[0].op == RULE_END)
			return; /* holds always; what follows is for other profiles */
	}
	emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict_action(args->otherwise)));
}

/* ---- Joining both ------------------------------------------------------------------------------ */

static void emit_foreign(struct program *p, const struct target *t)
{
	emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					     (uint32_t)offsetof(struct seccomp_data, arch)));
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, t->token, 1, 0));
	emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
	emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS));
}

static void compile(struct program *p, const struct target *t, uint8_t profile)
{
	const struct rule_args *labels[LABELS_MAX];
	size_t n = compile_numbers(p, t, profile, labels), numbers = p->len;
	size_t at[LABEL_FOREIGN], foreign = p->len;

	emit_foreign(p, t);
	for (size_t i = 0; i < n; i++) {
		at[i] = p->len;
		emit_args(p, labels[i], profile);
	}
	for (size_t i = 0; i < numbers; i++) {
		struct sock_filter *ins = &p->code[i];
		uint32_t label = ins->k & SECCOMP_RET_DATA;

		if (ins->code != (BPF_RET | BPF_K) ||
		    (ins->k & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_TRACE)
			continue;
		if (label != LABEL_FOREIGN && (label < LABEL_ARGS || label - LABEL_ARGS >= n))
			fail("label %u is nobody's", label);
		*ins = (struct sock_filter)BPF_STMT(
			BPF_JMP | BPF_JA,
			(uint32_t)((label == LABEL_FOREIGN ? foreign : at[label - LABEL_ARGS]) - i -
				   1));
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
