// SPDX-License-Identifier: Apache-2.0
/*
 * The compiled programs against the rule table, and both against golden.txt: a change of what a
 * sandbox may call shows as a change of that file. `test-rules print > golden.txt` writes it anew.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdbool.h>

#include "base/mem.h"
#include "sandbox/filter.h"
#include "sandbox/rules.h"

#define NUMBERS 601u
#define X32_BIT 0x40000000u
#define HIGH_BITS 0xdeadbeef00000000ull

#if defined(__x86_64__)
#define NATIVE RULE_X86_64
#define NATIVE_TOKEN AUDIT_ARCH_X86_64
#define FOREIGN_TOKEN AUDIT_ARCH_I386
#else
#define NATIVE RULE_AARCH64
#define NATIVE_TOKEN AUDIT_ARCH_AARCH64
#define FOREIGN_TOKEN AUDIT_ARCH_ARM
#endif

static const struct {
	const struct filter *filter;
	enum rule_profile profile;
} profiles[] = {
	{ &filter_tenant, RULE_TENANT },
	{ &filter_init, RULE_INIT },
	{ &filter_daemon, RULE_DAEMON },
	{ &filter_gateway, RULE_GATEWAY },
};

/* ---- Two judges -------------------------------------------------------------------------------- */

/* What the kernel does with a program: linux/filter.h, as far as seccomp allows it. */
static uint32_t run(const struct filter *f, const struct seccomp_data *data)
{
	uint32_t acc = 0;

	for (size_t pc = 0; pc < f->len; pc++) {
		const struct sock_filter *i = &f->code[pc];

		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			assert_true(i->k % 4 == 0 && i->k < sizeof(*data));
			memcpy(&acc, (const char *)data + i->k, sizeof(acc));
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			acc &= i->k;
			break;
		case BPF_JMP | BPF_JA:
			pc += i->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += acc == i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += acc >= i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			pc += acc > i->k ? i->jt : i->jf;
			break;
		case BPF_RET | BPF_K:
			return i->k;
		default:
			fail_msg("instruction %zu has the unknown code 0x%x", pc, i->code);
		}
	}
	fail_msg("the program %s runs off its end", f->name);
	return 0;
}

static bool holds(const struct rule_test *t, const uint32_t *words)
{
	uint32_t word = words[t->arg];

	switch (t->op) {
	case RULE_EQ:
		return (word & t->mask) == t->value;
	case RULE_NE:
		return (word & t->mask) != t->value;
	default:
		return word >= t->value;
	}
}

/* The clause that decides, or NULL for `otherwise`. */
static const struct rule_clause *decide(const struct rule_args *args, uint8_t profile,
					const uint32_t *words)
{
	for (size_t i = 0; i < args->n; i++) {
		const struct rule_clause *c = &args->clauses[i];
		bool all = (c->who & profile) != 0;

		for (size_t t = 0; all && t < RULE_TESTS_MAX && c->tests[t].op != RULE_END; t++)
			all = holds(&c->tests[t], words);
		if (all)
			return c;
	}
	return NULL;
}

/* Allowed: 0, else the errno. */
static uint16_t judge(const struct rule_group *g, const struct rule *r, uint8_t profile,
		      const uint32_t *words)
{
	const struct rule_clause *c;

	if (!(r->who & profile))
		return g->refused;
	if (!r->args)
		return 0;
	c = decide(r->args, profile, words);
	return c ? c->verdict : r->args->otherwise;
}

static uint32_t action(uint16_t verdict)
{
	return verdict ? SECCOMP_RET_ERRNO | verdict : SECCOMP_RET_ALLOW;
}

static const struct rule *find(int arch, int number, const struct rule_group **ret_group)
{
	for (size_t g = 0; g < rule_groups_n; g++)
		for (size_t i = 0; i < rule_groups[g].n; i++)
			if (rule_groups[g].rules[i].number[arch] == number) {
				*ret_group = &rule_groups[g];
				return &rule_groups[g].rules[i];
			}
	return NULL;
}

static struct seccomp_data call(uint32_t token, uint32_t number, const uint32_t *words,
				uint64_t high)
{
	struct seccomp_data data = { .nr = (int)number, .arch = token };

	for (size_t i = 0; words && i < 6; i++)
		data.args[i] = words[i] | high;
	return data;
}

