// SPDX-License-Identifier: Apache-2.0
/*
 * state: the state directory that a command on the server's host means. It is the first of
 *
 *   --state-dir DIR
 *   SANDBOX_STATE_DIR in the environment
 *   SANDBOX_STATE_DIR in the file of --config, or in STATE_CONFIG where there is one
 *   STATE_DIR
 *
 * The environment beats the file as it does for `airlock serve`. A file is read, and one that
 * cannot be read is an error, only when nothing above it decides. state_variable finds any other
 * variable of the server in the same two places.
 */
#pragma once

#include "cli/cli.h"

#define STATE_CONFIG "/etc/airlock/airlock.conf"
#define STATE_DIR "/var/lib/airlock"

struct state_choice {
	const char *dir, *config; /* of the options; NULL: not given */
};

#define STATE_USAGE "--state-dir DIR | --config FILE"
#define STATE_OPTS(choice) \
	{ "state-dir", 0, OPT_TEXT, &(choice).dir, 0, 0 }, \
	{ \
		"config", 0, OPT_TEXT, &(choice).config, 0, 0 \
	}

/* Owned by the caller; NULL: *err says why. */
char *state_find(const struct state_choice *choice, struct err *err);
/* file: NULL for STATE_CONFIG where there is one. *ret is owned by the caller, NULL: unset. */
int state_variable(const char *name, const char *file, char **ret, struct err *err);
