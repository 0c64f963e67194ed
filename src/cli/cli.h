// SPDX-License-Identifier: Apache-2.0
/*
 * cli: the program `airlock`. A table of commands (main.c), each a function that gets the words
 * after its name and returns the exit status: 0 done, 1 failed ("airlock: <sentence>" on stderr), 2
 * used wrongly, or what the command itself documents (run and exec: the status of the command
 * inside).
 *
 * One thread, heap, stdio; nothing here runs with more rights than its caller, but serve and the
 * embedded server of run, which need root.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define EXIT_FAILED 1
#define EXIT_USAGE 2
/* As timeout(1) and as a shell says that a command was killed. */
#define EXIT_TIMED_OUT 124
#define EXIT_OUT_OF_MEMORY 137
#define EXIT_INTERRUPTED 130

struct cli_command {
	const char *name;
	const char *usage;   /* what follows the name */
	const char *summary; /* one line for the overview */
	int (*run)(const struct cli_command *self, int argc, char **argv);
};

/* A copy that no terminal takes for orders: control characters are question marks. Owned by the
 * caller. What a server sends, or what another user of this host may have named, is printed so. */
char *cli_plain(const char *text);
/* Prints "airlock: <sentence>" and returns EXIT_FAILED. */
int cli_fail(const struct err *err);
/* Prints the sentence, if any, and how the command is used; returns EXIT_USAGE. */
int cli_usage(const struct cli_command *self, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Finds argv[0] in the table and runs it; prefix is what was typed before it ("sandbox "). */
int cli_dispatch(const struct cli_command *table, size_t n, const char *prefix, int argc,
		 char **argv);

/* ---- Options ---- */

enum opt_kind { OPT_FLAG, OPT_TEXT, OPT_LIST, OPT_NUMBER };

#define OPT_LIST_MAX 64

struct opt_list {
	const char *items[OPT_LIST_MAX]; /* borrowed from argv */
	size_t n;
};

struct opt {
	const char *name; /* without the dashes */
	char letter;	  /* 0: none */
	enum opt_kind kind;
	void *into; /* bool, const char *, struct opt_list, uint64_t */
	uint64_t min, max;
};

/* Takes the options in front of the first other word ("--" ends them too) and returns the index of
 * that word; negative: *err says what is wrong. "--name value", "--name=value", "-x value",
 * "-xvalue", "-abx value" (POSIX.1-2017, XBD 12.2, guideline 5). */
int opt_parse(const struct opt *opts, size_t n, int argc, char **argv, struct err *err);

/* All of a command's words: min to max of them, with the options before, between and after ("--"
 * ends those for good). ret has room for max; those not given stay as they are. Returns 0, or the
 * exit status of wrong use, which has been printed. */
int opt_words(const struct cli_command *self, const struct opt *opts, size_t n_opts, int argc,
	      char **argv, int min, int max, const char **ret);

/* ---- The commands ---- */

int cmd_serve(const struct cli_command *self, int argc, char **argv);
int cmd_run(const struct cli_command *self, int argc, char **argv);
int cmd_status(const struct cli_command *self, int argc, char **argv);
int cmd_doctor(const struct cli_command *self, int argc, char **argv);
int cmd_sandbox(const struct cli_command *self, int argc, char **argv);
int cmd_snapshots(const struct cli_command *self, int argc, char **argv);
int cmd_files(const struct cli_command *self, int argc, char **argv);
int cmd_image(const struct cli_command *self, int argc, char **argv);
int cmd_volume(const struct cli_command *self, int argc, char **argv);
int cmd_keys(const struct cli_command *self, int argc, char **argv);
int cmd_backup(const struct cli_command *self, int argc, char **argv);
int cmd_restore(const struct cli_command *self, int argc, char **argv);
int cmd_audit(const struct cli_command *self, int argc, char **argv);
int cmd_usage(const struct cli_command *self, int argc, char **argv);
int cmd_policy(const struct cli_command *self, int argc, char **argv);
int cmd_health(const struct cli_command *self, int argc, char **argv);