/* The program's answer, which must not depend on the high halves of the arguments. */
static uint32_t answer(const struct filter *f, uint32_t number, const uint32_t *words)
{
	struct seccomp_data low = call(NATIVE_TOKEN, number, words, 0);
	struct seccomp_data high = call(NATIVE_TOKEN, number, words, HIGH_BITS);
	struct seccomp_data all = call(NATIVE_TOKEN, number, words, 0xffffffff00000000ull);
	uint32_t ret = run(f, &low);

	assert_int_equal(run(f, &high), ret);
	assert_int_equal(run(f, &all), ret);
	return ret;
}

/* ---- Words worth trying ------------------------------------------------------------------------ */

#define WORDS_MAX 1024

struct words {
	uint32_t word[WORDS_MAX];
	size_t n;
};

static void add_word(struct words *w, uint32_t word)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->word[i] == word)
			return;
	assert_true(w->n < WORDS_MAX);
	w->word[w->n++] = word;
}

/* Everything around the values that the conditions on this argument name. */
static void collect(const struct rule_args *args, unsigned arg, struct words *w)
{
	bool tested = false;

	w->n = 0;
	add_word(w, 0);
	for (size_t i = 0; i < args->n; i++)
		for (size_t k = 0; k < RULE_TESTS_MAX; k++) {
			const struct rule_test *t = &args->clauses[i].tests[k];

			if (t->op == RULE_END || t->arg != arg)
				continue;
			tested = true;
			add_word(w, t->value);
			add_word(w, t->value + 1);
			add_word(w, t->value - 1);
			add_word(w, t->value | ~t->mask);
			if (t->op == RULE_NE)
				for (unsigned bit = 0; bit < 32; bit++)
					if (t->mask & (1u << bit))
						add_word(w, 1u << bit);
		}
	if (tested) {
		add_word(w, 1);
		add_word(w, UINT32_MAX);
		add_word(w, 0x80000000u);
	}
}

static void each_combination(const struct rule_args *args,
			     void (*each)(void *data, const uint32_t *words), void *data)
{
	static struct words w[6];
	size_t at[6] = { 0 };

	for (unsigned i = 0; i < 6; i++)
		collect(args, i, &w[i]);
	for (;;) {
		uint32_t words[6];
		unsigned i = 0;

		for (unsigned k = 0; k < 6; k++)
			words[k] = w[k].word[at[k]];
		each(data, words);
		while (i < 6 && ++at[i] == w[i].n)
			at[i++] = 0;
		if (i == 6)
			return;
	}
}

/* ---- Tests ------------------------------------------------------------------------------------- */

struct subject {
	const struct rule_group *group;
	const struct rule *rule;
	size_t tried;
};

static void compare_all(void *data, const uint32_t *words)
{
	struct subject *s = data;

	for (size_t p = 0; p < ARRAY_SIZE(profiles); p++) {
		uint32_t got = answer(profiles[p].filter, (uint32_t)s->rule->number[NATIVE], words);
		uint32_t expected = action(judge(s->group, s->rule, profiles[p].profile, words));

		if (got != expected)
			fail_msg("%s(0x%x, 0x%x, 0x%x, 0x%x) for %s: program 0x%x, table 0x%x",
				 s->rule->name, words[0], words[1], words[2], words[3],
				 profiles[p].filter->name, got, expected);
	}
	s->tried++;
}

static void the_programs_say_what_the_table_says(void **state)
{
	static const uint32_t none[6] = { 0 };
	size_t tried = 0;

	for (uint32_t n = 0; n < NUMBERS; n++) {
		struct subject s = { .rule = NULL };

		s.rule = find(NATIVE, (int)n, &s.group);
		if (!s.rule) {
			for (size_t p = 0; p < ARRAY_SIZE(profiles); p++)
				assert_int_equal(answer(profiles[p].filter, n, none),
						 SECCOMP_RET_ERRNO | ENOSYS);
			continue;
		}
		if (s.rule->args)
			each_combination(s.rule->args, compare_all, &s);
		else
			compare_all(&s, none);
		tried += s.tried;
	}
	print_message("%zu calls compared for each profile\n", tried);
	assert_true(tried > 1000);
}

