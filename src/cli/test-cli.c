// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/listen.h"
#include "cli/paths.h"
#include "cli/session.h"

/* ---- Options --------------------------------------------------------------------------------- */

struct values {
	bool flag;
	const char *text;
	struct opt_list list;
	uint64_t number;
};

static int parse(struct values *v, const char *line, struct err *err)
{
	static char copy[512];
	char *argv[32];
	struct opt opts[] = {
		{ "flag", 'f', OPT_FLAG, &v->flag, 0, 0 },
		{ "text", 't', OPT_TEXT, &v->text, 0, 0 },
		{ "list", 'l', OPT_LIST, &v->list, 0, 0 },
		{ "number", 0, OPT_NUMBER, &v->number, 1, 60 },
	};
	struct str rest, word;
	int argc = 0;

	snprintf(copy, sizeof(copy), "%s", line);
	rest = str_of(copy);
	while (*line && str_split(&rest, ' ', &word)) {
		copy[word.data - copy + (ptrdiff_t)word.len] = '\0';
		argv[argc++] = copy + (word.data - copy);
	}
	return opt_parse(opts, ARRAY_SIZE(opts), argc, argv, err);
}

static void options_end_at_the_first_other_word(void **state)
{
	static const struct {
		const char *line;
		int at;
	} rows[] = {
		{ "", 0 },
		{ "word", 0 },
		{ "-f word --flag", 1 },
		{ "--flag -- -f", 2 },
		{ "--text a b", 2 },
		{ "--text=a b", 1 },
		{ "-t -x word", 2 },
		{ "-", 0 },
		{ "--", 1 },
		{ "--text -- word", 2 },
		{ "-ff word", 1 },
		{ "-ft a b", 2 },
		{ "-fta b", 1 },
		{ "-ta -lb -f word", 3 },
	};
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct values v = { 0 };
		int at = parse(&v, rows[i].line, &err);
		if (at != rows[i].at)
			fail_msg("'%s' ends at %d, not %d", rows[i].line, at, rows[i].at);
	}
}

static void options_take_their_values(void **state)
{
	struct values v = { 0 };
	struct err err;

	(void)state;
	assert_int_equal(parse(&v, "-f --text=a=b --list x -l y --number 60 z", &err), 8);
	assert_true(v.flag);
	assert_string_equal(v.text, "a=b");
	assert_int_equal(v.list.n, 2);
	assert_string_equal(v.list.items[1], "y");
	assert_int_equal(v.number, 60);

	v = (struct values){ 0 };
	assert_int_equal(parse(&v, "-fly -lx -ft word", &err), 4);
	assert_true(v.flag);
	assert_string_equal(v.text, "word");
	assert_int_equal(v.list.n, 2);
	assert_string_equal(v.list.items[0], "y");
	assert_string_equal(v.list.items[1], "x");
}

static void wrong_options_say_what_is_wrong(void **state)
{
	static const struct {
		const char *line, *text;
	} rows[] = {
		{ "--nope", "there is no option '--nope'" },
		{ "-x", "there is no option '-x'" },
		{ "-fx", "there is no option '-fx'" },
		{ "-ft", "--text needs a value" },
		{ "--text", "--text needs a value" },
		{ "--flag=1", "--flag takes no value" },
		{ "--number 0", "--number takes a number from 1 to 60" },
		{ "--number 61", "--number takes a number from 1 to 60" },
		{ "--number 1x", "--number takes a number from 1 to 60" },
		{ "--number=-1", "--number takes a number from 1 to 60" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct values v = { 0 };
		struct err err = { 0 };
		assert_true(parse(&v, rows[i].line, &err) < 0);
		assert_string_equal(err.text, rows[i].text);
	}
}

static void a_list_option_is_bounded(void **state)
{
	char *argv[2 * OPT_LIST_MAX + 2];
	struct opt_list list = { .n = 0 };
	const struct opt opt = { "list", 'l', OPT_LIST, &list, 0, 0 };
	static char name[] = "-l", value[] = "v";
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(argv); i++)
		argv[i] = i % 2 ? value : name;
	assert_int_equal(opt_parse(&opt, 1, 2 * OPT_LIST_MAX, argv, &err), 2 * OPT_LIST_MAX);
	list.n = 0;
	assert_int_equal(opt_parse(&opt, 1, 2 * OPT_LIST_MAX + 2, argv, &err), -E2BIG);
}

