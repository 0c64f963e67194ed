// SPDX-License-Identifier: Apache-2.0
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "base/utf8.h"

char *cli_plain(const char *text)
{
	char *copy = mem_dup(text), *end = copy;

	for (struct str rest = str_of(text); rest.len;) {
		size_t n = utf8_control(rest);
		*end++ = n ? '?' : *rest.data;
		rest = str_from(rest, n ? n : 1);
	}
	*end = '\0';
	return copy;
}

int cli_fail(const struct err *err)
{
	_cleanup_free_ char *text = cli_plain(err->text);

	fprintf(stderr, "airlock: %s\n", text);
	return EXIT_FAILED;
}

int cli_usage(const struct cli_command *self, const char *fmt, ...)
{
	va_list args;

	if (fmt) {
		fputs("airlock: ", stderr);
		va_start(args, fmt);
		vfprintf(stderr, fmt, args);
		va_end(args);
		fputc('\n', stderr);
	}
	fprintf(stderr, "usage: airlock %s%s%s\n", self->name, *self->usage ? " " : "",
		self->usage);
	return EXIT_USAGE;
}

static bool is_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

int cli_dispatch(const struct cli_command *table, size_t n, const char *prefix, int argc,
		 char **argv)
{
	for (size_t i = 0; argc > 0 && i < n; i++) {
		const struct cli_command *c = &table[i];
		/* The name in the table carries the prefix, so that usage is complete. */
		if (strcmp(c->name + strlen(prefix), argv[0]) != 0)
			continue;
		if (argc == 2 && is_help(argv[1])) {
			printf("usage: airlock %s%s%s\n", c->name, *c->usage ? " " : "", c->usage);
			return 0;
		}
		return c->run(c, argc - 1, argv + 1);
	}
	if (argc > 0)
		fprintf(stderr, "airlock: there is no command '%s%s'\n", prefix, argv[0]);
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "%s airlock %s%s%s\n", i == 0 ? "usage:" : "      ", table[i].name,
			*table[i].usage ? " " : "", table[i].usage);
	return EXIT_USAGE;
}

static const struct opt *find_long(const struct opt *opts, size_t n, struct str name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(str_of(opts[i].name), name))
			return &opts[i];
	return NULL;
}

static const struct opt *find_letter(const struct opt *opts, size_t n, char letter)
{
	for (size_t i = 0; i < n; i++)
		if (opts[i].letter && opts[i].letter == letter)
			return &opts[i];
	return NULL;
}

static int opt_set(const struct opt *o, const char *value, struct err *err)
{
	struct opt_list *list = o->into;

	switch (o->kind) {
	case OPT_FLAG:
		*(bool *)o->into = true;
		return 0;
	case OPT_TEXT:
		*(const char **)o->into = value;
		return 0;
	case OPT_LIST:
		if (list->n == OPT_LIST_MAX)
			return err_set(err, E2BIG, "--%s is given too often", o->name);
		list->items[list->n++] = value;
		return 0;
	case OPT_NUMBER:
		if (!num_parse(str_of(value), o->min, o->max, o->into))
			return err_set(err, ERANGE, "--%s takes a number from %llu to %llu",
				       o->name, (unsigned long long)o->min,
				       (unsigned long long)o->max);
		return 0;
	}
	return 0;
}

/* With the word behind it as its value, where it needs one and has none. Returns how many words of
 * argv it took. */
static int take(const struct opt *o, const char *value, int argc, char **argv, struct err *err)
{
	bool needs = o->kind != OPT_FLAG && !value;

	if (o->kind == OPT_FLAG && value)
		return err_set(err, EINVAL, "--%s takes no value", o->name);
	if (needs && argc == 1)
		return err_set(err, EINVAL, "--%s needs a value", o->name);
	int r = opt_set(o, needs ? argv[1] : value, err);
	return r < 0 ? r : 1 + needs;
}

static int no_option(const char *word, struct err *err)
{
	return err_set(err, EINVAL, "there is no option '%s'", word);
}

static int take_name(const struct opt *opts, size_t n, int argc, char **argv, struct err *err)
{
	struct str name = str_of(argv[0] + 2);
	const char *value = strchr(name.data, '=');

	if (value)
		name.len = (size_t)(value++ - name.data);
	const struct opt *o = find_long(opts, n, name);
	return o ? take(o, value, argc, argv, err) : no_option(argv[0], err);
}

static int take_letters(const struct opt *opts, size_t n, int argc, char **argv, struct err *err)
{
	int taken = 1;

	for (const char *at = argv[0] + 1; *at && taken > 0; at++) {
		const struct opt *o = find_letter(opts, n, *at);
		if (!o)
			return no_option(argv[0], err);
		bool last = o->kind != OPT_FLAG;
		taken = take(o, last && at[1] ? at + 1 : NULL, argc, argv, err);
		if (last)
			break;
	}
	return taken;
}

/* *ret_ended: by "--", which is counted. */
static int parse(const struct opt *opts, size_t n, int argc, char **argv, bool *ret_ended,
		 struct err *err)
{
	int i = 0;

	*ret_ended = false;
	while (i < argc && argv[i][0] == '-' && argv[i][1]) {
		*ret_ended = strcmp(argv[i], "--") == 0;
		if (*ret_ended)
			return i + 1;
		int r = argv[i][1] == '-' ? take_name(opts, n, argc - i, argv + i, err)
					  : take_letters(opts, n, argc - i, argv + i, err);
		if (r < 0)
			return r;
		i += r;
	}
	return i;
}

int opt_parse(const struct opt *opts, size_t n, int argc, char **argv, struct err *err)
{
	bool ended;

	return parse(opts, n, argc, argv, &ended, err);
}

int opt_words(const struct cli_command *self, const struct opt *opts, size_t n_opts, int argc,
	      char **argv, int min, int max, const char **ret)
{
	bool plain = false;
	struct err err;
	int n = 0;

	for (int i = 0; i < argc || n < min;) {
		int at = plain ? 0 : parse(opts, n_opts, argc - i, argv + i, &plain, &err);
		if (at < 0)
			return cli_usage(self, "%s", err.text);
		i += at;
		if (i == argc && n >= min)
			break;
		if (i == argc || n == max)
			return cli_usage(self, NULL);
		ret[n++] = argv[i++];
	}
	return 0;
}