/* Init forks its one process before it is filtered; afterwards it talks, waits, kills and ends. */
static void init_may_make_few_calls(void **state)
{
	static const char few[] = " read write close poll ppoll exit exit_group clock_gettime "
				  "restart_syscall rt_sigreturn sendmsg recvmsg prctl wait4 waitid "
				  "kill capset move_mount ";
	char word[64];

	for (size_t g = 0; g < rule_groups_n; g++)
		for (size_t i = 0; i < rule_groups[g].n; i++) {
			const struct rule *r = &rule_groups[g].rules[i];

			snprintf(word, sizeof(word), " %s ", r->name);
			assert_int_equal(!!(r->who & RULE_INIT), !!strstr(few, word));
		}
}

static void another_architecture_is_killed(void **state)
{
	static const uint32_t tokens[] = { FOREIGN_TOKEN, AUDIT_ARCH_PPC64LE, 0, UINT32_MAX,
					   NATIVE_TOKEN ^ 0x40000000u };

	for (size_t p = 0; p < ARRAY_SIZE(profiles); p++)
		for (size_t t = 0; t < ARRAY_SIZE(tokens); t++)
			for (uint32_t n = 0; n < NUMBERS; n++) {
				struct seccomp_data data = call(tokens[t], n, NULL, 0);

				assert_int_equal(run(profiles[p].filter, &data),
						 SECCOMP_RET_KILL_PROCESS);
			}
}

static void numbers_of_x32_and_beyond_are_unknown(void **state)
{
	static const uint32_t odd[] = { UINT32_MAX, 0x80000000u, 0x7fffffff,
					0x3fffffff, 0xffff,	 0xfffffffe };

	for (size_t p = 0; p < ARRAY_SIZE(profiles); p++) {
		for (uint32_t n = 0; n < NUMBERS; n++)
			assert_int_equal(answer(profiles[p].filter, n | X32_BIT, NULL),
					 SECCOMP_RET_ERRNO | ENOSYS);
		for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
			assert_int_equal(answer(profiles[p].filter, odd[i], NULL),
					 SECCOMP_RET_ERRNO | ENOSYS);
	}
}

/* Words that pass every test of the clause; the others are 0. */
static void words_for(const struct rule_clause *c, uint32_t words[6])
{
	memset(words, 0, 6 * sizeof(words[0]));
	for (size_t k = 0; k < RULE_TESTS_MAX && c->tests[k].op != RULE_END; k++) {
		const struct rule_test *t = &c->tests[k];

		/* For "not equal", the lowest bit of the mask flipped. */
		words[t->arg] = t->op == RULE_NE ? t->value ^ (t->mask & -t->mask) : t->value;
	}
}

static void check_clause(const struct rule *r, const struct rule_clause *c, uint8_t profile)
{
	uint32_t words[6], other[6];

	words_for(c, words);
	if (decide(r->args, profile, words) != c)
		fail_msg("%s: clause %td never decides", r->name, c - r->args->clauses);
	for (size_t k = 0; k < RULE_TESTS_MAX && c->tests[k].op != RULE_END; k++) {
		const struct rule_test *t = &c->tests[k];

		memcpy(other, words, sizeof(other));
		other[t->arg] = t->op == RULE_GE ? t->value - 1
						 : words[t->arg] ^ (t->mask & -t->mask);
		assert_ptr_not_equal(decide(r->args, profile, other), c);
	}
}

/* Both sides of each: words that it decides about, and for each of its tests words that it does
 * not. */
static void every_clause_decides_about_something(void **state)
{
	for (size_t g = 0; g < rule_groups_n; g++)
		for (size_t i = 0; i < rule_groups[g].n; i++) {
			const struct rule *r = &rule_groups[g].rules[i];

			for (size_t c = 0; r->args && c < r->args->n; c++)
				for (size_t p = 0; p < ARRAY_SIZE(profiles); p++)
					if (r->args->clauses[c].who & profiles[p].profile & r->who)
						check_clause(r, &r->args->clauses[c],
							     profiles[p].profile);
		}
}