static void words_may_have_options_around_them(void **state)
{
	static const struct {
		const char *line;
		int status;
		const char *first, *second;
		bool flag;
	} rows[] = {
		{ "a b", 0, "a", "b", false },
		{ "-f a b", 0, "a", "b", true },
		{ "a -f b", 0, "a", "b", true },
		{ "a b -f", 0, "a", "b", true },
		{ "a", 0, "a", "second", false },
		{ "a -- -f", 0, "a", "-f", false },
		{ "-- -f -x", 0, "-f", "-x", false },
		{ "a -f --", 0, "a", "second", true },
		{ "-f", EXIT_USAGE, NULL, NULL, false },
		{ "a b c", EXIT_USAGE, NULL, NULL, false },
		{ "a -- b -f", EXIT_USAGE, NULL, NULL, false },
		{ "a -x", EXIT_USAGE, NULL, NULL, false },
		{ "-t -- a -f", 0, "a", "second", true },
		{ "-ft -- a", 0, "a", "second", true },
	};
	static const struct cli_command self = { "thing", "[-f] A [B]", "", NULL };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *words[2] = { "first", "second" };
		const char *text;
		bool flag = false;
		const struct opt opts[] = {
			{ "flag", 'f', OPT_FLAG, &flag, 0, 0 },
			{ "text", 't', OPT_TEXT, &text, 0, 0 },
		};
		char copy[64], *argv[8];
		int argc = 0;
		snprintf(copy, sizeof(copy), "%s", rows[i].line);
		char *rest;
		for (char *word = strtok_r(copy, " ", &rest); word;
		     word = strtok_r(NULL, " ", &rest))
			argv[argc++] = word;
		assert_int_equal(opt_words(&self, opts, ARRAY_SIZE(opts), argc, argv, 1, 2, words),
				 rows[i].status);
		if (rows[i].status)
			continue;
		assert_string_equal(words[0], rows[i].first);
		assert_string_equal(words[1], rows[i].second);
		assert_int_equal(flag, rows[i].flag);
	}
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static int ran_with;

static int note_run(const struct cli_command *self, int argc, char **argv)
{
	(void)self, (void)argv;
	ran_with = argc;
	return 42;
}

static void a_command_is_found_after_its_prefix(void **state)
{
	static const struct cli_command table[] = { { "thing do", "", "", note_run } };
	static char doit[] = "do", other[] = "thing", a[] = "a", b[] = "b";
	char *argv[] = { doit, a, b }, *wrong[] = { other };

	(void)state;
	assert_int_equal(cli_dispatch(table, 1, "thing ", 3, argv), 42);
	assert_int_equal(ran_with, 2);
	assert_int_equal(cli_dispatch(table, 1, "thing ", 1, wrong), EXIT_USAGE);
	assert_int_equal(cli_dispatch(table, 1, "thing ", 0, argv), EXIT_USAGE);
}

/* ---- Words for the shell --------------------------------------------------------------------- */

static char *through_shell(const char *line)
{
	static char out[512];
	int pipes[2];
	_cleanup_free_ char *script = mem_printf("printf '<%%s>' %s", line);

	assert_int_equal(pipe(pipes), 0);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(pipes[1], 1);
		execl("/bin/bash", "bash", "-c", script, (char *)NULL);
		_exit(127);
	}
	close(pipes[1]);
	ssize_t n, at = 0;
	while ((n = read(pipes[0], out + at, sizeof(out) - 1 - (size_t)at)) > 0)
		at += n;
	out[at] = '\0';
	close(pipes[0]);
	waitpid(pid, NULL, 0);
	return out;
}

static void quoted_words_come_out_of_a_shell_as_they_were(void **state)
{
	static char *const words[] = {
		(char *)(uintptr_t) "plain",
		(char *)(uintptr_t) "with blank",
		(char *)(uintptr_t) "it's",
		(char *)(uintptr_t) "",
		(char *)(uintptr_t) "$HOME `id`",
		(char *)(uintptr_t) "a\nb\tc",
		(char *)(uintptr_t) "*",
		(char *)(uintptr_t) "~",
		(char *)(uintptr_t) "\\\"!#;&|<>(){}[]?",
		(char *)(uintptr_t) "--x=y",
		(char *)(uintptr_t) "'''",
		(char *)(uintptr_t) "ü",
	};
	_cleanup_free_ char *line = session_quote(words, ARRAY_SIZE(words));
	_cleanup_buf_ struct buf expected = BUF(512);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		buf_printf(&expected, "<%s>", words[i]);
	assert_string_equal(through_shell(line), expected.data);
	_cleanup_free_ char *plain = session_quote(words, 1);
	assert_string_equal(plain, "plain");
}

static void an_assignment_takes_its_value_or_the_callers_variable(void **state)
{
	json_t *object = json_object();
	struct err err;

	(void)state;
	setenv("TEST_CLI", "from outside", 1);
	unsetenv("TEST_CLI_NOT");
	assert_int_equal(session_assignment(object, "A=b=c", &err), 0);
	assert_int_equal(session_assignment(object, "E=", &err), 0);
	assert_int_equal(session_assignment(object, "TEST_CLI", &err), 0);
	assert_string_equal(json_string_value(json_object_get(object, "A")), "b=c");
	assert_string_equal(json_string_value(json_object_get(object, "E")), "");
	assert_string_equal(json_string_value(json_object_get(object, "TEST_CLI")), "from outside");
	assert_true(session_assignment(object, "TEST_CLI_NOT", &err) < 0);
	assert_true(session_assignment(object, "B=\xff", &err) < 0);
	json_decref(object);
}

/* ---- Addresses, names ------------------------------------------------------------------------ */

static void the_url_of_a_listener_is_reachable_from_here(void **state)
{
	static const struct {
		const char *listen, *url;
	} rows[] = {
		{ "127.0.0.1:8000", "http://127.0.0.1:8000" },
		{ "0.0.0.0:80", "http://127.0.0.1:80" },
		{ "[::]:80", "http://[::1]:80" },
		{ "[::1]:80", "http://[::1]:80" },
		{ "unix:/run/x", "unix:/run/x" },
		{ "localhost:1", "http://localhost:1" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_free_ char *url = listen_url(rows[i].listen);
		assert_string_equal(url, rows[i].url);
	}
}

static void a_listener_can_be_opened_and_its_stale_file_replaced(void **state)
{
	char dir[] = "/tmp/test-cli-XXXXXX";
	struct err err;
	int fd, again;

	(void)state;
	assert_non_null(mkdtemp(dir));
	_cleanup_free_ char *text = mem_printf("unix:%s/s", dir);
	_cleanup_free_ char *file = mem_printf("unix:%s/f", dir);
	assert_int_equal(listen_open("X", text, &fd, &err), 0);
	/* Somebody listens there. */
	assert_true(listen_open("X", text, &again, &err) < 0);
	close(fd);
	assert_int_equal(listen_open("X", text, &fd, &err), 0);
	close(fd);
	unlink(text + 5);
	/* Anything else at the place is left alone. */
	FILE *f = fopen(file + 5, "w");
	assert_non_null(f);
	fclose(f);
	assert_true(listen_open("X", file, &fd, &err) < 0);
	assert_int_equal(access(file + 5, F_OK), 0);
	unlink(file + 5);
	rmdir(dir);
	assert_int_equal(listen_open("X", "127.0.0.1:0", &fd, &err) < 0 ? 1 : (close(fd), 0), 1);
}

static void names_of_images_are_plain(void **state)
{
	static const struct {
		const char *name;
		bool good;
	} rows[] = {
		{ "sandbox-base:latest", true },
		{ "python:3.11-slim", true },
		{ "", false },
		{ "../x", false },
		{ "a/b", false },
		{ ".hidden", false },
		{ "-x", false },
		{ "a b", false },
		{ "a\n", false },
		{ "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", true },
		{ "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(paths_image_name_ok(rows[i].name), rows[i].good);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_end_at_the_first_other_word),
		cmocka_unit_test(options_take_their_values),
		cmocka_unit_test(wrong_options_say_what_is_wrong),
		cmocka_unit_test(a_list_option_is_bounded),
		cmocka_unit_test(words_may_have_options_around_them),
		cmocka_unit_test(a_command_is_found_after_its_prefix),
		cmocka_unit_test(quoted_words_come_out_of_a_shell_as_they_were),
		cmocka_unit_test(an_assignment_takes_its_value_or_the_callers_variable),
		cmocka_unit_test(the_url_of_a_listener_is_reachable_from_here),
		cmocka_unit_test(a_listener_can_be_opened_and_its_stale_file_replaced),
		cmocka_unit_test(names_of_images_are_plain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