static void no_call_is_listed_twice(void **state)
{
	for (int arch = 0; arch < RULE_ARCHES; arch++)
		for (size_t g = 0; g < rule_groups_n; g++)
			for (size_t i = 0; i < rule_groups[g].n; i++) {
				const struct rule *r = &rule_groups[g].rules[i];
				const struct rule_group *group;

				assert_true(*rule_groups[g].reason);
				if (r->number[arch] != RULE_NONE)
					assert_ptr_equal(find(arch, r->number[arch], &group), r);
			}
}

/* ---- The golden file ----------------------------------------------------------------------------
 */

static const char *verdict_name(uint16_t verdict)
{
	return verdict ? strerrorname_np(verdict) : "allow";
}

static void print_clause(FILE *out, const struct rule_group *g, const struct rule *r,
			 const struct rule_clause *c)
{
	uint32_t words[6];

	words_for(c, words);
	fprintf(out, "\t");
	for (unsigned i = 0; i < 6; i++) {
		bool tested = false;

		for (size_t k = 0; k < RULE_TESTS_MAX; k++)
			tested |= c->tests[k].op != RULE_END && c->tests[k].arg == i;
		if (tested)
			fprintf(out, "arg%u=0x%x ", i, words[i]);
	}
	for (size_t p = 0; p < ARRAY_SIZE(profiles); p++) {
		uint32_t got = answer(profiles[p].filter, (uint32_t)r->number[NATIVE], words);

		assert_int_equal(got, action(judge(g, r, profiles[p].profile, words)));
		fprintf(out, " %s=%s", profiles[p].filter->name,
			verdict_name(got == SECCOMP_RET_ALLOW ? 0 : got & SECCOMP_RET_DATA));
	}
	fprintf(out, "\n");
}

static void print_call(FILE *out, const struct rule_group *g, const struct rule *r)
{
	for (size_t p = 0; p < ARRAY_SIZE(profiles); p++) {
		uint8_t profile = profiles[p].profile;

		if (!(r->who & profile) || !r->args)
			fprintf(out, " %s=%s", profiles[p].filter->name,
				verdict_name(r->who & profile ? 0 : g->refused));
		else
			fprintf(out, " %s=else-%s", profiles[p].filter->name,
				verdict_name(r->args->otherwise));
	}
	fprintf(out, "\n");
}

static void print_golden(FILE *out)
{
	static const char *const arches[RULE_ARCHES] = { "x86_64", "aarch64" };

	for (int arch = 0; arch < RULE_ARCHES; arch++)
		for (uint32_t n = 0; n < NUMBERS; n++) {
			const struct rule_group *g;
			const struct rule *r = find(arch, (int)n, &g);

			fprintf(out, "%s %u ", arches[arch], n);
			if (!r) {
				fprintf(out, "- ENOSYS\n");
				continue;
			}
			fprintf(out, "%s %s", r->name, g->name);
			print_call(out, g, r);
			for (size_t c = 0; arch == NATIVE && r->args && c < r->args->n; c++)
				print_clause(out, g, r, &r->args->clauses[c]);
		}
}

static void nothing_changed_unseen(void **state)
{
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	FILE *memory = open_memstream(&text, &len), *golden = fopen(GOLDEN, "r");
	char expected[512];
	const char *at;
	int line = 0;

	assert_non_null(memory);
	assert_non_null(golden);
	print_golden(memory);
	fclose(memory);
	for (at = text; fgets(expected, sizeof(expected), golden); at += strlen(expected)) {
		line++;
		if (strncmp(at, expected, strlen(expected)) != 0)
			fail_msg("golden.txt line %d: expected %s, now %.*s", line, expected,
				 (int)strcspn(at, "\n"), at);
	}
	fclose(golden);
	if (*at)
		fail_msg("golden.txt lacks: %.*s", (int)strcspn(at, "\n"), at);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_programs_say_what_the_table_says),
		cmocka_unit_test(init_may_make_few_calls),
		cmocka_unit_test(another_architecture_is_killed),
		cmocka_unit_test(numbers_of_x32_and_beyond_are_unknown),
		cmocka_unit_test(every_clause_decides_about_something),
		cmocka_unit_test(no_call_is_listed_twice),
		cmocka_unit_test(nothing_changed_unseen),
	};

	if (argc == 2 && strcmp(argv[1], "print") == 0) {
		print_golden(stdout);
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
